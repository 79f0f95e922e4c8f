//! `check` of a URL: a good server behind something that spoils what it says, one rule at a time

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::check::found;
use crate::http::Serving;
use crate::support::{Done, REVISIONS, probe};

/// A request on its way to the good server
struct Request {
    /// The first line and the fields, without what the relay says itself
    head: Vec<String>,
    body: Vec<u8>,
}

/// A response on its way back
#[derive(Debug)]
struct Response {
    status: u16,
    fields: Vec<String>,
    body: Vec<u8>,
}

impl Request {
    fn is(&self, method: &str) -> bool {
        self.head[0].starts_with(method)
    }

    fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether it asks for this
    fn asks(&self, method: &str) -> bool {
        self.message()["method"] == method
    }

    fn has(&self, field: &str) -> bool {
        self.head.iter().any(|line| line.to_lowercase().starts_with(&format!("{}:", field.to_lowercase())))
    }

    fn drop_field(&mut self, field: &str) {
        self.head.retain(|line| !line.to_lowercase().starts_with(&format!("{}:", field.to_lowercase())));
    }
}

impl Response {
    fn new(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: Vec::new() }
    }

    /// With a JSON body
    fn json(status: u16, body: &Value) -> Self {
        let fields = vec!["Content-Type: application/json".into()];
        Self { status, fields, body: body.to_string().into_bytes() }
    }
}

/// Spoils what passes: a request before it is passed on, which it may answer, and a response
type Spoil = dyn Fn(&mut Request) -> Option<Response> + Send + Sync;
type Tweak = dyn Fn(&Request, &mut Response) + Send + Sync;

/// A server with something in front
struct Relay {
    url: String,
    _behind: Serving,
}

impl Relay {
    fn new(args: &[&str], spoil: Arc<Spoil>, tweak: Arc<Tweak>) -> Self {
        let behind = Serving::new(args);
        let address = behind.address().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (spoil, tweak, address) = (Arc::clone(&spoil), Arc::clone(&tweak), address.clone());
                // Who goes away in the middle is nobody's loss.
                thread::spawn(move || relay(stream.ok()?, &address, &*spoil, &*tweak));
            }
        });
        Self { url, _behind: behind }
    }

    fn check(&self, args: &[&str]) -> Done {
        probe(&[&["check", "--json", "--timeout", "2s", &self.url], args].concat())
    }
}

/// A head, without the empty line behind it
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

fn relay(stream: TcpStream, address: &str, spoil: &Spoil, tweak: &Tweak) -> Option<()> {
    let mut client = BufReader::new(stream);
    let lines = head(&mut client)?;
    let mut body = vec![0; length(&lines)];
    client.read_exact(&mut body).ok()?;
    let mut request = Request { head: lines, body };
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
            let mut response = Response { status, fields: lines, body: Vec::new() };
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

/// What is found, the server's arguments, and what is wrong with it
type Case = (&'static [&'static str], &'static [&'static str], Box<Spoil>, Box<Tweak>);

/// Something wrong with requests
fn spoiled(
    found: &'static [&'static str],
    args: &'static [&'static str],
    spoil: impl Fn(&mut Request) -> Option<Response> + Send + Sync + 'static,
) -> Case {
    (found, args, Box::new(spoil), Box::new(|_, _| {}))
}

/// Something wrong with responses
fn tweaked(
    found: &'static [&'static str],
    args: &'static [&'static str],
    tweak: impl Fn(&Request, &mut Response) + Send + Sync + 'static,
) -> Case {
    (found, args, Box::new(|_| None), Box::new(tweak))
}

const LEGACY: &[&str] = &["--era", "legacy"];
const MODERN: &[&str] = &["--era", "modern"];
const UNKNOWN: &str = "mcp-probe/unknown";

fn cases() -> Vec<Case> {
    vec![
        spoiled(&["http-unanswered"], LEGACY, |request| request.asks(UNKNOWN).then(|| Response::new(500))),
        spoiled(&["http-unanswered"], MODERN, |request| {
            // A page of a gateway.
            let fields = vec!["Content-Type: text/html".into()];
            request.asks(UNKNOWN).then(|| Response { status: 502, fields, body: b"<html>".to_vec() })
        }),
        spoiled(&["http-unanswered"], MODERN, |request| request.asks(UNKNOWN).then(|| Response::new(202))),
        tweaked(&["http-content-type"], LEGACY, |request, response| {
            if request.asks(UNKNOWN) {
                response.fields = vec!["Content-Type: text/json".into()];
            }
        }),
        tweaked(&["http-body", "http-unanswered"], LEGACY, |request, response| {
            if request.asks(UNKNOWN) {
                response.body = b"{\"code\":-32601}".to_vec();
            }
        }),
        tweaked(&["http-status"], MODERN, |request, response| {
            if request.asks(UNKNOWN) {
                response.status = 200;
            }
        }),
        tweaked(&["http-status"], LEGACY, |request, response| {
            if request.asks("tools/list") && response.status == 200 {
                response.status = 201;
            }
        }),
        tweaked(&["http-accepted"], LEGACY, |_, response| {
            if response.status == 202 {
                response.status = 200;
            }
        }),
        tweaked(&["http-buffering"], MODERN, |_, response| {
            response.fields.retain(|line| !line.starts_with("X-Accel-Buffering"));
        }),
        spoiled(&["http-origin"], LEGACY, |request| {
            request.drop_field("Origin");
            None
        }),
        spoiled(&["http-get"], LEGACY, |request| request.is("GET").then(|| Response::new(404))),
        spoiled(&["http-get-modern"], MODERN, |request| request.is("GET").then(|| Response::new(404))),
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
                    .filter(|_| request.asks("initialize"))
                    .into_iter()
                    .for_each(|line| line.push_str("x y"));
            }),
        ),
        tweaked(&["http-session-unknown", "http-delete"], LEGACY, |_, response| {
            if response.status == 404 {
                response.status = 400;
            }
        }),
        tweaked(&["http-session-missing"], LEGACY, |request, response| {
            if response.status == 400 && !request.has("Mcp-Session-Id") {
                response.status = 200;
            }
        }),
        spoiled(&["http-delete"], LEGACY, |request| request.is("DELETE").then(|| Response::new(200))),
        spoiled(&["http-delete"], LEGACY, |request| request.is("DELETE").then(|| Response::new(500))),
        tweaked(&["http-version"], LEGACY, |request, response| {
            if request.head.iter().any(|line| line.ends_with("1999-12-31")) {
                response.status = 200;
            }
        }),
        tweaked(&["http-mirror"], MODERN, |request, response| {
            if request.asks("server/discover") && !request.has("Mcp-Method") {
                *response = Response::json(
                    400,
                    &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}),
                );
            }
        }),
    ]
}

#[test]
fn each_rule_of_http_that_is_broken_is_found_and_no_other() {
    let cases = cases();
    let provoked: BTreeSet<_> = cases.iter().flat_map(|(names, ..)| *names).copied().collect();
    let rules = probe(&["check", "--rules", "--json"]).ok().json();
    let rules = rules.as_array().into_iter().flatten().map(|rule| rule["check"].as_str().expect("a name"));
    let rules: BTreeSet<_> = rules.filter(|rule| rule.starts_with("http-")).collect();
    assert_eq!(provoked, rules, "each rule has a server that breaks it");

    let mut failures = Vec::new();
    for (wanted, args, spoil, tweak) in cases {
        let done = Relay::new(args, spoil.into(), tweak.into()).check(&[]);
        if found(&done) != wanted.iter().map(|name| (*name).to_owned()).collect() {
            failures.push(format!("wanted {wanted:?}: {done}"));
        }
        assert!(done.took < Duration::from_secs(30), "{done}");
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n\n"));
}

// covers: HTTP-004, HTTP-018, HTTP-024, HTTP-027, HTTP-039, HTTP-049, HTTP-069, HTTP-071, HTTP-077
#[test]
fn our_own_server_over_http_has_neither_errors_nor_warnings() {
    for everything in [&["--everything"][..], &[]] {
        let server = Serving::new(everything);
        for (revision, _) in REVISIONS {
            let done = probe(&["check", "--strict", "--protocol-version", revision, &server.url]).ok();
            done.says(&["0 errors, 0 warnings", revision]);
        }
        let done = probe(&["check", "--strict", "--trace", &server.url]).ok();
        done.says(&["0 errors, 0 warnings", "2025-11-25 and 2026-07-28"]).complains(&["server/discover"]);
    }
    for era in ["legacy", "modern"] {
        let server = Serving::new(&["--era", era]);
        probe(&["check", "--strict", &server.url]).ok().says(&["0 errors, 0 warnings"]);
    }
    // Through something that spoils nothing.
    let relay =
        Relay::new(&[], Arc::new(|_: &mut Request| None), Arc::new(|_: &Request, _: &mut Response| {}));
    assert_eq!(relay.check(&["--strict"]).ok().json(), json!([]));
}
