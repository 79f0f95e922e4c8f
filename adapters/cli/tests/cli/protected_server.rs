//! A protected MCP server together with its authorization server, and a user who logs in without a browser.

use alloc::sync::Arc;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::quoted;

/// How a [`ProtectedServer`] behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// The server lets everybody in.
    pub(crate) is_open: bool,
    /// The server lets everybody in until tools are listed.
    pub(crate) opens_handshake: bool,
    /// Error code of each response of the token endpoint.
    pub(crate) token_error: Option<&'static str>,
    /// The token endpoint takes a connection and never answers.
    pub(crate) is_token_silent: bool,
    /// A client may not register itself.
    pub(crate) no_registration: bool,
    /// There is no metadata of the protected resource (2025-03-26).
    pub(crate) no_resource_metadata: bool,
    /// The metadata of the protected resource is that of another server.
    pub(crate) other_resource: bool,
    /// Issuer in the metadata of the authorization server, if not the real one.
    pub(crate) other_issuer: Option<&'static str>,
    /// Speaks 2025-06-18 with sessions, and answers DELETE with 401.
    pub(crate) refuses_delete: bool,
    /// Error of each response of the revocation endpoint.
    pub(crate) is_revocation_down: bool,
}

/// Makes all access tokens of a store expire, as if their time had passed.
///
/// A short lifetime would not do: it may pass within a command, too.
pub(crate) fn expire_tokens(store: &Path) {
    let mut text = std::fs::read_to_string(store).expect("a store");
    for name in ["renew_at", "expires_at"] {
        let (start, rest) = text.split_once(name).expect("a token with a lifetime");
        let mut changed = start.to_owned();
        for part in rest.split(name) {
            let digits = part.find(|c: char| c.is_ascii_digit()).expect("a time");
            let (between, time) = part.split_at(digits);
            changed += &format!("{name}{between}1{}", time.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        text = changed;
    }
    std::fs::write(store, text).expect("a store");
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names are in lower case.
    pub(crate) fields: HashMap<String, String>,
    pub(crate) body: String,
}

/// A server that runs until the process ends.
#[derive(Clone)]
pub(crate) struct ProtectedServer {
    origin: String,
    pub(crate) url: String,
    behaviour: Behaviour,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: Vec<Received>,
    /// Number of access tokens that were issued.
    issued: u32,
    /// Requests with a token up to this number are refused.
    revoked: u32,
}

/// A response: status, further fields, body.
type Answer = (u16, String, String);

impl ProtectedServer {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let server = Self { url: format!("{origin}/mcp"), origin, behaviour, state: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, stream) = (serving.clone(), stream.expect("a connection"));
                thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the received requests to a path.
    pub(crate) fn requests(&self, path: &str) -> Vec<Received> {
        self.lock().requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Returns the forms that the token endpoint received.
    pub(crate) fn token_forms(&self) -> Vec<HashMap<String, String>> {
        self.requests("/token").iter().map(|request| form(&request.body)).collect()
    }

    /// Makes all access tokens so far invalid.
    pub(crate) fn revoke_tokens(&self) {
        let mut state = self.lock();
        state.revoked = state.issued;
    }

    /// Refuses all access tokens, those of the future included.
    pub(crate) fn refuse_all_tokens(&self) {
        self.lock().revoked = u32::MAX;
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read_request(&mut stream) else { return };
        self.lock().requests.push(request.clone());
        if request.path == "/token" && self.behaviour.is_token_silent {
            thread::sleep(Duration::from_secs(60));
            return;
        }
        let (status, fields, body) = self.answer(&request);
        // A client that has read enough may be gone.
        let _ = write!(
            stream,
            "HTTP/1.1 {status} x\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }

    fn answer(&self, request: &Received) -> Answer {
        let origin = &self.origin;
        let path = request.path.split('?').next().unwrap_or_default();
        match path {
            "/mcp" => self.mcp(request),
            "/.well-known/oauth-protected-resource/mcp" if !self.behaviour.no_resource_metadata => {
                let resource =
                    if self.behaviour.other_resource { "https://other.test/mcp" } else { &self.url };
                json_answer(
                    &json!({"resource": resource, "authorization_servers": [origin], "scopes_supported": ["read"]}),
                )
            }
            "/.well-known/oauth-authorization-server" => json_answer(&self.metadata()),
            "/authorize" => {
                let query = form(request.path.split_once('?').map_or("", |(_, query)| query));
                let (to, state) = (&query["redirect_uri"], &query["state"]);
                let place = format!("{to}?code=c0de&state={state}&iss={}", encode(origin));
                (302, format!("Location: {place}\r\n"), String::new())
            }
            "/register" if !self.behaviour.no_registration => {
                let wanted: Value = serde_json::from_str(&request.body).expect("JSON");
                let (status, fields, body) = json_answer(&json!({
                    "client_id": "registered", "redirect_uris": wanted["redirect_uris"],
                    "token_endpoint_auth_method": "none",
                }));
                (status + 1, fields, body)
            }
            "/device" => json_answer(&json!({
                "device_code": "d3vice", "user_code": "ABCD-\u{1b}[2J", "verification_uri": format!("{origin}/activate"),
                "verification_uri_complete": format!("{origin}/activate?code=ABCD"), "expires_in": 60, "interval": 1,
            })),
            "/token" => self.token(request),
            "/revoke" if self.behaviour.is_revocation_down => (503, String::new(), String::new()),
            "/revoke" => (200, String::new(), String::new()),
            _ => (404, String::new(), String::new()),
        }
    }

    fn metadata(&self) -> Value {
        let origin = &self.origin;
        let mut metadata = json!({
            "issuer": self.behaviour.other_issuer.unwrap_or(origin),
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "device_authorization_endpoint": format!("{origin}/device"),
            "revocation_endpoint": format!("{origin}/revoke"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "token_endpoint_auth_methods_supported":
                ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
            "client_id_metadata_document_supported": true,
            "dpop_signing_alg_values_supported": ["ES256"],
        });
        if !self.behaviour.no_registration {
            metadata["registration_endpoint"] = json!(format!("{origin}/register"));
        }
        metadata
    }

    fn token(&self, request: &Received) -> Answer {
        if let Some(error) = self.behaviour.token_error {
            let body = json!({"error": error, "error_description": "not \u{1b}[31mtoday"}).to_string();
            return (400, "Content-Type: application/json\r\n".into(), body);
        }
        let grant = form(&request.body).remove("grant_type").unwrap_or_default();
        if grant == "urn:ietf:params:oauth:grant-type:token-exchange" {
            return json_answer(&json!({
                "access_token": "id-jag", "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            }));
        }
        let number = {
            let mut state = self.lock();
            state.issued += 1;
            state.issued
        };
        let kind = if request.fields.contains_key("dpop") { "DPoP" } else { "Bearer" };
        let mut answer = json!({
            "access_token": format!("s3cret-access-{number}"), "token_type": kind,
            // Half an hour more than a day, so that a shown "24 h" does not depend on the second.
            "expires_in": 88_200,
        });
        if matches!(&*grant, "authorization_code" | "refresh_token") {
            answer["refresh_token"] = json!(format!("s3cret-refresh-{number}"));
        }
        json_answer(&answer)
    }

    /// Answers a request to the MCP server.
    fn mcp(&self, request: &Received) -> Answer {
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let is_free = self.behaviour.is_open
            || (self.behaviour.opens_handshake && method != "tools/list" && request.method == "POST");
        let is_refused = self.behaviour.refuses_delete && request.method == "DELETE";
        if is_refused || !(is_free || self.is_valid(request)) {
            let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
            let parameter = match self.behaviour.no_resource_metadata {
                true => String::new(),
                false => format!("resource_metadata=\"{metadata}\", "),
            };
            // Some servers send back what they refuse.
            let sent = request.fields.get("authorization").and_then(|value| value.rsplit(' ').next());
            let refused = sent.map(|token| format!(", error_description=\"no {token}\"")).unwrap_or_default();
            let fields = format!("WWW-Authenticate: Bearer {parameter}scope=\"read call\"{refused}\r\n");
            return (401, fields, String::new());
        }
        if request.method != "POST" {
            return (405, String::new(), String::new());
        }
        let Some(id) = message.get("id") else { return (202, String::new(), String::new()) };
        let is_modern = !self.behaviour.refuses_delete;
        let mut result = match method {
            "server/discover" if is_modern => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            }
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "hello"}]}),
            "ping" => json!({}),
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                return json_answer(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        if is_modern {
            let common = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
            result.as_object_mut().expect("an object").extend(common.as_object().expect("an object").clone());
        }
        let (status, mut fields, body) = json_answer(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        if method == "initialize" {
            fields += "Mcp-Session-Id: session\r\n";
        }
        (status, fields, body)
    }

    /// Returns whether a request has a token that was issued and not revoked.
    fn is_valid(&self, request: &Received) -> bool {
        let field = request.fields.get("authorization").map_or("", |value| &**value);
        let token = field.strip_prefix("Bearer ").or_else(|| field.strip_prefix("DPoP "));
        let number = token.and_then(|token| token.strip_prefix("s3cret-access-")?.parse::<u32>().ok());
        let state = self.lock();
        number.is_some_and(|number| number > state.revoked && number <= state.issued)
    }

    /// Logs in at an address, as the browser of a user would, and returns where the browser is sent.
    pub(crate) fn redirect_of(&self, address: &str) -> String {
        let (_, head) = get(address);
        let place = head.lines().find_map(|line| line.strip_prefix("Location: "));
        place.unwrap_or_else(|| panic!("no redirect: {head}")).to_owned()
    }

    /// Waits for the address that a command like [`browser_command`] was started with, and logs in there.
    pub(crate) fn follow(&self, opened: &PathBuf) -> String {
        self.redirect_of(&wait_for_file(opened))
    }
}

/// Returns a value for `--browser` that only writes the address to a file.
pub(crate) fn browser_command(file: &Path) -> String {
    let file = quoted(file);
    let script = format!("printf %s \"$1\" > {file}.tmp && mv {file}.tmp {file}");
    format!("sh -c {} browser", quoted(&script))
}

/// Waits until a file exists, and returns its text.
pub(crate) fn wait_for_file(path: &PathBuf) -> String {
    let begun = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) => return text,
            Err(_) if begun.elapsed() < Duration::from_secs(30) => thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// Requests an `http` URL. Returns the status and the whole response.
pub(crate) fn get(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // As a browser, which knows where `localhost` is.
    let address = authority.replace("localhost", "127.0.0.1");
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{url}: {error}"));
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
        .expect("it is read");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("UTF-8");
    let text = text.replace("\r\n", "\n");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{url}: {text:?}")), text)
}

fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut lines = head.lines();
            let mut first = lines.next()?.split(' ').map(str::to_owned);
            let fields: HashMap<String, String> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length = fields.get("content-length").map_or(0, |text| text.parse().expect("a length"));
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
                return Some(Received { method: first.next()?, path: first.next()?, fields, body });
            }
        }
        match stream.read(&mut chunk) {
            Ok(n @ 1..) => bytes.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
}

fn json_answer(value: &Value) -> Answer {
    (200, "Content-Type: application/json\r\n".into(), value.to_string())
}

/// Parses a form or a query.
pub(crate) fn form(text: &str) -> HashMap<String, String> {
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(n, v)| (decode(n), decode(v))).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).expect("two digits")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}

fn encode(text: &str) -> String {
    text.replace(':', "%3A").replace('/', "%2F")
}
