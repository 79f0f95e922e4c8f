//! The `check` command with servers that require access tokens: challenges, and the documents that describe them.

use alloc::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::check::{found_rules, noted_features};
use crate::http::ServingProcess;
use crate::protection::Issuer;
use crate::support::{ClosedAddress, ProbeOutput, probe};

/// The rules of `check` about challenges and metadata.
pub(crate) const RULES: [&str; 15] = [
    "challenge",
    "challenge-scope",
    "resource-metadata",
    "resource-identifier",
    "authorization-servers",
    "offline-access",
    "unprotected",
    "challenge-methods",
    "invalid-token",
    "invalid-token-error",
    "server-unreachable",
    "server-metadata",
    "server-issuer",
    "server-endpoints",
    "server-pkce",
];

const GOOD: &str = r#"{"resource":"ORIGIN/mcp","authorization_servers":["ORIGIN"]}"#;
const NAMED: &str = "Bearer scope=\"a\", resource_metadata=\"ORIGIN/meta\"";
const GOOD_SERVER: &str = r#"{"issuer":"ORIGIN","authorization_endpoint":"ORIGIN/authorize",
    "token_endpoint":"https://login.example.com/token","code_challenge_methods_supported":["plain","S256"]}"#;
const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server";

/// A request as far as the answer depends on it.
struct ScriptedRequest {
    method: String,
    path: String,
    has_token: bool,
}

/// Gives the status and the challenge of a response to a request. `None`: 401, with the challenge of the server.
type Refusal = dyn Fn(&ScriptedRequest) -> Option<(u16, &'static str)> + Send;

/// A server that requires tokens and is its own authorization server. `ORIGIN` in its texts is its address.
struct ScriptedServer {
    /// The challenge, or nothing for responses without one.
    challenge: &'static str,
    /// The documents: paths and texts. The first one for a path counts.
    documents: Vec<(&'static str, String)>,
    /// Answers requests that get no document.
    refusal: Box<Refusal>,
}

impl ScriptedServer {
    fn new(challenge: &'static str) -> Self {
        let documents = vec![(SERVER_METADATA, GOOD_SERVER.to_owned())];
        Self { challenge, documents, refusal: Box::new(|_| None) }
    }

    /// Creates a server that follows all rules, but for this document of its resource.
    fn described(document: &str) -> Self {
        Self::new(NAMED).document("/meta", document)
    }

    fn document(mut self, path: &'static str, text: &str) -> Self {
        self.documents.insert(0, (path, text.to_owned()));
        self
    }

    fn refusal(
        mut self,
        refusal: impl Fn(&ScriptedRequest) -> Option<(u16, &'static str)> + Send + 'static,
    ) -> Self {
        self.refusal = Box::new(refusal);
        self
    }

    /// Starts the server and checks it.
    fn check(self) -> ProbeOutput {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let url = format!("{origin}/mcp");
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that has seen enough may be gone.
                let _ = self.answer(stream.expect("a connection"), &origin);
            }
        });
        probe(&["check", &url, "--json"])
    }

    fn answer(&self, mut stream: TcpStream, origin: &str) -> std::io::Result<()> {
        let request = read_request(&stream)?;
        let (status, field, body) = match self.documents.iter().find(|(path, _)| *path == request.path) {
            Some((_, text)) => match text.strip_prefix("REDIRECT ") {
                Some(to) => (302, format!("Location: {to}\r\n"), String::new()),
                None => {
                    (200, "Content-Type: application/json\r\n".to_owned(), text.replace("ORIGIN", origin))
                }
            },
            None if request.path != "/mcp" => (404, String::new(), String::new()),
            None => {
                let error = if request.has_token { ", error=\"invalid_token\"" } else { "" };
                let (status, challenge) = match (self.refusal)(&request) {
                    Some((status, challenge)) => (status, challenge.to_owned()),
                    None if self.challenge.is_empty() => (401, String::new()),
                    None => (401, format!("{}{error}", self.challenge)),
                };
                let challenge = challenge.replace("ORIGIN", origin);
                let field = match &*challenge {
                    "" => String::new(),
                    challenge => format!("WWW-Authenticate: {challenge}\r\n"),
                };
                (status, field, String::new())
            }
        };
        let head = format!("HTTP/1.1 {status} x\r\n{field}Connection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
    }
}

/// Reads a request to its end, so that closing the connection loses nothing.
fn read_request(stream: &TcpStream) -> std::io::Result<ScriptedRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut has_token) = (0, false);
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field)? == 0 || field.trim().is_empty() {
            break;
        }
        let field = field.to_lowercase();
        has_token |= field.starts_with("authorization:");
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(ScriptedRequest { method, path, has_token })
}

/// Checks each server and compares the rules with findings.
fn assert_findings(cases: Vec<(ScriptedServer, &[&str])>) {
    for (at, (server, expected)) in cases.into_iter().enumerate() {
        let done = server.check();
        let mut found = found_rules(&done);
        found.retain(|rule| RULES.contains(&&**rule));
        let expected: BTreeSet<_> = expected.iter().map(|rule| (*rule).to_owned()).collect();
        assert_eq!(found, expected, "case {at}: {done}");
    }
}

// covers: AUTH-004, AUTH-019, AUTH-020, AUTH-021, AUTH-051, AUTH-060
#[test]
fn check_finds_faults_of_challenges_and_documents() {
    let described = ScriptedServer::described;
    let plain = || ScriptedServer::new("Bearer scope=\"a\"");
    assert_findings(vec![
        (described(GOOD), &[]),
        (
            ScriptedServer::new("DPoP scope=\"a\", algs=\"ES256\", resource_metadata=\"ORIGIN/meta\"")
                .document("/meta", GOOD),
            &[],
        ),
        (plain().document("/.well-known/oauth-protected-resource/mcp", GOOD), &[]),
        (plain().document("/.well-known/oauth-protected-resource", &GOOD.replace("/mcp", "")), &[]),
        (ScriptedServer::new(""), &["challenge", "invalid-token", "resource-metadata"]),
        (ScriptedServer::new("Basic realm=\"x\""), &["challenge", "invalid-token", "resource-metadata"]),
        (
            ScriptedServer::new("Bearer resource_metadata=\"ORIGIN/meta\"").document("/meta", GOOD),
            &["challenge-scope"],
        ),
        (plain(), &["resource-metadata"]),
        (ScriptedServer::new(NAMED), &["resource-metadata"]),
        (described("<html>"), &["resource-metadata"]),
        (described("[]"), &["resource-metadata"]),
        (
            ScriptedServer::new("Bearer scope=\"a\", resource_metadata=\"file:///etc/passwd\""),
            &["resource-metadata"],
        ),
        (described("{}"), &["authorization-servers", "resource-identifier"]),
        (described(&GOOD.replace("/mcp", "/mc")), &["resource-identifier"]),
        (described(&GOOD.replace("ORIGIN/mcp", "https://evil.example/mcp")), &["resource-identifier"]),
        (described(r#"{"resource":"ORIGIN/mcp","authorization_servers":[]}"#), &["authorization-servers"]),
        (
            described(r#"{"resource":"ORIGIN/mcp","authorization_servers":["http://a.example"]}"#),
            &["authorization-servers"],
        ),
        (
            ScriptedServer::new("Bearer scope=\"a offline_access\", resource_metadata=\"ORIGIN/meta\"")
                .document("/meta", GOOD),
            &["offline-access"],
        ),
        (
            described(
                r#"{"resource":"ORIGIN","authorization_servers":["ORIGIN"],"scopes_supported":["offline_access"]}"#,
            ),
            &["offline-access"],
        ),
    ]);
}

// covers: AUTH-004, AUTH-009
#[test]
fn check_finds_requests_that_are_not_challenged() {
    let refusing = |refusal: fn(&ScriptedRequest) -> Option<(u16, &'static str)>| {
        ScriptedServer::described(GOOD).refusal(refusal)
    };
    assert_findings(vec![
        (refusing(|request| (request.method == "GET").then_some((405, ""))), &[]),
        (refusing(|request| (request.method == "DELETE").then_some((405, ""))), &[]),
        (refusing(|request| (request.method == "GET").then_some((200, ""))), &["unprotected"]),
        (refusing(|request| (request.method == "DELETE").then_some((204, ""))), &["unprotected"]),
        (refusing(|request| (request.method == "DELETE").then_some((404, ""))), &["challenge-methods"]),
        (refusing(|request| (request.method == "GET").then_some((400, NAMED))), &["challenge-methods"]),
        (refusing(|request| (request.method == "GET").then_some((401, ""))), &["challenge"]),
        (refusing(|request| request.has_token.then_some((200, ""))), &["unprotected"]),
        (refusing(|request| request.has_token.then_some((401, ""))), &["invalid-token"]),
        (refusing(|request| request.has_token.then_some((403, NAMED))), &["invalid-token"]),
        (refusing(|request| request.has_token.then_some((500, ""))), &["invalid-token"]),
        (refusing(|request| request.has_token.then_some((401, NAMED))), &["invalid-token-error"]),
        (
            refusing(|request| request.has_token.then_some((401, "Bearer error=\"insufficient_scope\""))),
            &["invalid-token-error"],
        ),
    ]);
}

// covers: AUTH-027, AUTH-030, AUTH-042, AUTH-061
#[test]
fn check_finds_faults_of_authorization_servers() {
    let server = |text: &str| ScriptedServer::described(GOOD).document(SERVER_METADATA, text);
    let tenant = GOOD.replace(r#"["ORIGIN"]"#, r#"["ORIGIN/t"]"#);
    let of_tenant = GOOD_SERVER.replace(r#""issuer":"ORIGIN""#, r#""issuer":"ORIGIN/t""#);
    let several = |issuers: &[&str]| GOOD.replace(r#"["ORIGIN"]"#, &format!("{issuers:?}"));
    let closed = ClosedAddress::new();
    assert_findings(vec![
        (ScriptedServer::described(&tenant).document("/t/.well-known/openid-configuration", &of_tenant), &[]),
        (ScriptedServer::described(&tenant), &["server-metadata"]),
        (ScriptedServer::described(&several(&[&format!("http://{closed}")])), &["server-unreachable"]),
        (ScriptedServer::described(&several(&["ORIGIN"; 5])), &["server-unreachable"]),
        // A server on this machine may refer to this machine alone.
        (ScriptedServer::described(&several(&["https://10.0.0.1"])), &["server-metadata"]),
        (server("<html>"), &["server-metadata"]),
        (server("{}"), &["server-endpoints", "server-issuer"]),
        // What clients pass over, and what they follow.
        (server("{}").document("/.well-known/openid-configuration", GOOD_SERVER), &[]),
        (server("REDIRECT /moved").document("/moved", GOOD_SERVER), &[]),
        (server("REDIRECT http://192.0.2.1/moved"), &["server-metadata"]),
        (server("REDIRECT /.well-known/oauth-authorization-server"), &["server-metadata"]),
        (server(&GOOD_SERVER.replace(r#":"ORIGIN""#, r#":"ORIGIN/""#)), &["server-issuer"]),
        (server(&GOOD_SERVER.replace(r#":"ORIGIN""#, r#":["ORIGIN"]"#)), &["server-issuer"]),
        (server(&GOOD_SERVER.replace("https://login", "http://login")), &["server-endpoints"]),
        (
            server(&GOOD_SERVER.replace("https://login.example.com/token", "javascript:1")),
            &["server-endpoints"],
        ),
        (server(&GOOD_SERVER.replace("\"https://login.example.com/token\"", "7")), &["server-endpoints"]),
        (server(&GOOD_SERVER.replace("S256", "s256")), &["server-pkce"]),
        (server(&GOOD_SERVER.replace("code_challenge_methods", "other")), &["server-pkce"]),
        // It grants no codes, so there is no use for PKCE.
        (server(r#"{"issuer":"ORIGIN","token_endpoint":"https://login.example.com/token"}"#), &[]),
    ]);
}

// covers: AUTH-018
#[test]
fn check_notes_dynamic_registration() {
    let registers =
        GOOD_SERVER.replacen('{', r#"{"registration_endpoint":"https://login.example.com/register","#, 1);
    for (metadata, noted) in [(GOOD_SERVER, &[][..]), (&registers, &["dynamic client registration"])] {
        let done = ScriptedServer::described(GOOD).document(SERVER_METADATA, metadata).check();
        assert_eq!(
            (noted_features(&done), found_rules(&done)),
            (noted.iter().map(|n| (*n).into()).collect(), BTreeSet::new())
        );
    }
}

// covers: AUTH-021
#[test]
fn check_passes_our_own_protected_server() {
    let issuer = Issuer::new();
    for runtime in ["blocking", "threads", "smol"] {
        let protect = ["--protect", &issuer.0, "--require-scope", "a", "--everything", "--runtime", runtime];
        let server = ServingProcess::new(&protect);
        // Without a token the rest of the server is unknown, which is not a fault of it.
        let alone = probe(&["check", &server.url, "--json"]).assert_code(6);
        // A report is not green because nothing was checked.
        let unchecked =
            "name=\"checked in no revision\"><error message=\"authorization is needed\"/></testcase>";
        probe(&["check", &server.url, "--junit"]).assert_code(6).assert_stdout(&[unchecked, "errors=\"1\""]);
        assert_eq!(alone.json(), serde_json::json!([]), "{runtime}");
        alone.assert_stderr(&["authorization is needed", "mcp-probe login"]);
        let header = format!("Authorization: Bearer {}", issuer.token(&server.url, "a"));
        let done = probe(&["check", &server.url, "--strict", "--header", &header]).assert_ok();
        assert!(!done.stdout.contains(&issuer.token(&server.url, "a")));
    }
}
