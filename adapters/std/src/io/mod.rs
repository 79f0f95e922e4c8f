//! Byte streams: stdio, sockets, memory, and any reader with a writer.
//!
//! | to talk over | use |
//! |---|---|
//! | stdin and stdout of this process | [`Stdio`] |
//! | a TCP or Unix socket | [`Socket`], accepted by a [`Listener`] or [`StreamListener`] |
//! | a serial line | [`SerialPort`] |
//! | what a [`StreamAddress`] names | [`StreamAddress::connect`] |
//! | any `Read` with a `Write` | [`Threaded`] |
//! | a test in the same process | [`memory_pair`] |
//!
//! All of them implement [`Duplex`]. A stream to a server process is [`ChildIo`](crate::process::ChildIo).

mod addresses;
mod descriptors;
mod duplex;
mod memory;
#[cfg(unix)]
mod net;
#[cfg(not(unix))]
#[path = "net_other.rs"]
mod net;
#[cfg(unix)]
mod serial;
#[cfg(not(unix))]
#[path = "serial_other.rs"]
mod serial;
mod serial_config;
mod socket;
#[cfg(unix)]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_other.rs"]
mod stdio;
#[cfg(unix)]
mod stdout_guard;
mod stream_address;
#[cfg(unix)]
mod stream_listener;
#[cfg(not(unix))]
#[path = "stream_listener_other.rs"]
mod stream_listener;
mod threaded;

#[cfg(unix)]
pub use crate::adapter::poll::Descriptors;
pub use crate::adapter::poll::{HungUp, Interest, Ready};
pub(crate) use addresses::{interleave_families, known_addresses};
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub(crate) use duplex::retry_on_interrupt;
pub use duplex::{Duplex, is_peer_gone};
pub use memory::{MemoryEnd, memory_pair};
use memory::{MemoryPipe, MemoryPipes};
pub use net::{Listener, is_resource_exhausted};
pub use serial::SerialPort;
pub use serial_config::SerialConfig;
pub use socket::Socket;
#[cfg(unix)]
pub(crate) use socket::SocketControl;
pub use stdio::Stdio;
#[cfg(unix)]
use stdout_guard::StdinGuard;
#[cfg(unix)]
pub use stdout_guard::{StdoutGuard, guard_stdout};
pub use stream_address::{InvalidStreamAddress, StreamAddress};
pub use stream_listener::StreamListener;
pub use threaded::Threaded;
