#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! Traces of the Model Context Protocol.
extern crate alloc;

mod calls;
pub mod engine;
mod mask;
mod record;
mod recorder;
mod trace;

pub use calls::{Call, Calls, Message, Outcome};
pub use mask::{Mask, REPLACEMENT};
pub use record::{Content, Cut, FORMAT_VERSION, Header, Line, Record, Side, Text};
pub use recorder::{MAX_LINE, Recorder};
pub use trace::{Trace, TraceError};
