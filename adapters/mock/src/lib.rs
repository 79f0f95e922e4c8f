#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "handlers are compiled once for each adapter")]
//! Servers of the Model Context Protocol to try clients on.
//!
//! - [`Content`]: the demonstration, everything that a server can offer (with the fixtures of the official conformance suite), or what a
//!   file or a trace defines ([`Definition`]).
//! - [`chaos`]: disturbs what goes to a client, the same way for the same seed.
//!
//! ```no_run
//! use mcp_mock::{Content, Setup};
//!
//! let setup = Setup::new(Content::Everything, |note| eprintln!("{note}"));
//! let (router, _clock) = mcp_mock::blocking::router(&setup);
//! mcp_blocking::serve_stdio(router.config()?, router)?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `events` | [`Content::Everything`] has events (`mcp-events`) |
//! | `smol`, `threads`, `tokio`, `tower` | the module of the same name: routers for that adapter |

extern crate alloc;

/// Waits in a handler of an adapter whose handlers block.
macro_rules! wait {
    ($waiting:expr) => {
        $waiting
    };
}

pub mod blocking;
pub mod chaos;
mod clock;
mod definition;
mod demonstration;
mod everything;
mod file;
mod step;
#[cfg(feature = "threads")]
pub mod threads;
mod trace;

/// Waits for a future, from here on: handlers of these adapters are async.
#[cfg(any(feature = "smol", feature = "tokio", feature = "tower"))]
macro_rules! wait {
    ($waiting:expr) => {
        $waiting.await
    };
}

#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
pub mod tower;

use alloc::sync::Arc;

use mcp_proto::model::Implementation;

pub use clock::ClockResource;
pub use definition::Definition;
pub use step::TourStep;

/// What a server offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content {
    /// Four small tools: `echo`, `add`, `count`, `fail`.
    Demonstration,
    /// Something of every kind.
    Everything,
    /// The same without tasks, which other processes would not know: for sessions that several processes serve.
    EverythingShared,
    /// What a file or a trace defines.
    Defined(Arc<Definition>),
}

/// A server.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it offers.
    pub content: Content,
    /// Who it says that it is; what a file or a trace defines says it there.
    pub info: Implementation,
    /// What it does wrongly.
    pub broken: Option<TourStep>,
    /// Is told what fails in the background.
    pub note: fn(&str),
}

impl Setup {
    /// Creates one that does nothing wrongly.
    #[must_use]
    pub fn new(content: Content, note: fn(&str)) -> Self {
        let info = Implementation::new("mcp-mock", env!("CARGO_PKG_VERSION"));
        Self { content, info, broken: None, note }
    }
}
