//! Upload to W&B's server: its requests, and a run whose server fails.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hone_view::exports::live::Logs;
use hone_view::exports::wandb::{Account, send};
use serde_json::{Value, json};

use crate::made::{Made, STEPS};

const KEY: &str = "0123456789abcdef-a-key-of-nobody";

/// A request as it came: path, authorization, body.
type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A stand-in that knows `known` rows of every run and answers with this status.
fn stand_in(status: u16, known: usize) -> (Account, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head.push_str(&std::mem::take(&mut line));
            }
            let field = |name: &str| {
                let found = head.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()));
                found.unwrap_or_default()
            };
            let mut body = vec![0; field("content-length:").parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().push((path, field("authorization:"), serde_json::from_slice(&body).unwrap()));
            let project = json!({"name": "hone", "entity": {"name": "me"}});
            let bucket = json!({"name": "x", "historyLineCount": known, "project": project});
            // A server that echoes its input: the key must not leak that way.
            let answer =
                if status == 200 { json!({"data": {"upsertBucket": {"bucket": bucket}}}) } else { json!({"key": KEY}) };
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
            reader.into_inner().write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    (Account { server, key: KEY.to_owned() }, asked)
}

fn logs(root: &Path, account: Account) -> Logs {
    Logs::new(&root.join("run"), None, Some(&root.join("wandb"))).online(account)
}

fn content<'a>(body: &'a Value, file: &str) -> Vec<&'a str> {
    let lines = body["files"][file]["content"].as_array();
    lines.into_iter().flatten().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn rows_are_sent_once_and_the_end_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let (account, asked) = stand_in(200, 0);
    let mut logs = logs(directory.path(), account);
    let mut made = Made::begin(&directory.path().join("run"));
    made.evaluation(0);
    for step in 1..=STEPS {
        made.step(step);
        assert!(logs.update(None).is_empty());
    }
    assert!(logs.finish().is_empty());
    let asked = asked.lock().unwrap();
    let (path, authorization, begin) = &asked[0];
    // base64 of "api:" and the key, computed by another program.
    assert_eq!((&**path, &**authorization), ("/graphql", "Basic YXBpOjAxMjM0NTY3ODlhYmNkZWYtYS1rZXktb2Ytbm9ib2R5"));
    assert_eq!((&begin["variables"]["project"], &begin["variables"]["displayName"]), (&"hone".into(), &"run".into()));
    let config: Value = serde_json::from_str(begin["variables"]["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["train"]["value"]["steps"], 6);
    let mut steps = Vec::new();
    for (path, _, body) in &asked[1..] {
        assert!(path.starts_with("/files/me/hone/") && path.ends_with("/file_stream"), "{path}");
        let rows = content(body, "wandb-history.jsonl");
        if let Some(last) = rows.last() {
            assert_eq!(body["files"]["wandb-history.jsonl"]["offset"], steps.len());
            assert_eq!(content(body, "wandb-summary.json"), [*last]);
        }
        steps.extend(rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap()["_step"].as_u64().unwrap()));
    }
    assert_eq!(steps, (0..=STEPS).collect::<Vec<_>>());
    assert_eq!(asked.last().unwrap().2, json!({"complete": true, "exitcode": 0}));
}

#[test]
fn rows_that_the_server_has_are_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(&directory.path().join("run")));
    let (account, asked) = stand_in(200, 3);
    assert!(logs(directory.path(), account).finish().is_empty());
    let asked = asked.lock().unwrap();
    let body = &asked[1].2;
    assert_eq!(body["files"]["wandb-history.jsonl"]["offset"], 3);
    assert_eq!(content(body, "wandb-history.jsonl").len(), 4);
}

#[test]
fn a_server_that_refuses_is_said_once_without_the_key_and_the_file_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(&directory.path().join("run")));
    let (account, asked) = stand_in(401, 0);
    let mut logs = logs(directory.path(), account);
    let mut warnings = Vec::new();
    while warnings.is_empty() {
        warnings = logs.update(None);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(warnings.len() == 1 && warnings[0].contains("answered 401") && warnings[0].contains("; the run continues"));
    assert!(!warnings[0].contains(KEY), "{warnings:?}");
    assert!(logs.update(None).is_empty() && logs.finish().is_empty());
    // A refusal is permanent: one request.
    assert_eq!(asked.lock().unwrap().len(), 1);
    let file = std::fs::read_dir(directory.path().join("wandb")).unwrap().next().unwrap().unwrap();
    assert!(file.file_name().to_string_lossy().starts_with("offline-run-"));
}

#[test]
fn an_export_sends_the_whole_run_and_the_next_one_only_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(&directory.path().join("run")));
    let run = hone_view::run::Run::open(&directory.path().join("run")).unwrap();
    let (account, asked) = stand_in(200, 0);
    let server = account.server.clone();
    let place = send(&run, account).unwrap();
    assert!(place.ends_with(&format!(" of the project hone on {server}")), "{place}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 3, "the run, its rows, its end");
    let steps: Vec<u64> = content(&asked[1].2, "wandb-history.jsonl")
        .iter()
        .map(|row| serde_json::from_str::<Value>(row).unwrap()["_step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (0..=STEPS).collect::<Vec<_>>());
    assert_eq!(asked[2].2, json!({"complete": true, "exitcode": 0}));
    let (account, again) = stand_in(200, STEPS as usize + 1);
    send(&run, account).unwrap();
    let again = again.lock().unwrap();
    assert_eq!(again[0].2["variables"]["name"], asked[0].2["variables"]["name"], "it is the same run");
    assert!(again[1..].iter().all(|(_, _, body)| content(body, "wandb-history.jsonl").is_empty()), "{again:?}");
}

#[test]
fn an_export_that_is_refused_says_so_without_the_key() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(&directory.path().join("run")));
    let run = hone_view::run::Run::open(&directory.path().join("run")).unwrap();
    let error = send(&run, stand_in(401, 0).0).unwrap_err();
    assert!(error.contains("answered 401") && !error.contains(KEY), "{error}");
}
