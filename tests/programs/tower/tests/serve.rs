//! The entries of `mcp-probe serve --everything`, for a router of `mcp-tower`.

use mcp_mock::{ClockResource, Content, Setup};
use mcp_tower::Router;

/// Returns the router with everything, and its clock.
pub(crate) fn router() -> (Router, ClockResource) {
    let setup = Setup::new(Content::Everything, |note| eprintln!("{note}"));
    let (router, clock) = mcp_mock::tower::router(&setup);
    (router, clock.expect("everything has a clock"))
}
