//! Who sits at our client: answers what servers ask, and sees what they tell

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, Log};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ListRootsResult, LoggingLevel,
    Role, Root,
};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Capabilities, Capability, Change, Diagnostic, Limits, RpcError, VersionSet};
use mcp_tests::ours::{self, Client, Runtime, Where};
use serde_json::Value;

/// Connects a client that speaks one revision, and can do everything for its server.
pub(super) fn connect(
    runtime: Runtime,
    revision: &str,
    person: &Person,
    server: &Where,
) -> Result<Box<dyn Client>, Error> {
    let version = VersionSet::ALL.iter().find(|version| version.as_str() == revision).expect("a revision");
    let all = [Capability::ElicitationForm, Capability::Sampling, Capability::Roots];
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 64 << 20;
    // Not the default: a busy machine takes long to start one of these.
    limits.init_timeout = Duration::from_secs(50);
    limits.probe_timeout = Duration::from_secs(20);
    let config = Config::new("table", "1")
        .versions(VersionSet::only(version))
        .capabilities(all.into_iter().fold(Capabilities::new(), Capabilities::with))
        .limits(limits);
    ours::connect(runtime, config, person.clone(), server)
}

/// Answers, and what was seen
#[derive(Clone, Default)]
pub(super) struct Person(Arc<Mutex<Seen>>);

#[derive(Default)]
pub(super) struct Seen {
    /// What is answered to forms
    pub(super) answer: Value,
    pub(super) root: String,
    /// How often each kind of question was asked
    pub(super) forms: usize,
    pub(super) samplings: usize,
    pub(super) roots: usize,
    pub(super) logs: Vec<LoggingLevel>,
    pub(super) changed: Vec<String>,
    pub(super) odd: Vec<String>,
    /// What passed
    pub(super) sent: Vec<Value>,
    pub(super) received: Vec<Value>,
}

impl Person {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no panic under this lock")
    }

    /// How often a message of this method went out, or came in
    pub(super) fn count(&self, direction: Direction, method: &str) -> usize {
        let seen = self.seen();
        let passed = if direction == Direction::Out { &seen.sent } else { &seen.received };
        passed.iter().filter(|message| message["method"] == method).count()
    }
}

impl ClientHandler for Person {
    fn elicit(&mut self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let mut seen = self.seen();
        seen.forms += 1;
        Ok(serde_json::from_str(&seen.answer.to_string()).expect("an answer of table.json"))
    }

    fn sample(&mut self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        self.seen().samplings += 1;
        Ok(CreateMessageResult::new(Role::Assistant, "Good day", "muse"))
    }

    fn roots(&mut self) -> Result<ListRootsResult, RpcError> {
        let mut seen = self.seen();
        seen.roots += 1;
        Ok(ListRootsResult::new(vec![Root::new(seen.root.clone()).name("table")]))
    }

    fn changed(&mut self, change: &Change) {
        if let Change::Resource(uri) = change {
            self.seen().changed.push(uri.to_string());
        }
    }

    fn log(&mut self, log: &Log) {
        self.seen().logs.push(log.level.clone());
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.seen().odd.push(format!("{diagnostic:?}"));
    }

    fn tap(&mut self, record: &TapRecord) {
        let message = serde_json::from_slice(&record.bytes).unwrap_or_default();
        let mut seen = self.seen();
        match record.direction {
            Direction::Out => seen.sent.push(message),
            Direction::In => seen.received.push(message),
        }
    }
}
