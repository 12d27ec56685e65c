//! HTTP routes: each request has its own environment, as the protocol defines.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use hone_trace::TaskSet;
use serde_json::{Map, Value, json};

use super::access::Role;
use super::check::{self, Act};
use super::play::Play;
use super::rpc::{self, Caller};
use super::{Host, schema, socket};

type Shared = State<Arc<Host>>;

const SESSION: &str = "mcp-session-id";

pub(super) fn router(host: Arc<Host>) -> Router {
    let mut router = Router::new()
        .route("/metadata", get(metadata))
        .route("/schema", get(async || json(StatusCode::OK, &schema::schemas())))
        .route("/openapi.json", get(openapi))
        .route("/docs", get(docs))
        .route("/redoc", get(docs))
        .route("/ws", get(ws))
        .route("/mcp", post(mcp).get(mcp_socket).delete(mcp_close))
        .route("/list_environments", get(list_environments))
        .route("/{env}/splits", get(splits))
        .route("/{env}/{what}", post(tasks));
    if !host.options.production {
        router = router.route("/reset", post(reset)).route("/step", post(step)).route("/state", get(state));
    }
    router
        .layer(middleware::from_fn_with_state(Arc::clone(&host), admit))
        // Health is public.
        .route("/health", get(async || json(StatusCode::OK, &json!({"status": "healthy"}))))
        .fallback(async || detail(StatusCode::NOT_FOUND, "Not Found"))
        .method_not_allowed_fallback(async || detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"))
        .with_state(host)
}

/// Authorises requests by token; agents only on the routes they may use.
async fn admit(State(host): Shared, mut request: Request, next: Next) -> Response {
    match host.access.role(request.headers()) {
        Err((status, why)) => {
            let mut refusal = detail(status, why);
            refusal.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            refusal
        }
        Ok(Role::Agent)
            if !matches!(request.uri().path(), "/ws" | "/mcp" | "/schema" | "/metadata" | "/openapi.json") =>
        {
            detail(StatusCode::FORBIDDEN, "Forbidden: an agent's token may act in its session, over /ws or /mcp")
        }
        Ok(role) => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
    }
}

pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    respond(status, "application/json", body.to_string())
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn detail(status: StatusCode, why: &str) -> Response {
    json(status, &json!({"detail": why}))
}

fn unprocessable(errors: check::Complaints) -> Response {
    json(StatusCode::UNPROCESSABLE_ENTITY, &json!({"detail": errors}))
}

/// An environment's exception is not described over HTTP.
fn broken() -> Response {
    respond(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", "Internal Server Error".into())
}

/// The whole body, or the refusal of one that is too long, truncated or late.
async fn body(host: &Host, request: Request) -> Result<Vec<u8>, Response> {
    match tokio::time::timeout(host.options.patience, to_bytes(request.into_body(), socket::MAX_MESSAGE)).await {
        Ok(Ok(body)) => Ok(body.into()),
        Ok(Err(_)) => Err(detail(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 16 MiB, or broke off")),
        Err(_) => Err(detail(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

async fn metadata(State(host): Shared) -> Response {
    let described = json!({
        "name": host.environment.name,
        "description": host.about,
        "readme_content": null,
        "version": env!("CARGO_PKG_VERSION"),
        "author": null,
        "documentation_url": null,
    });
    json(StatusCode::OK, &described)
}

async fn openapi(State(host): Shared) -> Response {
    json(StatusCode::OK, &schema::openapi(!host.options.production))
}

async fn docs() -> Response {
    let page = "<!doctype html><title>OpenEnv server</title><p>The routes are described in <a href=\"openapi.json\">openapi.json</a>.";
    respond(StatusCode::OK, "text/html; charset=utf-8", page.into())
}

async fn reset(State(host): Shared, request: Request) -> Response {
    let body = match body(&host, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let data = match check::reset(&body) {
        Ok(data) => data,
        Err(errors) => return unprocessable(errors),
    };
    // An unknown task is the caller's mistake, not the environment's.
    match host.named_task(&data) {
        Err(why) => unprocessable(vec![check::no_task(&why, &data)]),
        Ok(_) => observed(Play::new().reset(&host, &data).await),
    }
}

async fn step(State(host): Shared, request: Request) -> Response {
    let body = match body(&host, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match check::step(&body).and_then(|action| Act::read(&action)) {
        Err(errors) => unprocessable(errors),
        Ok(act) => observed(Play::new().step(&host, act).await),
    }
}

async fn state() -> Response {
    json(StatusCode::OK, &Play::new().state())
}

fn observed(observed: Result<super::play::Observed, String>) -> Response {
    match observed {
        Err(_) => broken(),
        Ok(observed) => {
            let mut envelope = observed.envelope(false);
            envelope.entry("metadata").or_insert(Value::Null);
            json(StatusCode::OK, &Value::Object(envelope))
        }
    }
}

/// The value of a query's parameter. Names of sessions and tasks need no escapes.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

fn role_of(extensions: &axum::http::Extensions) -> Role {
    extensions.get::<Role>().copied().unwrap_or(Role::Agent)
}

async fn ws(
    State(host): Shared,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    upgrade: WebSocketUpgrade,
    request: Request,
) -> Response {
    let (role, asked) = (role_of(request.extensions()), parameter(query.as_deref(), "session_id"));
    let upgrade = upgrade.max_message_size(socket::MAX_MESSAGE).max_frame_size(socket::MAX_MESSAGE);
    upgrade.on_upgrade(move |stream| socket::session(stream, host, role, peer.ip(), asked))
}

async fn mcp_socket(
    State(host): Shared,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    // MCP's stream of the server's own messages: there are none.
    let Ok(upgrade) = upgrade else { return detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") };
    let role = role_of(request.extensions());
    let upgrade = upgrade.max_message_size(socket::MAX_MESSAGE).max_frame_size(socket::MAX_MESSAGE);
    upgrade.on_upgrade(move |stream| socket::rpc_session(stream, host, role, peer.ip()))
}

async fn mcp(
    State(host): Shared,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let role = role_of(request.extensions());
    let header = session_header(request.headers());
    let session = header.as_deref().and_then(|id| host.sessions.get(id));
    if header.is_some() && session.is_none() {
        return detail(StatusCode::NOT_FOUND, "there is no such session; initialize again");
    }
    let body = match body(&host, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return json(StatusCode::OK, &rpc::parse_error());
    };
    let mcp = session.is_some();
    if mcp && request.get("id").is_none() {
        return respond(StatusCode::ACCEPTED, "application/json", String::new());
    }
    let caller = Caller { role, client: peer.ip(), session, mcp, query: task_query(query.as_deref()) };
    let answer = rpc::answer(&host, &caller, &request).await;
    let mut response = json(StatusCode::OK, &answer.body);
    if let Some(value) = answer.opened.and_then(|id| header::HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}

fn session_header(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION)?.to_str().unwrap_or_default().to_owned())
}

/// The task selected by the query.
fn task_query(query: Option<&str>) -> Map<String, Value> {
    let mut data = Map::new();
    for key in ["session_id", "task", "split"] {
        data.extend(parameter(query, key).map(|value| (key.to_owned(), value.into())));
    }
    for key in ["index", "seed"] {
        let number = parameter(query, key).and_then(|value| value.parse::<u64>().ok());
        data.extend(number.map(|number| (key.to_owned(), number.into())));
    }
    data
}

async fn mcp_close(State(host): Shared, request: Request) -> Response {
    if role_of(request.extensions()) == Role::Agent {
        return detail(StatusCode::FORBIDDEN, "Forbidden: the session is the operator's to end");
    }
    match session_header(request.headers()).and_then(|id| host.sessions.close(&id)) {
        Some(_) => respond(StatusCode::OK, "application/json", String::new()),
        None => detail(StatusCode::NOT_FOUND, "there is no such session"),
    }
}

async fn list_environments(State(host): Shared) -> Response {
    json(StatusCode::OK, &json!([host.environment.name]))
}

fn is_ours(host: &Host, env: &str) -> bool {
    host.environment.name.eq_ignore_ascii_case(env)
}

fn unknown(env: &str) -> Response {
    detail(StatusCode::NOT_FOUND, &format!("unknown environment '{env}'"))
}

async fn splits(State(host): Shared, Path(env): Path<String>) -> Response {
    if !is_ours(&host, &env) {
        return unknown(&env);
    }
    let kind = |name: &str| match name {
        "train" | "validation" | "test" => name.to_owned(),
        _ => "validation".to_owned(),
    };
    let listed: Vec<Value> =
        host.environment.splits.keys().map(|name| json!({"name": name, "type": kind(name)})).collect();
    json(StatusCode::OK, &listed.into())
}

async fn tasks(State(host): Shared, Path((env, what)): Path<(String, String)>, request: Request) -> Response {
    if !matches!(what.as_str(), "tasks" | "num_tasks" | "task" | "task_range") {
        return detail(StatusCode::NOT_FOUND, "Not Found");
    }
    if !is_ours(&host, &env) {
        return unknown(&env);
    }
    let body = match body(&host, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let asked = match check::object(&body) {
        Ok(asked) => asked,
        Err(errors) => return unprocessable(errors),
    };
    let Some(split) = asked.get("split").and_then(Value::as_str) else {
        let error = json!({"type": "missing", "loc": ["body", "split"], "msg": "Field required", "input": asked});
        return unprocessable(vec![error]);
    };
    let Some(set) = host.environment.splits.get(split) else {
        return detail(StatusCode::BAD_REQUEST, &format!("unknown split '{split}'"));
    };
    listing(&host.environment.name, &what, split, set, &asked)
}

fn listing(env: &str, what: &str, split: &str, set: &TaskSet, asked: &Map<String, Value>) -> Response {
    // A task as selected by a reset: without solution or verifier.
    let shown = |index: usize| set[..].get(index).map(|task| json!({"id": task.key, "index": index, "split": split}));
    let number = |key: &str| asked.get(key).and_then(Value::as_u64).map(|number| number as usize);
    let range = |start: usize, stop: usize| (start..stop.min(set.len())).filter_map(shown).collect::<Vec<_>>();
    let answer = match what {
        "tasks" => json!({"tasks": range(0, set.len()), "env_name": env}),
        "num_tasks" => json!({"num_tasks": set.len()}),
        "task" => match number("index").and_then(shown) {
            Some(task) => json!({"task": task}),
            None => return detail(StatusCode::BAD_REQUEST, "Invalid task index"),
        },
        _ => {
            let wrong = |key: &&str| asked.get(*key).is_some_and(|given| !given.is_null()) && number(key).is_none();
            if let Some(key) = ["start", "stop"].into_iter().find(wrong) {
                return unprocessable(vec![check::no_number(key, &asked[key])]);
            }
            json!({"tasks": range(number("start").unwrap_or(0), number("stop").unwrap_or(set.len()))})
        }
    };
    json(StatusCode::OK, &answer)
}
