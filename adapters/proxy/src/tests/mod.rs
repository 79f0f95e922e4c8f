//! The bridge between a client and a server in memory, on virtual time, for pairs of revisions.

mod calls;
mod harness;
mod input;
mod server_life;
mod subscriptions;
