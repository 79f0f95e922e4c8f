//! The server: takes messages, hands out calls, sends answers. No bytes, no I/O.

mod arguments;
mod asking;
mod channel;
mod config;
#[cfg(feature = "http")]
mod early;
mod engine;
mod event;
#[cfg(feature = "http")]
pub(crate) mod exchange;
mod handshake;
mod input;
mod log;
mod news;
mod receive;
mod reply;
pub(crate) mod said;
#[cfg(feature = "crypto")]
mod sealing;
mod stream;
mod subscriptions;

pub(crate) use arguments::read_arguments;
pub use asking::{Asking, NoAnswer};
pub use config::Config;
pub use engine::Engine;
pub use event::{Call, CancelReason, Event, Notification, Peer, ToolCall};
pub use reply::Prepared;
