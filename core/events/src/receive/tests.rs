use alloc::format;
use core::sync::atomic::AtomicUsize;
use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Instant;

use super::*;
use crate::delivery::{self, Subscribed};
use crate::post::Deliverer;
use crate::post::tests::{KEY, SERVER, config, event, machine, poster, request, secret};
use crate::receiver::Limits;
use crate::webhook::sign;

const EVENT: &str = r#"{"eventId":"e1","name":"n","timestamp":"2026-11-25T10:00:00Z","data":{}}"#;
const SOON: Duration = Duration::from_secs(20);

/// A receiver with a registration of [`secret`], bound to `sub_1`.
fn bound() -> (Arc<Mutex<Receiver>>, RegistrationKey) {
    let mut receiver = Receiver::new(Limits { max_body: 1_000, ..Limits::default() });
    let key = receiver.register(secret()).expect("room");
    receiver.bind(key, "sub_1").expect("registered");
    (Arc::new(Mutex::new(receiver)), key)
}

fn start(
    receiver: &Arc<Mutex<Receiver>>,
    keep: impl Fn(RegistrationKey, &Message) -> bool + Send + Sync + 'static,
) -> RunningReceiver {
    let server = ReceiverServer::bind("127.0.0.1:0", receiver.clone()).expect("a port").path("/hooks");
    server.start(keep).expect("a thread")
}

/// Sends bytes and returns all of the response.
fn exchange(running: &RunningReceiver, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.address()).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    stream.write_all(bytes).expect("room");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("the end");
    String::from_utf8(response).expect("text")
}

fn post(method: &str, target: &str, id: &str, body: &str) -> Vec<u8> {
    let now = unix_secs();
    let signature = sign([&secret()], id, now, body.as_bytes());
    format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nwebhook-id: {id}\r\n\
         webhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\nX-MCP-Subscription-Id: sub_1\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[track_caller]
fn status(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{response}"))
}

// covers: EVT-120, EVT-122, EVT-123, EVT-125, EVT-126
#[test]
fn message_is_kept_before_it_is_acknowledged_and_once() {
    let (receiver, key) = bound();
    let (sender, kept) = mpsc::channel();
    let attempts = AtomicUsize::new(0);
    let running = start(&receiver, move |subscription, message| {
        match attempts.fetch_add(1, Ordering::SeqCst) {
            // The store is full, and then the function of the application is wrong.
            0 => false,
            1 => panic!("a mistake of the test"),
            _ => sender.send((subscription, message.clone())).is_ok(),
        }
    });
    let statuses: Vec<u16> =
        (0..4).map(|_| status(&exchange(&running, &post("POST", "/hooks?a=1", "e1", EVENT)))).collect();
    assert_eq!(statuses, [503, 503, 204, 204]);
    let (subscription, message) = kept.recv_timeout(SOON).expect("a message");
    assert!(subscription == key && matches!(&message, Message::Event(event) if event.event_id == "e1"));
    assert!(kept.try_recv().is_err(), "it was kept before");
    let challenge =
        exchange(&running, &post("POST", "/hooks", "m1", r#"{"type":"verification","challenge":"n"}"#));
    assert!(challenge.contains("Content-Type: application/json"), "{challenge}");
    assert!(status(&challenge) == 200 && challenge.ends_with(r#"{"challenge":"n"}"#), "{challenge}");
}

// covers: EVT-120, EVT-127
#[test]
fn what_is_no_delivery_is_refused_with_bounds() {
    let (receiver, _) = bound();
    let running = start(&receiver, |_, message| panic!("{message:?}"));
    let forged =
        String::from_utf8(post("POST", "/hooks", "e1", EVENT)).expect("text").replace("\"data\"", "\"date\"");
    let large =
        format!(r#"{{"eventId":"e1","name":"n","timestamp":"x","data":{{"a":"{}"}}}}"#, "x".repeat(1_000));
    let chunked = format!(
        "POST /hooks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n800\r\n{}\r\n0\r\n\r\n",
        "x".repeat(0x800)
    );
    for (bytes, expected) in [
        (post("POST", "/", "e1", EVENT), 404),
        (post("POST", "/hooks/", "e1", EVENT), 404),
        (post("GET", "/hooks", "e1", ""), 405),
        (forged.into_bytes(), 401),
        (post("POST", "/hooks", "e1", &large), 413),
        (chunked.into_bytes(), 413),
        (b"POST /hooks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_vec(), 415),
        (b"nonsense\r\n\r\n".to_vec(), 400),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000)).into_bytes(), 414),
    ] {
        let response = exchange(&running, &bytes);
        assert_eq!(status(&response), expected, "{response}");
        assert!(response.contains("Connection: close"), "{response}");
    }
}

/// Connects, and waits no longer than a test does.
fn connect(running: &RunningReceiver) -> TcpStream {
    let stream = TcpStream::connect(running.address()).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    stream
}

#[test]
fn silent_connections_make_room_the_oldest_first() {
    let (receiver, _) = bound();
    let running = start(&receiver, |_, _| true);
    let mut silent: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(|_| connect(&running)).collect();
    // A head without its end is no request.
    silent[0].write_all(b"POST /hooks HTTP/1.1\r\n").expect("room");
    let begun = Instant::now();
    for n in 0..8 {
        let response = exchange(&running, &post("POST", "/hooks", &format!("e{n}"), EVENT));
        assert_eq!(status(&response), 204, "{response}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Those that were served have left their places to the next ones.
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)));
    silent.iter().skip(8).for_each(|stream| stream.set_nonblocking(true).expect("a socket"));
    for (n, stream) in silent.iter_mut().enumerate().skip(8) {
        assert_eq!(stream.read(&mut [0]).expect_err("open").kind(), ErrorKind::WouldBlock, "{n}");
    }
}

#[test]
fn connection_is_closed_if_all_others_have_requests() {
    let (receiver, _) = bound();
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let (sender, kept) = mpsc::channel();
    let running = start(&receiver, move |_, _| {
        let _ = sender.send(());
        held.lock().expect("no panic").recv().is_ok()
    });
    let mut busy: Vec<TcpStream> = Vec::new();
    for n in 0..MAX_CONNECTIONS {
        let mut stream = connect(&running);
        let body = EVENT.replace("e1", &format!("e{n}"));
        stream.write_all(&post("POST", "/hooks", &format!("e{n}"), &body)).expect("room");
        busy.push(stream);
    }
    (0..MAX_CONNECTIONS).for_each(|_| kept.recv_timeout(SOON).expect("a request"));
    assert!(matches!(connect(&running).read(&mut [0]), Ok(0) | Err(_)));
    (0..MAX_CONNECTIONS).for_each(|_| release.send(()).expect("it waits"));
    for mut stream in busy {
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("an answer");
        assert_eq!(status(&response), 204);
    }
}

#[test]
fn dropped_server_listens_no_more() {
    let (receiver, _) = bound();
    for ip in ["127.0.0.1:0", "0.0.0.0:0"] {
        let server = ReceiverServer::bind(ip, receiver.clone()).expect("a port");
        let port = server.address().expect("a port").port();
        let running = server.start(|_, _| true).expect("a thread");
        drop(running);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

// covers: EVT-113, EVT-114
#[test]
fn deliveries_of_a_server_arrive_over_tls() {
    let mut receiver = Receiver::new(Limits::default());
    let key = receiver.register(secret()).expect("room");
    let receiver = Arc::new(Mutex::new(receiver));
    let (sender, kept) = mpsc::channel();
    let server = ReceiverServer::bind("127.0.0.1:0", receiver.clone()).expect("a port").path("/hooks");
    let server = server.tls(ServerTls::from_pem(SERVER, KEY).expect("a certificate"));
    let url = format!("https://localhost:{}/hooks", server.address().expect("a port").port());
    let running = server.start(move |_, message| sender.send(message.clone()).is_ok()).expect("a thread");
    let clock = Clock::start();
    let deliverer = Deliverer::start(machine(config(&url), clock), clock, poster()).expect("a thread");
    let subscribed = deliverer.with(|deliveries, now| deliveries.subscribe(now, request(&url, "{}")));
    assert!(matches!(subscribed, Ok(Subscribed::Verifying { .. })), "{subscribed:?}");
    let Some(delivery::Event::Verified { grant, .. }) = deliverer.wait_event(SOON) else {
        panic!("no proof")
    };
    // The challenge has bound the id.
    assert_eq!(running_id(&receiver, key), Some(grant.id.clone()));
    deliverer
        .with(|deliveries, now| deliveries.publish(now, grant.subscription, &event(7)))
        .expect("published");
    let message = kept.recv_timeout(SOON).expect("a delivery");
    assert!(matches!(&message, Message::Event(event) if event.event_id == "evt-7"), "{message:?}");
    // The receiver knows where to go on.
    let begun = Instant::now();
    while receiver.lock().expect("no panic").cursor(key) != Some("c-7") {
        assert!(begun.elapsed() < SOON);
        thread::sleep(Duration::from_millis(2));
    }
    drop(running);
}

fn running_id(receiver: &Mutex<Receiver>, key: RegistrationKey) -> Option<String> {
    receiver.lock().expect("no panic").id(key).map(Into::into)
}
