//! The two applications: a router with ready answers, and a client that waits for each of its calls.

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
use mcp_tests::harness::build::value;
use mcp_tests::harness::{Chunker, Pair};
use mcp_tests::schema::Direction;
use serde::Serialize;
use serde_json::{Value, json};

use super::values;

/// A method that both applications agreed on
pub(super) const TICKET: &str = "harbor/ticket";

/// Every revision up to this one
pub(super) fn newest(version: Version) -> VersionSet {
    Version::ALL.into_iter().filter(|v| *v <= version).fold(VersionSet::NONE, VersionSet::with)
}

/// What the server answers
#[derive(Clone, Debug)]
pub(super) enum Say {
    Tool(CallToolResult<'static>),
    Read(ReadResourceResult<'static>),
    Prompt(GetPromptResult<'static>),
    Complete(CompleteResult),
    Ask(InputRequiredResult<'static>),
    Fail(RpcError),
}

pub(super) struct Desk {
    pub(super) pair: Pair,
    router: Router<Say>,
    pub(super) peer: Option<Peer>,
    /// Calls as the server saw them, `_meta` apart
    pub(super) seen: Vec<(String, Value)>,
    pub(super) callers: Vec<server::Peer>,
    /// Answers that the server's engine refused: messages sent before and after it, and why
    pub(super) refused: Vec<(usize, usize, UseError)>,
    outcomes: BTreeMap<String, Result<RawJson, CallError>>,
}

impl Desk {
    pub(super) fn open(ours: VersionSet, theirs: VersionSet) -> Self {
        let router = values::router();
        let mut pair = Pair::new(values::client(ours), values::server(&router, theirs), Chunker::Whole);
        (pair.client_polls, pair.server_polls) = (false, false);
        let (seen, callers, refused) = (Vec::new(), Vec::new(), Vec::new());
        let outcomes = BTreeMap::new();
        let mut desk = Self { pair, router, peer: None, seen, callers, refused, outcomes };
        desk.settle();
        assert!(desk.peer.is_some(), "{ours:?} with {theirs:?}");
        desk
    }

    /// Everything that can be done at once
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
                    // A tool that answers as if the revision were not spoken makes the client wonder.
                    ClientEvent::Diagnostic(Diagnostic::EraContradicted) => {}
                    other => panic!("{other:?}"),
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// A call and what came of it
    pub(super) fn call<T: Serialize>(&mut self, method: &str, params: &T) -> Result<RawJson, CallError> {
        let key = self.pair.client.engine().call(self.pair.now, method, params, &CallOptions::new());
        self.outcome(key.unwrap_or_else(|e| panic!("{method}: {e}")))
    }

    pub(super) fn outcome(&mut self, key: CallKey) -> Result<RawJson, CallError> {
        self.settle();
        self.outcomes.remove(&format!("{key:?}")).expect("an outcome")
    }

    fn serve(&mut self, call: &Call) {
        let mut params = call.params().map_or_else(|| json!({}), |p| value(&p));
        params.as_object_mut().expect("an object").remove("_meta");
        self.seen.push((call.method().to_owned(), params));
        self.callers.push(self.pair.server.engine().peer(call));
        let (now, id) = (self.pair.now, call.id());
        let sent = self.pair.went(Direction::ServerToClient).count();
        let engine = self.pair.server.engine();
        let answered = match self.router.route(call) {
            Route::Answer(answer) => engine.complete(now, id, &answer),
            Route::Refuse(error) => engine.fail(now, id, &error),
            Route::Handle(work) => match work.handler {
                Say::Tool(result) => engine.complete(now, id, result),
                Say::Read(result) => engine.complete(now, id, result),
                Say::Prompt(result) => engine.complete(now, id, result),
                Say::Complete(result) => engine.complete(now, id, result),
                Say::Ask(result) => engine.complete(now, id, result),
                Say::Fail(error) => engine.fail(now, id, error),
            },
            _ => engine.complete(now, id, &json!({})),
        };
        if let Err(error) = answered {
            while self.pair.step() {}
            self.refused.push((sent, self.pair.went(Direction::ServerToClient).count(), error));
            let error = RpcError::internal("no form for it");
            self.pair.server.engine().fail(now, id, &error).expect("still open");
        }
    }
}
