//! Events by `mcp-tower` in axum, on real sockets: polls, streams and webhooks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mcp_blocking::Client;
use mcp_events::client::{BlockingEventsClient, FollowOptions, WebhookOptions};
use mcp_events::delivery::{Config as DeliveryConfig, Deliveries};
use mcp_events::follow::FollowEvent;
use mcp_events::post::{ClientTls, Clock, Deliverer, Poster, entropy};
use mcp_events::receive::{ReceiverServer, ServerTls};
use mcp_events::receiver::{Limits, Message, Receiver};
use mcp_events::server::{Event, Events, Publisher};
use mcp_events::source::SourceConfig;
use mcp_events::subscription::SubscriptionEvent;
use mcp_events::wire::{DeliveryMode, Nullable, PollEventsParams, Profile};
use mcp_proto::{Entropy, RawJson, VersionSet, client};
use mcp_tower::{Identity, McpService, Router};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

const DEADLINE: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_millis(300);
/// Certificate of `localhost`, its key, and the root that vouches for it.
const CERTIFICATE: &[u8] = include_bytes!("../../../../core/events/tests/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../../../../core/events/tests/certificates/key.pem");
const ROOT: &[u8] = include_bytes!("../../../../core/events/tests/certificates/root.pem");

fn events() -> (Events, Publisher<Value>) {
    let mut config = SourceConfig::default();
    config.heartbeat = HEARTBEAT;
    let events = Events::with(config, Profile::SEP).unwrap();
    let any = || RawJson::new(r#"{"type":"object"}"#).unwrap();
    let modes = [DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Webhook];
    let build = Event::<Value, Value>::with_schemas("build", any(), any()).modes(modes);
    let publisher = events.add(build).unwrap();
    (events, publisher)
}

fn publish(publisher: &Publisher<Value>, number: u32) {
    publisher.publish_as(format!("evt-{number}"), SystemTime::now(), &json!({ "number": number })).unwrap();
}

/// A service in axum, behind a layer that takes every caller for `ann`.
struct Served {
    address: SocketAddr,
    service: McpService,
    runtime: Runtime,
}

impl Served {
    fn start(events: &Events) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut router = Router::new("builds", "1");
        router.extension(events.clone());
        let service = McpService::new(router).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let layered = service.clone().map_request(|mut request: axum::extract::Request| {
            request.extensions_mut().insert(Identity::new("ann"));
            request
        });
        let app = axum::Router::new().route_service("/mcp", layered);
        runtime.spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { address, service, runtime }
    }

    fn connect(&self) -> Client {
        let config = client::Config::new("follower", "1").versions(VersionSet::MODERN);
        Client::options(config).connect_url(&format!("http://{}/mcp", self.address)).unwrap()
    }

    fn stop(self) {
        let shutdown = self.service.shutdown(Duration::from_secs(30));
        self.runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), shutdown).await })
            .unwrap();
    }
}

/// Waits until this number of streams is open.
fn await_streams(events: &Events, count: usize) {
    let begun = Instant::now();
    while events.open_streams() != count {
        assert!(begun.elapsed() < DEADLINE, "{} streams are open", events.open_streams());
        thread::sleep(Duration::from_millis(2));
    }
}

// EVT-010, EVT-040, EVT-041, EVT-050, EVT-060, EVT-064, EVT-065
#[test]
fn client_polls_and_follows_streams_through_axum() {
    let (events, publisher) = events();
    let served = Served::start(&events);
    let client = served.connect();
    let of_server = BlockingEventsClient::new(&client);
    assert_eq!(of_server.list().unwrap()[0].name, "build");
    let before = of_server.poll(&PollEventsParams::new("build")).unwrap();
    assert!(before.events.is_empty());
    let cursor = Nullable::text(before.cursor.as_ref()).unwrap().to_owned();
    publish(&publisher, 1);
    let polled = of_server.poll(&PollEventsParams::new("build").cursor(cursor.clone())).unwrap();
    assert_eq!(polled.events[0].event_id, "evt-1");

    let followers: Vec<_> = (0..3)
        .map(|_| {
            let (client, cursor) = (served.connect(), cursor.clone());
            thread::spawn(move || {
                let of_server = BlockingEventsClient::new(&client);
                let options = FollowOptions::new().cursor(cursor);
                let mut follower = of_server.follow_with("build", &json!({}), options).unwrap();
                assert_eq!(follower.mode(), &DeliveryMode::Push);
                let mut ids = Vec::new();
                while ids.len() < 50 {
                    match follower.next_event().unwrap() {
                        Some(FollowEvent::Event(event)) => ids.push(event.event_id),
                        other => panic!("{other:?}"),
                    }
                }
                drop(follower);
                client.close().unwrap();
                ids
            })
        })
        .collect();
    await_streams(&events, 3);
    (2..=50).for_each(|number| publish(&publisher, number));
    let expected: Vec<String> = (1..=50).map(|number| format!("evt-{number}")).collect();
    for follower in followers {
        assert_eq!(follower.join().unwrap(), expected);
    }
    // What its client drops ends at the server.
    await_streams(&events, 0);
    client.close().unwrap();
    served.stop();
}

// EVT-051, EVT-052, EVT-056, EVT-061
#[test]
fn silent_stream_through_axum_lives_and_ends_with_the_service() {
    let (events, publisher) = events();
    let served = Served::start(&events);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "build", "_meta": meta });
    let body =
        json!({ "jsonrpc": "2.0", "id": "s-9", "method": "events/stream", "params": params }).to_string();
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: events/stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut read = String::new();
    let mut until = |text: &str| {
        while !read.contains(text) {
            let mut buffer = [0; 4_096];
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "it ends without {text}: {read}");
            read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    until("notifications/events/active");
    // Nothing but the timers of the runtime polls the service now.
    until("notifications/events/heartbeat");
    publish(&publisher, 1);
    until("evt-1");
    let ending = thread::spawn(move || served.stop());
    until(r#""result""#);
    ending.join().unwrap();
    assert_eq!(events.open_streams(), 0);
    let messages =
        || read.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    assert!(messages().count() >= 4, "{read}");
    for message in messages() {
        let place = if message["result"].is_object() { &message["result"] } else { &message["params"] };
        assert_eq!(place["_meta"]["io.modelcontextprotocol/subscriptionId"], "s-9", "{message}");
    }
}

fn deliverer(url: &str) -> Deliverer {
    let mut config = DeliveryConfig::default();
    config.addresses = config.addresses.origin(url).unwrap();
    let (clock, secret) = (Clock::start(), entropy::seed().unwrap());
    let deliveries = Deliveries::new(config, Entropy::new(secret, entropy::nonce()), clock.anchor());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).unwrap();
    Deliverer::start(deliveries, clock, Poster::new().tls(tls)).unwrap()
}

// EVT-070, EVT-080, EVT-090, EVT-113, EVT-126, EVT-130
#[test]
fn webhook_is_subscribed_through_axum_and_delivered() {
    let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
    let hooks = ReceiverServer::bind("127.0.0.1:0", receiver.clone()).unwrap().path("/hooks");
    let hooks = hooks.tls(ServerTls::from_pem(CERTIFICATE, KEY).unwrap());
    let url = format!("https://localhost:{}/hooks", hooks.address().unwrap().port());
    let (keep, kept) = mpsc::channel();
    let hooks = hooks.start(move |_, message| keep.send(message.clone()).is_ok()).unwrap();
    let (events, publisher) = events();
    events.webhooks(deliverer(&url));
    let served = Served::start(&events);
    let client = served.connect();
    let of_server = BlockingEventsClient::new(&client);
    let mut webhook = of_server.webhook("build", &json!({}), WebhookOptions::new(&*url), &receiver).unwrap();
    // The answer comes after that of the receiver to the challenge.
    let granted = of_server.next_of_webhook(&mut webhook, &receiver).unwrap();
    assert!(matches!(granted, Some(SubscriptionEvent::Granted { .. })), "{granted:?}");
    publish(&publisher, 1);
    let message = kept.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(&message, Message::Event(event) if event.event_id == "evt-1"), "{message:?}");
    webhook.unsubscribe();
    let ended = of_server.next_of_webhook(&mut webhook, &receiver).unwrap();
    assert_eq!(ended, Some(SubscriptionEvent::Ended(None)));
    publish(&publisher, 2);
    client.close().unwrap();
    served.stop();
    assert!(events.finish(DEADLINE));
    drop(hooks);
    assert!(kept.try_recv().is_err(), "it was unsubscribed");
}
