//! Deliveries to receivers over TLS on threads of this process.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use mcp_proto::http::Network;
use mcp_proto::{Entropy, RawJson};
use mcp_std::NetStream;
use mcp_std::io::{Duplex as _, Socket};
use mcp_std::poll::Interest;
use mcp_std::tls::ServerTls;

use super::*;
use crate::delivery::{Config, Deliveries, Event, Subscribe, Subscribed, SubscriptionHandle};
use crate::receiver;
use crate::webhook::{MAX_CHALLENGE_ANSWER, Secret, SubscriptionKey};
use crate::wire::{CallbackFailure, EventOccurrence, EventsError, Profile};

const ROOT: &[u8] = include_bytes!("../../tests/certificates/root.pem");
/// For `localhost` and the addresses of this machine.
pub(crate) const SERVER: &[u8] = include_bytes!("../../tests/certificates/server.pem");
/// For `*.other.example`.
const OTHER: &[u8] = include_bytes!("../../tests/certificates/other.pem");
const UNKNOWN: &[u8] = include_bytes!("../../tests/certificates/unknown.pem");
const EXPIRED: &[u8] = include_bytes!("../../tests/certificates/expired.pem");
pub(crate) const KEY: &[u8] = include_bytes!("../../tests/certificates/key.pem");

const SOON: Duration = Duration::from_secs(30);

/// A request that a receiver got.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The connection of a receiver, after the request.
pub(crate) struct Peer(NetStream);

impl Peer {
    /// Writes; returns whether the other end is there.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.0.wait(Interest::WRITE, Some(SOON)).is_err() || self.0.try_flush().is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        self.0.flush(SOON).is_ok()
    }

    /// Reads a head, and a body of the length that it names; `None` if they do not come.
    fn read(&mut self) -> Option<Request> {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(all[..end].to_vec()).unwrap();
                let length =
                    head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
                if all.len() >= end + 4 + length.unwrap_or(0) {
                    return Some(Request { head, body: all.split_off(end + 4) });
                }
            }
            match self.0.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => all.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.0.wait(Interest::READ, Some(SOON)).ok()?;
                }
                Err(_) => return None,
            }
        }
    }
}

/// A receiver that answers each connection by a function, on a thread for each.
pub(crate) struct TestReceiver {
    port: u16,
    connections: Arc<AtomicUsize>,
    pub(crate) requests: mpsc::Receiver<Request>,
}

impl TestReceiver {
    pub(crate) fn start(chain: &[u8], answer: impl Fn(&Request, &mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tls, answer) = (ServerTls::from_pem(chain, KEY).unwrap(), Arc::new(answer));
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, (sender, requests)) = (connections.clone(), mpsc::channel());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let stream = NetStream::accept_tls(&tls, Socket::tcp(stream).unwrap()).unwrap();
                let (answer, sender) = (answer.clone(), sender.clone());
                thread::spawn(move || {
                    let mut peer = Peer(stream);
                    let Some(request) = peer.read() else { return };
                    answer(&request, &mut peer);
                    let _ = sender.send(request);
                    peer.0.close();
                });
            }
        });
        Self { port, connections, requests }
    }

    /// Starts one that answers with these bytes.
    fn fixed(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(SERVER, move |_, peer| {
            peer.write(&answer);
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/hook?a=1", self.port)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn poster() -> Poster {
    Poster::new().tls(ClientTls::without_system_roots().root_pem(ROOT).unwrap())
}

/// A poster for which every name has these addresses, and the number of its lookups.
fn with_addresses(addresses: Vec<SocketAddr>) -> (Poster, Arc<AtomicUsize>) {
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = lookups.clone();
    let poster = poster().resolver(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(addresses.clone())
    });
    (poster, lookups)
}

pub(crate) fn config(url: &str) -> Config {
    let mut config = Config::default();
    config.addresses = config.addresses.origin(url).unwrap();
    config
}

pub(crate) fn machine(config: Config, clock: Clock) -> Deliveries {
    Deliveries::new(config, Entropy::new(entropy::seed().unwrap(), entropy::nonce()), clock.anchor())
}

pub(crate) fn secret() -> Secret {
    Secret::from_entropy([1; 32])
}

pub(crate) fn request(url: &str, arguments: &'static str) -> Subscribe {
    let arguments = RawJson::new(arguments).unwrap();
    Subscribe {
        key: SubscriptionKey::new("alice", url, "build.finished", &arguments).unwrap(),
        secret: secret(),
        ttl: None,
        cursor: Some("c-0".into()),
        truncated: false,
        profile: Profile::SEP,
        scopes: String::new(),
    }
}

pub(crate) fn event(n: u64) -> EventOccurrence {
    let data = RawJson::new(format!(r#"{{"build":{n}}}"#)).unwrap();
    EventOccurrence::new(format!("evt-{n}"), "build.finished", "2026-11-25T10:00:00Z", data)
        .cursor(Some(format!("c-{n}")))
}

/// A machine with a delivery to make, without a challenge before.
fn delivery(config: Config, url: &str) -> (Deliveries, Delivery, Clock) {
    let clock = Clock::start();
    let mut machine = machine(config.verified_origin(url).unwrap(), clock);
    let Ok(Subscribed::Granted(grant)) = machine.subscribe(clock.now(), request(url, "{}")) else {
        panic!("a grant")
    };
    machine.publish(clock.now(), grant.subscription, &event(1)).unwrap();
    let delivery = machine.poll_transmit(clock.now()).unwrap();
    (machine, delivery, clock)
}

/// A machine with a challenge to send.
fn challenge(config: Config, url: &str) -> (Deliveries, Delivery, Clock) {
    let clock = Clock::start();
    let mut machine = machine(config, clock);
    let Ok(Subscribed::Verifying(_)) = machine.subscribe(clock.now(), request(url, "{}")) else {
        panic!("a challenge")
    };
    let delivery = machine.poll_transmit(clock.now()).unwrap();
    (machine, delivery, clock)
}

/// Posts one delivery, and returns what the machine is told.
fn post(poster: &Poster, config: Config, url: &str) -> Posted {
    let addresses = config.addresses.clone();
    let (_, delivery, _) = delivery(config, url);
    poster.post(&delivery, &addresses, SOON)
}

fn failure(posted: &Posted) -> Option<Failure> {
    match posted.outcome() {
        Outcome::Failed(failure) => Some(failure),
        Outcome::Answer { .. } => None,
    }
}

fn status(posted: &Posted) -> Option<u16> {
    match posted.outcome() {
        Outcome::Failed(_) => None,
        Outcome::Answer { status, .. } => Some(status),
    }
}

fn refusal_of(event: Option<Event>) -> EventsError {
    let Some(Event::Refused { error, .. }) = event else { panic!("{event:?}") };
    error
}

// One request.

// covers: EVT-090, EVT-111
#[test]
fn delivery_is_posted_by_tls_to_the_url_of_the_subscriber() {
    let receiver = TestReceiver::fixed(answer("204 No Content", ""));
    let url = receiver.url();
    assert_eq!(status(&post(&poster(), config(&url), &url)), Some(204));
    let Request { head, body } = receiver.requests.recv().unwrap();
    let begin = format!(
        "POST /hook?a=1 HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n",
        receiver.port
    );
    assert!(head.starts_with(&begin), "{head}");
    for name in
        ["webhook-id: evt-1", "webhook-timestamp: ", "webhook-signature: v1,", "X-MCP-Subscription-Id: "]
    {
        assert_eq!(head.lines().filter(|line| line.starts_with(name)).count(), 1, "{head}");
    }
    assert!(body.starts_with(br#"{"eventId":"evt-1""#));
}

// covers: EVT-096, EVT-101, EVT-102
#[test]
fn statuses_and_seconds_of_retry_after_are_told() {
    for (fields, expected) in [
        ("", None),
        ("Retry-After: 7\r\n", Some(7)),
        ("retry-after: 0\r\n", Some(0)),
        ("Retry-After: +7\r\n", None),
        ("Retry-After: Wed, 25 Nov 2026 10:00:00 GMT\r\n", None),
        ("Retry-After: 7\r\nRetry-After: 8\r\n", None),
    ] {
        let receiver = TestReceiver::fixed(format!("HTTP/1.1 503 Busy\r\n{fields}Content-Length: 0\r\n\r\n"));
        let posted = post(&poster(), config(&receiver.url()), &receiver.url());
        let Outcome::Answer { status: 503, retry_after, .. } = posted.outcome() else { panic!("{fields}") };
        assert_eq!(retry_after, expected.map(Duration::from_secs), "{fields}");
    }
    for line in ["200 OK", "400 Bad Request", "410 Gone", "413 Content Too Large", "500 Oops"] {
        let receiver = TestReceiver::fixed(answer(line, "secret of the endpoint"));
        let posted = post(&poster(), config(&receiver.url()), &receiver.url());
        assert_eq!(status(&posted).map(|status| format!("{status}")).as_deref(), line.split(' ').next());
        assert!(!format!("{posted:?}").contains("secret"));
    }
}

// covers: EVT-112
#[test]
fn redirects_are_statuses_and_cause_no_second_request() {
    let elsewhere = TestReceiver::fixed(answer("200 OK", ""));
    for status_line in ["301 A", "302 B", "303 C", "307 D", "308 E"] {
        let location =
            format!("HTTP/1.1 {status_line}\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", elsewhere.url());
        let receiver = TestReceiver::fixed(location);
        let mut config = config(&receiver.url());
        config.addresses = config.addresses.origin(&elsewhere.url()).unwrap();
        let expected = status_line[..3].parse().ok();
        assert_eq!(status(&post(&poster(), config.clone(), &receiver.url())), expected);
        // The same for challenges.
        let (mut machine, delivery, clock) = challenge(config.clone(), &receiver.url());
        let posted = poster().post(&delivery, &config.addresses, SOON);
        assert_eq!(status(&posted), expected);
        machine.handle_answer(clock.now(), posted.id, &posted.outcome());
        let error = refusal_of(machine.poll_event());
        assert_eq!(error, EventsError::CallbackEndpoint(CallbackFailure::ChallengeFailed));
        assert_eq!(receiver.connections(), 2);
    }
    assert_eq!(elsewhere.connections(), 0);
}

// covers: EVT-111
#[test]
fn host_is_resolved_once_and_every_address_is_checked() {
    let receiver = TestReceiver::start(OTHER, |_, peer| {
        peer.write(answer("200 OK", "").as_bytes());
    });
    let here = SocketAddr::from(([127, 0, 0, 1], receiver.port));
    let url = "https://hooks.other.example/";
    let public = SocketAddr::from(([8, 8, 8, 8], 443));
    for addresses in [
        vec![here],
        vec![public, here],
        vec![here, public],
        vec![public, SocketAddr::from((core::net::Ipv6Addr::LOCALHOST, 443))],
        vec!["[::ffff:127.0.0.1]:443".parse().unwrap()],
        vec!["169.254.169.254:443".parse().unwrap()],
    ] {
        let (poster, lookups) = with_addresses(addresses);
        assert_eq!(failure(&post(&poster, Config::default(), url)), Some(Failure::Blocked));
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
    }
    assert_eq!(receiver.connections(), 0);
    let (poster, _) = with_addresses(Vec::new());
    assert_eq!(failure(&post(&poster, Config::default(), url)), Some(Failure::Connection));
    // The same host with a policy that allows the network.
    let mut config = Config::default();
    config.addresses = config.addresses.network(Network::Loopback);
    let (poster, lookups) = with_addresses(vec![here]);
    assert_eq!(status(&post(&poster, config, url)), Some(200));
    assert_eq!((lookups.load(Ordering::SeqCst), receiver.connections()), (1, 1));
    // The name is that of the URL, also for TLS.
    assert!(receiver.requests.recv().unwrap().head.contains("\r\nHost: hooks.other.example\r\n"));
}

// covers: EVT-111, EVT-116
#[test]
fn name_that_moves_to_a_private_address_after_its_proof_is_refused() {
    let receiver = TestReceiver::start(OTHER, echo);
    let (port, lookups) = (receiver.port, AtomicUsize::new(0));
    let (sender, reasons) = mpsc::channel();
    let sender = Mutex::new(sender);
    let poster = poster()
        .resolver(move |_, _| {
            let is_first = lookups.fetch_add(1, Ordering::SeqCst) == 0;
            let address = if is_first { [127, 0, 0, 1] } else { [10, 0, 0, 1] };
            Ok(vec![SocketAddr::from((address, port))])
        })
        .on_failure(move |origin, why| sender.lock().unwrap().send(format!("{origin} {why}")).unwrap());
    let mut config = Config::default();
    config.addresses = config.addresses.network(Network::Loopback);
    let (deliverer, subscription) = verified(config, poster, "https://hooks.other.example/");
    deliverer.with(|deliveries, now| deliveries.publish(now, subscription, &event(1))).unwrap();
    let why = reasons.recv_timeout(SOON).unwrap();
    assert_eq!(
        why,
        "https://hooks.other.example the host has an address that callbacks must not go to (Private)"
    );
    let last_error = last_error(&deliverer, "https://hooks.other.example/");
    assert_eq!(last_error, CallbackFailure::ConnectionRefused);
    assert_eq!(receiver.connections(), 1);
}

#[test]
fn later_address_is_tried_after_one_that_refuses() {
    let receiver = TestReceiver::start(OTHER, |_, peer| {
        peer.write(answer("200 OK", "").as_bytes());
    });
    // Nobody listens at the first one: the receiver is bound to one address of the loopback network.
    let both = [[127, 0, 0, 9], [127, 0, 0, 1]].map(|a| SocketAddr::from((a, receiver.port)));
    let mut config = Config::default();
    config.addresses = config.addresses.network(Network::Loopback);
    let (poster, _) = with_addresses(both.into());
    assert_eq!(status(&post(&poster, config, "https://hooks.other.example/")), Some(200));
}

#[test]
fn failures_are_told_apart() {
    // Nobody can listen at a port that a connection has.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let refused = format!("https://localhost:{}/", near.local_addr().unwrap().port());
    assert_eq!(failure(&post(&poster(), config(&refused), &refused)), Some(Failure::Connection));

    for chain in [UNKNOWN, EXPIRED, OTHER] {
        let receiver = TestReceiver::start(chain, |_, _| ());
        let posted = post(&poster(), config(&receiver.url()), &receiver.url());
        assert_eq!(failure(&posted), Some(Failure::Tls));
        assert!(receiver.requests.try_recv().is_err());
    }
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", plain.local_addr().unwrap().port());
    thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut stream in plain.incoming().flatten() {
            let _ = stream.read(&mut [0; 16]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    assert_eq!(failure(&post(&poster(), config(&url), &url)), Some(Failure::Tls));

    // It closes before an answer, or within its head, or answers with something else.
    for bytes in ["", "HTTP/1.1 200 OK\r\nX: ", "SSH-2.0-x\r\n\r\n"] {
        let receiver = TestReceiver::fixed(bytes);
        let posted = post(&poster(), config(&receiver.url()), &receiver.url());
        assert_eq!(failure(&posted), Some(Failure::Connection), "{bytes:?}");
    }
}

// covers: EVT-118
#[test]
fn deadline_bounds_every_step_and_their_sum() {
    let drip = |begin: &'static str, piece: &'static [u8]| {
        TestReceiver::start(SERVER, move |_, peer| {
            let mut is_open = peer.write(begin.as_bytes());
            while is_open {
                thread::sleep(Duration::from_millis(20));
                is_open = peer.write(piece);
            }
        })
    };
    let silent = TestReceiver::start(SERVER, |_, _| thread::sleep(SOON));
    let heads = [drip("HTTP/1.1 200 OK\r\n", b"X: y\r\n"), drip("HTTP/1.1 200 OK\r\nX: ", b"y"), silent];
    // It accepts, and TLS never begins.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_url = format!("https://localhost:{}/", deaf.local_addr().unwrap().port());
    let hanging = poster().resolver(|_, _| {
        thread::sleep(SOON);
        Ok(Vec::new())
    });
    let begun = Instant::now();
    let urls = heads.iter().map(TestReceiver::url).chain([deaf_url, "https://slow.example/".into()]);
    for url in urls {
        let config = config(&url);
        let (_, delivery, _) = delivery(config.clone(), &url);
        let posted = hanging.post(&delivery, &config.addresses, Duration::from_millis(300));
        assert_eq!(failure(&posted), Some(Failure::Timeout), "{url}");
    }
    // A body counts for challenges alone.
    let slow = drip("HTTP/1.1 200 OK\r\n\r\n", b" ");
    let config = config(&slow.url());
    let (_, delivery, _) = challenge(config.clone(), &slow.url());
    let posted = poster().post(&delivery, &config.addresses, Duration::from_millis(300));
    assert_eq!(failure(&posted), Some(Failure::Timeout));
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
}

// covers: EVT-114
#[test]
fn no_more_of_a_body_is_read_than_the_machine_asked_for() {
    let endless = |head: &'static str| {
        TestReceiver::start(SERVER, move |_, peer| {
            let mut is_open = peer.write(head.as_bytes());
            while is_open {
                is_open = peer.write(&[b' '; 1 << 16]);
            }
        })
    };
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let receiver = endless(head);
        // The status of a delivery is all that counts.
        let posted = post(&poster(), config(&receiver.url()), &receiver.url());
        assert!(matches!(posted.outcome(), Outcome::Answer { status: 200, body: b"", .. }), "{head}");
        let config = config(&receiver.url());
        let (mut machine, delivery, clock) = challenge(config.clone(), &receiver.url());
        let posted = poster().post(&delivery, &config.addresses, SOON);
        let Outcome::Answer { status: 200, body, .. } = posted.outcome() else { panic!("{head}") };
        assert_eq!(body.len(), MAX_CHALLENGE_ANSWER + 1);
        machine.handle_answer(clock.now(), posted.id, &posted.outcome());
        let error = refusal_of(machine.poll_event());
        assert_eq!(error, EventsError::CallbackEndpoint(CallbackFailure::ChallengeFailed));
    }
}

#[test]
fn answer_counts_although_its_body_breaks_off() {
    let receiver = TestReceiver::fixed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    assert_eq!(status(&post(&poster(), config(&receiver.url()), &receiver.url())), Some(200));
    // A challenge needs it whole.
    let config = config(&receiver.url());
    let (_, delivery, _) = challenge(config.clone(), &receiver.url());
    assert_eq!(failure(&poster().post(&delivery, &config.addresses, SOON)), Some(Failure::Connection));
}

// The thread.

/// Answers a challenge with its echo, and everything else with 204.
fn echo(request: &Request, peer: &mut Peer) {
    let body = core::str::from_utf8(&request.body).unwrap();
    match body.strip_prefix(r#"{"type":"verification","#) {
        Some(rest) => peer.write(answer("200 OK", &format!("{{{rest}")).as_bytes()),
        None => peer.write(answer("204 No Content", "").as_bytes()),
    };
}

fn start(config: Config, poster: Poster) -> Deliverer {
    let clock = Clock::start();
    Deliverer::start(machine(config, clock), clock, poster).unwrap()
}

/// Starts a thread, and subscribes by a challenge.
fn verified(config: Config, poster: Poster, url: &str) -> (Deliverer, SubscriptionHandle) {
    let deliverer = start(config, poster);
    let subscribed = deliverer.with(|deliveries, now| deliveries.subscribe(now, request(url, "{}")));
    let Ok(Subscribed::Verifying(expected)) = subscribed else { panic!("{subscribed:?}") };
    match deliverer.wait_event(SOON) {
        Some(Event::Verified { ticket, grant }) if ticket == expected => (deliverer, grant.subscription),
        other => panic!("{other:?}"),
    }
}

fn refresh(deliverer: &Deliverer, url: &str, arguments: &'static str) -> crate::delivery::Grant {
    match deliverer.with(|deliveries, now| deliveries.subscribe(now, request(url, arguments))) {
        Ok(Subscribed::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

/// Waits until a delivery has failed, and returns what the subscriber is told.
fn last_error(deliverer: &Deliverer, url: &str) -> CallbackFailure {
    let begun = Instant::now();
    loop {
        let status = refresh(deliverer, url, "{}").status.unwrap();
        if let Some(failure) = status.last_error.and_then(|error| error.0) {
            return failure;
        }
        assert!(begun.elapsed() < SOON);
        thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until(deliverer: &Deliverer, holds: impl Fn(&Deliveries) -> bool) {
    let begun = Instant::now();
    while !deliverer.with(|deliveries, _| holds(deliveries)) {
        assert!(begun.elapsed() < SOON, "{:?}", deliverer.with(|deliveries, _| format!("{deliveries:?}")));
        thread::sleep(Duration::from_millis(5));
    }
}

// covers: EVT-113, EVT-114, EVT-120, EVT-126
#[test]
fn challenge_and_events_arrive_at_our_receiver() {
    let mut ours = receiver::Receiver::new(receiver::Limits::default());
    ours.register(secret()).unwrap();
    let (ours, (sender, events)) = (Mutex::new(ours), mpsc::channel());
    let sender = Mutex::new(sender);
    let receiver = TestReceiver::start(SERVER, move |request, peer| {
        let mut lines = request.head.lines();
        let method = lines.next().unwrap().split(' ').next().unwrap();
        let fields: Vec<_> =
            lines.map(|line| line.split_once(": ").unwrap()).map(|(n, v)| (n, v.as_bytes())).collect();
        let request = receiver::Request { method, fields: &fields, body: &request.body };
        let unix_secs = Clock::start().anchor().unix_secs(mcp_proto::Instant::ZERO);
        let mut ours = ours.lock().unwrap();
        let ours = match ours.receive(&request, unix_secs) {
            receiver::Outcome::Challenge { answer, .. } => answer,
            receiver::Outcome::Event { event, receipt, .. } => {
                sender.lock().unwrap().send(event).unwrap();
                ours.confirm(receipt, true)
            }
            other => panic!("{other:?}"),
        };
        peer.write(answer(&format!("{} X", ours.status), &ours.body).as_bytes());
    });
    let url = receiver.url();
    let (deliverer, subscription) = verified(config(&url), poster(), &url);
    for n in 1..=3 {
        deliverer.with(|deliveries, now| deliveries.publish(now, subscription, &event(n))).unwrap();
    }
    let mut ids: Vec<String> = (0..3).map(|_| events.recv_timeout(SOON).unwrap().event_id).collect();
    ids.sort();
    assert_eq!(ids, ["evt-1", "evt-2", "evt-3"]);
    wait_until(&deliverer, |deliveries| deliveries.stats().acknowledged == 3);
    assert_eq!(refresh(&deliverer, &url, "{}").cursor.as_deref(), Some("c-3"));
    assert!(deliverer.finish(SOON));
}

// covers: EVT-113, EVT-115
#[test]
fn failed_challenge_refuses_the_call_with_a_category() {
    for (bytes, expected) in [
        (answer("200 OK", r#"{"challenge":"marker"}"#), CallbackFailure::ChallengeFailed),
        (answer("404 marker", "marker"), CallbackFailure::ChallengeFailed),
        ("marker".into(), CallbackFailure::ConnectionRefused),
    ] {
        let receiver = TestReceiver::fixed(bytes);
        let deliverer = start(config(&receiver.url()), poster());
        let subscribed =
            deliverer.with(|deliveries, now| deliveries.subscribe(now, request(&receiver.url(), "{}")));
        assert!(matches!(subscribed, Ok(Subscribed::Verifying(_))));
        let error = refusal_of(deliverer.wait_event(SOON));
        assert!(!format!("{error:?}").contains("marker"));
        assert_eq!(error, EventsError::CallbackEndpoint(expected));
        assert!(deliverer.with(|deliveries, _| deliveries.is_empty()));
    }
}

// covers: EVT-096, EVT-097
#[test]
fn attempts_are_repeated_unless_the_status_is_final() {
    let tries = AtomicUsize::new(0);
    let flaky = TestReceiver::start(SERVER, move |_, peer| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => {}
        1 => drop(peer.write(answer("500 X", "").as_bytes())),
        _ => drop(peer.write(answer("200 OK", "").as_bytes())),
    });
    let gone = TestReceiver::fixed(answer("410 Gone", ""));
    for (receiver, connections, acknowledged) in [(&flaky, 3, 1), (&gone, 1, 0)] {
        let mut config = config(&receiver.url()).verified_origin(&receiver.url()).unwrap();
        config.backoff = vec![Duration::from_millis(10)];
        let deliverer = start(config, poster());
        let subscription = refresh(&deliverer, &receiver.url(), "{}").subscription;
        deliverer.with(|deliveries, now| deliveries.publish(now, subscription, &event(1))).unwrap();
        wait_until(&deliverer, |deliveries| {
            let stats = deliveries.stats();
            (stats.acknowledged, stats.abandoned) == (acknowledged, 1 - acknowledged)
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(receiver.connections(), connections);
    }
}

#[test]
fn slow_receiver_holds_up_no_other() {
    let (slow_sender, slow_waits) = mpsc::channel::<()>();
    let slow_waits = Mutex::new(slow_waits);
    let slow = TestReceiver::start(SERVER, move |_, _| {
        let _ = slow_waits.lock().unwrap().recv_timeout(SOON);
    });
    // Both requests are there before either is answered.
    let meeting = std::sync::Barrier::new(2);
    let fast = TestReceiver::start(SERVER, move |request, peer| {
        meeting.wait();
        echo(request, peer);
    });
    let mut config = config(&slow.url()).verified_origin(&slow.url()).unwrap();
    config.addresses = config.addresses.origin(&fast.url()).unwrap();
    let mut config = config.verified_origin(&fast.url()).unwrap();
    config.attempt_timeout = Duration::from_secs(4);
    config.attempts = 1;
    let deliverer = start(config, poster());
    let of_slow = refresh(&deliverer, &slow.url(), "{}").subscription;
    let [one, two] = [r#"{"a":1}"#, r#"{"a":2}"#]
        .map(|arguments| refresh(&deliverer, &fast.url(), arguments).subscription);
    deliverer.with(|deliveries, now| {
        for n in 1..=4 {
            deliveries.publish(now, of_slow, &event(n)).unwrap();
        }
        for subscription in [one, two] {
            deliveries.publish(now, subscription, &event(1)).unwrap();
        }
    });
    wait_until(&deliverer, |deliveries| deliveries.stats().acknowledged == 2);
    assert_eq!(deliverer.with(|deliveries, _| deliveries.stats().abandoned), 0);
    // The deadline of the slow ones is found without an outcome.
    wait_until(&deliverer, |deliveries| deliveries.stats().abandoned == 4);
    assert_eq!(last_error(&deliverer, &slow.url()), CallbackFailure::Timeout);
    drop(slow_sender);
}

#[test]
fn events_wake_and_the_thread_ends_by_drop() {
    const fn is_shared<T: Send + Sync>() {}
    const { is_shared::<Deliverer>() };
    struct Count(AtomicUsize);
    impl alloc::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let receiver = TestReceiver::start(SERVER, echo);
    let (poster, owned) = {
        let owned = Arc::new(());
        let kept = owned.clone();
        (poster().on_failure(move |_, _| drop(kept.clone())), owned)
    };
    let deliverer = start(config(&receiver.url()), poster);
    deliverer.register(&count.clone().into());
    assert!(deliverer.wait_event(Duration::ZERO).is_none());
    deliverer.with(|deliveries, now| deliveries.subscribe(now, request(&receiver.url(), "{}"))).unwrap();
    let begun = Instant::now();
    while count.0.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < SOON);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(deliverer.poll_event(), Some(Event::Verified { .. })));
    assert!(deliverer.poll_event().is_none());
    drop(deliverer);
    while Arc::strong_count(&owned) > 1 {
        assert!(begun.elapsed() < SOON);
        thread::sleep(Duration::from_millis(5));
    }
}

/// In a process of its own, whose stderr is read.
#[test]
fn failures_are_told_on_stderr_by_default_without_path_and_query() {
    if let Ok(url) = std::env::var("MCP_POSTS") {
        assert_eq!(failure(&post(&Poster::new(), config(&url), &url)), Some(Failure::Connection));
        return;
    }
    // The local port of an open connection: it refuses connections, and no other program can listen there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let origin = format!("https://localhost:{}", taken.local_addr().unwrap().port());
    let name = "post::tests::failures_are_told_on_stderr_by_default_without_path_and_query";
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    own.args(["--exact", name, "--nocapture"]).env("MCP_POSTS", format!("{origin}/hook/s3cret?key=s3cret"));
    let done = own.output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && stderr.contains(&format!("webhook at {origin}: ")), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
}
