//! `serve --protect`: a server that requires tokens of an authorization server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcp_auth::client::ClientKey;
use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::support::{ClosedAddress, probe};

const KEY: &str = include_str!("../../../auth/tests/keys/p256.pem");
const PUBLIC: &str = include_str!("../../../auth/tests/keys/p256.public");

/// An authorization server that publishes its metadata and its key.
pub(crate) struct Issuer(pub(crate) String);

impl Issuer {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn token(&self, audience: &str, scope: &str) -> String {
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
            json!({
                "issuer": issuer, "jwks_uri": format!("{issuer}/keys"),
                "token_endpoint": format!("{issuer}/token")
            })
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
    let closed = ClosedAddress::new();
    let gone = Issuer(format!("http://{closed}"));
    let server = ServingProcess::new(&["--protect", &gone.0]);
    assert!(call(&server, &gone.token(&server.url, "")).stderr.contains("503"));
    assert!(call(&server, &issuer.token(&server.url, "")).stderr.contains("401"), "another issuer");
    let stderr = server.stop();
    let metadata = format!("http://{closed}/.well-known/");
    assert!(stderr.contains("no new keys") && stderr.contains(&metadata), "{stderr}");
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
