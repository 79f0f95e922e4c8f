//! The suites that every adapter passes.
//!
//! A test program declares this module once. `crate::adapter` names the adapter under test, `crate::support` has the helpers,
//! and `crate::line_streams` and `crate::pair` connect a client and a server of the adapter.

#![allow(dead_code, reason = "each adapter uses a part of the helpers")]

pub(crate) mod apps;
pub(crate) mod cache;
pub(crate) mod client_layers;
pub(crate) mod client_support;
pub(crate) mod completing;
pub(crate) mod conversation;
pub(crate) mod crowds;
#[cfg(unix)]
pub(crate) mod driving;
pub(crate) mod events;
pub(crate) mod events_deliveries;
pub(crate) mod events_scenarios;
pub(crate) mod handles;
pub(crate) mod http;
pub(crate) mod input_requests;
pub(crate) mod input_tasks;
pub(crate) mod layers;
#[cfg(unix)]
pub(crate) mod line_streams;
pub(crate) mod observer;
pub(crate) mod pair;
pub(crate) mod pins;
pub(crate) mod protected;
pub(crate) mod request_in_view;
pub(crate) mod router;
pub(crate) mod scripted_server;
pub(crate) mod server_tasks;
pub(crate) mod shared_sessions;
#[cfg(unix)]
pub(crate) mod signals;
pub(crate) mod skills;
pub(crate) mod tasks_client;
pub(crate) mod testing;
pub(crate) mod typed;
pub(crate) mod visibility;
