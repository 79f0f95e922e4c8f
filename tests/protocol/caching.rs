//! Cached lists and resources: a server, a client and a `Cache` on virtual time.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::EntryKind;
use mcp_proto::client::{self, Cache, CacheKey, CacheScope, Event, Paginator};
use mcp_proto::model::{ReadResourceParams, RequestParams, Resource, Tool};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::router::{CacheHint, CallTarget, IntoReadResult, Route, Router};
use mcp_proto::{CallKey, CallOptions, Change, Instant, RawJson, Version, VersionSet, server};

use crate::protocol::common::secs;

/// A client and a server that exchange bytes directly, and the client's cache.
struct CachedConnection {
    now: Instant,
    client: Client,
    server: Server,
    router: Router<&'static str>,
    cache: Cache,
    cache_scope: CacheScope,
    /// Requests that reached the server.
    request_count: usize,
}

impl CachedConnection {
    /// Connects to a server with one resource and pages of two tools; their cache hints differ.
    fn new(version: Version) -> Self {
        let mut router = Router::new("keeps", "1");
        for name in ["a", "b", "c", "d", "e"] {
            router.tool(tool_definition(name), "").expect("a tool");
        }
        router.resource(Resource::new("note://1", "one"), "milk").expect("a resource");
        router.page_size(2).cache_list(EntryKind::Tool, CacheHint::public(secs(10)));
        router.cache_resource("note://1", CacheHint::private(secs(5))).expect("a resource");
        let config = client::Config::new("test", "1").versions(VersionSet::only(version));
        let mut client = Client::new(Arc::new(config.clone()), Instant::ZERO);
        let mut server = Server::new(Arc::new(router.config()), Instant::ZERO);
        let peer = loop {
            let now = Instant::ZERO;
            if let Some(Event::Ready(peer)) = client.poll_event(now) {
                break peer;
            }
            assert!(server.poll_event(now).is_none(), "the engine does the handshake without an event");
            exchange(now, &mut client, &mut server);
        };
        let cache_scope = CacheScope::new(&config, &peer, "keeps", "alice");
        Self {
            now: Instant::ZERO,
            client,
            server,
            router,
            cache: Cache::new(),
            cache_scope,
            request_count: 0,
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    /// Makes the requests that follow on behalf of another principal.
    fn set_principal(&mut self, principal: &str) {
        let engine = self.client.engine();
        let peer = engine.peer().expect("ready").clone();
        self.cache_scope = CacheScope::new(engine.config(), &peer, "keeps", principal);
    }

    /// Drives both ends until the call is answered.
    fn finish(&mut self, call: CallKey) -> RawJson {
        loop {
            while let Some(event) = self.server.poll_event(self.now) {
                if let server::Event::Call(call) = event {
                    self.request_count += 1;
                    self.answer(&call);
                }
            }
            exchange(self.now, &mut self.client, &mut self.server);
            while let Some(event) = self.client.poll_event(self.now) {
                match event {
                    Event::Done { call: done, outcome, .. } if done == call => {
                        return outcome.expect("a result");
                    }
                    Event::Changed { change, .. } => self.cache.handle_change(&self.cache_scope, &change),
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
                CallTarget::Resource(resource) => {
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

    /// Looks in the cache, then calls the server. The flag is true for a cached result.
    fn cached_call(&mut self, key: CacheKey, call: impl FnOnce(&mut Self) -> CallKey) -> (RawJson, bool) {
        if let Some(cached) = self.cache.get(self.now, &self.cache_scope, &key) {
            return (cached, true);
        }
        let ticket = self.cache.ticket(&self.cache_scope, key);
        let call = call(self);
        let result = self.finish(call);
        self.cache.insert(self.now, ticket, &result);
        (result, false)
    }

    /// Lists all tools: their names, and the number of requests that reached the server.
    fn tools(&mut self) -> (String, usize) {
        let before = self.request_count;
        let mut pages = Paginator::new(EntryKind::Tool, 1 << 20);
        loop {
            let cursor = pages.cursor().map(str::to_owned);
            let (page, is_cached) =
                self.cached_call(CacheKey::List(EntryKind::Tool, cursor.clone()), |ends| {
                    let engine = ends.client.engine();
                    engine
                        .list(ends.now, EntryKind::Tool, cursor.as_deref(), &CallOptions::new())
                        .expect("a call")
                });
            let more = if is_cached { pages.take_cached(&page) } else { pages.take(&page) };
            if !more.expect("a page") {
                break;
            }
        }
        let names =
            pages.into_entries().iter().map(|tool| tool.parse::<Tool>().expect("a tool").name).collect();
        (names, self.request_count - before)
    }

    /// Reads the resource and returns the number of requests that reached the server.
    fn read(&mut self) -> usize {
        let before = self.request_count;
        let params = ReadResourceParams::new("note://1");
        let key = CacheKey::from_request(ReadResourceParams::METHOD, &params).expect("a cacheable request");
        let (result, _) = self.cached_call(key, |ends| {
            let engine = ends.client.engine();
            engine.call(ends.now, ReadResourceParams::METHOD, &params, &CallOptions::new()).expect("a call")
        });
        let read = ReadResourceParams::read(&result).expect("contents");
        assert_eq!(read.contents[0].uri(), "note://1");
        self.request_count - before
    }
}

fn tool_definition(name: &str) -> Tool {
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
fn cache_keeps_results_for_the_time_the_server_allows() {
    for version in VersionSet::ALL.iter() {
        let has_cache = version == Version::V2026_07_28;
        let mut ends = CachedConnection::new(version);
        assert_eq!((ends.tools(), ends.read()), (("abcde".into(), 3), 1), "{version}");
        ends.advance(secs(4));
        let list_requests = if has_cache { 0 } else { 3 };
        assert_eq!(
            (ends.tools(), ends.read()),
            (("abcde".into(), list_requests), list_requests.min(1)),
            "{version}"
        );
        ends.advance(secs(1));
        assert_eq!((ends.tools().1, ends.read()), (list_requests, 1), "{version}: the resource is stale");
        ends.advance(secs(5));
        assert_eq!((ends.tools().1, ends.read()), (3, 1), "{version}: both are stale");
    }
}

// covers: CACHE-012, CACHE-013
#[test]
fn private_result_of_another_principal_is_fetched_again() {
    let mut ends = CachedConnection::new(Version::V2026_07_28);
    assert_eq!((ends.tools().1, ends.read()), (3, 1));
    ends.set_principal("bob");
    assert_eq!((ends.tools().1, ends.read()), (0, 1), "the list is public, the resource is private");
    assert_eq!(ends.read(), 0);
    ends.set_principal("alice");
    assert_eq!(ends.read(), 0, "the result of the other principal replaces nothing");
}

// covers: CACHE-014, CACHE-018, PAGE-010
#[test]
fn cached_list_is_fetched_again_after_change_notification_or_expiry() {
    let mut ends = CachedConnection::new(Version::V2026_07_28);
    assert_eq!(ends.tools(), ("abcde".into(), 3));
    ends.router.remove(EntryKind::Tool, "b");
    ends.router.tool(tool_definition("f"), "").expect("a tool");
    assert_eq!(ends.tools(), ("abcde".into(), 0), "no change has been announced");
    ends.cache.handle_change(&ends.cache_scope, &Change::Tools);
    assert_eq!(ends.tools(), ("acdef".into(), 3));
    // Pages expire at different times: the first is fetched again and leads to pages that are still fresh.
    ends.cache.invalidate_list(&ends.cache_scope, EntryKind::Tool);
    let first = ends.cached_call(CacheKey::List(EntryKind::Tool, None), |ends| {
        ends.client.engine().list_tools(ends.now, None, &CallOptions::new()).expect("a call")
    });
    assert!(!first.1);
    ends.advance(secs(5));
    assert_eq!(ends.tools(), ("acdef".into(), 2));
    ends.advance(secs(5));
    assert_eq!(ends.tools(), ("acdef".into(), 1));
    assert_eq!(ends.tools(), ("acdef".into(), 0));
}
