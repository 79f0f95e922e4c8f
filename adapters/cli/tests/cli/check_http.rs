//! The `check` command with a URL: a proxy in front of a correct server violates one rule at a time.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::check::{found_rules, noted_features};
use crate::http::ServingProcess;
use crate::recording_server::RecordingServer;
use crate::support::{ProbeOutput, REVISIONS, probe};

/// A request on its way to the server.
pub(crate) struct ProxiedRequest {
    /// Request line and header fields, except those that the proxy adds.
    pub(crate) head: Vec<String>,
    body: Vec<u8>,
}

/// A response on its way to the client.
#[derive(Debug)]
pub(crate) struct ProxiedResponse {
    pub(crate) status: u16,
    pub(crate) fields: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl ProxiedRequest {
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.head[0].starts_with(method)
    }

    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns whether the request has this JSON-RPC method.
    pub(crate) fn calls(&self, method: &str) -> bool {
        self.message()["method"] == method
    }

    pub(crate) fn has_field(&self, field: &str) -> bool {
        self.head.iter().any(|line| line.to_lowercase().starts_with(&format!("{}:", field.to_lowercase())))
    }

    fn drop_field(&mut self, field: &str) {
        self.head.retain(|line| !line.to_lowercase().starts_with(&format!("{}:", field.to_lowercase())));
    }
}

impl ProxiedResponse {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: Vec::new() }
    }

    /// Creates a response with a JSON body.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let fields = vec!["Content-Type: application/json".into()];
        Self { status, fields, body: body.to_string().into_bytes() }
    }
}

/// Modifies a request before it is forwarded, or answers it.
pub(crate) type SpoilRequest = dyn Fn(&mut ProxiedRequest) -> Option<ProxiedResponse> + Send + Sync;
pub(crate) type TweakResponse = dyn Fn(&ProxiedRequest, &mut ProxiedResponse) + Send + Sync;

/// A proxy in front of a server.
pub(crate) struct SpoilingProxy {
    pub(crate) url: String,
    _server: ServingProcess,
}

impl SpoilingProxy {
    pub(crate) fn new(args: &[&str], spoil: Arc<SpoilRequest>, tweak: Arc<TweakResponse>) -> Self {
        let behind = ServingProcess::new(args);
        let address = behind.address().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (spoil, tweak, address) = (Arc::clone(&spoil), Arc::clone(&tweak), address.clone());
                // A connection that breaks off is ignored.
                thread::spawn(move || proxy_connection(stream.ok()?, &address, &*spoil, &*tweak));
            }
        });
        Self { url, _server: behind }
    }

    pub(crate) fn check(&self, args: &[&str]) -> ProbeOutput {
        probe(&[&["check", "--json", "--timeout", "2s", &self.url], args].concat())
    }
}

/// Reads a head, without the empty line after it.
fn head(from: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            return Some(lines);
        }
        lines.push(line.to_owned());
    }
}

fn length(head: &[String]) -> usize {
    let value = head.iter().find_map(|line| line.strip_prefix("Content-Length: "));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

fn proxy_connection(
    stream: TcpStream,
    address: &str,
    spoil: &SpoilRequest,
    tweak: &TweakResponse,
) -> Option<()> {
    let mut client = BufReader::new(stream);
    let lines = head(&mut client)?;
    let mut body = vec![0; length(&lines)];
    client.read_exact(&mut body).ok()?;
    let mut request = ProxiedRequest { head: lines, body };
    let response = match spoil(&mut request) {
        Some(response) => response,
        None => {
            let server = TcpStream::connect(address).ok()?;
            let mut to = &server;
            let lines = request.head.iter().map(|line| format!("{line}\r\n")).collect::<String>();
            to.write_all(format!("{lines}Connection: close\r\n\r\n").as_bytes()).ok()?;
            to.write_all(&request.body).ok()?;
            let mut from = BufReader::new(&server);
            let mut lines = head(&mut from)?;
            let status = lines.remove(0)[9..12].parse().ok()?;
            let mut response = ProxiedResponse { status, fields: lines, body: Vec::new() };
            if response.fields.iter().any(|line| line.starts_with("Transfer-Encoding")) {
                tweak(&request, &mut response);
                let lines = response.fields.iter().map(|line| format!("{line}\r\n")).collect::<String>();
                let mut client = client.into_inner();
                client.write_all(format!("HTTP/1.1 {status} x\r\n{lines}\r\n").as_bytes()).ok()?;
                std::io::copy(&mut from, &mut client).ok()?;
                return Some(());
            }
            response.body = vec![0; length(&response.fields)];
            from.read_exact(&mut response.body).ok()?;
            response
                .fields
                .retain(|line| !line.starts_with("Content-Length") && !line.starts_with("Connection"));
            response
        }
    };
    let mut response = response;
    tweak(&request, &mut response);
    let lines = response.fields.iter().map(|line| format!("{line}\r\n")).collect::<String>();
    let head =
        format!("HTTP/1.1 {} x\r\n{lines}Content-Length: {}\r\n\r\n", response.status, response.body.len());
    let mut client = client.into_inner();
    client.write_all(&[head.as_bytes(), &response.body].concat()).ok()
}

/// Expected findings, arguments of the server, and the modifications of requests and responses.
type SpoiledCase = (&'static [&'static str], &'static [&'static str], Box<SpoilRequest>, Box<TweakResponse>);

/// Creates a case with modified requests.
fn spoiled_request(
    found: &'static [&'static str],
    args: &'static [&'static str],
    spoil: impl Fn(&mut ProxiedRequest) -> Option<ProxiedResponse> + Send + Sync + 'static,
) -> SpoiledCase {
    (found, args, Box::new(spoil), Box::new(|_, _| {}))
}

/// Creates a case with modified responses.
fn tweaked_response(
    found: &'static [&'static str],
    args: &'static [&'static str],
    tweak: impl Fn(&ProxiedRequest, &mut ProxiedResponse) + Send + Sync + 'static,
) -> SpoiledCase {
    (found, args, Box::new(|_| None), Box::new(tweak))
}

const LEGACY: &[&str] = &["--era", "legacy"];
const MODERN: &[&str] = &["--era", "modern"];
const UNKNOWN: &str = "mcp-probe/unknown";

fn cases() -> Vec<SpoiledCase> {
    vec![
        spoiled_request(&["http-unanswered"], LEGACY, |request| {
            request.calls(UNKNOWN).then(|| ProxiedResponse::new(500))
        }),
        spoiled_request(&["http-unanswered"], MODERN, |request| {
            // An error page of a gateway.
            let fields = vec!["Content-Type: text/html".into()];
            request.calls(UNKNOWN).then(|| ProxiedResponse { status: 502, fields, body: b"<html>".to_vec() })
        }),
        spoiled_request(&["http-unanswered"], MODERN, |request| {
            request.calls(UNKNOWN).then(|| ProxiedResponse::new(202))
        }),
        tweaked_response(&["http-content-type"], LEGACY, |request, response| {
            if request.calls(UNKNOWN) {
                response.fields = vec!["Content-Type: text/json".into()];
            }
        }),
        tweaked_response(&["http-body", "http-unanswered"], LEGACY, |request, response| {
            if request.calls(UNKNOWN) {
                response.body = b"{\"code\":-32601}".to_vec();
            }
        }),
        tweaked_response(&["http-status"], MODERN, |request, response| {
            if request.calls(UNKNOWN) {
                response.status = 200;
            }
        }),
        tweaked_response(&["http-status"], LEGACY, |request, response| {
            if request.calls("tools/list") && response.status == 200 {
                response.status = 201;
            }
        }),
        tweaked_response(&["http-accepted"], LEGACY, |_, response| {
            if response.status == 202 {
                response.status = 200;
            }
        }),
        tweaked_response(&["http-buffering"], MODERN, |_, response| {
            response.fields.retain(|line| !line.starts_with("X-Accel-Buffering"));
        }),
        spoiled_request(&["http-origin"], LEGACY, |request| {
            request.drop_field("Origin");
            None
        }),
        spoiled_request(&["http-get"], LEGACY, |request| {
            request.has_method("GET").then(|| ProxiedResponse::new(404))
        }),
        spoiled_request(&["http-get-modern"], MODERN, |request| {
            request.has_method("GET").then(|| ProxiedResponse::new(404))
        }),
        (
            &["http-session-id"],
            LEGACY,
            Box::new(|request| {
                let field = request.head.iter_mut().find(|line| line.starts_with("Mcp-Session-Id"));
                field.into_iter().for_each(|line| *line = line.replace("x y", ""));
                None
            }),
            Box::new(|request, response| {
                let field = response.fields.iter_mut().find(|line| line.starts_with("Mcp-Session-Id"));
                field
                    .filter(|_| request.calls("initialize"))
                    .into_iter()
                    .for_each(|line| line.push_str("x y"));
            }),
        ),
        tweaked_response(&["http-session-unknown", "http-delete"], LEGACY, |_, response| {
            if response.status == 404 {
                response.status = 400;
            }
        }),
        tweaked_response(&["http-session-missing"], LEGACY, |request, response| {
            if response.status == 400 && !request.has_field("Mcp-Session-Id") {
                response.status = 200;
            }
        }),
        spoiled_request(&["http-delete"], LEGACY, |request| {
            request.has_method("DELETE").then(|| ProxiedResponse::new(200))
        }),
        spoiled_request(&["http-delete"], LEGACY, |request| {
            request.has_method("DELETE").then(|| ProxiedResponse::new(500))
        }),
        tweaked_response(&["http-version"], LEGACY, |request, response| {
            if request.head.iter().any(|line| line.ends_with("1999-12-31")) {
                response.status = 200;
            }
        }),
        tweaked_response(&["http-mirror"], MODERN, |request, response| {
            if request.calls("server/discover") && !request.has_field("Mcp-Method") {
                *response = ProxiedResponse::json(
                    400,
                    &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}),
                );
            }
        }),
    ]
}

#[test]
fn check_finds_exactly_each_violated_http_rule() {
    let cases = cases();
    let provoked: BTreeSet<_> = cases.iter().flat_map(|(names, ..)| *names).copied().collect();
    let rules = probe(&["check", "--rules", "--json"]).assert_ok().json();
    let rules = rules.as_array().into_iter().flatten().map(|rule| rule["check"].as_str().expect("a name"));
    let rules: BTreeSet<_> = rules.filter(|rule| rule.starts_with("http-")).collect();
    assert_eq!(provoked, rules, "each rule has a server that breaks it");

    let mut failures = Vec::new();
    for (wanted, args, spoil, tweak) in cases {
        let done = SpoilingProxy::new(args, spoil.into(), tweak.into()).check(&[]);
        if found_rules(&done) != wanted.iter().map(|name| (*name).to_owned()).collect() {
            failures.push(format!("wanted {wanted:?}: {done}"));
        }
        assert!(done.elapsed < Duration::from_secs(30), "{done}");
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n\n"));
}

// covers: HTTP-004, HTTP-018, HTTP-024, HTTP-027, HTTP-039, HTTP-049, HTTP-069, HTTP-071, HTTP-077
#[test]
fn check_of_own_server_over_http_has_no_findings() {
    for everything in [&["--everything"][..], &[]] {
        let server = ServingProcess::new(everything);
        for (revision, _) in REVISIONS {
            let done = probe(&["check", "--strict", "--protocol-version", revision, &server.url]).assert_ok();
            done.assert_stdout(&["0 errors, 0 warnings", revision]);
        }
        let done = probe(&["check", "--strict", "--trace", &server.url]).assert_ok();
        done.assert_stdout(&["0 errors, 0 warnings", "2025-11-25 and 2026-07-28"])
            .assert_stderr(&["server/discover"]);
    }
    for era in ["legacy", "modern"] {
        let server = ServingProcess::new(&["--era", era]);
        probe(&["check", "--strict", &server.url]).assert_ok().assert_stdout(&["0 errors, 0 warnings"]);
    }
    // A proxy without modifications causes no findings.
    let relay = SpoilingProxy::new(
        &[],
        Arc::new(|_: &mut ProxiedRequest| None),
        Arc::new(|_: &ProxiedRequest, _: &mut ProxiedResponse| {}),
    );
    assert_eq!(found_rules(&relay.check(&["--strict"]).assert_ok()), [].into());
}

#[test]
fn check_of_a_wrong_url_gives_advice_about_the_url() {
    let server = RecordingServer::new(404);
    let done = probe(&["check", "--timeout", "1s", &server.url]).assert_code(1);
    let done = done.assert_stdout(&["not-a-server", "404", "fix: check the URL and its path"]);
    assert!(!done.stdout.contains("command") && !done.stdout.contains("--stderr"), "{done}");
    let done = probe(&["check", "--json", "--timeout", "1s", &server.url]).assert_code(1);
    assert_eq!(done.json()[0]["fix"], "check the URL and its path; --trace shows the responses", "{done}");
    // Where the finding is located: without the query, which may have a secret, and without a scheme, which code scanning refuses.
    let url = format!("{}?key=secret", server.url);
    let report = probe(&["check", "--sarif", "--timeout", "1s", &url]).assert_code(1);
    let location = &report.json()["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    let place = server.url.replace("http://", "").replace(':', "%3A");
    assert_eq!(location["artifactLocation"]["uri"], place, "{report}");
    assert!(!report.stdout.contains("secret"), "{report}");
    // A program still gets the advice about its command.
    probe(&["check", "--", "false"]).assert_code(1).assert_stdout(&["check the command and its arguments"]);
}

// covers: HTTPSSE-012
#[test]
fn check_notes_a_server_that_answers_over_http_sse_alone() {
    let server = ServingProcess::new(&["--sse"]);
    let done = probe(&["check", &server.url.replace("/mcp", "/sse"), "--json"]).assert_code(1);
    assert_eq!(noted_features(&done), ["HTTP+SSE"]);
    assert!(found_rules(&done).contains("not-a-server"), "{done}");
    let done = probe(&["check", &server.url.replace("/mcp", "/other"), "--json"]).assert_code(1);
    assert_eq!(noted_features(&done), [""; 0]);
}
