//! Suite: deliveries of a server, as the scenario `events-webhook-delivery` of the official suite demands, over sockets and TLS.
//!
//! A receiver made here answers challenges and deliveries in each way, by the path of the URL. Times are shorter than those of
//! the suite.
//!
//! `crate::adapter` names the adapter under test.

#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;
use std::time::{Instant, SystemTime};

use mcp_events::client::Error as EventsError;
use mcp_events::delivery::{Config as DeliveryConfig, Deliveries};
use mcp_events::post::{ClientTls, Clock, Deliverer, Poster, entropy};
use mcp_events::receive::ServerTls;
use mcp_events::server::{Event, Events};
use mcp_events::source::SourceConfig;
use mcp_events::webhook::{Secret, SignedHead, Verifier};
use mcp_events::wire::{DeliveryMode, EventsErrorKind, Profile, SubscribeEventsParams, WebhookDelivery};
use mcp_proto::client::Config as ClientConfig;
use mcp_proto::http::client::{Config as HttpClient, Credential};
use mcp_proto::http::server::{Config as Http, Protected};
use mcp_proto::{CallError, Entropy, RpcError, VersionSet};
use mcp_std::NetStream;
use mcp_std::io::{Duplex as _, Interest, Socket};
use serde_json::{Value, json};

use super::events::{CERTIFICATE, Door, KEY, ROOT, Served, publish, raw};
use super::events_scenarios::{field, read_request};
use crate::adapter::{Client, events_client, run};
use crate::support::{DEADLINE, with_timeout};

/// Answer of the receiver to a challenge that it does not echo. No error may tell it.
const WRONG_ECHO: &str = "not-the-nonce";
/// Time before another attempt; varied by a quarter it is still longer than a second.
const BACKOFF: Duration = Duration::from_millis(1_500);
const ATTEMPTS: u32 = 3;
/// Path behind a redirect. Its origin is allowed, so nothing but the rule against redirects keeps the deliverer away.
const ELSEWHERE: &str = "/elsewhere";
const PATHS: [&str; 5] = ["/ok", "/moved", "/busy", "/gone", "/large"];

/// A request that the receiver got.
#[derive(Clone)]
struct Delivery {
    at: Instant,
    path: String,
    head: String,
    body: Vec<u8>,
}

impl Delivery {
    fn field(&self, name: &str) -> &str {
        field(&self.head, name).unwrap_or_else(|| panic!("no {name}: {}", self.head))
    }

    /// Returns the message; `null` for a body that is none, as that of a redirect which was followed.
    fn body(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A receiver by HTTPS.
struct Hooks {
    base: String,
    got: Arc<Mutex<Vec<Delivery>>>,
}

impl Hooks {
    /// Starts a receiver, which redirects from `/moved` to a path that is allowed as well.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("https://localhost:{}", listener.local_addr().expect("a port").port());
        let tls = ServerTls::from_pem(CERTIFICATE, KEY).expect("a certificate");
        let got = Arc::<Mutex<Vec<Delivery>>>::default();
        let (kept, elsewhere) = (got.clone(), format!("{base}{ELSEWHERE}"));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, kept, elsewhere) = (tls.clone(), kept.clone(), elsewhere.clone());
                thread::spawn(move || {
                    let stream = Socket::tcp(stream).and_then(|socket| NetStream::accept_tls(&tls, socket));
                    answer(stream.expect("TLS"), &kept, &elsewhere)
                });
            }
        });
        Self { base, got }
    }

    /// Returns the messages that arrived at a path, beside challenges.
    fn messages(&self, path: &str) -> Vec<Delivery> {
        let got = self.got.lock().expect("no panic");
        let is_it = |delivery: &&Delivery| delivery.path == path && delivery.body()["type"] != "verification";
        got.iter().filter(is_it).cloned().collect()
    }

    /// Waits until `holds`.
    fn wait(&self, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < DEADLINE, "{:?}", PATHS.map(|path| self.messages(path).len()));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Answers one request, by its path.
fn answer(mut stream: NetStream, kept: &Mutex<Vec<Delivery>>, elsewhere: &str) {
    let request = read_request(|buffer| {
        loop {
            match stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stream.wait(Interest::READ, Some(DEADLINE)).ok()?;
                }
                read => return read.ok(),
            }
        }
    });
    let Some((head, body)) = request else { return };
    let path = head.split(' ').nth(1).expect("a target").to_owned();
    let delivery = Delivery { at: Instant::now(), path: path.clone(), head, body };
    let message = delivery.body();
    let before = {
        let mut kept = kept.lock().expect("no panic");
        let is_like = |other: &&Delivery| other.path == path && other.body() == message;
        let before = kept.iter().filter(is_like).count();
        kept.push(delivery);
        before
    };
    let (status, field, body) = match (message["type"].as_str(), &*path) {
        (Some("verification"), "/wrong") => {
            (200, String::new(), json!({"challenge": WRONG_ECHO}).to_string())
        }
        (Some("verification"), _) => {
            (200, String::new(), json!({"challenge": message["challenge"]}).to_string())
        }
        (_, "/moved") => (302, format!("Location: {elsewhere}\r\n"), String::new()),
        (_, "/busy") if before < 2 => (503, String::new(), String::new()),
        (_, "/gone") => (410, String::new(), String::new()),
        (_, "/large") => (413, String::new(), String::new()),
        _ => (200, String::new(), String::new()),
    };
    let text = format!("HTTP/1.1 {status} X\r\n{field}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                stream.wait(Interest::WRITE, Some(DEADLINE)).expect("a stream");
            }
            Err(error) => panic!("{error}"),
        }
    }
    stream.flush(DEADLINE).expect("room");
    stream.close();
}

fn deliverer(base: &str) -> Deliverer {
    let mut config = DeliveryConfig::default();
    config.addresses = config.addresses.origin(base).expect("a URL");
    (config.backoff, config.attempts) = (vec![BACKOFF], ATTEMPTS);
    let (clock, secret) = (Clock::start(), entropy::seed().expect("entropy"));
    let deliveries = Deliveries::new(config, Entropy::new(secret, entropy::nonce()), clock.anchor());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).expect("a certificate");
    Deliverer::start(deliveries, clock, Poster::new().tls(tls)).expect("a thread")
}

fn refusal(error: EventsError) -> RpcError {
    match error {
        EventsError::Client(mcp_runtime::Error::Call(CallError::Rpc(error))) => error,
        other => panic!("{other}"),
    }
}

/// Checks what every request to the receiver has to have.
fn check(delivery: &Delivery, secret: &Secret, ids: &BTreeMap<String, String>) {
    assert!(delivery.head.starts_with("POST "), "{}", delivery.head);
    assert_eq!(delivery.field("Content-Type"), "application/json");
    assert!(delivery.body.len() <= 256 << 10);
    let [id, timestamp, signature] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| delivery.field(name));
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let verified =
        Verifier::new(secret.clone()).verify(&SignedHead { id, timestamp, signature }, &delivery.body, unix);
    assert_eq!(verified, Ok(()), "{}", delivery.head);
    if let Some(expected) = ids.get(&delivery.path) {
        assert_eq!(delivery.field("X-MCP-Subscription-Id"), expected);
    }
    let message = delivery.body();
    match message["type"].as_str() {
        Some(kind) => assert!(id.starts_with(&format!("msg_{kind}_")), "{id}"),
        None => assert_eq!(message["eventId"], id),
    }
}

fn deliver(profile: Profile) {
    // It is connected to by nobody: the server must refuse it as a callback.
    let forbidden = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = forbidden.local_addr().expect("a port").port();
    let hooks = Hooks::start();
    let events = Events::with(SourceConfig::default(), profile).expect("entropy");
    events.webhooks(deliverer(&hooks.base));
    let any = || raw(r#"{"type":"object"}"#);
    let build = Event::<Value, Value>::with_schemas("build", any(), any()).modes([DeliveryMode::Webhook]);
    let publisher = events.add(build).expect("a type");
    let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
    let served =
        Served::with("127.0.0.1:0".into(), &events, Http::new().protected(protected), Some(Door::default()));
    let http = HttpClient::new(&format!("http://{}/mcp", served.address)).expect("a URL");
    let http = http.credential(Credential::bearer("ann").expect("a token"));
    let config = ClientConfig::new("conformance", "1").versions(VersionSet::MODERN);
    let client = run!(Client::options(config).connect_http(http)).expect("a connection");
    let of_server = events_client!(&client);
    let secret = Secret::from_entropy([3; 32]);
    macro_rules! subscribe {
        ($url:expr) => {{
            let delivery = WebhookDelivery::new($url, secret.clone()).mode(DeliveryMode::Webhook);
            run!(of_server.subscribe(&SubscribeEventsParams::new("build", delivery)))
        }};
    }

    for scheme in ["https", "http"] {
        let refused = subscribe!(format!("{scheme}://127.0.0.1:{port}/")).expect_err("a forbidden address");
        assert_eq!(refusal(refused).code, -32_602);
    }
    let refused = refusal(subscribe!(format!("{}/wrong", hooks.base)).expect_err("a wrong echo"));
    assert_eq!(refused.code, EventsErrorKind::CallbackEndpoint.code(profile.codes));
    let reason = refused.data.as_ref().and_then(|data| data.member("reason")?.string());
    assert_eq!(reason.as_deref(), Some("challenge_failed"));
    assert!(!format!("{refused:?}").contains(WRONG_ECHO));
    let mut ids = BTreeMap::new();
    for path in PATHS {
        let granted = subscribe!(format!("{}{path}", hooks.base)).expect("a grant");
        ids.insert(path.to_owned(), granted.id);
    }
    publish(&publisher, 1, "x");
    let attempts = [1, 3, 3, 1, 1];
    let count = |hooks: &Hooks| PATHS.map(|path| hooks.messages(path).len());
    hooks.wait(|hooks| count(hooks) == attempts);
    for path in ["/moved", "/busy"] {
        for pair in hooks.messages(path).windows(2) {
            assert!(pair[1].at - pair[0].at >= Duration::from_secs(1), "{path}");
            assert_ne!(pair[0].field("webhook-timestamp"), pair[1].field("webhook-timestamp"));
            assert_ne!(pair[0].field("webhook-signature"), pair[1].field("webhook-signature"));
            assert_eq!(pair[0].field("webhook-id"), pair[1].field("webhook-id"));
        }
    }
    publisher.report_gap().expect("a type");
    let controls = |hooks: &Hooks, kind: &str| {
        hooks.messages("/ok").into_iter().map(|delivery| delivery.body()).find(|body| body["type"] == kind)
    };
    if profile.has_control_envelopes {
        hooks.wait(|hooks| controls(hooks, "gap").is_some());
        assert!(controls(&hooks, "gap").is_some_and(|gap| gap["cursor"].is_string()));
    }
    let revoked = mcp_events::wire::EventsError::Forbidden("revoked".into());
    assert_eq!(events.terminate(|_, _| Some(revoked.clone())), PATHS.len());
    if profile.has_control_envelopes {
        hooks.wait(|hooks| controls(hooks, "terminated").is_some());
        let code = EventsErrorKind::Forbidden.code(profile.codes);
        assert!(controls(&hooks, "terminated").is_some_and(|end| end["error"]["code"] == code));
    } else {
        assert!(events.finish(DEADLINE), "nothing is left to deliver");
        assert_eq!(count(&hooks), attempts, "no control envelopes");
    }
    run!(client.close()).expect("closed");
    served.stop();
    let all = hooks.got.lock().expect("no panic").clone();
    assert!(all.iter().all(|delivery| delivery.path != ELSEWHERE), "a redirect was followed");
    assert_eq!(
        all.iter().filter(|delivery| delivery.body()["type"] == "verification").count(),
        1 + PATHS.len()
    );
    all.iter().for_each(|delivery| check(delivery, &secret, &ids));
    forbidden.set_nonblocking(true).expect("a socket");
    assert!(
        forbidden.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        "somebody connected"
    );
}

/// `events-webhook-delivery`
// covers: EVT-071, EVT-090, EVT-091, EVT-092, EVT-093, EVT-095, EVT-096, EVT-097, EVT-101, EVT-103, EVT-104, EVT-110, EVT-112, EVT-113
// covers: EVT-114, EVT-115
#[test]
fn scenario_deliveries_are_proved_signed_and_repeated() {
    with_timeout(|| {
        let servers = [Profile::SEP, Profile::CHATGPT].map(|profile| thread::spawn(move || deliver(profile)));
        servers.into_iter().for_each(|server| server.join().expect("no panic"));
    });
}
