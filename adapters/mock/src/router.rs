//! The router of a setup, for the adapter that includes this file.

#[path = "mock_router.rs"]
mod mock_router;
#[path = "tools/mod.rs"]
mod tools;

use super::Router;
use crate::{ClockResource, Content, Setup};

/// Creates the router of a setup, and the clock that its loop has to tick, if there is one.
#[must_use]
pub fn router(setup: &Setup) -> (Router, Option<ClockResource>) {
    match &setup.content {
        Content::Defined(definition) => (mock_router::build(definition), None),
        _ => tools::build(setup),
    }
}
