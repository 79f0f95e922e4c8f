//! Sixteen processes with one token store, whose access token expires again and again, and an authorization server that
//! revokes a grant when a used refresh token comes again. In every tenth refresh the process is killed between the answer and
//! the write.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use mcp_auth::client::{
    Authorizer, Cancellation, Fetcher, FileStore, HttpFetcher, NoInteraction, TokenStore as _,
};
use mcp_oauth::{Config, Fetch, FetchFailure, FetchResponse, TokenRecord, Trigger};
use mcp_proto::http::client::Url;
use serde_json::{Value, json};

use crate::support::{DEADLINE, Folder};

/// The variables that tell a helper what to do.
const STORE: &str = "MCP_TEST_STORE";
const SERVER: &str = "MCP_TEST_SERVER";
const PROCESSES: usize = 16;
/// The field of a response whose receiver is killed.
const STOP: &str = "x-stop";

/// What an authorization server does when the token that it replaced last comes again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reuse {
    Revokes,
    /// It issues another one, unless the successor was used. RFC 9700, 4.14.2 leaves that to it.
    Repeats,
}

/// The state of an authorization server with one grant at a time. Tokens are numbered.
struct Grants {
    reuse: Reuse,
    first: u64,
    replaced: Option<u64>,
    newest: u64,
    is_revoked: bool,
    /// Whether the receiver of the next answer is to be killed.
    stops_next: bool,
    issued: usize,
    refused: usize,
    /// Requests with a token that had been presented before.
    repeated: usize,
}

impl Grants {
    /// Starts a grant, as a login does; returns its record, which is due.
    fn log_in(&mut self, base: &str) -> Value {
        self.newest += 1;
        (self.first, self.replaced, self.is_revoked) = (self.newest, None, false);
        json!({
            "version": 1, "resource": format!("{base}/mcp"), "issuer": base, "registration": "pre-registered",
            "client_id": "c", "auth_method": "none", "token_endpoint": format!("{base}/token"),
            "access_token": format!("a{}", self.newest), "refresh_token": self.newest.to_string(),
            "issued_at": 0, "renew_at": 0,
        })
    }

    /// Returns the status, the body, and whether the receiver is to be killed.
    fn refresh(&mut self, token: u64) -> (u16, Value, bool) {
        let is_again = self.replaced == Some(token);
        self.repeated += usize::from(token < self.newest);
        let is_valid = token == self.newest || (is_again && self.reuse == Reuse::Repeats);
        if self.is_revoked || !is_valid {
            self.is_revoked |= token >= self.first;
            self.refused += 1;
            return (400, json!({ "error": "invalid_grant" }), false);
        }
        self.issued += 1;
        self.newest += 1;
        self.replaced = Some(token);
        let body = json!({
            "access_token": format!("a{}", self.newest), "token_type": "Bearer", "expires_in": 3_600,
            "refresh_token": self.newest.to_string(),
        });
        (200, body, core::mem::take(&mut self.stops_next))
    }

    fn serve(grants: &Mutex<Self>, mut stream: TcpStream) {
        let (mut request, mut chunk) = (String::new(), [0; 4096]);
        let token = loop {
            let n = stream.read(&mut chunk).unwrap();
            assert_ne!(n, 0, "a request ends early");
            request.push_str(core::str::from_utf8(&chunk[..n]).unwrap());
            let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                let token = body.split('&').find_map(|part| part.strip_prefix("refresh_token="));
                break token.unwrap().parse::<u64>().unwrap();
            }
        };
        let (status, body, stops) = grants.lock().unwrap().refresh(token);
        let (body, stop) = (body.to_string(), if stops { "X-Stop: 1\r\n" } else { "" });
        let length = body.len();
        // A client that was killed takes no answer.
        let _ = write!(
            stream,
            "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{stop}\r\n{body}"
        );
    }
}

/// Waits to be killed when it has an answer that says so.
struct StoppingFetcher(HttpFetcher);

impl Fetcher for StoppingFetcher {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        let response = self.0.fetch(fetch)?;
        println!("answered");
        while response.field(STOP).is_some() {
            println!("stopped");
            thread::sleep(DEADLINE);
        }
        Ok(response)
    }
}

#[test]
#[ignore = "a helper of the tests below"]
fn helper_uses_the_token() {
    let server = Url::parse(&std::env::var(SERVER).unwrap()).unwrap();
    let authorizer = Authorizer::new(Config::new("tests").interactive(false))
        .store(FileStore::new(std::env::var_os(STORE).unwrap()))
        .fetcher(StoppingFetcher(HttpFetcher::new()))
        .interaction(NoInteraction);
    // Whoever started it has ended when the input does.
    let stopping = Cancellation::new();
    let stop = stopping.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.cancel();
    });
    println!();
    while !stopping.is_cancelled() {
        match authorizer.run(&server, Trigger::Connect, &Cancellation::new()) {
            Ok(Some(_)) => {}
            Ok(None) => println!("asked"),
            Err(error) => println!("error: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts this program as a helper, whose lines go to a channel.
fn start(i: usize, store: &Path, server: &str, lines: &Sender<(usize, String)>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["refresh_once::helper_uses_the_token", "--exact", "--ignored", "--nocapture"])
        .env(STORE, store)
        .env(SERVER, server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let lines = lines.clone();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            // The test may have ended.
            let _ = lines.send((i, line));
        }
    });
    child
}

/// Processes that are killed when the test fails.
struct Helpers(Vec<Child>);

impl Drop for Helpers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What happened in a run.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    logins: usize,
    /// Flows that ended because a user has to log in.
    asked: usize,
    /// Processes whose token request was answered.
    refreshed: BTreeSet<usize>,
    errors: Vec<String>,
}

impl Tally {
    /// Takes the lines of the helpers; returns those that wait to be killed.
    fn read(&mut self, lines: &Receiver<(usize, String)>) -> Vec<usize> {
        let mut stopped = Vec::new();
        while let Ok((i, line)) = lines.try_recv() {
            match &*line {
                "stopped" => stopped.push(i),
                "asked" => self.asked += 1,
                "answered" => drop(self.refreshed.insert(i)),
                _ if line.starts_with("error: ") => self.errors.push(line),
                _ => {}
            }
        }
        stopped
    }
}

/// Lets the access token of sixteen processes expire so many times, and checks that nothing avoidable is lost.
fn expire(reuse: Reuse, expiries: usize) {
    let started = Instant::now();
    let folder = Folder::new();
    let path = folder.0.join("tokens.json");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = format!("{base}/mcp");
    let grants = Arc::new(Mutex::new(Grants {
        reuse,
        first: 0,
        replaced: None,
        newest: 0,
        is_revoked: false,
        stops_next: false,
        issued: 0,
        refused: 0,
        repeated: 0,
    }));
    let served = Arc::clone(&grants);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let grants = Arc::clone(&served);
            thread::spawn(move || Grants::serve(&grants, stream.unwrap()));
        }
    });
    let (store, key) = (FileStore::new(&path), TokenRecord::key(&Url::parse(&server).unwrap()));
    store.save(&key, &grants.lock().unwrap().log_in(&base).to_string().into()).unwrap();

    let (sender, lines) = channel();
    let mut helpers = Helpers((0..PROCESSES).map(|i| start(i, &path, &server, &sender)).collect());
    let (mut tally, mut expired, mut progress) = (Tally::default(), 0, Instant::now());
    // The first record is due already. The last refresh is waited for.
    loop {
        for i in tally.read(&lines) {
            helpers.0[i].kill().unwrap();
            helpers.0[i].wait().unwrap();
            tally.kills += 1;
            helpers.0[i] = start(i, &path, &server, &sender);
        }
        assert!(progress.elapsed() < DEADLINE, "no progress after {expired} expiries: {tally:?}");
        let Some(text) = store.load(&key).unwrap() else {
            let mut grants = grants.lock().unwrap();
            assert!(grants.is_revoked, "the tokens of a grant that is valid were removed");
            let record = grants.log_in(&base).to_string().into();
            assert!(store.replace(&key, None, Some(&record)).unwrap(), "nobody else logs in");
            tally.logins += 1;
            continue;
        };
        let mut record: Value = serde_json::from_str(text.expose()).unwrap();
        if record["renew_at"] == json!(0) {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        if expired == expiries {
            break;
        }
        expired += 1;
        progress = Instant::now();
        grants.lock().unwrap().stops_next = expired % 10 == 0;
        record["renew_at"] = json!(0);
        assert!(store.replace(&key, Some(&text), Some(&record.to_string().into())).unwrap());
    }
    for child in &mut helpers.0 {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert!(tally.read(&lines).is_empty(), "{tally:?}");
    let grants = grants.lock().unwrap();
    println!(
        "{reuse:?}: {expired} expiries in {:?}: {} issued, {} refused, {} repeated, {tally:?}",
        started.elapsed(),
        grants.issued,
        grants.refused,
        grants.repeated
    );
    assert_eq!((tally.kills, &tally.errors[..]), (expiries / 10, &[][..]), "{tally:?}");
    assert_eq!(
        grants.repeated, tally.kills,
        "a used refresh token is sent once for each kill, and never besides"
    );
    match reuse {
        Reuse::Repeats => assert_eq!((grants.refused, tally.logins, tally.asked), (0, 0, 0), "{tally:?}"),
        // The new token was in the memory of the killed process alone.
        Reuse::Revokes => assert_eq!((grants.refused, tally.logins), (tally.kills, tally.kills), "{tally:?}"),
    }
    assert!(tally.refreshed.len() > PROCESSES / 2, "{tally:?}");
}

/// Returns the expiries of a test: all with `MCP_TEST_FULL`, as `.ci/run` sets it.
fn expiries() -> usize {
    if std::env::var_os("MCP_TEST_FULL").is_some() { 1_000 } else { 100 }
}

// covers: AUTH-063
#[test]
fn killed_processes_cost_nothing_where_the_last_token_may_come_again() {
    expire(Reuse::Repeats, expiries());
}

// covers: AUTH-063
#[test]
fn each_killed_process_costs_one_login_where_no_token_may_come_again() {
    expire(Reuse::Revokes, expiries());
}
