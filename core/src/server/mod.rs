//! The server: takes messages, hands out calls, sends answers. No bytes, no I/O.

mod asking;
mod channel;
mod config;
mod engine;
mod event;
mod handshake;
mod input;
mod log;
mod news;
mod receive;
mod reply;
mod subscriptions;

pub use asking::{Asking, NoAnswer};
pub use config::Config;
pub use engine::Engine;
pub use event::{Call, CancelReason, Event, Notification, Peer, ToolCall};
