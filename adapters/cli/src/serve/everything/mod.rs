//! `serve --everything`: something of every kind that a server can offer, to try clients on

mod alphabet;
mod asking;
mod atlas;
mod clock;
mod fixtures;
mod guestbook;
mod news;
mod notes;
mod rounds;
mod text;
mod visits;

use core::time::Duration;

use mcp_proto::model::Implementation;
use mcp_proto::router::{CacheHint, Kind};

use super::{Cx, Router};
use crate::demo::Step;
use crate::serve::clock::{Clock, lock};

/// Registers all of it; the clock has to be looked at while the server runs, and `broken` is what the tour wants to be
/// done wrong
pub(super) fn register(router: &mut Router, info: Implementation, broken: Option<Step>) -> Clock {
    let hint = CacheHint::public(Duration::from_secs(300));
    router.core().info(info).instructions(INSTRUCTIONS).page_size_of(Kind::Resource, 10);
    // Not for resources: notes come and go.
    for list in [Kind::Tool, Kind::Prompt, Kind::ResourceTemplate] {
        router.core().cache_list(list, hint);
    }
    fixtures::register(router);
    asking::register(router);
    rounds::register(router);
    news::register(router);
    atlas::register(router);
    notes::register(router);
    guestbook::register(router, broken);
    visits::register(router);
    alphabet::register(router);
    router.nest("text", text::router());
    clock::register(router)
}

const INSTRUCTIONS: &str = "\
A server to try clients on. `test_…` are the fixtures of the conformance suite. Besides:
- find_cities takes nested arguments and answers with a structured result; atlas://{country}/{city} is a template whose \
variables complete, the second one by the first; the prompt travel_plan completes in the same way.
- write_note and delete_note add and remove resources while the server runs, annex a tool, a prompt and a resource at once; \
who listens is told of it. clock://running changes by itself while it is followed.
- sign asks for a name by a form, and guestbook://page changes by it.
- whoami says what the server knows of its client, and visits://calls what was called how often.
- The resources fill several pages, text.… come from a router mounted in another.
- echo, add, count and fail are those of the plain `mcp-probe serve`.";
