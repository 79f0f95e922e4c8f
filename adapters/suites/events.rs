//! Suite: an extension that answers beside the handlers, on the example of events: over HTTP and on a byte stream.
//!
//! `crate::adapter` names the adapter under test.

#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime};

use mcp_events::client::{Error as EventsError, FollowOptions, WebhookOptions};
use mcp_events::delivery::{Config as DeliveryConfig, Deliveries};
use mcp_events::follow::{FollowConfig, FollowError, FollowEvent};
use mcp_events::post::{ClientTls, Clock, Deliverer, Poster, entropy};
use mcp_events::receive::{ReceiverServer, ServerTls};
use mcp_events::receiver::{Limits, Message, Receiver};
use mcp_events::server::{Event, Events, Publisher};
use mcp_events::source::SourceConfig;
use mcp_events::subscription::SubscriptionEvent;
use mcp_events::wire::{DeliveryMode, EVENTS_LIST, EventsErrorKind, Nullable, PollEventsParams, Profile};
use mcp_proto::client::Config as ClientConfig;
use mcp_proto::http::client::{Config as HttpClient, Credential};
use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::server::Identity;
use mcp_proto::{Entropy, RawJson, VersionSet};
use mcp_std::io::Interest;
use serde_json::{Value, json};

use crate::adapter::{
    Client, Error, Handle, HttpServer, Options, Router, client_layer, events_client, inner_client,
    next_event, run, run_http, serve, serve_with_handle, server_handle, wait,
};
use crate::support::{DEADLINE, with_timeout};

/// Interval of heartbeats; longer than what a test waits for otherwise.
const HEARTBEAT: Duration = Duration::from_millis(400);
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn raw(text: &str) -> RawJson {
    RawJson::new(text.to_owned()).expect("JSON")
}

fn events() -> (Events, Publisher<Value>) {
    let mut config = SourceConfig::default();
    config.heartbeat = HEARTBEAT;
    let events = Events::with(config, Profile::SEP).expect("entropy");
    let any = || raw(r#"{"type":"object"}"#);
    let publisher = events.add(Event::<Value, Value>::with_schemas("build", any(), any())).expect("a type");
    (events, publisher)
}

pub(super) fn publish(publisher: &Publisher<Value>, number: usize, text: &str) {
    let payload = json!({"number": number, "text": text});
    publisher.publish_as(format!("evt-{number}"), SystemTime::now(), &payload).expect("published");
}

/// Waits until this number of streams is open.
fn await_streams(events: &Events, count: usize) {
    let begun = Instant::now();
    while events.open_streams() != count {
        assert!(begun.elapsed() < DEADLINE, "{} streams are open", events.open_streams());
        thread::sleep(Duration::from_millis(2));
    }
}

fn router(events: &Events) -> Router {
    let mut router = Router::new("builds", "1");
    router.extension(events.clone());
    router
}

fn request(id: usize, method: &str, name: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": name, "_meta": meta}}).to_string()
}

/// What the server makes of tokens: they are valid ([`OPEN`]), cannot be validated now ([`BUSY`]: 503), or are refused (401).
pub(super) type Door = Arc<AtomicUsize>;
const OPEN: usize = 0;
const BUSY: usize = 1;
const SHUT: usize = 2;

pub(super) struct Served {
    pub(super) address: SocketAddr,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn new(events: &Events) -> Self {
        Self::at("127.0.0.1:0".into(), events)
    }

    /// Listens at an address, which may have been that of another server before.
    fn at(address: String, events: &Events) -> Self {
        Self::with(address, events, Http::new(), None)
    }

    /// Listens with a configuration. The token of a user is his name; `door` says what comes of it.
    pub(super) fn with(address: String, events: &Events, http: Http, door: Option<Door>) -> Self {
        let events = events.clone();
        let (started, starts) = mpsc::channel();
        let thread = thread::spawn(move || {
            let router = router(&events);
            let mut server = HttpServer::bind(&*address, router.config()?, http, router)?;
            if let Some(door) = door {
                server =
                    server.validate_tokens(move |request: &TokenRequest| match door.load(Ordering::SeqCst) {
                        OPEN => Ok(Identity::new(request.token.reveal())),
                        BUSY => Err(Denial::Unavailable),
                        _ => Err(Denial::InvalidToken("revoked".into())),
                    });
            }
            started.send((server.address()?, server_handle!(server))).expect("a receiver");
            run_http(server)
        });
        let (address, handle) = starts.recv_timeout(DEADLINE).expect("the server listens");
        Self { address, handle, thread }
    }

    fn send(&self, id: usize, method: &str) -> Reader {
        let body = request(id, method, "build");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        stream.write_all((head + &body).as_bytes()).expect("room");
        Reader { stream, read: Vec::new() }
    }

    pub(super) fn stop(self) {
        let begun = Instant::now();
        self.handle.shutdown(DEADLINE);
        self.thread.join().expect("no panic").expect("no error");
        assert!(begun.elapsed() < DEADLINE / 2, "an open stream takes the whole grace period");
    }
}

/// What a client reads of a response.
struct Reader {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Reader {
    /// Reads the next message of an event stream, or the body of another response.
    fn message(&mut self) -> Value {
        loop {
            // A message is one line: `data: {…}`, or a body.
            let is_line = |line: &&[u8]| line.starts_with(b"data: {") || line.starts_with(b"{");
            let line = self.read.split_inclusive(|b| *b == b'\n').find(is_line);
            let start = line.map(|line| line.as_ptr() as usize - self.read.as_ptr() as usize);
            if let (Some(line), Some(start)) = (line, start) {
                let text = String::from_utf8_lossy(line).trim_start_matches("data: ").to_owned();
                if let Ok(message) = serde_json::from_str(text.trim_end()) {
                    let end = start + line.len();
                    self.read.drain(..end);
                    return message;
                }
            }
            let mut buffer = [0; 65_536];
            let count = self.stream.read(&mut buffer).expect("a message");
            assert!(count > 0, "ends after {}", String::from_utf8_lossy(&self.read));
            self.read.extend_from_slice(&buffer[..count]);
        }
    }

    /// Reads messages until one is no heartbeat.
    fn news(&mut self) -> Value {
        loop {
            let message = self.message();
            if message["method"] != "notifications/events/heartbeat" {
                return message;
            }
        }
    }
}

// covers: EVT-050, EVT-051, EVT-052, EVT-059, EVT-060, EVT-062
#[test]
fn streams_over_http_follow_what_any_thread_publishes() {
    with_timeout(|| {
        let (events, publisher) = events();
        let served = Served::new(&events);
        assert_eq!(served.send(0, "events/list").message()["result"]["events"][0]["name"], "build");
        let mut readers: Vec<Reader> = (1..=4).map(|id| served.send(id, "events/stream")).collect();
        for (n, reader) in readers.iter_mut().enumerate() {
            let active = reader.message();
            assert_eq!(active["method"], "notifications/events/active");
            assert_eq!(active["params"]["_meta"][SUBSCRIPTION], n + 1);
        }
        let publishing = publisher.clone();
        thread::spawn(move || (0..50).for_each(|n| publish(&publishing, n, "x"))).join().expect("no panic");
        for reader in &mut readers {
            for n in 0..50 {
                assert_eq!(reader.news()["params"]["eventId"], format!("evt-{n}"));
            }
        }
        // While they are silent, they live.
        assert_eq!(readers[0].message()["method"], "notifications/events/heartbeat");
        // The streams of a client that goes end; the others go on, and end with the server.
        drop(readers.pop());
        await_streams(&events, 3);
        publish(&publisher, 50, "x");
        readers.iter_mut().for_each(|reader| assert_eq!(reader.news()["params"]["eventId"], "evt-50"));
        served.stop();
        for (n, reader) in readers.iter_mut().enumerate() {
            let last = reader.news();
            assert_eq!((&last["id"], &last["result"]["_meta"][SUBSCRIPTION]), (&json!(n + 1), &json!(n + 1)));
        }
        assert_eq!(events.open_streams(), 0);
    });
}

// covers: EVT-053
#[test]
fn client_that_does_not_read_delays_itself_alone() {
    with_timeout(|| {
        let (events, publisher) = events();
        let served = Served::new(&events);
        let [mut slow, mut fast] = [1, 2].map(|id| served.send(id, "events/stream"));
        await_streams(&events, 2);
        fast.message();
        // More than the buffers of the connection take, and less than the log keeps.
        let text = "x".repeat(20_000);
        for n in 0..40 {
            publish(&publisher, n, &text);
            assert_eq!(fast.news()["params"]["eventId"], format!("evt-{n}"));
        }
        slow.message();
        for n in 0..40 {
            assert_eq!(slow.news()["params"]["eventId"], format!("evt-{n}"));
        }
        served.stop();
    });
}

// covers: EVT-050, EVT-056, EVT-060
#[test]
fn stream_on_a_byte_stream_ends_with_its_cancellation() {
    with_timeout(|| {
        let (events, publisher) = events();
        let config = router(&events).config().expect("nothing was refused");
        let of_server = events.clone();
        let (mut stream, handle, serving) = serve_with_handle(config, move || router(&of_server));
        let mut read = Vec::new();
        let mut next = |stream: &mut dyn mcp_std::io::Duplex| -> Value {
            loop {
                if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = read.drain(..=end).collect();
                    return serde_json::from_slice(&line).expect("JSON");
                }
                let mut buffer = [0; 4_096];
                match stream.read(&mut buffer) {
                    Ok(count) => {
                        assert!(count > 0, "the stream ends");
                        read.extend_from_slice(&buffer[..count]);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        stream.wait(Interest::READ, Some(DEADLINE)).expect("a stream");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let opened = request(1, "events/stream", "build") + "\n";
        stream.write(opened.as_bytes()).expect("room");
        assert_eq!(next(&mut *stream)["method"], "notifications/events/active");
        publish(&publisher, 1, "x");
        assert_eq!(next(&mut *stream)["params"]["eventId"], "evt-1");
        assert_eq!(next(&mut *stream)["method"], "notifications/events/heartbeat");
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        stream.write(format!("{cancelled}\n").as_bytes()).expect("room");
        await_streams(&events, 0);
        // Nobody hears it, and another one begins behind it.
        publish(&publisher, 2, "x");
        let opened = request(2, "events/stream", "build") + "\n";
        stream.write(opened.as_bytes()).expect("room");
        let mut message = next(&mut *stream);
        while message["params"]["_meta"][SUBSCRIPTION] == 1 {
            message = next(&mut *stream);
        }
        assert_eq!(message["method"], "notifications/events/active");
        publish(&publisher, 3, "x");
        assert_eq!(next(&mut *stream)["params"]["eventId"], "evt-3");
        let begun = Instant::now();
        handle.shutdown(DEADLINE);
        assert_eq!(next(&mut *stream)["result"]["_meta"][SUBSCRIPTION], 2);
        serving.join().expect("no panic").expect("no error");
        assert!(begun.elapsed() < DEADLINE / 2);
    });
}

// covers: EVT-060
#[test]
fn server_ends_at_once_when_the_client_of_a_stream_leaves() {
    with_timeout(|| {
        let (events, _publisher) = events();
        let mut limits = mcp_proto::Limits::default();
        limits.eof_grace_period = DEADLINE;
        let config = router(&events).config().expect("nothing was refused").limits(limits);
        let of_server = events.clone();
        let (mut stream, _handle, serving) = serve_with_handle(config, move || router(&of_server));
        stream.write((request(1, "events/stream", "build") + "\n").as_bytes()).expect("room");
        await_streams(&events, 1);
        let begun = Instant::now();
        drop(stream);
        serving.join().expect("no panic").expect("no error");
        assert!(begun.elapsed() < DEADLINE / 2, "the grace period of calls is not that of streams");
        assert_eq!(events.open_streams(), 0);
    });
}

// ---- clients -----------------------------------------------------------------------------------------------------

/// Follows as usual, and does not make a test wait.
fn soon() -> FollowOptions {
    let mut config = FollowConfig::default();
    (config.shortest_backoff, config.longest_backoff) =
        (Duration::from_millis(10), Duration::from_millis(100));
    (config.shortest_poll, config.default_poll) = (Duration::from_millis(10), Duration::from_millis(10));
    config.longest_poll = Duration::from_millis(20);
    FollowOptions::new().config(config)
}

/// Returns what a follower gets next, without the errors that it goes on after.
macro_rules! news {
    ($follower:expr) => {
        loop {
            match next_event!($follower).expect("the connection is open") {
                Some(FollowEvent::Error(FollowError::Lost(_) | FollowError::Silent)) => {}
                Some(FollowEvent::Event(event)) => break event.event_id,
                Some(FollowEvent::Gap { reason, .. }) => break format!("gap {reason:?}"),
                other => panic!("{other:?}"),
            }
        }
    };
}

fn options(versions: VersionSet) -> Options {
    Client::options(ClientConfig::new("follower", "1").versions(versions))
}

// covers: EVT-010, EVT-050, EVT-064, EVT-065
#[test]
fn client_follows_streams_of_a_server_that_goes_and_comes_back() {
    with_timeout(|| {
        let (events, publisher) = events();
        let served = Served::new(&events);
        let address = served.address.to_string();
        let client = run!(options(VersionSet::ALL).connect_url(&format!("http://{address}/mcp")));
        let client = client.expect("a connection");
        let of_server = events_client!(&client);
        let types = run!(of_server.list()).expect("types");
        assert_eq!(types.iter().map(|described| &*described.name).collect::<Vec<_>>(), ["build"]);
        let mut follower = run!(of_server.follow_with("build", &json!({}), soon())).expect("a follower");
        let mut other = run!(of_server.follow_with("build", &json!({}), soon())).expect("a follower");
        assert_eq!(follower.mode(), &DeliveryMode::Push);
        // A stream begins when it is asked for events.
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                publish(&publisher, 0, "x");
            });
            assert_eq!(news!(follower), "evt-0");
            scope.spawn(|| {
                await_streams(&events, 2);
                (1..4).for_each(|n| publish(&publisher, n, "x"));
            });
            for n in 1..4 {
                assert_eq!(news!(other), format!("evt-{n}"));
            }
        });
        for n in 1..4 {
            assert_eq!(news!(follower), format!("evt-{n}"));
        }
        assert!(follower.cursor().is_some());
        served.stop();
        // The log outlives the server, and so the follower misses nothing.
        (4..6).for_each(|n| publish(&publisher, n, "x"));
        let served = Served::at(address.clone(), &events);
        assert_eq!([news!(follower), news!(follower)], ["evt-4", "evt-5"]);
        let stored = follower.cursor().map(String::from);
        served.stop();
        // Another process has another log, and says so.
        let (restarted, publisher) = self::events();
        let served = Served::at(address, &restarted);
        assert_eq!(news!(follower), "gap Truncated");
        publish(&publisher, 6, "x");
        assert_eq!(news!(follower), "evt-6");
        // Of a stored position, too.
        let stored = soon().cursor(stored.expect("a position"));
        let mut resumed = run!(of_server.follow_with("build", &json!({}), stored)).expect("a follower");
        assert_eq!(news!(resumed), "gap Truncated");
        drop((follower, other, resumed));
        run!(client.close()).expect("closed");
        await_streams(&restarted, 0);
        served.stop();
    });
}

// covers: EVT-065
#[test]
fn follower_that_is_not_asked_loses_its_stream_and_no_event() {
    with_timeout(|| {
        let (events, publisher) = events();
        let served = Served::new(&events);
        let mut limits = mcp_proto::Limits::default();
        limits.max_events = 8;
        let config = ClientConfig::new("follower", "1").versions(VersionSet::MODERN).limits(limits);
        let url = format!("http://{}/mcp", served.address);
        let client = run!(Client::options(config).connect_url(&url)).expect("a connection");
        let of_server = events_client!(&client);
        let mut follower = run!(of_server.follow_with("build", &json!({}), soon())).expect("a follower");
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                publish(&publisher, 0, "x");
            });
            assert_eq!(news!(follower), "evt-0");
        });
        (1..100).for_each(|n| publish(&publisher, n, "x"));
        // Other calls go on meanwhile, and read what nobody takes.
        let begun = Instant::now();
        while events.open_streams() > 0 {
            run!(client.ping()).expect("an answer");
            assert!(begun.elapsed() < DEADLINE, "the stream is not given up");
        }
        for n in 1..100 {
            assert_eq!(news!(follower), format!("evt-{n}"));
        }
        drop(follower);
        run!(client.close()).expect("closed");
        served.stop();
    });
}

// covers: EVT-019
#[test]
fn follower_reads_the_list_again_after_a_change_that_its_client_is_told_of() {
    with_timeout(|| {
        let (events, publisher) = events();
        let served = Served::new(&events);
        let lists = Arc::new(AtomicUsize::new(0));
        let counter = lists.clone();
        let config = ClientConfig::new("follower", "1").custom_list(EVENTS_LIST).expect("room");
        let options = Client::options(config).layer(client_layer!(
            [counter] | request,
            next | {
                counter.fetch_add(usize::from(request.method() == "events/list"), Ordering::SeqCst);
                wait!(next.run(request))
            }
        ));
        let client = run!(options.connect_url(&format!("http://{}/mcp", served.address)));
        let client = client.expect("a connection");
        let filter = SubscriptionFilter::new().custom_list(EVENTS_LIST);
        let (_, honoured) = run!(client.subscribe(&filter)).expect("a subscription");
        assert!(honoured.has_custom_list(EVENTS_LIST));
        let of_server = events_client!(&client);
        let mut follower = run!(of_server.follow_with("build", &json!({}), soon())).expect("a follower");
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                publish(&publisher, 0, "x");
            });
            assert_eq!(news!(follower), "evt-0");
        });
        assert_eq!(lists.load(Ordering::SeqCst), 1, "to begin with");
        let any = || raw(r#"{"type":"object"}"#);
        events.add(Event::<Value, Value>::with_schemas("mail", any(), any())).expect("a type");
        let begun = Instant::now();
        let mut number = 1;
        while lists.load(Ordering::SeqCst) == 1 {
            publish(&publisher, number, "x");
            assert_eq!(news!(follower), format!("evt-{number}"));
            number += 1;
            assert!(begun.elapsed() < DEADLINE, "the list is not read again");
            thread::sleep(Duration::from_millis(5));
        }
        // The stream is as it was.
        publish(&publisher, number, "x");
        assert_eq!((news!(follower), events.open_streams()), (format!("evt-{number}"), 1));
        drop(follower);
        run!(client.close()).expect("closed");
        served.stop();
    });
}

#[test]
fn follower_waits_while_a_server_is_busy_and_ends_when_access_is_refused() {
    with_timeout(|| {
        let (events, publisher) = events();
        let door = Door::default();
        let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
        let http = Http::new().protected(protected);
        let served = Served::with("127.0.0.1:0".into(), &events, http, Some(door.clone()));
        let http = HttpClient::new(&format!("http://{}/mcp", served.address)).expect("a URL");
        let http = http.credential(Credential::bearer("ann").expect("a token"));
        let client = run!(options(VersionSet::MODERN).connect_http(http)).expect("a connection");
        let of_server = events_client!(&client);
        let before = run!(of_server.poll(&PollEventsParams::new("build"))).expect("an answer");
        let cursor = Nullable::text(before.cursor.as_ref()).expect("a position");
        publish(&publisher, 0, "x");
        let polls = soon().only_polls().cursor(cursor);
        let mut follower = run!(of_server.follow_with("build", &json!({}), polls)).expect("a follower");
        let mut next = || next_event!(follower).expect("the connection is open");
        assert!(matches!(next(), Some(FollowEvent::Event(event)) if event.event_id == "evt-0"));
        door.store(BUSY, Ordering::SeqCst);
        let busy = next();
        let is_passing =
            |error: &FollowError| matches!(error, FollowError::Lost(_) | FollowError::Busy { .. });
        assert!(matches!(&busy, Some(FollowEvent::Error(error)) if is_passing(error)), "{busy:?}");
        door.store(SHUT, Ordering::SeqCst);
        let end = core::iter::from_fn(&mut next)
            .find(|event| !matches!(event, FollowEvent::Error(error) if is_passing(error)));
        let Some(FollowEvent::Ended(FollowError::Refused(why))) = end else { panic!("{end:?}") };
        assert!(why.contains("HTTP status 401"), "{why}");
        assert_eq!(next(), None);
        drop(follower);
        run!(client.close()).expect("closed");
        served.stop();
    });
}

// covers: EVT-040, EVT-041, EVT-044, EVT-046
#[test]
fn client_polls_where_there_are_no_streams() {
    with_timeout(|| {
        let mut config = SourceConfig::default();
        (config.events_per_poll, config.next_poll) = (2, Duration::from_millis(5));
        // Also a server of a revision with a handshake, where streams do not exist (EVT-008).
        for (profile, versions) in
            [(Profile::SEP, VersionSet::MODERN), (Profile::CHATGPT, VersionSet::LEGACY)]
        {
            let events = Events::with(config, profile).expect("entropy");
            let any = || raw(r#"{"type":"object"}"#);
            let build = Event::<Value, Value>::with_schemas("build", any(), any());
            let build =
                if versions == VersionSet::LEGACY { build } else { build.modes([DeliveryMode::Poll]) };
            let publisher = events.add(build).expect("a type");
            let served = Served::new(&events);
            let url = format!("http://{}/mcp", served.address);
            let client = run!(options(versions).connect_url(&url)).expect("a connection");
            let of_server = events_client!(&client);
            assert!(of_server.declared().is_some());
            let first = run!(of_server.poll(&PollEventsParams::new("build"))).expect("a poll");
            let cursor = first.cursor.and_then(|cursor| cursor.0).expect("a position");
            (0..7).for_each(|n| publish(&publisher, n, "x"));
            let options = soon().cursor(cursor);
            let mut follower = run!(of_server.follow_with("build", &json!({}), options)).expect("a follower");
            assert_eq!(follower.mode(), &DeliveryMode::Poll);
            for n in 0..7 {
                assert_eq!(news!(follower), format!("evt-{n}"));
            }
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(30));
                    publish(&publisher, 7, "x");
                });
                assert_eq!(news!(follower), "evt-7");
            });
            drop(follower);
            let unknown = run!(of_server.poll(&PollEventsParams::new("none"))).expect_err("no such type");
            assert_eq!(unknown.kind(), Some(EventsErrorKind::NotFound));
            let unknown = run!(of_server.follow("none", &json!({}))).expect_err("no such type");
            assert_eq!(unknown.to_string(), "the server has no event type `none`");
            run!(client.close()).expect("closed");
            served.stop();
        }
    });
}

// covers: EVT-020, EVT-052, EVT-060, EVT-153
#[test]
fn client_follows_on_a_byte_stream_and_ends_what_it_drops() {
    with_timeout(|| {
        let (events, publisher) = events();
        let of_server = events.clone();
        let (client, serving) = serve(move || router(&of_server), options(VersionSet::MODERN));
        let followed = events_client!(inner_client!(client));
        let mut follower = run!(followed.follow("build", &json!({}))).expect("a follower");
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                (0..3).for_each(|n| publish(&publisher, n, "x"));
            });
            assert_eq!([news!(follower), news!(follower), news!(follower)], ["evt-0", "evt-1", "evt-2"]);
        });
        // Other calls go on beside it.
        assert_eq!(run!(followed.list()).expect("types").len(), 1);
        drop(follower);
        client.ping().expect("an answer");
        await_streams(&events, 0);
        let mut ended = run!(followed.follow("build", &json!({}))).expect("a follower");
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                let reason = mcp_events::wire::EventsError::Forbidden("revoked".into());
                events.terminate(|_, _| Some(reason.clone()));
            });
            let end = next_event!(ended).expect("the connection is open");
            let Some(FollowEvent::Ended(FollowError::Server(error))) = end else { panic!("{end:?}") };
            assert_eq!(EventsErrorKind::of_code(error.code), Some(EventsErrorKind::Forbidden));
        });
        assert!(next_event!(ended).expect("the connection is open").is_none());
        drop(ended);
        // The end of the connection is an error, and no event.
        let mut left = run!(followed.follow("build", &json!({}))).expect("a follower");
        thread::scope(|scope| {
            scope.spawn(|| {
                await_streams(&events, 1);
                events.remove("build", &mcp_events::wire::EventsError::EventNotFound);
            });
            let end = next_event!(left).expect("the connection is open");
            assert!(matches!(end, Some(FollowEvent::Ended(FollowError::Server(_)))), "{end:?}");
        });
        drop(left);
        client.close().expect("closed");
        serving.join().expect("no panic").expect("no error");
    });
}

// covers: EVT-004, EVT-006
#[test]
fn client_sends_nothing_of_events_to_a_server_without_them() {
    with_timeout(|| {
        let (client, serving) = serve(|| Router::new("bare", "1"), options(VersionSet::ALL));
        let of_server = events_client!(inner_client!(client));
        assert_eq!(of_server.declared(), None);
        for error in [
            run!(of_server.list()).expect_err("no events"),
            run!(of_server.follow("build", &json!({}))).expect_err("no events"),
            run!(of_server.poll(&PollEventsParams::new("build"))).expect_err("no events"),
        ] {
            assert!(matches!(error, EventsError::NotDeclared), "{error}");
        }
        client.close().expect("closed");
        serving.join().expect("no panic").expect("no error");
    });
}

/// Certificate of `localhost`, its key, and the root that vouches for it.
pub(super) const CERTIFICATE: &[u8] = include_bytes!("../../core/events/tests/certificates/server.pem");
pub(super) const KEY: &[u8] = include_bytes!("../../core/events/tests/certificates/key.pem");
pub(super) const ROOT: &[u8] = include_bytes!("../../core/events/tests/certificates/root.pem");

/// Delivers to one URL of this machine.
fn deliverer(url: &str) -> Deliverer {
    let mut config = DeliveryConfig::default();
    config.addresses = config.addresses.origin(url).expect("a URL");
    let (clock, secret) = (Clock::start(), entropy::seed().expect("entropy"));
    let deliveries = Deliveries::new(config, Entropy::new(secret, entropy::nonce()), clock.anchor());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).expect("a certificate");
    Deliverer::start(deliveries, clock, Poster::new().tls(tls)).expect("a thread")
}

// covers: EVT-070, EVT-073, EVT-079, EVT-081, EVT-094, EVT-113, EVT-125, EVT-126, EVT-130
#[test]
fn webhook_of_a_client_is_proved_delivered_rotated_and_ended() {
    with_timeout(|| {
        let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
        let hooks = ReceiverServer::bind("127.0.0.1:0", receiver.clone()).expect("a port").path("/hooks");
        let hooks = hooks.tls(ServerTls::from_pem(CERTIFICATE, KEY).expect("a certificate"));
        let url = format!("https://localhost:{}/hooks", hooks.address().expect("a port").port());
        let (keep, kept) = mpsc::channel();
        let hooks = hooks.start(move |_, message| keep.send(message.clone()).is_ok()).expect("a thread");

        let events = Events::new().expect("entropy");
        events.webhooks(deliverer(&url));
        let any = || raw(r#"{"type":"object"}"#);
        let build = Event::<Value, Value>::with_schemas("build", any(), any());
        let publisher = events.add(build.modes([DeliveryMode::Webhook])).expect("a type");
        let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
        let served = Served::with(
            "127.0.0.1:0".into(),
            &events,
            Http::new().protected(protected),
            Some(Door::default()),
        );
        let http = HttpClient::new(&format!("http://{}/mcp", served.address)).expect("a URL");
        let http = http.credential(Credential::bearer("ann").expect("a token"));
        let client = run!(options(VersionSet::MODERN).connect_http(http)).expect("a connection");
        let of_server = events_client!(&client);
        let refused = run!(of_server.follow("build", &json!({}))).expect_err("it has webhooks alone");
        assert!(matches!(refused, EventsError::Follow(FollowError::NoMode)), "{refused}");

        let asked = WebhookOptions::new(&*url);
        let mut webhook = of_server.webhook("build", &json!({}), asked, &receiver).expect("room");
        let granted = run!(of_server.next_of_webhook(&mut webhook, &receiver)).expect("an answer");
        assert!(matches!(granted, Some(SubscriptionEvent::Granted { .. })), "{granted:?}");
        let mut arrived = |count| {
            let mut ids: Vec<String> = (0..count)
                .map(|_| match kept.recv_timeout(DEADLINE).expect("a delivery") {
                    Message::Event(event) => event.event_id,
                    other => panic!("{other:?}"),
                })
                .collect();
            // Deliveries may overtake each other (EVT-150).
            ids.sort_unstable();
            ids
        };
        (0..3).for_each(|n| publish(&publisher, n, "x"));
        assert_eq!(arrived(3), ["evt-0", "evt-1", "evt-2"]);
        of_server.rotate_webhook(&mut webhook, &receiver);
        let granted = run!(of_server.next_of_webhook(&mut webhook, &receiver)).expect("an answer");
        assert!(matches!(granted, Some(SubscriptionEvent::Granted { .. })), "{granted:?}");
        publish(&publisher, 3, "x");
        assert_eq!(arrived(1), ["evt-3"]);
        webhook.unsubscribe();
        let ended = run!(of_server.next_of_webhook(&mut webhook, &receiver)).expect("an answer");
        assert_eq!(ended, Some(SubscriptionEvent::Ended(None)));
        assert_eq!(run!(of_server.next_of_webhook(&mut webhook, &receiver)).expect("nothing"), None);
        assert_eq!(receiver.lock().expect("no panic").id(webhook.registration()), None);
        publish(&publisher, 4, "x");
        run!(client.close()).expect("closed");
        served.stop();
        drop(hooks);
        assert!(kept.try_recv().is_err(), "it was unsubscribed");
    });
}
