//! External verifiers that work, crash, hang, babble and flood.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use hone_arena::rewards::command::Verifier;
use hone_arena::rewards::{Case, Component};
use hone_trace::Verdict;
use serde_json::json;

async fn verify(script: &str, deadline_s: f64) -> Verdict {
    let verifier = Verifier {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        directory: None,
        deadline_s,
        variables: Vec::new(),
    };
    let completion = "long enough to fill a pipe ".repeat(20_000);
    verifier.verdict(&Case::read(json!({"id": 7, "completion": completion})).unwrap()).await
}

#[track_caller]
fn assert_unscored(verdict: &Verdict, code: &str) {
    match verdict {
        Verdict::Unscored { unscored, .. } if unscored.starts_with(code) => {}
        other => panic!("expected unscored with {code}, found {other:?}"),
    }
}

#[tokio::test]
async fn a_verdict_is_read_and_the_case_is_given() {
    let good =
        verify(r#"grep -q '"id":7,"completion":"long enough' && echo '{"value": 0.5, "why": "half"}'"#, 30.0).await;
    assert_eq!(good, Verdict::scored(0.5, "verifier: half"));
    // It need not read its input.
    assert!(matches!(verify(r#"echo '{"value": 1}'"#, 30.0).await, Verdict::Scored { value: 1.0, .. }));
    assert_unscored(&verify(r#"echo '{"unscored": "no test data"}'"#, 30.0).await, "verifier: no test data");
    assert_unscored(&verify(r#"echo '{"unscored": "not_applicable: x"}'"#, 30.0).await, "verifier: not_applicable");
    let early = verify(r#"echo '{"unscored": "nothing to test", "not_applicable": true}'"#, 30.0).await;
    assert_eq!(early, Verdict::NotApplicable { why: "verifier: nothing to test".into() });
}

#[tokio::test]
async fn faults_are_unscored_with_their_reason() {
    let crash = verify("cat > /dev/null; echo 'assert failed: boom' >&2; exit 3", 30.0).await;
    assert_unscored(&crash, "verifier_failed: exit status: 3: assert failed: boom");
    assert_unscored(&verify("cat > /dev/null; kill -SEGV $$", 30.0).await, "verifier_failed: signal: 11");
    assert_unscored(&verify("echo pass", 30.0).await, "verifier_form: ");
    assert_unscored(&verify(r#"echo '{"value": 1}{"value": 0}'"#, 30.0).await, "verifier_form: ");
    assert_unscored(&verify(r#"echo '{"value": "1"}'"#, 30.0).await, "verifier_form: ");
    assert_unscored(&verify(":", 30.0).await, "verifier_form: ");
    let nobody =
        Verifier { command: vec!["/no/such/program".into()], directory: None, deadline_s: 30.0, variables: Vec::new() };
    assert_unscored(&nobody.verdict(&Case::default()).await, "verifier_spawn: ");
    let empty = Verifier { command: Vec::new(), directory: None, deadline_s: 30.0, variables: Vec::new() };
    assert_unscored(&empty.verdict(&Case::default()).await, "verifier_spawn: ");
}

#[tokio::test]
async fn fifty_megabytes_are_not_read() {
    for stream in ["", ">&2"] {
        let flood = verify(&format!("head -c 52428800 /dev/zero {stream}"), 60.0).await;
        assert_unscored(&flood, "verifier_output: more than 1048576 bytes");
    }
}

/// The program and what it started are gone when the deadline has passed: the lock they held is free.
#[tokio::test]
async fn a_hang_is_killed_with_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let file = std::fs::File::create(&lock).unwrap();
    drop(file);
    let script = format!("exec 9<'{}'; flock -x 9; (sleep 1000) & sleep 1000", lock.display());
    assert_unscored(&verify(&script, 1.0).await, "verifier_deadline: ");
    // Blocks until the last holder is dead; if one were left alive, this test would not end.
    std::fs::File::open(&lock).unwrap().lock().unwrap();
}

/// The same if its descendants left the process group, cleared their variables, or became daemons.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hang_is_killed_with_what_left_its_group() {
    for leaves in [
        "setsid sleep 1000 & sleep 1000",
        "env -i setsid sleep 1000 & sleep 1000",
        "(setsid sh -c 'sleep 1000 &'); sleep 1000",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        drop(std::fs::File::create(&lock).unwrap());
        let script = format!("exec 9<'{}'; flock -x 9; {leaves}", lock.display());
        assert_unscored(&verify(&script, 1.0).await, "verifier_deadline: ");
        std::fs::File::open(&lock).unwrap().lock().unwrap();
    }
}
