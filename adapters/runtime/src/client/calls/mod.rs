//! The calls of a client, typed and untyped, for every adapter.
//!
//! [`AsyncCalls`] makes them over a [`ClientBackend`], which an adapter implements. [`BlockingCalls`] are the same calls
//! as plain functions, for backends that block.

mod async_calls;
mod blocking_calls;
mod commands;
mod extensions;
mod long_lived;
mod perform;
#[cfg(test)]
mod tests;

pub use async_calls::AsyncCalls;
pub use blocking_calls::BlockingCalls;
pub use commands::{ClientBackend, DetachedCommand, EngineCommand};
pub use long_lived::{BlockingLongLivedCall, CallUpdate, LongLivedCall};
