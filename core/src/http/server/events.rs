//! Writers of event streams.

use alloc::vec::Vec;

use super::replay::{self, ReplayEntry};
use crate::frame::sse::{EVENT_END, EventHead};
use crate::head::Fields;
use crate::http::fields;
use crate::outbox::Outbox;

/// Returns the fields of every event stream response.
pub(super) fn event_stream_fields() -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::CONTENT_TYPE, fields::EVENT_STREAM.as_bytes());
    fields.push(fields::CACHE_CONTROL, b"no-cache"); // SSE-008
    fields.push(fields::X_ACCEL_BUFFERING, b"no"); // SSE-007
    fields
}

/// Writes an event without data.
pub(super) fn write_empty_event(out: &mut Vec<u8>, head: &EventHead<'_>) {
    write_event_head(out, head);
    out.extend_from_slice(EVENT_END);
}

/// Writes the lines of an event before its data; ids and types of ours have no line ends.
pub(super) fn write_event_head(out: &mut Vec<u8>, head: &EventHead<'_>) {
    let _ = head.begin(out);
}

pub(super) fn write_entry(out: &mut Outbox, entry: &ReplayEntry) {
    let id = replay::format_event_id(entry.stream, entry.event);
    out.write(|out| write_event_head(out, &EventHead { id: Some(&id), ..EventHead::default() }));
    out.push_bytes(&entry.message);
    out.push(EVENT_END);
}
