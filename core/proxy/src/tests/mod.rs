//! The bridge between a client and a server in memory, on virtual time, for pairs of revisions.

mod calls;
mod following;
mod gateway;
mod gateway_clients;
mod gateway_harness;
mod harness;
mod input;
mod policy;
mod resources;
mod search;
mod search_bridge;
mod search_quality;
mod server_life;
mod several_clients;
mod subscriptions;
mod tasks;
