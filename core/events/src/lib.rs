#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(fuzzing, test)),
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
//! The Events extension of the Model Context Protocol (SEP-3415), on public interfaces of [`mcp_proto`].
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | messages, errors, the capability, profiles |
//! | [`webhook`] | secrets, signatures, verification challenges, ids of subscriptions |
//! | [`address`] | which URLs and addresses a webhook may be delivered to |
//! | [`source`] | types, polls and streams of a server |
//! | `server` | the same on any adapter, as an extension of a router (feature `server`; with `schemars` schemas from types) |
//! | [`follow`] | follows events by polls or streams, as a client |
//! | `client` | the same with the client of any adapter, and all other calls (feature `client`) |
//! | [`receiver`] | takes deliveries in, verifies them, and drops repetitions |
//! | `receive` | a web server on `std` around `receiver` (feature `receive`) |
//! | [`subscription`] | a webhook subscription of a client: subscribes, refreshes, rotates, ends |
//! | [`delivery`] | deliveries to subscribers: challenges, retries, watermarks |
//! | [`store`] | what of a server outlives a restart, as records |
//! | `post` | sends them on `std`: HTTPS requests, and a thread that drives `delivery` (feature `post`) |
//!
//! [`troubleshooting`] explains the messages of errors.
//!
//! Apart from `client`, `server`, `post` and `receive` it performs no I/O: time, entropy and bytes are arguments, and each bound is a field of a
//! configuration or a public constant. Without features it is `no_std`, with `alloc`. SEP-3415 is Final and the extension is in Beta
//! (SEP-3392): **this package may change in a minor release**.

extern crate alloc;
#[cfg(any(feature = "client", feature = "post", feature = "receive", feature = "server", test))]
extern crate std;

pub mod address;
#[cfg(feature = "client")]
pub mod client;
pub mod delivery;
pub mod follow;
#[cfg(test)]
mod fuzz_tests;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed check is a finding")]
pub mod fuzzing;
#[cfg(doc)]
pub mod guide;
mod log;
#[cfg(feature = "post")]
pub mod post;
#[cfg(feature = "receive")]
pub mod receive;
pub mod receiver;
mod seen;
#[cfg(feature = "server")]
pub mod server;
pub mod source;
pub mod store;
pub mod subscription;
#[cfg(any(doc, doctest))]
#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}
pub mod webhook;
pub mod wire;
