//! What servers of all adapters share: what a handler is and can do, and the connections of HTTP
//!
//! An adapter brings the loop; everything between that and the engine is here.

mod changes;
mod cx;
mod desk;
mod handler;
mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod peer;
#[cfg(feature = "http")]
mod peers;
#[cfg(feature = "http")]
mod places;
mod remote;
pub mod router;
#[cfg(feature = "http")]
mod seats;
mod stream;

pub use changes::Changes;
pub use cx::{Answered, Cx, Line, Place};
pub use desk::{Commands, Desk};
pub use handler::{Failure, Handler};
pub use host::{Backlog, Here, Host, handle, settle};
#[cfg(feature = "http")]
pub use http::{HttpServer, Shard};
#[cfg(feature = "http")]
pub use peer::Moved;
#[cfg(feature = "http")]
pub use peers::Peers;
pub use remote::{Command, Done, Remote, Report, Running, Verdict};
pub use stream::{HandOut, Handle, Server};
