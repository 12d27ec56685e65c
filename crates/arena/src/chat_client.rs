//! A model behind an OpenAI-compatible `/chat/completions`: messages in, one reply out.
//!
//! One deadline covers everything, retries included. Only infrastructure failures are retried (no connection, 408, 429,
//! 5xx), with exponential backoff: a bad answer is still an answer. The key is read from the environment once and
//! appears in no message; redirects are not followed, so it reaches no other host. Replies are read up to a bound.

use std::fmt;
use std::time::Duration;

use hone_trace::Usage;
use reqwest::{Client, StatusCode, redirect};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::documented;

documented! {
    /// Address and settings of a model behind a chat API.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ChatSpec {
        /// The base, version included: `https://api.openai.com/v1`.
        pub url: String,
        /// The model's name, as the server knows it.
        pub model: String,
        /// Name of the environment variable that holds the key; no key is sent without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key_env: Option<String>,
        /// Seconds for one reply, retries included.
        #[serde(default = "deadline")]
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Retries of an unreachable server.
        #[serde(default = "retries")]
        pub retries: u32 where whole(0, 1_000),
        /// Tokens of one reply.
        #[serde(default = "max_tokens")]
        pub max_tokens: u32 where whole(1, 10_000_000),
        /// Sampling temperature; absent: the server's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub temperature: Option<f64> where real(0.0, 100.0),
    }
}

fn deadline() -> f64 {
    60.0
}

fn retries() -> u32 {
    3
}

fn max_tokens() -> u32 {
    1024
}

/// A reply, as the server wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub message: Value,
    /// True if the reply was truncated at `max_tokens`.
    pub cut: bool,
    /// Tokens as the server counted them; absent if it does not report them.
    pub usage: Option<Usage>,
}

/// Reason why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ChatFault {
    pub what: String,
    /// True if the same request may succeed when repeated.
    pub transient: bool,
}

/// The key. Its debug form does not show it.
#[derive(Clone)]
struct Key(String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// One model of one server. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct ChatClient {
    spec: ChatSpec,
    key: Option<Key>,
    client: Client,
}

/// Longest reply that is read.
const MAX_REPLY: usize = 1 << 20;
/// First pause before a retry; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

impl ChatClient {
    /// Builds the client; the error says what to change.
    pub fn new(spec: ChatSpec) -> Result<Self, String> {
        if !(spec.deadline_s > 0.0 && spec.deadline_s <= 86_400.0) {
            return Err(format!(
                "deadline_s must be over 0 and at most 86400 seconds, found {}; set it to seconds, such as 60",
                spec.deadline_s
            ));
        }
        let key = match &spec.key_env {
            None => None,
            Some(name) => Some(Key(std::env::var(name).map_err(|_| {
                format!(
                    "the key of {} is read from the environment variable {name}, which is not set; set it, or leave \
                     `key_env` out",
                    spec.model
                )
            })?)),
        };
        // One provider serves the whole process; it is not an error if it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| format!("cannot build an HTTP client: {error}"))?;
        Ok(Self { spec, key, client })
    }

    pub fn model(&self) -> &str {
        &self.spec.model
    }

    /// The content of the model's reply to `messages` (OpenAI's form). `extra` is added to the request: `seed`,
    /// `response_format`, ….
    pub async fn reply(&self, messages: &[Value], extra: Map<String, Value>) -> Result<String, ChatFault> {
        let message = self.message(messages, extra).await?;
        match message.get("content").and_then(Value::as_str) {
            Some(content) => Ok(content.to_owned()),
            None => {
                Err(self.fault(format!("reply: no content in it: {}", excerpt(message.to_string().as_bytes())), false))
            }
        }
    }

    /// The model's whole message, tool calls included, as the server wrote it. A truncated one is a fault.
    pub async fn message(&self, messages: &[Value], extra: Map<String, Value>) -> Result<Value, ChatFault> {
        let completion = self.completion(messages, extra).await?;
        if completion.cut {
            return Err(self.fault("truncated: the reply was cut at max_tokens; raise it".into(), false));
        }
        Ok(completion.message)
    }

    /// The model's message, with the server's metadata.
    pub async fn completion(&self, messages: &[Value], extra: Map<String, Value>) -> Result<Completion, ChatFault> {
        let mut body = json!({"model": self.spec.model, "messages": messages, "max_tokens": self.spec.max_tokens});
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.spec.temperature.map(|temperature| ("temperature".to_owned(), temperature.into())));
            fields.extend(extra);
        }
        let mut last = String::from("nothing came back");
        match tokio::time::timeout(Duration::from_secs_f64(self.spec.deadline_s), self.attempts(&body, &mut last)).await
        {
            Ok(reply) => reply,
            Err(_) => Err(self.fault(format!("deadline: no reply within {} s ({last})", self.spec.deadline_s), true)),
        }
    }

    async fn attempts(&self, body: &Value, last: &mut String) -> Result<Completion, ChatFault> {
        let mut pause = FIRST_PAUSE;
        for attempt in 0..=self.spec.retries {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            match self.attempt(body).await {
                Err(ChatFault { what, transient: true }) => *last = self.redacted(what),
                other => return other,
            }
        }
        Err(self.fault(format!("unreachable: {last}, after {} attempts", self.spec.retries + 1), true))
    }

    async fn attempt(&self, body: &Value) -> Result<Completion, ChatFault> {
        let url = format!("{}/chat/completions", self.spec.url.trim_end_matches('/'));
        let mut request = self.client.post(url).json(body);
        if let Some(Key(key)) = &self.key {
            request = request.bearer_auth(key);
        }
        let lost = |error: reqwest::Error| self.fault(causes(error), true);
        let mut response = request.send().await.map_err(lost)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if bytes.len() + chunk.len() > MAX_REPLY {
                return Err(self.fault(format!("reply: longer than {MAX_REPLY} bytes"), false));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return completion(&bytes).map_err(|what| self.fault(what, false));
        }
        let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        let what = format!("status: {status}: {}", excerpt(&bytes));
        Err(self.fault(what, again || status.is_server_error()))
    }

    fn fault(&self, what: String, transient: bool) -> ChatFault {
        ChatFault { what: self.redacted(what), transient }
    }

    /// Redacts the key, since a server may echo what it was sent.
    fn redacted(&self, what: String) -> String {
        match &self.key {
            Some(Key(key)) if !key.is_empty() => what.replace(key, "…"),
            _ => what,
        }
    }
}

/// An error with its causes, since reqwest's own text says only that sending failed. Addresses can hold credentials, so
/// it is shown without.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = format!("connection: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// The first choice.
fn completion(bytes: &[u8]) -> Result<Completion, String> {
    let reply: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("reply: not JSON ({error}): {}", excerpt(bytes)))?;
    let choice = reply.pointer("/choices/0");
    let cut = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str) == Some("length");
    let counted = |name: &str| reply.get("usage")?.get(name)?.as_u64();
    let usage = counted("prompt_tokens")
        .zip(counted("completion_tokens"))
        .map(|(prompt, completion)| Usage { prompt, completion });
    match choice.and_then(|choice| choice.get("message")).filter(|message| message.is_object()) {
        Some(message) => Ok(Completion { message: message.clone(), cut, usage }),
        None => Err(format!("reply: no content in it: {}", excerpt(bytes))),
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
