//! The suites of the adapters of futures, beside those of every adapter.

#![allow(dead_code, reason = "each adapter uses a part of the helpers")]

pub(crate) mod blocking_work;
pub(crate) mod client;
pub(crate) mod client_handler;
pub(crate) mod client_layers;
pub(crate) mod client_process;
pub(crate) mod completing;
pub(crate) mod dropped_futures;
pub(crate) mod executors;
#[cfg(target_os = "linux")]
pub(crate) mod faulty_servers;
pub(crate) mod http;
pub(crate) mod pair;
pub(crate) mod send_bounds;
pub(crate) mod shards;
#[cfg(target_os = "linux")]
pub(crate) mod stdio_process;
pub(crate) mod testing;
pub(crate) mod tls;
pub(crate) mod wire;
