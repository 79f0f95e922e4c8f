//! Byte streams: stdio, sockets, memory, and any reader with a writer.
//!
//! | to talk over | use |
//! |---|---|
//! | stdin and stdout of this process | [`Stdio`] |
//! | a TCP or Unix socket | [`Socket`], accepted by a [`Listener`] |
//! | any `Read` with a `Write` | [`Threaded`] |
//! | a test in the same process | [`memory_pair`] |
//!
//! All of them implement [`Duplex`]. A stream to a server process is [`ChildIo`](crate::process::ChildIo).

#[cfg(feature = "http")]
mod addresses;
mod descriptors;
mod duplex;
mod memory;
#[cfg(unix)]
mod net;
#[cfg(not(unix))]
#[path = "net_other.rs"]
mod net;
mod socket;
#[cfg(unix)]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_other.rs"]
mod stdio;
#[cfg(unix)]
mod stdout_guard;
mod threaded;

#[cfg(unix)]
pub use crate::adapter::poll::Descriptors;
pub use crate::adapter::poll::{HungUp, Interest, Ready};
#[cfg(feature = "http")]
pub(crate) use addresses::{interleave_families, known_addresses};
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub(crate) use duplex::retry_on_interrupt;
pub use duplex::{Duplex, is_peer_gone};
pub use memory::{MemoryEnd, memory_pair};
use memory::{MemoryPipe, MemoryPipes};
pub use net::{Listener, is_resource_exhausted};
pub use socket::Socket;
pub use stdio::Stdio;
#[cfg(unix)]
use stdout_guard::StdinGuard;
#[cfg(unix)]
pub use stdout_guard::{StdoutGuard, guard_stdout};
pub use threaded::Threaded;
