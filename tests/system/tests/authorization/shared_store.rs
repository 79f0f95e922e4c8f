//! Processes that share one token store, and what is left of them when they are killed in the middle of a refresh.

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use std::{fs, thread};

use mcp_auth::client::{Authorizer, Browser, BrowserLogin, Cancellation, FileStore};
use mcp_oauth::Config;
use mcp_proto::http::client::Url;
use serde_json::Value;

use crate::authorization::authorization_server::AuthorizationServer;
use crate::authorization::own_server::OwnServer;
use crate::authorization::sdk::browser_command;
use crate::run::DEADLINE;

/// Lifetime of access tokens in seconds: long enough for processes that wait for each other on a busy machine.
const LIFETIME: u64 = 4;
/// Time between the effect of a token request and its response, so that processes meet at the authorization server.
const TOKEN_DELAY: &str = "500";
/// Exit code of `token-user` if a user has to log in.
const LOGIN_REQUIRED: i32 = 6;

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn store(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running `token-user`, which is killed when it is dropped.
struct TokenUser {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl TokenUser {
    fn start(server: &OwnServer, store: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_token-user"));
        command.arg("--store").arg(store).args(options).arg(&server.url);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped above"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test may have seen enough.
                let _ = sender.send(serde_json::from_str(&line).expect("a JSON line"));
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits until the process is at a step.
    fn wait_for(&mut self, step: &str) {
        while self.seen.last().is_none_or(|line| line["step"] != step) {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no step {step} ({error}) after {:?}", self.seen),
            }
        }
    }

    /// Waits for the end of the process.
    fn wait(mut self) -> TokenUserEnd {
        let start = Instant::now();
        // The channel is closed when the process has ended.
        while let Ok(line) = self.lines.recv_timeout(DEADLINE.saturating_sub(start.elapsed())) {
            self.seen.push(line);
        }
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return TokenUserEnd { status, lines: core::mem::take(&mut self.seen) },
                None => assert!(start.elapsed() < DEADLINE, "still running after {:?}", self.seen),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process without a chance to clean up.
    fn kill(mut self) {
        self.child.kill().expect("a running process");
        self.child.wait().expect("a killed process");
    }
}

impl Drop for TokenUser {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a `token-user` ended.
#[derive(Debug)]
struct TokenUserEnd {
    status: ExitStatus,
    lines: Vec<Value>,
}

impl TokenUserEnd {
    fn count(&self, step: &str) -> usize {
        self.lines.iter().filter(|line| line["step"] == step).count()
    }

    /// Checks that the process called the server so many times, and returns the number of its token requests.
    fn assert_calls(&self, calls: usize) -> usize {
        assert!(self.status.success() && self.count("call") == calls, "{self:?}");
        assert!(self.lines.iter().all(|line| line["step"] != "call" || is_tester(line)), "{self:?}");
        self.count("request")
    }
}

fn is_tester(call: &Value) -> bool {
    call["text"].as_str().is_some_and(|text| text.contains(r#""subject":"tester""#))
}

fn authorizer(store: &Path) -> Authorizer {
    let browser = Browser::command(&browser_command()).expect("a command");
    Authorizer::new(Config::new("tests")).store(FileStore::new(store)).interaction(BrowserLogin::new(browser))
}

fn log_in(server: &OwnServer, store: &Path) {
    let url = Url::parse(&server.url).expect("a URL");
    let token = authorizer(store).log_in(&url, Vec::new(), &Cancellation::new()).expect("a login");
    assert!(token.is_some());
}

/// Returns whether the store has tokens for the server; it must be whole.
fn has_tokens(server: &OwnServer, store: &Path) -> bool {
    let url = Url::parse(&server.url).expect("a URL");
    authorizer(store).stored(&url).expect("a whole store").is_some()
}

fn wait_for_expiry() {
    thread::sleep(Duration::from_secs(LIFETIME));
}

fn start() -> Option<(AuthorizationServer, OwnServer)> {
    let lifetime = LIFETIME.to_string();
    let issuer = AuthorizationServer::start(&["--access-ttl", &lifetime, "--token-delay", TOKEN_DELAY])?;
    let server = OwnServer::start(&issuer.issuer);
    Some((issuer, server))
}

// covers: AUTH-063
#[test]
fn processes_with_one_store_refresh_once_and_go_on() {
    let Some((issuer, server)) = start() else { return };
    let folder = Folder::new("shared-store");
    let store = folder.store("tokens");
    log_in(&server, &store);
    wait_for_expiry();
    // All but the first find its refresh under way. Later the token expires in the memory of all of them.
    let again = (LIFETIME * 1000 + 500).to_string();
    let user = || TokenUser::start(&server, &store, &["--again-ms", &again]);
    let mut first = user();
    first.wait_for("request");
    let others = [user(), user()];
    let ends: Vec<_> = core::iter::once(first).chain(others).map(TokenUser::wait).collect();
    let requests: usize = ends.iter().map(|end| end.assert_calls(2)).sum();
    assert_eq!(requests, 2, "one refresh for each expiry: {ends:?}");
    assert!(ends.iter().all(|end| end.count("locked") >= 1), "{ends:?}");
    assert_eq!(issuer.grants("refresh_token").len(), 2);
    assert_eq!(issuer.requests("/auth").len(), 1, "nobody was asked again");
    assert!(has_tokens(&server, &store));
    server.stop();
    issuer.stop();
}

/// How the next process fares after one was killed at a step.
#[derive(Clone, Copy, PartialEq)]
enum Aftermath {
    Refreshes,
    /// The new tokens are stored.
    UsesStored,
    /// The new tokens are lost, and the old refresh token is used up.
    NeedsLogin,
}

const KILLED: [(&str, Aftermath); 6] = [
    ("lock", Aftermath::Refreshes),
    ("locked", Aftermath::Refreshes),
    ("request", Aftermath::Refreshes),
    ("response", Aftermath::NeedsLogin),
    ("save", Aftermath::NeedsLogin),
    ("saved", Aftermath::UsesStored),
];

/// Starts a process after another one was killed, and checks how it fares.
fn assert_aftermath(issuer: &AuthorizationServer, server: &OwnServer, store: &Path, aftermath: Aftermath) {
    let end = TokenUser::start(server, store, &[]).wait();
    match aftermath {
        Aftermath::Refreshes => assert_eq!(end.assert_calls(1), 1),
        Aftermath::UsesStored => assert_eq!(end.assert_calls(1), 0),
        Aftermath::NeedsLogin => assert_login_required(issuer, server, store, &end),
    }
    assert_eq!(has_tokens(server, store), aftermath != Aftermath::NeedsLogin);
}

/// Checks that a user has to log in after one vain refresh, which nobody repeats.
fn assert_login_required(issuer: &AuthorizationServer, server: &OwnServer, store: &Path, end: &TokenUserEnd) {
    let code = |end: &TokenUserEnd| end.status.code();
    assert_eq!((code(end), end.count("request")), (Some(LOGIN_REQUIRED), 1), "{end:?}");
    let requests = issuer.requests("/token").len();
    let end = TokenUser::start(server, store, &[]).wait();
    assert_eq!((code(&end), end.count("request")), (Some(LOGIN_REQUIRED), 0), "{end:?}");
    assert_eq!(issuer.requests("/token").len(), requests, "the refresh token is forgotten");
}

// covers: AUTH-063
#[test]
fn process_killed_in_refresh_leaves_a_store_to_go_on_with() {
    let Some((issuer, server)) = start() else { return };
    let folder = Folder::new("killed");
    let stores: Vec<_> = KILLED.iter().map(|(step, _)| folder.store(step)).collect();
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| log_in(&server, store));
        }
    });
    wait_for_expiry();
    for ((step, aftermath), store) in KILLED.into_iter().zip(&stores) {
        let mut killed = TokenUser::start(&server, store, &["--stop-at", step]);
        killed.wait_for(step);
        killed.kill();
        assert!(has_tokens(&server, store), "{step}");
        assert_aftermath(&issuer, &server, store, aftermath);
    }
    // After a login everything is as before.
    let lost = folder.store("response");
    log_in(&server, &lost);
    assert_eq!(TokenUser::start(&server, &lost, &[]).wait().assert_calls(1), 0);
    server.stop();
    issuer.stop();
}

// covers: AUTH-063
#[test]
fn process_killed_while_others_wait_for_its_refresh_holds_nobody_up() {
    let Some((issuer, server)) = start() else { return };
    let folder = Folder::new("waiting");
    let steps = [("request", Aftermath::Refreshes), ("saved", Aftermath::UsesStored)];
    let in_flight = folder.store("in-flight");
    for store in steps.iter().map(|(step, _)| folder.store(step)).chain([in_flight.clone()]) {
        log_in(&server, &store);
    }
    wait_for_expiry();
    for (step, aftermath) in steps {
        let store = folder.store(step);
        let mut killed = TokenUser::start(&server, &store, &["--stop-at", step]);
        killed.wait_for(step);
        let mut waiting = TokenUser::start(&server, &store, &[]);
        if aftermath == Aftermath::Refreshes {
            waiting.wait_for("lock");
            assert!(waiting.lines.recv_timeout(Duration::from_millis(200)).is_err(), "the lock is taken");
        }
        killed.kill();
        let requests = waiting.wait().assert_calls(1);
        assert_eq!(requests, usize::from(aftermath == Aftermath::Refreshes), "{step}");
    }
    // The authorization server has rotated, and its response has not arrived yet.
    let refreshed = issuer.grants("refresh_token").len();
    let killed = TokenUser::start(&server, &in_flight, &[]);
    let start = Instant::now();
    while issuer.grants("refresh_token").len() == refreshed {
        assert!(start.elapsed() < DEADLINE, "no refresh");
    }
    killed.kill();
    assert_aftermath(&issuer, &server, &in_flight, Aftermath::NeedsLogin);
    server.stop();
    issuer.stop();
}
