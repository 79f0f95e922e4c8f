//! Shared code of the tests with processes and peers.
//!
//! * [`adapters`] runs the client of each adapter behind one trait.
//! * [`browser`] follows authorization URLs like a user with a browser.
//! * [`executor`] runs the futures of asynchronous adapters.

extern crate alloc;

pub mod adapters;
pub mod browser;
pub mod executor;
mod guide;

/// Doctests of the examples in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;
