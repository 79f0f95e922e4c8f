//! The server: each tool sends the input requests that `talk.json` lists and returns the answers.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::thread;
use std::time::SystemTime;

use mcp_blocking::{
    Answered, Call, Cx, Error, Handler, HandlerFailure, HttpServer, InputError, Router, RouterUpdates,
    serve_stdio,
};
use mcp_proto::EntryKind;
use mcp_proto::model::{
    ElicitParams, ElicitResult, ElicitUrlParams, InputRequest, InputResponse, LoggingLevel, Prompt, Resource,
    Tool,
};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Anchor, CallError, Capability, Change, Instant, RawJson, RpcError, http};
use serde_json::{Map, Value, json};

use crate::{HttpArgs, LineLog, TalkerArgs, tap_limits};

pub(crate) fn serve(args: TalkerArgs) -> Result<(), String> {
    let log = EventLog(Rc::new(LineLog::open(args.log.as_deref())?));
    let wire = LineLog::open_wire_log(args.log.as_deref(), "server")?;
    let router = router(&Rc::new(args.script), &log);
    let mut limits = tap_limits();
    if let Some(ms) = args.timeout {
        limits.input_timeout = Duration::from_millis(ms);
    }
    let config = router.config().map_err(|error| error.to_string())?;
    let config = config.versions(args.versions).limits(limits);
    let handler = LoggedHandler { router, log: log.clone(), wire };
    let served = match &args.http {
        Some(http) => serve_http(http, config, handler),
        None => serve_stdio(config, handler),
    };
    log.record(&json!({"event": "end", "ok": served.is_ok()}));
    served.map_err(|error| error.to_string())
}

/// Serves HTTP until the end of stdin.
#[expect(deprecated, reason = "tested until its removal")]
fn serve_http(http: &HttpArgs, mut config: Config, handler: LoggedHandler) -> Result<(), Error> {
    if let Some(secret) = http.secret {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        // The clock of the server starts with the server.
        config = config.seal(Keys::new(secret), Anchor::new(Instant::ZERO, unix));
    }
    let mut paths = http::server::Config::new();
    if http.sse {
        paths = paths.http_sse(SSE_PATH, "/messages");
    }
    let path = if http.sse { SSE_PATH } else { paths.endpoint_path() }.to_owned();
    let mut server = HttpServer::bind(("127.0.0.1", http.port), config, paths, handler)?;
    let address = server.address().map_err(Error::Io)?;
    let _ = writeln!(io::stderr(), "listening at http://{address}{path}");
    let ended = Arc::new(AtomicBool::new(false));
    let visit = Arc::clone(&ended);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        visit.store(true, Ordering::Relaxed);
    });
    while !ended.load(Ordering::Relaxed) {
        server.poll(SHORT_DELAY)?;
    }
    server.shutdown(SHORT_DELAY);
    while server.poll(SHORT_DELAY)? {}
    Ok(())
}

const SSE_PATH: &str = "/sse";
/// Time to notice the end of stdin, and then to write the last messages.
const SHORT_DELAY: Duration = Duration::from_millis(50);

#[expect(deprecated, reason = "tested until its removal")]
fn router(talk: &Rc<Value>, log: &EventLog) -> Router {
    let mut router = Router::new("talker", "1.0");
    let asks = |of: &str| -> Vec<(String, InputScript)> {
        let all = talk[of].as_object().into_iter().flatten();
        all.map(|(name, rounds)| {
            let rounds = serde_json::from_value(rounds.clone()).expect("rounds");
            (name.clone(), InputScript { script: Rc::clone(talk), rounds, log: log.clone() })
        })
        .collect()
    };
    for (name, asks) in asks("tools") {
        router.tool_with(tool(&name), move |cx, _: Value| asks.collect_inputs(cx));
    }
    for (name, asks) in asks("prompts") {
        router.prompt(Prompt::new(name), move |cx, (): ()| asks.collect_inputs(cx));
    }
    for (uri, asks) in asks("resources") {
        router.resource(Resource::new(&uri, &uri), move |cx, _| asks.collect_inputs(cx));
    }
    let lines = talk["logs"].clone();
    router.tool_with(tool("log"), move |cx, _: Value| send_logs(cx, &lines));
    // Whether the user visited the page, which the tool `gate` requires.
    let visited = Rc::new(Cell::new(false));
    let (gate, page) = (Rc::clone(&visited), talk["questions"]["page"]["params"].to_string());
    router.tool_with(tool("gate"), move |_, _: Value| {
        if gate.get() {
            return Ok("{}");
        }
        let page: ElicitUrlParams = serde_json::from_str(&page).expect("a page");
        Err(RpcError::url_elicitation_required(vec![page])
            .unwrap_or_else(|e| RpcError::internal(e.to_string())))
    });
    router.tool_with(tool("cut"), |cx, _: Value| {
        if !cx.poll_later(Some(Duration::from_millis(100))) {
            return Err(RpcError::internal("the client cannot come again"));
        }
        cx.sleep(Duration::from_millis(200))?;
        Ok("{}")
    });
    let updates = router.updates();
    router.tool_with(tool("change"), move |cx, arguments: Value| {
        if arguments["what"] == "visited" {
            visited.set(true);
            announce_visit(cx, "page-1");
            return "{}";
        }
        publish_change(cx, &updates, &arguments)
    });
    for uri in talk["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        router.resource(Resource::new(uri, uri), |_, target| {
            Ok::<_, RpcError>(format!("the note {}", target.uri))
        });
    }
    let log = log.clone();
    router.subscriptions(move |uri, wanted| {
        log.record(&json!({"event": "interest", "uri": uri, "wanted": wanted}));
    });
    router.core().declare(Capability::Logging).declare(Capability::PromptsListChanged);
    router
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

/// Sends input requests round by round; returns the answers, the state, and how often the call was delivered.
struct InputScript {
    script: Rc<Value>,
    rounds: Vec<Vec<String>>,
    log: EventLog,
}

impl InputScript {
    fn collect_inputs(&self, cx: &mut Cx<'_>) -> Result<String, RpcError> {
        let questions = &self.script["questions"];
        let mut answers = Map::new();
        for round in &self.rounds {
            let mut open = false;
            for key in round {
                match request_input(cx, key, &questions[key]) {
                    Ok(answer) => {
                        let id = questions[key]["params"]["elicitationId"].as_str();
                        if let Some(id) = id.filter(|_| answer["action"] == "accept") {
                            // The user visited the page immediately. Not every revision has a notification for that.
                            announce_visit(cx, id);
                        }
                        answers.insert(key.clone(), answer);
                    }
                    Err(InputError::Pending) => open = true,
                    Err(InputError::Refused(CallError::Rpc(error))) => {
                        return Ok(
                            json!({"refused": {"code": error.code, "message": error.message}}).to_string()
                        );
                    }
                    Err(InputError::Refused(other)) => {
                        self.log.record(&json!({"event": "gave-up", "why": other.to_string()}));
                        let timed_out = matches!(other, CallError::TimedOut | CallError::TotalTimedOut);
                        return Ok(json!({"timed-out": timed_out, "why": other.to_string()}).to_string());
                    }
                    Err(other) => return Err(other.into()),
                }
            }
            if open {
                cx.set_state(format!("{} answered", answers.len()));
                return Err(InputError::Pending.into());
            }
        }
        let state = cx.call().state().map(String::from_utf8_lossy);
        Ok(json!({"said": answers, "state": state, "rounds": cx.call().attempt()}).to_string())
    }
}

/// Announces that the user visited the page. Not every revision has a notification for that.
fn announce_visit(cx: &mut Cx<'_>, id: &str) {
    let (channel, id) = (cx.call().channel(), id.to_owned());
    cx.with_engine(move |engine, now| _ = engine.notify_elicitation_complete(now, channel, &id)).unwrap();
}

/// Sends an input request by the method for its kind.
#[expect(deprecated, reason = "tested until its removal")]
fn request_input(cx: &mut Cx<'_>, key: &str, request: &Value) -> Result<Value, InputError> {
    let text = request.to_string();
    let request: InputRequest<'_> = serde_json::from_str(&text).expect("a question of talk.json");
    let answer = match request.into_owned() {
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            InputResponse::Elicit(cx.elicit(key, form.message, form.requested_schema)?)
        }
        InputRequest::CreateMessage(params) => InputResponse::CreateMessage(cx.sample(key, params)?),
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            InputResponse::Elicit(ElicitResult::new(cx.elicit_url(key, page)?))
        }
        InputRequest::ListRoots(_) => InputResponse::ListRoots(cx.list_roots(key)?),
        other => cx.request_input(key, other)?,
    };
    Ok(serde_json::to_value(&answer).expect("JSON"))
}

#[expect(deprecated, reason = "tested until its removal")]
fn send_logs(cx: &mut Cx<'_>, lines: &Value) -> Result<&'static str, RpcError> {
    for line in lines.as_array().into_iter().flatten() {
        let level: LoggingLevel = serde_json::from_value(line["level"].clone()).expect("a level");
        cx.log(&level, line["logger"].as_str(), &line["data"])
            .map_err(|error| RpcError::internal(error.to_string()))?;
    }
    Ok("{}")
}

/// Publishes a change. The router publishes changes of its own lists; all others are published here.
fn publish_change(cx: &mut Cx<'_>, updates: &RouterUpdates, arguments: &Value) -> &'static str {
    match arguments["what"].as_str().unwrap_or_default() {
        "tools" => updates.schedule(|router| {
            router.tool_with(tool("new"), |_, _: Value| "{}");
            router.core().remove(EntryKind::Tool, "new");
        }),
        "resources" => updates.schedule(|router| {
            router.resource(Resource::new("note://new", "new"), |_, _| "");
            router.core().remove(EntryKind::Resource, "note://new");
        }),
        "end" => cx.with_engine(|engine, now| engine.end_all_subscriptions(now)).unwrap(),
        "prompts" => cx.publish(&Change::Prompts),
        uri => cx.publish(&Change::Resource(uri.into())),
    }
    "{}"
}

/// The router with a log of its events and messages.
struct LoggedHandler {
    router: Router,
    log: EventLog,
    wire: LineLog,
}

impl Handler for LoggedHandler {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let params: Value =
            call.params().map_or(Value::Null, |params| serde_json::from_str(params.as_str()).expect("JSON"));
        if let Some(name) = params.get("name").or_else(|| params.get("uri")) {
            self.log.record(&json!({"event": "call", "of": name, "attempt": call.attempt()}));
        }
        self.router.call(cx, call)
    }

    fn failed(&mut self, call: &Call, failure: &HandlerFailure) {
        self.log.record(&json!({"event": "failed", "why": failure.to_string()}));
        self.router.failed(call, failure);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.wire.record(record);
    }

    fn notification(&mut self, notification: &Notification) {
        self.log.record(&json!({"event": "notification", "method": notification.method}));
    }

    fn diagnostic(&mut self, diagnostic: &mcp_proto::Diagnostic) {
        // The scripts use every feature, deprecated ones too.
        if !matches!(diagnostic, mcp_proto::Diagnostic::DeprecatedFeature { .. }) {
            self.log.record(&json!({"event": "diagnostic", "what": format!("{diagnostic:?}")}));
        }
    }

    fn event(&mut self, event: &Event) {
        if let Event::Cancelled { reason, .. } = event {
            self.log.record(&json!({"event": "cancelled", "reason": format!("{reason:?}")}));
        }
        self.router.event(event);
    }

    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.router.for_each_tool(visit);
    }
}

/// Log of events that only the server can see.
#[derive(Clone)]
struct EventLog(Rc<LineLog>);

impl EventLog {
    fn record(&self, what: &Value) {
        self.0.write_line(what.to_string().as_bytes());
    }
}
