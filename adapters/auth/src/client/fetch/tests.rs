//! The fetcher against servers on threads of this process.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_oauth::{Config, Event, Flow, Trigger};
use mcp_proto::Entropy;
use mcp_proto::head::Fields;
use mcp_proto::http::client::Url;
use mcp_std::Clock;
#[cfg(target_os = "linux")]
use mcp_std::io::Socket;

use super::*;

/// Starts a server that reads one request per connection and writes `response`; it then closes the connection.
///
/// Returns its port and the requests that it got.
fn serve(response: impl Into<Vec<u8>>) -> (u16, mpsc::Receiver<String>) {
    let (listener, response) = (TcpListener::bind("127.0.0.1:0").unwrap(), response.into());
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = sender.send(read_request(&stream));
            let _ = (&stream).write_all(&response);
        }
    });
    (port, requests)
}

/// Reads a head, and a body of the length that it names.
fn read_request(mut stream: &TcpStream) -> String {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    head + core::str::from_utf8(&body).unwrap()
}

/// Starts a server that accepts connections and sends nothing, or `piece` again and again.
fn serve_slowly(piece: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().flatten() {
            open.push(thread::spawn(move || {
                while (&stream).write_all(piece).is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            }));
        }
    });
    port
}

struct Call {
    url: Url,
    from: Option<Origin>,
    timeout: Duration,
    max_body: usize,
    cancellation: Cancellation,
}

fn call(url: &str) -> Call {
    let url = Url::parse(url).unwrap();
    let cancellation = Cancellation::new();
    Call { url, from: None, timeout: Duration::from_secs(30), max_body: 100, cancellation }
}

impl Call {
    fn from(self, server: &str) -> Self {
        Self { from: Some(Url::parse(server).unwrap().origin().clone()), ..self }
    }

    fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn get(&self, fetcher: &HttpFetcher) -> Result<FetchResponse, FetchFailure> {
        self.send(fetcher, "GET", &Fields::new(), b"")
    }

    fn send(
        &self,
        fetcher: &HttpFetcher,
        method: &str,
        fields: &Fields,
        body: &[u8],
    ) -> Result<FetchResponse, FetchFailure> {
        let response_body = BodyBound::Refuse(self.max_body);
        let request = HttpRequest { method, url: &self.url, fields, body, response_body };
        fetcher.send(&request, self.from.as_ref(), &self.cancellation.within(self.timeout))
    }
}

/// Returns a fetcher for which the names of the table have these addresses, and no others exist.
fn with_names(names: &'static [(&'static str, &'static [&'static str])]) -> HttpFetcher {
    HttpFetcher::new().resolver(move |host, port| {
        let found = names.iter().find(|(name, _)| *name == host);
        let (_, addresses) = found.ok_or(ErrorKind::NotFound)?;
        Ok(addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect())
    })
}

fn body_of(response: Result<FetchResponse, FetchFailure>) -> String {
    String::from_utf8(response.unwrap().body).unwrap()
}

#[test]
fn fetch_sends_one_request_and_returns_the_response() {
    let (port, requests) = serve("HTTP/1.1 201 Created\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok");
    let mut fields = Fields::new();
    fields.push("Accept", b"application/json");
    let call = call(&format!("http://127.0.0.1:{port}/token?x=1"));
    let response = call.send(&HttpFetcher::new(), "POST", &fields, b"code=1").unwrap();
    assert_eq!((response.status, &*response.body), (201, &b"ok"[..]));
    assert!(response.fields.iter().any(|field| field == ("X-A", b"b")));
    assert_eq!(
        requests.recv().unwrap(),
        format!(
            "POST /token?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\
             Content-Length: 6\r\n\r\ncode=1"
        )
    );
}

/// Returns the first request of a flow for a server.
fn first_fetch(server: &str) -> Fetch {
    let clock = Clock::start();
    let config = Arc::new(Config::new("test").fetch_timeout(Duration::from_secs(30)).max_document(100));
    let (url, trigger) = (Url::parse(server).unwrap(), Trigger::LogIn { challenges: Vec::new() });
    let entropy = Entropy::new([7; 32], 0);
    let mut flow = Flow::new(config, url, trigger, clock.anchor(), clock.now(), entropy);
    loop {
        match flow.poll_event(clock.now()) {
            Some(Event::Fetch(fetch)) => return fetch,
            Some(Event::Load { .. }) => flow.handle_loaded(clock.now(), None),
            other => panic!("{other:?}"),
        }
    }
}

// covers: AUTH-068
#[test]
fn requests_of_a_flow_are_sent_as_they_are() {
    let (port, requests) = serve("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
    let fetch = first_fetch(&format!("http://localhost:{port}/mcp"));
    let fetcher: &dyn Fetcher = &HttpFetcher::new();
    let response = fetcher.fetch(&fetch).unwrap();
    assert_eq!((response.status, &*response.body), (404, &b"no"[..]));
    let request = requests.recv().unwrap();
    let start = format!("GET {} HTTP/1.1\r\nHost: localhost:{port}\r\n", fetch.url.target());
    assert!(request.starts_with(&start), "{request}");
    for (name, value) in fetch.fields.iter() {
        let line = format!("\r\n{name}: {}\r\n", core::str::from_utf8(value).unwrap());
        assert!(request.contains(&line), "{request}");
    }
    // Its policy applies: the size, and the network of the server.
    let (port, _requests) = serve(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(101)));
    let fetch = first_fetch(&format!("http://localhost:{port}/mcp"));
    assert_eq!(fetcher.fetch(&fetch).err(), Some(FetchFailure::TooLarge));
    let cancelled = Cancellation::new();
    assert_eq!(fetcher.fetch_cancellable(&fetch, &cancelled).err(), Some(FetchFailure::TooLarge));
    cancelled.cancel();
    let failure = fetcher.fetch_cancellable(&fetch, &cancelled).err();
    assert_eq!(failure, Some(FetchFailure::Unreachable("cancelled".into())));
}

#[test]
fn bodies_of_every_framing_are_read() {
    for (response, body) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "abc"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
    ] {
        let (port, _requests) = serve(response);
        assert_eq!(body_of(call(&format!("http://127.0.0.1:{port}")).get(&HttpFetcher::new())), body);
    }
}

// covers: SEC-011
#[test]
fn redirect_is_returned_and_not_followed() {
    let (elsewhere, unwanted) = serve("HTTP/1.1 200 OK\r\n\r\n");
    let location = format!("http://127.0.0.1:{elsewhere}/");
    let (port, requests) =
        serve(format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nSet-Cookie: a=b\r\n\r\n"));
    let (fetcher, call) = (HttpFetcher::new(), call(&format!("http://127.0.0.1:{port}")));
    for _ in 0..2 {
        let response = call.get(&fetcher).unwrap();
        assert_eq!(response.status, 307);
        assert!(response.fields.iter().any(|field| field == ("Location", location.as_bytes())));
        let request = requests.recv().unwrap();
        assert!(!request.to_lowercase().contains("cookie"), "{request}");
    }
    assert_eq!(unwanted.try_recv(), Err(mpsc::TryRecvError::Empty));
}

#[test]
fn body_beyond_the_bound_is_too_large_in_every_framing() {
    let exact = |n: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n{}", "x".repeat(n));
    let chunked = |n: usize| {
        let body = "1\r\nx\r\n".repeat(n);
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n")
    };
    let until_close = |n: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(n));
    for response in [exact, chunked, until_close] as [fn(usize) -> String; 3] {
        for (length, fits) in [(100, true), (101, false), (100_000, false)] {
            let (port, _requests) = serve(response(length));
            let outcome = call(&format!("http://127.0.0.1:{port}")).get(&HttpFetcher::new());
            match fits {
                true => assert_eq!(outcome.unwrap().body.len(), length),
                false => assert_eq!(outcome.err(), Some(FetchFailure::TooLarge), "{length}"),
            }
        }
    }
}

#[test]
fn timeout_bounds_every_step_and_their_sum() {
    let begun = Instant::now();
    let hanging = HttpFetcher::new().resolver(|_, _| {
        thread::sleep(Duration::from_secs(60));
        Ok(Vec::new())
    });
    let silent = serve_slowly(b"");
    let endless_head = serve_slowly(b"HTTP/1.1 103 X\r\n\r\n");
    for (fetcher, url) in [
        (&hanging, "http://host.test/".to_string()),
        (&HttpFetcher::new(), format!("http://127.0.0.1:{silent}/")),
        (&HttpFetcher::new(), format!("http://127.0.0.1:{endless_head}/")),
    ] {
        let call = call(&url).timeout(Duration::from_millis(200));
        assert_eq!(call.get(fetcher).err(), Some(FetchFailure::TimedOut), "{url}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn cancellation_ends_a_lookup_and_an_exchange() {
    let silent = serve_slowly(b"");
    for url in ["http://host.test/".to_string(), format!("http://127.0.0.1:{silent}/")] {
        let fetcher = HttpFetcher::new().resolver(|_, _| {
            thread::sleep(Duration::from_secs(60));
            Ok(Vec::new())
        });
        let call = call(&url);
        thread::scope(|scope| {
            let fetch = scope.spawn(|| call.get(&fetcher));
            thread::sleep(Duration::from_millis(100));
            assert!(!fetch.is_finished());
            let begun = Instant::now();
            call.cancellation.cancel();
            let outcome = fetch.join().unwrap();
            assert_eq!(outcome.err(), Some(FetchFailure::Unreachable("cancelled".into())));
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        });
    }
}

const NAMES: &[(&str, &[&str])] = &[
    ("public.test", &["8.8.8.8"]),
    ("loop.test", &["127.0.0.1"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("private.test", &["10.0.0.1"]),
    ("mixed.test", &["8.8.8.8", "127.0.0.1"]),
    ("loop-and-private.test", &["10.0.0.1", "127.0.0.1"]),
    ("metadata.test", &["169.254.169.254"]),
    ("empty.test", &[]),
];

// covers: SEC-011
#[test]
fn local_targets_of_a_public_server_are_forbidden() {
    let (port, requests) = serve("HTTP/1.1 200 OK\r\n\r\n");
    let fetcher = with_names(NAMES);
    for server in ["public.test", "mixed.test", "8.8.8.8", "private.test"] {
        for target in [
            "loop.test",
            "mapped.test",
            "127.0.0.1",
            "127.1.2.3",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "localhost",
            "localhost.",
            "a.localhost",
            "A.LocalHost.",
            "metadata.test",
            "[fe80::1]",
        ] {
            let call = call(&format!("http://{target}:{port}/")).from(&format!("https://{server}/mcp"));
            let failure = call.get(&fetcher).err().unwrap();
            assert_eq!(failure, FetchFailure::Forbidden(call.url.origin().host.clone()), "{server} {target}");
        }
    }
    assert_eq!(requests.try_recv(), Err(mpsc::TryRecvError::Empty));
}

// covers: SEC-011
#[test]
fn server_permits_targets_of_its_own_network_and_only_their_addresses() {
    let (port, _requests) = serve("HTTP/1.1 200 OK\r\n\r\nhere");
    let fetcher = with_names(NAMES);
    for server in ["localhost", "loop.test", "[::1]", "mapped.test"] {
        for target in ["127.0.0.1", "localhost", "localhost.", "a.localhost", "loop.test", "mapped.test"] {
            let call = call(&format!("http://{target}:{port}/")).from(&format!("http://{server}:9/mcp"));
            assert_eq!(body_of(call.get(&fetcher)), "here", "{server} {target}");
        }
        // The private address is not tried: this would take two seconds.
        let call = call(&format!("http://loop-and-private.test:{port}/"));
        let call = call.from(&format!("http://{server}:9/mcp")).timeout(Duration::from_secs(1));
        assert_eq!(body_of(call.get(&fetcher)), "here", "{server}");
    }
    // A target that the application named may have any address.
    assert_eq!(body_of(call(&format!("http://loop.test:{port}/")).get(&fetcher)), "here");
}

// covers: SEC-011
#[test]
fn host_is_resolved_once_so_that_no_second_answer_counts() {
    let (port, requests) = serve("HTTP/1.1 200 OK\r\n\r\n");
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    // The first answer is harmless, all later ones are this machine.
    let fetcher = HttpFetcher::new().resolver(|_, port| {
        let first = LOOKUPS.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
        Ok(vec![SocketAddr::from((address, port))])
    });
    let url = format!("http://rebind.test:{port}/");
    let call = call(&url).from(&url);
    assert_eq!(call.get(&fetcher).err(), Some(FetchFailure::Forbidden("rebind.test".into())));
    assert_eq!(LOOKUPS.load(Ordering::SeqCst), 1);
    assert_eq!(requests.try_recv(), Err(mpsc::TryRecvError::Empty));
}

// covers: SEC-011
#[test]
fn network_of_a_server_is_that_of_its_first_lookup_in_a_flow() {
    let (port, requests) = serve("HTTP/1.1 200 OK\r\n\r\nhere");
    let fetch = |target: &str| {
        let target = Url::parse(&format!("http://{target}:{port}/")).unwrap();
        let server = Url::parse("https://rebind.test/mcp").unwrap().origin().clone();
        Fetch::get(target, FetchPolicy::new(Duration::from_secs(30), 100).reachable_from(server))
    };
    // The host of the server is public first, and this machine from then on; or the other way round.
    for (first, then) in [([192, 88, 100, 1], [127, 0, 0, 1]), ([127, 0, 0, 1], [192, 88, 100, 1])] {
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        let fetcher = HttpFetcher::new().resolver(move |host, port| {
            let address = match host {
                "rebind.test" if counted.fetch_add(1, Ordering::SeqCst) == 0 => first,
                "rebind.test" => then,
                _ => [127, 0, 0, 1],
            };
            Ok(vec![SocketAddr::from((address, port))])
        });
        let (of_flow, is_local) = (fetcher.for_flow().unwrap(), first == [127, 0, 0, 1]);
        for target in ["target.test", "127.0.0.1", "other.test"] {
            let found = of_flow.fetch(&fetch(target));
            assert_eq!(found.is_ok(), is_local, "{target}");
            let forbidden = FetchFailure::Forbidden(target.into());
            assert!(is_local || found.err() == Some(forbidden), "{target}");
        }
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
        // So does a request for another server.
        let server = Url::parse("https://127.0.0.1/mcp").unwrap().origin().clone();
        let mut elsewhere = fetch("target.test");
        elsewhere.policy = elsewhere.policy.reachable_from(server);
        assert!(of_flow.fetch(&elsewhere).is_ok());
        // Another flow looks again.
        assert_eq!(fetcher.for_flow().unwrap().fetch(&fetch("target.test")).is_ok(), !is_local);
    }
    assert_eq!(requests.try_iter().count(), 6);
}

#[test]
fn later_address_is_tried_after_one_that_refuses() {
    let (port, _requests) = serve("HTTP/1.1 200 OK\r\n\r\nhere");
    // Nobody listens at the first address, because the server is bound to one address of the loopback network.
    let fetcher = with_names(&[("two.test", &["127.0.0.9", "127.0.0.1"])]);
    assert_eq!(body_of(call(&format!("http://two.test:{port}/")).get(&fetcher)), "here");
}

/// Returns a listener that is full, so that connecting to it hangs, with the connections that fill it.
#[cfg(target_os = "linux")]
fn full_listener() -> (TcpListener, Vec<Socket>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = (0..8).map(|_| Socket::connect(address).unwrap()).collect();
    (listener, waiting)
}

#[cfg(target_os = "linux")]
#[test]
fn address_that_hangs_is_given_up_for_the_next_one() {
    let (full, _waiting) = full_listener();
    let (port, _requests) = serve("HTTP/1.1 200 OK\r\n\r\nhere");
    let hangs = full.local_addr().unwrap();
    let both = HttpFetcher::new().resolver(move |_, _| Ok(vec![hangs, ([127, 0, 0, 1], port).into()]));
    let call = call("http://two.test/").timeout(Duration::from_secs(20));
    let begun = Instant::now();
    assert_eq!(body_of(call.get(&both)), "here");
    assert!((2..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    let one = HttpFetcher::new().resolver(move |_, _| Ok(vec![hangs]));
    let call = call.timeout(Duration::from_millis(300));
    assert_eq!(call.get(&one).err(), Some(FetchFailure::TimedOut));
    let call = call.timeout(Duration::from_secs(60));
    thread::scope(|scope| {
        let fetch = scope.spawn(|| call.get(&one).err());
        thread::sleep(Duration::from_millis(100));
        assert!(!fetch.is_finished());
        let begun = Instant::now();
        call.cancellation.cancel();
        assert_eq!(fetch.join().unwrap(), Some(FetchFailure::Unreachable("cancelled".into())));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    });
}

// covers: SEC-019
#[test]
fn failures_name_the_host_and_no_secret() {
    // Nobody can listen at a port that a connection has.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_far, closed) = listener.accept().map(|(far, address)| (far, address.port())).unwrap();
    let (garbage, _r1) = serve("hush-garbage\r\n\r\n");
    let (truncated, _r2) = serve("HTTP/1.1 200 OK\r\nX: hush\r\nContent-Length: 9\r\n\r\nhush");
    let (nothing, _r3) = serve("");
    let fetcher = with_names(NAMES);
    let mut fields = Fields::new();
    fields.push("Authorization", b"Bearer hush");
    for (authority, part) in [
        (format!("127.0.0.1:{closed}"), "no connection to 127.0.0.1: 127.0.0.1:"),
        (format!("127.0.0.1:{garbage}"), "malformed status line"),
        (format!("127.0.0.1:{truncated}"), "connection closed within a message"),
        (format!("127.0.0.1:{nothing}"), "the server closed it without a response"),
        ("lost.test".into(), "no address of lost.test: "),
        ("empty.test".into(), "no address of empty.test: the name has none"),
    ] {
        let call = call(&format!("http://{authority}/?code=hush"));
        let failure = call.send(&fetcher, "POST", &fields, b"secret=hush").err().unwrap();
        let text = format!("{failure} {failure:?}");
        assert!(text.contains(part) && !text.contains("hush"), "{text}");
    }
}

#[test]
fn names_in_several_networks_count_as_public() {
    let of = |addresses: &[&str]| {
        let addresses: Vec<_> = addresses.iter().map(|a| SocketAddr::new(a.parse().unwrap(), 1)).collect();
        network_of(&addresses)
    };
    assert_eq!(of(&["127.0.0.1", "::1"]), Network::Loopback);
    assert_eq!(of(&["10.0.0.1", "192.168.0.1", "fd00::1"]), Network::Private);
    assert_eq!(of(&["10.0.0.1", "127.0.0.1"]), Network::Public);
    assert_eq!(of(&["127.0.0.1", "8.8.8.8"]), Network::Public);
    assert_eq!(of(&[]), Network::Public);
}

#[cfg(not(feature = "tls"))]
#[test]
fn https_without_tls_is_a_clear_failure() {
    let failure = call("https://localhost/").get(&HttpFetcher::new()).err().unwrap();
    assert!(failure.to_string().contains("`https` needs the feature `tls`"), "{failure}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use mcp_std::NetStream;
    use mcp_std::io::{Duplex as _, Socket};
    use mcp_std::poll::Interest;
    use mcp_std::tls::ServerTls;

    const ROOT: &[u8] = include_bytes!("../../../tests/certificates/root.pem");
    const SERVER: &[u8] = include_bytes!("../../../tests/certificates/server.pem");
    const UNKNOWN: &[u8] = include_bytes!("../../../tests/certificates/unknown.pem");
    const KEY: &[u8] = include_bytes!("../../../tests/certificates/key.pem");

    /// Starts a server over TLS that answers one read with `response`, and ends TLS in order or not at all.
    fn serve_tls(chain: &'static [u8], response: &'static [u8], in_order: bool) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = ServerTls::from_pem(chain, KEY).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = NetStream::accept_tls(&tls, Socket::tcp(stream).unwrap()).unwrap();
                let mut buffer = [0; 4096];
                let read = loop {
                    match stream.read(&mut buffer) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            stream.wait(Interest::READ, None).unwrap();
                        }
                        outcome => break outcome,
                    }
                };
                // The client left during the handshake, or the response fits into the buffer of the socket.
                if read.is_ok_and(|n| n > 0) && stream.write(response).is_ok() {
                    stream.flush(Duration::from_secs(9)).unwrap();
                    if in_order {
                        stream.shutdown_write().unwrap();
                    }
                }
            }
        });
        port
    }

    fn fetcher() -> HttpFetcher {
        HttpFetcher::new().tls(ClientTls::without_system_roots().root_pem(ROOT).unwrap())
    }

    #[test]
    fn https_is_verified_by_the_given_roots() {
        let port = serve_tls(SERVER, b"HTTP/1.1 200 OK\r\n\r\nsealed", true);
        for host in ["localhost", "localhost."] {
            let call = call(&format!("https://{host}:{port}/"));
            assert_eq!(body_of(call.get(&fetcher())), "sealed", "{host}");
        }
        let port = serve_tls(UNKNOWN, b"HTTP/1.1 200 OK\r\n\r\nsealed", true);
        let failure = call(&format!("https://localhost:{port}/")).get(&fetcher()).err().unwrap();
        assert!(
            matches!(&failure, FetchFailure::Unreachable(why) if why.contains("certificate")),
            "{failure}"
        );
    }

    #[test]
    fn body_that_was_cut_off_is_no_response() {
        let port = serve_tls(SERVER, b"HTTP/1.1 200 OK\r\n\r\nhalf", false);
        let failure = call(&format!("https://localhost:{port}/")).get(&fetcher()).err().unwrap();
        assert!(
            matches!(&failure, FetchFailure::Unreachable(why) if why.contains("close_notify")),
            "{failure}"
        );
    }

    #[test]
    fn server_without_tls_is_a_failure() {
        let port = serve_slowly(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let failure = call(&format!("https://localhost:{port}/")).get(&fetcher()).err().unwrap();
        assert!(matches!(failure, FetchFailure::Unreachable(_)), "{failure}");
    }
}

#[test]
fn fetcher_without_cancellation_sends_the_request_all_the_same() {
    struct Refusing;
    impl Fetcher for Refusing {
        fn fetch(&self, _: &Fetch) -> Result<FetchResponse, FetchFailure> {
            Err(FetchFailure::TooLarge)
        }
    }
    let fetch = first_fetch("https://h.test/mcp");
    let cancelled = Cancellation::new();
    assert_eq!(Refusing.fetch_cancellable(&fetch, &cancelled).err(), Some(FetchFailure::TooLarge));
    assert_eq!(format!("{:?}", HttpFetcher::new()), "HttpFetcher { .. }");
}
