//! The server: each tool asks what `talk.json` says, and gives back what it was told

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::thread;
use std::time::SystemTime;

use mcp_blocking::{
    Answered, Call, Cx, Error, Failure, Handler, HttpServer, Later, NoAnswer, Router, serve_stdio,
};
use mcp_proto::model::{
    ElicitParams, ElicitResult, ElicitUrlParams, InputRequest, InputResponse, LoggingLevel, Prompt, Resource,
    Tool,
};
use mcp_proto::router::Kind;
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Anchor, CallError, Capability, Change, Instant, RawJson, RpcError, http};
use serde_json::{Map, Value, json};

use crate::{Given, Http, Lines, watched};

pub(crate) fn serve(given: Given) -> Result<(), String> {
    let log = Log(Rc::new(Lines::open(given.log.as_deref())?));
    let wire = Lines::wire(given.log.as_deref(), "server")?;
    let router = router(&Rc::new(given.talk), &log);
    let mut limits = watched();
    if let Some(ms) = given.time_out {
        limits.input_timeout = Duration::from_millis(ms);
    }
    let config = router.config().map_err(|error| error.to_string())?;
    let config = config.versions(given.versions).limits(limits);
    let watched = Watched { router, log: log.clone(), wire };
    let served = match &given.http {
        Some(http) => serve_http(http, config, watched),
        None => serve_stdio(config, watched),
    };
    log.note(&json!({"event": "end", "ok": served.is_ok()}));
    served.map_err(|error| error.to_string())
}

/// Until stdin ends
fn serve_http(http: &Http, mut config: Config, watched: Watched) -> Result<(), Error> {
    if let Some(secret) = http.secret {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        // The server's time begins when it does.
        config = config.seal(Keys::new(secret), Anchor::new(Instant::ZERO, unix));
    }
    let mut paths = http::server::Config::new();
    if http.sse {
        paths = paths.http_sse(SSE_PATH, "/messages");
    }
    let path = if http.sse { SSE_PATH } else { paths.get_path() }.to_owned();
    let mut server = HttpServer::bind(("127.0.0.1", http.port), config, paths, watched)?;
    let address = server.address().map_err(Error::Io)?;
    let _ = writeln!(io::stderr(), "listening at http://{address}{path}");
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        tell.store(true, Ordering::Relaxed);
    });
    while !ended.load(Ordering::Relaxed) {
        server.poll(A_WHILE)?;
    }
    server.shutdown(A_WHILE);
    while server.poll(A_WHILE)? {}
    Ok(())
}

const SSE_PATH: &str = "/sse";
/// How long it may take to notice the end of stdin, and then to say the last words
const A_WHILE: Duration = Duration::from_millis(50);

fn router(talk: &Rc<Value>, log: &Log) -> Router {
    let mut router = Router::new("talker", "1.0");
    let asks = |of: &str| -> Vec<(String, Asks)> {
        let all = talk[of].as_object().into_iter().flatten();
        all.map(|(name, rounds)| {
            let rounds = serde_json::from_value(rounds.clone()).expect("rounds");
            (name.clone(), Asks { talk: Rc::clone(talk), rounds, log: log.clone() })
        })
        .collect()
    };
    for (name, asks) in asks("tools") {
        router.tool_with(tool(&name), move |cx, _: Value| asks.ask(cx));
    }
    for (name, asks) in asks("prompts") {
        router.prompt(Prompt::new(name), move |cx, (): ()| asks.ask(cx));
    }
    for (uri, asks) in asks("resources") {
        router.resource(Resource::new(&uri, &uri), move |cx, _| asks.ask(cx));
    }
    let lines = talk["logs"].clone();
    router.tool_with(tool("log"), move |cx, _: Value| say(cx, &lines));
    // Whether the page was visited, on which the tool `gate` insists.
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
    let later = router.later();
    router.tool_with(tool("change"), move |cx, arguments: Value| {
        if arguments["what"] == "visited" {
            visited.set(true);
            tell_of_visit(cx, "page-1");
            return "{}";
        }
        change(cx, &later, &arguments)
    });
    for uri in talk["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        router.resource(Resource::new(uri, uri), |_, target| {
            Ok::<_, RpcError>(format!("the note {}", target.uri))
        });
    }
    let log = log.clone();
    router.subscriptions(move |uri, wanted| {
        log.note(&json!({"event": "interest", "uri": uri, "wanted": wanted}));
    });
    router.core().declare(Capability::Logging).declare(Capability::PromptsListChanged);
    router
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

/// Asks round by round, and says what was answered, what came back with it, and how often the call was delivered
struct Asks {
    talk: Rc<Value>,
    rounds: Vec<Vec<String>>,
    log: Log,
}

impl Asks {
    fn ask(&self, cx: &mut Cx<'_>) -> Result<String, RpcError> {
        let questions = &self.talk["questions"];
        let mut said = Map::new();
        for round in &self.rounds {
            let mut open = false;
            for key in round {
                match ask_one(cx, key, &questions[key]) {
                    Ok(answer) => {
                        let id = questions[key]["params"]["elicitationId"].as_str();
                        if let Some(id) = id.filter(|_| answer["action"] == "accept") {
                            // The page was visited at once; not every revision has a word for it.
                            tell_of_visit(cx, id);
                        }
                        said.insert(key.clone(), answer);
                    }
                    Err(NoAnswer::Asked) => open = true,
                    Err(NoAnswer::Refused(CallError::Rpc(error))) => {
                        return Ok(
                            json!({"refused": {"code": error.code, "message": error.message}}).to_string()
                        );
                    }
                    Err(NoAnswer::Refused(other)) => {
                        self.log.note(&json!({"event": "gave-up", "why": other.to_string()}));
                        let timed_out = matches!(other, CallError::TimedOut | CallError::TotalTimedOut);
                        return Ok(json!({"timed-out": timed_out, "why": other.to_string()}).to_string());
                    }
                    Err(other) => return Err(other.into()),
                }
            }
            if open {
                cx.keep(format!("{} answered", said.len()));
                return Err(NoAnswer::Asked.into());
            }
        }
        let state = cx.call().state().map(String::from_utf8_lossy);
        Ok(json!({"said": said, "state": state, "rounds": cx.call().attempt()}).to_string())
    }
}

/// The page was visited; not every revision has a word for it
fn tell_of_visit(cx: &mut Cx<'_>, id: &str) {
    let (channel, id) = (cx.call().channel(), id.to_owned());
    cx.with_engine(move |engine, now| _ = engine.elicitation_complete(now, channel, &id)).unwrap();
}

/// By the method that is made for such a question
fn ask_one(cx: &mut Cx<'_>, key: &str, question: &Value) -> Result<Value, NoAnswer> {
    let text = question.to_string();
    let question: InputRequest<'_> = serde_json::from_str(&text).expect("a question of talk.json");
    let answer = match question.into_owned() {
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            InputResponse::Elicit(cx.elicit(key, form.message, form.requested_schema)?)
        }
        InputRequest::CreateMessage(params) => InputResponse::CreateMessage(cx.sample(key, params)?),
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            InputResponse::Elicit(ElicitResult::new(cx.elicit_url(key, page)?))
        }
        InputRequest::ListRoots(_) => InputResponse::ListRoots(cx.roots(key)?),
        other => cx.ask(key, other)?,
    };
    Ok(serde_json::to_value(&answer).expect("JSON"))
}

fn say(cx: &mut Cx<'_>, lines: &Value) -> Result<&'static str, RpcError> {
    for line in lines.as_array().into_iter().flatten() {
        let level: LoggingLevel = serde_json::from_value(line["level"].clone()).expect("a level");
        cx.log(&level, line["logger"].as_str(), &line["data"])
            .map_err(|error| RpcError::internal(error.to_string()))?;
    }
    Ok("{}")
}

/// What is listed the router tells of itself, everything else is said here
fn change(cx: &mut Cx<'_>, later: &Later, arguments: &Value) -> &'static str {
    match arguments["what"].as_str().unwrap_or_default() {
        "tools" => later.change(|router| {
            router.tool_with(tool("new"), |_, _: Value| "{}");
            router.core().remove(Kind::Tool, "new");
        }),
        "resources" => later.change(|router| {
            router.resource(Resource::new("note://new", "new"), |_, _| "");
            router.core().remove(Kind::Resource, "note://new");
        }),
        "end" => cx.with_engine(|engine, now| engine.end_all_subscriptions(now)).unwrap(),
        "prompts" => cx.publish(&Change::Prompts),
        uri => cx.publish(&Change::Resource(uri.into())),
    }
    "{}"
}

/// The router, and what passes it written down
struct Watched {
    router: Router,
    log: Log,
    wire: Lines,
}

impl Handler for Watched {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let params: Value =
            call.params().map_or(Value::Null, |params| serde_json::from_str(params.as_str()).expect("JSON"));
        if let Some(name) = params.get("name").or_else(|| params.get("uri")) {
            self.log.note(&json!({"event": "call", "of": name, "attempt": call.attempt()}));
        }
        self.router.call(cx, call)
    }

    fn failed(&mut self, call: &Call, failure: &Failure) {
        self.log.note(&json!({"event": "failed", "why": failure.to_string()}));
        self.router.failed(call, failure);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.wire.passed(record);
    }

    fn notification(&mut self, notification: &Notification) {
        self.log.note(&json!({"event": "notification", "method": notification.method}));
    }

    fn diagnostic(&mut self, diagnostic: &mcp_proto::Diagnostic) {
        self.log.note(&json!({"event": "diagnostic", "what": format!("{diagnostic:?}")}));
    }

    fn event(&mut self, event: &Event) {
        if let Event::Cancelled { reason, .. } = event {
            self.log.note(&json!({"event": "cancelled", "reason": format!("{reason:?}")}));
        }
        self.router.event(event);
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.router.tools(tell);
    }
}

/// What only the server can see
#[derive(Clone)]
struct Log(Rc<Lines>);

impl Log {
    fn note(&self, what: &Value) {
        self.0.add(what.to_string().as_bytes());
    }
}
