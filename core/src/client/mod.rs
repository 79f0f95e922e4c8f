//! The client: finds out what the server speaks, makes calls, hands out their outcomes. No bytes, no I/O.

mod answers;
mod calls;
mod config;
mod engine;
mod event;
mod input;
mod list;
mod log;
mod negotiate;
mod news;
mod receive;
mod rounds;
mod subscribe;

pub use config::Config;
pub use engine::Engine;
pub use event::{Event, Notification, Peer, Request};
pub use input::{Asked, Input, InputId};
pub use list::{List, Page};
pub use log::Log;
pub use subscribe::SubscriptionKey;

pub use crate::version::{UnknownVerdict, Verdict};
