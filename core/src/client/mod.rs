//! The client: finds out what the server speaks, makes calls, hands out their outcomes. No bytes, no I/O.

mod config;
mod engine;
mod event;
mod list;
mod negotiate;
mod receive;

pub use config::Config;
pub use engine::Engine;
pub use event::{Event, Notification, Peer, Request};
pub use list::{NoList, Page, Pages};

pub use crate::version::{UnknownVerdict, Verdict};
pub use crate::vocab::Kind;
