//! Additional methods of [`ClientHarness`].

use mcp_proto::client::{Event, Input, InputId, Peer, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{
    CallError, CallKey, CallOptions, Change, Diagnostic, Fault, Progress, RawJson, UseError, Version,
};
use serde_json::{Value, json};

use super::build;
use super::pipe::ClientHarness;

impl ClientHarness {
    /// Completes the handshake with a modern server that has `capabilities`, and takes all its output.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn become_modern(&mut self, capabilities: Value) {
        let probe = self.expect_request("server/discover");
        self.feed_message(&build::result_response(
            &probe,
            build::discover_result(&["2026-07-28"], capabilities),
        ));
        assert_eq!(self.expect_ready().version, Version::V2026_07_28);
        self.assert_idle();
    }

    /// Completes the handshake with a legacy server of `version` and `capabilities`, and takes all its output.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn become_legacy(&mut self, version: Version, capabilities: Value) {
        let mut request = self.expect_reply();
        if request["method"] == "server/discover" {
            self.feed_message(&build::error_response(&request, -32601, "Method not found", Value::Null));
            request = self.expect_reply();
        }
        assert_eq!(request["method"], "initialize");
        self.feed_message(&build::result_response(
            &request,
            build::initialize_result(version.as_str(), capabilities),
        ));
        assert_eq!(self.expect_ready().version, version);
        assert_eq!(self.expect_reply(), build::notification("notifications/initialized", Value::Null));
        self.assert_idle();
    }

    /// Takes the only message, a request of `method`.
    ///
    /// # Panics
    ///
    /// If it is not one.
    pub fn expect_request(&mut self, method: &str) -> Value {
        let request = self.expect_reply();
        assert_eq!(request["method"], method, "{request}");
        assert!(request.get("id").is_some(), "{request}");
        request
    }

    /// Starts a call and returns its key and the request that was sent.
    ///
    /// # Panics
    ///
    /// If the call is refused or nothing is sent.
    pub fn start_call(&mut self, method: &str, params: &Value, options: &CallOptions) -> (CallKey, Value) {
        let key = self.pipe.engine().call(self.now, method, params, options).expect("a call");
        (key, self.expect_request(method))
    }

    /// Starts a call that must be refused, and returns the error.
    ///
    /// # Panics
    ///
    /// If the call is accepted, or if the refusal sends a message or causes an event.
    pub fn expect_call_refused(&mut self, method: &str, params: &Value, options: &CallOptions) -> UseError {
        let refused = self.pipe.engine().call(self.now, method, params, options).expect_err("refused");
        self.assert_idle();
        refused
    }

    /// Takes the next event, [`Event::Ready`].
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_ready(&mut self) -> Peer {
        match self.expect_event() {
            Event::Ready(peer) => peer,
            other => panic!("expected `Ready`, got {other:?}"),
        }
    }

    /// Takes the next event, the outcome of `call`.
    ///
    /// # Errors
    ///
    /// The error of the call, if it failed.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_done(&mut self, call: CallKey) -> Result<RawJson, CallError> {
        match self.expect_event() {
            Event::Done { call: key, outcome, .. } if key == call => outcome,
            other => panic!("expected the outcome of {call:?}, got {other:?}"),
        }
    }

    /// Takes the next event, progress of `call`.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_progress(&mut self, call: CallKey) -> Progress {
        match self.expect_event() {
            Event::Progress { call: key, progress } if key == call => progress,
            other => panic!("expected progress of {call:?}, got {other:?}"),
        }
    }

    /// Takes the next event, an input request.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_input(&mut self) -> Input {
        match self.expect_event() {
            Event::Input(input) => input,
            other => panic!("expected an input, got {other:?}"),
        }
    }

    /// Answers an input request.
    ///
    /// # Panics
    ///
    /// If the answer is refused.
    pub fn answer(&mut self, input: InputId, answer: &Value) {
        self.pipe.engine().answer(self.now, input, answer).expect("an input that is open");
    }

    /// Takes the next event, the withdrawal of `input`, and checks that its key is stale.
    ///
    /// # Panics
    ///
    /// If it is another event, or if the key is not stale.
    pub fn expect_input_withdrawn(&mut self, input: InputId) {
        match self.expect_event() {
            Event::InputWithdrawn(withdrawn) => assert_eq!(withdrawn, input),
            other => panic!("expected the withdrawal of {input:?}, got {other:?}"),
        }
        let (now, engine) = (self.now, self.pipe.engine());
        assert_eq!(engine.answer(now, input, &json!({})), Err(UseError::Stale));
        assert_eq!(engine.refuse(now, input, &mcp_proto::RpcError::new(1, "no")), Err(UseError::Stale));
    }

    /// Opens a subscription.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> SubscriptionKey {
        self.pipe.engine().subscribe(self.now, filter).expect("a subscription")
    }

    /// Takes the next event, the acknowledgement of `subscription`, and returns the honoured part of its filter.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_subscribed(&mut self, subscription: SubscriptionKey) -> SubscriptionFilter {
        match self.expect_event() {
            Event::Subscribed { key, honoured } if key == subscription => honoured,
            other => panic!("expected the acknowledgement of {subscription:?}, got {other:?}"),
        }
    }

    /// Takes the next event, a change for `subscription`.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_change(&mut self, subscription: SubscriptionKey) -> Change {
        match self.expect_event() {
            Event::Changed { key, change } if key == Some(subscription) => change,
            other => panic!("expected a change for {subscription:?}, got {other:?}"),
        }
    }

    /// Takes the next event, the end of `subscription`; returns whether it was graceful, and its error.
    ///
    /// # Panics
    ///
    /// If it is another event, or if the key is not stale.
    pub fn expect_subscription_ended(&mut self, subscription: SubscriptionKey) -> (bool, Option<CallError>) {
        match self.expect_event() {
            Event::SubscriptionEnded { key, graceful, error } if key == subscription => {
                let stale = self.pipe.engine().unsubscribe(self.now, key);
                assert_eq!(stale, Err(UseError::Stale));
                (graceful, error)
            }
            other => panic!("expected the end of {subscription:?}, got {other:?}"),
        }
    }

    /// Takes the next event, a diagnostic.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_diagnostic(&mut self) -> Diagnostic {
        match self.expect_event() {
            Event::Diagnostic(diagnostic) => diagnostic,
            other => panic!("expected a diagnostic, got {other:?}"),
        }
    }

    /// Takes the last event, the end of the connection.
    ///
    /// # Panics
    ///
    /// If it is another event, or if more follows.
    pub fn expect_closed(&mut self) -> Fault {
        match self.expect_event() {
            Event::Closed(fault) => {
                assert!(self.take_event_texts().is_empty(), "no event may follow the end");
                fault
            }
            other => panic!("expected the end, got {other:?}"),
        }
    }

    /// Makes a call and answers it, to show that the client still works.
    ///
    /// # Panics
    ///
    /// If the call does not end with its answer.
    pub fn assert_works(&mut self) {
        let (key, request) = self.start_call("custom/still-there", &json!({}), &CallOptions::new());
        self.feed_message(&build::result_response(&request, json!({"yes": true})));
        assert!(self.expect_done(key).is_ok());
        self.assert_idle();
    }
}
