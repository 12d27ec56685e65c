//! JSON-RPC at `/mcp`: OpenEnv's subset, and MCP itself for clients that begin with `initialize`.
//!
//! The two differ in spelling: OpenEnv dumps the objects of a Python library, MCP has a schema. A client that names its
//! session by the header from `initialize` is answered in MCP.

use std::net::IpAddr;
use std::sync::Arc;

use hone_trace::ToolSpec;
use serde_json::{Map, Value, json};

use super::Host;
use super::access::Role;
use super::play::{Called, Play, dumped};
use super::sessions::Session;

/// Supported MCP versions, the newest first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// Caller and session of a request.
pub(super) struct Caller {
    pub(super) role: Role,
    pub(super) client: IpAddr,
    /// The session of the connection, or of MCP's header.
    pub(super) session: Option<Arc<Session>>,
    /// True for MCP's spelling.
    pub(super) mcp: bool,
    /// The task selected by the query; for `initialize`.
    pub(super) query: Map<String, Value>,
}

/// An answer, and the session that `initialize` opened.
pub(super) struct Answer {
    pub(super) body: Value,
    pub(super) opened: Option<String>,
}

/// An error of JSON-RPC.
pub(super) struct Wrong {
    code: i64,
    message: String,
    data: Value,
}

impl Wrong {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }
}

pub(super) fn parse_error() -> Value {
    error(&Value::Null, &Wrong::new(-32700, "Parse error"))
}

fn error(id: &Value, wrong: &Wrong) -> Value {
    let Wrong { code, message, data } = wrong;
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
}

/// A request, checked.
struct Request {
    method: String,
    params: Map<String, Value>,
    id: Value,
}

impl Request {
    fn read(request: &Value) -> Result<Self, Wrong> {
        let invalid = |what: &str| Wrong::new(-32600, format!("Invalid request: {what}"));
        let fields = request.as_object().ok_or_else(|| invalid("it is not an object"))?;
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid("jsonrpc: it must be \"2.0\""));
        }
        let method =
            fields.get("method").and_then(Value::as_str).ok_or_else(|| invalid("method: a string is required"))?;
        let params = match fields.get("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(invalid("params: it must be an object")),
        };
        let id = fields.get("id").cloned().unwrap_or_default();
        if !(id.is_null() || id.is_string() || id.is_i64() || id.is_u64()) {
            return Err(invalid("id: it must be a string, an integer or null"));
        }
        let known = ["jsonrpc", "method", "params", "id"];
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(invalid(&format!("{key}: extra inputs are not permitted")));
        }
        Ok(Self { method: method.to_owned(), params, id })
    }
}

/// Answers a request.
pub(super) async fn answer(host: &Host, caller: &Caller, request: &Value) -> Answer {
    let request = match Request::read(request) {
        Ok(request) => request,
        Err(wrong) => return Answer { body: error(&Value::Null, &wrong), opened: None },
    };
    match handle(host, caller, &request).await {
        Ok((result, opened)) => {
            let body = json!({"jsonrpc": "2.0", "id": request.id, "result": result});
            Answer { body, opened }
        }
        Err(wrong) => Answer { body: error(&request.id, &wrong), opened: None },
    }
}

type Handled = Result<(Value, Option<String>), Wrong>;

async fn handle(host: &Host, caller: &Caller, request: &Request) -> Handled {
    let params = &request.params;
    let operator = || match caller.role {
        Role::Operator => Ok(()),
        Role::Agent => {
            Err(Wrong::new(-32001, "Forbidden: an agent's token acts in a session that its operator opened"))
        }
    };
    let result = match request.method.as_str() {
        "initialize" => return initialize(host, caller, params).await,
        "ping" if caller.mcp => json!({}),
        "tools/list" => {
            let spelling = if caller.mcp { spelled } else { dumped_tool };
            let tools = with_play(host, caller, params, async |play| play.tools(host).await).await?;
            json!({"tools": tools.map_err(|why| Wrong::new(-32603, why))?.iter().map(spelling).collect::<Vec<_>>()})
        }
        "tools/call" => call(host, caller, params).await?,
        "openenv/session/create" => {
            operator()?;
            json!({"session_id": create(host, caller)?.id})
        }
        "openenv/session/close" => {
            operator()?;
            let id = params.get("session_id").and_then(Value::as_str);
            let id = id.ok_or_else(|| Wrong::new(-32602, "Invalid params - 'session_id' is required"))?;
            match host.sessions.close(id) {
                None => return Err(unknown_session(id)),
                Some(true) => json!({"session_id": id, "closed": true}),
                Some(false) => json!({"session_id": id, "closed": false, "closing": true}),
            }
        }
        other => return Err(Wrong::new(-32601, format!("Method not found: {other}"))),
    };
    Ok((result, None))
}

fn create(host: &Host, caller: &Caller) -> Result<Arc<Session>, Wrong> {
    let full = |full: super::sessions::Full| Wrong { code: -32000, message: full.message(), data: full.details() };
    host.sessions.create(caller.client).map_err(full)
}

fn unknown_session(id: &str) -> Wrong {
    Wrong::new(-32602, format!("Unknown session_id: {id}"))
}

/// Starts MCP: a new session, or the one that the query names.
async fn initialize(host: &Host, caller: &Caller, params: &Map<String, Value>) -> Handled {
    let session = match caller.query.get("session_id").and_then(Value::as_str) {
        Some(id) => host.sessions.get(id).ok_or_else(|| unknown_session(id))?,
        None if caller.role == Role::Agent => {
            return Err(Wrong::new(-32001, "Forbidden: name the session that the operator opened, ?session_id=…"));
        }
        None => {
            let session = create(host, caller)?;
            let started = session.play.lock().await.reset(host, &caller.query).await;
            if let Err(why) = started {
                host.sessions.close(&session.id);
                return Err(Wrong::new(-32603, why));
            }
            session
        }
    };
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or(VERSIONS[0]);
    let version = VERSIONS.iter().find(|version| **version == asked).unwrap_or(&VERSIONS[0]);
    let instructions = session.play.lock().await.instructions();
    let result = json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": host.environment.name, "version": env!("CARGO_PKG_VERSION")},
        "instructions": instructions,
    });
    Ok((result, Some(session.id.clone())))
}

/// Runs something in the caller's session, in the one that `params` names, or in a temporary one.
async fn with_play<T>(
    host: &Host,
    caller: &Caller,
    params: &Map<String, Value>,
    run: impl AsyncFnOnce(&mut Play) -> T,
) -> Result<T, Wrong> {
    if let Some(session) = &caller.session {
        return Ok(run(&mut *session.play.lock().await).await);
    }
    match params.get("session_id") {
        Some(Value::String(id)) => {
            let session = host.sessions.get(id).ok_or_else(|| unknown_session(id))?;
            let mut play = session.play.lock().await;
            Ok(run(&mut play).await)
        }
        Some(other) if !other.is_null() => Err(unknown_session(&other.to_string())),
        _ if caller.role == Role::Agent => {
            Err(Wrong::new(-32001, "Forbidden: name the session that the operator opened, \"session_id\""))
        }
        _ => Ok(run(&mut Play::new()).await),
    }
}

async fn call(host: &Host, caller: &Caller, params: &Map<String, Value>) -> Result<Value, Wrong> {
    let name =
        params.get("name").and_then(Value::as_str).ok_or_else(|| Wrong::new(-32602, "Missing 'name' in params"))?;
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(Wrong::new(-32602, "Invalid params - 'arguments' must be an object")),
    };
    let called = with_play(host, caller, params, async |play| play.call(host, name, arguments).await).await?;
    let (called, _) = called.map_err(|why| Wrong::new(-32603, why))?;
    match called.refused {
        Some("tool_not_found") if caller.mcp => Err(Wrong::new(-32602, called.text)),
        Some(_) if !caller.mcp => Err(Wrong::new(-32603, called.text)),
        _ if caller.mcp => Ok(mcp_result(&called)),
        _ => Ok(dumped(&called)),
    }
}

fn mcp_result(called: &Called) -> Value {
    json!({"content": [{"type": "text", "text": called.text}], "isError": called.failed})
}

/// MCP requires an object schema for every tool.
fn input_schema(tool: &ToolSpec) -> Value {
    tool.parameters.clone().filter(Value::is_object).unwrap_or_else(|| json!({"type": "object"}))
}

fn spelled(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description.clone().unwrap_or_default(), "inputSchema": input_schema(tool)})
}

fn dumped_tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "title": null,
        "description": tool.description,
        "inputSchema": input_schema(tool),
        "outputSchema": null,
        "icons": null,
        "annotations": null,
        "meta": null,
        "execution": null,
    })
}
