//! The examples of `mcp-tower` with web frameworks, and a [client] over hyper.

#![forbid(unsafe_code)]

pub mod client;

#[cfg(doctest)]
#[doc = include_str!("../../../adapters/tower/README.md")]
struct Readme;
