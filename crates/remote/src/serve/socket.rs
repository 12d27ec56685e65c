//! WebSocket sessions: `/ws`, and JSON-RPC at `/mcp`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Map, Value, json};

use super::Host;
use super::access::Role;
use super::check::{self, Act};
use super::rpc::{self, Caller};
use super::sessions::Session;

/// Ping interval of a silent connection, which is closed if it does not answer.
const PING: Duration = Duration::from_secs(20);
/// Longest message that is read.
pub(super) const MAX_MESSAGE: usize = 16 << 20;

fn error(code: &str, message: impl Into<String>) -> Value {
    json!({"type": "error", "data": {"message": message.into(), "code": code}})
}

fn invalid(errors: check::Complaints) -> Value {
    json!({"type": "error", "data": {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": errors}})
}

/// A connection with its session. Dropping it ends what it holds, however the connection ended.
struct Attached {
    host: Arc<Host>,
    session: Arc<Session>,
    own: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.host.sessions.detach(&self.session, self.own);
    }
}

/// Fate of the connection after a message.
enum Next {
    Say(Value),
    /// Sends a last message, then closes.
    Last(Value),
    Close,
}

/// Serves `/ws` until the client disconnects.
pub(super) async fn session(socket: WebSocket, host: Arc<Host>, role: Role, client: IpAddr, asked: Option<String>) {
    let mut line = Line { socket, patience: host.options.patience };
    let attached = match attach(&host, role, client, asked.as_deref()) {
        Ok(attached) => attached,
        Err(refusal) => return line.goodbye(Some(refusal)).await,
    };
    while let Some(received) = line.receive().await {
        attached.session.touch();
        let next = match received {
            Message::Text(text) => message(&attached, role, client, text.as_str()).await,
            Message::Binary(_) => Next::Last(error("SESSION_ERROR", "'text'")),
            Message::Close(_) => Next::Close,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        match next {
            Next::Say(value) => {
                if line.say(Message::text(value.to_string())).await.is_none() {
                    return;
                }
            }
            Next::Last(value) => return line.goodbye(Some(value)).await,
            Next::Close => return line.goodbye(None).await,
        }
    }
}

/// A connection with deadlines.
struct Line {
    socket: WebSocket,
    patience: Duration,
}

impl Line {
    /// Sends a message. `None` if the client is gone or no longer reads.
    async fn say(&mut self, message: Message) -> Option<()> {
        tokio::time::timeout(self.patience, self.socket.send(message)).await.ok()?.ok()
    }

    async fn goodbye(&mut self, last: Option<Value>) {
        if let Some(last) = last {
            self.say(Message::text(last.to_string())).await;
        }
        self.say(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await;
    }

    /// The next message. A silent client is pinged once; `None` if it is gone.
    async fn receive(&mut self) -> Option<Message> {
        if let Ok(received) = tokio::time::timeout(PING, self.socket.recv()).await {
            return received?.ok();
        }
        loop {
            self.say(Message::Ping(Vec::new().into())).await?;
            match tokio::time::timeout(PING, self.socket.recv()).await {
                Ok(Some(Ok(Message::Pong(_)))) => {
                    if let Ok(received) = tokio::time::timeout(PING, self.socket.recv()).await {
                        return received?.ok();
                    }
                }
                Ok(received) => return received?.ok(),
                Err(_) => {
                    let frame = CloseFrame { code: 1011, reason: "keepalive ping timeout".into() };
                    self.say(Message::Close(Some(frame))).await;
                    return None;
                }
            }
        }
    }
}

fn attach(host: &Arc<Host>, role: Role, client: IpAddr, asked: Option<&str>) -> Result<Attached, Value> {
    let own = asked.is_none();
    let session = match asked {
        Some(id) => host.sessions.get(id).ok_or_else(|| error("SESSION_ERROR", format!("Unknown session_id: {id}")))?,
        None if role == Role::Agent => {
            return Err(error("SESSION_ERROR", "an agent's token attaches to a session that its operator opened"));
        }
        None => host.sessions.create(client).map_err(|full| {
            let mut refusal = error("CAPACITY_REACHED", full.message());
            if let (Some(data), Value::Object(details)) = (refusal["data"].as_object_mut(), full.details()) {
                data.extend(details);
            }
            refusal
        })?,
    };
    if !session.attach() {
        return Err(error("SESSION_ERROR", format!("Session {} has a connection already", session.id)));
    }
    Ok(Attached { host: Arc::clone(host), session, own })
}

async fn message(attached: &Attached, role: Role, client: IpAddr, text: &str) -> Next {
    let message: Map<String, Value> = match serde_json::from_str(text) {
        Ok(Value::Object(message)) => message,
        Ok(_) => return Next::Last(error("SESSION_ERROR", "a message is a JSON object")),
        Err(why) => return Next::Say(error("INVALID_JSON", format!("Invalid JSON: {why}"))),
    };
    let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
    let known: &[&str] = match kind {
        "reset" | "step" | "mcp" => &["type", "data"],
        "state" | "close" => &["type"],
        _ => {
            let shown = message.get("type").map_or_else(|| "None".to_owned(), crate::openenv::wire::plain);
            return Next::Say(error("UNKNOWN_TYPE", format!("Unknown message type: {shown}")));
        }
    };
    let errors = check::extra(&message, known);
    if !errors.is_empty() {
        return Next::Say(invalid(errors));
    }
    if role == Role::Agent && matches!(kind, "reset" | "state") {
        return Next::Say(error("FORBIDDEN", format!("{kind} is the operator's; an agent's token may step")));
    }
    match kind {
        "close" => Next::Close,
        "state" => Next::Say(json!({"type": "state", "data": attached.session.play.lock().await.state()})),
        _ => match check::data(&message) {
            Err(errors) => Next::Say(invalid(errors)),
            Ok(_) if kind != "reset" && !message.contains_key("data") => {
                Next::Say(invalid(check::missing_data(&message)))
            }
            Ok(data) => Next::Say(act(attached, role, client, kind, data).await),
        },
    }
}

async fn act(attached: &Attached, role: Role, client: IpAddr, kind: &str, data: Map<String, Value>) -> Value {
    let (host, session) = (&attached.host, &attached.session);
    let observed = match kind {
        "mcp" => {
            let session = Some(Arc::clone(session));
            let caller = Caller { role, client, session, mcp: false, query: Map::new() };
            let answer = rpc::answer(host, &caller, &Value::Object(data)).await;
            return json!({"type": "mcp", "data": answer.body});
        }
        "reset" => session.play.lock().await.reset(host, &data).await,
        _ => match Act::read(&Value::Object(data)) {
            Err(errors) => return invalid(errors),
            Ok(act) => session.play.lock().await.step(host, act).await,
        },
    };
    match observed {
        Ok(observed) => json!({"type": "observation", "data": observed.envelope(role == Role::Agent)}),
        Err(why) => error("EXECUTION_ERROR", why),
    }
}

/// Serves JSON-RPC over a WebSocket, one environment for the connection.
pub(super) async fn rpc_session(socket: WebSocket, host: Arc<Host>, role: Role, client: IpAddr) {
    let mut line = Line { socket, patience: host.options.patience };
    let attached = match attach(&host, role, client, None) {
        Ok(attached) => attached,
        Err(refusal) => return line.goodbye(Some(refusal)).await,
    };
    let session = Some(Arc::clone(&attached.session));
    let caller = Caller { role, client, session, mcp: false, query: Map::new() };
    while let Some(received) = line.receive().await {
        let text = match received {
            Message::Text(text) => text,
            Message::Binary(_) | Message::Close(_) => return line.goodbye(None).await,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let body = match serde_json::from_str(text.as_str()) {
            Ok(request) => rpc::answer(&host, &caller, &request).await.body,
            Err(_) => rpc::parse_error(),
        };
        if line.say(Message::text(body.to_string())).await.is_none() {
            return;
        }
    }
}
