//! Files that are not what they seem: refused in words, never a panic.

use hone_foreign::read;

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
