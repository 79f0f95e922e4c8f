//! Calls and lists by name: the router with typed arguments and results, compared with an engine that is given JSON.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::model::{ResourceTemplate, Tool};
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::router::{CallTarget, IntoToolResult, PageCache, Route, Router};
use mcp_proto::server::{Authorization, Call, Config, Engine, Event};
use mcp_proto::{Capabilities, Capability, Instant, RawJson, RpcError};
use serde::{Deserialize, Serialize};

use super::lists::{plain_tools, tools};
use super::{EchoArguments, Scenario, TEXT, TIME_STEP, advance};
use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra, modern};

/// Number of tools of a router, without `echo`.
const TOOLS: usize = 100;

/// Arguments of a typed handler, with nothing borrowed.
#[derive(Deserialize)]
struct TextArguments {
    text: String,
}

type EchoHandler = fn(TextArguments) -> String;

fn router() -> Router<EchoHandler> {
    let mut router = Router::new("echo", "1.0.0");
    let echo: EchoHandler = |arguments| arguments.text;
    for tool in tools(TOOLS) {
        router.tool(tool, echo).expect("a new name");
    }
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let schema = RawJson::new(schema).expect("JSON");
    router.tool(Tool::new("echo", schema).description("Says it again"), echo).expect("a new name");
    router
}

/// A server that is driven like in an adapter; the caller answers.
#[derive(Debug)]
pub(super) struct DrivenServer {
    pipe: Server,
    now: Instant,
}

impl DrivenServer {
    pub(super) fn new(config: Config, era: WireEra) -> Self {
        let mut driven = Self { pipe: Server::new(Arc::new(config), Instant::ZERO), now: Instant::ZERO };
        if era == WireEra::Legacy {
            for part in [INITIALIZE, b"\n", INITIALIZED, b"\n"] {
                driven.pipe.handle_input(driven.now, part);
            }
            driven.run_turn(|_, _, _| panic!("no call yet"));
            driven.discard();
        }
        driven
    }

    /// Makes the requests from now on those of this party.
    pub(super) fn set_party(&mut self, party: Authorization) {
        let channel = self.pipe.channel();
        self.pipe.engine().set_authorization(channel, Some(party));
    }

    fn run_turn(&mut self, mut answer: impl FnMut(&mut Engine, Instant, &Call)) {
        let now = self.now;
        while let Some(event) = self.pipe.poll_event(now) {
            if let Event::Call(call) = event {
                answer(self.pipe.engine(), now, &call);
            }
        }
        while self.pipe.poll_timeout().is_some_and(|at| at <= now) {
            self.pipe.handle_timeout(now);
        }
    }

    /// Makes one request and returns the length of its answer.
    pub(super) fn exchange(&mut self, line: &[u8], answer: impl FnMut(&mut Engine, Instant, &Call)) -> usize {
        advance(&mut self.now, TIME_STEP);
        self.pipe.handle_input(self.now, black_box(line));
        self.run_turn(answer);
        self.discard()
    }

    fn discard(&mut self) -> usize {
        let mut sent = 0;
        loop {
            let n = black_box(self.pipe.transmit()).len();
            if n == 0 {
                return sent;
            }
            self.pipe.consume(n);
            sent += n;
        }
    }
}

/// `tools/call` of one of many tools by name, from typed arguments to a typed result.
pub struct TypedCall {
    server: DrivenServer,
    request: RequestLine,
    router: Router<EchoHandler>,
}

impl TypedCall {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let router = router();
        let driven = DrivenServer::new(router.config(), era);
        let mut call = Self { server: driven, request: RequestLine::new(era, TEXT), router };
        (0..100).for_each(|_| call.run_once());
        call
    }
}

impl Scenario for TypedCall {
    fn run_once(&mut self) {
        let router = &self.router;
        let sent = self.server.exchange(self.request.advance(), |engine, now, call| {
            let Route::Handle(work) = router.route(call) else { panic!("no tool") };
            let CallTarget::Tool(tool) = &work.target else { panic!("no tool") };
            let result = match tool.parse() {
                Ok(text) => (work.handler)(text).into_tool_result(),
                Err(bad) => bad.into_result(),
            };
            engine.complete(now, call.id(), &result.expect("a result")).expect("an open call");
            router.finish(work.context(), mcp_proto::router::HookOutcome::Completed);
        });
        assert!(sent > TEXT, "an answer");
    }
}

/// The same on an engine that is given the result as JSON.
pub struct RawCall {
    server: DrivenServer,
    request: RequestLine,
}

impl RawCall {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let driven = DrivenServer::new(untyped_config(), era);
        let mut call = Self { server: driven, request: RequestLine::new(era, TEXT) };
        (0..100).for_each(|_| call.run_once());
        call
    }
}

fn untyped_config() -> Config {
    Config::new("echo", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools))
}

#[derive(Serialize)]
struct EchoResult<'a> {
    content: [TextBlock<'a>; 1],
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'a str,
    text: &'a str,
}

impl Scenario for RawCall {
    fn run_once(&mut self) {
        let sent = self.server.exchange(self.request.advance(), |engine, now, call| {
            let read = call.tool_call().and_then(|tool| {
                let EchoArguments { text } = tool.parse()?;
                if tool.name == "echo" { Ok(text) } else { Err(RpcError::invalid_params("unknown tool")) }
            });
            let text = read.expect("a call of echo");
            let result = RawJson::encode(&EchoResult { content: [TextBlock { r#type: "text", text }] });
            engine.complete_raw(now, call.id(), &result.expect("JSON")).expect("an open call");
        });
        assert!(sent > TEXT, "an answer");
    }
}

/// `tools/list` of an unchanged list.
pub struct TypedList {
    server: DrivenServer,
    request: Vec<u8>,
    router: Router<EchoHandler>,
    pages: PageCache,
}

impl TypedList {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let router = router();
        let driven = DrivenServer::new(router.config(), era);
        let mut list = Self { server: driven, request: list_request(era), router, pages: PageCache::new() };
        (0..100).for_each(|_| list.run_once());
        list
    }
}

impl Scenario for TypedList {
    fn run_once(&mut self) {
        let (router, pages) = (&self.router, &mut self.pages);
        let sent = self.server.exchange(&self.request, |engine, now, call| {
            let Route::Answer(answer) = router.route(call) else { panic!("no list") };
            let page = pages.page(call.version(), &answer).expect("a page");
            engine.complete_prepared(now, call.id(), page).expect("an open call");
        });
        assert!(sent > TOOLS * 50, "a list");
    }
}

/// The same from JSON that was written once.
pub struct RawList {
    server: DrivenServer,
    request: Vec<u8>,
    list: RawJson,
}

impl RawList {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let list = RawJson::new(plain_tools(TOOLS + 1)).expect("JSON");
        let mut list =
            Self { server: DrivenServer::new(untyped_config(), era), request: list_request(era), list };
        (0..100).for_each(|_| list.run_once());
        list
    }
}

impl Scenario for RawList {
    fn run_once(&mut self) {
        let list = &self.list;
        let sent = self.server.exchange(&self.request, |engine, now, call| {
            engine.complete_raw(now, call.id(), list).expect("an open call");
        });
        assert!(sent > TOOLS * 50, "a list");
    }
}

pub(super) fn list_request(era: WireEra) -> Vec<u8> {
    request(era, "tools/list", "")
}

/// Returns a request as a line; `params` are members, each followed by a comma.
pub(super) fn request(era: WireEra, method: &str, params: &str) -> Vec<u8> {
    let meta = if era == WireEra::Modern { modern() } else { r#""_meta":{}"# };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":10000,\"method\":\"{method}\",\"params\":{{{params}{meta}}}}}\n")
        .into_bytes()
}

/// From a call of `resources/read` to the template that its URI matches, without an engine.
pub struct TemplateMatch {
    router: Router<()>,
    call: Call,
}

impl TemplateMatch {
    /// Returns the scenario with this number of templates and values of this many bytes.
    ///
    /// Each template has its own beginning and two variables.
    #[must_use]
    pub fn new(templates: usize, value: usize) -> Self {
        let mut router = Router::new("files", "1.0.0");
        for i in 0..templates {
            let template = ResourceTemplate::new(format!("files://host{i:04}/{{kind}}/{{name}}"), "files");
            router.resource_template(template, ()).expect("a new template");
        }
        let uri = format!("files://host{:04}/{}/{}", templates / 2, "k".repeat(value), "n".repeat(value));
        let line = request(WireEra::Modern, "resources/read", &format!("\"uri\":\"{uri}\","));
        let mut pipe = Server::new(Arc::new(router.config()), Instant::ZERO);
        pipe.handle_input(Instant::ZERO, &line);
        let Some(Event::Call(call)) = pipe.poll_event(Instant::ZERO) else { panic!("no call") };
        Self { router, call }
    }
}

impl Scenario for TemplateMatch {
    fn run_once(&mut self) {
        let Route::Handle(work) = self.router.route(black_box(&self.call)) else { panic!("no match") };
        let CallTarget::Resource(found) = &work.target else { panic!("no resource") };
        black_box(found.variables.get("name")).expect("a value");
    }
}
