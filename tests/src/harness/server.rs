//! Additional methods of [`ServerHarness`].

use mcp_proto::model::InputRequests;
use mcp_proto::server::{Call, CancelReason, Event};
use mcp_proto::{CallId, Diagnostic, Fault, RpcError, UseError, Version};
use serde_json::{Value, json};

use super::build;
use super::pipe::ServerHarness;

impl ServerHarness {
    /// Opens a session of `version` as its client would, and takes all output.
    ///
    /// # Panics
    ///
    /// If the server does not open it.
    pub fn open_session(&mut self, version: Version) {
        self.open_session_with(version, &serde_json::json!({}));
    }

    /// Opens a session of `version` for a client with `capabilities`, and takes all output.
    ///
    /// # Panics
    ///
    /// If the server does not open it.
    pub fn open_session_with(&mut self, version: Version, capabilities: &Value) {
        let mut initialize = build::initialize_request(0, version.as_str());
        initialize["params"]["capabilities"] = capabilities.clone();
        self.feed_message(&initialize);
        let answer = self.expect_reply();
        assert_eq!(answer["result"]["protocolVersion"], version.as_str(), "{answer}");
        self.feed_message(&build::notification("notifications/initialized", Value::Null));
        assert!(matches!(self.expect_event(), Event::SessionOpened { version: v, .. } if v == version));
        self.assert_idle();
    }

    /// Sends the input requests of a handler.
    ///
    /// # Errors
    ///
    /// Those of the engine's `need_input`.
    pub fn need_input(
        &mut self,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        let outcome = self.pipe.engine().need_input(self.now, call, requests, state);
        self.pump();
        outcome
    }

    /// Feeds a request and takes its call.
    pub fn expect_call_for(&mut self, request: &Value) -> Call {
        self.feed_message(request);
        self.expect_call()
    }

    /// Takes the next event, a call.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_call(&mut self) -> Call {
        match self.expect_event() {
            Event::Call(call) => call,
            other => panic!("expected a call, got {other:?}"),
        }
    }

    /// Takes the next event, a diagnostic.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_diagnostic(&mut self) -> Diagnostic {
        match self.expect_event() {
            Event::Diagnostic { diagnostic, .. } => diagnostic,
            other => panic!("expected a diagnostic, got {other:?}"),
        }
    }

    /// Takes the next event, the cancellation of `call`.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_cancelled(&mut self, call: &Call) -> CancelReason {
        match self.expect_event() {
            Event::Cancelled { call: id, reason } if id == call.id() => reason,
            other => panic!("the end of {:?}, not {other:?}", call.id()),
        }
    }

    /// Takes the last event, the end of the connection.
    ///
    /// # Panics
    ///
    /// If it is another event, or if more follows.
    pub fn expect_closed(&mut self) -> Fault {
        match self.expect_event() {
            Event::Closed { fault, .. } => {
                assert!(self.take_event_texts().is_empty(), "no event may follow the end");
                fault
            }
            other => panic!("expected the end, got {other:?}"),
        }
    }

    /// Completes a call and takes the only message.
    ///
    /// # Panics
    ///
    /// If the result is refused, or if there is another message.
    pub fn complete(&mut self, call: CallId, result: &Value) -> Value {
        self.pipe.engine().complete(self.now, call, result).expect("the call is open");
        self.expect_reply()
    }

    /// Fails a call and takes the only message.
    ///
    /// # Panics
    ///
    /// If the error is refused, or if there is another message.
    pub fn fail(&mut self, call: CallId, error: &RpcError) -> Value {
        self.pipe.engine().fail(self.now, call, error).expect("the call is open");
        self.expect_reply()
    }

    /// Feeds a request that must be answered by an error without an event, and returns the error response.
    ///
    /// # Panics
    ///
    /// If it is answered otherwise or causes an event.
    pub fn expect_error(&mut self, request: &Value) -> Value {
        self.feed_message(request);
        let answer = self.expect_reply();
        assert_eq!(answer["id"], request["id"], "{answer}");
        assert!(answer.get("error").is_some(), "expected an error, got {answer}");
        let events = self.take_event_texts();
        assert!(events.is_empty(), "expected no event for the application, got {events:?}");
        answer["error"].clone()
    }

    /// Feeds a request that must be answered by an error; earlier events may be left to take.
    ///
    /// # Panics
    ///
    /// If it is answered otherwise.
    pub fn expect_error_after_events(&mut self, request: &Value) -> Value {
        self.feed_message(request);
        let answer = self.expect_reply();
        assert_eq!(answer["id"], request["id"], "{answer}");
        assert!(answer.get("error").is_some(), "expected an error, got {answer}");
        answer["error"].clone()
    }

    /// Feeds a request and completes its call, to show that the server still works.
    ///
    /// # Panics
    ///
    /// If the call does not arrive or its answer is not sent.
    pub fn assert_works(&mut self) {
        let call = self.expect_call_for(&build::modern_request("still there?", "tools/list", json!({})));
        let answer = self.complete(call.id(), &json!({"tools": []}));
        assert_eq!(answer["id"], "still there?");
    }
}
