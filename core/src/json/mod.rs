//! JSON text: a strict scanner over borrowed bytes and a writer of compact text.
//!
//! The scanner finds where things are and builds nothing; the writer is a serde `Serializer`. Both treat plain
//! string bytes eight at a time.

#[cfg(feature = "crypto")]
mod canon;
mod members;
mod name;
mod scan;
mod shape;
mod swar;
mod write;

#[cfg(feature = "crypto")]
pub(crate) use canon::canonical;
pub(crate) use scan::{MAX_DEPTH, ScanError, Scanner, Span, Text, object_members, unescape};
pub(crate) use shape::{Revisions, Rule, Substitute, Table};
pub(crate) use swar::{check_utf8, find_newline};
pub use write::EncodeError;
pub(crate) use write::{Noted, Serializer, append_one_line, write_int, write_str};
