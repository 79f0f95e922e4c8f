//! Shared code of the tests: harnesses, schema validation, and the requirements report.
//!
//! * [`harness`] runs the client and the server against each other, or one of them alone, on virtual time.
//! * [`schema`] finds the type and the revision that a message must match, and validates it.

extern crate alloc;

pub mod harness;
pub mod revision_table;
pub mod schema;

/// Doctest of the device in the guide to new hosts.
#[cfg(doctest)]
#[doc = include_str!("../../core/docs/porting.md")]
pub struct PortingDoctests;
