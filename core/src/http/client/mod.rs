//! The client over HTTP, at exchange level: whoever speaks HTTP performs the exchanges that it asks for.
//!
//! ```text
//!   commands on engine(), handle_head / handle_body / handle_end / handle_failure, handle_timeout
//!     → poll_event until None          what the application is told; messages are decoded here
//!     → poll_exchange until None       what is to be sent, and what is to be given up
//!     → wait for any of it, or for poll_timeout
//! ```
//! [`Client`] knows everything that MCP says about HTTP, and no HTTP: under `hyper` or `curl` it works as it does over
//! [`Connections`], which is HTTP/1.1 without sockets.
//!
//! # What it does by itself
//!
//! - **Finds out what the server speaks**: `server/discover`, then `initialize`, then HTTP+SSE of 2024-11-05. A status is
//!   evidence of the era unless it is 401, 403, 407, 408, 429 or 5xx. When nothing works, the fault names all attempts.
//! - **Follows redirects** 307 and 308 within the origin, three at most.
//! - **Legacy**: keeps the session, opens the GET stream once `initialized` was accepted and lets calls wait until that
//!   stream is there, was refused, or [`Config::listen_wait`] is over, so that a server that asks something during a call
//!   can; opens it for the first time when no call is pending, unless the first try failed. Goes on with a stream that broke after an event with
//!   an id. Makes a new session once when the old one is gone: calls that were refused for it are sent again, since they
//!   were not executed. What the old one asked is answered to nobody, and subscriptions are acknowledged anew.
//! - **Modern**: mirrors what the headers have to say, `x-mcp-header` included; a call that is cancelled is an exchange
//!   that is aborted; a subscription whose exchange breaks is asked for again, and acknowledged again.
//! - A call that is cancelled or overdue before it went out is never sent. A notification or an answer that the server
//!   certainly did not take (no connection, 429, 503) is sent again.
//! - A call whose answer is lost ends with [`HttpError::Lost`](crate::HttpError), unless
//!   [`CallOptions::repeatable`](crate::CallOptions) says that it may be made twice.

mod answer;
mod binding;
mod challenge;
mod config;
mod connections;
mod events;
mod exchange;
mod failed;
mod opening;
mod send;
mod session;
mod streams;
mod tools;
mod url;

pub use binding::Client;
pub use config::{BadField, Config, Credential, Reconnect};
pub use connections::{ConnectionId, ConnectionLimits, Connections};
pub use exchange::{Action, Challenge, Class, ExchangeId, Failure, Open};
pub use url::{MAX_URL, Origin, Url, UrlError};

/// What messages are
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// What the answer to a request may be (HTTP-010)
const BOTH: &str = "application/json, text/event-stream";
