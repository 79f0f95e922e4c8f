//! Client and server of this package, for suites that are run on every adapter

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

mod threaded;

use core::time::Duration;

pub(crate) use mcp_blocking::{Client, Cx, Error, Options, Router};
pub(crate) use threaded::*;

/// Whether callbacks run apart from the loop, so that the next one begins before it is known what became of the last
pub(crate) const APART: bool = false;

/// Has what came for the client told, and waits a little if nothing did
pub(crate) fn turn(client: &mut Client) {
    client.poll(Duration::from_millis(1)).expect("a connection");
}
