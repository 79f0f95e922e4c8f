//! The authorization of the tour: an authorization server of the harness, whose tokens a server of the tour accepts.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;

use mcp_auth::client::Authorizer;
use mcp_auth::client::{ClientAuth, ClientCredentials, Config, GrantType, Scopes};
use mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_proto::server::Identity;
use serde_json::json;

use crate::faults::exempt;

/// Principal of the only client.
pub(crate) const PRINCIPAL: &str = "tourist";

/// Number of the tokens that are issued, and accepted: greater after each revocation.
static GENERATION: AtomicUsize = AtomicUsize::new(1);

/// Returns the issuer. The authorization server stays for the life of the process.
fn issuer() -> &'static str {
    static ISSUER: OnceLock<String> = OnceLock::new();
    ISSUER.get_or_init(|| {
        exempt(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let issuer = format!("http://{}", listener.local_addr().expect("an address"));
            let own = issuer.clone();
            thread::spawn(move || {
                exempt(|| {
                    for mut stream in listener.incoming().flatten() {
                        // The client may have hung up.
                        let _ = answer(&own, &mut stream);
                    }
                });
            });
            issuer
        })
    })
}

/// Answers one request.
fn answer(issuer: &str, stream: &mut TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(&mut *stream);
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap_or_default();
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body);
    let (status, answer) = if first.contains(" /token ") {
        let scope = body.split('&').find_map(|field| field.strip_prefix("scope=")).unwrap_or_default();
        let token = format!("{}/{}", GENERATION.load(SeqCst), scope.replace('+', "/"));
        let scope = scope.replace('+', " ");
        let grant =
            json!({"access_token": token, "token_type": "Bearer", "expires_in": 86_400, "scope": scope});
        ("200 OK", grant.to_string())
    } else if first.contains("/oauth-authorization-server") {
        let metadata = json!({
            "issuer": issuer,
            "token_endpoint": format!("{issuer}/token"),
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        });
        ("200 OK", metadata.to_string())
    } else {
        ("404 Not Found", String::new())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    )
}

/// Makes all tokens worthless that were issued.
pub(crate) fn revoke() {
    GENERATION.fetch_add(1, SeqCst);
}

/// Returns the address of protected servers, which they have to know before they listen.
pub(crate) fn address() -> SocketAddr {
    static PORT: AtomicU16 = AtomicU16::new(0);
    exempt(|| {
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let mut port = PORT.load(SeqCst);
        if port == 0 {
            // Below the ports that the system gives to clients, and others than those of the next processes.
            let first = 10_000 + 20 * u16::try_from(std::process::id() % 1_000).unwrap_or_default();
            port = (first..first + 20).find(is_free).expect("a free port");
            PORT.store(port, SeqCst);
        }
        SocketAddr::from(([127, 0, 0, 1], port))
    })
}

/// Returns the description of the protected server.
pub(crate) fn protected() -> Protected {
    Protected::new(&format!("http://{}/mcp", address()), issuer()).expect("URLs")
}

/// Judges a token.
pub(crate) fn identity(request: &TokenRequest) -> Result<Identity, Denial> {
    let (generation, scopes) = request.token.reveal().split_once('/').ok_or(Denial::invalid_token())?;
    if generation.parse() != Ok(GENERATION.load(SeqCst)) {
        return Err(Denial::invalid_token());
    }
    Ok(Identity::new(PRINCIPAL).scopes(&scopes.replace('/', " ")))
}

/// Returns the authorizer of a client.
pub(crate) fn authorizer() -> Authorizer {
    let credentials = ClientCredentials::new(PRINCIPAL, ClientAuth::Secret("secret".into()));
    let config = Config::new("tourist")
        .grant(GrantType::ClientCredentials)
        .credentials(credentials.issuer(issuer()))
        .scopes(Scopes::parse("tour").expect("a scope"))
        .allow_http("127.0.0.1");
    Authorizer::new(config)
}
