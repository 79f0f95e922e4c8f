//! Requests of one HTTP/1.1 connection that bring the same token, and a validator that changes its mind.

use alloc::sync::Arc;

use mcp_proto::http::server::{Config, Connection, Denial, Event, Protected, Server, TokenRequest};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Event as EngineEvent, Identity};
use mcp_proto::{Capabilities, Capability, Entropy, Instant, h1, server};

const TOKEN: &str = "0123456789abcdef.token";

type Decision = Option<Result<Arc<Identity>, Denial>>;

/// A protected server with one connection.
struct TokenConnection {
    server: Server,
    connection: Connection,
    now: Instant,
}

impl TokenConnection {
    fn new(validator: impl Fn(&TokenRequest) -> Decision + Send + Sync + 'static) -> Self {
        let now = Instant::from_micros(1);
        let protected = Protected::new("https://mcp.example.com/mcp", "https://login.example.com");
        let protected = protected.and_then(|protected| protected.scope("base")).expect("valid");
        let config =
            server::Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools));
        let http = Config::new().allow_host("mcp.example.com").protected(protected);
        let mut server = Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 0));
        server.set_validator(validator);
        Self { server, connection: Connection::new(now, h1::HttpLimits::default()), now }
    }

    fn drive(&mut self) {
        self.connection.drive(self.now, &mut self.server);
    }

    /// Calls a tool with a token.
    fn send_call(&mut self, token: &str) {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: mcp.example.com\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: a\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.connection.handle_input(self.now, request.as_bytes());
        self.drive();
    }

    /// Answers the call that arrived, if one did; it is returned with the status of the response.
    fn finish(&mut self) -> (u16, Option<Call>) {
        let mut calls = Vec::new();
        while let Some(event) = self.server.poll_event(self.now) {
            let Event::Server(EngineEvent::Call(call)) = event else { panic!("{event:?}") };
            self.server.engine().complete(self.now, call.id(), &CallToolResult::text("done")).expect("open");
            calls.push(call);
        }
        while self.server.poll_ready(self.now).is_some() {
            self.drive();
        }
        let mut response = Vec::new();
        while !self.connection.transmit().is_empty() {
            response.extend_from_slice(self.connection.transmit());
            self.connection.consume(self.connection.transmit().len());
            self.drive();
        }
        assert!(calls.len() <= 1 && self.server.exchange_count() == 0);
        let text = String::from_utf8(response).expect("text");
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a response");
        (status.parse().expect("a number"), calls.pop())
    }

    fn call(&mut self, token: &str) -> (u16, Option<Call>) {
        self.send_call(token);
        self.finish()
    }
}

/// Returns a validator that gives these decisions in turn and expects [`TOKEN`].
fn decisions(all: impl IntoIterator<Item = Decision>) -> impl Fn(&TokenRequest) -> Decision {
    let mut all: Vec<_> = all.into_iter().collect();
    all.reverse();
    let all = std::sync::Mutex::new(all);
    move |request| {
        assert_eq!((request.token.reveal(), request.method), (TOKEN, "POST"));
        assert_eq!(&*request.url, "https://mcp.example.com/mcp");
        all.lock().expect("no panic").pop().expect("one decision for each request")
    }
}

fn alice() -> Arc<Identity> {
    Arc::new(Identity::new("alice").scopes("base"))
}

// covers: SEC-004, AUTH-009
#[test]
fn validator_decides_about_each_request_with_the_same_token() {
    let alice = alice();
    let good = || Some(Ok(alice.clone()));
    let mut run = TokenConnection::new(decisions([
        good(),
        good(),
        Some(Err(Denial::invalid_token())),
        good(),
        Some(Err(Denial::Unavailable)),
    ]));
    for status in [200, 200, 401, 200, 503] {
        let (answered, call) = run.call(TOKEN);
        assert_eq!((answered, call.is_some()), (status, status == 200));
    }
}

// covers: AUTH-005, SEC-004
#[test]
fn identity_of_the_same_token_may_change() {
    let wider = Arc::new(Identity::new("alice").scopes("base mail"));
    let narrow = Arc::new(Identity::new("alice").scopes("mail"));
    let bob = Arc::new(Identity::new("bob").scopes("base"));
    let all = [alice(), wider.clone(), wider, narrow, bob];
    let mut run = TokenConnection::new(decisions(all.into_iter().map(|identity| Some(Ok(identity)))));
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (status, call) = run.call(TOKEN);
        let party = call.as_ref().and_then(|call| call.authorization());
        seen.push((status, party.map(|party| format!("{}: {}", party.principal(), party.scopes().as_str()))));
    }
    let ok = |text: &str| (200, Some(text.to_owned()));
    let wide = ok("alice: base mail");
    assert_eq!(seen, [ok("alice: base"), wide.clone(), wide, (403, None), ok("bob: base")]);
}

// covers: AUTH-009
#[test]
fn application_decides_about_a_known_token_if_the_validator_cannot() {
    let mut run = TokenConnection::new(decisions([Some(Ok(alice())), None, Some(Ok(alice()))]));
    assert_eq!(run.call(TOKEN).0, 200);
    run.send_call(TOKEN);
    match run.server.poll_event(run.now) {
        Some(Event::Token { exchange, request }) => {
            assert_eq!(request.token.reveal(), TOKEN);
            run.server.grant(run.now, exchange, Identity::new("carol").scopes("base"));
            run.drive();
        }
        other => panic!("{other:?}"),
    }
    let (status, call) = run.finish();
    let call = call.expect("a call");
    assert_eq!((status, call.authorization().map(|party| party.principal())), (200, Some("carol")));
    assert_eq!(run.call(TOKEN).0, 200);
}

// covers: SEC-005
#[test]
fn tokens_of_one_connection_keep_their_identities() {
    let mut run = TokenConnection::new(|request| {
        let name = request.token.reveal().rsplit('.').next().expect("a part").to_owned();
        Some(Ok(Arc::new(Identity::new(name).scopes("base"))))
    });
    for name in ["token", "other", "token", "token", "toke", "tokens", "other"] {
        let (status, call) = run.call(&format!("0123456789abcdef.{name}"));
        let call = call.expect("a call");
        assert_eq!((status, call.authorization().map(|party| party.principal())), (200, Some(name)));
    }
}

// covers: SEC-004
#[test]
fn accepted_post_alone_is_remembered() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = seen.clone();
    let mut run = TokenConnection::new(move |request| {
        let mut asked = asked.lock().expect("no panic");
        // The memory of the text tells whether it is that of an earlier request.
        asked.push((request.method, request.token.reveal().as_ptr() as usize));
        Some(if asked.len() == 1 { Err(Denial::invalid_token()) } else { Ok(alice()) })
    });
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: mcp.example.com\r\nAccept: text/event-stream\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let statuses = [401, 400, 200, 400, 200].map(|status| {
        if status == 400 {
            // There is no session whose stream it could be.
            run.connection.handle_input(run.now, get.as_bytes());
            run.drive();
            run.finish().0
        } else {
            run.call(TOKEN).0
        }
    });
    assert_eq!(statuses, [401, 400, 200, 400, 200]);
    let methods: Vec<_> = seen.lock().expect("no panic").iter().map(|(method, _)| *method).collect();
    assert_eq!(methods, ["POST", "GET", "POST", "GET", "POST"]);
}
