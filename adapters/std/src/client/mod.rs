//! What clients of all adapters share: how they come to their server, who hears of what, and what is known at the end
//!
//! An adapter brings the waiting and the calls; everything between those and the engine is here.

mod connection;
#[cfg(feature = "http")]
mod exchanges;
mod handler;
mod link;
mod memory;
mod options;
mod wire;

pub use connection::{Connection, Watch};
#[cfg(feature = "http")]
pub use exchanges::Exchanges;
pub use handler::ClientHandler;
pub use link::Link;
pub use memory::{Caching, Memory};
pub use options::{Opened, Options};
pub use wire::{Obituary, Stream, Wire};
