//! The client: performs the steps of `talk.json`, answers as they say, and reports what it saw

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;
use std::{fs, process};

use mcp_blocking::{Client, ClientHandler, Error, Options, Program};
use mcp_proto::client::{Config, Log, Notification, SubscriptionKey};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, ListRootsResult,
    SubscriptionFilter,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Change, Diagnostic, Era, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Given, Lines, watched};

/// Longer than anything takes on a busy machine
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn talk(given: &Given) -> Result<(), String> {
    let Some((program, args)) = given.server.split_first() else { return Err("no SERVER".into()) };
    let mut capabilities = Capabilities::new();
    for capability in [
        Capability::ElicitationForm,
        Capability::ElicitationUrl,
        Capability::Sampling,
        Capability::SamplingTools,
        Capability::Roots,
        Capability::RootsListChanged,
    ] {
        if given.part != "poor" {
            capabilities = capabilities.with(capability);
        }
    }
    let mut limits = watched();
    limits.init_timeout = PATIENCE * 2;
    limits.probe_timeout = PATIENCE;
    let config = Config::new("talker", "1.0").versions(given.versions).capabilities(capabilities);
    let wire = Arc::new(Lines::wire(given.log.as_deref(), "client")?);
    let seen = Seen { notes: Arc::default(), log: given.log.clone(), wire };
    let options = Options::new(config.limits(limits)).handler(seen.clone());
    let is_url = program.starts_with("http://");
    let client =
        if is_url { options.connect_url(program) } else { options.spawn(Program::new(program).args(args)) };
    let client = client.map_err(|error| error.to_string())?;
    let peer = client.peer();
    report(&json!({"step": "negotiate", "era": peer.era().to_string(), "version": peer.version.as_str()}));
    let mut session = Session { client, seen, subscription: None };
    for part in given.part.split(',') {
        for step in given.talk["steps"][part].as_array().ok_or("no such part")? {
            let mut seen = session.perform(step)?;
            seen["step"] = step["step"].clone();
            report(&seen);
        }
    }
    let Session { client, .. } = session;
    let ended = client.close().map_err(|error| error.to_string())?;
    let by_itself = ended.and_then(|ended| ended.status).is_some_and(|status| status.success());
    // A server that was not started here does not end with this client.
    report(&if is_url { json!({"step": "end"}) } else { json!({"step": "end", "by-itself": by_itself}) });
    Ok(())
}

fn report(line: &Value) {
    io::stdout().write_all(format!("{line}\n").as_bytes()).expect("a reader");
}

struct Session {
    client: Client,
    seen: Seen,
    subscription: Option<SubscriptionKey>,
}

impl Session {
    fn perform(&mut self, step: &Value) -> Result<Value, String> {
        *self.seen.lock() = Notes { answers: step["answers"].clone(), ..Notes::default() };
        if let Some(filter) = step.get("subscribe") {
            return self.subscribe(filter);
        }
        if step.get("unsubscribe").is_some() {
            let key = self.subscription.take().ok_or("nothing to unsubscribe")?;
            self.client.unsubscribe(key).map_err(|error| error.to_string())?;
            return Ok(json!({}));
        }
        if step.get("roots-changed").is_some() {
            let now = self.client.now();
            self.client.engine().roots_changed(now).map_err(|error| error.to_string())?;
            return Ok(json!({}));
        }
        if let Some(level) = step.get("level") {
            let level = serde_json::from_value(level.clone()).map_err(|error| error.to_string())?;
            self.client.set_log_level(Some(level)).map_err(|error| error.to_string())?;
        }
        if step.get("timeout").is_some() {
            // A handler of this client's answers before anything else happens, and no time passes meanwhile (TIME-008).
            return Ok(json!({"cannot": true}));
        }
        let mut outcome = self.call(step)?;
        // What belongs to the call may come after its result.
        let era = self.client.peer().era();
        let wanted = |name: &str| match step[name].get(era.to_string()).unwrap_or_else(|| &step[name]) {
            Value::Array(all) => all.len() as u64,
            count => count.as_u64().unwrap_or(0),
        };
        let [logs, news] = ["logs", "news"].map(wanted);
        let completed = if era == Era::Modern { 0 } else { wanted("completed") };
        let ends = step.get("ended").is_some();
        self.wait(|notes| {
            let [l, n, c] = [&notes.logs, &notes.news, &notes.completed].map(|all| all.len() as u64);
            l >= logs && n >= news && c >= completed && (notes.ended.is_some() || !ends)
        });
        let notes = core::mem::take(&mut *self.seen.lock());
        outcome["asked"] = notes.asked.into();
        outcome["logs"] = notes.logs.into();
        outcome["news"] = notes.news.into();
        outcome["completed"] = notes.completed.into();
        outcome["ended"] = notes.ended.into();
        outcome["odd"] = notes.odd.into();
        Ok(outcome)
    }

    fn call(&mut self, step: &Value) -> Result<Value, String> {
        let arguments = step.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let options = CallOptions::new().timeout(PATIENCE);
        let (method, params, text) = if let Some(name) = step.get("prompt") {
            ("prompts/get", json!({"name": name}), "/messages/0/content/text")
        } else if let Some(uri) = step.get("read") {
            ("resources/read", json!({"uri": uri}), "/contents/0/text")
        } else {
            ("tools/call", json!({"name": step["tool"], "arguments": arguments}), "/content/0/text")
        };
        Ok(match self.client.request(method, &params, &options) {
            Ok(result) => {
                let result: Value =
                    serde_json::from_str(result.as_str()).map_err(|error| error.to_string())?;
                let text = result.pointer(text).and_then(Value::as_str).unwrap_or_default();
                if result["isError"] == true {
                    json!({"failed": text})
                } else {
                    json!({"result": serde_json::from_str::<Value>(text).map_err(|e| format!("{e}: {text}"))?})
                }
            }
            Err(Error::Call(CallError::Rpc(error))) => {
                let data =
                    error.data.as_ref().and_then(|data| serde_json::from_str::<Value>(data.as_str()).ok());
                json!({"error": {"code": error.code, "message": error.message, "data": data}})
            }
            Err(Error::Call(CallError::InputRefused(error))) => {
                json!({"error": {"code": error.code, "message": error.message, "here": true}})
            }
            Err(Error::Call(CallError::NotDeclared(lacks))) => json!({"not-declared": lacks.to_string()}),
            Err(Error::Call(error)) => json!({"gave-up": error.to_string()}),
            Err(other) => return Err(other.to_string()),
        })
    }

    fn subscribe(&mut self, filter: &Value) -> Result<Value, String> {
        let filter: SubscriptionFilter =
            serde_json::from_value(filter.clone()).map_err(|error| error.to_string())?;
        let (key, honoured) = self.client.subscribe(&filter).map_err(|error| error.to_string())?;
        self.subscription = Some(key);
        Ok(json!({"honoured": serde_json::to_value(&honoured).expect("JSON")}))
    }

    fn wait(&mut self, done: impl Fn(&Notes) -> bool) {
        let until = Instant::now() + PATIENCE / 4;
        while !done(&self.seen.lock()) && Instant::now() < until {
            if self.client.poll(Duration::from_millis(100)).is_err() {
                // What was seen until then counts; the next step finds it out.
                return;
            }
        }
    }
}

/// What was seen in a step, and how to answer in it
#[derive(Default)]
struct Notes {
    answers: Value,
    asked: Vec<Value>,
    logs: Vec<Value>,
    news: Vec<Value>,
    completed: Vec<Value>,
    ended: Option<&'static str>,
    odd: Vec<Value>,
}

/// The handler; it reads the log of the server, if there is one
#[derive(Clone)]
struct Seen {
    notes: Arc<Mutex<Notes>>,
    log: Option<PathBuf>,
    wire: Arc<Lines>,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no panic under this lock")
    }

    /// Until the server has said that it waits no longer
    fn outlast_the_server(&self) {
        let until = Instant::now() + PATIENCE;
        let is_over = || {
            let log = self.log.as_ref().and_then(|path| fs::read_to_string(path).ok());
            log.is_some_and(|log| log.lines().last().is_some_and(|line| line.contains("gave-up")))
        };
        while !is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Seen {
    /// What the step answers to a question of this name
    fn answer<T: DeserializeOwned>(&self, name: &str, asked: &impl Serialize) -> Result<T, RpcError> {
        let mut asked = serde_json::to_value(asked).expect("JSON");
        asked["name"] = name.into();
        let answer = {
            let mut notes = self.lock();
            notes.asked.push(asked);
            match &notes.answers[name] {
                Value::Array(answers) => answers[notes.asked.len() - 1].clone(),
                answer => answer.clone(),
            }
        };
        match answer.as_str() {
            Some("error") => Err(RpcError::new(-1, "not today")),
            Some("never") => {
                self.outlast_the_server();
                Err(RpcError::new(-1, "too late"))
            }
            Some("vanish") => process::abort(),
            // From the text: in a `Value` there is no raw JSON to be had.
            _ if answer.is_object() => {
                Ok(serde_json::from_str(&answer.to_string()).expect("an answer of talk.json"))
            }
            _ => Err(RpcError::internal(format!("not expected: {name}"))),
        }
    }
}

impl ClientHandler for Seen {
    fn elicit(&mut self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let name = match params {
            ElicitParams::Form(form) => &form.message,
            ElicitParams::Url(page) => &page.message,
            _ => "",
        };
        self.answer(name, &InputRequest::Elicit(params.clone()))
    }

    fn sample(&mut self, params: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        let name = params.system_prompt.as_deref().unwrap_or_default();
        let read: Value = self.answer(name, &InputRequest::CreateMessage(params.clone()))?;
        let text = read.to_string();
        Ok(serde_json::from_str::<CreateMessageResult<'_>>(&text)
            .expect("an answer of talk.json")
            .into_owned())
    }

    fn roots(&mut self) -> Result<ListRootsResult, RpcError> {
        self.answer("roots", &InputRequest::ListRoots(None))
    }

    fn subscription_ended(&mut self, _: SubscriptionKey, error: Option<&CallError>) {
        self.lock().ended = Some(if error.is_none() { "graceful" } else { "remote" });
    }

    fn elicitation_complete(&mut self, id: &str) {
        self.lock().completed.push(id.into());
    }

    fn changed(&mut self, change: &Change) {
        let what = match change {
            Change::Tools => "tools",
            Change::Resources => "resources",
            Change::Prompts => "prompts",
            Change::Resource(uri) => uri,
            _ => "?",
        };
        self.lock().news.push(what.into());
    }

    fn log(&mut self, log: &Log) {
        let data: Value = serde_json::from_str(log.data.as_str()).expect("JSON");
        let mut line = json!({"level": log.level.as_str(), "data": data});
        if let Some(logger) = &log.logger {
            line["logger"] = logger.clone().into();
        }
        self.lock().logs.push(line);
    }

    fn notification(&mut self, notification: &Notification) {
        self.lock().odd.push(json!({"notification": notification.method}));
    }

    fn tap(&mut self, record: &TapRecord) {
        self.wire.passed(record);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.lock().odd.push(format!("{diagnostic:?}").into());
    }
}
