//! Suite: layers of routers, in front of a test client on virtual time.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use mcp_blocking::{Client as TestClient, testing};
use mcp_proto::client::Config;
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, ElicitSchema, Map, Prompt, PromptArgument, PromptReference,
    Resource, TaskSupport, Tool,
};
use mcp_proto::router::{HandlerError, Hook, HookContext, HookOutcome};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, EntryKind, Era, Instant, RawJson, RpcError,
};
use mcp_runtime::client::ClientHandler;
use mcp_runtime::server::Cx as FunctionCx;
use mcp_runtime::server::layers::{
    AuditLog, AuditOutcome, CallKey, ConcurrencyLimit, RateLimit, Redaction, ResultSizeLimit,
    TOO_MANY_REQUESTS, Timeout,
};
use mcp_runtime::server::router::{EntryRequest, EntryResult, HandlerResult, Interceptor};
use serde_json::{Value, json};

use crate::adapter::{
    Client, Cx, Error, IS_SINGLE_THREADED, Router, SLEEP_CANCELLED, handler, hang, layer_fn, serve, wait,
};
use crate::support::{ERAS, NoteLog, text, version_set, with_timeout};

const HOUR: Duration = Duration::from_secs(3600);

struct AcceptElicitation;

impl ClientHandler for AcceptElicitation {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept(Map::new()))
    }
}

fn connect(router: Router, era: Era) -> TestClient {
    let config = Config::new("test", "1").versions(version_set(era)).tasks();
    let config = config.capabilities(Capabilities::new().with(Capability::ElicitationForm));
    testing::pair(router, TestClient::options(config).handler(AcceptElicitation)).expect("a connection")
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

/// Makes a router whose tools record that they ran, and return their arguments.
fn router(log: &NoteLog) -> Router {
    let mut router = Router::new("harbour", "1.0");
    router.on_failure(|_, _| {});
    for name in ["echo", "other"] {
        let log = log.clone();
        router.tool_with(
            tool(name),
            handler!(move |_: &mut Cx, arguments: Value| {
                log.record(name);
                arguments.to_string()
            }),
        );
    }
    router
}

fn error_code(error: &Error) -> i64 {
    match error {
        Error::Call(CallError::Rpc(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

/// Returns the text of a tool result.
fn result_text(result: &HandlerResult) -> Option<&str> {
    match result {
        Ok(EntryResult::Tool(result)) => result.content[0].as_text(),
        _ => None,
    }
}

/// Records when it runs.
struct Note(&'static str, NoteLog);

impl Interceptor for Note {
    type State = ();

    fn before(&self, _: &mut FunctionCx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        self.1.record(format!("+{}", self.0));
        ControlFlow::Continue(())
    }

    fn after(
        &self,
        _: &mut FunctionCx<'_>,
        _: &EntryRequest<'_>,
        (): (),
        result: HandlerResult,
    ) -> HandlerResult {
        self.1.record(format!("-{}", self.0));
        result
    }
}

/// Records the outcomes of calls.
struct HookNote(NoteLog);

impl Hook for HookNote {
    fn before_call(&self, _: &HookContext<'_>) -> Result<(), RpcError> {
        self.0.record("+hook");
        Ok(())
    }

    fn after_call(&self, _: &HookContext<'_>, outcome: HookOutcome<'_>) {
        let outcome = format!("{outcome:?}");
        self.0.record(format!("-hook {}", outcome.split('(').next().unwrap_or_default()));
    }
}

#[test]
fn layers_run_from_the_first_added_to_the_innermost_around_entries_before_and_after() {
    let log = NoteLog::default();
    let mut inner = router(&log);
    inner.layer_entry(EntryKind::Tool, "echo", Note("entry", log.clone()));
    let own = log.clone();
    inner.layer(layer_fn(handler!(move |cx, request, next| {
        own.record("+inner");
        let result = wait!(next.run(cx, request));
        own.record("-inner");
        result
    })));
    let mut outer = Router::new("outer", "1");
    outer.layer(Note("first", log.clone())).hook(HookNote(log.clone()));
    outer.nest("n", inner);
    let own = log.clone();
    outer.layer(layer_fn(handler!(move |cx, request, next| {
        own.record(format!("+second of {:?}", request.subject()));
        let result = wait!(next.run(cx, request));
        own.record("-second");
        result
    })));
    outer.tool_with(tool("late"), handler!(|_: &mut Cx, _: Value| "late"));
    for (kind, name) in [(EntryKind::Tool, "n.none"), (EntryKind::Skill, "skill://a/SKILL.md")] {
        let mut router = Router::new("wrong", "1");
        router.layer_entry(kind, name, Note("none", log.clone()));
        assert!(router.check().unwrap_err().to_string().contains(name));
    }
    let client = connect(outer, Era::Modern);
    client.call_tool("n.echo", &json!({})).unwrap();
    let second = r#"+second of Tool("n.echo")"#;
    let expected =
        ["+hook", "+first", second, "+inner", "+entry", "echo", "-entry", "-inner", "-second", "-first"];
    assert_eq!(log.take(), [&expected[..], &["-hook Completed"]].concat());
    client.call_tool("n.other", &json!({})).unwrap();
    assert!(!log.take().iter().any(|line| line.contains("entry")));
    client.call_tool("late", &json!({})).unwrap();
    let second = r#"+second of Tool("late")"#;
    assert_eq!(log.take(), ["+hook", "+first", second, "-second", "-first", "-hook Completed"]);
    // Lists, and calls of what does not exist, have no handler.
    client.list_tools().unwrap();
    client.call_tool("none", &json!({})).unwrap_err();
    assert!(log.take().iter().all(|line| line.contains("hook")));
}

#[test]
fn layer_tries_again_answers_from_cache_and_refuses() {
    for era in ERAS {
        let log = NoteLog::default();
        let mut router = router(&log);
        let failures = Arc::new(AtomicU32::new(2));
        router.tool_with(
            tool("flaky"),
            handler!(move |_: &mut Cx, _: Value| {
                let left = failures.load(Ordering::SeqCst);
                failures.store(left.saturating_sub(1), Ordering::SeqCst);
                if left > 0 { Err("not yet") } else { Ok("done") }
            }),
        );
        let own = log.clone();
        router.layer_entry(
            EntryKind::Tool,
            "flaky",
            layer_fn(handler!(move |cx, request, next| {
                let mut result = wait!(next.run(cx, request.clone()));
                for _ in 0..3 {
                    if result.is_ok() {
                        break;
                    }
                    own.record("again");
                    wait!(cx.sleep(Duration::from_secs(1)))?;
                    result = wait!(next.run(cx, request.clone()));
                }
                result
            })),
        );
        let cache = Arc::new(std::sync::Mutex::new(None::<EntryResult>));
        router.layer_entry(
            EntryKind::Tool,
            "echo",
            layer_fn(handler!(move |cx, request, next| {
                let cached = cache.lock().unwrap().clone();
                if let Some(cached) = cached {
                    return Ok(cached);
                }
                let result = wait!(next.run(cx, request))?;
                *cache.lock().unwrap() = Some(result.clone());
                Ok(result)
            })),
        );
        router.layer_entry(
            EntryKind::Tool,
            "other",
            layer_fn(handler!(|_, _, _| Err(RpcError::new(7, "closed").into()))),
        );
        let client = connect(router, era);
        assert_eq!(text(&client.call_tool("flaky", &json!({})).unwrap()), "done");
        assert_eq!(log.take(), ["again"; 2]);
        for n in 0..3 {
            assert_eq!(text(&client.call_tool("echo", &json!({"n": n})).unwrap()), r#"{"n":0}"#);
        }
        assert_eq!(log.take(), ["echo"]);
        assert_eq!(error_code(&client.call_tool("other", &json!({})).unwrap_err()), 7);
        assert_eq!(log.take(), [""; 0]);
    }
}

/// Rewrites arguments, results and errors, as the arguments say.
struct Rewrite;

impl Interceptor for Rewrite {
    type State = bool;

    fn before(
        &self,
        _: &mut FunctionCx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, bool> {
        let Some(arguments) = request.arguments() else {
            // There is nothing to set.
            assert!(request.set_arguments(RawJson::new("{}").unwrap()).is_err());
            return ControlFlow::Continue(false);
        };
        if let Some(new) = arguments.member("becomes") {
            if let Err(error) =
                request.set_arguments(new.string().map_or(new, |text| RawJson::new(text).unwrap()))
            {
                return ControlFlow::Break(Err(error));
            }
        }
        ControlFlow::Continue(true)
    }

    fn after(
        &self,
        _: &mut FunctionCx<'_>,
        request: &EntryRequest<'_>,
        has_arguments: bool,
        result: HandlerResult,
    ) -> HandlerResult {
        assert_eq!(request.arguments().is_some(), has_arguments);
        match result {
            Err(HandlerError::Rpc(error)) if error.code == 8 => {
                Ok(EntryResult::Tool(CallToolResult::text("saved")))
            }
            Ok(EntryResult::Tool(result)) if result.content[0].as_text() == Some("secret") => {
                Err(RpcError::new(9, "hidden").into())
            }
            // A result of another kind is an error, not a wrong answer.
            Ok(EntryResult::Tool(result)) if result.content[0].as_text() == Some("wrong kind") => {
                Ok(EntryResult::Prompt(mcp_proto::model::GetPromptResult::new([])))
            }
            other => other,
        }
    }
}

// covers: TOOL-022, PROMPT-010
#[test]
fn layer_rewrites_arguments_within_the_schema_results_and_errors() {
    for era in ERAS {
        let mut router = Router::new("harbour", "1.0");
        router.on_failure(|_, _| {}).layer(Rewrite);
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        router.tool_with(
            Tool::new("typed", RawJson::new(schema).unwrap()),
            handler!(|_: &mut Cx, arguments: Value| match arguments["n"].as_i64() {
                Some(1) => Err(RpcError::new(8, "one")),
                Some(2) => Ok("secret".to_owned()),
                Some(3) => Ok("wrong kind".to_owned()),
                _ => Ok(arguments.to_string()),
            }),
        );
        let prompt = Prompt::new("trip").arguments([PromptArgument::new("to").required(true)]);
        router.prompt(
            prompt,
            handler!(
                |_: &mut Cx, arguments: alloc::collections::BTreeMap<String, String>| arguments["to"].clone()
            ),
        );
        router.completion(
            PromptReference::new("trip"),
            "to",
            handler!(|_: &mut Cx, _: &mcp_proto::router::CompletionTarget<'_>| vec!["Cork".to_owned()]),
        );
        router.resource(
            Resource::new("a:b", "b"),
            handler!(|_: &mut Cx, _: &mcp_proto::router::ResourceTarget<'_>| "b"),
        );
        let client = connect(router, era);
        let call = |arguments: Value| client.call_tool("typed", &arguments);
        assert_eq!(text(&call(json!({"n": 5, "becomes": {"n": 6}})).unwrap()), r#"{"n":6}"#);
        assert_eq!(text(&call(json!({"n": 5, "becomes": {"n": 1}})).unwrap()), "saved");
        assert_eq!(error_code(&call(json!({"n": 2})).unwrap_err()), 9);
        assert_eq!(error_code(&call(json!({"n": 3})).unwrap_err()), -32603);
        for wrong in ["[1]", r#"{"n":"five"}"#, "{}"] {
            let refused = call(json!({"n": 5, "becomes": wrong})).unwrap();
            assert!(refused.is_failure() && text(&refused).contains("`typed`"), "{refused:?}");
        }
        let get = |arguments: Value| client.get_prompt("trip", &arguments);
        let got = get(json!({"to": "Cobh", "becomes": r#"{"to":"Cork"}"#})).unwrap();
        assert_eq!(got.messages[0].content.as_text(), Some("Cork"));
        for wrong in [r#"{"from":"Cork"}"#, r#"{"to":1}"#, "[]"] {
            let error = get(json!({"to": "Cobh", "becomes": wrong})).unwrap_err();
            assert_eq!(error_code(&error), -32602, "{wrong}");
        }
        assert_eq!(
            client.complete(PromptReference::new("trip"), "to", "").unwrap().completion.values,
            ["Cork"]
        );
        assert_eq!(client.read_resource("a:b").unwrap().contents.len(), 1);
    }
}

#[test]
fn panic_in_layer_fails_only_its_call() {
    let log = NoteLog::default();
    let mut router = router(&log);
    router.hook(HookNote(log.clone()));
    router.layer(layer_fn(handler!(|cx, request, next| {
        let bad = request.arguments().and_then(|arguments| arguments.member("panic"));
        let late = bad.as_ref().is_some_and(|bad| bad.as_str() == "\"after\"");
        assert!(bad.is_none() || late, "before, on purpose");
        let result = wait!(next.run(cx, request));
        assert!(!late, "after, on purpose");
        result
    })));
    let client = connect(router, Era::Modern);
    for when in ["before", "after"] {
        let error = client.call_tool("echo", &json!({"panic": when})).unwrap_err();
        assert_eq!(error_code(&error), -32603);
        let noted = log.take();
        assert_eq!(noted.last().map(|line| &**line), Some("-hook Failed"), "{noted:?}");
        assert_eq!(noted.contains(&"echo".to_owned()), when == "after");
        assert_eq!(text(&client.call_tool("echo", &json!({})).unwrap()), "{}");
        log.take();
    }
}

#[test]
fn layer_that_answers_twice_sends_its_first_answer() {
    let log = NoteLog::default();
    let mut router = router(&log);
    router.layer_entry(
        EntryKind::Tool,
        "echo",
        layer_fn(handler!(|cx, request, next| {
            let _ = cx.complete(&CallToolResult::text("first"))?;
            wait!(next.run(cx, request))
        })),
    );
    let client = connect(router, Era::Modern);
    assert_eq!(text(&client.call_tool("echo", &json!({})).unwrap()), "first");
    assert_eq!(text(&client.call_tool("other", &json!({})).unwrap()), "{}");
}

// covers: MRTR-001
#[test]
fn layers_run_for_each_delivery_of_a_call_that_asks() {
    for era in ERAS {
        let log = NoteLog::default();
        let mut router = router(&log);
        router.tool_with(
            tool("asks"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                Ok("booked")
            }),
        );
        let own = log.clone();
        router.layer(layer_fn(handler!(move |cx, request, next| {
            let result = wait!(next.run(cx, request));
            own.record(if cx.is_awaiting_input() { "asks" } else { "answered" });
            // What a layer makes of a call that asks is not sent.
            result.or_else(|_| Ok(EntryResult::Tool(CallToolResult::text("swallowed"))))
        })));
        let own = log.clone();
        router.layer(AuditLog::new(move |record| own.record(format!("{:?}", record.outcome))));
        let client = connect(router, era);
        assert_eq!(text(&client.call_tool("asks", &json!({})).unwrap()), "booked");
        assert_eq!(log.take(), ["InputRequired", "asks", "Completed", "answered"], "{era:?}");
    }
}

#[test]
fn layers_surround_the_run_of_a_task_once() {
    for era in ERAS {
        let log = NoteLog::default();
        let mut router = router(&log);
        router.tasks(mcp_runtime::server::ServerTasks::new());
        router.tool_with(
            tool("task"),
            handler!(|cx: &mut Cx, _: Value| {
                wait!(cx.sleep(Duration::from_secs(2)))?;
                Ok::<_, RpcError>(if cx.task().is_some() { "as a task" } else { "plainly" })
            }),
        );
        router.core().tool_entry("task").task_support(TaskSupport::Required);
        let own = log.clone();
        router.layer(layer_fn(handler!(move |cx, request, next| {
            let result = wait!(next.run(cx, request));
            own.record(result_text(&result).unwrap_or("none"));
            Ok(EntryResult::Tool(CallToolResult::text("rewritten")))
        })));
        let client = connect(router, era);
        client.list_tools().unwrap();
        assert_eq!(text(&client.call_tool("task", &json!({})).unwrap()), "rewritten");
        assert_eq!(log.take(), ["as a task"], "{era:?}");
    }
}

/// Counts what is alive.
struct Alive(Arc<AtomicU32>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct CountAlive(Arc<AtomicU32>);

impl Interceptor for CountAlive {
    type State = Alive;

    fn before(&self, _: &mut FunctionCx<'_>, _: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult, Alive> {
        self.0.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Continue(Alive(self.0.clone()))
    }
}

// covers: CANC-002
#[test]
fn state_of_interceptor_is_dropped_at_every_end_of_a_call() {
    let log = NoteLog::default();
    let alive = Arc::new(AtomicU32::new(0));
    let mut router = router(&log);
    router.layer(CountAlive(alive.clone())).layer(ConcurrencyLimit::new(1));
    let own = log.clone();
    router.layer(AuditLog::new(move |record| {
        let outcome = match record.outcome {
            AuditOutcome::Cancelled | AuditOutcome::Dropped => "ended early".to_owned(),
            outcome => format!("{outcome:?}"),
        };
        own.record(format!("{} {outcome}", record.entry));
    }));
    router.tool_with(
        tool("ends"),
        handler!(|cx: &mut Cx, how: Value| -> Result<&'static str, RpcError> {
            match how["how"].as_str() {
                Some("panic") => panic!("on purpose"),
                Some("error") => return Err(RpcError::new(5, "no")),
                Some("sleep") => wait!(cx.sleep(HOUR))?,
                _ => {}
            }
            Ok("well")
        }),
    );
    let client = connect(router, Era::Modern);
    let mut short = CallOptions::new();
    short = short.timeout(Duration::from_secs(5)).total_timeout(Duration::from_secs(5));
    for (how, recorded) in
        [("panic", "ended early"), ("error", "Failed(5)"), ("sleep", "ended early"), ("well", "Completed")]
    {
        let result = client.call_tool_with("ends", &json!({"how": how}), &short, &mut |_| {});
        assert_eq!(result.is_ok(), how == "well", "{how}: {result:?}");
        // The limit of one call at a time is free again.
        assert_eq!(text(&client.call_tool("echo", &json!({})).unwrap()), "{}", "{how}");
        assert_eq!(alive.load(Ordering::SeqCst), 0, "{how}");
        let noted: Vec<_> = log.take().into_iter().filter(|line| line.starts_with("ends")).collect();
        assert_eq!(noted, [format!("ends {recorded}")]);
    }
}

#[test]
fn time_out_ends_the_call_at_its_time_and_the_server_goes_on() {
    for era in ERAS {
        let log = NoteLog::default();
        let mut router = router(&log);
        router.layer(Timeout::new(Duration::from_secs(20)));
        let own = log.clone();
        router.tool_with(
            tool("sleep"),
            handler!(move |cx: &mut Cx, arguments: Value| {
                let slept = wait!(cx.sleep(Duration::from_secs(arguments["s"].as_u64().unwrap())));
                own.record(format!("slept {}", slept.is_ok()));
                if arguments["stubborn"] == true { Ok("late") } else { slept.map(|()| "rested") }
            }),
        );
        router.layer_entry(EntryKind::Tool, "sleep", Timeout::new(Duration::from_secs(10)));
        router.resource(
            Resource::new("a:b", "b"),
            handler!(|cx: &mut Cx, _: &mcp_proto::router::ResourceTarget<'_>| {
                wait!(cx.sleep(HOUR)).map(|()| "b")
            }),
        );
        let mut client = connect(router, era);
        assert_eq!(text(&client.call_tool("sleep", &json!({"s": 9})).unwrap()), "rested");
        log.take();
        for stubborn in [false, true] {
            let before = client.now();
            let failed = client.call_tool("sleep", &json!({"s": 3000, "stubborn": stubborn})).unwrap();
            assert!(failed.is_failure() && text(&failed) == "the call took longer than 10s", "{failed:?}");
            let took = client.now().saturating_duration_since(before);
            assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(12), "{took:?}");
        }
        // A function learns that its time is over, a future is dropped.
        let noted = log.take();
        assert!(noted.is_empty() || noted == ["slept false"; 2], "{noted:?}");
        let before = client.now();
        let error = client.read_resource("a:b").unwrap_err();
        assert_eq!(error_code(&error), -32603);
        let took = client.now().saturating_duration_since(before);
        assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(22), "{took:?}");
        assert_eq!(text(&client.call_tool("echo", &json!({})).unwrap()), "{}");
    }
}

// covers: TOOL-032, COMP-010
#[test]
fn rate_limit_refuses_tools_and_completions_until_there_is_a_token() {
    for era in ERAS {
        let log = NoteLog::default();
        let mut router = router(&log);
        let millis = Arc::new(AtomicU64::new(0));
        let clock = millis.clone();
        router.layer(
            RateLimit::new(2, Duration::from_secs(3))
                .key(CallKey::CLIENT.entry())
                .clock(move || Instant::from_micros(clock.load(Ordering::SeqCst) * 1000)),
        );
        router.prompt(
            Prompt::new("trip").arguments([PromptArgument::new("to")]),
            handler!(|_: &mut Cx, (): ()| "go"),
        );
        router.completion(
            PromptReference::new("trip"),
            "to",
            handler!(|_: &mut Cx, _: &mcp_proto::router::CompletionTarget<'_>| vec!["Cork".to_owned()]),
        );
        let client = connect(router, era);
        for _ in 0..2 {
            client.call_tool("echo", &json!({})).unwrap();
            client.complete(PromptReference::new("trip"), "to", "").unwrap();
        }
        let refused = client.call_tool("echo", &json!({})).unwrap();
        assert!(refused.is_failure());
        assert_eq!(text(&refused), "too many calls: try again in 1.5 s");
        assert_eq!(
            refused.meta.as_ref().and_then(|meta| meta.member("retryAfterMs")).unwrap().as_str(),
            "1500"
        );
        let Err(Error::Call(CallError::Rpc(error))) = client.complete(PromptReference::new("trip"), "to", "")
        else {
            panic!("a refused completion");
        };
        assert_eq!(error.code, TOO_MANY_REQUESTS);
        assert_eq!(error.data.unwrap().as_str(), r#"{"retryAfterMs":1500}"#);
        // Another tool has a bucket of its own, and prompts have none.
        client.call_tool("other", &json!({})).unwrap();
        for _ in 0..3 {
            client.get_prompt("trip", &json!({})).unwrap();
        }
        assert_eq!(log.take(), ["echo", "echo", "other"]);
        millis.store(1500, Ordering::SeqCst);
        assert!(!client.call_tool("echo", &json!({})).unwrap().is_failure());
        assert!(client.call_tool("echo", &json!({})).unwrap().is_failure());
    }
}

#[test]
fn concurrency_limit_refuses_a_call_beside_one_that_runs() {
    let log = NoteLog::default();
    let mut router = router(&log);
    router.layer_entry(EntryKind::Tool, "echo", ConcurrencyLimit::new(1));
    router.layer_entry(
        EntryKind::Tool,
        "echo",
        layer_fn(handler!(|cx, request, next| {
            wait!(cx.sleep(Duration::from_secs(10)))?;
            wait!(next.run(cx, request))
        })),
    );
    let client = connect(router, Era::Modern);
    let calls = [0; 2].map(|_| client.start_tool("echo", &json!({}), &CallOptions::new()).unwrap());
    let failed = calls.map(|call| client.wait(call).unwrap().member("isError").is_some());
    // On virtual time, functions run one after the other, so none is beside another one.
    let refused = failed.into_iter().filter(|failed| *failed).count();
    assert_eq!(refused, usize::from(SLEEP_CANCELLED == "dropped"), "{failed:?}");
    assert!(!client.call_tool("echo", &json!({})).unwrap().is_failure(), "the place is free again");
}

// covers: TOOL-032
#[test]
fn results_are_redacted_and_limited_in_size() {
    let log = NoteLog::default();
    let mut router = router(&log);
    router.layer(ResultSizeLimit::new(1000)).layer(Redaction::new().member("password"));
    let records = log.clone();
    router.layer(
        AuditLog::new(move |record| {
            let arguments = record.arguments.as_ref().map_or(0, |arguments| arguments.as_str().len());
            let (params, result) = (record.params_bytes, record.result_bytes.unwrap());
            records.record(format!("{} {arguments} {} {}", record.method, params > arguments, result > 40));
        })
        .arguments()
        .result_sizes(),
    );
    router.resource(
        Resource::new("a:b", "b"),
        handler!(|_: &mut Cx, _: &mcp_proto::router::ResourceTarget<'_>| "x".repeat(2000)),
    );
    let client = connect(router, Era::Modern);
    let call = |arguments: Value| client.call_tool("echo", &arguments).unwrap();
    assert_eq!(text(&call(json!({"a": 1, "password": "x"}))), r#"{"a":1,"password":"[redacted]"}"#);
    let refused = call(json!({"long": "x".repeat(2000)}));
    assert!(refused.is_failure() && text(&refused).contains("limit is 1000"), "{refused:?}");
    assert_eq!(error_code(&client.read_resource("a:b").unwrap_err()), -32603);
    let noted = log.take();
    assert_eq!(noted[1], "tools/call 22 true true");
    assert!(noted.last().unwrap().starts_with("resources/read 0"), "{noted:?}");
}

#[test]
fn layer_that_never_returns_leaves_room_for_other_calls() {
    if IS_SINGLE_THREADED {
        return;
    }
    with_timeout(|| {
        let log = NoteLog::default();
        let build = move || {
            let mut router = router(&log);
            router.layer_entry(EntryKind::Tool, "echo", layer_fn(handler!(|_, _, _| wait!(hang()))));
            router
        };
        let options = Client::options(Config::new("test", "1"));
        let (client, _server) = serve(build, options);
        let short = CallOptions::new().timeout(Duration::from_millis(50));
        let error = client.call_tool_with("echo", &json!({}), &short, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        assert_eq!(text(&client.call_tool("other", &json!({})).unwrap()), "{}");
    });
}
