//! Calls and lists by name: the router with typed arguments and results, beside an engine that is given JSON.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::model::{ResourceTemplate, Tool};
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::router::{IntoToolResult, PageCache, Route, Router, Target};
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{Capabilities, Capability, Instant, RawJson, RpcError};
use serde::{Deserialize, Serialize};

use super::lists::{plain_tools, tools};
use super::{Echo, STEP, Scenario, TEXT, pass};
use crate::wire::{Era, INITIALIZE, INITIALIZED, Request, modern};

/// How many tools the routers have, `echo` apart
const TOOLS: usize = 100;

/// Arguments as a typed handler takes them: nothing borrowed
#[derive(Deserialize)]
struct Text {
    text: String,
}

type Handler = fn(Text) -> String;

fn router() -> Router<Handler> {
    let mut router = Router::new("echo", "1.0.0");
    let echo: Handler = |arguments| arguments.text;
    for tool in tools(TOOLS) {
        router.tool(tool, echo).expect("a new name");
    }
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let schema = RawJson::new(schema).expect("JSON");
    router.tool(Tool::new("echo", schema).description("Says it again"), echo).expect("a new name");
    router
}

/// A server that is driven as an adapter drives it, whoever answers
#[derive(Debug)]
struct Driven {
    pipe: Server,
    now: Instant,
}

impl Driven {
    fn new(config: Config, era: Era) -> Self {
        let mut driven = Self { pipe: Server::new(Arc::new(config), Instant::ZERO), now: Instant::ZERO };
        if era == Era::Legacy {
            for part in [INITIALIZE, b"\n", INITIALIZED, b"\n"] {
                driven.pipe.handle_input(driven.now, part);
            }
            driven.turn(|_, _, _| panic!("no call yet"));
            driven.discard();
        }
        driven
    }

    fn turn(&mut self, mut answer: impl FnMut(&mut Engine, Instant, &Call)) {
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

    /// One request and its answer, whose length is given
    fn exchange(&mut self, line: &[u8], answer: impl FnMut(&mut Engine, Instant, &Call)) -> usize {
        pass(&mut self.now, STEP);
        self.pipe.handle_input(self.now, black_box(line));
        self.turn(answer);
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

/// `tools/call` of one tool among many, by name, from typed arguments to a typed result
pub struct TypedCall {
    driven: Driven,
    request: Request,
    router: Router<Handler>,
}

impl TypedCall {
    /// In the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let router = router();
        let driven = Driven::new(router.config(), era);
        let mut call = Self { driven, request: Request::new(era, TEXT), router };
        (0..100).for_each(|_| call.op());
        call
    }
}

impl Scenario for TypedCall {
    fn op(&mut self) {
        let router = &self.router;
        let sent = self.driven.exchange(self.request.advance(), |engine, now, call| {
            let Route::Handle(work) = router.route(call) else { panic!("no tool") };
            let Target::Tool(tool) = &work.target else { panic!("no tool") };
            let result = match tool.parse() {
                Ok(text) => (work.handler)(text).into_tool_result().expect("text"),
                Err(bad) => bad.into_result(),
            };
            engine.complete(now, call.id(), &result).expect("an open call");
            router.done(work.asked(), mcp_proto::router::Outcome::Completed);
        });
        assert!(sent > TEXT, "an answer");
    }
}

/// The same by hand, on an engine that is given the result as JSON
pub struct RawCall {
    driven: Driven,
    request: Request,
}

impl RawCall {
    /// In the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let driven = Driven::new(by_hand(), era);
        let mut call = Self { driven, request: Request::new(era, TEXT) };
        (0..100).for_each(|_| call.op());
        call
    }
}

fn by_hand() -> Config {
    Config::new("echo", "1.0.0").capabilities(Capabilities::new().with(Capability::Tools))
}

#[derive(Serialize)]
struct CallResult<'a> {
    content: [Block<'a>; 1],
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'a str,
    text: &'a str,
}

impl Scenario for RawCall {
    fn op(&mut self) {
        let sent = self.driven.exchange(self.request.advance(), |engine, now, call| {
            let read = call.tool().and_then(|tool| {
                let Echo { text } = tool.parse()?;
                if tool.name == "echo" { Ok(text) } else { Err(RpcError::invalid_params("unknown tool")) }
            });
            let text = read.expect("a call of echo");
            let result = RawJson::encode(&CallResult { content: [Block { r#type: "text", text }] });
            engine.complete_raw(now, call.id(), &result.expect("JSON")).expect("an open call");
        });
        assert!(sent > TEXT, "an answer");
    }
}

/// `tools/list` that did not change since it was asked for last
pub struct TypedList {
    driven: Driven,
    request: Vec<u8>,
    router: Router<Handler>,
    pages: PageCache,
}

impl TypedList {
    /// In the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let router = router();
        let driven = Driven::new(router.config(), era);
        let mut list = Self { driven, request: list_request(era), router, pages: PageCache::new() };
        (0..100).for_each(|_| list.op());
        list
    }
}

impl Scenario for TypedList {
    fn op(&mut self) {
        let (router, pages) = (&self.router, &mut self.pages);
        let sent = self.driven.exchange(&self.request, |engine, now, call| {
            let Route::Answer(answer) = router.route(call) else { panic!("no list") };
            let page = pages.page(call.version(), &answer).expect("a page");
            engine.complete_prepared(now, call.id(), page).expect("an open call");
        });
        assert!(sent > TOOLS * 50, "a list");
    }
}

/// The same by hand, from JSON that was written once
pub struct RawList {
    driven: Driven,
    request: Vec<u8>,
    list: RawJson,
}

impl RawList {
    /// In the steady state
    #[must_use]
    pub fn new(era: Era) -> Self {
        let list = RawJson::new(plain_tools(TOOLS + 1)).expect("JSON");
        let mut list = Self { driven: Driven::new(by_hand(), era), request: list_request(era), list };
        (0..100).for_each(|_| list.op());
        list
    }
}

impl Scenario for RawList {
    fn op(&mut self) {
        let list = &self.list;
        let sent = self.driven.exchange(&self.request, |engine, now, call| {
            engine.complete_raw(now, call.id(), list).expect("an open call");
        });
        assert!(sent > TOOLS * 50, "a list");
    }
}

fn list_request(era: Era) -> Vec<u8> {
    request(era, "tools/list", "")
}

/// A request as a line; `params` are members, each with a comma behind it
fn request(era: Era, method: &str, params: &str) -> Vec<u8> {
    let meta = if era == Era::Modern { modern() } else { r#""_meta":{}"# };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":10000,\"method\":\"{method}\",\"params\":{{{params}{meta}}}}}\n")
        .into_bytes()
}

/// From a call of `resources/read` to the template that its URI matches; no engine in it
pub struct Match {
    router: Router<()>,
    call: Call,
}

impl Match {
    /// Among so many templates, with values of so many bytes
    ///
    /// Each begins in its own way and has two variables.
    #[must_use]
    pub fn new(templates: usize, value: usize) -> Self {
        let mut router = Router::new("files", "1.0.0");
        for i in 0..templates {
            let template = ResourceTemplate::new(format!("files://host{i:04}/{{kind}}/{{name}}"), "files");
            router.resource_template(template, ()).expect("a new template");
        }
        let uri = format!("files://host{:04}/{}/{}", templates / 2, "k".repeat(value), "n".repeat(value));
        let line = request(Era::Modern, "resources/read", &format!("\"uri\":\"{uri}\","));
        let mut pipe = Server::new(Arc::new(router.config()), Instant::ZERO);
        pipe.handle_input(Instant::ZERO, &line);
        let Some(Event::Call(call)) = pipe.poll_event(Instant::ZERO) else { panic!("no call") };
        Self { router, call }
    }
}

impl Scenario for Match {
    fn op(&mut self) {
        let Route::Handle(work) = self.router.route(black_box(&self.call)) else { panic!("no match") };
        let Target::Resource(found) = &work.target else { panic!("no resource") };
        black_box(found.variables.get("name")).expect("a value");
    }
}
