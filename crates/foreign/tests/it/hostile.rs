//! Files that are not what they seem: refused in words, never a panic.

use hone_foreign::{Record, read};

use crate::data;

fn refused(name: &str, bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    read(&path).unwrap_err().to_string()
}

#[test]
fn strangers_are_refused_with_what_is_known() {
    for (name, bytes) in
        [("a.txt", &b"hello"[..]), ("a.jsonl", b"{\"x\": 1}\n"), ("a.jsonl", b""), ("a.parquet", b"PAR1")]
    {
        let error = refused(name, bytes);
        assert!(error.contains("TRL") && error.contains("W&B"), "{error}");
    }
}

/// Every single byte of a parquet file changed, and every prefix of it: read, or refused.
#[test]
fn a_damaged_table_is_no_panic() {
    let whole = std::fs::read(data("trl-plain.parquet")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let _ = read(&path);
        if at % 18 == 0 {
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path).is_err());
        }
    }
}

#[test]
fn a_broken_line_is_named() {
    let error = refused("a.jsonl", b"{\"trajectories\": []}\n{\"traj\n{\"trajectories\": []}\n");
    assert!(error.contains("line 2"), "{error}");
}

/// A record of one file, as it was changed.
fn changed(name: &str, text: &str) -> Record {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path).unwrap()
}

fn row(number: usize, reward: &str) -> String {
    format!("{{\"example_id\": {}, \"completion\": \"a{number}\"{reward}}}\n", number / 2)
}

/// Lines that are no episode are counted in a note; an episode without a reward stays, and is unscored.
#[test]
fn nothing_is_left_out_without_a_word() {
    let whole: String = (0..4).map(|number| row(number, ", \"reward\": 1.0")).collect();
    assert!(changed("results.jsonl", &whole).notes.is_empty());
    for (text, episodes, scored, note) in [
        (format!("{}{whole}", row(9, "")), 5, 4, Some("1 of its episodes without a reward")),
        (format!("{whole}3\n[1]\n{{\"x\": 1}}\n"), 4, 4, Some("2 of its lines left out: no objects")),
        (format!("{whole}{{\"traces\": {{}}}}\n"), 4, 4, Some("1 of its lines left out: no episodes")),
        (whole[..whole.len() - 9].to_owned(), 3, 3, Some("line 4, the last one, is cut off")),
        (format!("\u{feff}\n\n{whole}"), 4, 4, None),
        (format!("{}{whole}", row(0, ", \"reward\": NaN")), 5, 4, None),
    ] {
        let record = changed("results.jsonl", &text);
        let found = record.episodes.iter().filter(|episode| episode.total.is_some()).count();
        assert_eq!((record.episodes.len(), found), (episodes, scored), "{text}");
        let said = record.notes.join("; ");
        assert!(note.map_or(said.is_empty(), |note| said.contains(note)), "{text}: {said}");
    }
    let list = format!("[{}]", whole.trim().replace('\n', ","));
    assert_eq!(changed("results.json", &list).episodes.len(), 4);
}

/// A prompt that is missing makes no sibling, and an ending that is not recorded is not a good one.
#[test]
fn a_dump_without_prompts_or_endings() {
    let row = |prompt: &str| format!("{{{prompt}\"output_response\": \"a\", \"score\": 1.0}}\n");
    let text = [row("\"input_prompt\": \"q\", "), row("\"input_prompt\": \"q\", "), row(""), row("")].concat();
    let record = changed("dump.jsonl", &text);
    assert_eq!((record.episodes.len(), record.group_size()), (4, 2));
    assert_eq!(record.lacks("truncated"), Some("how each episode ended (a stop reason)"));
}

#[test]
fn a_packed_file_is_to_be_unpacked() {
    let error = refused("results.jsonl.gz", &[0x1f, 0x8b, 8, 0]);
    assert!(error.contains("is compressed; unpack it first"), "{error}");
}
