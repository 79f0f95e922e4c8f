//! What a client does with what comes from the server

use mcp_proto::client::{Input, Kind, Log, Notification, Request, SchemaError};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallKey, Change, Diagnostic, Progress, RawJson, RpcError};

/// What a client does with what comes from the server, other than answers
///
/// All methods run on the thread that is in a call of [`Client`](crate::Client)'s, and none of them may take long:
/// nothing else moves while they run. A panic in one of them ends nothing else; one in [`request`](Self::request) is
/// answered with an internal error.
pub trait ClientHandler {
    /// Answers a request of the server (legacy servers only), with a JSON object
    ///
    /// # Errors
    ///
    /// What the server is told instead of a result; by default, that there is no such method.
    fn request(&mut self, request: &Request) -> Result<RawJson, RpcError> {
        Err(RpcError::method_not_found(&request.method))
    }

    /// Gives the server what it needs, with a JSON object: a result as [`Input::request`] asks for it
    ///
    /// # Errors
    ///
    /// Why it is refused; by default everything is.
    fn input(&mut self, input: &Input) -> Result<RawJson, RpcError> {
        let _ = input;
        Err(RpcError::internal("nobody is here to answer"))
    }

    /// Takes note of something that has changed at the server; told once until it was told, however often it changes
    fn changed(&mut self, change: &Change) {
        let _ = change;
    }

    /// Takes note of a log message of the server
    fn log(&mut self, log: &Log) {
        let _ = log;
    }

    /// Takes note of a notification that the engine does not handle itself
    fn notification(&mut self, notification: &Notification) {
        let _ = notification;
    }

    /// Takes note of the progress of a call; not told of calls that are waited for with a callback of their own
    fn progress(&mut self, call: CallKey, progress: &Progress) {
        let _ = (call, progress);
    }

    /// Takes note of something odd that the server did, a banner on its stdout for instance
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let _ = diagnostic;
    }

    /// Takes note of an entry of a list that was left out, since it cannot be read; `why` names the member
    ///
    /// Only by those methods that read lists as types ([`Client::list_tools`](crate::Client::list_tools), …).
    fn unreadable(&mut self, kind: Kind, entry: &RawJson, why: &str) {
        let _ = (kind, entry, why);
    }

    /// Takes note of an output schema that results are not held against, since it cannot be used; once for each
    ///
    /// Only if there is a [validator](crate::Options::validator).
    fn unusable_schema(&mut self, tool: &str, why: &SchemaError) {
        let _ = (tool, why);
    }

    /// Sees a message that was received or sent ([`Limits::tap_records`](mcp_proto::Limits) turns this on)
    fn tap(&mut self, record: &TapRecord) {
        let _ = record;
    }
}

/// Refuses every request and ignores everything else
impl ClientHandler for () {}
