//! Requests and their answers, to a server that may do anything

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::{Era, Version};
use mcp_std::child::{Ended, Patience};
use serde_json::{Map, Value, json};

pub(super) use super::answer::{Answer, Failed, Listened, Provoked, Waited};
use super::modern;
use super::passing::{Got, Odd};
use super::peer::{Peer, Server};
use super::remote::Remote;
use super::report::Report;
use super::rules;
use super::stream::{self, Message};

/// What all conversations have in common
pub(super) struct Setup {
    pub(super) server: Server,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) trace: bool,
}

impl Setup {
    /// An empty report about the server
    pub(super) const fn report(&self) -> Report {
        Report::new(self.server.source())
    }
}

/// A conversation with a server in one revision; when the process ends, the next request starts another one
pub(super) struct Talk<'a> {
    setup: &'a Setup,
    pub(super) report: &'a Report,
    version: Version,
    /// What the server has declared, once it has
    pub(super) capabilities: Value,
    peer: Option<Peer>,
    next_id: i64,
    /// Sent and not answered
    waiting: Vec<Value>,
    /// Answered, while somebody else was waited for
    early: Vec<(Value, Answer)>,
    /// Errors that name no request, while they are expected
    loose: Option<Vec<Failed>>,
    /// Results with null for an id, while errors that name no request are expected
    loose_results: usize,
    /// Notifications, while they are expected
    news: Option<Vec<(String, Value)>>,
    last_sent: Vec<u8>,
    restarts: u32,
    /// Lines that nobody waited for
    unasked: u32,
    gave_up: bool,
}

impl<'a> Talk<'a> {
    /// Starts a server; nothing is said yet
    pub(super) fn start(setup: &'a Setup, report: &'a Report, version: Version) -> Result<Self, Error> {
        Ok(Self {
            setup,
            report,
            version,
            capabilities: Value::Null,
            peer: Some(Peer::start(&setup.server, version, setup.trace)?),
            next_id: 0,
            waiting: Vec::new(),
            early: Vec::new(),
            loose: None,
            loose_results: 0,
            news: None,
            last_sent: Vec::new(),
            restarts: 0,
            unasked: 0,
            gave_up: false,
        })
    }

    pub(super) const fn setup(&self) -> &'a Setup {
        self.setup
    }

    /// The revision that is spoken
    pub(super) const fn version(&self) -> Version {
        self.version
    }

    pub(super) const fn is_modern(&self) -> bool {
        matches!(self.version.era(), Era::Modern)
    }

    /// The server, if it is spoken to over HTTP
    pub(super) fn remote(&self) -> Option<&Remote> {
        match &self.peer {
            Some(Peer::Remote(remote)) => Some(remote),
            _ => None,
        }
    }

    /// Whether an error has this code, or the one for what headers have no room for
    pub(super) fn is_refusal(&self, failed: &Failed, code: i64) -> bool {
        failed.code == code || (self.is_modern() && self.setup.server.is_site() && failed.code == -32020)
    }

    fn agreed(&mut self) {
        let version = self.version;
        if let Some(peer) = &mut self.peer {
            peer.agreed(version);
        }
    }

    /// Whether the server is still the process that was started, or has been started anew
    pub(super) fn is_up(&self) -> bool {
        self.peer.is_some()
    }

    /// The first request of a legacy session, asking for the revision of this name; says nothing of silence
    pub(super) fn initialize(&mut self, version: &str, wait: Duration) -> Waited {
        self.ask("initialize", &initialize_params(version), wait)
    }

    /// What follows upon an answer to it
    pub(super) fn initialized(&mut self, version: Version, capabilities: Value) {
        self.version = version;
        self.capabilities = capabilities;
        self.agreed();
        self.notify("notifications/initialized", Value::Null);
    }

    /// The first request of the modern era; says nothing of silence
    pub(super) fn discover(&mut self, version: &str, wait: Duration) -> Waited {
        let params = json!({"_meta": modern::meta(version)});
        self.ask("server/discover", &params, wait)
    }

    /// A request with the `_meta` that the era wants; silence and the end of the server are findings
    pub(super) fn request(&mut self, method: &str, params: Value) -> Answer {
        let params = self.with_meta(params);
        self.request_as_is(method, &params)
    }

    /// The same with exactly these params
    pub(super) fn request_as_is(&mut self, method: &str, params: &Value) -> Answer {
        if !self.ready() {
            return Answer::None;
        }
        let waited = self.ask(method, params, self.setup.timeout);
        let answer = self.expected(waited, &format!("`{method}`"));
        if self.is_modern() {
            modern::judge(self.report, method, &answer);
        }
        answer
    }

    /// Sends a notification
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        let mut message = Map::new();
        message.insert("jsonrpc".into(), "2.0".into());
        message.insert("method".into(), method.into());
        if !params.is_null() {
            message.insert("params".into(), params);
        }
        self.send(Value::Object(message).to_string().as_bytes());
    }

    /// A line without a request that is answered for sure, then one that is; looks at what comes before that and shortly after
    ///
    /// `id` is the one that an answer would have.
    pub(super) fn provoke(&mut self, line: &[u8], id: Option<Value>, place: &str) -> Provoked {
        let mut provoked = Provoked { answer: None, loose: Vec::new(), loose_result: false };
        if !self.ready() {
            return provoked;
        }
        self.loose = Some(Vec::new());
        self.loose_results = 0;
        self.waiting.extend(id.clone());
        self.send(line);
        let waited = self.probe();
        if !matches!(waited, Waited::Answer(_)) {
            let what = match &waited {
                Waited::Gone => self.fate(),
                _ => "nothing that was sent after it was answered".to_owned(),
            };
            self.report.add(rules::STUCK_BY_LINE, place, what);
            self.end();
        } else if id.as_ref().is_none_or(|id| !self.early.iter().any(|(early, _)| early == id)) {
            let waited = self.wait(id.as_ref(), Instant::now() + GRACE);
            if let (Waited::Answer(answer), Some(id)) = (waited, &id) {
                self.early.push((id.clone(), answer));
            }
        }
        provoked.answer = id.and_then(|id| self.take_early(&id));
        provoked.loose = self.loose.take().unwrap_or_default();
        provoked.loose_result = self.loose_results > 0;
        provoked
    }

    /// A request that stays open until it is cancelled, which is done when this notification has come
    pub(super) fn listen(&mut self, method: &str, acknowledged: &str, params: &Value) -> Option<Listened> {
        if !self.ready() {
            return None;
        }
        self.news = Some(Vec::new());
        let params = self.with_meta(params.clone());
        let id = self.put(method, &params);
        let until = Instant::now() + self.setup.timeout;
        let mut answer = None;
        let mut spoiled = None;
        loop {
            match self.wait(Some(&id), until.min(Instant::now() + SLICE)) {
                Waited::Answer(came) => answer = Some(came),
                Waited::Silent => {}
                other => spoiled = Some(other),
            }
            let news = self.news.iter().flatten();
            let is_acknowledged = news.clone().any(|(method, _)| method == acknowledged);
            if answer.is_some() || spoiled.is_some() || is_acknowledged || Instant::now() >= until {
                break;
            }
        }
        if answer.is_none() && spoiled.is_none() {
            self.notify("notifications/cancelled", self.with_meta(json!({"requestId": id})));
            // What crosses it still belongs here.
            let waited = self.probe();
            if !matches!(waited, Waited::Answer(_)) {
                spoiled = Some(waited);
            }
        }
        let news = self.news.take().unwrap_or_default();
        if let Some(spoiled) = spoiled {
            self.expected(spoiled, &format!("`{method}`"));
            return None;
        }
        Some(Listened { id, answer, news })
    }

    /// Several requests at once; how many of them were answered
    pub(super) fn burst(&mut self, method: &str, count: usize) -> Option<usize> {
        if !self.ready() {
            return None;
        }
        let params = self.with_meta(Value::Null);
        let ids: Vec<_> = (0..count).map(|_| self.put(method, &params)).collect();
        let until = Instant::now() + self.setup.timeout;
        let answered =
            ids.iter().filter(|id| matches!(self.wait(Some(id), until), Waited::Answer(_))).count();
        if answered < count {
            self.end();
        }
        Some(answered)
    }

    /// A request with this id
    pub(super) fn request_with_id(&mut self, id: &Value, method: &str) -> Answer {
        if !self.ready() {
            return Answer::None;
        }
        let params = self.with_meta(Value::Null);
        self.put_with_id(id.clone(), method, &params);
        let waited = self.wait(Some(id), Instant::now() + self.setup.timeout);
        self.expected(waited, &format!("`{method}` with the id {id}"))
    }

    /// What is answered for sure
    pub(super) const fn sure(&self) -> &'static str {
        if self.is_modern() { "server/discover" } else { "ping" }
    }

    /// Ends the server as a client should, and tells how it went
    pub(super) fn close(mut self) -> Option<Ended> {
        // What it still had to say counts.
        let _ = self.wait(None, Instant::now() + GRACE);
        let wait = self.setup.timeout.max(Duration::from_secs(2));
        self.peer.take()?.end(Patience { exit: wait, ..QUICK })
    }

    /// `params` with what the modern era needs; null for none
    pub(super) fn with_meta(&self, params: Value) -> Value {
        if !self.is_modern() {
            return params;
        }
        let mut params = if let Value::Object(params) = params { params } else { Map::new() };
        params.insert("_meta".into(), modern::meta(self.version.as_str()));
        Value::Object(params)
    }

    /// Whether there is a server to talk to; starts it again if it ended
    fn ready(&mut self) -> bool {
        if self.peer.is_some() {
            return true;
        }
        if self.gave_up {
            return false;
        }
        self.restarts += 1;
        if self.restarts <= RESTARTS && self.reopen() {
            return true;
        }
        self.gave_up = true;
        self.end();
        let what = format!("the rest was not checked: it failed for the {}. time", self.restarts);
        self.report.add(rules::GAVE_UP, "the server", what);
        false
    }

    fn reopen(&mut self) -> bool {
        let Ok(peer) = Peer::start(&self.setup.server, self.version, self.setup.trace) else { return false };
        self.peer = Some(peer);
        self.waiting.clear();
        self.early.clear();
        self.unasked = 0;
        if self.is_modern() {
            return true;
        }
        match self.initialize(self.version.as_str(), self.setup.connect_timeout) {
            Waited::Answer(Answer::Result(_)) => {
                self.agreed();
                self.notify("notifications/initialized", Value::Null);
                true
            }
            _ => false,
        }
    }

    /// Makes silence a finding
    pub(super) fn expected(&mut self, waited: Waited, place: &str) -> Answer {
        match waited {
            Waited::Answer(answer) => return answer,
            Waited::Silent => {
                let what = format!("no answer within {} s", self.setup.timeout.as_secs_f64());
                self.report.add(rules::NO_ANSWER, place, what);
            }
            Waited::Gone => {
                let fate = self.fate();
                if self.setup.server.is_site() {
                    self.report.add(rules::HTTP_UNANSWERED, place, fate);
                } else {
                    self.report.add(rules::DIED, place, format!("{fate} instead of answering"));
                }
            }
            Waited::Spoiled => {}
        }
        self.end();
        Answer::None
    }

    /// What it did instead of answering
    pub(super) fn fate(&mut self) -> String {
        self.peer.as_mut().map(Peer::fate).unwrap_or_default()
    }

    pub(super) fn end(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.end(QUICK);
        }
    }

    fn ask(&mut self, method: &str, params: &Value, wait: Duration) -> Waited {
        let id = self.put(method, params);
        self.wait(Some(&id), Instant::now() + wait)
    }

    fn probe(&mut self) -> Waited {
        let params = self.with_meta(Value::Null);
        self.ask(self.sure(), &params, self.setup.timeout)
    }

    fn put(&mut self, method: &str, params: &Value) -> Value {
        let id = self.new_id();
        self.put_with_id(id.clone(), method, params);
        id
    }

    /// One that was not used yet
    pub(super) fn new_id(&mut self) -> Value {
        self.next_id += 1;
        self.next_id.into()
    }

    fn put_with_id(&mut self, id: Value, method: &str, params: &Value) {
        let mut text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{}", Value::from(method));
        if !params.is_null() {
            text += &format!(",\"params\":{params}");
        }
        text.push('}');
        self.waiting.push(id);
        self.send(text.as_bytes());
    }

    fn send(&mut self, line: &[u8]) {
        self.last_sent = line.to_vec();
        let until = Instant::now() + self.setup.timeout;
        if let Some(peer) = &mut self.peer {
            // A server that does not take it does not answer either.
            let _ = peer.send(line, until);
        }
    }

    fn take_early(&mut self, id: &Value) -> Option<Answer> {
        let at = self.early.iter().position(|(early, _)| early == id)?;
        Some(self.early.swap_remove(at).1)
    }

    /// Reads until there is an answer with this id; without one, until time is up
    fn wait(&mut self, id: Option<&Value>, until: Instant) -> Waited {
        loop {
            if let Some(answer) = id.and_then(|id| self.take_early(id)) {
                return Waited::Answer(answer);
            }
            let Some(peer) = &mut self.peer else { return Waited::Gone };
            match peer.next(until) {
                Got::Line(line) => {
                    if line == self.last_sent && !line.is_empty() {
                        self.report.add_said(rules::ECHOES, "what was sent came back");
                        return Waited::Spoiled;
                    }
                    self.take(&line);
                    if self.unasked > UNASKED {
                        let what = format!("more than {UNASKED} lines that nobody asked for");
                        self.report.add_said(rules::FLOOD, what);
                        return Waited::Spoiled;
                    }
                }
                Got::Quiet => return Waited::Silent,
                Got::End(rest) => {
                    if !rest.is_empty() {
                        self.take(&rest);
                    }
                    return Waited::Gone;
                }
                Got::Odd(Odd { rule, place, what }) => self.report.add(rule, &place, what),
                Got::Flood => {
                    self.report.add_said(rules::FLOOD, "a line without end, or more than anybody reads");
                    return Waited::Spoiled;
                }
            }
        }
    }

    /// Sorts what came in
    fn take(&mut self, line: &[u8]) {
        let messages = stream::messages(self.report, self.version, line);
        if messages.is_empty() {
            self.unasked += 1;
        }
        for message in messages {
            match message {
                Message::Answer { id, answer } => self.answered(&id, answer),
                Message::Loose(failed) => {
                    self.unasked += 1;
                    if let Some(loose) = &mut self.loose {
                        loose.push(failed);
                    } else {
                        let what = format!("an error for no request: {}", failed.text());
                        self.report.add_said(rules::STRAY_ANSWER, what);
                    }
                }
                Message::LooseResult => {
                    self.unasked += 1;
                    self.loose_results += 1;
                    if self.loose.is_none() {
                        self.report.add_said(rules::STRAY_ANSWER, "a result with null for an id");
                    }
                }
                Message::Request { id, method } => {
                    self.unasked += 1;
                    stream::judge_request(self.report, self.version, &method);
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
                Message::Notification { method, params } => {
                    self.unasked += 1;
                    if let Some(news) = &mut self.news {
                        news.push((method, params));
                        continue;
                    }
                    stream::judge_notification(self.report, self.version, &self.capabilities, &method);
                }
                Message::Nothing => self.unasked += 1,
            }
        }
    }

    fn answered(&mut self, id: &Value, answer: Answer) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting == id) {
            self.waiting.swap_remove(at);
            self.early.push((id.clone(), answer));
            return;
        }
        let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        if let Some(at) = self.waiting.iter().position(|waiting| same_number(waiting, id, text)) {
            let asked = self.waiting.swap_remove(at);
            self.report.add_said(rules::ID_CHANGED, format!("the id {asked} came back as {id}"));
            self.early.push((asked, answer));
            return;
        }
        self.unasked += 1;
        let what = format!("an answer with the id {id}, which no open request has");
        self.report.add_said(rules::STRAY_ANSWER, what);
    }
}

/// Whether one id was made out of another
fn same_number(asked: &Value, id: &Value, text: impl Fn(&Value) -> String) -> bool {
    let number = |id: &Value| text(id).parse::<f64>().ok();
    text(asked) == text(id) || number(asked).is_some_and(|asked| Some(asked) == number(id))
}

/// What a client without any capability says at first
fn initialize_params(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "mcp-probe", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// For servers that are of no more use
const QUICK: Patience = Patience {
    exit: Duration::from_millis(500),
    terminate: Duration::from_millis(500),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_millis(500),
};
/// How long it takes for what comes late
const GRACE: Duration = Duration::from_millis(150);
/// How often it is looked whether a subscription was acknowledged
const SLICE: Duration = Duration::from_millis(20);
/// How often a server that ended is started again
const RESTARTS: u32 = 6;
/// Lines that nobody asked for, from one process
const UNASKED: u32 = 1_000;
