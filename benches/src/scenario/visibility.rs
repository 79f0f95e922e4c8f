//! Lists and calls of a thousand tools, of which each principal sees ten, compared with a router of ten tools.

use alloc::borrow::Cow;

use mcp_proto::router::{
    CallTarget, HookOutcome, IntoToolResult, PageCache, Route, Router, Subject, Visibility,
};
use mcp_proto::server::{Authorization, Caller, Identity};

use super::Scenario;
use super::lists::tools;
use super::router::{DrivenServer, list_request, request};
use crate::wire::WireEra;

/// Number of principals, who make their requests in turn.
const PRINCIPALS: usize = 1_000;
/// Number of tools that each sees.
const VISIBLE: usize = 10;

/// Principals are `GGG/name`; they see the tools `tool_0GGn` to which the digits of their group lead.
struct ByGroup;

impl Visibility for ByGroup {
    fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
        let (Subject::Tool(name), Some(principal)) = (entry, caller.principal()) else { return false };
        name.get(5..8) == principal.get(..3)
    }

    fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
        caller.principal().map(Cow::Borrowed)
    }
}

type Handler = fn() -> &'static str;

/// A server whose principals ask in turn.
pub struct VisibleTools {
    server: DrivenServer,
    router: Router<Handler>,
    pages: PageCache,
    parties: Vec<Authorization>,
    /// Requests by group.
    requests: Vec<Vec<u8>>,
    turn: usize,
}

impl VisibleTools {
    /// Returns the scenario in its steady state: lists or calls, of a thousand tools or of ten that everyone sees.
    #[must_use]
    pub fn new(era: WireEra, calls: bool, is_restricted: bool) -> Self {
        let groups = if is_restricted { PRINCIPALS / VISIBLE } else { 1 };
        let mut router = Router::<Handler>::new("groups", "1.0.0");
        if is_restricted {
            router.visibility(ByGroup);
        }
        for tool in tools(groups * VISIBLE) {
            router.tool(tool, || "done").expect("a new name");
        }
        let requests = (0..groups).map(|group| match calls {
            true => request(
                era,
                "tools/call",
                &format!(r#""name":"tool_{group:03}5","arguments":{{"path":"x"}},"#),
            ),
            false => list_request(era),
        });
        let party = |n| Authorization::new(Identity::new(format!("{:03}/user {n}", n % groups)));
        let mut tools = Self {
            server: DrivenServer::new(router.config(), era),
            requests: requests.collect(),
            parties: (0..PRINCIPALS).map(party).collect(),
            pages: PageCache::new(),
            router,
            turn: 0,
        };
        (0..2 * PRINCIPALS).for_each(|_| tools.run_once());
        tools
    }
}

impl Scenario for VisibleTools {
    fn run_once(&mut self) {
        self.turn = (self.turn + 1) % PRINCIPALS;
        self.server.set_party(self.parties[self.turn].clone());
        let (router, pages) = (&self.router, &mut self.pages);
        let request = &self.requests[self.turn % self.requests.len()];
        let sent = self.server.exchange(request, |engine, now, call| match router.route(call) {
            Route::Answer(answer) => {
                let page = pages.page(call.version(), &answer).expect("a page");
                engine.complete_prepared(now, call.id(), page).expect("an open call");
            }
            Route::Handle(work) => {
                let CallTarget::Tool(_) = &work.target else { panic!("no tool") };
                let result = (work.handler)().into_tool_result().expect("text");
                engine.complete(now, call.id(), &result).expect("an open call");
                router.finish(work.context(), HookOutcome::Completed);
            }
            other => panic!("{other:?}"),
        });
        assert!(sent > 30, "an answer");
    }
}
