//! A binding of the engines of `mcp-proto` to WebSocket, written outside of that crate.
//!
//! One WebSocket connection carries many exchanges at once. A text frame has one of two forms:
//!
//! - `NUMBER MESSAGE`: a JSON-RPC message of the exchange with this number;
//! - `NUMBER`: the end of the exchange.
//!
//! A client opens an exchange for each message, with numbers that ascend from 1. The server sends the answer and all
//! that belongs to it (progress, log messages, requests for input) in the same exchange, and ends it. A client that ends
//! it first needs no answer. Exchange 0 is open from the beginning: the server sends in it what belongs to no message of
//! the client, the change notifications of a legacy session for example.
//!
//! [`server`] and [`client`] are state machines without I/O, like the bindings of `mcp-proto`; [`socket`] runs them on
//! `tokio` with `tokio-tungstenite`.

pub mod client;
mod frame;
pub mod server;
pub mod socket;
