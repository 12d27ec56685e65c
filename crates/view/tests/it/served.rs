//! HTTP server: access, and the pages' content security policy.

use std::sync::Arc;

use hone_view::server::{Server, Settings};
use hone_view::site::Site;

use crate::made::Made;
use crate::webdriver::http;

/// A server of a run; it ends with the runtime that is returned.
pub(crate) fn serve(run: &std::path::Path, token: Option<&str>) -> (tokio::runtime::Runtime, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let site = Arc::new(Site::open(&[run.to_owned()]).unwrap());
    let settings = Settings { addr: "127.0.0.1:0".parse().unwrap(), token: token.map(str::to_owned) };
    let server = runtime.block_on(Server::bind(site, settings)).unwrap();
    let addr = server.addr().to_string();
    runtime.spawn(server.serve());
    (runtime, addr)
}

fn get(addr: &str, path: &str, headers: &str) -> (u16, String) {
    http(addr, &format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n"))
}

#[test]
fn pages_come_with_a_policy_that_runs_nothing_of_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let (_runtime, addr) = serve(directory.path(), None);
    let host = format!("host: {addr}\r\n");
    let (status, answer) = get(&addr, "/r/0/trace/14", &host);
    assert_eq!(status, 200);
    assert!(
        answer.contains("content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'"),
        "{answer}"
    );
    assert_eq!(get(&addr, "/no/such/page", &host).0, 404);
    assert_eq!(get(&addr, "/r/0/trace/999999", &host).0, 404);
    for file in ["/style.css", "/script.js"] {
        assert_eq!(get(&addr, file, &host).0, 200);
    }
    assert_eq!(http(&addr, &format!("POST / HTTP/1.1\r\n{host}content-length: 0\r\nconnection: close\r\n\r\n")).0, 405);
}

#[test]
fn a_run_that_was_deleted_is_no_longer_shown() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let _made = Made::whole(&run);
    let (_runtime, addr) = serve(&run, None);
    let host = format!("host: {addr}\r\n");
    assert_eq!(get(&addr, "/", &host).0, 200);
    std::fs::rename(&run, directory.path().join("elsewhere")).unwrap();
    let (status, answer) = get(&addr, "/", &host);
    assert!(status == 410 && answer.contains("is gone; put it back, or stop this viewer"), "{status}: {answer}");
}

#[test]
fn prometheus_reads_the_newest_values() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let _made = Made::whole(&run);
    let (_runtime, addr) = serve(&run, None);
    let (status, answer) = get(&addr, "/metrics", &format!("host: {addr}\r\n"));
    assert_eq!(status, 200);
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{answer}");
    for line in [
        "# TYPE hone_step gauge",
        "hone_step{run=\"run\"} 6",
        "hone_steps_planned{run=\"run\"} 6",
        "# HELP hone_reward_signal_ratio reward/signal_ratio of the newest step.",
        "hone_reward_signal_ratio{run=\"run\"} 0.5",
        "hone_tokens_sampled{run=\"run\"} 320",
        "# TYPE hone_tokens_sampled_total counter",
        "hone_tokens_sampled_total{run=\"run\"} 1920",
        "hone_eval_greedy_success{run=\"run\"} 0.8500000000000001",
    ] {
        assert!(answer.contains(&format!("\n{line}\n")), "{line} is not in {answer}");
    }
    assert!(!answer.contains("policy_kl"), "absent is not zero");
}

#[test]
fn a_page_elsewhere_that_points_its_name_here_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let (_runtime, addr) = serve(directory.path(), None);
    assert_eq!(get(&addr, "/", "host: evil.example:7878\r\n").0, 403);
    assert_eq!(get(&addr, "/", "host: localhost:7878\r\n").0, 200);
    assert_eq!(get(&addr, "/", "host: [::1]:7878\r\n").0, 200);
}

#[test]
fn a_token_is_asked_of_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let (_runtime, addr) = serve(directory.path(), Some("open sesame"));
    let host = format!("host: {addr}\r\n");
    for path in ["/", "/live", "/script.js", "/?token=open", "/?token="] {
        assert_eq!(get(&addr, path, &host).0, 401, "{path}");
    }
    let (status, answer) = get(&addr, "/?token=open%20sesame", &host);
    assert_eq!(status, 200);
    assert!(answer.contains("set-cookie: hone=open%20sesame; HttpOnly; SameSite=Strict"), "{answer}");
    assert_eq!(get(&addr, "/r/0", &format!("{host}cookie: a=b; hone=open%20sesame\r\n")).0, 200);
}

#[test]
fn beyond_loopback_there_is_no_server_without_a_token() {
    let settings =
        |addr: &str, token: Option<&str>| Settings { addr: addr.parse().unwrap(), token: token.map(str::to_owned) };
    assert!(settings("0.0.0.0:80", None).check().unwrap_err().contains("--token"));
    assert!(settings("192.0.2.1:80", Some("short")).check().is_err());
    assert!(settings("0.0.0.0:80", Some("long enough")).check().is_ok());
    assert!(settings("127.0.0.1:80", None).check().is_ok() && settings("[::1]:80", None).check().is_ok());
}
