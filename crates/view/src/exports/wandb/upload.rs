//! Upload of a run to W&B's server while it is in progress: the rows of the offline run, sent as W&B's own client sends
//! them (`upsertBucket`, then `file_stream`). A separate thread sends: training waits only for the last rows, with a
//! deadline.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Map, Value, json};

use super::Account;
use crate::html::encoded;

/// Deadline of one request.
const DEADLINE: Duration = Duration::from_secs(20);
/// Attempts at a request that fails for a transient reason, with exponential backoff.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);
/// Heartbeat interval: a run that is silent for minutes is shown as crashed.
const HEARTBEAT: Duration = Duration::from_secs(30);

const UPSERT: &str = "mutation UpsertBucket($name: String, $project: String, $entity: String, $displayName: String, $config: JSONString) { \
    upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config}) { \
    bucket { name historyLineCount project { name entity { name } } } inserted } }";

/// A run as described to its server.
#[derive(Debug)]
pub(in crate::exports) struct Named {
    pub id: String,
    pub name: String,
    pub project: String,
    pub entity: Option<String>,
    pub config: Map<String, Value>,
}

/// The sending half.
#[derive(Debug)]
pub(in crate::exports) struct Upload {
    orders: mpsc::Sender<Order>,
    ended: mpsc::Receiver<Result<(), String>>,
    /// Rows handed to the thread.
    pub sent: usize,
}

#[derive(Debug)]
enum Order {
    /// Rows of the history, the first of which has this number.
    Rows(usize, Vec<Value>),
    /// All steps are done.
    Complete,
}

impl Upload {
    pub(in crate::exports) fn start(account: Account, named: Named) -> Self {
        let (orders, received) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = match runtime {
                Ok(runtime) => send(&runtime, account, &named, &received),
                Err(error) => Err(error.to_string()),
            };
            // The receiver may be gone.
            let _ = end.send(result);
        });
        Self { orders, ended, sent: 0 }
    }

    /// Queues rows; an error if sending was abandoned.
    pub(in crate::exports) fn rows(&mut self, rows: Vec<Value>) -> Result<(), String> {
        let (first, count) = (self.sent, rows.len());
        if count > 0 {
            // If the thread is gone, `ended` says why.
            let _ = self.orders.send(Order::Rows(first, rows));
            self.sent += count;
        }
        match self.ended.try_recv() {
            Ok(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the queued rows, at most `patience`.
    pub(in crate::exports) fn finish(self, complete: bool, patience: Duration) -> Result<(), String> {
        if complete {
            let _ = self.orders.send(Order::Complete);
        }
        drop(self.orders);
        match self.ended.recv_timeout(patience) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(format!("the last rows were not taken in {} s", patience.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that sends was lost".to_owned()),
        }
    }
}

fn send(
    runtime: &tokio::runtime::Runtime,
    account: Account,
    named: &Named,
    orders: &mpsc::Receiver<Order>,
) -> Result<(), String> {
    let server = Server::new(account)?;
    let (stream, known) = runtime.block_on(server.begin(named))?;
    let mut last = Instant::now();
    loop {
        let body = match orders.recv_timeout(HEARTBEAT.saturating_sub(last.elapsed())) {
            Ok(Order::Rows(first, rows)) => match history(first, &rows, known) {
                Some(body) => body,
                None => continue,
            },
            Ok(Order::Complete) => json!({"complete": true, "exitcode": 0}),
            Err(RecvTimeoutError::Timeout) => json!({}),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        runtime.block_on(server.post(&stream, &body))?;
        last = Instant::now();
    }
}

/// Rows in the server's form, without those it has: a resumed run repeats some of its steps.
fn history(first: usize, rows: &[Value], known: usize) -> Option<Value> {
    let new = rows.get(known.saturating_sub(first)..).filter(|new| !new.is_empty())?;
    let lines: Vec<String> = new.iter().map(Value::to_string).collect();
    let summary = [new.last().map(Value::to_string)];
    Some(json!({"files": {
        "wandb-history.jsonl": {"offset": first.max(known), "content": lines},
        "wandb-summary.json": {"offset": 0, "content": summary},
    }}))
}

struct Server {
    client: Client,
    account: Account,
}

impl Server {
    fn new(account: Account) -> Result<Self, String> {
        // Another part of the program may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(DEADLINE).redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self { client: client.map_err(|error| error.to_string())?, account })
    }

    /// The URL for the run's rows, and the number of rows the server has.
    async fn begin(&self, named: &Named) -> Result<(String, usize), String> {
        let config: Map<String, Value> =
            named.config.iter().map(|(key, value)| (key.clone(), json!({"value": value}))).collect();
        let variables = json!({"name": named.id, "project": named.project, "entity": named.entity,
            "displayName": named.name, "config": Value::from(config).to_string()});
        let url = format!("{}/graphql", self.account.server);
        let answer = self.post(&url, &json!({"query": UPSERT, "variables": variables})).await?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|_| self.words("answered with something that is not JSON", &answer))?;
        let bucket = answer.pointer("/data/upsertBucket/bucket").filter(|bucket| bucket.is_object());
        let bucket = bucket.ok_or_else(|| self.words("did not make the run", &answer.to_string()))?;
        let text = |path: &str| bucket.pointer(path).and_then(Value::as_str).map(encoded);
        let (Some(entity), Some(project)) = (text("/project/entity/name"), text("/project/name")) else {
            return Err(self.words("did not say whose run it is", &answer.to_string()));
        };
        let known = bucket.get("historyLineCount").and_then(Value::as_u64).unwrap_or(0);
        let stream = format!("{}/files/{entity}/{project}/{}/file_stream", self.account.server, encoded(&named.id));
        Ok((stream, usize::try_from(known).unwrap_or(usize::MAX)))
    }

    /// The answer to a request; transient failures are retried.
    async fn post(&self, url: &str, body: &Value) -> Result<String, String> {
        let mut attempt = 1;
        loop {
            let request = self.client.post(url).basic_auth("api", Some(&self.account.key)).json(body);
            let (error, passing) = match request.send().await {
                Ok(answer) => {
                    let status = answer.status();
                    let text = answer.text().await.unwrap_or_default();
                    if status.is_success() {
                        return Ok(text);
                    }
                    let passing = status.is_server_error()
                        || matches!(
                            status,
                            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT
                        );
                    (self.words(&format!("answered {status}"), &text), passing)
                }
                Err(error) => (self.words("was not reached", &error.without_url().to_string()), true),
            };
            if !passing || attempt == ATTEMPTS {
                return Err(error);
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
            attempt += 1;
        }
    }

    /// The server's error message, shortened and without the key.
    fn words(&self, what: &str, text: &str) -> String {
        let said: String = text.replace(&self.account.key, "…").chars().take(200).collect();
        format!("{} {what}: {said}", self.account.server)
    }
}
