//! HTTP over TLS on real sockets: both of our ends, foreign ends, and a proxy in between.
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

use crate::support::{
    DEADLINE, ERAS, Tools, client_config, server_config, short_client, text, version_set, with_timeout,
};
use mcp_blocking::tls::rustls::pki_types::pem::PemObject as _;
use mcp_blocking::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use mcp_blocking::tls::rustls::server::WebPkiClientVerifier;
use mcp_blocking::tls::rustls::{self, RootCertStore};
use mcp_blocking::tls::{ClientTls, ServerTls};
use mcp_blocking::{Client, Error, HttpServer, Options};
use mcp_proto::Era;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::Config as Http;
use mcp_proto::server::ConnectionInfo;
use mcp_std::NetStream;
use mcp_std::io::{Duplex, Interest, Socket};
use mcp_std::poll::Selector;
use serde_json::json;

macro_rules! certificate {
    ($name:literal) => {
        include_bytes!(concat!("../../std/tests/certificates/", $name, ".pem"))
    };
}

fn server_tls(chain: &[u8]) -> ServerTls {
    ServerTls::from_pem(chain, certificate!("key")).unwrap()
}

fn client_tls() -> ClientTls {
    ClientTls::without_system_roots().root_pem(certificate!("root")).unwrap()
}

/// Runs `client` against a server, and shuts the server down afterwards.
fn with_tls_server(
    configure: impl FnOnce(HttpServer<Tools>) -> HttpServer<Tools> + Send + 'static,
    client: impl FnOnce(SocketAddr) + Send + 'static,
) {
    with_timeout(move || {
        let (started, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let bound = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0);
            let mut server = configure(bound.unwrap());
            started.send(server.address().unwrap()).unwrap();
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

fn add_tls(server: HttpServer<Tools>) -> HttpServer<Tools> {
    server.tls(server_tls(certificate!("server")))
}

fn connect(address: SocketAddr, era: Era) -> Result<Client, Error> {
    let url = format!("https://localhost:{}/mcp", address.port());
    Options::new(client_config(version_set(era))).tls(client_tls()).connect_url(&url)
}

fn check_echo(client: &mut Client, output: &str) {
    assert!(text(&client.call_tool("echo", &json!({"text": output})).unwrap()) == output);
}

/// Opens a TLS connection without an HTTP client.
fn connect_raw(address: SocketAddr) -> NetStream {
    let socket = Socket::tcp(TcpStream::connect(address).unwrap()).unwrap();
    NetStream::connect_tls(&client_tls(), socket, "localhost").unwrap()
}

fn send(stream: &mut NetStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        stream.wait(Interest::BOTH, Some(Duration::from_millis(100))).unwrap();
    }
    stream.flush(DEADLINE).unwrap();
}

/// Reads the next bytes.
///
/// # Panics
///
/// Panics if none arrive within [`DEADLINE`].
fn receive(stream: &mut NetStream) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(n) => return Ok(buffer[..n].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(
                    stream.wait(Interest::READ, Some(DEADLINE)).unwrap().readable,
                    "no byte arrived before the deadline"
                );
            }
            Err(error) => return Err(error),
        }
    }
}

const NOT_FOUND_REQUEST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CLOSING_REQUEST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn is_served(stream: &mut NetStream) -> bool {
    send(stream, NOT_FOUND_REQUEST);
    receive(stream).is_ok_and(|bytes| bytes.starts_with(b"HTTP/1.1 404 "))
}

/// A proxy that forwards chunks of a given size between a client and a server.
struct ChunkingProxy {
    address: SocketAddr,
    /// Bytes from the server before the proxy resets both connections.
    remaining: Arc<AtomicI64>,
}

impl ChunkingProxy {
    fn new(server: SocketAddr, chunk: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counted = Arc::clone(&left);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                let left = Arc::clone(&counted);
                thread::spawn(move || proxy_direction(near, far, chunk, &left));
            }
        });
        Self { address, remaining: left }
    }
}

fn proxy_direction(near: TcpStream, far: TcpStream, chunk: usize, left: &AtomicI64) {
    let mut ends = [Socket::tcp(near).unwrap(), Socket::tcp(far).unwrap()];
    let (mut selector, mut found, mut open) = (Selector::new().unwrap(), Vec::new(), [true; 2]);
    for (token, end) in (0..).zip(&ends) {
        selector.add(end, token, Interest::READ).unwrap();
    }
    let mut buffer = vec![0; chunk];
    while open != [false; 2] {
        selector.wait(None, &mut found).unwrap();
        for from in found.iter().map(|(token, _)| usize::try_from(*token).unwrap()) {
            let mut limit = chunk;
            if from == 1 {
                limit = usize::try_from(left.load(Ordering::SeqCst)).unwrap_or(0).min(chunk);
                if limit == 0 {
                    ends.iter().for_each(|end| end.set_reset_on_drop().unwrap());
                    return;
                }
            }
            match ends[from].read(&mut buffer[..limit]) {
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
fn client_operations_work_over_tls() {
    with_tls_server(add_tls, |address| {
        for era in ERAS {
            let mut client = connect(address, era).unwrap();
            assert_eq!(client.peer().era(), era);
            check_echo(&mut client, "hello");
            // More than any buffer holds, in both directions.
            check_echo(&mut client, &"0123456789abcdef".repeat(3 << 16));
            let counted = client.call_tool("count", &json!({"steps": 50})).unwrap();
            assert_eq!(text(&counted), "counted");
            client.close().unwrap();
        }
        // Certificates are valid for addresses too.
        let url = format!("https://{address}/mcp");
        let client =
            Options::new(client_config(version_set(Era::Modern))).tls(client_tls()).connect_url(&url);
        check_echo(&mut client.unwrap(), "hello");
    });
}

#[test]
fn single_bytes_are_reassembled() {
    with_tls_server(add_tls, |address| {
        let proxy = ChunkingProxy::new(address, 1);
        let mut client = connect(proxy.address, Era::Legacy).unwrap();
        check_echo(&mut client, &"slowly".repeat(1000));
        client.close().unwrap();
    });
}

#[test]
fn unacceptable_certificate_is_explained() {
    for (chain, why) in [
        (&certificate!("other")[..], "it is for other.example, *.other.example, not for localhost"),
        (certificate!("expired"), "it has expired "),
        (certificate!("unknown"), "its issuer is not among the root certificates that are trusted here"),
    ] {
        with_tls_server(
            move |server| server.tls(server_tls(chain)),
            move |address| {
                let error = connect(address, Era::Modern).unwrap_err().to_string();
                let message = format!("the certificate of localhost is not accepted: {why}");
                assert!(error.contains(&message), "{error}");
            },
        );
    }
}

#[test]
fn plain_text_peer_affects_only_its_connection() {
    with_tls_server(add_tls, |address| {
        let mut client = connect(address, Era::Modern).unwrap();
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(DEADLINE)).unwrap();
        plain.write_all(NOT_FOUND_REQUEST).unwrap();
        let mut answer = Vec::new();
        // At most an alert arrives, then the end or a reset.
        let _ = plain.read_to_end(&mut answer);
        assert!(answer.len() < 20 && !answer.starts_with(b"HTTP"), "{answer:?}");
        let url = format!("http://{address}/mcp");
        assert!(
            Options::new(client_config(version_set(Era::Modern))).connect_url(&url).unwrap_err().is_closed()
        );
        check_echo(&mut client, "still there");
    });
    with_tls_server(
        |plain| plain,
        |address| {
            let error = connect(address, Era::Modern).unwrap_err().to_string();
            assert!(error.contains("the server does not speak TLS at localhost"), "{error}");
        },
    );
}

/// Returns the certificates of a PEM file.
fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap()
}

#[test]
fn callback_of_connections_sees_certificate_of_client() {
    let roots = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(certificate!("root")));
        roots
    };
    let key = || PrivateKeyDer::from_pem_slice(certificate!("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots()), provider.clone())
        .allow_unauthenticated();
    let config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(certificates(certificate!("server")), key())
        .unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots())
        .with_client_auth_cert(certificates(certificate!("client")), key())
        .unwrap();
    let (sender, seen) = mpsc::channel();
    let record = move |info: ConnectionInfo| {
        let chain: Vec<Vec<u8>> = info.certificates().map(<[u8]>::to_vec).collect();
        sender.send((chain, info.peer().is_some())).unwrap();
        info
    };
    let configure =
        move |server: HttpServer<Tools>| server.tls(ServerTls::from(Arc::new(config))).on_connect(record);
    with_tls_server(configure, move |address| {
        let url = format!("https://localhost:{}/mcp", address.port());
        let expected = certificates(certificate!("client"));
        let expected: Vec<Vec<u8>> = expected.iter().map(|certificate| certificate.to_vec()).collect();
        for (tls, expected) in [(ClientTls::from(Arc::new(client)), expected), (client_tls(), Vec::new())] {
            let options = Options::new(client_config(version_set(Era::Modern))).tls(tls);
            let mut client = options.connect_url(&url).unwrap();
            check_echo(&mut client, "hello");
            assert_eq!(seen.recv_timeout(DEADLINE).unwrap(), (expected, true));
            client.close().unwrap();
            while seen.try_recv().is_ok() {}
        }
    });
}

// covers: SEC-018
#[test]
fn handshake_ends_at_head_timeout() {
    let with_short_timeout = |server: HttpServer<Tools>| {
        let mut limits = HttpLimits::default();
        limits.head_timeout = Duration::from_secs(2);
        add_tls(server.connection_limits(limits))
    };
    with_tls_server(with_short_timeout, |address| {
        // No byte at all, and the beginning of a record.
        let mut slow = [&b""[..], &[22, 3, 1, 2]].map(|beginning| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(beginning).unwrap();
            stream
        });
        for stream in &mut slow {
            // At most a close_notify alert arrives, then the end.
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            assert!(end.is_ok_and(|n| n < 20), "{rest:?}");
        }
        check_echo(&mut connect(address, Era::Modern).unwrap(), "others are served");
    });
    // A client whose handshake is never answered.
    with_timeout(|| {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}/mcp", silent.local_addr().unwrap().port());
        let error = Options::new(short_client()).tls(client_tls()).connect_url(&url).unwrap_err();
        assert!(error.is_closed(), "{error}");
    });
}

#[test]
#[cfg_attr(windows, ignore = "Wine ends the stream before it resets the connection")]
fn reset_within_record_fails_one_call() {
    with_tls_server(add_tls, |address| {
        let proxy = ChunkingProxy::new(address, 1000);
        let mut client = connect(proxy.address, Era::Modern).unwrap();
        let long = "x".repeat(50_000);
        check_echo(&mut client, &long);
        proxy.remaining.store(10_000, Ordering::SeqCst);
        let error = client.call_tool("echo", &json!({"text": long})).unwrap_err();
        assert!(error.to_string().contains("the connection to localhost broke: "), "{error}");
        assert!(matches!(error, Error::Call(_)), "{error:?}");
        proxy.remaining.store(i64::MAX, Ordering::SeqCst);
        check_echo(&mut client, &long);
        // A reset by one client does not affect other connections.
        let mut half = connect_raw(address);
        send(&mut half, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n12");
        half.socket().set_reset_on_drop().unwrap();
        drop(half);
        check_echo(&mut client, "hello");
    });
}

#[test]
fn hundred_handshakes_overlap() {
    let many = |server: HttpServer<Tools>| add_tls(server.max_connections(100));
    with_tls_server(many, |address| {
        let mut all: Vec<NetStream> = (0..100).map(|_| connect_raw(address)).collect();
        // Each handshake begins before the previous ones have ended.
        for stream in &mut all {
            stream.handshake().unwrap();
        }
        for _ in 0..2 {
            assert!(all.iter_mut().all(is_served));
        }
        assert!(all.iter().all(|stream| !stream.has_pending_read() && stream.is_flushed()));
    });
}

// covers: HTTP-009
#[test]
fn server_sends_close_notify_before_closing() {
    with_tls_server(add_tls, |address| {
        let mut stream = connect_raw(address);
        send(&mut stream, CLOSING_REQUEST);
        while !receive(&mut stream).unwrap().is_empty() {}

        // A long response arrives completely, however late the client reads, and although it has closed its write
        // direction.
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
        let mut stream = connect_raw(address);
        send(&mut stream, head.as_bytes());
        send(&mut stream, body.as_bytes());
        stream.shutdown_write().unwrap();
        // The server has written all that it can before the client reads the first byte.
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

        // A client that closes its socket without close_notify still gets its response.
        let socket = TcpStream::connect(address).unwrap();
        let half = socket.try_clone().unwrap();
        let mut stream =
            NetStream::connect_tls(&client_tls(), Socket::tcp(socket).unwrap(), "localhost").unwrap();
        send(&mut stream, NOT_FOUND_REQUEST);
        half.shutdown(Shutdown::Write).unwrap();
        assert!(receive(&mut stream).unwrap().starts_with(b"HTTP/1.1 404 "));
    });
}

/// Starts a server that delimits responses by closing, with close_notify (`orderly`) or without it.
fn closing_server(orderly: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = NetStream::accept_tls(
                &server_tls(certificate!("server")),
                Socket::tcp(stream.unwrap()).unwrap(),
            )
            .unwrap();
            let mut request = Vec::new();
            // All request bodies of the client are objects.
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
fn truncated_response_is_an_error() {
    with_timeout(|| {
        connect(closing_server(true), Era::Legacy).unwrap();
        let error = connect(closing_server(false), Era::Legacy).unwrap_err().to_string();
        assert!(
            error.contains("the connection to localhost was cut off: TLS ended without close_notify"),
            "{error}"
        );
    });
}

/// Starts a foreign TLS implementation. Returns `None` if the program is not installed.
fn spawn_program(program: &str, arguments: &[&str]) -> Option<std::process::Child> {
    let mut command = Command::new(program);
    match command.args(arguments).stdout(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Returns the path of a certificate.
fn certificate_path(name: &str) -> String {
    format!("{}/../std/tests/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn foreign_tls_clients_are_served() {
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
    with_tls_server(add_tls, |address| {
        let port = address.port().to_string();
        let Some(node) = spawn_program("node", &["-e", SCRIPT, &port, &certificate_path("root")]) else {
            return;
        };
        let output = String::from_utf8(node.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(output, "404 TLSv1.3\n".repeat(3));
    });
    const LEGACY_SCRIPT: &str = "
import http.client, socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.maximum_version = ssl.TLSVersion.TLSv1_2
connection = http.client.HTTPSConnection('localhost', int(sys.argv[1]), context=context)
# The server is there whatever address the name has.
connection._create_connection = lambda at, *rest: socket.create_connection(('127.0.0.1', at[1]), *rest)
for _ in range(3):
    connection.request('GET', '/nowhere')
    print(connection.getresponse().status, connection.sock and connection.sock.version())
    connection.close()
";
    with_tls_server(add_tls, |address| {
        let port = address.port().to_string();
        let Some(python) = spawn_program("python3", &["-c", LEGACY_SCRIPT, &port, &certificate_path("root")])
        else {
            return;
        };
        let output = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(output, "404 TLSv1.2\n".repeat(3));
    });
}

#[test]
fn foreign_tls_server_is_usable() {
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
    with_timeout(|| {
        let Some(mut node) =
            spawn_program("node", &["-e", SCRIPT, &certificate_path("server"), &certificate_path("key")])
        else {
            return;
        };
        let mut port = Vec::new();
        let mut output = node.stdout.take().unwrap();
        while !port.ends_with(b"\n") {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "the server prints its port");
            port.extend(byte);
        }
        let port = String::from_utf8(port).unwrap().trim().parse().unwrap();
        let outcome = std::panic::catch_unwind(|| {
            let mut client = connect(SocketAddr::from(([127, 0, 0, 1], port)), Era::Legacy).unwrap();
            check_echo(&mut client, "hello");
            check_echo(&mut client, &"a long one ".repeat(200_000));
            client.close().unwrap();
        });
        node.kill().unwrap();
        node.wait().unwrap();
        outcome.unwrap();
    });
}

#[test]
fn custom_rustls_configuration_is_used() {
    use mcp_blocking::tls::rustls::crypto::ring;
    use mcp_blocking::tls::rustls::pki_types::CertificateDer;
    use mcp_blocking::tls::rustls::pki_types::pem::PemObject;
    use mcp_blocking::tls::rustls::{ClientConfig, RootCertStore, version};
    with_tls_server(add_tls, |address| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate!("root")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
        let builder = builder.with_protocol_versions(&[&version::TLS12]).unwrap();
        let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
        let url = format!("https://{address}/mcp");
        let begun = Instant::now();
        let mut client =
            Options::new(client_config(version_set(Era::Modern))).tls(config).connect_url(&url).unwrap();
        check_echo(&mut client, &"over TLS 1.2 ".repeat(100_000));
        assert!(begun.elapsed() < DEADLINE);
    });
}
