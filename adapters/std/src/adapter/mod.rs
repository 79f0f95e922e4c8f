//! Building blocks of the adapters: loops, waits, queues, and the shared halves of servers and clients.
//!
//! This module is outside of semantic versioning: an adapter depends on this crate by `=`, and programs depend on an
//! adapter.
//!
//! | module | content |
//! |---|---|
//! | [`poll`] | waiting for descriptors, and ending such a wait from another thread |
//! | [`sync`] | queues, wakers and containers that loops share with other threads and tasks |
//! | [`driver`] | one step of a byte stream's event loop |
//! | [`server`] | handlers, dispatching, HTTP connections and shards |
//! | [`client`] | the connection of a client, its calls and its callbacks |
//! | [`runtime`] | servers and clients as futures, over the runtime of an adapter |

pub mod client;
pub mod driver;
#[cfg(feature = "http")]
mod net_stream;
pub mod poll;
pub mod runtime;
pub mod server;
pub mod sync;

#[cfg(feature = "http")]
pub use net_stream::NetStream;
