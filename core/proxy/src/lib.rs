#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! A proxy of the Model Context Protocol without I/O: a server engine of [`mcp_proto`] in front, and client engines behind.
//!
//! *Downstream* is the side that faces the clients, *upstream* the side that faces a server. A [`Relay`] joins both, whatever
//! revision each speaks: calls with their progress, cancellation and input requests, subscriptions, log messages and custom methods.
//! A [`Gateway`] has several upstreams, with a relay to each, and shows them as one server: it merges lists, routes calls by name
//! and resources by URI, and lets a policy decide who sees and uses what.
//!
//! # Drivers
//!
//! Without features it performs no I/O and reads no clock. A driver owns the engines and their transports, and repeats:
//!
//! 1. Input is passed to both engines, as without a proxy.
//! 2. Events of both engines are passed to the relay, by [`handle_server_event`](Relay::handle_server_event) and
//!    [`handle_client_event`](Relay::handle_client_event). Neither side is read from while the other is congested. Clients of a
//!    gateway are read on: an upstream that is full refuses calls.
//! 3. After each batch of events: [`process_pending`](Relay::process_pending).
//! 4. A server that the relay asks for is started ([`poll_start`](Relay::poll_start)), one that is
//!    [not running](Relay::is_server_running) is let go of.
//! 5. Output of both engines is written. The driver waits for input, or until a deadline of an engine or of
//!    [`Relay::poll_timeout`], at which [`handle_timeout`](Relay::handle_timeout) is called.
//!
//! The drivers of the module `host` do this for one server and for several: a driver of a gateway has the index of the upstream in each
//! call.
//!
//! # Features
//!
//! | feature | what it enables |
//! |---|---|
//! | `host` | `host`: event loops of a bridge and of a gateway, on `std` |
//! | `tls` | `https` on both sides of these; enables `host`; the build needs a C compiler |
//!
//! # A gateway
//!
//! ```
//! use mcp_proto_proxy::mcp_proto::{EntryKind, Instant};
//! use mcp_proto_proxy::{Access, ClientCount, Decision, Gateway};
//!
//! // Only alice pays, and no other principal sees the tool.
//! let decide = |access: &Access<'_>| match (access.upstream, access.kind, access.name) {
//!     ("harbour", EntryKind::Tool, "pay") if access.caller.principal() != Some("alice") => Decision::Hide,
//!     _ => Decision::Allow,
//! };
//! let mut gateway = Gateway::new(ClientCount::Many).policy(decide);
//! // Its tool `pay` is `harbour_pay` for clients.
//! let harbour = gateway.add(Instant::ZERO, "harbour", None)?;
//! assert_eq!(gateway.poll_start(Instant::ZERO), Some(harbour));
//! # Ok::<(), mcp_proto_proxy::AddError>(())
//! ```
//!
//! # Bounds
//!
//! | what | at most | beyond |
//! |---|---|---|
//! | calls and lists that are merged, of all clients | [`max_live_calls`](mcp_proto::Limits::max_live_calls) of the engine in front | further ones wait there |
//! | calls of an upstream | [`Gateway::limit_calls`] and the limits of its engine | refused |
//! | calls that wait for answers of their clients | 1,024 for each upstream | the question is refused |
//! | outcomes that wait for a retry | 16 MiB for each upstream | an error takes their place |
//! | calls for a server that starts | until the driver says how the start went; before it, 5 s | refused |
//! | parts of lists that wait, a merged page | 64 MiB, 8 MiB | the upstream, those with the most, are left out and named |
//! | tools with header fields, schema of one | 4,096 for each upstream, 16 KiB | registered without header fields |
//! | tasks of clients | as [`TaskLimits`](mcp_proto::server::TaskLimits) by default | the call is refused, or goes on without one |
//! | upstreams in the life of a gateway | [`MAX_UPSTREAMS`] | not added |
//! | resources, templates with known owners | 65,536, 1,024, half of them in equal shares for each upstream, with URIs of 4,096 bytes | upstreams are asked one after the other |
//! | followed resources of an upstream | 16 times [`max_subscribed_resources`](mcp_proto::Limits::max_subscribed_resources) | not asked for, until there is room; logged to sessions without a policy, and [counted](Relay::unfollowed_resources) |
//! | tools of an upstream that [search](Gateway::with_search) finds | 4,096, 256 KiB each, 8 MiB together | not found, but called by name |
//! | words of a tool, bytes of its description that are searched | 1,024, 4,096 | not searched |
//! | time for a list, a search | [`LIST_TIMEOUT`] | answered without the late upstreams |
//! | cursor of an upstream | 4,096 bytes | the list ends there, and the upstream is named |

extern crate alloc;

mod convert;
mod following;
mod gateway;
#[cfg(feature = "host")]
pub mod host;
mod input;
mod lists;
mod logs;
mod names;
mod policy;
mod relay;
mod relayed_call;
mod resources;
mod routing;
mod search;
mod server_life;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod tests;

pub use gateway::{Gateway, GatewayEngines, MAX_UPSTREAMS, UpstreamEngine, UpstreamEngines, gateway_config};
pub use lists::{LIST_TIMEOUT, UNAVAILABLE};
pub use mcp_proto;
pub use names::{AddError, upstream_name};
pub use policy::{Access, Decision};
pub use relay::{
    ClientCount, Engines, Relay, client_limits, relayed_capabilities, server_config, server_limits,
};
pub use search::{SearchSize, search_gateway_config, search_server_config};
pub use tasks::set_tasks;
