//! The two applications: a router with prepared answers, and a client that waits for each of its calls.

use alloc::collections::BTreeMap;

use mcp_proto::client::{Event as ClientEvent, Peer};
use mcp_proto::model::{
    CallToolResult, CompleteResult, GetPromptResult, InputRequiredResult, ReadResourceResult,
};
use mcp_proto::pipe::Pipe;
use mcp_proto::router::{Route, Router};
use mcp_proto::server::{self, Call, Event};
use mcp_proto::{
    CallError, CallKey, CallOptions, Diagnostic, RawJson, RpcError, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::to_value;
use mcp_tests::harness::{Chunker, Pair};
use mcp_tests::schema::MessageDirection;
use serde::Serialize;
use serde_json::{Value, json};

use super::values;

/// A custom method that both applications have configured.
pub(super) const CUSTOM_METHOD: &str = "harbor/ticket";

/// Returns every revision up to `version`.
pub(super) fn versions_up_to(version: Version) -> VersionSet {
    Version::ALL.into_iter().filter(|v| *v <= version).fold(VersionSet::NONE, VersionSet::with)
}

/// A prepared answer of the server.
#[derive(Clone, Debug)]
pub(super) enum PreparedAnswer {
    Tool(CallToolResult<'static>),
    Read(ReadResourceResult<'static>),
    Prompt(GetPromptResult<'static>),
    Complete(CompleteResult),
    Ask(InputRequiredResult<'static>),
    Fail(RpcError),
}

pub(super) struct DowngradeConnection {
    pub(super) pair: Pair,
    router: Router<PreparedAnswer>,
    pub(super) peer: Option<Peer>,
    /// Calls as the server saw them, without `_meta`.
    pub(super) seen_calls: Vec<(String, Value)>,
    pub(super) callers: Vec<server::Peer>,
    /// Answers that the server engine refused: server messages before and after, and the error.
    pub(super) refused_answers: Vec<(usize, usize, UseError)>,
    outcomes: BTreeMap<String, Result<RawJson, CallError>>,
}

impl DowngradeConnection {
    pub(super) fn open(client_versions: VersionSet, server_versions: VersionSet) -> Self {
        let router = values::router();
        let mut pair = Pair::new(
            values::client(client_versions),
            values::server(&router, server_versions),
            Chunker::Whole,
        );
        (pair.client_polls_events, pair.server_polls_events) = (false, false);
        let (seen, callers, refused) = (Vec::new(), Vec::new(), Vec::new());
        let outcomes = BTreeMap::new();
        let mut connection =
            Self { pair, router, peer: None, seen_calls: seen, callers, refused_answers: refused, outcomes };
        connection.settle();
        assert!(connection.peer.is_some(), "{client_versions:?} with {server_versions:?}");
        connection
    }

    /// Drives both ends until neither can make progress.
    pub(super) fn settle(&mut self) {
        loop {
            let mut moved = self.pair.step();
            while let Some(event) = self.pair.server.poll_event(self.pair.now) {
                moved = true;
                match event {
                    Event::Call(call) => self.serve(&call),
                    Event::SessionOpened { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            while let Some(event) = self.pair.client.poll_event(self.pair.now) {
                moved = true;
                match event {
                    ClientEvent::Ready(peer) => self.peer = Some(peer),
                    ClientEvent::Done { call, outcome, .. } => {
                        self.outcomes.insert(format!("{call:?}"), outcome);
                    }
                    // A tool may answer in the form of another era; the client reports that as a diagnostic.
                    ClientEvent::Diagnostic(Diagnostic::EraContradicted) => {}
                    other => panic!("{other:?}"),
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Makes a call and waits for its outcome.
    pub(super) fn call<T: Serialize>(&mut self, method: &str, params: &T) -> Result<RawJson, CallError> {
        let key = self.pair.client.engine().call(self.pair.now, method, params, &CallOptions::new());
        self.wait_for_outcome(key.unwrap_or_else(|e| panic!("{method}: {e}")))
    }

    pub(super) fn wait_for_outcome(&mut self, key: CallKey) -> Result<RawJson, CallError> {
        self.settle();
        self.outcomes.remove(&format!("{key:?}")).expect("an outcome")
    }

    fn serve(&mut self, call: &Call) {
        let mut params = call.params().map_or_else(|| json!({}), |p| to_value(&p));
        params.as_object_mut().expect("an object").remove("_meta");
        self.seen_calls.push((call.method().to_owned(), params));
        self.callers.push(self.pair.server.engine().peer(call));
        let (now, id) = (self.pair.now, call.id());
        let sent = self.pair.messages_in(MessageDirection::ServerToClient).count();
        let engine = self.pair.server.engine();
        let answered = match self.router.route(call) {
            Route::Answer(answer) => engine.complete(now, id, &answer),
            Route::Refuse(error) => engine.fail(now, id, &error),
            Route::Handle(work) => match work.handler {
                PreparedAnswer::Tool(result) => engine.complete(now, id, result),
                PreparedAnswer::Read(result) => engine.complete(now, id, result),
                PreparedAnswer::Prompt(result) => engine.complete(now, id, result),
                PreparedAnswer::Complete(result) => engine.complete(now, id, result),
                PreparedAnswer::Ask(result) => engine.complete(now, id, result),
                PreparedAnswer::Fail(error) => engine.fail(now, id, error),
            },
            _ => engine.complete(now, id, &json!({})),
        };
        if let Err(error) = answered {
            while self.pair.step() {}
            self.refused_answers.push((
                sent,
                self.pair.messages_in(MessageDirection::ServerToClient).count(),
                error,
            ));
            let error = RpcError::internal("no form for it");
            self.pair.server.engine().fail(now, id, &error).expect("still open");
        }
    }
}
