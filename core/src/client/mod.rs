//! The client: finds out what the server speaks, makes calls, hands out their outcomes. No bytes, no I/O.
//!
//! The [`Engine`] does all of the protocol. Beside it stands what not every client wants, each usable alone: [`Pages`]
//! follows a list to its end, a [`Cache`] keeps results that need not be asked for again, [`OutputSchemas`] holds results
//! against what their tools promised. [`model::Request`](crate::model::Request) knows what a result is read as.

mod answers;
mod cache;
mod calls;
mod config;
mod engine;
mod event;
#[cfg(feature = "http")]
mod exchanges;
mod input;
mod list;
mod log;
mod negotiate;
mod news;
mod pages;
mod receive;
mod rounds;
mod schemas;
mod subscribe;

#[cfg(feature = "http")]
pub(crate) use negotiate::is_modern_error;

pub use cache::{Asker, Cache, Question, Ticket};
pub use config::Config;
pub use engine::Engine;
pub use event::{Event, Notification, Peer, Request};
pub use input::{Asked, Input, InputId};
pub use list::{NoList, Page, Pages};
pub use log::Log;
pub use subscribe::SubscriptionKey;

pub use schemas::{Misfit, OutputSchemas};

pub use crate::validate::{SchemaError, SchemaValidator, Validate, Violations};
pub use crate::version::{UnknownVerdict, Verdict};
pub use crate::vocab::Kind;
