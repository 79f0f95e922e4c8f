//! What clients of all adapters share: how they come to their server, who hears of what, and what is known at the end
//!
//! An adapter brings the waiting and the calls; everything between those and the engine is here.

mod connection;
#[cfg(feature = "http")]
mod exchanges;
mod handler;
mod heard;
mod hub;
mod link;
mod memory;
mod options;
mod rehearsal;
mod slot;
mod typed;
mod wire;

pub use connection::{Answer, Connection, Honoured, LAST_BREATH, Watch};
#[cfg(feature = "http")]
pub use exchanges::Exchanges;
pub use handler::ClientHandler;
pub use heard::{Ears, Heard, Later, Listener, Reply};
pub use hub::{Caller, Command, Hub, Job};
pub use link::Link;
pub use memory::{Caching, Memory};
pub use options::{Opened, Opens, OpensStream, Options, Setup, Way};
pub use rehearsal::{Actor, OnTheSpot, Rehearsal, Rehearse};
pub use slot::{Slot, Teller, Update};
pub use typed::{prompt, read};
pub use wire::{Obituary, Parting, Stream, Wire};
