//! Both ends of TLS in one thread, over pipes in memory.

use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

use super::*;
use crate::io::{Duplex, MemoryEnd, memory_pair};
use crate::poll::{Interest, Ready};

const ROOT: &[u8] = include_bytes!("../../tests/certificates/root.pem");
const SERVER: &[u8] = include_bytes!("../../tests/certificates/server.pem");
const OTHER: &[u8] = include_bytes!("../../tests/certificates/other.pem");
const EXPIRED: &[u8] = include_bytes!("../../tests/certificates/expired.pem");
const UNKNOWN: &[u8] = include_bytes!("../../tests/certificates/unknown.pem");
const KEY: &[u8] = include_bytes!("../../tests/certificates/key.pem");

/// The key of no certificate here, of another kind.
const OTHER_KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";

macro_rules! certificate {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/certificates/", $name, ".pem"))
    };
}

fn trust() -> ClientTls {
    ClientTls::without_system_roots().root_pem(ROOT).unwrap()
}

fn client(stream: MemoryEnd, host: &str) -> TlsStream<MemoryEnd> {
    client_that_trusts(&trust(), stream, host)
}

fn server(stream: MemoryEnd, chain: &[u8]) -> TlsStream<MemoryEnd> {
    server_with_key(stream, chain, KEY, rustls::DEFAULT_VERSIONS)
}

/// Creates a server that presents any chain with any key, whether they fit or not.
fn server_with_key(
    stream: MemoryEnd,
    chain: &[u8],
    key: &[u8],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsStream<MemoryEnd> {
    let key = ring::sign::any_supported_type(&PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key));
    let config = ServerConfig::builder_with_provider(ring::default_provider().into());
    let config = config.with_protocol_versions(versions).unwrap().with_no_client_auth();
    let tls = ServerTls::from(Arc::new(config.with_cert_resolver(Arc::new(resolver))));
    TlsStream::new(stream, tls.connection().unwrap().into(), None)
}

/// Creates a client and a server after their handshake.
fn connected(capacity: usize) -> (TlsStream<MemoryEnd>, TlsStream<MemoryEnd>) {
    let (near, far) = memory_pair(capacity);
    let (mut client, mut server) = (client(near, "localhost"), server(far, SERVER));
    while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
    (client, server)
}

/// Returns the error of a client for `host` on a server with this certificate chain.
fn handshake_error(host: &str, chain: &[u8]) -> io::Error {
    handshake_error_of(&trust(), host, chain)
}

fn client_that_trusts(trust: &ClientTls, stream: MemoryEnd, host: &str) -> TlsStream<MemoryEnd> {
    TlsStream::new(stream, trust.connection(host).unwrap().into(), Some(host.into()))
}

fn handshake_error_of(trust: &ClientTls, host: &str, chain: &[u8]) -> io::Error {
    let (near, far) = memory_pair(1 << 16);
    let (mut client, mut server) = (client_that_trusts(trust, near, host), server(far, chain));
    let mut outcome = Ok(false);
    for _ in 0..9 {
        outcome = client.handshake();
        let server_outcome = server.handshake();
        if outcome.is_err() {
            // The server gets the alert and writes no data.
            assert!(
                server_outcome
                    .unwrap_err()
                    .to_string()
                    .starts_with("TLS with the client failed: received fatal alert")
            );
            assert!(server.write(b"secret").is_err());
            break;
        }
    }
    assert_eq!(client.read(&mut [0; 9]).unwrap_err().to_string(), outcome.as_ref().unwrap_err().to_string());
    outcome.unwrap_err()
}

/// Reads what is available and returns whether that was the end.
fn gather(stream: &mut TlsStream<MemoryEnd>, all: &mut Vec<u8>, piece: usize) -> io::Result<bool> {
    let mut buf = vec![0; piece];
    match stream.read(&mut buf) {
        Ok(n) => {
            all.extend_from_slice(&buf[..n]);
            Ok(n == 0)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn offer(stream: &mut TlsStream<MemoryEnd>, left: &mut &[u8]) {
    match stream.write(left) {
        Ok(n) => *left = &left[n..],
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

#[test]
fn tls_carries_bytes_both_ways_for_any_buffer_size() {
    // Pipes of one byte; buffers smaller and larger than a record.
    for (capacity, length, piece) in [(1, 20_000, 7), (100, 100_000, 1000), (1 << 16, 3 << 20, 1 << 16)] {
        let (mut client, mut server) = connected(capacity);
        let (up, down) = (noise(length), noise(length + 1));
        let (mut left_up, mut left_down) = (&*up, &*down);
        let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
        let mut ended = (false, false);
        while ended != (true, true) {
            for (stream, left, got, ended) in [
                (&mut client, &mut left_up, &mut got_down, &mut ended.0),
                (&mut server, &mut left_down, &mut got_up, &mut ended.1),
            ] {
                if left.is_empty() {
                    stream.shutdown_write().unwrap();
                } else {
                    offer(stream, left);
                }
                *ended = *ended || gather(stream, got, piece).unwrap();
            }
        }
        assert!(got_up == up && got_down == down, "{} and {}", got_up.len(), got_down.len());
        assert_eq!(client.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn tls_write_buffers_a_bounded_amount() {
    let (mut client, mut server) = connected(1000);
    let all = noise(1 << 20);
    let taken = client.write(&all).unwrap();
    assert!((16 << 10..=32 << 10).contains(&taken) && !client.is_flushed(), "{taken}");
    assert_eq!(client.write(&all).unwrap_err().kind(), ErrorKind::WouldBlock);
    // TLS itself has bytes to write.
    assert_eq!(client.interest(Interest::READ), Interest::BOTH);
    client.shutdown_write().unwrap();
    let mut got = Vec::new();
    while !gather(&mut server, &mut got, 1 << 16).unwrap() {
        // No write follows: waiting sends the rest.
        client.wait(Interest::READ, Some(Duration::ZERO)).unwrap();
    }
    assert!(got == all[..taken] && client.is_flushed());
    assert_eq!(client.interest(Interest::READ), Interest::READ);
    client.flush(Duration::ZERO).unwrap();
}

#[test]
fn wait_returns_at_once_while_decrypted_bytes_are_left() {
    let (mut client, mut server) = connected(1 << 16);
    server.write(&noise(3000)).unwrap();
    assert!(!client.has_pending_read());
    client.read(&mut [0; 1000]).unwrap();
    assert!(client.has_pending_read());
    assert!(client.wait(Interest::READ, None).unwrap().readable);
    assert_eq!(client.read(&mut [0; 5000]).unwrap(), 2000);
    assert!(!client.has_pending_read());
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // The same for an end that arrived together with bytes.
    server.write(b"end").unwrap();
    server.shutdown_write().unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 3);
    assert!(client.wait(Interest::READ, None).unwrap().readable);
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn tls_end_is_distinguished_from_truncation() {
    let (mut client, mut server) = connected(1 << 16);
    server.write(b"all of it").unwrap();
    server.shutdown_write().unwrap();
    let mut got = Vec::new();
    while !gather(&mut client, &mut got, 4).unwrap() {}
    assert_eq!(got, b"all of it");
    // The other direction continues (RFC 8446, section 6.1).
    client.write(b"thanks").unwrap();
    assert_eq!(server.read(&mut [0; 9]).unwrap(), 6);

    // Truncation between two records, and within one that does not fit into the pipe.
    for (length, expected) in [(50, 50), (100, 0)] {
        let (mut client, mut server) = connected(100);
        let mut got = Vec::new();
        while !server.is_flushed() {
            // Session tickets.
            server.flush_records().unwrap();
            assert!(!gather(&mut client, &mut got, 99).unwrap());
        }
        assert!(!gather(&mut client, &mut got, 99).unwrap());
        server.write(&noise(length)).unwrap();
        drop(server);
        while got.len() < expected {
            assert!(!gather(&mut client, &mut got, 99).unwrap());
        }
        for _ in 0..2 {
            let error = client.read(&mut [0; 99]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            assert_eq!(
                error.to_string(),
                "the connection to localhost was cut off: TLS ended without close_notify"
            );
        }
    }
}

/// A stream whose writes fail when the flag is set, and which tells nothing to a reader.
struct Unwritable(MemoryEnd, Arc<AtomicBool>);

impl Duplex for Unwritable {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.load(Ordering::Relaxed) { Err(io::Error::other("no way out")) } else { self.0.write(bytes) }
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }
}

#[test]
fn failed_write_is_told_to_whoever_waits_for_an_answer() {
    let is_unwritable = Arc::new(AtomicBool::new(false));
    let start = || {
        is_unwritable.store(false, Ordering::Relaxed);
        let (near, far) = memory_pair(1 << 16);
        let connection = trust().connection("localhost").unwrap();
        (
            TlsStream::new(
                Unwritable(near, is_unwritable.clone()),
                connection.into(),
                Some("localhost".into()),
            ),
            server(far, SERVER),
        )
    };
    let told = "the connection to localhost broke: no way out";
    let (mut client, mut server) = start();
    while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
    server.write(b"before").unwrap();
    is_unwritable.store(true, Ordering::Relaxed);
    // It was taken before the failure was known.
    assert_eq!(client.write(b"question").unwrap(), 8);
    let found = client.wait(Interest::READ, Some(Duration::from_secs(60))).unwrap();
    assert!(found.readable && client.has_pending_read());
    let mut buf = [0; 9];
    assert_eq!(client.read(&mut buf).unwrap(), 6);
    for _ in 0..2 {
        assert_eq!(client.read(&mut buf).unwrap_err().to_string(), told);
    }
    // A handshake whose first message cannot be sent fails at once.
    let (mut client, _server) = start();
    is_unwritable.store(true, Ordering::Relaxed);
    let error = client.handshake().unwrap_err().to_string();
    assert_eq!(error, "the connection to localhost broke during the TLS handshake: no way out");
}

#[test]
fn rejected_certificate_is_described() {
    let error_text = |host, chain| handshake_error(host, chain).to_string();
    assert_eq!(
        error_text("localhost", OTHER),
        "the certificate of localhost is not accepted: it is for other.example, *.other.example, not for localhost"
    );
    assert_eq!(
        error_text("127.0.0.2", SERVER),
        "the certificate of 127.0.0.2 is not accepted: it is for localhost, 127.0.0.1, 0::1, not for 127.0.0.2"
    );
    let expired = error_text("localhost", EXPIRED);
    assert!(
        expired.starts_with("the certificate of localhost is not accepted: it has expired ")
            && expired.ends_with(" days ago, by the clock of this machine"),
        "{expired}"
    );
    assert_eq!(
        error_text("localhost", UNKNOWN),
        "the certificate of localhost is not accepted: its issuer is not among the root certificates that are trusted \
         here, and no intermediate certificate came with it"
    );
    assert_eq!(
        error_text("localhost", certificate!("chain")),
        "the certificate of localhost is not accepted: its issuer is not among the root certificates that are trusted \
         here"
    );
    // Accepted: a name, a wildcard, and addresses of both kinds.
    for (host, chain) in [("a.other.example", OTHER), ("127.0.0.1", SERVER), ("::1", SERVER)] {
        let (near, far) = memory_pair(1 << 16);
        let (mut client, mut server) = (client(near, host), server(far, chain));
        while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
        assert_eq!(server.connection.alpn_protocol(), Some(ALPN_PROTOCOL));
    }
    assert!(trust().connection("no host").unwrap_err().to_string().contains("not a DNS name"));
}

#[test]
fn certificate_made_by_hand_is_named_by_its_kind() {
    let far = ClientTls::without_system_roots().root_pem(certificate!("far")).unwrap();
    for (trust, chain, expected) in [
        (
            trust(),
            &certificate!("own")[..],
            "it is the certificate of an authority (CA:TRUE, as `openssl req -x509` makes it), and is not itself trusted here",
        ),
        (trust(), certificate!("own_leaf"), "it is signed by itself, and is not itself trusted here"),
        (trust(), certificate!("old"), "it is of version 1 of X.509, which names no host"),
        (
            far.clone(),
            certificate!("cut"),
            "its issuer is not among the root certificates that are trusted here, and no intermediate certificate came with it",
        ),
        (
            far.clone(),
            certificate!("namesake_sha1"),
            "the algorithm of its signature is not accepted here (SHA-1 is one of these)",
        ),
    ] {
        let error = handshake_error_of(&trust, "localhost", chain).to_string();
        assert_eq!(error, format!("the certificate of localhost is not accepted: {expected}"));
    }
    let (near, far_end) = memory_pair(1 << 16);
    let (mut client, mut server) =
        (client_that_trusts(&far, near, "localhost"), server(far_end, certificate!("chain")));
    while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
}

#[test]
fn certificate_that_is_trusted_itself_is_accepted_for_its_names_and_its_time() {
    let only = |pem: &[u8]| ClientTls::without_system_roots().root_pem(pem).unwrap();
    for (name, pem) in [
        ("localhost", &certificate!("own")[..]),
        ("127.0.0.1", certificate!("own")),
        ("localhost", certificate!("own_leaf")),
        // Its issuer is unknown here.
        ("localhost", certificate!("unknown")),
        ("other.example", certificate!("own_other")),
        ("localhost", certificate!("own_server")),
        // Their issuer has the name that they have, and did not sign with this key, or by an old algorithm.
        ("localhost", certificate!("namesake")),
        ("localhost", certificate!("namesake_sha1")),
    ] {
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let (near, far) = memory_pair(1 << 16);
            let mut server = server_with_key(far, pem, KEY, versions);
            let mut client = client_that_trusts(&only(pem), near, name);
            while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
        }
    }
    for (trusted, host, chain, expected) in [
        // Another certificate for the same names and the same key.
        (&certificate!("own")[..], "localhost", &certificate!("own_again")[..], "CA:TRUE"),
        (certificate!("unknown"), "localhost", certificate!("own_leaf"), "signed by itself"),
        (
            certificate!("own_other"),
            "localhost",
            certificate!("own_other"),
            "it is for other.example, not for localhost",
        ),
        (certificate!("own"), "other.example", certificate!("own"), "not for other.example"),
        (certificate!("unknown"), "other.example", certificate!("unknown"), "not for other.example"),
        (certificate!("own_expired"), "localhost", certificate!("own_expired"), "it has expired "),
        (certificate!("expired"), "localhost", certificate!("expired"), "it has expired "),
        (certificate!("old"), "localhost", certificate!("old"), "version 1"),
        (certificate!("own_client"), "localhost", certificate!("own_client"), "lacks serverAuth"),
        (certificate!("client"), "client.example", certificate!("client"), "lacks serverAuth"),
    ] {
        let error = handshake_error_of(&only(trusted), host, chain).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// An expired certificate beside it in the chain is not looked at.
#[test]
fn trusted_certificate_is_accepted_whatever_the_others_of_its_chain_are() {
    let chain = [&certificate!("late")[..], certificate!("own_expired")].concat();
    let error = |trusted: &[u8], host: &str| {
        let trust = ClientTls::without_system_roots().root_pem(trusted).unwrap();
        let (near, far) = memory_pair(1 << 16);
        let (mut client, mut server) = (client_that_trusts(&trust, near, host), server(far, &chain));
        (0..9).find_map(|_| {
            let outcome = client.handshake();
            let _ = server.handshake();
            Some(outcome.err()?.to_string())
        })
    };
    assert_eq!(error(certificate!("late"), "localhost"), None);
    let other = error(certificate!("late"), "other.example").unwrap_or_default();
    assert!(other.contains("not for other.example"), "{other}");
    let untrusted = error(ROOT, "localhost").unwrap_or_default();
    assert!(untrusted.contains("it has expired "), "{untrusted}");
}

#[test]
fn trusted_certificate_is_worth_nothing_without_its_key() {
    let trust = ClientTls::without_system_roots().root_pem(certificate!("own")).unwrap();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let (near, far) = memory_pair(1 << 16);
        let mut client = client_that_trusts(&trust, near, "localhost");
        // It signs with a key of its own.
        let mut server = server_with_key(far, certificate!("own"), OTHER_KEY, versions);
        let mut outcome = Ok(false);
        for _ in 0..9 {
            outcome = client.handshake();
            let _ = server.handshake();
        }
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("localhost"), "{error}");
        assert!(client.write(b"secret").is_err());
    }
}

#[test]
fn peer_without_tls_is_reported() {
    let (near, mut plain) = memory_pair(1 << 16);
    let mut tls = client(near, "localhost");
    assert!(!tls.handshake().unwrap());
    plain.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let message = tls.handshake().unwrap_err().to_string();
    assert_eq!(message, "the server does not speak TLS at localhost: its URL may have to begin with http:");

    let (near, plain) = memory_pair(1 << 16);
    let mut tls = client(near, "localhost");
    assert!(!tls.handshake().unwrap());
    drop(plain);
    assert_eq!(
        tls.handshake().unwrap_err().to_string(),
        "localhost closed the connection during the TLS handshake"
    );

    let (near, mut plain) = memory_pair(1 << 16);
    let mut tls = server(near, SERVER);
    plain.write(b"POST /mcp HTTP/1.1\r\n\r\n").unwrap();
    let error = tls.read(&mut [0; 99]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(tls.is_flushed());
}

#[test]
fn unsupported_alpn_protocol_is_refused() {
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let chain = rustls::pki_types::pem::PemObject::pem_slice_iter(SERVER).collect::<Result<Vec<_>, _>>();
    let key = rustls::pki_types::pem::PemObject::from_pem_slice(KEY).unwrap();
    let mut config = builder.with_single_cert(chain.unwrap(), key).unwrap();
    config.alpn_protocols = [b"h2".to_vec()].into();
    let (near, far) = memory_pair(1 << 16);
    let given = ServerTls::from(Arc::new(config));
    let mut server = TlsStream::new(far, given.connection().unwrap().into(), None);
    let mut client = client(near, "localhost");
    assert!(!client.handshake().unwrap());
    server.handshake().unwrap_err();
    assert_eq!(client.handshake().unwrap_err().to_string(), "localhost does not speak HTTP/1.1 over TLS");
}

#[test]
fn tls_read_processes_a_bounded_number_of_records() {
    let (mut client, mut server) = connected(1 << 22);
    // Records of one byte each.
    for _ in 0..100_000 {
        client.write(b"x").unwrap();
    }
    let mut buf = vec![0; 1 << 20];
    let n = server.read(&mut buf).unwrap();
    assert!(n < 10_000 && server.has_pending_read(), "{n}");
    let mut all = n;
    while all < 100_000 {
        all += server.read(&mut buf).unwrap();
    }
    assert!(!server.has_pending_read());
}

#[test]
fn unusable_key_or_root_is_refused() {
    let error_text = |outcome: io::Result<ServerTls>| outcome.unwrap_err().to_string();
    assert_eq!(error_text(ServerTls::from_pem(b"", KEY)), "no PEM certificate found for the server");
    assert!(error_text(ServerTls::from_pem(SERVER, SERVER)).starts_with("no unencrypted PEM private key"));
    assert!(error_text(ServerTls::from_files("no such file", "x")).starts_with("no such file: "));
    assert_eq!(
        error_text(ServerTls::from_pem(certificate!("old"), KEY)),
        "cannot use the server's certificate and key: it is of version 1 of X.509, which names no host"
    );
    assert!(
        error_text(ServerTls::from_pem(SERVER, OTHER_KEY))
            .starts_with("cannot use the server's certificate and key: ")
    );
    let error_text = |outcome: io::Result<ClientTls>| outcome.unwrap_err().to_string();
    assert!(error_text(ClientTls::new().root_pem(KEY)).starts_with("no PEM certificate"));
    let no_roots = ClientTls::without_system_roots().connection("localhost").unwrap_err();
    assert_eq!(no_roots.kind(), ErrorKind::NotFound);
    let shown: String = format!("{:?} {:?}", trust(), ServerTls::from_pem(SERVER, KEY).unwrap());
    assert_eq!(shown, "ClientTls { system: false, roots: 1 } ServerTls { .. }");
}
