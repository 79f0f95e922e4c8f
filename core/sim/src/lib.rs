#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! Seeded worlds of Model Context Protocol clients and servers on virtual time.
//!
//! A [`World`] has clients, their servers and the links between them. Which call is made, where bytes are cut, when a link breaks
//! and who dies is drawn from the seed. The draws are recorded as [`Decisions`], so a run can be played again, and reduced:
//! [`search`] removes decisions while the same [invariant](INVARIANTS) is violated, and [`Failure::to_test`] writes the rest as a unit test.
//!
//! [`Plan::binding`] is what carries the messages: a [byte stream](Binding::Pipe) for each client, or [HTTP](Binding::Http), where one
//! server has them all. There every client has a principal of its own, and a stranger with a token tries the sessions, events, requests
//! and tasks of others. Exchanges overtake each other and break, streams are resumed, and the server restarts, with its sessions or
//! without them. [HTTP+SSE](Binding::HttpSse) of 2024-11-05 has the same parties; the one event stream of a client is its connection,
//! and ends with it. With [`Plan::http1`] the two over HTTP carry the bytes of HTTP/1.1, cut anywhere. On all bindings, servers report progress, publish
//! changes, ask their clients and make tasks of calls.
//! [Memory may run out](field@Plan::out_of_memory) for a while.
//!
//! With the feature `events`, servers have events of `mcp-events` (`Plan::events`), which clients follow by polls, streams and webhooks:
//! with their last position over broken links, deaths and restarts. Deliveries are late, lost, twice, and overtake each other, and a
//! stranger forges some.
//!
//! There is no clock, no thread and no entropy but the seed.
//!
//! ```
//! use mcp_sim::{Marks, Plan, World, search};
//!
//! // One run…
//! let report = World::new(7, Plan::STORM, Marks::ALL).run();
//! assert_eq!(report.violation, None);
//! // … or many. A program of yours takes part as an `Application`.
//! assert!(search(0..5, Plan::STORM, 500, || Marks::ALL).is_none());
//! ```
extern crate alloc;

mod decisions;
mod entry;
mod events;
mod exchanges;
mod invariants;
mod marks;
mod messages;
mod plan;
mod shrink;
pub mod stream;
pub mod strict;
mod world;

pub use decisions::{Decisions, Draws};
pub use entry::{Entry, Lane, What};
pub use invariants::{INVARIANTS, Invariant};
pub use marks::Marks;
pub use messages::Log;
pub use plan::{Binding, Plan};
pub use shrink::{Failure, search};
pub use world::{Application, Report, Side, SidePhase, Transit, TransitEnd, Violation, World};
