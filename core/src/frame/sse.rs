//! Event streams (`text/event-stream`) as the WHATWG's HTML standard defines them: a reader, and a writer that nothing
//! breaks out of (SSE-002).

mod lines;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Event, MAX_FIELD, Sse, SseDecoder};
pub use write::{BadField, END, EventHead, write_comment, write_event};
