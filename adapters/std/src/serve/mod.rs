//! What servers of all adapters share: what a handler is and can do, and the connections of HTTP
//!
//! An adapter brings the loop; everything between that and the engine is here.

mod cx;
mod handler;
mod host;
#[cfg(feature = "http")]
mod peers;

pub use cx::{Answered, Cx};
pub use handler::{Failure, Handler};
pub use host::{Backlog, Host, handle};
#[cfg(feature = "http")]
pub use peers::Peers;
