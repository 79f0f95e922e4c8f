//! Our client and server against the official SDKs, each run like a user program: a process on stdio or over HTTP.
//!
//! The peers are in `peers/`. Eras are pinned wherever a slow machine could change the outcome.

mod apps;
mod bridge;
mod conversation;
mod http_conversation;
mod http_own_client;
mod http_proxy;
mod http_sdk_clients;
mod own_client;
mod own_client_all_versions;
mod own_client_and_server;
mod own_client_answers;
mod own_typed_client;
mod proxy;
mod sdk_clients;
#[path = "../../../../adapters/cli/tests/cli/steps.rs"]
mod steps;
mod table;
mod tap_records;
mod tasks;
mod tasks_own_client;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
