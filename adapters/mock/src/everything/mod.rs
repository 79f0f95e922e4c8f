//! The content of `serve --everything`: something of every kind that a server can offer.

mod alphabet;
mod app;
mod atlas;
mod changes;
#[cfg(feature = "events")]
mod events;
mod fixtures;
mod guestbook;
mod input;
mod rounds;
mod skills;
mod text;
mod visits;

use core::time::Duration;

use mcp_proto::EntryKind;
use mcp_proto::router::CacheHint;
use mcp_runtime::server::router::RegisterFunctions;

pub(crate) use self::changes::log;
use crate::Setup;

/// Registers everything that needs no adapter.
pub(crate) fn register(router: &mut impl RegisterFunctions, setup: &Setup) {
    let hint = CacheHint::public(Duration::from_secs(300));
    let core = router.as_router().core();
    core.instructions(INSTRUCTIONS).page_size_of(EntryKind::Resource, 10);
    // Resources are excluded: notes come and go.
    for list in [EntryKind::Tool, EntryKind::Prompt, EntryKind::ResourceTemplate, EntryKind::Skill] {
        core.cache_list(list, hint);
    }
    fixtures::register(router);
    input::register(router);
    rounds::register(router);
    changes::register(router);
    atlas::register(router);
    guestbook::register(router, setup.broken);
    visits::register(router);
    alphabet::register(router);
    skills::register(router);
    app::register(router);
    #[cfg(feature = "events")]
    events::register(router, setup.note);
    router.as_router().nest("text", text::router());
}

const INSTRUCTIONS: &str = "\
A server to try clients on. `test_…` are the fixtures of the conformance suite. Further content:
- find_cities takes nested arguments and answers with a structured result; atlas://{country}/{city} is a template \
whose variables complete, the second one by the first; the prompt travel_plan completes in the same way.
- write_note and delete_note add and remove resources while the server runs, annex a tool, a prompt and a resource at \
once; subscribers are notified. clock://running changes by itself while it is followed.
- sign asks for a name with a form and changes guestbook://page.
- whoami returns what the server knows about its client, and visits://calls the number of calls.
- skill://harbour/berth-planning/SKILL.md is a skill with files in folders, mooring a short one, and daily one whose \
content is made when it is read.
- show_counter has a page, ui://counter/page, for clients that show apps; raise_counter is for that page alone.
- The events tide.changed and ship.arrived happen every second or two, lighthouse.lit is pushed alone.
- The resources fill several pages, text.… come from a router mounted in another.
- echo, add, count and fail are those of the plain `mcp-probe serve`.";
