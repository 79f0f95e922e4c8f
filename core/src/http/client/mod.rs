//! The client side of MCP over HTTP, at the level of exchanges.
//!
//! The caller performs the exchanges that [`Client`] requests, with any HTTP implementation:
//!
//! ```text
//!   commands on engine(), handle_head / handle_body / handle_end / handle_failure, handle_timeout
//!     → poll_event until None          events for the application; messages are decoded here
//!     → poll_exchange until None       requests to send, and exchanges to abort
//!     → wait for any of these, or for poll_timeout
//! ```
//!
//! [`Client`] holds all rules of MCP about HTTP and no HTTP implementation. It works over `hyper` or `curl` as it does
//! over [`ConnectionPool`], which is HTTP/1.1 without sockets.
//!
//! # Automatic behaviour
//!
//! - **Negotiation**: tries `server/discover`, then `initialize`, then HTTP+SSE of 2024-11-05. A status other than 401,
//!   407, 408 and 5xx is evidence of the era; so are 403 and 429 without `WWW-Authenticate` and `Retry-After`. If nothing works,
//!   the fault names all attempts.
//! - **Redirects**: follows 307 and 308 within the origin, at most three times.
//! - **Legacy sessions**: keeps the session. Opens the GET stream once `notifications/initialized` was accepted. Calls
//!   wait until that stream is open, was refused, or [`Config::get_stream_timeout`] has passed, so that the server can
//!   send input requests. The first attempt is made while no call is pending. Resumes a stream that broke after an
//!   event with an id.
//! - **Lost sessions**: opens a new session once. Calls that were refused for the lost session were not executed, so
//!   they are sent again. Input requests of the lost session are not answered, and subscriptions are acknowledged
//!   again.
//! - **Answers on the GET stream**: a legacy server may accept a request with status 202 and answer it there.
//! - **Modern**: repeats parts of the message in header fields, `x-mcp-header` included. A cancelled call is an aborted
//!   exchange. A subscription whose exchange breaks is requested again, and acknowledged again.
//! - **Unsent calls**: a call that is cancelled or expires before it was sent is never sent.
//! - **Resending**: a notification or a response that the server did not process (no connection, 429, 503) is sent
//!   again. So is a response in a session that the server may have processed (408, 500, 502, 504, a broken connection).
//! - **Lost answers**: a call whose answer is lost ends with [`HttpError::Lost`](crate::HttpError), unless
//!   [`CallOptions::idempotent`](crate::CallOptions) allows to repeat it.

mod authorization;
mod binding;
mod config;
mod credentials;
mod events;
mod exchange;
mod exchange_table;
#[cfg(test)]
#[path = "../../exhaustive/tables/http_client.rs"]
mod exhaustive_tables;
mod negotiation;
mod pool;
mod pool_table;
mod proof;
mod response;
mod send;
mod session;
mod tools;

pub use crate::url::{MAX_URL, Origin, Url, UrlError};
pub use authorization::Authorization;
pub use binding::Client;
pub use config::{Config, Credential, ReconnectPolicy, RequestFieldError};
pub use exchange::{
    Action, Challenge, ChallengeCause, ExchangeClass, ExchangeFailure, ExchangeId, OutgoingRequest,
};
pub use pool::{ConnectionId, ConnectionPool, PoolLimits};
pub use proof::ProofRequest;

pub use authorization::parse_challenges;

/// The media type of messages.
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// The media types of a response to a request (HTTP-010).
const JSON_OR_EVENT_STREAM: &str = "application/json, text/event-stream";
