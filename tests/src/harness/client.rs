//! What only a client alone is asked for.

use mcp_proto::client::{Event, Input, InputId, Peer, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{
    CallError, CallKey, CallOptions, Change, Diagnostic, Fault, Progress, RawJson, UseError, Version,
};
use serde_json::{Value, json};

use super::build;
use super::lone::LoneClient;

impl LoneClient {
    /// Leads the client to a modern server with `capabilities`; nothing of it is left to be taken
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn with_modern(&mut self, capabilities: Value) {
        let probe = self.asked("server/discover");
        self.tell(&build::result(&probe, build::discovery(&["2026-07-28"], capabilities)));
        assert_eq!(self.ready().version, Version::V2026_07_28);
        self.still();
    }

    /// Leads the client to a legacy server of `version` with `capabilities`; nothing of it is left to be taken
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn with_legacy(&mut self, version: Version, capabilities: Value) {
        let mut question = self.reply();
        if question["method"] == "server/discover" {
            self.tell(&build::error(&question, -32601, "Method not found", Value::Null));
            question = self.reply();
        }
        assert_eq!(question["method"], "initialize");
        self.tell(&build::result(&question, build::initialized(version.as_str(), capabilities)));
        assert_eq!(self.ready().version, version);
        assert_eq!(self.reply(), build::note("notifications/initialized", Value::Null));
        self.still();
    }

    /// The one message that has not been taken, which is a request of this method
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn asked(&mut self, method: &str) -> Value {
        let request = self.reply();
        assert_eq!(request["method"], method, "{request}");
        assert!(request.get("id").is_some(), "{request}");
        request
    }

    /// Makes a call that goes out at once; its key and the request
    ///
    /// # Panics
    ///
    /// When it does not go out.
    pub fn calls(&mut self, method: &str, params: &Value, options: &CallOptions) -> (CallKey, Value) {
        let key = self.pipe.engine().call(self.now, method, params, options).expect("a call");
        (key, self.asked(method))
    }

    /// Makes a call that is refused
    ///
    /// # Panics
    ///
    /// When it is not refused, or leaves a trace.
    pub fn cannot_call(&mut self, method: &str, params: &Value, options: &CallOptions) -> UseError {
        let refused = self.pipe.engine().call(self.now, method, params, options).expect_err("refused");
        self.still();
        refused
    }

    /// The next event, which says that the connection is ready
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn ready(&mut self) -> Peer {
        match self.event() {
            Event::Ready(peer) => peer,
            other => panic!("ready, not {other:?}"),
        }
    }

    /// The next event, which is the outcome of `call`
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn done(&mut self, call: CallKey) -> Result<RawJson, CallError> {
        match self.event() {
            Event::Done { call: key, outcome, .. } if key == call => outcome,
            other => panic!("the outcome of {call:?}, not {other:?}"),
        }
    }

    /// The next event, which is progress of `call`
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn progress(&mut self, call: CallKey) -> Progress {
        match self.event() {
            Event::Progress { call: key, progress } if key == call => progress,
            other => panic!("progress of {call:?}, not {other:?}"),
        }
    }

    /// The next event, which says what the server needs
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn input(&mut self) -> Input {
        match self.event() {
            Event::Input(input) => input,
            other => panic!("an input, not {other:?}"),
        }
    }

    /// Gives the server what it needs
    ///
    /// # Panics
    ///
    /// When it cannot be given.
    pub fn answer(&mut self, input: InputId, answer: &Value) {
        self.pipe.engine().answer(self.now, input, answer).expect("an input that is open");
    }

    /// The next event, which says that this is needed no more; its key is stale
    ///
    /// # Panics
    ///
    /// When it does not, or the key is not.
    pub fn gone(&mut self, input: InputId) {
        match self.event() {
            Event::InputGone(gone) => assert_eq!(gone, input),
            other => panic!("{input:?} gone, not {other:?}"),
        }
        let (now, engine) = (self.now, self.pipe.engine());
        assert_eq!(engine.answer(now, input, &json!({})), Err(UseError::Stale));
        assert_eq!(engine.refuse(now, input, &mcp_proto::RpcError::new(1, "no")), Err(UseError::Stale));
    }

    /// Subscribes
    ///
    /// # Panics
    ///
    /// When that is refused.
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> SubscriptionKey {
        self.pipe.engine().subscribe(self.now, filter).expect("a subscription")
    }

    /// The next event, which says what is honoured of a subscription
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn subscribed(&mut self, subscription: SubscriptionKey) -> SubscriptionFilter {
        match self.event() {
            Event::Subscribed { key, honoured } if key == subscription => honoured,
            other => panic!("{subscription:?} acknowledged, not {other:?}"),
        }
    }

    /// The next event, which says that something has changed
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn changed(&mut self, subscription: SubscriptionKey) -> Change {
        match self.event() {
            Event::Changed { key, change } if key == Some(subscription) => change,
            other => panic!("news for {subscription:?}, not {other:?}"),
        }
    }

    /// The next event, which says that a subscription has ended: whether gracefully, and why not
    ///
    /// # Panics
    ///
    /// When it does not, or its key is not stale.
    pub fn subscription_ended(&mut self, subscription: SubscriptionKey) -> (bool, Option<CallError>) {
        match self.event() {
            Event::SubscriptionEnded { key, graceful, error } if key == subscription => {
                let again = self.pipe.engine().unsubscribe(self.now, key);
                assert_eq!(again, Err(UseError::Stale));
                (graceful, error)
            }
            other => panic!("the end of {subscription:?}, not {other:?}"),
        }
    }

    /// The next event, which is a diagnostic
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn diagnostic(&mut self) -> Diagnostic {
        match self.event() {
            Event::Diagnostic(diagnostic) => diagnostic,
            other => panic!("a diagnostic, not {other:?}"),
        }
    }

    /// The next event, which says that the connection is over
    ///
    /// # Panics
    ///
    /// When it does not, or when more comes after it.
    pub fn closed(&mut self) -> Fault {
        match self.event() {
            Event::Closed(fault) => {
                assert!(self.said().is_empty(), "nothing comes after the end");
                fault
            }
            other => panic!("the end, not {other:?}"),
        }
    }

    /// A call whose answer arrives, to see whether the client still works
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn works(&mut self) {
        let (key, request) = self.calls("custom/still-there", &json!({}), &CallOptions::new());
        self.tell(&build::result(&request, json!({"yes": true})));
        assert!(self.done(key).is_ok());
        self.still();
    }
}
