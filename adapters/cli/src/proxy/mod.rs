//! The sides of a proxy, for the commands `bridge`, `gateway` and `connect`: clients in front, servers behind.

pub(crate) mod downstream;
pub(crate) mod first_message;
pub(crate) mod front;
pub(crate) mod http_downstream;
pub(crate) mod one_server;
#[cfg(unix)]
pub(crate) mod shared;
pub(crate) mod upstream;
pub(crate) mod upstream_slot;
