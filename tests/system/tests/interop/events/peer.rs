//! Both sides of the tests of events: programs that take commands and print JSON lines, and our server with webhooks.

use alloc::collections::VecDeque;
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mcp_events::delivery::{Config as DeliveryConfig, Deliveries};
use mcp_events::post::{ClientTls, Clock, Deliverer, Poster, entropy};
use mcp_events::server::{Event, Events, Publisher};
use mcp_events::source::SourceConfig;
use mcp_events::wire::{DeliveryMode, Profile};
use mcp_proto::http::server::{Config as Http, Protected, TokenRequest};
use mcp_proto::server::Identity;
use mcp_proto::{Entropy, RawJson};
use mcp_runtime::server::Handle;
use mcp_threads::{Error, HttpServer, Router};
use serde_json::{Value, json};

use crate::peers::package;
use crate::run::{DEADLINE, bypass_proxies};

/// The root that vouches for the certificates of these tests.
const ROOT: &[u8] = include_bytes!("../../../../../core/events/tests/certificates/root.pem");
/// A URL of this machine where nobody listens.
pub(super) const NOBODY: &str = "https://localhost:1/hook";
/// Name of the user of all tests.
pub(super) const USER: &str = "ann";

/// Returns a file of the certificate of `localhost`: `server.pem`, its `key.pem`, or `root.pem`.
pub(super) fn certificate(name: &str) -> PathBuf {
    package().join("../../core/events/tests/certificates").join(name)
}

/// A program that prints JSON lines, and may take commands on its input. Dropping it kills it.
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    /// Lines that were read and not taken.
    arrived: VecDeque<Value>,
    command_line: String,
}

impl Peer {
    pub(super) fn start(mut command: Command) -> Self {
        let command_line = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        bypass_proxies(&mut command);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command_line}: {error}"));
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { child, input, lines, arrived: VecDeque::new(), command_line }
    }

    fn read(&mut self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE);
        let line = line.unwrap_or_else(|error| panic!("{}: {error}: {:?}", self.command_line, self.arrived));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{}: {error}: {line}", self.command_line))
    }

    /// Returns the first line with a member, and keeps those before it.
    pub(super) fn line(&mut self, member: &str) -> Value {
        if let Some(at) = self.arrived.iter().position(|line| line.get(member).is_some()) {
            return self.arrived.remove(at).expect("it is there");
        }
        loop {
            let line = self.read();
            if line.get(member).is_some() {
                return line;
            }
            self.arrived.push_back(line);
        }
    }

    /// Sends a command, and returns the line that answers it.
    pub(super) fn try_ask(&mut self, words: &Value) -> Value {
        writeln!(self.input.as_mut().expect("it takes commands"), "{words}").expect("it reads them");
        let answer = self.line("done");
        assert_eq!(answer["done"], words[0]);
        answer
    }

    /// Sends a command that has to succeed, and returns its result.
    pub(super) fn ask(&mut self, words: &Value) -> Value {
        let answer = self.try_ask(words);
        assert!(answer.get("error").is_none(), "{words}: {answer}");
        answer["result"].clone()
    }

    /// Ends the input, and returns the lines that nobody has taken.
    pub(super) fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.arrived.push_back(serde_json::from_str(&line).expect("JSON"));
        }
        let status = self.child.wait().expect("waiting works");
        assert!(status.success(), "{}: {status}", self.command_line);
        core::mem::take(&mut self.arrived).into()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our server with the event type `build.finished`, whose argument `branch` chooses events. The token of a user is his name.
pub(super) struct OwnServer {
    pub(super) url: String,
    pub(super) events: Events,
    pub(super) publisher: Publisher<Value>,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl OwnServer {
    /// Starts a server that delivers to the hosts of these URLs, and to [`NOBODY`].
    pub(super) fn start(profile: Profile, receivers: &[&str]) -> Self {
        let events = Events::with(SourceConfig::default(), profile).expect("entropy");
        events.webhooks(deliverer(receivers));
        let schema = |text: &'static str| RawJson::new(text).expect("JSON");
        let build = Event::<Value, Value>::with_schemas(
            "build.finished",
            schema(
                r#"{"type":"object","properties":{"branch":{"type":"string"},"limit":{"type":"integer"}}}"#,
            ),
            schema(r#"{"type":"object","properties":{"branch":{"type":"string"},"ok":{"type":"boolean"}}}"#),
        );
        let build = build
            .description("A build has ended")
            .modes([DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Webhook])
            .matching(|wanted, build| wanted["branch"].is_null() || wanted["branch"] == build["branch"]);
        let publisher = events.add(build).expect("a type");
        let mut router = Router::new("builds", "1");
        router.extension(events.clone());
        let config = router.config().expect("valid entries");
        let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
        let http = Http::new().protected(protected);
        let validate = |request: &TokenRequest| Ok(Identity::new(request.token.reveal()));
        let server = HttpServer::bind("127.0.0.1:0", config, http, router).expect("a port");
        let mut server = server.validate_tokens(validate);
        let url = format!("http://{}/mcp", server.address().expect("a port"));
        let handle = server.handle().expect("a handle");
        Self { url, events, publisher, handle, thread: thread::spawn(move || server.run()) }
    }

    pub(super) fn publish(&self, branch: &str) {
        self.publisher.publish(&json!({"branch": branch, "ok": true})).expect("published");
    }

    pub(super) fn stop(self) {
        self.handle.shutdown(Duration::ZERO);
        self.thread.join().expect("no panic").expect("a graceful end");
        assert!(self.events.finish(DEADLINE), "a delivery is open");
    }
}

fn deliverer(receivers: &[&str]) -> Deliverer {
    let mut config = DeliveryConfig::default();
    for url in receivers.iter().chain([&NOBODY]) {
        config.addresses = config.addresses.origin(url).expect("a URL");
    }
    let (clock, secret) = (Clock::start(), entropy::seed().expect("entropy"));
    let deliveries = Deliveries::new(config, Entropy::new(secret, entropy::nonce()), clock.anchor());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).expect("a certificate");
    Deliverer::start(deliveries, clock, Poster::new().tls(tls)).expect("a thread")
}
