//! The calls of a client, typed and untyped, for every adapter.
//!
//! [`AsyncCalls`] makes them over a [`ClientBackend`], which an adapter implements. [`BlockingCalls`] are the same calls
//! as plain functions, for backends that block.

mod apps;
mod async_calls;
mod backend;
mod blocking_calls;
mod blocking_completing;
mod blocking_tasks;
mod commands;
mod lists;
mod perform;
#[cfg(feature = "skills")]
mod skill_files;
mod skills;
mod tasks;
#[cfg(test)]
mod tests;
mod typed;

pub use async_calls::AsyncCalls;
pub use backend::ClientBackend;
pub use blocking_calls::BlockingCalls;
pub use commands::{DetachedCommand, EngineCommand};
