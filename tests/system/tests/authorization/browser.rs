//! The scripted browser with the authorization server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use mcp_system_tests::browser::{Browser, BrowserError, BrowserScript, encode, parameter};

use crate::authorization::authorization_server::AuthorizationServer;
use crate::authorization::sdk::browser_program;
use crate::run::{DEADLINE, run};

/// A PKCE pair (RFC 7636, appendix B).
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// A resource that exists only as an identifier.
pub(crate) const RESOURCE: &str = "http://127.0.0.1:1/mcp";

/// Returns an authorization URL of the client `public`.
pub(crate) fn authorization_url(issuer: &str, redirect_uri: &str, more: &[(&str, &str)]) -> String {
    let mut parameters = vec![
        ("response_type", "code"),
        ("client_id", "public"),
        ("redirect_uri", redirect_uri),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", RESOURCE),
        ("state", "a state"),
    ];
    parameters.extend_from_slice(more);
    format!("{issuer}/auth?{}", encode(parameters))
}

/// Accepts `count` connections, answers them, and returns the targets of their requests.
fn receive(listener: TcpListener, count: usize) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut targets: Vec<_> = (0..count)
            .map(|_| {
                let (mut socket, _) = listener.accept().expect("a connection");
                let mut head = Vec::new();
                let mut chunk = [0; 1024];
                while !head.ends_with(b"\r\n\r\n") {
                    let read = socket.read(&mut chunk).expect("a request");
                    assert!(read > 0, "a whole request");
                    head.extend_from_slice(&chunk[..read]);
                }
                let page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone";
                socket.write_all(page).expect("a response is read");
                String::from_utf8_lossy(&head).split(' ').nth(1).expect("a target").to_owned()
            })
            .collect();
        targets.sort();
        targets
    })
}

#[test]
fn browser_returns_code_and_keeps_its_session() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let url = authorization_url(&server.issuer, "http://127.0.0.1:3/callback", &[("scope", "mcp:read")]);
    let mut browser = Browser::new(BrowserScript { user: "alice".into(), ..BrowserScript::default() });
    let first = browser.authorize(&url).expect("a redirect");
    assert!(first.starts_with("http://127.0.0.1:3/callback?"), "{first}");
    assert_eq!(parameter(&first, "state").as_deref(), Some("a state"));
    assert_eq!(parameter(&first, "iss").as_deref(), Some(&*server.issuer));
    let second = browser.authorize(&url).expect("a redirect");
    assert_ne!(parameter(&first, "code"), parameter(&second, "code"));
    // The second time the user is logged in, and only consents.
    let forms = server.events().iter().filter(|e| e["status"] == 303 && e["method"] == "POST").count();
    assert_eq!(forms, 3);
    server.stop();
}

// covers: AUTH-062
#[test]
fn browser_reports_declined_consent_and_error_page() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let url = authorization_url(&server.issuer, "http://127.0.0.1:3/callback", &[("scope", "mcp:read")]);
    let mut browser = Browser::new(BrowserScript { consents: false, ..BrowserScript::default() });
    let declined = browser.authorize(&url).expect("a redirect");
    assert_eq!(parameter(&declined, "error").as_deref(), Some("access_denied"));
    assert_eq!(parameter(&declined, "iss").as_deref(), Some(&*server.issuer));
    assert_eq!(parameter(&declined, "code"), None);
    // An unknown redirect URI is never visited (RFC 6749, 4.1.2.1).
    let foreign = authorization_url(&server.issuer, "http://127.0.0.1:3/elsewhere", &[]);
    match Browser::default().authorize(&foreign) {
        Err(BrowserError::Page(400, _, text)) => assert!(text.contains("invalid_redirect_uri"), "{text}"),
        other => panic!("{other:?}"),
    }
    server.stop();
}

#[test]
fn browser_command_delivers_redirect_as_told() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let visits: &[(&[&str], usize)] = &[
        (&[], 1),
        (&["--twice"], 2),
        (&["--before", "state=foreign"], 2),
        (&["--remove", "iss", "--set", "code=x"], 1),
        (&["--never"], 0),
    ];
    for &(options, count) in visits {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let redirect_uri = format!("http://{}/callback", listener.local_addr().expect("an address"));
        let received = receive(listener, count);
        let mut command = Command::new(browser_program());
        command.args(options).arg(authorization_url(&server.issuer, &redirect_uri, &[("scope", "mcp:read")]));
        let printed = run(command, DEADLINE).expect("it starts").assert_success().json();
        let responses = printed["responses"].as_array().expect("responses");
        assert_eq!(responses.len(), count, "{options:?}: {printed}");
        assert!(responses.iter().all(|response| response["body"] == "done"), "{options:?}: {printed}");
        let targets = received.join().expect("no panic");
        let states: Vec<_> =
            targets.iter().map(|target| parameter(target, "state").expect("a state")).collect();
        match options {
            ["--twice"] => assert_eq!(targets[0], targets[1]),
            ["--before", ..] => assert_eq!(states, ["a state", "foreign"], "sorted by their text"),
            ["--remove", ..] => {
                assert_eq!(parameter(&targets[0], "iss"), None);
                assert_eq!(parameter(&targets[0], "code").as_deref(), Some("x"));
            }
            _ => assert!(states.iter().all(|state| state == "a state"), "{states:?}"),
        }
    }
    server.stop();
}
