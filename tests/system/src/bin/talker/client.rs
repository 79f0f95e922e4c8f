//! The client: performs the steps of `talk.json`, answers input requests as they say, and reports what it saw.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;
use std::{fs, process};

use mcp_blocking::{Client, ClientHandler, Error, Options, Program};
use mcp_proto::client::{Config, LogMessage, Notification, SubscriptionKey};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, ListRootsResult,
    SubscriptionFilter,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Change, Diagnostic, Era, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{LineLog, TalkerArgs, tap_limits};

/// Limit above the duration of any step on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

#[expect(deprecated, reason = "tested until its removal")]
pub(crate) fn run(args: &TalkerArgs) -> Result<(), String> {
    let Some((program, server_args)) = args.server.split_first() else { return Err("no SERVER".into()) };
    let mut capabilities = Capabilities::new();
    for capability in [
        Capability::ElicitationForm,
        Capability::ElicitationUrl,
        Capability::Sampling,
        Capability::SamplingTools,
        Capability::Roots,
        Capability::RootsListChanged,
    ] {
        if args.part != "poor" {
            capabilities = capabilities.with(capability);
        }
    }
    let mut limits = tap_limits();
    limits.init_timeout = TIMEOUT * 2;
    limits.probe_timeout = TIMEOUT;
    let config = Config::new("talker", "1.0").versions(args.versions).capabilities(capabilities);
    let wire_log = Arc::new(LineLog::open_wire_log(args.log.as_deref(), "client")?);
    let seen = ScriptedClient { notes: Arc::default(), log: args.log.clone(), wire_log };
    let options = Options::new(config.limits(limits)).handler(seen.clone());
    let is_url = program.starts_with("http://");
    let client = if is_url {
        options.connect_url(program)
    } else {
        options.spawn(Program::new(program).args(server_args))
    };
    let client = client.map_err(|error| error.to_string())?;
    let peer = client.peer();
    report(&json!({"step": "negotiate", "era": peer.era().to_string(), "version": peer.version.as_str()}));
    let mut session = ScriptRun { client, handler: seen, subscription: None };
    for part in args.part.split(',') {
        for step in args.script["steps"][part].as_array().ok_or("no such part")? {
            let mut seen = session.perform(step)?;
            seen["step"] = step["step"].clone();
            report(&seen);
        }
    }
    let ScriptRun { client, .. } = session;
    let ended = client.close().map_err(|error| error.to_string())?;
    let by_itself = ended.and_then(|ended| ended.status).is_some_and(|status| status.success());
    // A server that was not started here does not end with this client.
    report(&if is_url { json!({"step": "end"}) } else { json!({"step": "end", "by-itself": by_itself}) });
    Ok(())
}

fn report(line: &Value) {
    io::stdout().write_all(format!("{line}\n").as_bytes()).expect("a reader");
}

struct ScriptRun {
    client: Client,
    handler: ScriptedClient,
    subscription: Option<SubscriptionKey>,
}

impl ScriptRun {
    #[expect(deprecated, reason = "tested until its removal")]
    fn perform(&mut self, step: &Value) -> Result<Value, String> {
        *self.handler.lock() = StepNotes { answers: step["answers"].clone(), ..StepNotes::default() };
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
            self.client.engine().notify_roots_changed(now).map_err(|error| error.to_string())?;
            return Ok(json!({}));
        }
        if let Some(level) = step.get("level") {
            let level = serde_json::from_value(level.clone()).map_err(|error| error.to_string())?;
            self.client.set_log_level(Some(level)).map_err(|error| error.to_string())?;
        }
        if step.get("timeout").is_some() {
            // Handlers of `mcp-blocking` run on the event loop, so no cancellation arrives while they run (TIME-008).
            return Ok(json!({"cannot": true}));
        }
        let mut outcome = self.call(step)?;
        // Messages of the call may arrive after its result.
        let era = self.client.peer().era();
        let wanted = |name: &str| match step[name].get(era.to_string()).unwrap_or_else(|| &step[name]) {
            Value::Array(all) => all.len() as u64,
            count => count.as_u64().unwrap_or(0),
        };
        let [logs, news] = ["logs", "news"].map(wanted);
        let completed = if era == Era::Modern { 0 } else { wanted("completed") };
        let ends = step.get("ended").is_some();
        self.wait_until(|notes| {
            let [l, n, c] = [&notes.logs, &notes.changes, &notes.completed].map(|all| all.len() as u64);
            l >= logs && n >= news && c >= completed && (notes.ended.is_some() || !ends)
        });
        let notes = core::mem::take(&mut *self.handler.lock());
        outcome["asked"] = notes.input_requests.into();
        outcome["logs"] = notes.logs.into();
        outcome["news"] = notes.changes.into();
        outcome["completed"] = notes.completed.into();
        outcome["ended"] = notes.ended.into();
        outcome["odd"] = notes.diagnostics.into();
        Ok(outcome)
    }

    fn call(&mut self, step: &Value) -> Result<Value, String> {
        let arguments = step.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let options = CallOptions::new().timeout(TIMEOUT);
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

    fn wait_until(&mut self, done: impl Fn(&StepNotes) -> bool) {
        let until = Instant::now() + TIMEOUT / 4;
        while !done(&self.handler.lock()) && Instant::now() < until {
            if self.client.poll(Duration::from_millis(100)).is_err() {
                // The notes so far are reported; the next step reports the error.
                return;
            }
        }
    }
}

/// Notes of a step, and the answers to give in it.
#[derive(Default)]
struct StepNotes {
    answers: Value,
    input_requests: Vec<Value>,
    logs: Vec<Value>,
    changes: Vec<Value>,
    completed: Vec<Value>,
    ended: Option<&'static str>,
    diagnostics: Vec<Value>,
}

/// The handler. It reads the log of the server, if there is one.
#[derive(Clone)]
struct ScriptedClient {
    notes: Arc<Mutex<StepNotes>>,
    log: Option<PathBuf>,
    wire_log: Arc<LineLog>,
}

impl ScriptedClient {
    fn lock(&self) -> MutexGuard<'_, StepNotes> {
        self.notes.lock().expect("no panic under this lock")
    }

    /// Waits until the server has logged that its input request timed out.
    fn wait_for_server_exit(&self) {
        let until = Instant::now() + TIMEOUT;
        let is_over = || {
            let log = self.log.as_ref().and_then(|path| fs::read_to_string(path).ok());
            log.is_some_and(|log| log.lines().last().is_some_and(|line| line.contains("gave-up")))
        };
        while !is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl ScriptedClient {
    /// Returns the answer of the step to the input request `name`.
    fn answer<T: DeserializeOwned>(&self, name: &str, request: &impl Serialize) -> Result<T, RpcError> {
        let mut request = serde_json::to_value(request).expect("JSON");
        request["name"] = name.into();
        let answer = {
            let mut notes = self.lock();
            notes.input_requests.push(request);
            match &notes.answers[name] {
                Value::Array(answers) => answers[notes.input_requests.len() - 1].clone(),
                answer => answer.clone(),
            }
        };
        match answer.as_str() {
            Some("error") => Err(RpcError::new(-1, "not today")),
            Some("never") => {
                self.wait_for_server_exit();
                Err(RpcError::new(-1, "too late"))
            }
            Some("vanish") => process::abort(),
            // Parsed from text, because a `Value` holds no raw JSON.
            _ if answer.is_object() => {
                Ok(serde_json::from_str(&answer.to_string()).expect("an answer of talk.json"))
            }
            _ => Err(RpcError::internal(format!("not expected: {name}"))),
        }
    }
}

impl ClientHandler for ScriptedClient {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let name = match params {
            ElicitParams::Form(form) => &form.message,
            ElicitParams::Url(page) => &page.message,
            _ => "",
        };
        self.answer(name, &InputRequest::Elicit(params.clone()))
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn sample(&self, params: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        let name = params.system_prompt.as_deref().unwrap_or_default();
        let read: Value = self.answer(name, &InputRequest::CreateMessage(params.clone()))?;
        let text = read.to_string();
        Ok(serde_json::from_str::<CreateMessageResult<'_>>(&text)
            .expect("an answer of talk.json")
            .into_owned())
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        self.answer("roots", &InputRequest::ListRoots(None))
    }

    fn subscription_ended(&self, _: SubscriptionKey, error: Option<&CallError>) {
        self.lock().ended = Some(if error.is_none() { "graceful" } else { "remote" });
    }

    fn elicitation_complete(&self, id: &str) {
        self.lock().completed.push(id.into());
    }

    fn changed(&self, change: &Change) {
        let what = match change {
            Change::Tools => "tools",
            Change::Resources => "resources",
            Change::Prompts => "prompts",
            Change::Resource(uri) => uri,
            _ => "?",
        };
        self.lock().changes.push(what.into());
    }

    fn log(&self, log: &LogMessage) {
        let data: Value = serde_json::from_str(log.data.as_str()).expect("JSON");
        let mut line = json!({"level": log.level.as_str(), "data": data});
        if let Some(logger) = &log.logger {
            line["logger"] = logger.clone().into();
        }
        self.lock().logs.push(line);
    }

    fn notification(&self, notification: &Notification) {
        self.lock().diagnostics.push(json!({"notification": notification.method}));
    }

    fn tap(&self, record: &TapRecord) {
        self.wire_log.record(record);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        // The scripts use every feature, deprecated ones too.
        if !matches!(diagnostic, Diagnostic::DeprecatedFeature { .. }) {
            self.lock().diagnostics.push(format!("{diagnostic:?}").into());
        }
    }
}
