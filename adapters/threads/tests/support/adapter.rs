//! Client and server of this package, for suites that are run on every adapter

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

#[path = "../../../blocking/tests/support/threaded.rs"]
mod threaded;

use core::time::Duration;
use std::thread;

pub(crate) use mcp_threads::{Client, Cx, Error, Options, Router};
pub(crate) use threaded::*;

/// Whether callbacks run apart from the loop, so that the next one begins before it is known what became of the last
pub(crate) const APART: bool = true;

/// Has what came for the client told, and waits a little if nothing did
pub(crate) fn turn(client: &mut Client) {
    client.check_open().expect("a connection");
    thread::sleep(Duration::from_millis(1));
}
