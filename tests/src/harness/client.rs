//! What only a client alone is asked for.

use mcp_proto::client::{Event, Peer};
use mcp_proto::{CallError, CallKey, CallOptions, Diagnostic, Fault, Progress, RawJson, UseError, Version};
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
            Event::Done { call: key, outcome } if key == call => outcome,
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
