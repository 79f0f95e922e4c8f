//! `serve --everything`: something of every kind that a server can offer, to try clients on

mod alphabet;
mod atlas;
mod fixtures;
mod notes;
mod text;
mod visits;

use core::time::Duration;

use mcp_blocking::Router;
use mcp_proto::model::Implementation;
use mcp_proto::router::{CacheHint, Kind};

/// Registers all of it
pub(super) fn register(router: &mut Router, info: Implementation) {
    let hint = CacheHint::public(Duration::from_secs(300));
    router.core().info(info).instructions(INSTRUCTIONS).page_size_of(Kind::Resource, 10);
    // Not for resources: notes come and go.
    for list in [Kind::Tool, Kind::Prompt, Kind::ResourceTemplate] {
        router.core().cache_list(list, hint);
    }
    fixtures::register(router);
    atlas::register(router);
    notes::register(router);
    visits::register(router);
    alphabet::register(router);
    router.nest("text", text::router());
}

const INSTRUCTIONS: &str = "\
A server to try clients on. `test_…` are the fixtures of the conformance suite. Besides:
- find_cities takes nested arguments and answers with a structured result; atlas://{country}/{city} is a template whose \
variables complete, the second one by the first; the prompt travel_plan completes in the same way.
- write_note and delete_note add and remove resources while the server runs.
- whoami says what the server knows of its client, and visits://calls what was called how often.
- The resources fill several pages, text.… come from a router mounted in another.
- echo, add, count and fail are those of the plain `mcp-probe serve`.";
