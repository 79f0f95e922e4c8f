//! Requests and answers in a conversation with a server that may not follow the protocol.

use core::time::Duration;
use std::time::Instant;

use alloc::rc::Rc;

use mcp_proto::draft::Draft;
use mcp_proto::{Era, Version};
use mcp_std::process::{ShutdownReport, ShutdownTimeouts};
use serde_json::{Map, Value, json};

pub(super) use super::answer::{CheckAnswer, ErrorAnswer, ListenOutcome, ProvokedAnswers, WaitOutcome};
use super::http_peer::{HTTP_UNANSWERED, HttpPeer};
use super::messages::{self, FLOOD, ID_CHANGED, STRAY_ANSWER, ServerMessage};
use super::peer::{CheckedPeer, ServerTarget};
use super::profile::Profile;
use super::received::{Received, TraceSink, TransportFinding};
use super::report::CheckReport;
use super::rules::rules_of;
use super::{CheckError, modern};
use crate::text::{initialize_params, request_meta};

rules_of! {
    RULES
    NOT_A_SERVER "not-a-server" Error [Spec Hosted Owasp] ["LIFE-003" "VER-011"]
        "a server answers `initialize`, `server/discover`, or both"
        "check the command and its arguments; `--stderr show` prints its stderr"
    ECHOES "echoes" Error [Spec Hosted Owasp] ["BASE-017" "STDIO-005"]
        "a server answers requests and does not send them back"
        "this is not an MCP server: check the command"
    NO_ANSWER "no-answer" Error [Spec Hosted Owasp] ["BASE-022" "BASE-023"]
        "each request is answered"
        "answer each request with a result or an error; --timeout gives a slow server more time"
    DIED "died" Error [Spec Owasp] ["STDIO-011"]
        "a server runs until its input ends, whatever input it gets"
        "answer with an error instead of ending"
    STUCK_BY_LINE "stuck-by-line" Error [Spec] ["STDIO-011" "ERR-023"]
        "a bad line does not end the session"
        "skip the line and continue reading"
    GAVE_UP "gave-up" Warning [Spec Hosted Owasp] ["STDIO-011"]
        "a server can be checked to the end"
        "fix the cause of the failures, then check again"
}

/// Settings shared by all conversations of a check.
pub(super) struct CheckSetup {
    pub(super) server: ServerTarget,
    pub(super) profile: Profile,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) trace: Option<Rc<TraceSink>>,
    pub(super) draft: Draft,
}

impl CheckSetup {
    /// Creates an empty report about the server.
    pub(super) const fn new_report(&self) -> CheckReport {
        CheckReport::new(self.server.message_source(), self.server.is_http())
    }

    /// Returns the time that a server has to end after its input.
    pub(super) fn close_timeout(&self) -> Duration {
        self.timeout.max(Duration::from_secs(2))
    }
}

/// A conversation with a server in one revision. If the process ends, the next request starts a new one.
pub(super) struct CheckConversation<'a> {
    setup: &'a CheckSetup,
    pub(super) report: &'a CheckReport,
    version: Version,
    /// Capabilities of the server, null until they are known.
    pub(super) capabilities: Value,
    /// Instructions of the server for models.
    pub(super) instructions: String,
    peer: Option<CheckedPeer>,
    next_id: i64,
    /// Ids of requests that are not answered yet.
    unanswered_ids: Vec<Value>,
    /// Answers that arrived while another one was awaited.
    early_answers: Vec<(Value, CheckAnswer)>,
    /// Errors without a usable request id; collected only while they are expected.
    errors_without_id: Option<Vec<ErrorAnswer>>,
    /// Number of results with a null id, while errors without an id are expected.
    results_without_id: usize,
    /// Notifications; collected only while they are expected.
    notifications: Option<Vec<(String, Value)>>,
    last_sent: Vec<u8>,
    restarts: u32,
    /// Number of unsolicited lines of this process.
    unsolicited: u32,
    has_given_up: bool,
}

impl<'a> CheckConversation<'a> {
    /// Starts a server without sending anything.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub(super) fn start(
        setup: &'a CheckSetup,
        report: &'a CheckReport,
        version: Version,
    ) -> Result<Self, CheckError> {
        Ok(Self {
            setup,
            report,
            version,
            capabilities: Value::Null,
            instructions: String::new(),
            peer: Some(CheckedPeer::start(setup, version)?),
            next_id: 0,
            unanswered_ids: Vec::new(),
            early_answers: Vec::new(),
            errors_without_id: None,
            results_without_id: 0,
            notifications: None,
            last_sent: Vec::new(),
            restarts: 0,
            unsolicited: 0,
            has_given_up: false,
        })
    }

    pub(super) const fn setup(&self) -> &'a CheckSetup {
        self.setup
    }

    /// Returns the revision in use.
    pub(super) const fn version(&self) -> Version {
        self.version
    }

    pub(super) const fn is_modern(&self) -> bool {
        matches!(self.version.era(), Era::Modern)
    }

    /// Returns the server if it is reached over HTTP.
    pub(super) fn http_peer(&self) -> Option<&HttpPeer> {
        match &self.peer {
            Some(CheckedPeer::Http(remote)) => Some(remote),
            _ => None,
        }
    }

    /// Returns whether an error has this code, or the code for a header mismatch where headers are checked first.
    pub(super) fn is_refused_with(&self, failed: &ErrorAnswer, code: i64) -> bool {
        failed.code == code || (self.is_modern() && self.setup.server.is_http() && failed.code == -32020)
    }

    fn update_peer_version(&mut self) {
        let version = self.version;
        if let Some(peer) = &mut self.peer {
            peer.set_version(version);
        }
    }

    /// Returns whether the server is running. A failed process is stopped and started again by the next request.
    pub(super) fn is_running(&self) -> bool {
        self.peer.is_some()
    }

    /// Sends `initialize` with the given revision. A timeout is not a finding.
    pub(super) fn send_initialize(&mut self, version: &str, wait: Duration) -> WaitOutcome {
        self.send_and_wait("initialize", &initialize_params(version), wait)
    }

    /// Completes the handshake after the answer to `initialize`.
    pub(super) fn finish_initialize(&mut self, version: Version, capabilities: Value) {
        self.version = version;
        self.capabilities = capabilities;
        self.update_peer_version();
        self.notify("notifications/initialized", Value::Null);
    }

    /// Sends `server/discover`. A timeout is not a finding.
    pub(super) fn send_discover(&mut self, version: &str, wait: Duration) -> WaitOutcome {
        let params = json!({"_meta": request_meta(version)});
        self.send_and_wait("server/discover", &params, wait)
    }

    /// Sends a request with the `_meta` that the era requires. A timeout and the end of the server are findings.
    pub(super) fn request(&mut self, method: &str, params: Value) -> CheckAnswer {
        let params = self.with_meta(params);
        self.request_verbatim(method, &params)
    }

    /// Sends a request with exactly these params. A timeout and the end of the server are findings.
    pub(super) fn request_verbatim(&mut self, method: &str, params: &Value) -> CheckAnswer {
        if !self.ensure_running() {
            return CheckAnswer::None;
        }
        let waited = self.send_and_wait(method, params, self.setup.timeout);
        let answer = self.expect_answer(waited, &format!("`{method}`"));
        if self.is_modern() {
            modern::check_answer(self.report, method, &answer);
        }
        answer
    }

    /// Sends a notification.
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        let mut message = Map::new();
        message.insert("jsonrpc".into(), "2.0".into());
        message.insert("method".into(), method.into());
        if !params.is_null() {
            message.insert("params".into(), params);
        }
        self.send(Value::Object(message).to_string().as_bytes());
    }

    /// Sends an invalid line, then a valid request, and collects the reactions until shortly after its answer.
    ///
    /// `id` is the id that an answer to the line would have.
    pub(super) fn provoke(&mut self, line: &[u8], id: Option<Value>, location: &str) -> ProvokedAnswers {
        let mut provoked =
            ProvokedAnswers { answer: None, errors_without_id: Vec::new(), has_result_without_id: false };
        if !self.ensure_running() {
            return provoked;
        }
        self.errors_without_id = Some(Vec::new());
        self.results_without_id = 0;
        self.unanswered_ids.extend(id.clone());
        self.send(line);
        let waited = self.probe();
        if !matches!(waited, WaitOutcome::Answer(_)) {
            let what = match &waited {
                WaitOutcome::Closed => self.describe_failure(),
                _ => "requests after it were not answered".to_owned(),
            };
            self.report.add(STUCK_BY_LINE, location, what);
            self.stop();
        } else if id.as_ref().is_none_or(|id| !self.early_answers.iter().any(|(early, _)| early == id)) {
            let waited = self.wait_for_answer(id.as_ref(), Instant::now() + LATE_ANSWER_TIMEOUT);
            if let (WaitOutcome::Answer(answer), Some(id)) = (waited, &id) {
                self.early_answers.push((id.clone(), answer));
            }
        }
        provoked.answer = id.and_then(|id| self.take_early_answer(&id));
        provoked.errors_without_id = self.errors_without_id.take().unwrap_or_default();
        provoked.has_result_without_id = self.results_without_id > 0;
        provoked
    }

    /// Sends a listen request and cancels it once the notification `acknowledged` has arrived.
    pub(super) fn listen(
        &mut self,
        method: &str,
        acknowledged: &str,
        params: &Value,
    ) -> Option<ListenOutcome> {
        if !self.ensure_running() {
            return None;
        }
        self.notifications = Some(Vec::new());
        let params = self.with_meta(params.clone());
        let id = self.send_request(method, &params);
        let until = Instant::now() + self.setup.timeout;
        let mut answer = None;
        let mut failure = None;
        loop {
            match self.wait_for_answer(Some(&id), until.min(Instant::now() + POLL_INTERVAL)) {
                WaitOutcome::Answer(came) => answer = Some(came),
                WaitOutcome::TimedOut => {}
                other => failure = Some(other),
            }
            let notifications = self.notifications.iter().flatten();
            let is_acknowledged = notifications.clone().any(|(method, _)| method == acknowledged);
            if answer.is_some() || failure.is_some() || is_acknowledged || Instant::now() >= until {
                break;
            }
        }
        if answer.is_none() && failure.is_none() {
            self.notify("notifications/cancelled", self.with_meta(json!({"requestId": id})));
            // Notifications that cross the cancellation still belong to the subscription.
            let waited = self.probe();
            if !matches!(waited, WaitOutcome::Answer(_)) {
                failure = Some(waited);
            }
        }
        let notifications = self.notifications.take().unwrap_or_default();
        if let Some(failure) = failure {
            self.expect_answer(failure, &format!("`{method}`"));
            return None;
        }
        Some(ListenOutcome { id, answer, notifications })
    }

    /// Sends several requests at once. Returns how many of them were answered.
    pub(super) fn burst(&mut self, method: &str, count: usize) -> Option<usize> {
        if !self.ensure_running() {
            return None;
        }
        let params = self.with_meta(Value::Null);
        let ids: Vec<_> = (0..count).map(|_| self.send_request(method, &params)).collect();
        let until = Instant::now() + self.setup.timeout;
        let answered = ids
            .iter()
            .filter(|id| matches!(self.wait_for_answer(Some(id), until), WaitOutcome::Answer(_)))
            .count();
        if answered < count {
            self.stop();
        }
        Some(answered)
    }

    /// Sends a request with the given id.
    pub(super) fn request_with_id(&mut self, id: &Value, method: &str) -> CheckAnswer {
        if !self.ensure_running() {
            return CheckAnswer::None;
        }
        let params = self.with_meta(Value::Null);
        self.send_request_with_id(id.clone(), method, &params);
        let waited = self.wait_for_answer(Some(id), Instant::now() + self.setup.timeout);
        self.expect_answer(waited, &format!("`{method}` with the id {id}"))
    }

    /// Creates a request with an id of its own, and with the `_meta` that the era requires.
    pub(super) fn new_request(&mut self, method: &str, params: Value) -> Value {
        let id = self.allocate_id();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": self.with_meta(params)})
    }

    /// Creates a request that every server of the era answers.
    pub(super) fn safe_request(&mut self) -> Value {
        self.new_request(self.safe_method(), json!({}))
    }

    /// Returns a method that every server of the era answers.
    pub(super) const fn safe_method(&self) -> &'static str {
        if self.is_modern() { "server/discover" } else { "ping" }
    }

    /// Ends the server as a client should. Returns how it ended, if it is a process.
    pub(super) fn close(mut self) -> Option<ShutdownReport> {
        // Messages that are still on the way count too.
        let _ = self.wait_for_answer(None, Instant::now() + LATE_ANSWER_TIMEOUT);
        self.peer.take()?.close(ShutdownTimeouts { exit: self.setup.close_timeout(), ..QUICK_SHUTDOWN })
    }

    /// Adds the `_meta` that the modern era requires. Null stands for absent params.
    pub(super) fn with_meta(&self, params: Value) -> Value {
        if !self.is_modern() {
            return params;
        }
        let mut params = if let Value::Object(params) = params { params } else { Map::new() };
        params.insert("_meta".into(), request_meta(self.version.as_str()));
        Value::Object(params)
    }

    /// Returns whether a server is running. Starts it again after a failure, at most [`MAX_RESTARTS`] times.
    fn ensure_running(&mut self) -> bool {
        if self.peer.is_some() {
            return true;
        }
        if self.has_given_up {
            return false;
        }
        self.restarts += 1;
        if self.restarts <= MAX_RESTARTS && self.restart() {
            return true;
        }
        self.has_given_up = true;
        self.stop();
        let what = format!("the remaining checks were skipped; failures so far: {}", self.restarts);
        self.report.add(GAVE_UP, "the server", what);
        false
    }

    fn restart(&mut self) -> bool {
        let Ok(peer) = CheckedPeer::start(self.setup, self.version) else {
            return false;
        };
        self.peer = Some(peer);
        self.unanswered_ids.clear();
        self.early_answers.clear();
        self.unsolicited = 0;
        if self.is_modern() {
            return true;
        }
        match self.send_initialize(self.version.as_str(), self.setup.connect_timeout) {
            WaitOutcome::Answer(CheckAnswer::Result(_)) => {
                self.update_peer_version();
                self.notify("notifications/initialized", Value::Null);
                true
            }
            _ => false,
        }
    }

    /// Returns the answer. Reports a finding if there is none.
    pub(super) fn expect_answer(&mut self, waited: WaitOutcome, location: &str) -> CheckAnswer {
        match waited {
            WaitOutcome::Answer(answer) => return answer,
            WaitOutcome::TimedOut => {
                let what = format!("no answer within {} s", self.setup.timeout.as_secs_f64());
                self.report.add(NO_ANSWER, location, what);
            }
            WaitOutcome::Closed => {
                let fate = self.describe_failure();
                if self.setup.server.is_http() {
                    self.report.add(HTTP_UNANSWERED, location, fate);
                } else {
                    self.report.add(DIED, location, format!("{fate} instead of answering"));
                }
            }
            WaitOutcome::Unusable => {}
        }
        self.stop();
        CheckAnswer::None
    }

    /// Describes what the server did instead of answering.
    pub(super) fn describe_failure(&mut self) -> String {
        self.peer.as_mut().map(CheckedPeer::describe_failure).unwrap_or_default()
    }

    pub(super) fn stop(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.close(QUICK_SHUTDOWN);
        }
    }

    fn send_and_wait(&mut self, method: &str, params: &Value, wait: Duration) -> WaitOutcome {
        let id = self.send_request(method, params);
        self.wait_for_answer(Some(&id), Instant::now() + wait)
    }

    fn probe(&mut self) -> WaitOutcome {
        let params = self.with_meta(Value::Null);
        self.send_and_wait(self.safe_method(), &params, self.setup.timeout)
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.allocate_id();
        self.send_request_with_id(id.clone(), method, params);
        id
    }

    /// Returns an id that has not been used yet.
    pub(super) fn allocate_id(&mut self) -> Value {
        self.next_id += 1;
        self.next_id.into()
    }

    fn send_request_with_id(&mut self, id: Value, method: &str, params: &Value) {
        let mut text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{}", Value::from(method));
        if !params.is_null() {
            text += &format!(",\"params\":{params}");
        }
        text.push('}');
        self.unanswered_ids.push(id);
        self.send(text.as_bytes());
    }

    fn send(&mut self, line: &[u8]) {
        self.last_sent = line.to_vec();
        let until = Instant::now() + self.setup.timeout;
        if let Some(peer) = &mut self.peer {
            // A server that does not read the line will not answer either.
            let _ = peer.send(line, until);
        }
    }

    fn take_early_answer(&mut self, id: &Value) -> Option<CheckAnswer> {
        let at = self.early_answers.iter().position(|(early, _)| early == id)?;
        Some(self.early_answers.swap_remove(at).1)
    }

    /// Reads until the answer with this id arrives. Without an id it reads until `until`.
    fn wait_for_answer(&mut self, id: Option<&Value>, until: Instant) -> WaitOutcome {
        loop {
            if let Some(answer) = id.and_then(|id| self.take_early_answer(id)) {
                return WaitOutcome::Answer(answer);
            }
            let Some(peer) = &mut self.peer else { return WaitOutcome::Closed };
            match peer.next(until) {
                Received::Line(line) => {
                    if line == self.last_sent && !line.is_empty() {
                        self.report.add_unsolicited(ECHOES, "the request was sent back");
                        return WaitOutcome::Unusable;
                    }
                    self.handle_line(&line);
                    if self.unsolicited > MAX_UNSOLICITED {
                        let what = format!("more than {MAX_UNSOLICITED} unsolicited lines");
                        self.report.add_unsolicited(FLOOD, what);
                        return WaitOutcome::Unusable;
                    }
                }
                Received::TimedOut => return WaitOutcome::TimedOut,
                Received::Closed(rest) => {
                    if !rest.is_empty() {
                        self.handle_line(&rest);
                    }
                    return WaitOutcome::Closed;
                }
                Received::Finding(TransportFinding { rule, location, detail: what }) => {
                    self.report.add(rule, &location, what)
                }
                Received::Flood => {
                    self.report.add_unsolicited(FLOOD, "an endless line, or more output than the limit");
                    return WaitOutcome::Unusable;
                }
            }
        }
    }

    /// Processes the messages of a line.
    fn handle_line(&mut self, line: &[u8]) {
        let messages = messages::parse_line(self.report, self.version, line);
        if messages.is_empty() {
            self.unsolicited += 1;
        }
        for message in messages {
            match message {
                ServerMessage::Answer { id, answer } => self.handle_answer(&id, answer),
                ServerMessage::ErrorWithoutId(failed) => {
                    self.unsolicited += 1;
                    if let Some(loose) = &mut self.errors_without_id {
                        loose.push(failed);
                    } else {
                        let what = format!("an error without a request: {}", failed.summary());
                        self.report.add_unsolicited(STRAY_ANSWER, what);
                    }
                }
                ServerMessage::ResultWithoutId => {
                    self.unsolicited += 1;
                    self.results_without_id += 1;
                    if self.errors_without_id.is_none() {
                        self.report.add_unsolicited(STRAY_ANSWER, "a result with null for an id");
                    }
                }
                ServerMessage::Request { id, method } => {
                    self.unsolicited += 1;
                    messages::check_request(self.report, self.version, &method);
                    if !self.is_modern() {
                        let reply = if method == "ping" {
                            json!({"jsonrpc": "2.0", "id": id, "result": {}})
                        } else {
                            let error = json!({"code": -32601, "message": "not declared"});
                            json!({"jsonrpc": "2.0", "id": id, "error": error})
                        };
                        self.send(reply.to_string().as_bytes());
                    }
                }
                ServerMessage::Notification { method, params } => {
                    self.unsolicited += 1;
                    if let Some(notifications) = &mut self.notifications {
                        notifications.push((method, params));
                        continue;
                    }
                    messages::check_notification(self.report, self.version, &self.capabilities, &method);
                }
                ServerMessage::Unusable => self.unsolicited += 1,
            }
        }
    }

    fn handle_answer(&mut self, id: &Value, answer: CheckAnswer) {
        if let Some(at) = self.unanswered_ids.iter().position(|waiting| waiting == id) {
            self.unanswered_ids.swap_remove(at);
            self.early_answers.push((id.clone(), answer));
            return;
        }
        let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        if let Some(at) = self.unanswered_ids.iter().position(|waiting| is_same_number(waiting, id, text)) {
            let original = self.unanswered_ids.swap_remove(at);
            self.report.add_unsolicited(ID_CHANGED, format!("the id {original} came back as {id}"));
            self.early_answers.push((original, answer));
            return;
        }
        self.unsolicited += 1;
        let what = format!("an answer with the id {id}, which no open request has");
        self.report.add_unsolicited(STRAY_ANSWER, what);
    }
}

/// Returns whether two ids denote the same number or text in different JSON types.
fn is_same_number(original: &Value, id: &Value, text: impl Fn(&Value) -> String) -> bool {
    let number = |id: &Value| text(id).parse::<f64>().ok();
    text(original) == text(id) || number(original).is_some_and(|original| Some(original) == number(id))
}

/// Shutdown timeouts for servers that are of no further use.
const QUICK_SHUTDOWN: ShutdownTimeouts = ShutdownTimeouts {
    exit: Duration::from_millis(500),
    terminate: Duration::from_millis(500),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_millis(500),
};
/// Time to wait for late messages.
const LATE_ANSWER_TIMEOUT: Duration = Duration::from_millis(150);
/// Interval at which the acknowledgement of a subscription is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of restarts after a failure.
const MAX_RESTARTS: u32 = 6;
/// Maximum number of unsolicited lines of one process.
const MAX_UNSOLICITED: u32 = 1_000;
