//! Our client and our server against the official SDKs, each as its users run it: a process on stdio, or over HTTP.
//!
//! The peers are in `peers/`. Eras are pinned wherever a slow machine could otherwise change the outcome.

extern crate alloc;

mod bridge;
mod hosted;
mod http_clients;
mod http_our_client;
mod http_proxy;
mod http_talk;
mod our_answers;
mod our_both;
mod our_client;
mod our_conversations;
mod our_typed_client;
mod peers;
mod proxy;
mod recorded;
mod run;
#[path = "../../adapters/cli/tests/cli/steps.rs"]
mod steps;
mod table;
mod talk;
mod their_clients;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
