//! Event streams (`text/event-stream`) of the WHATWG HTML standard: a decoder, and writers that escape line ends
//! (SSE-002).

mod lines;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Event, MAX_FIELD, SseDecoder, SseItem};
pub use write::{EVENT_END, EventHead, InvalidEventField, write_comment, write_event};
