#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! Traces of the Model Context Protocol.
extern crate alloc;

mod compare;
pub mod engine;
mod mask;
mod playback;
mod record;
mod recorder;
mod shrink;
mod trace;

pub use compare::{Difference, Replayed};
pub use mask::{Mask, REPLACEMENT};
pub use playback::{Playback, RecordedServer};
pub use record::{Content, Cut, FORMAT_VERSION, Header, Line, Record, Side, Text};
pub use recorder::{MAX_LINE, Recorder};
pub use shrink::shrink;
pub use trace::{Trace, TraceError};
