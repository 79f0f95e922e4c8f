//! Disturbed messages: on their way to a client, the same ones in the same way for the same seed.
//!
//! What becomes of a message follows from the seed, the number of its connection and its own number. [`Filter`] decides and does it without
//! I/O; `start` (Unix) runs it between the stream of a server and that of its client.

mod filter;
mod kind;
#[cfg(unix)]
mod relay;

use alloc::vec::Vec;
use core::time::Duration;

pub use filter::{Filter, Step};
pub use kind::{Kind, Row};
#[cfg(unix)]
pub use relay::{End, start};

/// Which messages are disturbed, and how.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// The seed.
    pub seed: u64,
    /// The kinds of disturbances.
    pub kinds: Vec<Kind>,
    /// How many messages of 100 are disturbed.
    pub rate: u64,
    /// How long a late message waits.
    pub delay: Duration,
    /// How many first messages of each connection are left alone.
    pub after: u64,
}
