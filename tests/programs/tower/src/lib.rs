//! The examples of `mcp-tower` with web frameworks, and [clients](client) over other HTTP clients.

#![forbid(unsafe_code)]

pub mod client;

#[cfg(doctest)]
#[doc = include_str!("../../../../adapters/tower/README.md")]
struct Readme;

#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../../adapters/tower/src/guide/axum.md")]
    struct Axum;

    #[doc = include_str!("../../../../adapters/tower/src/guide/workers.md")]
    struct Workers;
}
