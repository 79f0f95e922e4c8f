//! What only a server alone is asked for.

use mcp_proto::model::InputRequests;
use mcp_proto::server::{Call, CancelReason, Event};
use mcp_proto::{CallId, Diagnostic, Fault, RpcError, UseError, Version};
use serde_json::{Value, json};

use super::build;
use super::lone::LoneServer;

impl LoneServer {
    /// Opens a session of `version`, as its client would; nothing of it is left to be taken
    ///
    /// # Panics
    ///
    /// When the server does not open it.
    pub fn open(&mut self, version: Version) {
        self.open_with(version, &serde_json::json!({}));
    }

    /// Opens a session in `version` with a client that can do something
    ///
    /// # Panics
    ///
    /// When that does not work.
    pub fn open_with(&mut self, version: Version, capabilities: &Value) {
        let mut initialize = build::initialize(0, version.as_str());
        initialize["params"]["capabilities"] = capabilities.clone();
        self.tell(&initialize);
        let answer = self.reply();
        assert_eq!(answer["result"]["protocolVersion"], version.as_str(), "{answer}");
        self.tell(&build::note("notifications/initialized", Value::Null));
        assert!(matches!(self.event(), Event::SessionOpened { version: v, .. } if v == version));
        self.still();
    }

    /// Asks for what the handler of a call needs
    ///
    /// # Errors
    ///
    /// As the engine.
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

    /// Feeds a request and takes the call that it becomes
    pub fn take(&mut self, request: &Value) -> Call {
        self.tell(request);
        self.call()
    }

    /// The next event, which is a call
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn call(&mut self) -> Call {
        match self.event() {
            Event::Call(call) => call,
            other => panic!("a call, not {other:?}"),
        }
    }

    /// The next event, which is a diagnostic
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn diagnostic(&mut self) -> Diagnostic {
        match self.event() {
            Event::Diagnostic { diagnostic, .. } => diagnostic,
            other => panic!("a diagnostic, not {other:?}"),
        }
    }

    /// The next event, which says that `call` is over
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn cancelled(&mut self, call: &Call) -> CancelReason {
        match self.event() {
            Event::Cancelled { call: id, reason } if id == call.id() => reason,
            other => panic!("the end of {:?}, not {other:?}", call.id()),
        }
    }

    /// The next event, which says that the connection is over
    ///
    /// # Panics
    ///
    /// When it does not, or when more comes after it.
    pub fn closed(&mut self) -> Fault {
        match self.event() {
            Event::Closed { fault, .. } => {
                assert!(self.said().is_empty(), "nothing comes after the end");
                fault
            }
            other => panic!("the end, not {other:?}"),
        }
    }

    /// Answers a call and takes the one message that goes out
    ///
    /// # Panics
    ///
    /// When the answer is refused.
    pub fn complete(&mut self, call: CallId, result: &Value) -> Value {
        self.pipe.engine().complete(self.now, call, result).expect("the call is open");
        self.reply()
    }

    /// Answers a call with an error and takes the one message that goes out
    ///
    /// # Panics
    ///
    /// When the answer is refused.
    pub fn fail(&mut self, call: CallId, error: &RpcError) -> Value {
        self.pipe.engine().fail(self.now, call, error).expect("the call is open");
        self.reply()
    }

    /// Feeds a request and takes its answer, which has to be an error without an event
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn refused(&mut self, request: &Value) -> Value {
        self.tell(request);
        let answer = self.reply();
        assert_eq!(answer["id"], request["id"], "{answer}");
        assert!(answer.get("error").is_some(), "an error, not {answer}");
        let said = self.said();
        assert!(said.is_empty(), "nothing for the application, not {said:?}");
        answer["error"].clone()
    }

    /// As [`refused`](Self::refused), where events of before may not have been taken
    ///
    /// # Panics
    ///
    /// When the answer is no error.
    pub fn refused_later(&mut self, request: &Value) -> Value {
        self.tell(request);
        let answer = self.reply();
        assert_eq!(answer["id"], request["id"], "{answer}");
        assert!(answer.get("error").is_some(), "an error, not {answer}");
        answer["error"].clone()
    }

    /// A request that always leads to a call, to see whether the server still works
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn works(&mut self) {
        let call = self.take(&build::modern("still there?", "tools/list", json!({})));
        let answer = self.complete(call.id(), &json!({"tools": []}));
        assert_eq!(answer["id"], "still there?");
    }
}
