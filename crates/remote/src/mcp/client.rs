//! An MCP session: `initialize`, then requests, one at a time.

use hone_arena::children::Leash;
use hone_trace::ToolSpec;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::Place;
use super::pipe::Pipe;
use super::sse;
use crate::http::Http;
use crate::openenv::actions;
use crate::supervise::{Failure, Kind};

/// Requested protocol version.
const VERSION: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";
const CALL: &str = "tools/call";
const LIST: &str = "tools/list";

/// A session that is initialised. Requests consume the connection they run on: an abandoned one is dropped.
#[derive(Debug)]
pub(crate) struct Client {
    link: Link,
    next: u64,
    /// The server's description of itself for an agent.
    pub instructions: Option<String>,
}

#[derive(Debug)]
enum Link {
    Http { http: Http, session: Option<String>, version: String },
    Pipe { pipe: Option<Pipe>, _leash: Leash },
}

impl Client {
    /// Connects, or starts the program, and initialises.
    pub(crate) async fn open(place: &Place) -> Result<Self, Failure> {
        let link = match place {
            Place::Http(http) => Link::Http { http: http.clone(), session: None, version: VERSION.to_owned() },
            Place::Command { command, directory, variables } => {
                let (pipe, leash) = Pipe::start(command, directory.as_deref(), variables)?;
                Link::Pipe { pipe: Some(pipe), _leash: leash }
            }
        };
        let mut client = Self { link, next: 1, instructions: None };
        let hello = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "hone", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = client.request("initialize", hello).await?;
        client.instructions = answer.get("instructions").and_then(Value::as_str).map(str::to_owned);
        if let (Link::Http { version, .. }, Some(spoken)) =
            (&mut client.link, answer.get("protocolVersion").and_then(Value::as_str))
        {
            spoken.clone_into(version);
        }
        client.notify("notifications/initialized").await?;
        Ok(client)
    }

    /// Sends a request and waits for its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = match &mut self.link {
            Link::Http { http, session, version } => post(http, session, version, &request, id).await?,
            Link::Pipe { pipe, .. } => {
                let taken = pipe.take().ok_or_else(|| Failure::infrastructure("the program's session is gone"))?;
                let (kept, answer) = taken.exchange(&request, id).await?;
                *pipe = Some(kept);
                answer
            }
        };
        match crate::rpc::result(answer) {
            // -32000 is server-defined; from a tool call it is the tool's error, not a full server.
            Err(failure) if method == CALL && failure.kind == Kind::Busy => Err(Failure::refused(failure.what)),
            result => result,
        }
    }

    async fn notify(&mut self, method: &str) -> Result<(), Failure> {
        let notice = json!({"jsonrpc": "2.0", "method": method});
        match &mut self.link {
            Link::Http { http, session, version } => {
                let reply = http.send(Method::POST, "", Some(&notice), &headers(session.as_deref(), version)).await?;
                if reply.status.is_success() { Ok(()) } else { http.read(&reply).map(drop) }
            }
            Link::Pipe { pipe, .. } => match pipe {
                Some(pipe) => pipe.send(&notice).await,
                None => Err(Failure::infrastructure("the program's session is gone")),
            },
        }
    }

    /// All tools, page by page.
    pub(crate) async fn tools(&mut self) -> Result<Vec<ToolSpec>, Failure> {
        let (mut tools, mut cursor) = (Vec::new(), None::<Value>);
        for _ in 0..MOST_PAGES {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), cursor)));
            let page = self.request(LIST, params.into()).await?;
            let listed = page.get("tools").ok_or_else(|| Failure::refused("tools/list was answered without tools"))?;
            tools.extend(actions::tools(listed).map_err(Failure::refused)?);
            match page.get("nextCursor").filter(|cursor| !cursor.is_null()) {
                Some(next) => cursor = Some(next.clone()),
                None => break,
            }
        }
        Ok(tools)
    }

    /// Calls a tool; its result as the server sent it.
    pub(crate) async fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        self.request(CALL, json!({"name": name, "arguments": arguments})).await
    }

    /// Ends the session at the server, if it keeps one. A program ends with its leash.
    pub(crate) async fn close(self) {
        if let Link::Http { http, session: Some(session), version } = &self.link {
            let _ = http.send(Method::DELETE, "", None, &headers(Some(session), version)).await;
        }
    }
}

impl Client {
    /// Ends the session and asks within it once more, then within one that never was. `Some(true)`: only the first is
    /// answered. `None`: the server keeps no sessions, or answers anything.
    pub(crate) async fn outlives_close(&mut self) -> Option<bool> {
        let Link::Http { http, session, version } = &self.link else { return Some(false) };
        let (http, own, version) = (http.clone(), session.clone()?, version.clone());
        let _ = http.send(Method::DELETE, "", None, &headers(Some(&own), &version)).await;
        if self.request(LIST, json!({})).await.is_err() {
            return Some(false);
        }
        let session = Some("00000000000000000000000000000000".to_owned());
        let mut never = Self { link: Link::Http { http, session, version }, next: 1, instructions: None };
        never.request(LIST, json!({})).await.is_err().then_some(true)
    }
}

/// Pages of tools that are read; a server with endless pages is not followed.
const MOST_PAGES: usize = 64;

fn headers<'a>(session: Option<&'a str>, version: &'a str) -> Vec<(&'static str, &'a str)> {
    let mut headers = vec![("accept", "application/json, text/event-stream"), ("mcp-protocol-version", version)];
    headers.extend(session.map(|session| (SESSION, session)));
    headers
}

async fn post(
    http: &Http,
    session: &mut Option<String>,
    version: &str,
    request: &Value,
    id: u64,
) -> Result<Value, Failure> {
    let own = headers(session.as_deref(), version);
    let reply =
        http.send_until(Method::POST, "", Some(request), &own, |body| sse::response(body, id).is_some()).await?;
    if reply.status == StatusCode::NOT_FOUND && session.is_some() {
        return Err(Failure::infrastructure("the server does not know the session any more"));
    }
    if session.is_none() {
        *session = reply.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    }
    let is_stream = reply.headers.get("content-type").and_then(|kind| kind.to_str().ok());
    if reply.status.is_success() && is_stream.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return sse::response(&reply.body, id)
            .ok_or_else(|| Failure::infrastructure("the stream of events ended without the response"));
    }
    // An error may come with an HTTP status; the error says more.
    let said = serde_json::from_slice::<Value>(&reply.body).ok().filter(|said| answers(said, id));
    match (said, http.read(&reply)) {
        (Some(answer), _) => Ok(answer),
        (None, Ok(_)) => Err(Failure::infrastructure("the server answered another request than this one")),
        // For a tool call, a failure status is not the tool's answer: it is a fault, not a text for the agent.
        (None, Err(failure)) if request["method"] == CALL => Err(Failure::infrastructure(failure.what)),
        (None, Err(failure)) => Err(failure),
    }
}

/// True for the response to the request with this id, or an error that has none.
fn answers(said: &Value, id: u64) -> bool {
    match said.get("id") {
        Some(found) if !found.is_null() => found.as_u64() == Some(id),
        _ => said.get("error").is_some_and(|error| !error.is_null()),
    }
}
