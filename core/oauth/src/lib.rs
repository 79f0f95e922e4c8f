#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]
//! Authorization of a client: from a challenge of a server to an access token, without I/O and without cryptography.
//!
//! It knows no engine and stands on public items of [`mcp_proto`]: URLs, header fields, scopes, time and entropy. A client of another
//! HTTP stack, or of another protocol, can use it alone.
//!
//! A [`Flow`] is one authorization for one MCP server. It asks for one thing after the other ([`Event`]), and ends with a
//! token, without one, or with an [`Error`] that names the step, the server and the rule. The caller brings the rest: an
//! HTTP client that enforces the [policy](FetchPolicy) of each request, a store, a browser, signatures, time and entropy.
//! `mcp_auth::client::Authorizer` does all of that on `std`.
//!
//! ```
//! use std::sync::Arc;
//! use mcp_oauth::{Anchor, Config, Entropy, Event, FetchResponse, Flow, Instant, Trigger, Url};
//!
//! let server = Url::parse("https://mcp.example.com/mcp")?;
//! let trigger = Trigger::Unauthorized { challenges: Vec::new(), rejected: None }; // a 401
//! let now = Instant::from_micros(1); // by the clock of the caller
//! let clock = Anchor::new(now, 1_800_000_000);
//! let entropy = Entropy::new([7; 32], 0); // 32 random bytes
//! let mut flow = Flow::new(Arc::new(Config::new("Example")), server, trigger, clock, now, entropy);
//!
//! // Nothing is stored for this server …
//! let Some(Event::Load { key }) = flow.poll_event(now) else { panic!("a question to the store") };
//! assert_eq!(key, "token https://mcp.example.com/mcp");
//! flow.handle_loaded(now, None);
//! // … so the flow looks for the metadata of the server.
//! let Some(Event::Fetch(fetch)) = flow.poll_event(now) else { panic!("a request") };
//! assert_eq!(fetch.url.target(), "/.well-known/oauth-protected-resource/mcp");
//! let body = br#"{"resource":"https://evil.example/mcp","authorization_servers":["https://evil.example"]}"#;
//! let response = FetchResponse { status: 200, body: body.to_vec(), ..FetchResponse::default() };
//! flow.handle_response(now, fetch.id, response);
//! let Some(Event::Failed(error)) = flow.poll_event(now) else { panic!("the metadata of another server") };
//! assert!(error.to_string().contains("`resource` is https://evil.example/mcp, which is not this server"));
//! # Ok::<(), mcp_oauth::UrlError>(())
//! ```
//!
//! # Rules
//!
//! - A credential goes to no URL but those that the validated metadata of its issuer names, or that the configuration
//!   names. Requests for metadata follow at most three redirects, each of which is checked; requests with credentials
//!   follow none (SEC-011).
//! - `issuer`, `resource` and `iss` are compared byte for byte (AUTH-030, AUTH-043, AUTH-048).
//! - One flow at a time refreshes the tokens for a server, under a lock of the store, and hands out a token once it is
//!   stored. What it writes replaces the tokens that it has read, and no others.
//! - A flow makes at most 32 requests besides polls of the device flow, and ends in time: each request has a timeout
//!   ([`Config::fetch_timeout`]), and so has the user ([`Config::login_timeout`]). Store, signatures and assertions are
//!   local: the caller bounds them.
//! - No error, and no `Debug` output, holds a secret (SEC-019).

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client_metadata;
mod client_request;
mod config;
mod document;
mod dpop;
mod error;
#[cfg(test)]
mod exhaustive_tests;
#[allow(dead_code, unreachable_pub, reason = "the file is that of the core")]
#[cfg(test)]
mod extent;
mod flow;
mod jose;
mod locations;
mod record;
mod request;
mod search;
mod server_metadata;
mod token;

pub use client_metadata::{ClientMetadata, ClientMetadataError};
pub use client_request::Registration;
pub use config::{
    ApplicationType, ClientAuth, ClientCredentials, Config, DpopMode, GrantType, IdentityProvider,
};
pub use dpop::DpopProofs;
pub use error::{Error, ErrorKind, FetchFailure, Step};
pub use flow::{AssertionRequest, Event, Flow, RedirectOutcome, Trigger, UserCode, redirect_query};
pub use jose::{Algorithm, DpopKey, SignRequest, Signature, SigningKey};
pub use locations::{
    resource_metadata as resource_metadata_locations, server_metadata as server_metadata_locations,
};
pub use mcp_proto::head::Fields;
pub use mcp_proto::http::{Network, Url, UrlError};
pub use mcp_proto::{Anchor, AuthChallenge, Entropy, Instant, ScopeError, Scopes};
pub use record::TokenRecord;
pub use request::{Fetch, FetchId, FetchPolicy, FetchResponse};
#[doc(hidden)]
pub use request::{Form, parse_form};
pub use token::{AccessToken, Secret};
