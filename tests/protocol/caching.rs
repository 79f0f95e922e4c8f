//! A server's lists and resources at a client that keeps them: our server, our client and a cache, on virtual time.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Asker, Cache, Event, Pages, Question};
use mcp_proto::model::{ReadResourceParams, Request, Resource, Tool};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::router::{CacheHint, IntoReadResult, Kind, Route, Router, Target};
use mcp_proto::{CallKey, CallOptions, Change, Instant, RawJson, Version, VersionSet, server};

use crate::common::secs;

/// Both ends, with nothing in between
struct Ends {
    now: Instant,
    client: Client,
    server: Server,
    router: Router<&'static str>,
    cache: Cache,
    asker: Asker,
    /// Requests that reached the server
    asked: usize,
}

impl Ends {
    /// Tools in pages of two that may be kept for different times, and a resource
    fn new(version: Version) -> Self {
        let mut router = Router::new("keeps", "1");
        for name in ["a", "b", "c", "d", "e"] {
            router.tool(tool(name), "").expect("a tool");
        }
        router.resource(Resource::new("note://1", "one"), "milk").expect("a resource");
        router.page_size(2).cache_list(Kind::Tool, CacheHint::public(secs(10)));
        router.cache_resource("note://1", CacheHint::private(secs(5))).expect("a resource");
        let config = client::Config::new("test", "1").versions(VersionSet::only(version));
        let mut client = Client::new(Arc::new(config.clone()), Instant::ZERO);
        let mut server = Server::new(Arc::new(router.config()), Instant::ZERO);
        let peer = loop {
            let now = Instant::ZERO;
            if let Some(Event::Ready(peer)) = client.poll_event(now) {
                break peer;
            }
            assert!(server.poll_event(now).is_none(), "the handshake is the engine's");
            exchange(now, &mut client, &mut server);
        };
        let asker = Asker::new(&config, &peer, "keeps", "somebody");
        Self { now: Instant::ZERO, client, server, router, cache: Cache::new(), asker, asked: 0 }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    /// Everything that is to be done until a call is answered
    fn finish(&mut self, call: CallKey) -> RawJson {
        loop {
            while let Some(event) = self.server.poll_event(self.now) {
                if let server::Event::Call(call) = event {
                    self.asked += 1;
                    self.answer(&call);
                }
            }
            exchange(self.now, &mut self.client, &mut self.server);
            while let Some(event) = self.client.poll_event(self.now) {
                match event {
                    Event::Done { call: done, outcome, .. } if done == call => {
                        return outcome.expect("a result");
                    }
                    Event::Changed { change, .. } => self.cache.notice(&self.asker, &change),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn answer(&mut self, call: &server::Call) {
        let engine = self.server.engine();
        match self.router.route(call) {
            Route::Answer(answer) => engine.complete(self.now, call.id(), &answer).expect("an answer"),
            Route::Refuse(error) => engine.fail(self.now, call.id(), &error).expect("an answer"),
            Route::Handle(work) => match &work.target {
                Target::Resource(resource) => {
                    let hint = resource.cache.expect("a hint");
                    let result = work.handler.into_read_result("note://1", None).expect("a result");
                    let result = result.ttl_ms(hint.ttl_ms()).cache_scope(hint.scope());
                    engine.complete(self.now, call.id(), &result).expect("an answer");
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Asks the cache, then the server
    fn ask(&mut self, question: Question, call: impl FnOnce(&mut Self) -> CallKey) -> (RawJson, bool) {
        if let Some(kept) = self.cache.get(self.now, &self.asker, &question) {
            return (kept, true);
        }
        let ticket = self.cache.ticket(&self.asker, question);
        let call = call(self);
        let result = self.finish(call);
        self.cache.put(self.now, ticket, &result);
        (result, false)
    }

    /// The names of all tools, and how many requests they took
    fn tools(&mut self) -> (String, usize) {
        let before = self.asked;
        let mut pages = Pages::new(Kind::Tool, 1 << 20);
        loop {
            let cursor = pages.cursor().map(str::to_owned);
            let (page, kept) = self.ask(Question::List(Kind::Tool, cursor.clone()), |ends| {
                let engine = ends.client.engine();
                engine.list(ends.now, Kind::Tool, cursor.as_deref(), &CallOptions::new()).expect("a call")
            });
            let more = if kept { pages.take_kept(&page) } else { pages.take(&page) };
            if !more.expect("a page") {
                break;
            }
        }
        let names =
            pages.into_entries().iter().map(|tool| tool.parse::<Tool>().expect("a tool").name).collect();
        (names, self.asked - before)
    }

    /// How many requests reading the resource took
    fn read(&mut self) -> usize {
        let before = self.asked;
        let params = ReadResourceParams::new("note://1");
        let question = Question::of(ReadResourceParams::METHOD, &params).expect("one that is kept");
        let (result, _) = self.ask(question, |ends| {
            let engine = ends.client.engine();
            engine.call(ends.now, ReadResourceParams::METHOD, &params, &CallOptions::new()).expect("a call")
        });
        let read = ReadResourceParams::read(&result).expect("contents");
        assert_eq!(read.contents[0].uri(), "note://1");
        self.asked - before
    }
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

fn exchange(now: Instant, client: &mut Client, server: &mut Server) {
    let up = client.transmit().to_vec();
    client.consume(up.len());
    server.handle_input(now, &up);
    let down = server.transmit().to_vec();
    server.consume(down.len());
    client.handle_input(now, &down);
}

// covers: CACHE-001, CACHE-005, CACHE-006, CACHE-007, CACHE-010, CACHE-016, CACHE-018, PAGE-010
#[test]
fn what_the_server_allows_is_kept_and_nothing_else() {
    for version in VersionSet::ALL.iter() {
        let keeps = version == Version::V2026_07_28;
        let mut ends = Ends::new(version);
        assert_eq!((ends.tools(), ends.read()), (("abcde".into(), 3), 1), "{version}");
        ends.pass(secs(4));
        let none = if keeps { 0 } else { 3 };
        assert_eq!((ends.tools(), ends.read()), (("abcde".into(), none), none.min(1)), "{version}");
        ends.pass(secs(1));
        assert_eq!((ends.tools().1, ends.read()), (none, 1), "{version}: the resource is stale");
        ends.pass(secs(5));
        assert_eq!((ends.tools().1, ends.read()), (3, 1), "{version}: both are stale");
    }
}

// covers: CACHE-014, CACHE-018, PAGE-010
#[test]
fn a_list_that_changes_is_seen_to_have_changed_when_it_is_said_or_stale() {
    let mut ends = Ends::new(Version::V2026_07_28);
    assert_eq!(ends.tools(), ("abcde".into(), 3));
    ends.router.remove(Kind::Tool, "b");
    ends.router.tool(tool("f"), "").expect("a tool");
    assert_eq!(ends.tools(), ("abcde".into(), 0), "nobody has said so");
    ends.cache.notice(&ends.asker, &Change::Tools);
    assert_eq!(ends.tools(), ("acdef".into(), 3));
    // Pages whose clocks differ: the first is asked for anew, and leads to pages that are still fresh.
    ends.cache.forget_list(&ends.asker, Kind::Tool);
    let first = ends.ask(Question::List(Kind::Tool, None), |ends| {
        ends.client.engine().list_tools(ends.now, None, &CallOptions::new()).expect("a call")
    });
    assert!(!first.1);
    ends.pass(secs(5));
    assert_eq!(ends.tools(), ("acdef".into(), 2));
    ends.pass(secs(5));
    assert_eq!(ends.tools(), ("acdef".into(), 1));
    assert_eq!(ends.tools(), ("acdef".into(), 0));
}
