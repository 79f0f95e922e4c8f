#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! A proxy of the Model Context Protocol without I/O: a server engine of [`mcp_proto`] in front, and client engines behind.
//!
//! *Downstream* is the side that faces the clients, *upstream* the side that faces a server. A [`Relay`] joins both, whatever
//! revision each speaks: calls with their progress, cancellation and input requests, subscriptions, log messages and custom methods.
//!
//! It performs no I/O and reads no clock. A driver owns the engines and their transports, and repeats:
//!
//! 1. Input is passed to both engines, as without a proxy.
//! 2. Events of both engines are passed to the relay, by [`handle_server_event`](Relay::handle_server_event) and
//!    [`handle_client_event`](Relay::handle_client_event). Neither side is read from while the other is congested.
//! 3. After each batch of events: [`process_pending`](Relay::process_pending).
//! 4. A server that the relay asks for is started ([`poll_start`](Relay::poll_start)), one that is
//!    [not running](Relay::is_server_running) is let go of.
//! 5. Output of both engines is written. The driver waits for input, or until a deadline of an engine or of
//!    [`Relay::poll_timeout`].
//!
//! `mcp-probe bridge` is such a driver.

extern crate alloc;

mod convert;
mod input;
mod logs;
mod relay;
mod relayed_call;
mod server_life;
mod subscriptions;
#[cfg(test)]
mod tests;

pub use mcp_proto;
pub use relay::{
    ClientCount, Engines, Relay, client_limits, relayed_capabilities, server_config, server_limits,
};
