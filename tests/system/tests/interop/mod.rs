//! Our client and server against the official SDKs, each run like a user program: a process on stdio or over HTTP.
//!
//! The peers are in `peers/`. Eras are pinned wherever a slow machine could change the outcome.

#[cfg(feature = "every-peer")]
mod apps;
#[cfg(feature = "every-peer")]
mod bridge;
#[cfg(feature = "every-peer")]
mod conversation;
#[cfg(feature = "every-peer")]
mod deployments;
#[cfg(feature = "every-peer")]
mod events;
#[cfg(feature = "every-peer")]
mod http_conversation;
#[cfg(feature = "every-peer")]
mod http_own_client;
#[cfg(feature = "every-peer")]
mod http_proxy;
#[cfg(feature = "every-peer")]
mod http_sdk_clients;
mod own_client;
mod own_client_all_versions;
mod own_client_and_server;
#[cfg(feature = "every-peer")]
mod own_client_answers;
#[cfg(feature = "every-peer")]
mod own_typed_client;
#[cfg(feature = "every-peer")]
mod processes;
#[cfg(feature = "every-peer")]
mod proxy;
#[cfg(feature = "every-peer")]
mod published;
mod sdk_clients;
#[path = "../../../../adapters/cli/tests/cli/steps.rs"]
mod steps;
#[cfg(feature = "every-peer")]
mod table;
mod tap_records;
#[cfg(feature = "every-peer")]
mod tasks;
#[cfg(feature = "every-peer")]
mod tasks_own_client;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
