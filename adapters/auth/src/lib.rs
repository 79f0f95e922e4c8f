//! OAuth for programs that use `mcp-proto` on `std`: authorization of clients, token stores, and validators of access tokens.
//!
//! | module | content |
//! |---|---|
//! | `client` | authorization of clients: requests, redirects, browser, stored tokens, keys (feature `client`) |
//! | [`token`] | validation of access tokens by a protected server (more with the feature `server`) |
//!
//! The flow of a client itself is a state machine without I/O, `mcp_oauth`. Programs usually depend on one adapter, which
//! has these modules as `auth` and `token`.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `client` | the I/O of the authorization of clients, with signatures by `ring` |
//! | `server` | validators of access tokens: JWTs and introspection; enables `client` |
//! | `tls` | requests to authorization servers by `https` |
//!
//! Without features the package has the trait [`token::TokenValidator`], and needs no C compiler.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(feature = "client")]
pub mod client;
#[cfg(all(test, feature = "client"))]
mod folder_in_tests;
#[cfg(all(test, feature = "server"))]
mod fuzz_tests;
pub mod token;
