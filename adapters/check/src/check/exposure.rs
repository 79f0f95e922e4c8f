//! Checks of what surrounds the messages of a server: its command and URL, the fields and limits of its responses.

use mcp_proto::http::fields::SESSION_ID;
use serde_json::Value;

use super::conversation::{CheckConversation, CheckSetup};
use super::peer::ServerTarget;
use super::profile::Profile;
use super::report::{CheckReport, clip};
use super::rules::rules_of;
use super::transport::remove_field;
use crate::document::is_safe;
use crate::exchange::{self, HttpResponseHead};
use crate::text::initialize_params;

rules_of! {
    RULES
    PLAIN_HTTP "plain-http" Error [Hosted] Mcp01 Mcp07 ["SEC-013"]
        "clients of other machines reach the server by https"
        "serve https, or put a proxy in front that does: tokens and answers can be read and changed on the way"
    NO_AUTHORIZATION "no-authorization" Warning [Hosted] Mcp07 ["AUTH-002"]
        "a server over HTTP requires authorization"
        "require tokens, unless everyone may do what the server does"
    CORS_CREDENTIALS "cors-credentials" Error [Hosted] Mcp07 ["HTTP-003"]
        "web pages of other origins cannot use the credentials of their visitors"
        "allow named origins only, or leave out `Access-Control-Allow-Credentials`"
    SESSION_ID_WEAK "session-id-weak" Warning [Hosted] Mcp07 ["SEC-005"]
        "session ids cannot be guessed"
        "use at least 128 random bits, in hexadecimal digits, for example"
    BODY_LIMIT "body-limit" Note [Hosted] ["HTTP-081"]
        "bodies larger than a limit are refused with 413"
        "set a limit, of 16 MiB at most: a few large bodies exhaust the memory otherwise"
    SERVER_PRODUCT "server-product" Note [Hosted] Mcp10 []
        "responses do not name the version of the software that serves them"
        "remove the version from `Server` and `X-Powered-By`"
    STACK_TRACE "stack-trace" Warning [Hosted] Mcp10 ["LOG-011"]
        "errors have no stack traces"
        "log the details at the server, and answer with a message"
}

rules_of! {
    PACKAGES
    UNPINNED_PACKAGE "unpinned-package" Warning [] Mcp04 []
        "a command that fetches a package names its version"
        "write the version: `npx -y package@1.2.3`, `uvx package==1.2.3`"
}

rules_of! {
    UNSEEN
    SCOPES_UNSEEN "scopes-unseen" Note [] Mcp02 []
        "the rights of a server are visible as scopes of its tokens"
        "look at them: a server that is no HTTP server has the rights of its user"
    PACKAGES_UNSEEN "packages-unseen" Note [] Mcp04 []
        "the packages of a server are visible in its command"
        "look at its lock files: a server at a URL shows nothing of them"
    AUTHORIZATION_UNSEEN "authorization-unseen" Note [] Mcp07 []
        "a server decides by tokens who may use it"
        "look at who can start or reach it: a server that is no HTTP server has no authorization of its own"
    AUDIT_UNSEEN "audit-unseen" Note [] Mcp08 []
        "logs and telemetry can be checked from outside"
        "look whether each call is recorded with its caller: the server shows nothing of it"
    SHADOW_UNSEEN "shadow-unseen" Note [] Mcp09 []
        "servers that nobody has approved can be found from one server"
        "look at the inventory, and at the configurations of clients: one server does not show the others"
}

/// Notes the categories of the OWASP MCP Top 10 of which this server shows nothing.
pub(super) fn note_unseen(report: &CheckReport, is_http: bool) {
    let by_transport: &[_] = match is_http {
        true => &[PACKAGES_UNSEEN],
        false => &[SCOPES_UNSEEN, AUTHORIZATION_UNSEEN],
    };
    for rule in by_transport.iter().chain(&[AUDIT_UNSEEN, SHADOW_UNSEEN]) {
        report.add(rule, "the server", "nothing about this was checked");
    }
}

/// Checks that a command names the version of the package that it fetches.
pub(super) fn check_command(report: &CheckReport, words: &[String]) {
    if let Some(package) = fetched_package(words).filter(|package| !is_pinned(package)) {
        let what = format!("the package {:?} may be another one at each start", clip(package, 80));
        report.add(UNPINNED_PACKAGE, "the command", what);
    }
}

/// Returns the package that a command fetches before it runs it, if it does.
fn fetched_package(words: &[String]) -> Option<&str> {
    let file_name = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
        [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
    };
    // A runner may stand behind `cmd /c` or `env`.
    let mut rest = words;
    while let [word, after @ ..] = rest {
        rest = after;
        let runs = match (&*file_name(word), after) {
            ("npx" | "bunx" | "pnpx" | "uvx", after) => after,
            ("npm", [exec, after @ ..]) if ["exec", "x"].contains(&&**exec) => after,
            ("pnpm" | "yarn", [dlx, after @ ..]) if dlx == "dlx" => after,
            ("bun", [x, after @ ..]) if x == "x" => after,
            ("pipx", [run, after @ ..]) if run == "run" => after,
            ("uv", [tool, run, after @ ..]) if tool == "tool" && run == "run" => after,
            _ => continue,
        };
        return package_of(runs);
    }
    None
}

/// Returns the package in the arguments of a runner: that of an option, or else the first argument.
fn package_of(args: &[String]) -> Option<&str> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(("--package" | "--from" | "--spec", package)) = arg.split_once('=') {
            return Some(package);
        }
        match &**arg {
            "-p" | "--package" | "--from" | "--spec" => return args.next().map(String::as_str),
            "--python" | "--with" | "--index" | "--index-url" | "--registry" | "--cache" => _ = args.next(),
            option if option.starts_with('-') => {}
            package => return Some(package),
        }
    }
    None
}

/// Returns whether a package is a file, a commit, or one whole version.
fn is_pinned(package: &str) -> bool {
    let is_file = package.starts_with(['.', '/']) || package.ends_with(".tgz") || package.ends_with(".whl");
    let is_version = |version: &str| {
        let number = version.split(['-', '+']).next().unwrap_or_default();
        number.split('.').count() >= 3
            && number.split('.').all(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_commit = |name: &str| name.len() >= 7 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let version = package.rsplit_once("==").map(|(_, version)| version);
    let at = || package.get(1..).and_then(|name| name.rsplit_once(['@', '#'])).map(|(_, version)| version);
    is_file
        // Versions of Python packages may have any number of parts.
        || version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains('*'))
        || at().is_some_and(|version| is_version(version) || is_commit(version))
}

/// Checks that the URL of a server on another machine is `https`.
pub(super) fn check_url(setup: &CheckSetup, report: &CheckReport) {
    let ServerTarget::Http(server) = &setup.server else { return };
    if !is_safe(server.url()) {
        let what = "it is http, and leads to another machine than this one";
        report.add(PLAIN_HTTP, "the URL", what);
    }
}

/// Checks the response to a request that has no token.
pub(super) fn check_response(report: &CheckReport, head: &HttpResponseHead) {
    let location = "a request without a token";
    // A server that complains about the request has not asked for a token first.
    if head.is_success() || head.status == 400 {
        report.add(NO_AUTHORIZATION, location, head.sentence());
    }
    for field in ["server", "x-powered-by", "x-aspnet-version"] {
        for value in head.values(field).filter(|value| names_version(value)) {
            let what = format!("the response has `{field}: {}`", clip(value, 80));
            report.add(SERVER_PRODUCT, location, what);
        }
    }
}

/// Returns whether a field has a number with a point, as versions have.
fn names_version(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.windows(3).any(|at| at[0].is_ascii_digit() && at[1] == b'.' && at[2].is_ascii_digit())
}

/// Checks whether the response to a web page of `origin` lets it use the credentials of its visitor.
pub(super) fn check_cors(report: &CheckReport, location: &str, head: &HttpResponseHead, origin: &str) {
    let allowed = head.field("access-control-allow-origin").unwrap_or_default();
    let has_credentials = head.field("access-control-allow-credentials") == Some("true");
    if has_credentials && (allowed == "*" || allowed == origin) {
        let what = format!("the response allows the origin {:?} and credentials", clip(allowed, 80));
        report.add(CORS_CREDENTIALS, location, what);
    }
}

/// Checks that a body which no message needs is refused, or not read to its end.
pub(super) fn check_body_limit(conversation: &mut CheckConversation<'_>) {
    if conversation.setup().profile != Profile::Hosted {
        return;
    }
    let message = conversation.safe_request();
    let mut body = message.to_string().into_bytes();
    body.resize(LARGE_BODY, b' ');
    let Some(peer) = conversation.http_peer() else { return };
    let reply = peer.perform("POST", peer.post_fields(&message), Some(&body), conversation.setup().timeout);
    if let Some(what) = missing_limit(reply.as_ref().map(|reply| &reply.head).map_err(|why| &**why)) {
        let location = format!("a request of {LARGE_BODY} bytes");
        conversation.report.add(BODY_LIMIT, &location, what);
    }
}

/// Returns what the outcome of a large request says against a limit of bodies, if anything.
fn missing_limit(outcome: Result<&HttpResponseHead, &str>) -> Option<String> {
    match outcome {
        // A server that ends the connection has a limit, too.
        Err(exchange::CLOSED) => None,
        Ok(head) if head.status == 413 => None,
        Ok(head) if head.is_success() => Some(head.sentence()),
        Ok(head) => Some(format!("not tested: {}, not 413", head.sentence())),
        Err(why) => Some(format!("not tested: {why}; a longer --timeout may help")),
    }
}

/// Checks the id of the session by comparing it with that of another one, which is ended at once.
pub(super) fn check_session_id(conversation: &mut CheckConversation<'_>) {
    let setup = conversation.setup();
    if setup.profile.selection() == Profile::Spec {
        return;
    }
    let params = initialize_params(conversation.version().as_str());
    let message = conversation.new_request("initialize", params);
    let Some(peer) = conversation.http_peer() else { return };
    let Some(session) = peer.session.clone() else { return };
    let fields = remove_field(SESSION_ID)(peer.post_fields(&message));
    let reply = peer.perform("POST", fields, Some(message.to_string().as_bytes()), setup.timeout);
    let other = reply.ok().and_then(|reply| reply.head.field(SESSION_ID).map(str::to_owned));
    let Some(other) = other else { return };
    let mut fields = remove_field(SESSION_ID)(peer.session_fields());
    fields.push(SESSION_ID, other.as_bytes());
    // A server may refuse this; the session ends by itself later.
    let _ = peer.perform("DELETE", fields, None, setup.timeout);
    if let Some(what) = weakness(&session, &other) {
        conversation.report.add(SESSION_ID_WEAK, "session ids", what);
    }
}

/// Returns what makes session ids easy to guess, if anything. The ids themselves are secrets (SEC-019).
fn weakness(one: &str, other: &str) -> Option<String> {
    let length = one.len().min(other.len());
    let differing = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count();
    if length < MIN_SESSION_ID {
        Some(format!("they have {length} characters"))
    } else if differing < MIN_DIFFERING {
        Some(format!("two of them differ in {differing} of {length} characters"))
    } else {
        None
    }
}

/// Checks that an error has no stack trace in its texts.
pub(super) fn check_error(report: &CheckReport, error: &Value) {
    let mut trace = None;
    super::texts::visit(error, &mut |text| {
        trace = trace.or_else(|| TRACES.iter().copied().find(|mark| text.contains(mark)));
    });
    if let Some(mark) = trace {
        let code = &error["code"];
        report.add_unsolicited(STACK_TRACE, format!("an error {code} with {:?}", mark.trim()));
    }
}

/// Parts of the stack traces of Python, Rust, Go, JavaScript, Java and .NET.
const TRACES: &[&str] = &[
    "Traceback (most recent call last)",
    "stack backtrace:",
    "' panicked at ",
    "goroutine 1 [",
    "\n    at ",
    "\n\tat ",
    "\n   at ",
];
/// Size of a body that no request needs.
const LARGE_BODY: usize = (16 << 20) + 1;
/// Characters of the shortest session id: 64 random bits in hexadecimal digits.
const MIN_SESSION_ID: usize = 16;
/// Characters in which two random ids differ at least: of 16 hexadecimal digits 15 on average.
const MIN_DIFFERING: usize = 9;

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use mcp_proto::head::Fields;
    use mcp_proto::http::client::Url;

    use super::*;
    use crate::exchange::HttpTarget;

    #[test]
    fn packages_without_a_version_are_found_in_commands() {
        let package = |command: &str| {
            let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
            fetched_package(&words).filter(|package| !is_pinned(package)).map(str::to_owned)
        };
        for (command, unpinned) in [
            ("npx -y @scope/server", Some("@scope/server")),
            ("npx -y @scope/server@latest /tmp", Some("@scope/server@latest")),
            ("npx server@1", Some("server@1")),
            ("npx server@^1.2.3", Some("server@^1.2.3")),
            ("cmd /c C:\\bin\\npx.cmd server", Some("server")),
            ("npm exec -- server", Some("server")),
            ("pnpm dlx --package=server name", Some("server")),
            ("uvx --python 3.12 --from server name", Some("server")),
            ("uv tool run server@latest", Some("server@latest")),
            ("uvx git+https://example.com/a/b@main", Some("git+https://example.com/a/b@main")),
            ("npx -y @scope/server@1.2.3", None),
            ("npx -y server@1.2.3-beta.1", None),
            ("uvx --from server==0.6 name", None),
            ("uvx server@0.6.2", None),
            ("uvx git+https://example.com/a/b@0123456789abcdef", None),
            ("npx ./server", None),
            ("npm start", None),
            ("python server.py npx", None),
            ("uv run server.py", None),
        ] {
            assert_eq!(package(command).as_deref(), unpinned, "{command}");
        }
    }

    /// Returns what is said of a server that answers a request with this; with nothing it waits, with "" it closes.
    fn limit_of(response: Option<&'static str>) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            if let Some(response) = response {
                let mut chunk = [0; 4096];
                let _ = stream.read(&mut chunk).expect("a request");
                stream.write_all(response.as_bytes()).expect("sent");
                return None;
            }
            Some(stream)
        });
        let target = HttpTarget::new(url, vec![address], Vec::new());
        let until = Instant::now() + Duration::from_millis(if response.is_some() { 10_000 } else { 200 });
        let reply = exchange::perform(&target, "POST", Fields::new(), Some(b"{}"), until);
        drop(server.join());
        missing_limit(reply.as_ref().map(|reply| &reply.head).map_err(|why| &**why))
    }

    // covers: HTTP-081
    #[test]
    fn body_limit_that_was_not_reached_is_not_green() {
        assert_eq!(limit_of(Some("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")), None);
        assert_eq!(limit_of(Some("")), None);
        let accepted = limit_of(Some("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(accepted.as_deref(), Some("the response has the status 202"));
        for other in [None, Some("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")] {
            let what = limit_of(other).expect("it is told");
            assert!(what.starts_with("not tested: "), "{what}");
        }
    }

    #[test]
    fn session_ids_that_can_be_guessed_are_weak() {
        let uuid = ("5e0b0f9c-9b7e-4f43-8f6a-0d9c1a2b3c4d", "c1a2d3e4-1f2a-4bcd-9e8f-7a6b5c4d3e2f");
        assert_eq!(weakness(uuid.0, uuid.1), None);
        // A time, then 74 random bits.
        let ordered = ("0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "0190a1b2-c3d5-7f1a-91b2-f3e4d5c6b7a8");
        assert_eq!(weakness(ordered.0, ordered.1), None);
        assert_eq!(weakness("1", "2").as_deref(), Some("they have 1 characters"));
        let counted = weakness("session-00000000000041", "session-00000000000042");
        assert_eq!(counted.as_deref(), Some("two of them differ in 1 of 22 characters"));
    }

    #[test]
    fn versions_of_software_are_told_from_names() {
        for (field, is_named) in [("nginx/1.18.0", true), ("PHP/8.2", true), ("nginx", false), ("h2o", false)]
        {
            assert_eq!(names_version(field), is_named, "{field}");
        }
    }
}
