//! A browser, driven over WebDriver: HTTP and JSON, just enough for these tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Status and whole answer of one request.
pub(crate) fn http(addr: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    // A browser that hangs fails its test.
    stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A browser may inherit the connection and hold it open: the length says when the answer is complete.
    let mut part = [0; 8192];
    while !whole(&answer) {
        match stream.read(&mut part).unwrap() {
            0 => break,
            count => answer.extend_from_slice(&part[..count]),
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

/// An answer with all the bytes that its head announces. Without a length it ends with the connection.
fn whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    length.is_some_and(|length| answer.len() >= start + length)
}

/// A headless Chromium.
pub(crate) struct Browser {
    driver: Child,
    addr: String,
    session: String,
    _profile: tempfile::TempDir,
}

const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .args(["--port=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let rest = line.split("started successfully on port ").nth(1)?;
            rest.trim_end_matches('.').parse::<u16>().ok()
        });
        let addr = format!("127.0.0.1:{}", port.unwrap());
        let profile = tempfile::tempdir().unwrap();
        let own = format!("--user-data-dir={}", profile.path().display());
        let mut browser = Self { driver, addr, session: String::new(), _profile: profile };
        // No network traffic of its own: there may be no network.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            &own,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let answer = browser.post("/session", &wanted);
        browser.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.addr,
            body.len()
        );
        let (status, answer) = http(&self.addr, &request);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!(status, 200, "{path}: {value}");
        value["value"].clone()
    }

    pub(crate) fn open(&self, url: &str) {
        self.post(&format!("{}/url", self.session), &json!({"url": url}));
    }

    /// The value of a script's `return`.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post(&format!("{}/execute/sync", self.session), &json!({"script": script, "args": []}))
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.textContent ?? ''", json!(selector));
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Polls until the script returns true: pages load and scripts run asynchronously.
    pub(crate) fn until(&self, script: &str) {
        let begun = Instant::now();
        while self.run(script) != json!(true) {
            assert!(
                begun.elapsed() < Duration::from_mins(1),
                "never true: {script}\nat {}\n{}",
                self.run("return location.href"),
                self.text("main")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn until_at(&self, path: &str) {
        self.until(&format!(
            "return document.readyState === 'complete' && (location.pathname + location.search) === {}",
            json!(path)
        ));
    }

    fn find(&self, selector: &str) -> Value {
        let found =
            self.post(&format!("{}/element", self.session), &json!({"using": "css selector", "value": selector}));
        json!({ELEMENT: found[ELEMENT]})
    }

    /// Clicks the element as a pointer would.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.find(selector);
        self.post(&format!("{}/element/{}/click", self.session, found[ELEMENT].as_str().unwrap()), &json!({}));
    }

    /// Moves the pointer by this offset from the element's middle; with `to`, presses and drags there.
    pub(crate) fn pointer(&self, selector: &str, from: (i64, i64), to: Option<(i64, i64)>) {
        let origin = self.find(selector);
        let moved =
            |(x, y): (i64, i64)| json!({"type": "pointerMove", "duration": 20, "origin": origin, "x": x, "y": y});
        let mut actions = vec![moved(from)];
        if let Some(to) = to {
            actions.extend([
                json!({"type": "pointerDown", "button": 0}),
                moved(to),
                json!({"type": "pointerUp", "button": 0}),
            ]);
        }
        self.post(&format!("{}/actions", self.session), &json!({"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]}));
    }

    pub(crate) fn keys(&self, keys: &str) {
        let presses: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})])
            .collect();
        self.post(
            &format!("{}/actions", self.session),
            &json!({"actions": [{"type": "key", "id": "keys", "actions": presses}]}),
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let request =
                format!("DELETE {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.session, self.addr);
            if let Ok(mut stream) = TcpStream::connect(&self.addr) {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = stream.write_all(request.as_bytes());
                let _ = stream.read(&mut [0; 64]);
            }
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
