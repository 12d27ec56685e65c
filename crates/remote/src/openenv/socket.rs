//! A `/ws` connection: one message out, one message in.
//!
//! Messages carry no id. A caller that gives up on an answer must drop the socket, or every later answer would be
//! mistaken for the one before it; [`Socket::ask`] consumes it and returns it only with an answer, which enforces that.

use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::wire::Said;
use crate::http::Http;
use crate::supervise::Failure;

/// Longest message that is read, as in the official client.
const MAX_MESSAGE: usize = 100 << 20;

#[derive(Debug)]
pub struct Socket(Box<WebSocketStream<reqwest::Upgraded>>);

impl Socket {
    /// Connects to a path of the server.
    pub async fn connect(http: &Http, path: &str) -> Result<Self, Failure> {
        let key = generate_key();
        let (stream, accepted) = http.upgrade(path, &key).await?;
        if accepted.as_deref() != Some(derive_accept_key(key.as_bytes()).as_str()) {
            return Err(Failure::refused("the server switched protocols without the accept key of a WebSocket"));
        }
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        Ok(Self(Box::new(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await)))
    }

    /// Sends a message and waits for its answer, as text. The socket comes back with it.
    pub async fn exchange(mut self, message: &Value) -> Result<(Self, String), Failure> {
        if let Some(text) = self.early()? {
            return Ok((self, text));
        }
        let sent = self.0.send(Message::text(message.to_string())).await;
        // A server without room says so and closes, perhaps before it read anything: its last message explains a failed
        // send.
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok((self, text.as_str().to_owned())),
                Some(Ok(Message::Close(frame))) => {
                    let why = frame.map(|frame| format!(" ({} {})", frame.code, frame.reason)).unwrap_or_default();
                    return Err(Failure::infrastructure(format!("the server closed the connection{why}")));
                }
                Some(Ok(Message::Binary(_))) => return Err(Failure::refused("a binary message, where text is due")),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Failure::infrastructure(format!("the connection broke: {error}"))),
                None => {
                    let why = sent.err().map_or_else(|| "it was closed".to_owned(), |error| error.to_string());
                    return Err(Failure::infrastructure(format!("the connection broke: {why}")));
                }
            }
        }
    }

    /// A message that arrived before anything was sent. An error (a full server sends one immediately and closes) is
    /// the answer; anything else is one answer too many, and every later one would be mistaken for the one before it.
    fn early(&mut self) -> Result<Option<String>, Failure> {
        while let Some(received) = self.0.next().now_or_never().flatten() {
            match received {
                Ok(Message::Text(text)) => match Said::read(text.as_str()) {
                    Ok(Said::Error { .. }) => return Ok(Some(text.as_str().to_owned())),
                    _ => return Err(Failure::refused("the server sent a message that nothing had asked for")),
                },
                // The loop of `exchange` reports the state of the connection.
                Ok(Message::Close(_)) | Err(_) => break,
                Ok(_) => {}
            }
        }
        Ok(None)
    }

    /// Sends a message and reads the answer.
    pub async fn ask(self, message: &Value) -> Result<(Self, Said), Failure> {
        let (socket, text) = self.exchange(message).await?;
        let said = Said::read(&text).map_err(|why| Failure::refused(format!("the server sent {why}")))?;
        Ok((socket, said))
    }

    /// Says that the session is over and waits until the server has closed it. A dropped connection ends it too, later.
    pub async fn close(mut self) {
        let _ = self.0.send(Message::text(r#"{"type":"close"}"#)).await;
        while let Some(Ok(message)) = self.0.next().await {
            if message.is_close() {
                break;
            }
        }
    }
}
