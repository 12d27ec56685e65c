//! HTTP to one server: JSON in and out, bounded bodies, credentials that appear in no message.
//!
//! Credentials are named by the environment variable that holds them, read once, and redacted from whatever a server says.
//! Redirects are not followed, so they reach no other host.

use std::fmt;
use std::time::Duration;

use hone_trace::FaultKind;
use indexmap::IndexMap;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode, Url, redirect};
use serde_json::Value;

use crate::supervise::Failure;

/// Longest body that is read.
const MAX_BODY: usize = 32 << 20;
const CONNECT: Duration = Duration::from_secs(10);

/// Credentials of a server, by the names of the variables that hold them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// Variable whose value is sent as `Authorization: Bearer …`.
    pub bearer_env: Option<&'a str>,
    /// Further headers: name of the header to name of the variable.
    pub headers: Option<&'a IndexMap<String, String>>,
}

/// One server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Http {
    client: Client,
    base: Url,
    headers: HeaderMap,
    secrets: Vec<String>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base", &self.name()).finish_non_exhaustive()
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Http {
    /// Reads the credentials; an error says what to change.
    pub fn new(base: &str, credentials: &Credentials<'_>) -> Result<Self, String> {
        let mut base = Url::parse(base).map_err(|error| {
            format!("url {base:?} is not an address ({error}); write it like http://localhost:8000")
        })?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(format!("url has the scheme {:?}; write http:// or https://", base.scheme()));
        }
        base.set_path(&format!("{}/", base.path().trim_end_matches('/')));
        let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
        let read = |name: &str| {
            std::env::var(name).map_err(|_| {
                format!("a credential is read from the environment variable {name}, which is not set; set it")
            })
        };
        let mut put = |name: &str, text: String, secret: String| {
            let bad = || format!("header {name:?} cannot be sent: its name or its value has characters no header has");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&text).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(key, value);
            secrets.push(secret);
            Ok::<_, String>(())
        };
        if let Some(name) = credentials.bearer_env {
            let token = read(name)?;
            put("authorization", format!("Bearer {token}"), token)?;
        }
        for (header, name) in credentials.headers.into_iter().flatten() {
            let value = read(name)?;
            put(header, value.clone(), value)?;
        }
        // One provider serves the whole process; it is not an error if it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = client().map_err(|error| format!("cannot build an HTTP client: {error}"))?;
        Ok(Self { client, base, headers, secrets })
    }

    /// The same server over new connections: those of a runtime that is gone are useless.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self { client: client().unwrap_or_else(|_| self.client.clone()), ..self.clone() }
    }

    /// The address without credentials, for messages.
    pub fn name(&self) -> String {
        let mut shown = self.base.clone();
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        shown.as_str().trim_end_matches('/').to_owned()
    }

    /// The same credentials at another address, which a trusted server named.
    pub fn at(&self, base: &str) -> Result<Self, Failure> {
        let mut base =
            Url::parse(base).map_err(|error| Failure::refused(format!("{base:?} is not an address: {error}")))?;
        base.set_path(&format!("{}/", base.path().trim_end_matches('/')));
        Ok(Self { base, ..self.clone() })
    }

    /// An empty path is the address itself, as it was given.
    fn url(&self, path: &str) -> Result<Url, Failure> {
        if path.is_empty() {
            let mut url = self.base.clone();
            let own = url.path().trim_end_matches('/').to_owned();
            url.set_path(&own);
            return Ok(url);
        }
        self.base.join(path).map_err(|error| Failure::refused(format!("{path:?} is not a path: {error}")))
    }

    /// Sends a request and reads the whole answer. Deadlines are the caller's business.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        extra: &[(&'static str, &str)],
    ) -> Result<Reply, Failure> {
        self.send_until(method, path, body, extra, |_| false).await
    }

    /// Reads the answer to its end, or until it is sufficient: a stream of events may stay open.
    pub(crate) async fn send_until(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        extra: &[(&'static str, &str)],
        enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Reply, Failure> {
        let mut request = self.client.request(method, self.url(path)?).headers(self.headers.clone());
        for (name, value) in extra {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let lost = |error: reqwest::Error| self.lost(error);
        let mut response = request.send().await.map_err(lost)?;
        let (status, headers) = (response.status(), response.headers().clone());
        self.no_redirect(status, &headers)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(Failure::refused(format!("the answer is longer than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&chunk);
            if enough(&body) {
                break;
            }
        }
        Ok(Reply { status, headers, body })
    }

    /// A request whose answer must be JSON with a success status.
    pub async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let reply = self.send(method, path, body, &[]).await?;
        self.read(&reply)
    }

    /// The JSON of an answer, or what its status means.
    pub fn read(&self, reply: &Reply) -> Result<Value, Failure> {
        let said = || self.redacted(excerpt(&reply.body));
        if reply.status.is_success() {
            return serde_json::from_slice(&reply.body)
                .map_err(|error| Failure::refused(format!("the answer is not JSON ({error}): {}", said())));
        }
        Err(self.bad_status(reply.status, &said()))
    }

    /// A redirect is refused, with the address it leads to.
    fn no_redirect(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
        if !status.is_redirection() {
            return Ok(());
        }
        let place = headers.get("location").map(|place| self.redacted(excerpt(place.as_bytes()))).unwrap_or_default();
        Err(Failure::refused(format!(
            "status {status}: the server is elsewhere, at {place:?}; redirects are not followed, so give that address as url"
        )))
    }

    fn bad_status(&self, status: StatusCode, said: &str) -> Failure {
        let what = format!("status {status}: {said}");
        match status {
            StatusCode::TOO_MANY_REQUESTS => Failure::busy(what),
            StatusCode::REQUEST_TIMEOUT => Failure::infrastructure(what),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.secrets.is_empty() => {
                Failure::refused(format!("{what}; name the variable that holds the token: bearer_env = \"NAME\""))
            }
            _ if status.is_server_error() => Failure::infrastructure(what),
            _ => Failure::refused(what),
        }
    }

    /// Opens a connection and returns it upgraded to a WebSocket, with the accept key that the server sent.
    pub async fn upgrade(&self, path: &str, key: &str) -> Result<(reqwest::Upgraded, Option<String>), Failure> {
        let request = self
            .client
            .get(self.url(path)?)
            .headers(self.headers.clone())
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", key);
        let lost = |error: reqwest::Error| self.lost(error);
        let response = request.send().await.map_err(lost)?;
        let status = response.status();
        self.no_redirect(status, response.headers())?;
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let mut response = response;
            // The first chunk is enough: a refusal may be arbitrarily long.
            let said = response.chunk().await.ok().flatten().unwrap_or_default();
            return Err(self.bad_status(status, &self.redacted(excerpt(&said))));
        }
        let accepted = response.headers().get("sec-websocket-accept").and_then(|key| key.to_str().ok());
        let accepted = accepted.map(str::to_owned);
        Ok((response.upgrade().await.map_err(lost)?, accepted))
    }

    fn lost(&self, error: reqwest::Error) -> Failure {
        let kind = fault_kind(&error);
        Failure::infrastructure(self.redacted(causes(error))).of_kind(kind)
    }

    /// A text without the credentials that a server may echo.
    pub fn redacted(&self, mut text: String) -> String {
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        text
    }
}

fn client() -> reqwest::Result<Client> {
    Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECT).tcp_nodelay(true).build()
}

/// An error with its causes and without its address, which can hold credentials.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Kind of fault of a request that got no answer.
fn fault_kind(error: &reqwest::Error) -> FaultKind {
    let sources = || std::iter::successors(std::error::Error::source(error), |inner| inner.source());
    let refused = |inner: &(dyn std::error::Error + 'static)| {
        inner.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    if sources().any(refused) {
        FaultKind::Unreachable
    // The HTTP client has no type for this.
    } else if error.is_connect() && sources().any(|inner| inner.to_string().starts_with("dns error")) {
        FaultKind::UnknownHost
    } else {
        FaultKind::Other
    }
}

/// The start of a text, without control characters.
pub fn excerpt(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(2000)];
    String::from_utf8_lossy(start).chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
