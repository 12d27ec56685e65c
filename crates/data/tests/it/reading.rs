//! Every input format, and the issues reported for rows that cannot be used as they are.

use hone_data::IssueKind::{Dropped, Repaired};
use hone_trace::Side;
use serde_json::json;

fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    (directory, path.display().to_string())
}

#[test]
fn a_bad_row_is_named_by_file_line_field_reason_and_fix_and_costs_only_itself() {
    let good = |key: &str| json!({"key": key, "env": "e", "prompt": key}).to_string();
    let lines = [
        good("a"),
        "{\"key\": \"b\", ".into(),
        json!({"key": "c", "env": "e"}).to_string(),
        json!({"key": "d", "env": "e", "prompt": "d", "env_variables": [1]}).to_string(),
        String::new(),
        good("a"),
        json!({"key": "a", "env": "e", "prompt": "another"}).to_string(),
        "[1, 2]".into(),
        json!({"key": "e", "env": "e", "prompt": "e", "difficulty": "2"}).to_string(),
        good("f"),
    ];
    let (_directory, path) = written("tasks.jsonl", &lines.join("\n"));
    let (rows, issues) = crate::read(&[&path], None);
    let keys: Vec<&str> = rows.iter().map(|row| row.task.key.as_str()).collect();
    assert_eq!(keys, ["a", "e", "f"]);
    let found: Vec<_> = issues.iter().map(|issue| (issue.line, issue.field.as_str(), issue.kind)).collect();
    assert_eq!(
        found,
        [
            (2, "", Dropped),
            (3, "prompt", Dropped),
            (4, "env_variables", Dropped),
            (6, "key", Dropped),
            (7, "key", Dropped),
            (8, "", Dropped),
            (9, "difficulty", Repaired)
        ]
    );
    assert!(issues.iter().all(|issue| issue.file == path && !issue.reason.is_empty() && !issue.fix.is_empty()));
}

#[test]
fn sides_come_from_the_row_the_label_or_the_name() {
    let row = |key: &str| json!({"key": key, "env": "e", "prompt": key}).to_string();
    let (_one, train) = written("train.jsonl", &row("a"));
    let (_two, plain) = written(
        "tasks.jsonl",
        &format!("{}\n{}", row("b"), json!({"key": "c", "env": "e", "prompt": "c", "split": "test"})),
    );
    let (rows, _) = crate::read(&[&train, &format!("train={plain}")], None);
    assert_eq!(
        rows.iter().map(|row| row.side).collect::<Vec<_>>(),
        [Some(Side::Train), Some(Side::Train), Some(Side::Eval)]
    );
}

#[test]
fn compressed_lines_read_as_plain_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.jsonl.zst");
    let text = json!({"key": "a", "env": "e", "prompt": "p"}).to_string();
    std::fs::write(&path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    assert_eq!(crate::read(&[directory.path().to_str().unwrap()], None).0.len(), 1);
}

#[test]
fn a_file_in_another_form_is_refused_with_the_way_to_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("[{}]".bytes().flat_map(|byte| [byte, 0])).collect();
    let zst = zstd::encode_all(&b"{}"[..], 1).unwrap();
    for (bytes, way) in [
        (&[0x1f, 0x8b, 8, 0][..], "gunzip"),
        (&zst, ".zst"),
        (&utf16, "UTF-8"),
        (b"PAR1", ".parquet"),
        (b"PK\x03\x04", "unpack"),
    ] {
        let path = directory.path().join("tasks.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let inputs = hone_data::read::Inputs::open(&[path.to_str().unwrap()]).unwrap();
        let mut reader = hone_data::read::Reader::default();
        let error = reader.read(&inputs, &mut |_| panic!("nothing of it is a row")).unwrap_err().to_string();
        assert!(error.contains("tasks.jsonl") && error.contains(way), "{error}");
    }
}

/// Written by pyarrow: dictionaries, lists of structs, maps, decimals, times, bytes and nulls.
#[cfg(feature = "parquet")]
#[test]
fn parquet_rows_are_read_whatever_their_columns() {
    let file = |name: &str| hone_testdata::committed("parquet").join(name).display().to_string();
    let (rows, issues) = crate::read(&[&file("skyrl-rows.parquet"), &file("our-rows.parquet")], None);
    let found: Vec<(&str, &str, &str)> =
        rows.iter().map(|row| (row.task.key.as_str(), row.task.env.as_str(), row.task.prompt.as_str())).collect();
    assert_eq!(found, [("a", "booking", "Book a room."), ("b", "outlook", "Zwölf Äpfel, bitte."), ("k", "shop", "p")]);
    assert_eq!((rows[0].task.variables["CURRENT_DATE"].as_str(), rows[0].task.difficulty), ("2025-01-31", Some(1)));
    assert_eq!(rows[0].task.extra["tags"], json!({"x": "1"}));
    assert!(rows[0].task.extra["created"].as_str().is_some_and(|time| time.starts_with("2025-01-31 12:00")));
    assert_eq!(
        (rows[0].task.extra["price"].as_str(), rows[1].task.extra.get("score")),
        (Some("1.25"), Some(&json!(null)))
    );
    assert_eq!((rows[2].side, rows[2].task.reference.as_ref().map(Vec::len)), (Some(Side::Eval), Some(1)));
    let told: Vec<_> = issues.iter().map(|issue| (issue.line, issue.field.as_str(), issue.kind)).collect();
    assert_eq!(told, [(2, "prompt", Repaired), (3, "prompt", Dropped)]);
}

#[cfg(not(feature = "cloud"))]
#[test]
fn buckets_without_the_feature_are_refused_with_its_name() {
    let error = hone_data::read::Inputs::open(&["s3://bucket/tasks.json"]).unwrap_err().to_string();
    assert!(error.contains("--features cloud"), "{error}");
    let error = hone_data::read::Inputs::open(&["ftp://host/tasks.json"]).unwrap_err().to_string();
    assert!(error.contains("s3://"), "{error}");
}

/// scripts/bucket.py starts the server, uploads three tasks and names them in this variable.
#[cfg(feature = "cloud")]
#[test]
#[ignore = "needs an S3 server (scripts/bucket.py starts one)"]
fn a_bucket_is_read_and_what_is_not_there_is_told() {
    let url = std::env::var("HONE_TEST_BUCKET").unwrap();
    let (rows, issues) = crate::read(&[&format!("eval={url}/tasks.jsonl"), &format!("{url}/train.jsonl.zst")], None);
    let found: Vec<_> = rows.iter().map(|row| (row.task.key.as_str(), row.side)).collect();
    assert_eq!(found, [("a", Some(Side::Eval)), ("b", Some(Side::Eval)), ("c", Some(Side::Train))]);
    assert_eq!((issues.len(), issues[0].line, issues[0].file.as_str()), (1, 3, &*format!("{url}/tasks.jsonl")));
    let missing = format!("{url}/none.jsonl");
    let error = hone_data::read::Inputs::open(&[&missing]).unwrap_err().to_string();
    assert!(error.contains(&missing) && error.contains("not found"), "{error}");
}

/// A server with one answer per request, on a local port.
#[test]
fn http_is_fetched_and_its_refusals_are_told() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n[{\"key\": \"a\", \"env\": \"e\", \"prompt\": \"p\"}] ",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let (rows, issues) = crate::read(&[&format!("http://{address}/tasks.json")], None);
    assert_eq!((rows.len(), issues.len()), (1, 0));
    let error = hone_data::read::Inputs::open(&[format!("http://{address}/none.json")]).unwrap_err().to_string();
    assert!(error.contains("404"), "{error}");
    server.join().unwrap();
}

#[test]
#[ignore = "needs tau-bench's data (see CONTRIBUTING.md)"]
fn tau_benchs_and_tau2s_files_are_read_as_they_are() {
    let directory = |name: &str| hone_testdata::third_party(name).display().to_string();
    let (rows, issues) = crate::read(&[&directory("data/tau/tau-bench/retail")], None);
    let of = |side| rows.iter().filter(|row| row.side == Some(side)).count();
    assert_eq!((issues.len(), of(Side::Train), of(Side::Eval)), (0, 500, 135), "{:?}", issues.first());
    assert!(rows.iter().all(|row| row.task.env == "retail" && row.task.reference.is_some()));
    let (rows, issues) = crate::read(&[&directory("data/tau/tau2-bench/airline")], None);
    let of = |side| rows.iter().filter(|row| row.side == Some(side)).count();
    assert_eq!((issues.len(), of(Side::Train), of(Side::Eval)), (0, 30, 20));
}
