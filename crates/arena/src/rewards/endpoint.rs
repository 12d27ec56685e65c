//! A model behind an OpenAI-compatible endpoint, asked for one JSON object at a time.
//!
//! One deadline covers everything, retries included. Only the infrastructure is asked again (no connection, 408, 429,
//! 5xx): a model that answers badly has answered. The key is read from the environment once and appears in no message,
//! and redirects are not followed, so it reaches no other host.

use std::fmt;
use std::time::Duration;

use reqwest::{Client, StatusCode, redirect};
use serde::Deserialize;
use serde_json::{Value, json};

use super::excerpt;

/// How to reach a judge.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSpec {
    /// The base, version included: `https://api.openai.com/v1`.
    pub url: String,
    pub model: String,
    /// Name of the environment variable that holds the key; no key is sent without it.
    #[serde(default)]
    pub key_env: Option<String>,
    /// For one verdict, retries included.
    #[serde(default = "deadline")]
    pub deadline_s: f64,
    #[serde(default = "retries")]
    pub retries: u32,
    #[serde(default = "max_tokens")]
    pub max_tokens: u32,
    #[serde(default)]
    pub answer: AnswerFormat,
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

/// How the server is asked for JSON. What comes back is held to the schema in every case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFormat {
    #[default]
    JsonSchema,
    JsonObject,
    /// For servers that know no `response_format`.
    Prompt,
}

/// The key. Its debug form does not show it.
#[derive(Clone)]
struct Key(String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[derive(Debug, Clone)]
pub struct Endpoint {
    spec: EndpointSpec,
    key: Option<Key>,
    client: Client,
}

/// Longest reply that is read.
const MAX_REPLY: usize = 1 << 20;

/// What one attempt came to.
enum Attempt {
    Answered(String),
    /// Worth asking again.
    Infrastructure(String),
    Refused(String),
}

impl Endpoint {
    pub fn new(spec: EndpointSpec) -> Result<Self, String> {
        if !(spec.deadline_s > 0.0 && spec.deadline_s <= 86_400.0) {
            return Err(format!("deadline_s must be between 0 and 86400 seconds, found {}", spec.deadline_s));
        }
        let key = match &spec.key_env {
            None => None,
            Some(name) => Some(Key(std::env::var(name).map_err(|_| {
                format!("the judge's key is to be read from the environment variable {name}, which is not set")
            })?)),
        };
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| format!("cannot build an HTTP client: {error}"))?;
        Ok(Self { spec, key, client })
    }

    /// The content of the model's reply, or why there is none.
    pub async fn ask(&self, system: &str, user: &str, schema: &Value) -> Result<String, String> {
        let deadline = Duration::from_secs_f64(self.spec.deadline_s);
        let mut last = String::from("no reply yet");
        match tokio::time::timeout(deadline, self.attempts(&self.body(system, user, schema), &mut last)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("judge_deadline: no verdict within {} s ({last})", self.spec.deadline_s)),
        }
    }

    async fn attempts(&self, body: &Value, last: &mut String) -> Result<String, String> {
        let mut pause = Duration::from_millis(250);
        for attempt in 0..=self.spec.retries {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            match self.attempt(body).await {
                Attempt::Answered(content) => return Ok(content),
                Attempt::Refused(why) => return Err(self.redacted(why)),
                Attempt::Infrastructure(why) => *last = self.redacted(why),
            }
        }
        Err(format!("judge_unreachable: {last}, after {} attempts", self.spec.retries + 1))
    }

    async fn attempt(&self, body: &Value) -> Attempt {
        let mut request =
            self.client.post(format!("{}/chat/completions", self.spec.url.trim_end_matches('/'))).json(body);
        if let Some(Key(key)) = &self.key {
            request = request.bearer_auth(key);
        }
        // Addresses can hold credentials, so errors are shown without theirs.
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Attempt::Infrastructure(cause(&error.without_url())),
        };
        let status = response.status();
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= MAX_REPLY => bytes.extend_from_slice(&chunk),
                Ok(Some(_)) => return Attempt::Refused(format!("judge_reply: longer than {MAX_REPLY} bytes")),
                Ok(None) => break,
                Err(error) => return Attempt::Infrastructure(cause(&error.without_url())),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if status.is_success() {
            return content(&text);
        }
        let why = format!("judge_status: {status}: {}", excerpt(&text, 200));
        let again =
            status.is_server_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        if again { Attempt::Infrastructure(why) } else { Attempt::Refused(why) }
    }

    fn body(&self, system: &str, user: &str, schema: &Value) -> Value {
        let mut body = json!({
            "model": self.spec.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": 0,
            "max_tokens": self.spec.max_tokens,
        });
        match self.spec.answer {
            AnswerFormat::JsonSchema => {
                body["response_format"] = json!({
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "strict": true, "schema": schema},
                });
            }
            AnswerFormat::JsonObject => body["response_format"] = json!({"type": "json_object"}),
            AnswerFormat::Prompt => {}
        }
        body
    }

    /// A server may echo what it was sent.
    fn redacted(&self, why: String) -> String {
        match &self.key {
            Some(Key(key)) if !key.is_empty() => why.replace(key, "…"),
            _ => why,
        }
    }
}

/// An error with its causes, since reqwest's own text says only that sending failed.
fn cause(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    format!("judge_connection: {text}")
}

/// The content of the first choice.
fn content(text: &str) -> Attempt {
    #[derive(Deserialize)]
    struct Reply {
        choices: Vec<Choice>,
    }
    #[derive(Deserialize)]
    struct Choice {
        message: Message,
        #[serde(default)]
        finish_reason: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        content: Option<String>,
    }
    match serde_json::from_str::<Reply>(text) {
        Err(error) => Attempt::Refused(format!("judge_reply: not a chat completion ({error}): {}", excerpt(text, 120))),
        Ok(reply) => match reply.choices.into_iter().next() {
            Some(choice) if choice.finish_reason.as_deref() == Some("length") => {
                Attempt::Refused("judge_truncated: the verdict was cut at max_tokens; raise it".into())
            }
            Some(Choice { message: Message { content: Some(content) }, .. }) => Attempt::Answered(content),
            _ => Attempt::Refused("judge_reply: the reply has no content".into()),
        },
    }
}
