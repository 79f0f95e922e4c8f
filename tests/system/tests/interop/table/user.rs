//! The client handler of the table: it answers input requests and records messages.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, LogMessage};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ListRootsResult, LoggingLevel,
    Role, Root,
};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Capabilities, Capability, Change, Diagnostic, Limits, RpcError, VersionSet};
use mcp_system_tests::adapters::{self, AdapterClient, AdapterKind, ServerLocation};
use serde_json::Value;

/// Connects a client that speaks one revision and declares all capabilities.
#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn connect(
    runtime: AdapterKind,
    revision: &str,
    person: &TestUser,
    server: &ServerLocation,
) -> Result<Box<dyn AdapterClient>, Error> {
    let version = VersionSet::ALL.iter().find(|version| version.as_str() == revision).expect("a revision");
    let all = [Capability::ElicitationForm, Capability::Sampling, Capability::Roots];
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 64 << 20;
    // More than the default: these servers start slowly on a busy machine.
    limits.init_timeout = Duration::from_secs(50);
    limits.probe_timeout = Duration::from_secs(20);
    let config = Config::new("table", "1")
        .versions(VersionSet::only(version))
        .capabilities(all.into_iter().fold(Capabilities::new(), Capabilities::with))
        .limits(limits);
    adapters::connect(runtime, config, person.clone(), server)
}

/// The handler, with shared state.
#[derive(Clone, Default)]
pub(super) struct TestUser(Arc<Mutex<UserState>>);

#[derive(Default)]
pub(super) struct UserState {
    /// Answer to forms.
    pub(super) answer: Value,
    pub(super) root: String,
    /// Numbers of input requests of each kind.
    pub(super) form_count: usize,
    pub(super) sampling_count: usize,
    pub(super) roots_count: usize,
    pub(super) logs: Vec<LoggingLevel>,
    pub(super) changed: Vec<String>,
    pub(super) diagnostics: Vec<String>,
    /// Messages in both directions.
    pub(super) sent: Vec<Value>,
    pub(super) received: Vec<Value>,
}

impl TestUser {
    pub(super) fn lock(&self) -> MutexGuard<'_, UserState> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Returns how many messages of a method went in one direction.
    pub(super) fn count(&self, direction: Direction, method: &str) -> usize {
        let seen = self.lock();
        let passed = if direction == Direction::Out { &seen.sent } else { &seen.received };
        passed.iter().filter(|message| message["method"] == method).count()
    }
}

impl ClientHandler for TestUser {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let mut seen = self.lock();
        seen.form_count += 1;
        Ok(serde_json::from_str(&seen.answer.to_string()).expect("an answer of table.json"))
    }

    fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        self.lock().sampling_count += 1;
        Ok(CreateMessageResult::new(Role::Assistant, "Good day", "muse"))
    }

    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let mut seen = self.lock();
        seen.roots_count += 1;
        Ok(ListRootsResult::new(vec![Root::new(seen.root.clone()).name("table")]))
    }

    fn changed(&self, change: &Change) {
        if let Change::Resource(uri) = change {
            self.lock().changed.push(uri.to_string());
        }
    }

    fn log(&self, log: &LogMessage) {
        self.lock().logs.push(log.level.clone());
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        // The steps use every feature, deprecated ones too.
        if !matches!(diagnostic, Diagnostic::DeprecatedFeature { .. }) {
            self.lock().diagnostics.push(format!("{diagnostic:?}"));
        }
    }

    fn tap(&self, record: &TapRecord) {
        let message = serde_json::from_slice(&record.bytes).unwrap_or_default();
        let mut seen = self.lock();
        match record.direction {
            Direction::Out => seen.sent.push(message),
            Direction::In => seen.received.push(message),
        }
    }
}
