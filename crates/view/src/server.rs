//! Viewer server: loopback unless told otherwise, pages from memory and the run directory, nothing from the network.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::html::{Html, clipped};
use crate::pages::{self, Place, Query, SCRIPT, STYLE, frame};
use crate::put;
use crate::run::ViewError;
use crate::site::Site;

/// Polling interval of the run's files.
const LOOK: Duration = Duration::from_millis(700);

/// Address to listen on, and access.
#[derive(Debug, Clone)]
pub struct Settings {
    pub addr: SocketAddr,
    /// Required beyond loopback; if set, every request must carry it.
    pub token: Option<String>,
}

impl Settings {
    /// Beyond loopback anybody who can reach the port could read the run, so a token is required.
    pub fn check(&self) -> Result<(), String> {
        if self.addr.ip().is_loopback() || self.token.as_ref().is_some_and(|token| token.len() >= 8) {
            return Ok(());
        }
        Err(format!(
            "{} can be reached from other machines: give a token of 8 characters or more with --token, which \
             readers append to the address as ?token=…",
            self.addr
        ))
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    addr: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    site: Arc<Site>,
    token: Option<String>,
    loopback: bool,
    state: watch::Receiver<String>,
}

impl Server {
    /// Listens; port 0 picks a free one.
    pub async fn bind(site: Arc<Site>, settings: Settings) -> std::io::Result<Self> {
        settings.check().map_err(std::io::Error::other)?;
        let listener = TcpListener::bind(settings.addr).await?;
        let addr = listener.local_addr()?;
        let (tell, state) = watch::channel(String::new());
        let looked = Arc::clone(&site);
        tokio::spawn(async move {
            loop {
                let site = Arc::clone(&looked);
                let Ok(state) = tokio::task::spawn_blocking(move || site.refresh()).await else { break };
                // A file that is briefly unreadable is read at the next poll.
                if let Ok(state) = state {
                    tell.send_if_modified(|old| {
                        let changed = *old != state;
                        *old = state;
                        changed
                    });
                }
                if tell.is_closed() {
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        let shared = Arc::new(Shared { site, token: settings.token, loopback: addr.ip().is_loopback(), state });
        Ok(Self { listener, shared, addr })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address to open, with the token if there is one.
    pub fn url(&self) -> String {
        let token = self
            .shared
            .token
            .as_ref()
            .map_or_else(String::new, |token| format!("?token={}", crate::html::encoded(token)));
        format!("http://{}/{token}", self.addr)
    }

    /// Answers until the future is dropped.
    pub async fn serve(self) {
        loop {
            // Too many open files, or a client that left: the next one may succeed.
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                // A client that disconnects early is not our error.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(hyper_util::rt::TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Out>, Infallible> {
    let mut response = respond(&shared, &request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

async fn respond(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Out> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "this page is only read");
    }
    if !shared.meant_for_us(request) {
        return plain(
            StatusCode::FORBIDDEN,
            "this address is not the one the viewer listens on; open the address it printed",
        );
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let mut cookie = None;
    if let Some(token) = &shared.token {
        let given = query.get("token");
        if given.is_some_and(|given| same(given, token)) {
            cookie = HeaderValue::from_str(&format!(
                "hone={}; HttpOnly; SameSite=Strict; Path=/",
                crate::html::encoded(token)
            ))
            .ok();
        } else if !has_cookie(request, token) {
            return plain(
                StatusCode::UNAUTHORIZED,
                "append ?token=… to the address: the token that `hone view` was started with",
            );
        }
    }
    let mut response = match request.uri().path() {
        "/style.css" => typed("text/css; charset=utf-8", STYLE.into()),
        "/script.js" => typed("text/javascript; charset=utf-8", SCRIPT.into()),
        "/live" => shared.live(),
        "/metrics" => typed("text/plain; version=0.0.4; charset=utf-8", crate::prometheus::metrics(&shared.site)),
        path => shared.page(path.to_owned(), query).await,
    };
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

impl Shared {
    async fn page(&self, path: String, query: Query) -> Response<Out> {
        let site = Arc::clone(&self.site);
        let made = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            let page = match site.gone() {
                Some(gone) => Err(ViewError::Gone(gone.to_owned())),
                None => pages::page(&site, &path, &query),
            };
            (page.map_err(|error| wrong(&site, &error)), begun.elapsed())
        });
        let Ok((page, took)) = made.await else {
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "this page could not be made; the others can");
        };
        let (status, html) = match page {
            Ok(page) => (StatusCode::OK, page),
            Err((status, page)) => (status, page),
        };
        let mut response = typed("text/html; charset=utf-8", html.into_string());
        *response.status_mut() = status;
        if let Ok(took) = HeaderValue::from_str(&format!("page;dur={:.1}", took.as_secs_f64() * 1e3)) {
            response.headers_mut().insert("server-timing", took);
        }
        response
    }

    /// The state of the runs' files, whenever it changes.
    fn live(&self) -> Response<Out> {
        let (send, receive) = mpsc::channel(4);
        let mut state = self.state.clone();
        tokio::spawn(async move {
            loop {
                let line = format!("data: {}\n\n", state.borrow_and_update().as_str());
                if send.send(Bytes::from(line)).await.is_err() {
                    break;
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { break },
                    // A closed page is only noticed on a write.
                    () = tokio::time::sleep(Duration::from_secs(15)) => {}
                }
            }
        });
        let mut response = Response::new(Out::Stream(receive));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }

    /// On loopback only requests for this machine's names are answered, which defeats DNS rebinding.
    fn meant_for_us(&self, request: &Request<Incoming>) -> bool {
        if !self.loopback {
            return true;
        }
        let Some(host) = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
        let name = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// Constant-time comparison.
fn same(given: &str, token: &str) -> bool {
    let differ = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differ == 0
}

fn has_cookie(request: &Request<Incoming>, token: &str) -> bool {
    let cookies = request.headers().get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().strip_prefix("hone="));
    values.any(|value| same(&crate::html::decoded(value), token))
}

fn wrong(site: &Site, error: &ViewError) -> (StatusCode, Html) {
    let status = match error {
        ViewError::Missing(_) => StatusCode::NOT_FOUND,
        ViewError::Gone(_) => StatusCode::GONE,
        ViewError::Run(_) | ViewError::Read { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut body = Html::new();
    put!(
        body,
        "<section class=\"head\"><h1>Not here</h1><p>",
        clipped(&error.to_string(), 2000),
        "</p><p><a href=\"/\">to the run</a></p></section>"
    );
    (status, frame(site, &Place { run: None, tab: "", crumbs: vec![("not here".to_owned(), String::new())] }, &body))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Out> {
    let mut response = typed("text/plain; charset=utf-8", format!("{text}\n"));
    *response.status_mut() = status;
    response
}

fn typed(kind: &'static str, text: String) -> Response<Out> {
    let mut response = Response::new(Out::Whole(Some(text.into())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Response body: a page, or lines as they come.
enum Out {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for Out {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(lines) => lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }
}
