//! Calls and lists of a router with many tools.

use mcp_proto::model::Tool;
use mcp_proto::router::{PageCache, Route, Router};
use mcp_proto::server::Call;
use mcp_proto::{ChannelId, EntryKind, RawJson};

use super::super::Scenario;
use super::engine::{FIRST_NUMBER, MessageServer, NumberedMessage};
use super::{Scattered, limits, warmed_up};

/// Entries of a page.
const PAGE_SIZE: usize = 50;

fn router(n: usize) -> Router<()> {
    let mut router = Router::new("echo", "1.0.0");
    router.page_size(PAGE_SIZE);
    for index in 0..n {
        router.tool(tool(index), ()).expect("a new name");
    }
    router
}

fn tool(index: usize) -> Tool {
    let schema = RawJson::new(r#"{"type":"object"}"#).expect("JSON");
    Tool::new(name(index), schema).description("Says it again")
}

fn name(index: usize) -> String {
    format!("tool_{:010}", FIRST_NUMBER + index as u64)
}

/// A server that receives requests for a router.
struct Requests {
    server: MessageServer,
    channel: ChannelId,
}

impl Requests {
    fn new() -> Self {
        let mut server = MessageServer::new(limits(1));
        let channel = server.open_session();
        Self { server, channel }
    }

    fn deliver(&mut self, message: &[u8]) -> Call {
        let call = self.server.deliver_call(self.channel, message);
        self.server.turn();
        call
    }
}

/// A call of one of `n` tools: the lookup and the check of its arguments.
pub(super) struct CallOfMany {
    router: Router<()>,
    requests: Requests,
    request: NumberedMessage,
    order: Scattered,
}

impl CallOfMany {
    pub(super) fn new(n: usize) -> Self {
        let request = NumberedMessage::new(
            r##"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_#","arguments":{}}}"##,
        );
        warmed_up(Self { router: router(n), requests: Requests::new(), request, order: Scattered::new(n) })
    }
}

impl Scenario for CallOfMany {
    fn run_once(&mut self) {
        let number = FIRST_NUMBER + self.order.advance() as u64;
        let call = self.requests.deliver(self.request.with(number));
        assert!(matches!(self.router.route(&call), Route::Handle(_)), "a tool");
        self.requests.server.complete(&call);
    }
}

/// One page in the middle of a list of `n` tools, from its cursor to its text.
pub(super) struct PageOfMany {
    router: Router<()>,
    requests: Requests,
    request: Vec<u8>,
}

impl PageOfMany {
    pub(super) fn new(n: usize) -> Self {
        // As many entries as the page has, so that all pages have one length.
        let router = router(n.next_multiple_of(PAGE_SIZE) + 2 * PAGE_SIZE);
        let mut requests = Requests::new();
        let mut request = list_request(None);
        for _ in 0..n.div_ceil(2 * PAGE_SIZE) {
            let call = requests.deliver(&request);
            let page = write_page(&router, &call);
            requests.server.complete(&call);
            let at = page.find("\"nextCursor\":\"").expect("a further page") + 14;
            let cursor = page[at..].split('"').next().expect("a cursor");
            request = list_request(Some(cursor));
        }
        warmed_up(Self { router, requests, request })
    }
}

fn list_request(cursor: Option<&str>) -> Vec<u8> {
    let params = cursor.map(|cursor| format!("{{\"cursor\":\"{cursor}\"}}"));
    let params = params.as_deref().unwrap_or("{}");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{params}}}").into_bytes()
}

/// Writes the page that a call asks for. No page is cached, because each of many is asked for once.
fn write_page(router: &Router<()>, call: &Call) -> String {
    let Route::Answer(answer) = router.route(call) else { panic!("no list") };
    let mut pages = PageCache::new();
    pages.page(call.version(), &answer).expect("a page").text().as_str().to_owned()
}

impl Scenario for PageOfMany {
    fn run_once(&mut self) {
        let call = self.requests.deliver(&self.request);
        let page = write_page(&self.router, &call);
        assert!(page.len() > PAGE_SIZE * 20, "a page");
        self.requests.server.complete(&call);
    }
}

/// The removal of one of `n` tools, and its registration.
pub(super) struct ReplaceTool {
    router: Router<()>,
    order: Scattered,
}

impl ReplaceTool {
    pub(super) fn new(n: usize) -> Self {
        warmed_up(Self { router: router(n), order: Scattered::new(n) })
    }
}

impl Scenario for ReplaceTool {
    fn run_once(&mut self) {
        let index = self.order.advance();
        let _ = self.router.remove(EntryKind::Tool, &name(index));
        let _ = self.router.tool(tool(index), ()).expect("a new name");
    }
}
