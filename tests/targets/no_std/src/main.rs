//! Program of a device: a server, a client, or both, on bytes of unknown origin.
//!
//! It has its own entry point and panic handler and no standard library, so it fails to link if a dependency needs
//! `std`. It is built and measured, never run.

#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Allocator that counts what is freed, and never uses it again.
struct BumpAllocator {
    memory: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
    freed: AtomicUsize,
}

const SIZE: usize = 64 << 10;

// SAFETY: an atomic counter hands out each byte once.
unsafe impl Sync for BumpAllocator {}

// SAFETY: each block lies within `memory`, is aligned, and overlaps no other block.
unsafe impl GlobalAlloc for BumpAllocator {
    // Not inlined, like a full allocator: the call is part of the measured size.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let begin = self.memory.get().cast::<u8>();
        let room = layout.size() + layout.align();
        let at = self.used.fetch_add(room, Ordering::Relaxed);
        if at + room > SIZE {
            return core::ptr::null_mut();
        }
        let start = begin.wrapping_add(at);
        start.wrapping_add(start.align_offset(layout.align()))
    }

    // Not inlined, for the same reason.
    #[inline(never)]
    unsafe fn dealloc(&self, _: *mut u8, layout: Layout) {
        self.freed.fetch_add(layout.size(), Ordering::Relaxed);
    }
}

#[global_allocator]
static HEAP: BumpAllocator = BumpAllocator {
    memory: UnsafeCell::new([0; SIZE]),
    used: AtomicUsize::new(0),
    freed: AtomicUsize::new(0),
};

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Symbols that precompiled, unwinding `core` and `alloc` refer to. Nothing here unwinds.
#[cfg(not(target_os = "none"))]
mod unwinding {
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Resume() {}
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // Without any of the parts, this measures the size of the program itself.
    let memory = alloc::vec![0u8; black_box(64)];
    black_box(&memory[..]);
    #[cfg(feature = "server")]
    server();
    #[cfg(feature = "router")]
    router();
    #[cfg(feature = "router-tools")]
    router_tools();
    #[cfg(feature = "two-tools")]
    two_tools::serve();
    #[cfg(feature = "two-tools-http")]
    two_tools::serve_http();
    #[cfg(feature = "client")]
    client();
    #[cfg(feature = "seal")]
    seal();
    #[cfg(feature = "http-client")]
    http_client();
    #[cfg(feature = "cards")]
    cards();
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(feature = "seal")]
fn seal() {
    use mcp_proto::seal::{Binding, Keys, RequestState, digest};

    let mut key = [0; 32];
    mcp_proto::Entropy::new(black_box([7; 32]), 1).fill(&mut key);
    let keys = Keys::new(key);
    let Ok(arguments) = digest(Some(black_box(b"{}"))) else { return };
    let binding = Binding { principal: None, method: "tools/call", target: "echo", arguments };
    let record = RequestState { attempt: 2, state: black_box(b"step 1"), answers: alloc::vec::Vec::new() };
    let Ok(text) = keys.seal(&binding, 60, &record.encode(), 1 << 10) else { return };
    let payload = keys.open(&binding, black_box(0), &text, 1 << 10);
    black_box(payload.as_deref().map(RequestState::decode).is_ok());
}

/// Returns bytes that are opaque to the compiler.
#[cfg(any(
    feature = "server",
    feature = "router",
    feature = "router-tools",
    feature = "client",
    feature = "http-client",
    feature = "two-tools",
    feature = "two-tools-http"
))]
fn receive() -> &'static [u8] {
    black_box(b"")
}

/// Writes what there is to send, and processes what is due: the end of a turn on a byte stream.
#[cfg(any(
    feature = "server",
    feature = "router",
    feature = "router-tools",
    feature = "client",
    feature = "two-tools"
))]
#[inline(always)]
fn end_turn(pipe: &mut impl mcp_proto::pipe::Pipe, now: mcp_proto::Instant) {
    let sent = black_box(pipe.transmit()).len();
    pipe.consume(sent);
    pipe.handle_timeout(now);
    black_box(pipe.poll_timeout());
}

/// A server with two tools, of a register and of a sensor, whose results are JSON text.
#[cfg(any(feature = "two-tools", feature = "two-tools-http"))]
mod two_tools {
    use alloc::sync::Arc;
    use core::hint::black_box;

    use mcp_proto::server::{Call, Config, Engine, Event};
    use mcp_proto::{Capabilities, Capability, Instant, Limits, RawJson, RpcError};

    use super::receive;

    const TOOLS: &[u8] = br#"{"tools":[{"name":"write_register","inputSchema":{"type":"object","properties":{"register":{"enum":["led","fan"]},"on":{"type":"boolean"}},"required":["register","on"]}},{"name":"read_sensor","inputSchema":{"type":"object"}}]}"#;

    fn config() -> Config {
        let config = Config::new("device", "1").capabilities(Capabilities::new().with(Capability::Tools));
        config.limits(Limits::small())
    }

    /// Runs a tool and returns its result.
    fn run(call: &Call) -> Result<RawJson, RpcError> {
        let tool = call.tool_call()?;
        let text: &[u8] = match &*tool.name {
            "write_register" => {
                let register =
                    tool.member("register").ok_or_else(|| RpcError::invalid_params("`register`"))?;
                let on = tool.member("on").is_some_and(|on| on == b"true");
                black_box((register, on));
                br#"{"content":[]}"#
            }
            "read_sensor" => black_box(br#"{"content":[{"type":"text","text":"21"}]}"#),
            _ => return Err(RpcError::invalid_params("unknown tool")),
        };
        RawJson::new(text).map_err(|_| RpcError::internal("not JSON"))
    }

    fn handle(engine: &mut Engine, now: Instant, event: &Event) {
        let Event::Call(call) = event else { return };
        let result = match call.method() {
            "tools/list" => RawJson::new(TOOLS).map_err(|_| RpcError::internal("not JSON")),
            "tools/call" => run(call),
            method => Err(RpcError::method_not_found(method)),
        };
        let done = match result {
            Ok(result) => engine.complete_raw(now, call.id(), &result),
            Err(error) => engine.fail(now, call.id(), &error),
        };
        black_box(done.is_ok());
    }

    /// Serves a byte stream.
    #[cfg(feature = "two-tools")]
    pub(super) fn serve() {
        use mcp_proto::pipe::{Pipe, Server};

        let now = Instant::from_micros(black_box(0));
        let mut server = Server::new(Arc::new(config()), now);
        server.handle_input(now, receive());
        while let Some(event) = server.poll_event(now) {
            handle(server.engine(), now, &event);
        }
        super::end_turn(&mut server, now);
        server.handle_eof(now);
    }

    /// Serves a connection of HTTP/1.1.
    #[cfg(feature = "two-tools-http")]
    pub(super) fn serve_http() {
        use mcp_proto::Entropy;
        use mcp_proto::h1::HttpLimits;
        #[cfg(feature = "http-tokens")]
        use mcp_proto::http::server::Denial;
        use mcp_proto::http::server::{self, Connection, Server};

        let now = Instant::from_micros(black_box(0));
        let entropy = Entropy::new(black_box([7; 32]), 1);
        let http = server::Config::new().max_exchanges(4).max_sessions(2, 2);
        #[cfg(feature = "http-tokens")]
        let http = {
            let (resource, issuer) = (black_box("https://a/mcp"), black_box("https://b"));
            let Ok(protected) = server::Protected::new(resource, issuer) else { return };
            http.protected(protected)
        };
        #[cfg(feature = "http-cors")]
        let http = http.allow_origin(black_box("https://a")).cors(true);
        #[cfg(feature = "http-sse")]
        #[expect(deprecated, reason = "supported until its removal")]
        let http = http.http_sse(black_box("/sse"), black_box("/messages"));
        let mut server = Server::new(Arc::new(config()), Arc::new(http), entropy);
        let mut connection = Connection::new(now, HttpLimits::small());
        #[cfg(feature = "http-schemas")]
        if let Ok(schema) = RawJson::new(black_box("{}")) {
            black_box(server.set_tool_schema("write_register", &schema).is_ok());
        }
        #[cfg(feature = "http-heads")]
        connection.tap_heads();
        connection.handle_input(now, receive());
        connection.drive(now, &mut server);
        while let Some(event) = server.poll_event(now) {
            match event {
                server::Event::Server(event) => handle(server.engine(), now, &event),
                #[cfg(feature = "http-tokens")]
                server::Event::Token { exchange, request } => match black_box(request.token.reveal()) {
                    "" => server.deny(now, exchange, &Denial::invalid_token()),
                    user => server.grant(now, exchange, mcp_proto::server::Identity::new(user)),
                },
                _ => {}
            }
            #[cfg(feature = "http-heads")]
            black_box(connection.poll_head());
        }
        while let Some(exchange) = server.poll_ready(now) {
            black_box(exchange.index());
        }
        connection.drive(now, &mut server);
        let sent = black_box(connection.transmit()).len();
        connection.consume(sent);
        connection.handle_timeout(now);
        server.handle_timeout(now);
        black_box((connection.poll_timeout(), server.poll_timeout(), connection.wants_close()));
        connection.handle_eof(now);
        connection.abandon(now, &mut server);
    }
}

#[cfg(feature = "server")]
fn server() {
    use alloc::sync::Arc;
    use mcp_proto::pipe::{Pipe, Server};
    use mcp_proto::server::{Config, Event};
    use mcp_proto::{Capabilities, Capability, Instant, Limits, RpcError};

    #[derive(serde::Deserialize)]
    struct EchoArguments<'a> {
        text: &'a str,
    }

    let now = Instant::from_micros(black_box(0));
    let config = Config::new("device", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let mut server = Server::new(Arc::new(config.limits(Limits::small())), now);
    #[cfg(feature = "tasks")]
    set_tasks(server.engine(), now);
    server.handle_input(now, receive());
    while let Some(event) = server.poll_event(now) {
        let Event::Call(call) = event else { continue };
        #[cfg(feature = "tasks")]
        if begin_task(server.engine(), now, &call) {
            continue;
        }
        #[cfg(feature = "input")]
        if ask(server.engine(), now, &call) {
            continue;
        }
        let tool = call.tool_call().and_then(|tool| tool.parse::<EchoArguments<'_>>());
        let done = match (call.method(), tool) {
            #[cfg(feature = "model")]
            ("tools/call", Ok(echo)) => {
                let result = mcp_proto::model::CallToolResult::text(echo.text);
                server.engine().complete(now, call.id(), &result)
            }
            #[cfg(not(feature = "model"))]
            ("tools/call", Ok(echo)) => match mcp_proto::RawJson::new(alloc::string::String::from(echo.text))
            {
                Ok(result) => server.engine().complete_raw(now, call.id(), &result),
                Err(_) => server.engine().fail(now, call.id(), &RpcError::internal("not JSON")),
            },
            ("tools/call", Err(error)) => server.engine().fail(now, call.id(), &error),
            (method, _) => server.engine().fail(now, call.id(), &RpcError::method_not_found(method)),
        };
        black_box(done.is_ok());
    }
    end_turn(&mut server, now);
}

/// Offers tasks, which a store keeps.
#[cfg(all(feature = "server", feature = "tasks"))]
fn set_tasks(engine: &mut mcp_proto::server::Engine, now: mcp_proto::Instant) {
    use mcp_proto::server::TaskTable;
    use mcp_proto::{Anchor, Entropy};

    let entropy = Entropy::new(black_box([7; 32]), 1);
    engine.set_tasks(now, TaskTable::new(entropy, Anchor::new(now, black_box(0))).stored());
    let id = mcp_proto::model::TaskId::new(black_box("AAAAAAAAAAAAAAAAAAAAAA"));
    let loaded = engine.tasks(now).load(&id, receive());
    black_box(loaded.is_ok());
}

/// Makes a task of the call if its client takes one, and serves the store. Returns whether it did.
#[cfg(all(feature = "server", feature = "tasks"))]
fn begin_task(
    engine: &mut mcp_proto::server::Engine,
    now: mcp_proto::Instant,
    call: &mcp_proto::server::Call,
) -> bool {
    use mcp_proto::server::{StoreEffect, TaskOffer, TaskOptions};

    if let Some(task) = call.task_id() {
        black_box(task.as_str());
        black_box(engine.tasks(now).working(call.id(), "half"));
        return false;
    }
    if call.task_offer() == TaskOffer::None {
        return false;
    }
    let mut tasks = engine.tasks(now);
    let begun = tasks.begin(call, TaskOptions::new()).is_ok();
    while let Some(effect) = tasks.poll_store() {
        match effect {
            StoreEffect::Save { id, version, record } => {
                black_box(&record[..]);
                tasks.handle_saved(&id, version, black_box(true));
            }
            StoreEffect::Delete { id, version } => tasks.handle_deleted(&id, version, black_box(true)),
            _ => {}
        }
    }
    begun
}

/// Asks the user if a handler would, by a task of the client with the feature `input_tasks`. Returns whether it did.
#[cfg(feature = "input")]
fn ask(
    engine: &mut mcp_proto::server::Engine,
    now: mcp_proto::Instant,
    call: &mcp_proto::server::Call,
) -> bool {
    use mcp_proto::model::ElicitSchema;
    use mcp_proto::server::InputRequired;

    let mut input = InputRequired::default();
    #[cfg(feature = "input_tasks")]
    input.ask_as_tasks(None);
    input.elicit(call, "pin", black_box("Which pin?"), ElicitSchema::default()).is_err()
        && engine.require_input(now, call, &input).is_ok()
}

/// Registers a skill of one file.
#[cfg(feature = "skills")]
fn skills<H>(router: &mut mcp_proto::router::Router<H>) {
    use mcp_extensions::skills::{Skill, SkillResource};
    use mcp_proto::RawJson;

    let Ok(front_matter) = RawJson::new(black_box("{}")) else { return };
    let file = SkillResource::new("skill://pins/SKILL.md", black_box("sha256:"), 0u64);
    let added = router.skill(&Skill::new("skill://pins/SKILL.md", front_matter, alloc::vec![file]));
    black_box(added.is_ok());
}

/// Writes the card of a server, and its `server.json`.
#[cfg(feature = "cards")]
fn cards() {
    use mcp_extensions::cards::ServerCard;
    use mcp_proto::Implementation;

    let card = ServerCard::from_info(&Implementation::new(black_box("io.example/device"), black_box("1")));
    black_box(card.to_card().is_ok());
    black_box(card.to_server_json().is_ok());
}

/// Registers a tool. The peer may still ask for resources, prompts and completions.
#[cfg(feature = "router-tools")]
fn router_tools() {
    use alloc::string::String;
    use alloc::sync::Arc;
    use mcp_proto::model::Tool;
    use mcp_proto::pipe::{Pipe, Server};
    use mcp_proto::router::{CallTarget, IntoToolResult, PageCache, Route, Router};
    use mcp_proto::server::Event;
    use mcp_proto::{Instant, Limits, RawJson};

    let now = Instant::from_micros(black_box(0));
    let mut router = Router::<fn(&str) -> String>::new("device", "1");
    if let Ok(schema) = RawJson::new(black_box("{}")) {
        let added = router.tool(Tool::new("echo", schema).description("Says it again"), |text| text.into());
        black_box(added.is_ok());
    }
    let mut pages = PageCache::new();
    let mut server = Server::new(Arc::new(router.config().limits(Limits::small())), now);
    server.handle_input(now, receive());
    while let Some(event) = server.poll_event(now) {
        let Event::Call(call) = event else { continue };
        let (engine, id) = (server.engine(), call.id());
        let done = match router.route(&call) {
            Route::Answer(answer) => match pages.page(call.version(), &answer) {
                Some(page) => engine.complete_prepared(now, id, page),
                None => engine.complete(now, id, &answer),
            },
            Route::Handle(work) => match (&work.target, (work.handler)("").into_tool_result()) {
                (CallTarget::Tool(_), Ok(result)) => engine.complete(now, id, &result),
                (_, Err(none)) => engine.fail(now, id, &none.into_rpc_error()),
                _ => Ok(()),
            },
            Route::Refuse(error) => engine.fail(now, id, &error),
            _ => Ok(()),
        };
        black_box(done.is_ok());
    }
    end_turn(&mut server, now);
}

/// Registers one entry of every kind.
#[cfg(feature = "router")]
fn router() {
    use alloc::string::String;
    use alloc::sync::Arc;
    #[cfg(not(feature = "schemars"))]
    use mcp_proto::RawJson;
    use mcp_proto::model::{Prompt, PromptReference, Resource, ResourceTemplate, Tool};
    use mcp_proto::pipe::{Pipe, Server};
    use mcp_proto::router::{
        CallTarget, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult, PageCache, Route,
        Router,
    };
    use mcp_proto::server::Event;
    use mcp_proto::{Instant, Limits};

    #[cfg(feature = "schemars")]
    use mcp_proto::router::schema::{self, Profile, schemars};

    #[derive(serde::Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    struct EchoArguments<'a> {
        text: &'a str,
    }

    #[cfg(feature = "schemars")]
    let schema = Some(schema::arguments::<EchoArguments<'_>>(Profile::Standard));
    #[cfg(not(feature = "schemars"))]
    let schema = RawJson::new(black_box("{}")).ok();

    let now = Instant::from_micros(black_box(0));
    let mut router = Router::<fn(&str) -> String>::new("device", "1");
    if let Some(schema) = schema {
        let added = router.tool(Tool::new("echo", schema).description("Says it again"), |text| text.into());
        black_box(added.is_ok());
    }
    let added = router.resource(Resource::new("dev://state", "state"), |_| "idle".into());
    black_box(added.is_ok());
    let added = router.resource_template(ResourceTemplate::new("dev://{pin}", "pin"), |pin| pin.into());
    black_box(added.is_ok());
    let added = router.prompt(Prompt::new("ask"), |text| text.into());
    black_box(added.is_ok());
    let added = router.completion(PromptReference::new("ask"), "what", |text| text.into());
    black_box(added.is_ok());

    #[cfg(feature = "skills")]
    skills(&mut router);

    let mut pages = PageCache::new();
    let mut server = Server::new(Arc::new(router.config().limits(Limits::small())), now);
    server.handle_input(now, receive());
    while let Some(event) = server.poll_event(now) {
        let Event::Call(call) = event else { continue };
        let engine = server.engine();
        let id = call.id();
        let done = match router.route(&call) {
            Route::Answer(answer) => match pages.page(call.version(), &answer) {
                Some(page) => engine.complete_prepared(now, id, page),
                None => engine.complete(now, id, &answer),
            },
            Route::Handle(work) => match &work.target {
                CallTarget::Tool(tool) => {
                    let result = match tool.parse::<EchoArguments<'_>>() {
                        Ok(echo) => (work.handler)(echo.text).into_tool_result(),
                        Err(bad) => bad.into_result(),
                    };
                    match result {
                        Ok(result) => engine.complete(now, id, &result),
                        Err(none) => engine.fail(now, id, &none.into_rpc_error()),
                    }
                }
                CallTarget::Resource(read) => {
                    match (work.handler)(&read.uri).into_read_result(&read.uri, read.mime_type) {
                        Ok(result) => engine.complete(now, id, &result),
                        Err(none) => engine.fail(now, id, &none.into_rpc_error()),
                    }
                }
                CallTarget::Prompt(_) => match (work.handler)("").into_prompt_result() {
                    Ok(result) => engine.complete(now, id, &result),
                    Err(none) => engine.fail(now, id, &none.into_rpc_error()),
                },
                CallTarget::Completion(typed) => {
                    match alloc::vec![(work.handler)(typed.value())].into_completion() {
                        Ok(result) => engine.complete(now, id, &result),
                        Err(none) => engine.fail(now, id, &none.into_rpc_error()),
                    }
                }
                _ => Ok(()),
            },
            Route::Refuse(error) => engine.fail(now, id, &error),
            _ => Ok(()),
        };
        black_box(done.is_ok());
    }
    end_turn(&mut server, now);
}

#[cfg(feature = "client")]
fn client() {
    use alloc::sync::Arc;
    use mcp_proto::client::{Config, Event};
    use mcp_proto::pipe::{Client, Pipe};
    use mcp_proto::{CallOptions, Instant, Limits};

    #[derive(serde::Serialize)]
    struct EchoArguments<'a> {
        text: &'a str,
    }

    let now = Instant::from_micros(black_box(0));
    let config = Config::new("device", "1").limits(Limits::small());
    #[cfg(feature = "client-input")]
    let config = config
        .capabilities(mcp_proto::Capabilities::new().with(black_box(mcp_proto::Capability::Elicitation)));
    #[cfg(feature = "tasks")]
    let config = config.tasks();
    #[cfg(feature = "input_tasks")]
    let config = config.input_tasks(mcp_proto::client::InputTasks::new(
        mcp_proto::Entropy::new(black_box([7; 32]), 1),
        mcp_proto::Anchor::new(now, black_box(0)),
    ));
    let mut client = Client::new(Arc::new(config), now);
    let call =
        client.engine().call_tool(now, "echo", &EchoArguments { text: black_box("hi") }, &CallOptions::new());
    black_box(call.is_ok());
    client.handle_input(now, receive());
    while let Some(event) = client.poll_event(now) {
        #[cfg(feature = "client-input")]
        if let Event::Input(input) = &event {
            let answered = client.engine().answer(now, input.id, &mcp_proto::model::ElicitResult::decline());
            black_box(answered.is_ok());
        }
        if let Event::Done { outcome: Ok(result), .. } = event {
            black_box(result.member("content"));
        }
    }
    end_turn(&mut client, now);
}

/// Runs a client over HTTP/1.1 on sockets whose bytes are opaque to the compiler.
#[cfg(feature = "http-client")]
fn http_client() {
    use alloc::sync::Arc;
    use mcp_proto::client::{self, Event};
    use mcp_proto::http::client::{Client, Config, ConnectionPool, Credential, PoolLimits};
    use mcp_proto::{CallOptions, Instant, Limits};

    let now = Instant::from_micros(black_box(0));
    let Ok(config) = Config::new(black_box("https://h/mcp")) else { return };
    let Ok(credential) = Credential::bearer(black_box("t")) else { return };
    let config = Arc::new(config.credential(credential).handle_challenges(true));
    let limits = Arc::new(client::Config::new("device", "1").limits(Limits::small()));
    let mut client = Client::new(limits, Arc::clone(&config), now);
    let mut pool = ConnectionPool::new(PoolLimits::small());
    let call = client.engine().call_tool(now, "echo", black_box("hi"), &CallOptions::new());
    black_box(call.is_ok());
    while let Some((connection, origin)) = pool.poll_connect() {
        black_box(origin);
        pool.handle_connected(now, connection);
        pool.handle_input(now, connection, receive());
        pool.handle_eof(now, connection);
        pool.handle_broken(now, connection, black_box("reset"));
        let sent = black_box(pool.transmit(connection)).len();
        pool.consume(connection, sent);
    }
    while let Some(event) = pool.poll_event(now, &mut client) {
        if let Event::Done { outcome: Ok(result), .. } = event {
            black_box(result.member("content"));
        }
    }
    while let Some(challenge) = client.authorization().poll_challenge() {
        #[cfg(feature = "authorize")]
        let credential = authorize(now, config.endpoint(), challenge.challenges);
        #[cfg(not(feature = "authorize"))]
        let credential = Credential::bearer(black_box("t")).ok();
        black_box(match credential {
            Some(credential) => client.authorization().authorize(now, challenge.exchange, credential).is_ok(),
            None => client.authorization().refuse(now, challenge.exchange).is_ok(),
        });
    }
    #[cfg(feature = "authorize")]
    while let Some(request) = client.authorization().poll_proof() {
        let key = mcp_oauth::DpopKey { private: black_box("k").into(), public: black_box([0; 64]) };
        let clock = mcp_proto::Anchor::new(mcp_proto::Instant::ZERO, black_box(0));
        let mut proofs = mcp_oauth::DpopProofs::new(key, clock, black_box([7; 32]), now);
        let nonce = request.nonce.as_deref();
        let sign = proofs.begin(now, request.method, &request.url, nonce, request.token());
        black_box(&sign);
        client.authorization().handle_proof(now, request.exchange, &sign.finish(black_box(&[0; 64])));
    }
    pool.handle_timeout(now);
    client.handle_timeout(now);
    black_box((pool.poll_timeout(), client.poll_timeout()));
}

/// Authorizes with a configuration that is opaque to the compiler, so that each grant is linked.
#[cfg(feature = "authorize")]
fn authorize(
    now: mcp_proto::Instant,
    server: &mcp_proto::http::client::Url,
    challenges: alloc::vec::Vec<mcp_proto::AuthChallenge>,
) -> Option<mcp_proto::http::client::Credential> {
    use alloc::sync::Arc;
    use mcp_oauth::{
        AssertionRequest, ClientAuth, ClientCredentials, Config, DpopKey, Event, FetchFailure, FetchResponse,
        Flow, GrantType, IdentityProvider, Secret, Trigger,
    };
    use mcp_proto::http::client::Credential;
    use mcp_proto::{Anchor, Entropy, Instant};

    let mut config = Config::new("device");
    let credentials = || ClientCredentials::new(black_box("c"), ClientAuth::Secret(black_box("s").into()));
    match black_box(0) {
        0 => config = config.grant(GrantType::DeviceCode),
        1 => config = config.grant(GrantType::ClientCredentials).credentials(credentials()),
        2 => {
            let provider = IdentityProvider::new(black_box("https://idp"), credentials()).ok()?;
            config = config.grant(GrantType::Enterprise(provider));
        }
        3 => config = config.grant(GrantType::Assertion),
        _ => {}
    }
    let rejected = Secret::from(black_box("t"));
    let trigger = match black_box(0) {
        0 => Trigger::Connect,
        1 => Trigger::Unauthorized { challenges, rejected: Some(rejected) },
        2 => Trigger::InsufficientScope { challenges, rejected },
        3 => Trigger::LogIn { challenges },
        _ => Trigger::LogOut,
    };
    let clock = Anchor::new(Instant::ZERO, black_box(0));
    let entropy = Entropy::new(black_box([7; 32]), 1);
    let mut flow = Flow::new(Arc::new(config), server.clone(), trigger, clock, now, entropy);
    while let Some(event) = flow.poll_event(now) {
        match event {
            Event::Fetch(fetch) => {
                black_box(&fetch.body);
                let response = FetchResponse { body: receive().into(), ..FetchResponse::default() };
                match black_box(true) {
                    true => flow.handle_response(now, fetch.id, response),
                    false => flow.handle_fetch_failure(now, fetch.id, FetchFailure::TimedOut),
                }
            }
            Event::Load { .. } | Event::Lock { .. } => flow.handle_loaded(now, Some(&black_box("{}").into())),
            Event::Save { .. } | Event::Replace { .. } => flow.handle_saved(now),
            Event::ChooseServer { .. } => flow.choose(now, black_box(0)),
            Event::NeedClient { .. } => flow.set_client(now, &credentials()),
            Event::NeedRedirectUri { .. } => flow.set_redirect_uri(now, black_box("http://127.0.0.1:1/")),
            Event::CreateKey => {
                flow.handle_key(now, DpopKey { private: black_box("k").into(), public: black_box([0; 64]) });
            }
            Event::Sign(_) => flow.handle_signature(now, &black_box([0; 64]).into()),
            Event::OpenBrowser { url } => {
                black_box(url.target());
                black_box(flow.handle_redirect(now, black_box("code=c")));
            }
            Event::NeedAssertion(request) => {
                black_box(matches!(request, AssertionRequest::IdToken));
                flow.handle_assertion(now, Secret::from(black_box("a")));
            }
            Event::Authorized(token) => {
                return match token.dpop {
                    Some(_) => Credential::dpop(token.token.expose()).ok(),
                    None => Credential::bearer(token.token.expose()).ok(),
                };
            }
            Event::Failed(error) => {
                black_box(alloc::format!("{error}"));
            }
            _ => {}
        }
    }
    black_box(flow.poll_timeout());
    flow.handle_timeout(now);
    None
}
