//! A chat API that answers as a test says.
#![allow(dead_code, reason = "not every test uses everything here")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// The server's treatment of one request.
#[derive(Clone)]
pub(crate) enum Reply {
    Http(u16, String),
    /// Reads the request and keeps the connection open without a word.
    Hang,
    /// Closes the connection.
    Close,
}

/// Body of a chat completion with this content.
pub(crate) fn completion(content: &str) -> String {
    json!({"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}).to_string()
}

pub(crate) struct Server {
    pub(crate) url: String,
    /// Head and body of every request.
    pub(crate) requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    /// Answers request after request from `script`, then keeps giving the last reply.
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut script = script.into_iter();
            let mut last = Reply::Close;
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                seen.lock().unwrap().push(read_request(&stream));
                last = script.next().unwrap_or(last);
                match &last {
                    Reply::Http(status, body) => {
                        let head =
                            format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close", body.len());
                        let _ = write!(stream, "{head}\r\n\r\n{body}");
                    }
                    Reply::Hang => held.push(stream),
                    Reply::Close => {}
                }
            }
        });
        Self { url, requests }
    }

    /// Number of requests so far.
    pub(crate) fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn read_request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}
