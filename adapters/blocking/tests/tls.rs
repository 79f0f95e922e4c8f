//! HTTP over TLS on real sockets: both of our ends, ends that are none of ours, and what lies between them
#![cfg(unix)]

extern crate alloc;

mod support;

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicI64, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_blocking::tls::{ClientTls, ServerTls};
use mcp_blocking::{Client, Error, HttpServer, Options};
use mcp_proto::Era;
use mcp_proto::h1::Limits;
use mcp_proto::http::server::Config as Http;
use mcp_std::{Duplex, Interest, Selector, Socket, Transport};
use serde_json::json;
use support::{DEADLINE, ERAS, Tools, in_time, only, server, short_client, speaks, text};

macro_rules! certificate {
    ($name:literal) => {
        include_bytes!(concat!("../../std/tests/certificates/", $name, ".pem"))
    };
}

fn shows(chain: &[u8]) -> ServerTls {
    ServerTls::from_pem(chain, certificate!("key")).unwrap()
}

fn trust() -> ClientTls {
    ClientTls::without_system_roots().root_pem(certificate!("root")).unwrap()
}

/// Runs `client` against a server, which is shut down when it returns
fn against(
    more: impl FnOnce(HttpServer<Tools>) -> HttpServer<Tools> + Send + 'static,
    client: impl FnOnce(SocketAddr) + Send + 'static,
) {
    in_time(move || {
        let (told, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let bound = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0);
            let mut server = more(bound.unwrap());
            told.send(server.address().unwrap()).unwrap();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                assert!(server.poll(Duration::from_millis(20)).unwrap());
            }
            server.shutdown(Duration::from_secs(5));
            while server.poll(DEADLINE).unwrap() {}
            assert_eq!(server.connections(), 0);
        });
        client(address.recv_timeout(DEADLINE).unwrap());
        drop(ends);
        thread.join().unwrap();
    });
}

fn with_tls(server: HttpServer<Tools>) -> HttpServer<Tools> {
    server.tls(shows(certificate!("server")))
}

fn connect(address: SocketAddr, era: Era) -> Result<Client, Error> {
    let url = format!("https://localhost:{}/mcp", address.port());
    Options::new(speaks(only(era))).tls(trust()).connect_url(&url)
}

fn echo(client: &mut Client, said: &str) {
    assert!(text(&client.call_tool("echo", &json!({"text": said})).unwrap()) == said);
}

/// A connection of somebody else, from which only TLS is ours
fn by_hand(address: SocketAddr) -> Transport {
    let socket = Socket::tcp(TcpStream::connect(address).unwrap()).unwrap();
    trust().connect(socket, "localhost").unwrap()
}

fn send(stream: &mut Transport, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        stream.wait(Interest::BOTH, Some(Duration::from_millis(100))).unwrap();
    }
    stream.flush(DEADLINE).unwrap();
}

/// The next bytes, which there are in time
fn receive(stream: &mut Transport) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(n) => return Ok(buffer[..n].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(stream.wait(Interest::READ, Some(DEADLINE)).unwrap().readable, "nothing came");
            }
            Err(error) => return Err(error),
        }
    }
}

const NOWHERE: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn is_served(stream: &mut Transport) -> bool {
    send(stream, NOWHERE);
    receive(stream).is_ok_and(|bytes| bytes.starts_with(b"HTTP/1.1 404 "))
}

/// What lies between a client and a server: it passes on what comes in pieces of so many bytes
struct Between {
    address: SocketAddr,
    /// Bytes from the server until both connections are reset
    left: Arc<AtomicI64>,
}

impl Between {
    fn new(server: SocketAddr, piece: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counted = Arc::clone(&left);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                let left = Arc::clone(&counted);
                thread::spawn(move || pass(near, far, piece, &left));
            }
        });
        Self { address, left }
    }
}

fn pass(near: TcpStream, far: TcpStream, piece: usize, left: &AtomicI64) {
    let mut ends = [Socket::tcp(near).unwrap(), Socket::tcp(far).unwrap()];
    let (mut selector, mut found, mut open) = (Selector::new().unwrap(), Vec::new(), [true; 2]);
    for (token, end) in (0..).zip(&ends) {
        selector.add(end, token, Interest::READ).unwrap();
    }
    let mut buffer = vec![0; piece];
    while open != [false; 2] {
        selector.wait(None, &mut found).unwrap();
        for from in found.iter().map(|(token, _)| usize::try_from(*token).unwrap()) {
            let mut most = piece;
            if from == 1 {
                most = usize::try_from(left.load(Ordering::SeqCst)).unwrap_or(0).min(piece);
                if most == 0 {
                    ends.iter().for_each(|end| end.reset_when_dropped().unwrap());
                    return;
                }
            }
            match ends[from].read(&mut buffer[..most]) {
                Ok(n) if n > 0 => {
                    if from == 1 {
                        left.fetch_sub(n as i64, Ordering::SeqCst);
                    }
                    let mut bytes = &buffer[..n];
                    while !bytes.is_empty() {
                        let to = &mut ends[1 - from];
                        to.wait(Interest::WRITE, None).unwrap();
                        match to.write(bytes) {
                            Ok(n) => bytes = &bytes[n..],
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                            Err(_) => return,
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => {
                    open[from] = false;
                    selector.remove(&ends[from], from as u64).unwrap();
                    let _ = ends[1 - from].shutdown_write();
                }
            }
        }
    }
}

#[test]
fn everything_works_over_it() {
    against(with_tls, |address| {
        for era in ERAS {
            let mut client = connect(address, era).unwrap();
            assert_eq!(client.peer().era(), era);
            echo(&mut client, "hello");
            // More than any buffer holds, both ways.
            echo(&mut client, &"0123456789abcdef".repeat(3 << 16));
            let counted = client.call_tool("count", &json!({"steps": 50})).unwrap();
            assert_eq!(text(&counted), "counted");
            client.close().unwrap();
        }
        // An address has certificates, too.
        let url = format!("https://{address}/mcp");
        let client = Options::new(speaks(only(Era::Modern))).tls(trust()).connect_url(&url);
        echo(&mut client.unwrap(), "hello");
    });
}

#[test]
fn bytes_may_come_one_by_one() {
    against(with_tls, |address| {
        let between = Between::new(address, 1);
        let mut client = connect(between.address, Era::Legacy).unwrap();
        echo(&mut client, &"slowly".repeat(1000));
        client.close().unwrap();
    });
}

#[test]
fn certificates_that_do_not_fit_are_named() {
    for (chain, why) in [
        (&certificate!("other")[..], "it is for other.example, *.other.example, not for localhost"),
        (certificate!("expired"), "it has expired "),
        (certificate!("unknown"), "its issuer is not among the root certificates that are trusted here"),
    ] {
        against(
            move |server| server.tls(shows(chain)),
            move |address| {
                let error = connect(address, Era::Modern).unwrap_err().to_string();
                let told = format!("the certificate of localhost is not accepted: {why}");
                assert!(error.contains(&told), "{error}");
            },
        );
    }
}

#[test]
fn who_speaks_no_tls_does_no_harm() {
    against(with_tls, |address| {
        let mut client = connect(address, Era::Modern).unwrap();
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(DEADLINE)).unwrap();
        plain.write_all(NOWHERE).unwrap();
        let mut answer = Vec::new();
        // An alert at most; then the end, or that what was sent was not read.
        let _ = plain.read_to_end(&mut answer);
        assert!(answer.len() < 20 && !answer.starts_with(b"HTTP"), "{answer:?}");
        let url = format!("http://{address}/mcp");
        assert!(Options::new(speaks(only(Era::Modern))).connect_url(&url).unwrap_err().is_closed());
        echo(&mut client, "still there");
    });
    against(
        |plain| plain,
        |address| {
            let error = connect(address, Era::Modern).unwrap_err().to_string();
            assert!(error.contains("the server does not speak TLS at localhost"), "{error}");
        },
    );
}

// covers: SEC-018
#[test]
fn a_handshake_takes_no_longer_than_a_head() {
    let hasty = |server: HttpServer<Tools>| {
        let mut limits = Limits::default();
        limits.head_timeout = Duration::from_millis(200);
        with_tls(server.connection_limits(limits))
    };
    against(hasty, |address| {
        // Nothing at all, and the beginning of a record.
        let mut slow = [&b""[..], &[22, 3, 1, 2]].map(|beginning| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(beginning).unwrap();
            stream
        });
        for stream in &mut slow {
            // The end of TLS at most, and the end.
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            assert!(end.is_ok_and(|n| n < 20), "{rest:?}");
        }
        echo(&mut connect(address, Era::Modern).unwrap(), "others are served");
    });
    // The other way round: nobody answers the client.
    in_time(|| {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}/mcp", silent.local_addr().unwrap().port());
        let error = Options::new(short_client()).tls(trust()).connect_url(&url).unwrap_err();
        assert!(error.is_closed(), "{error}");
    });
}

#[test]
fn a_reset_within_a_record_ends_one_call() {
    against(with_tls, |address| {
        let between = Between::new(address, 1000);
        let mut client = connect(between.address, Era::Modern).unwrap();
        let long = "x".repeat(50_000);
        echo(&mut client, &long);
        between.left.store(10_000, Ordering::SeqCst);
        let error = client.call_tool("echo", &json!({"text": long})).unwrap_err();
        assert!(error.to_string().contains("the connection to localhost broke: "), "{error}");
        assert!(matches!(error, Error::Call(_)), "{error:?}");
        between.left.store(i64::MAX, Ordering::SeqCst);
        echo(&mut client, &long);
        // A client that does so loses nobody else's connection.
        let mut half = by_hand(address);
        send(&mut half, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n12");
        half.socket().reset_when_dropped().unwrap();
        drop(half);
        echo(&mut client, "hello");
    });
}

#[test]
fn a_hundred_connections_at_once() {
    let many = |server: HttpServer<Tools>| with_tls(server.max_connections(100));
    against(many, |address| {
        let mut all: Vec<Transport> = (0..100).map(|_| by_hand(address)).collect();
        // Handshakes begin before others have ended.
        for stream in &mut all {
            stream.handshake().unwrap();
        }
        for _ in 0..2 {
            assert!(all.iter_mut().all(is_served));
        }
        assert!(all.iter().all(|stream| !stream.is_pending() && stream.is_flushed()));
    });
}

// covers: HTTP-009
#[test]
fn a_server_ends_tls_before_it_closes() {
    against(with_tls, |address| {
        let mut stream = by_hand(address);
        send(&mut stream, LAST);
        while !receive(&mut stream).unwrap().is_empty() {}

        // A long answer arrives to its end, however late it is read and though the client has ended its side before.
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let text = "slowly".repeat(1 << 20);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}},"_meta":{meta}}}}}"#
        );
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = by_hand(address);
        send(&mut stream, head.as_bytes());
        send(&mut stream, body.as_bytes());
        stream.shutdown_write().unwrap();
        // So that the server has said all that it can when the first byte is read.
        stream.wait(Interest::READ, Some(DEADLINE)).unwrap();
        thread::sleep(Duration::from_millis(300));
        let mut answer = 0;
        loop {
            match receive(&mut stream).unwrap().len() {
                0 => break,
                n => answer += n,
            }
        }
        assert!(answer > text.len(), "{answer}");

        // A client that ends its side and not TLS: what it has asked is answered.
        let socket = TcpStream::connect(address).unwrap();
        let half = socket.try_clone().unwrap();
        let mut stream = trust().connect(Socket::tcp(socket).unwrap(), "localhost").unwrap();
        send(&mut stream, NOWHERE);
        half.shutdown(Shutdown::Write).unwrap();
        assert!(receive(&mut stream).unwrap().starts_with(b"HTTP/1.1 404 "));
    });
}

/// A server that says how long its answers are by ending the connection, with the end of TLS or without it
fn ends(orderly: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream =
                shows(certificate!("server")).accept(Socket::tcp(stream.unwrap()).unwrap()).unwrap();
            let mut request = Vec::new();
            // All of our client's bodies are objects.
            while !request.ends_with(b"}") && !request.starts_with(b"GET") && !request.starts_with(b"DELETE")
            {
                match receive(&mut stream) {
                    Ok(bytes) if !bytes.is_empty() => request.extend(bytes),
                    _ => break,
                }
            }
            let request = String::from_utf8(request).unwrap();
            if let Some((_, id)) = request.split_once(r#""id":"#).filter(|_| request.contains("initialize\""))
            {
                let id: String = id.chars().take_while(|c| !",}".contains(*c)).collect();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\
                     {{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{}},\"serverInfo\":{{\"name\":\"s\",\
                     \"version\":\"1\"}}}}}}"
                );
                send(&mut stream, answer.as_bytes());
                if orderly {
                    stream.close();
                }
            } else if request.starts_with("POST") {
                send(&mut stream, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
            } else if !request.is_empty() {
                send(&mut stream, b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    address
}

#[test]
fn an_answer_that_was_cut_off_is_none() {
    in_time(|| {
        connect(ends(true), Era::Legacy).unwrap();
        let error = connect(ends(false), Era::Legacy).unwrap_err().to_string();
        assert!(
            error.contains("the connection to localhost was cut off: TLS did not end as it should"),
            "{error}"
        );
    });
}

/// Another implementation of TLS; none where its program is not there
fn other(program: &str, arguments: &[&str]) -> Option<std::process::Child> {
    let mut command = Command::new(program);
    match command.args(arguments).stdout(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

/// A certificate's file
fn path(name: &str) -> String {
    format!("{}/../std/tests/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn other_clients_of_tls_are_served() {
    const SCRIPT: &str = r#"
        const https = require("https"), fs = require("fs");
        const [port, root] = process.argv.slice(1);
        const agent = new https.Agent({ca: fs.readFileSync(root), keepAlive: true, maxSockets: 1});
        let left = 3;
        const ask = () => https.get({port, host: "localhost", path: "/nowhere", agent, family: 4}, answer => {
            console.log(answer.statusCode, answer.socket.getProtocol());
            answer.resume();
            answer.on("end", () => {
                if (--left) setImmediate(ask); else agent.destroy();
            });
        });
        ask();
    "#;
    against(with_tls, |address| {
        let port = address.port().to_string();
        let Some(node) = other("node", &["-e", SCRIPT, &port, &path("root")]) else { return };
        let said = String::from_utf8(node.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(said, "404 TLSv1.3\n".repeat(3));
    });
    const OLD: &str = "
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.maximum_version = ssl.TLSVersion.TLSv1_2
connection = http.client.HTTPSConnection('localhost', int(sys.argv[1]), context=context)
for _ in range(3):
    connection.request('GET', '/nowhere')
    print(connection.getresponse().status, connection.sock and connection.sock.version())
    connection.close()
";
    against(with_tls, |address| {
        let port = address.port().to_string();
        let Some(python) = other("python3", &["-c", OLD, &port, &path("root")]) else { return };
        let said = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(said, "404 TLSv1.2\n".repeat(3));
    });
}

#[test]
fn other_servers_of_tls_are_spoken_to() {
    const SCRIPT: &str = r#"
        const https = require("https"), fs = require("fs");
        const [cert, key] = process.argv.slice(1).map(path => fs.readFileSync(path));
        const server = https.createServer({cert, key}, (request, answer) => {
            let body = "";
            request.on("data", data => body += data);
            request.on("end", () => {
                const {id, method, params} = JSON.parse(body || "{}");
                if (request.method !== "POST") return answer.writeHead(405).end();
                if (id === undefined) return answer.writeHead(202).end();
                const result = method === "initialize"
                    ? {protocolVersion: "2025-11-25", capabilities: {tools: {}}, serverInfo: {name: "n", version: "1"}}
                    : {content: [{type: "text", text: params.arguments.text}]};
                answer.writeHead(200, {"Content-Type": "application/json"});
                answer.end(JSON.stringify({jsonrpc: "2.0", id, result}));
            });
        });
        server.listen(0, "127.0.0.1", () => console.log(server.address().port));
    "#;
    in_time(|| {
        let Some(mut node) = other("node", &["-e", SCRIPT, &path("server"), &path("key")]) else { return };
        let mut port = Vec::new();
        let mut said = node.stdout.take().unwrap();
        while !port.ends_with(b"\n") {
            let mut byte = [0];
            assert_eq!(said.read(&mut byte).unwrap(), 1, "it listens");
            port.extend(byte);
        }
        let port = String::from_utf8(port).unwrap().trim().parse().unwrap();
        let outcome = std::panic::catch_unwind(|| {
            let mut client = connect(SocketAddr::from(([127, 0, 0, 1], port)), Era::Legacy).unwrap();
            echo(&mut client, "hello");
            echo(&mut client, &"a long one ".repeat(200_000));
            client.close().unwrap();
        });
        node.kill().unwrap();
        node.wait().unwrap();
        outcome.unwrap();
    });
}

#[test]
fn a_configuration_of_ones_own_is_used() {
    use mcp_blocking::tls::rustls::crypto::ring;
    use mcp_blocking::tls::rustls::pki_types::CertificateDer;
    use mcp_blocking::tls::rustls::pki_types::pem::PemObject;
    use mcp_blocking::tls::rustls::{ClientConfig, RootCertStore, version};
    against(with_tls, |address| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate!("root")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
        let builder = builder.with_protocol_versions(&[&version::TLS12]).unwrap();
        let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
        let url = format!("https://{address}/mcp");
        let begun = Instant::now();
        let mut client = Options::new(speaks(only(Era::Modern))).tls(config).connect_url(&url).unwrap();
        echo(&mut client, &"over TLS 1.2 ".repeat(100_000));
        assert!(begun.elapsed() < DEADLINE);
    });
}
