//! Sessions and tasks of Model Context Protocol servers in Redis or Valkey.
//!
//! A server of several processes, on one machine or more, needs a store that they share: a client of the revisions up to
//! 2025-11-25 has a session, and its next request may reach another process. [`RedisStore`] is that store, a
//! [`SessionStore`]; [`RedisStore::tasks`] is a [`TaskStore`] on the same connections.
//!
//! ```no_run
//! use mcp_redis_store::session_store::SessionStore;
//! use mcp_redis_store::{RedisStore, Settings};
//!
//! let settings = Settings::new("redis://:secret@10.0.0.5:6379")?;
//! let store = RedisStore::new(settings.prefix("harbour"));
//! // Says at once whether the server
//! // can be reached and written to.
//! println!("process {}", store.join()?);
//! // The name of this process, which
//! // it has again after a restart.
//! let tasks = store.tasks("harbour-1");
//! # let _ = tasks;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it needs
//!
//! Redis 6 or newer, or Valkey; not a cluster. All processes of a server have the same [prefix](Settings::prefix), and servers
//! that share a Redis have different ones. Beside reads and writes of its keys a user of an access control list needs
//! `EVALSHA`, `SCRIPT LOAD`, `PUBLISH`, `SUBSCRIBE` and `PING`, and the channels `PREFIX:*`.
//!
//! | key | content |
//! |---|---|
//! | `PREFIX:session:NAME` | a record after 20 digits of its version; it expires |
//! | `PREFIX:processes` | the last number of [`SessionStore::join`] |
//! | `PREFIX:process:NUMBER` | the name of the watch of the last process with this number, modulo 1024 |
//! | `PREFIX:tasks:NAME` | a hash of tasks |
//! | channel `PREFIX:DATABASE:messages` | messages between processes |
//! | channel `PREFIX:DATABASE:watch:NAME` | nothing; the number of its receivers tells whether a process watches |
//!
//! Records of sessions and messages are sealed by the server; records of tasks are not. The server should evict no keys: with
//! `maxmemory-policy noeviction` a full one is an error, otherwise sessions vanish. A Redis that loses its data when it restarts
//! loses the sessions: `appendonly yes` keeps them.
//!
//! # Cost
//!
//! Each call is one round trip, also a compare-and-set, which is a script that the server keeps, and up to three to learn
//! whether a process has ended. Calls run on the threads of their callers, over up to [`Settings::max_idle_connections`]
//! kept connections. A watch has a thread and a connection; the thread wakes four times per second.
//!
//! On a Unix socket, with records of 400 bytes: 14 µs for a compare-and-set, 6 µs for a load, a removal or a message, 13 µs until
//! a message has arrived (medians; `tests/speed.rs` measures them).
//!
//! # Limits
//!
//! Other programs may write to the same server. No more of it is read than this:
//!
//! | what | bytes | beyond |
//! |---|---|---|
//! | the record of a session | 16 MiB | it is cut, and counts as damaged |
//! | a task | 64 MiB | one of the [problems](task_store::LoadedTasks::problems) |
//! | all tasks | [`LoadedTasks::MAX_BYTES`](task_store::LoadedTasks::MAX_BYTES) | a problem; the others are not read, and stay stored |
//! | their number | 262,144 | an error |
//! | a message | `client-output-buffer-limit pubsub` of the server, by default 32 MiB | the server closes the connection: a gap |
//!
//! # When the server is down
//!
//! A call fails with the cause: the server cannot be reached, does not answer in time
//! ([`TimedOut`](session_store::SessionStoreError::TimedOut)), has no memory left
//! ([`Full`](session_store::SessionStoreError::Full)), needs a password, is a replica, and so on. A call takes up to
//! [`Settings::connect_timeout`] and [`Settings::answer_timeout`]; the system looks up the name of a host beside that, and
//! a server that sends a part of an answer again and again is waited for. When the server is back, the next call connects
//! again. A watch connects again by itself, after 50 ms and then up to 5 s, and tells its receiver of the gap; a connection
//! that is gone without an end is noticed after 5 s and the time of an answer.
//!
//! # Features
//!
//! - `tls` (off): URLs `rediss://`, by `rustls` with the roots of the system. If the process has no provider of cryptography
//!   for `rustls`, [`Settings::new`] makes it `ring`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod connections;
mod error;
mod sessions;
mod settings;
mod tasks;
mod watch;

#[cfg(doc)]
use mcp_std::session_store::SessionStore;
#[cfg(doc)]
use mcp_std::task_store::TaskStore;

pub use error::RedisStoreError;
pub use mcp_std::{session_store, task_store};
pub use sessions::RedisStore;
pub use settings::Settings;
pub use tasks::RedisTaskStore;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
