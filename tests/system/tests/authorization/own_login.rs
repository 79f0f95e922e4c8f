//! Logins of our client in the middle of a connection: what goes on meanwhile, and what a refusal looks like.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use std::{io, thread};

use async_io::block_on;
use mcp_auth::client::{Authorizer, PasteLogin};
use mcp_oauth::{Config as AuthConfig, ErrorKind, Step};
use mcp_proto::client::Config;
use mcp_proto::http::client::Url;
use mcp_proto::model::{CallToolResult, SubscriptionFilter};
use mcp_proto::{Change, VersionSet};
use mcp_system_tests::adapters::{self, AdapterKind, ServerLocation};
use mcp_system_tests::browser::{Browser, BrowserScript};
use serde_json::json;

use crate::authorization::authorization_server::AuthorizationServer;
use crate::authorization::own_server::OwnServer;
use crate::run::DEADLINE;

/// Handler that is never asked.
struct NoHandler;

impl mcp_blocking::ClientHandler for NoHandler {}

/// Handler that passes changes on.
struct ChangeHandler(Mutex<Sender<Change>>);

impl mcp_blocking::ClientHandler for ChangeHandler {
    fn changed(&self, change: &Change) {
        let changes = self.0.lock().expect("no panic under this lock");
        // The test may have seen enough.
        let _ = changes.send(change.clone());
    }
}

/// A user who logs in only when the test says so.
struct SlowUser {
    /// One message for each login that has begun.
    begun: Receiver<()>,
    /// One message lets one login go on.
    go_on: Sender<()>,
}

fn slow_user() -> (SlowUser, Authorizer) {
    let (begins, begun) = channel();
    let (go_on, may_go_on) = channel();
    let channels = Arc::new(Mutex::new((begins, may_go_on)));
    let login = PasteLogin::new(move |url| {
        let channels = channels.lock().expect("no panic under this lock");
        channels.0.send(()).map_err(io::Error::other)?;
        channels.1.recv_timeout(DEADLINE).map_err(io::Error::other)?;
        browse(url, true)
    });
    (SlowUser { begun, go_on }, Authorizer::new(AuthConfig::new("tests")).interaction(login))
}

/// Follows an authorization URL and returns the redirect.
fn browse(url: &Url, consents: bool) -> io::Result<String> {
    let mut browser = Browser::new(BrowserScript { consents, ..BrowserScript::default() });
    let redirect = browser.authorize(&format!("{}{}", url.origin(), url.target()));
    redirect.map_err(|error| io::Error::other(error.to_string()))
}

/// Returns the text of the result of a tool.
fn text(result: Result<CallToolResult<'static>, mcp_blocking::Error>) -> String {
    serde_json::to_value(result.expect("a result")).expect("JSON")["content"][0]["text"]
        .as_str()
        .expect("a text")
        .to_owned()
}

/// Operations of a client that several threads share.
trait SharedClient: Clone + Send + Sized + 'static {
    fn connect(
        authorizer: Authorizer,
        handler: ChangeHandler,
        url: &str,
    ) -> Result<Self, mcp_blocking::Error>;
    fn call(&self, tool: &str) -> Result<CallToolResult<'static>, mcp_blocking::Error>;
    fn follow_tools(&self);
    /// Waits for a change of which the handler is told.
    fn wait_for_change(&self, changes: &Receiver<Change>) -> Option<Change>;
}

fn config() -> Config {
    Config::new("tests", "0").versions(VersionSet::MODERN)
}

fn tools_filter() -> SubscriptionFilter {
    SubscriptionFilter::new().tools_list_changed(true)
}

impl SharedClient for mcp_threads::Client {
    fn connect(
        authorizer: Authorizer,
        handler: ChangeHandler,
        url: &str,
    ) -> Result<Self, mcp_blocking::Error> {
        Self::options(config()).no_cache().handler(handler).authorize(authorizer).connect_url(url)
    }

    fn call(&self, tool: &str) -> Result<CallToolResult<'static>, mcp_blocking::Error> {
        self.call_tool(tool, &json!({}))
    }

    fn follow_tools(&self) {
        self.subscribe(&tools_filter()).expect("a subscription");
    }

    fn wait_for_change(&self, changes: &Receiver<Change>) -> Option<Change> {
        changes.recv_timeout(DEADLINE).ok()
    }
}

impl SharedClient for mcp_smol::Client {
    fn connect(
        authorizer: Authorizer,
        handler: ChangeHandler,
        url: &str,
    ) -> Result<Self, mcp_blocking::Error> {
        let options = Self::options(config()).no_cache().handler(handler).authorize(authorizer);
        block_on(options.connect_url(url))
    }

    fn call(&self, tool: &str) -> Result<CallToolResult<'static>, mcp_blocking::Error> {
        block_on(self.call_tool(tool, &json!({})))
    }

    fn follow_tools(&self) {
        block_on(self.subscribe(&tools_filter())).expect("a subscription");
    }

    fn wait_for_change(&self, changes: &Receiver<Change>) -> Option<Change> {
        let start = Instant::now();
        while start.elapsed() < DEADLINE {
            // Without a future that is polled, nothing arrives.
            block_on(self.poll(Duration::from_millis(20))).expect("an open connection");
            if let Ok(change) = changes.try_recv() {
                return Some(change);
            }
        }
        None
    }
}

/// Calls a tool that needs more scopes, and uses the connection while the user logs in.
fn use_connection_while_user_logs_in<C: SharedClient>(issuer: &AuthorizationServer, server: &OwnServer) {
    let (user, authorizer) = slow_user();
    let (changed, changes) = channel();
    user.go_on.send(()).expect("a user");
    let client =
        C::connect(authorizer, ChangeHandler(Mutex::new(changed)), &server.url).expect("a connection");
    user.begun.recv_timeout(DEADLINE).expect("a login");
    client.follow_tools();

    let other = client.clone();
    let pending = thread::spawn(move || text(other.call("write")));
    user.begun.recv_timeout(DEADLINE).expect("a second login");
    for _ in 0..3 {
        assert!(text(client.call("whoami")).contains(r#""scopes":["mcp:read"]"#));
    }
    server.announce_tools();
    assert_eq!(client.wait_for_change(&changes), Some(Change::Tools));
    assert!(!pending.is_finished(), "the user has not logged in yet");
    user.go_on.send(()).expect("a user");
    assert_eq!(pending.join().expect("no panic"), "written");
    assert!(text(client.call("whoami")).contains("mcp:write"));
    // What was subscribed to with the first token goes on.
    server.announce_tools();
    assert_eq!(client.wait_for_change(&changes), Some(Change::Tools));
    assert_eq!((issuer.requests("/reg").len(), issuer.grants("authorization_code").len()), (1, 2));
}

// covers: AUTH-057
#[test]
fn threads_client_works_while_a_user_logs_in() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = OwnServer::start(&issuer.issuer);
    use_connection_while_user_logs_in::<mcp_threads::Client>(&issuer, &server);
    server.stop();
    issuer.stop();
}

// covers: AUTH-057
#[test]
fn smol_client_works_while_a_user_logs_in() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = OwnServer::start(&issuer.issuer);
    use_connection_while_user_logs_in::<mcp_smol::Client>(&issuer, &server);
    server.stop();
    issuer.stop();
}

/// Returns the error of a user who declines.
fn assert_declined(error: &mcp_blocking::Error) {
    let reason = error.authorization().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!(reason.step(), Step::Authorization, "{reason}");
    assert!(
        matches!(reason.kind(), ErrorKind::Refused { code, .. } if &**code == "access_denied"),
        "{reason}"
    );
    let shown = error.to_string();
    assert!(shown.contains("not authorized") && shown.contains("access_denied"), "{shown}");
}

#[test]
fn declined_login_is_a_clear_error_on_every_adapter() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = OwnServer::start(&issuer.issuer);
    let connect = |runtime, consents: usize| {
        // The user consents to so many logins.
        let asked = AtomicUsize::new(0);
        let login = PasteLogin::new(move |url| browse(url, asked.fetch_add(1, Ordering::Relaxed) < consents));
        let authorizer = Authorizer::new(AuthConfig::new("tests")).interaction(login);
        let location = ServerLocation::Protected(server.url.clone(), authorizer);
        adapters::connect(runtime, config(), NoHandler, &location)
    };
    for runtime in AdapterKind::ALL {
        match connect(runtime, 0) {
            Ok(_) => panic!("{runtime}: a connection"),
            Err(error) => assert_declined(&error),
        }
        let mut client = connect(runtime, 1).expect("a connection");
        assert_declined(&client.call_tool("write", &json!({})).expect_err("a scope is missing"));
        // The connection goes on with the token that it has.
        client.call_tool("whoami", &json!({})).expect("an answer");
        client.close().expect("a graceful end");
    }
    assert_eq!(issuer.grants("authorization_code").len(), AdapterKind::ALL.len());
    server.stop();
    issuer.stop();
}
