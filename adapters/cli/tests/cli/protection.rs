//! `serve --protect`: a server that requires tokens of an authorization server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcp_std::auth::ClientKey;
use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::support::probe;

const KEY: &str = include_str!("../../../std/tests/keys/p256.pem");
const PUBLIC: &str = include_str!("../../../std/tests/keys/p256.public");

/// An authorization server that publishes its metadata and its key.
struct Issuer(String);

impl Issuer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let issuer = url.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.expect("a connection"), &issuer);
            }
        });
        Self(url)
    }

    /// Returns a token for an audience.
    fn token(&self, audience: &str, scope: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": "one"});
        let claims = json!({"iss": self.0, "aud": audience, "sub": "ada", "scope": scope, "exp": now + 300});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let key = ClientKey::from_pem(KEY).expect("a key");
        let signature = key.sign(signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Answers one request of the server under test.
fn answer(mut stream: TcpStream, issuer: &str) {
    let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
    let line = lines.next().and_then(Result::ok).unwrap_or_default();
    // The rest of the head has to be read, so that closing loses nothing.
    while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
    let point = STANDARD.decode(PUBLIC.trim()).expect("Base64");
    let (x, y) = point[1..].split_at(32);
    let body = match line.split(' ').nth(1).unwrap_or_default() {
        "/.well-known/oauth-authorization-server" => {
            json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})
        }
        "/keys" => json!({"keys": [{
            "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)
        }]}),
        _ => Value::Null,
    };
    let (status, body) =
        if body.is_null() { ("404 Not Found", String::new()) } else { ("200 OK", body.to_string()) };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
    // The server may have given up.
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

/// Sends a request without a body and returns the response.
fn get(server: &ServingProcess, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

fn call(server: &ServingProcess, token: &str) -> crate::support::ProbeOutput {
    let header = format!("Authorization: Bearer {token}");
    probe(&["call", "echo", "--args", r#"{"text":"hi"}"#, &server.url, "--header", &header])
}

// covers: AUTH-004, AUTH-010, AUTH-019, AUTH-021, AUTH-051
#[test]
fn protected_server_accepts_tokens_for_its_url_alone() {
    let issuer = Issuer::new();
    for runtime in ["blocking", "threads", "smol"] {
        let scopes = ["--require-scope", "tools:use", "--require-scope", "read"];
        let server =
            ServingProcess::new(&[&["--protect", &issuer.0, "--runtime", runtime], &scopes[..]].concat());
        call(&server, &issuer.token(&server.url, "read tools:use")).assert_ok().assert_stdout(&["hi"]);
        for (token, status) in [
            (issuer.token("http://127.0.0.1:1/mcp", "read tools:use"), "401"),
            (issuer.token(&server.url, "read"), "403"),
            ("nonsense".to_owned(), "401"),
        ] {
            let refused = call(&server, &token);
            assert!(refused.stderr.contains(status), "{runtime}: {}", refused.stderr);
            assert!(!refused.stderr.contains(&token), "{}", refused.stderr);
        }
        let document = get(&server, "/.well-known/oauth-protected-resource/mcp");
        let body = document.split("\r\n\r\n").nth(1).expect("a body");
        let document: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(document["resource"], server.url.as_str());
        assert_eq!(document["authorization_servers"], json!([issuer.0]));
        assert_eq!(document["scopes_supported"], json!(["tools:use", "read"]));
        let refused = get(&server, "/mcp");
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        let challenge = format!(
            "WWW-Authenticate: Bearer scope=\"tools:use read\", resource_metadata=\"http://{}/.well-known/oauth-protected-resource/mcp\"",
            server.address()
        );
        assert!(refused.contains(&challenge), "{refused}");
    }
}

// covers: AUTH-010
#[test]
fn audience_can_be_that_of_a_proxy() {
    let issuer = Issuer::new();
    let server = ServingProcess::new(&["--protect", &issuer.0, "--audience", "https://tools.example.com/x"]);
    call(&server, &issuer.token("https://tools.example.com/x", "")).assert_ok();
    assert!(call(&server, &issuer.token(&server.url, "")).stderr.contains("401"));
    for path in ["mcp", "x"] {
        let document = get(&server, &format!("/.well-known/oauth-protected-resource/{path}"));
        assert!(document.contains(r#""resource":"https://tools.example.com/x""#), "{document}");
    }
}

#[test]
fn authorization_server_that_cannot_be_reached_is_no_fault_of_the_token() {
    let issuer = Issuer::new();
    let gone = Issuer("http://127.0.0.1:1".into());
    let server = ServingProcess::new(&["--protect", &gone.0]);
    assert!(call(&server, &gone.token(&server.url, "")).stderr.contains("503"));
    assert!(call(&server, &issuer.token(&server.url, "")).stderr.contains("401"), "another issuer");
    let stderr = server.stop();
    assert!(stderr.contains("no new keys") && stderr.contains("http://127.0.0.1:1/.well-known/"), "{stderr}");
    assert!(!stderr.contains("eyJ"), "a token was printed: {stderr}");
}

// covers: AUTH-060
#[test]
fn options_that_cannot_protect_are_refused() {
    let listen = ["serve", "--http", "127.0.0.1:0"];
    for (args, why) in [
        (&["--protect", "http://login.example.com"][..], "not https"),
        (&["--protect", "javascript:alert(1)"], "not a URL"),
        (&["--protect", "https://login.example.com", "--audience", "tools"], "not a URL"),
        (&["--protect", "https://login.example.com", "--require-scope", "offline_access"], "AUTH-060"),
        (&["--protect", "https://login.example.com", "--require-scope", "a b"], "one word"),
        (&["--audience", "https://tools.example.com/mcp"], "--protect"),
        (&["--require-scope", "a"], "--protect"),
    ] {
        let refused = probe(&[&listen[..], args].concat()).assert_code(2);
        assert!(refused.stderr.contains(why), "{args:?}: {}", refused.stderr);
    }
    probe(&["serve", "--protect", "https://login.example.com"]).assert_code(2);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let args = ["serve", "--http", address, "--protect", "https://login.example.com"];
        let refused = probe(&args).assert_code(2);
        assert!(
            refused.stderr.contains(address) && refused.stderr.contains("--audience URL"),
            "{}",
            refused.stderr
        );
    }
    let issuer = Issuer::new();
    let audience = "https://tools.example.com/mcp";
    let server = ServingProcess::listening_at("0.0.0.0:0", &["--protect", &issuer.0, "--audience", audience]);
    let document = get(&server, "/.well-known/oauth-protected-resource/mcp");
    assert!(document.contains(audience) && !document.contains("0.0.0.0"), "{document}");
}

/// Answers every request: the document at `/meta` and at the well-known path, everything else with 401.
fn serve_scripted(
    challenge: &'static str,
    document: impl Fn(&str) -> Option<String> + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let origin = url.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
            let (mut line, mut length) = (String::new(), 0);
            if reader.read_line(&mut line).is_err() {
                continue;
            }
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            loop {
                let mut field = String::new();
                if reader.read_line(&mut field).is_err() || field.trim().is_empty() {
                    break;
                }
                if let Some(value) = field.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let described = document(&path).map(|text| text.replace("ORIGIN", &origin));
            let (status, field, body) = match described {
                Some(text) => ("200 OK", "Content-Type: application/json\r\n".to_owned(), text),
                None if challenge.is_empty() || path.starts_with("/.well-known") => (
                    if path == "/mcp" { "401 Unauthorized" } else { "404 Not Found" },
                    String::new(),
                    String::new(),
                ),
                None => {
                    let challenge = challenge.replace("ORIGIN", &origin);
                    ("401 Unauthorized", format!("WWW-Authenticate: {challenge}\r\n"), String::new())
                }
            };
            let head = format!("HTTP/1.1 {status}\r\n{field}Connection: close\r\n");
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("{url}/mcp")
}

/// The rules of `check` about challenges and metadata.
pub(crate) const RULES: [&str; 6] = [
    "challenge",
    "challenge-scope",
    "resource-metadata",
    "resource-identifier",
    "authorization-servers",
    "offline-access",
];

const GOOD: &str = r#"{"resource":"ORIGIN/mcp","authorization_servers":["https://login.example.com"]}"#;
const NAMED: &str = "Bearer scope=\"a\", resource_metadata=\"ORIGIN/meta\"";

// covers: AUTH-004, AUTH-019, AUTH-020, AUTH-021, AUTH-051, AUTH-060
#[test]
fn check_finds_faults_of_challenges_and_documents() {
    let rules = RULES;
    let at_meta = |text: &'static str| move |path: &str| (path == "/meta").then(|| text.to_owned());
    let nowhere = |_: &str| None;
    let cases: Vec<(String, &[&str])> = vec![
        (serve_scripted(NAMED, at_meta(GOOD)), &[]),
        (
            serve_scripted(
                "DPoP scope=\"a\", algs=\"ES256\", resource_metadata=\"ORIGIN/meta\"",
                at_meta(GOOD),
            ),
            &[],
        ),
        (
            serve_scripted("Bearer scope=\"a\"", |path| {
                (path == "/.well-known/oauth-protected-resource/mcp").then(|| GOOD.to_owned())
            }),
            &[],
        ),
        (
            serve_scripted("Bearer scope=\"a\"", |path| {
                (path == "/.well-known/oauth-protected-resource").then(|| GOOD.replace("/mcp", ""))
            }),
            &[],
        ),
        (serve_scripted("", nowhere), &["challenge", "resource-metadata"]),
        (serve_scripted("Basic realm=\"x\"", nowhere), &["challenge", "resource-metadata"]),
        (serve_scripted("Bearer resource_metadata=\"ORIGIN/meta\"", at_meta(GOOD)), &["challenge-scope"]),
        (serve_scripted("Bearer scope=\"a\"", nowhere), &["resource-metadata"]),
        (serve_scripted(NAMED, nowhere), &["resource-metadata"]),
        (serve_scripted(NAMED, at_meta("<html>")), &["resource-metadata"]),
        (serve_scripted(NAMED, at_meta("[]")), &["resource-metadata"]),
        (
            serve_scripted("Bearer scope=\"a\", resource_metadata=\"file:///etc/passwd\"", nowhere),
            &["resource-metadata"],
        ),
        (serve_scripted(NAMED, at_meta("{}")), &["authorization-servers", "resource-identifier"]),
        (
            serve_scripted(
                NAMED,
                at_meta(r#"{"resource":"ORIGIN/mc","authorization_servers":["https://a"]}"#),
            ),
            &["resource-identifier"],
        ),
        (
            serve_scripted(
                NAMED,
                at_meta(r#"{"resource":"https://evil.example/mcp","authorization_servers":["https://a"]}"#),
            ),
            &["resource-identifier"],
        ),
        (
            serve_scripted(NAMED, at_meta(r#"{"resource":"ORIGIN/mcp","authorization_servers":[]}"#)),
            &["authorization-servers"],
        ),
        (
            serve_scripted(
                NAMED,
                at_meta(r#"{"resource":"ORIGIN/mcp","authorization_servers":["http://a.example"]}"#),
            ),
            &["authorization-servers"],
        ),
        (
            serve_scripted(
                "Bearer scope=\"a offline_access\", resource_metadata=\"ORIGIN/meta\"",
                at_meta(GOOD),
            ),
            &["offline-access"],
        ),
        (
            serve_scripted(
                NAMED,
                at_meta(
                    r#"{"resource":"ORIGIN","authorization_servers":["https://a"],"scopes_supported":["offline_access"]}"#,
                ),
            ),
            &["offline-access"],
        ),
    ];
    for (at, (url, expected)) in cases.into_iter().enumerate() {
        let done = probe(&["check", &url, "--json"]);
        let mut found = crate::check::found_rules(&done);
        found.retain(|rule| rules.contains(&&**rule));
        let expected: alloc::collections::BTreeSet<_> =
            expected.iter().map(|rule| (*rule).to_owned()).collect();
        assert_eq!(found, expected, "case {at}: {done}");
    }
}

// covers: AUTH-021
#[test]
fn check_passes_our_own_protected_server() {
    let issuer = Issuer::new();
    let server = ServingProcess::new(&["--protect", &issuer.0, "--require-scope", "a", "--everything"]);
    let header = format!("Authorization: Bearer {}", issuer.token(&server.url, "a"));
    let done = probe(&["check", &server.url, "--strict", "--header", &header]).assert_ok();
    assert!(!done.stdout.contains(&issuer.token(&server.url, "a")));
}
