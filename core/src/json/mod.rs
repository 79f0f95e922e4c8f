//! JSON text: a strict scanner over borrowed bytes, and a serializer for compact text.
//!
//! The scanner finds positions and builds no tree; the writer is a serde `Serializer`. Both process plain string bytes
//! eight at a time.

#[cfg(feature = "crypto")]
mod canonical;
mod encode_error;
mod key_serializer;
mod member_names;
mod read;
mod scan;
mod shape;
mod swar;
mod text;
mod top_level;
mod write;

#[cfg(feature = "crypto")]
pub(crate) use canonical::canonical;
pub use encode_error::EncodeError;
pub(crate) use member_names::find_duplicate;
pub(crate) use read::{read, string};
pub(crate) use scan::{MAX_DEPTH, ScanError, Scanner, Span, StringToken, object_members, unescape};
pub(crate) use shape::{RevisionMask, ShapeRule, ShapeTable, Substitute};
pub(crate) use swar::{check_utf8, find_newline};
pub(crate) use text::{append_one_line, escaped_len, max_escaped_len, room, write_int, write_str};
pub(crate) use top_level::TopLevelMembers;
pub(crate) use write::{OBJECT_MARKER, RAW_VALUE_NAME, Serializer};
