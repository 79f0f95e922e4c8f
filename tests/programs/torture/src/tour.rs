//! The tour: legs, each a server and a client that use features in named steps.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use mcp_auth::token::off_loop;
use mcp_events::client::FollowOptions;
use mcp_events::follow::{FollowConfig, FollowEvent};
use mcp_events::server::{Event, Events};
use mcp_events::source::SourceConfig;
use mcp_events::wire::{Nullable, PollEventsParams, Profile};
use mcp_proto::client::{self, StartedTask, TaskPolling};
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{
    BooleanSchema, CallToolResult, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
    ElicitSchema, ListRootsResult, Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate, Role,
    Root, SamplingMessage, SubscriptionFilter, TaskSupport, Tool,
};
use mcp_proto::router::suggest;
use mcp_proto::{
    CallOptions, Capabilities, Capability, Change, EntryKind, Era, Limits, Progress, RawJson, RpcError,
    VersionSet,
};
use mcp_runtime::client::ClientHandler;
use mcp_runtime::server::ServerTasks;
use mcp_std::process::Program;
use mcp_std::task_store::FileTaskStore;
use mcp_std::tls::{ClientTls, ServerTls};
use serde_json::{Value, json};

use crate::adapter::{
    Client, Cx, Error, Handle, HttpServer, Router, events_client, handler, inner_client, next_event,
    poll_client, run, run_http, serve_stdio, server_handle, wait,
};
use crate::authorization::{self, PRINCIPAL};
use crate::faults::{self, exempt};
use crate::wrap;

/// A group of legs whose servers have something in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tour {
    Features,
    /// The server asks for tokens.
    Authorization,
    /// The server has events.
    Events,
    /// The connections are encrypted.
    Tls,
}

impl Tour {
    pub(crate) const ALL: [Self; 4] = [Self::Features, Self::Authorization, Self::Events, Self::Tls];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Features => "features",
            Self::Authorization => "authorization",
            Self::Events => "events",
            Self::Tls => "tls",
        }
    }

    /// Finds a tour by its name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tour| tour.name() == name)
    }
}

/// Handlers that have begun, and those that have returned or were dropped.
pub(crate) static BEGUN: AtomicUsize = AtomicUsize::new(0);
pub(crate) static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Calls that were to be cancelled, and went on to their end.
pub(crate) static UNCANCELLED: AtomicUsize = AtomicUsize::new(0);

/// Time of a call that is to be cancelled. It ends nevertheless, because a fault may lose the cancellation, and a server on one
/// thread answers nothing else meanwhile.
const ENDLESS: Duration = Duration::from_secs(3);

/// Time in which a client has opened the stream of its changes again.
const REOPENED: Duration = Duration::from_secs(10);

/// What a client tells of a request to a legacy server for a resource that failed: which are honoured, and not why another is not.
pub(crate) const NOT_HONOURED: &str = "the subscription is not honoured";

/// Text of a client whose server has no thread to validate its token.
pub(crate) const NOT_VALIDATED: &str = "the token cannot be validated at present";

/// Time between two looks at a task.
const POLL: Duration = Duration::from_millis(5);

const ROOT: &[u8] = include_bytes!("../../../../adapters/std/tests/certificates/root.pem");
const CHAIN: &[u8] = include_bytes!("../../../../adapters/std/tests/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../../../../adapters/std/tests/certificates/key.pem");

/// What servers have reported of their store: a client is not told why a task cannot be stored.
pub(crate) static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What a step says when it has not the expected outcome.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An operation failed, with this text.
    Error(String),
    /// An operation succeeded with a wrong outcome.
    Wrong(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.to_string())
    }
}

/// A step that failed.
pub(crate) struct Failed {
    pub(crate) step: String,
    pub(crate) failure: Failure,
}

macro_rules! ensure {
    ($condition:expr, $($what:tt)*) => {
        if !$condition {
            return Err(Failure::Wrong(format!($($what)*)));
        }
    };
}

struct Running;

impl Running {
    fn new() -> Self {
        BEGUN.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        ENDED.fetch_add(1, SeqCst);
    }
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

#[derive(serde::Deserialize)]
struct Text {
    text: String,
}

/// Adds a type of events, and a tool that publishes one.
fn add_events(router: &mut Router) -> Result<(), Error> {
    // The entropy of the system fails in some tours.
    let events = Events::with(SourceConfig::default(), Profile::SEP).map_err(Error::Io)?;
    let any = || RawJson::new(r#"{"type":"object"}"#).expect("JSON");
    let arrival = Event::<Value, Value>::with_schemas("arrival", any(), any());
    let publisher = events.add(arrival).expect("a type");
    router.extension(events);
    router.tool_with(
        tool("arrive"),
        handler!(move |_: &mut Cx, _: Value| -> String {
            static ARRIVALS: AtomicUsize = AtomicUsize::new(0);
            let _running = Running::new();
            let id = format!("arrival-{}", ARRIVALS.fetch_add(1, SeqCst));
            publisher.publish_as(id.clone(), SystemTime::UNIX_EPOCH, &json!({})).expect("published");
            id
        }),
    );
    Ok(())
}

/// Adds tools that ask who calls.
fn add_protected_tools(router: &mut Router) {
    router
        .tool_with(
            tool("caller"),
            handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
                let _running = Running::new();
                Ok(cx.principal().unwrap_or_default().to_owned())
            }),
        )
        .tool_with(
            tool("scoped"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                cx.require_scopes(&["souvenirs"])?;
                Ok("scoped")
            }),
        );
}

#[expect(deprecated, reason = "tested until its removal")]
fn router(tasks: ServerTasks, tour: Tour) -> Result<Router, Error> {
    let mut router = Router::new("tour", "1");
    router.tasks(tasks);
    match tour {
        Tour::Features | Tour::Tls => {}
        Tour::Authorization => add_protected_tools(&mut router),
        Tour::Events => add_events(&mut router)?,
    }
    router
        .tool_with(
            tool("echo"),
            handler!(|_: &mut Cx, given: Value| -> Result<String, RpcError> {
                let _running = Running::new();
                let text =
                    given["text"].as_str().ok_or_else(|| RpcError::invalid_params("text: a string"))?;
                Ok(text.to_owned())
            }),
        )
        .tool_with(
            tool("count"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                for step in 1..=5u32 {
                    cx.progress(Progress::new(step.into()).with_total(5.0))?;
                }
                Ok("counted")
            }),
        )
        .tool_with(
            tool("sleep"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                wait!(cx.sleep(Duration::from_millis(5)))?;
                Ok("slept")
            }),
        )
        .tool_with(
            tool("endless"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                wait!(cx.sleep(ENDLESS))?;
                UNCANCELLED.fetch_add(1, SeqCst);
                Ok("never")
            }),
        )
        .tool_with(
            tool("fails"),
            handler!(|_: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                Err(RpcError::internal("on purpose"))
            }),
        )
        .tool_with(
            tool("panics"),
            handler!(|_: &mut Cx, _: Value| -> &'static str {
                let _running = Running::new();
                panic!("on purpose")
            }),
        )
        .tool_with(
            tool("asks"),
            handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
                let _running = Running::new();
                let form = ElicitSchema::default().field("ok", BooleanSchema::new());
                let answer = cx.elicit("ask", "Go on?", form)?;
                Ok(format!("{:?}", answer.action))
            }),
        )
        .tool_with(
            tool("verse"),
            handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
                let _running = Running::new();
                let question = CreateMessageParams::new([SamplingMessage::user("rhyme")], 9u32);
                let (line, roots) = (cx.sample("line", question), cx.list_roots("roots"));
                let (line, roots) = (line?, roots?);
                Ok(format!("{} {}", line.model, roots.roots.len()))
            }),
        )
        .tool_with(
            tool("publish"),
            handler!(|cx: &mut Cx, _: Value| {
                let _running = Running::new();
                cx.publish(&Change::Resource("tour:news".into()));
                "published"
            }),
        )
        .tool_with(
            tool("task"),
            handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
                let _running = Running::new();
                cx.working("under way")?;
                wait!(cx.sleep(Duration::from_millis(5)))?;
                Ok(format!("task {}", cx.task().is_some()))
            }),
        )
        .tool_with(
            tool("endless-task"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let _running = Running::new();
                wait!(cx.sleep(ENDLESS))?;
                UNCANCELLED.fetch_add(1, SeqCst);
                Ok("never")
            }),
        );
    for name in ["task", "endless-task"] {
        router.core().tool_entry(name).task_support(TaskSupport::Optional);
    }
    router.resource(Resource::new("tour:news", "news"), handler!(|_, read| read.uri.clone()));
    router.resource_template(
        ResourceTemplate::new("tour:{id}/raw", "raw"),
        handler!(|_, read| read.variables.get("id").map(|id| id.as_bytes().to_vec())),
    );
    router.prompt(
        Prompt::new("plan").arguments([PromptArgument::new("text").required(true)]),
        handler!(|_, given: Text| format!("Plan {}", given.text)),
    );
    router.completion(
        PromptReference::new("plan"),
        "text",
        handler!(|_, text| suggest(["one", "two"], text.value())),
    );
    router.subscriptions(|_, _| {});
    router.on_failure(|_, _| {});
    Ok(router)
}

/// Serves the tour on stdin and stdout.
pub(crate) fn serve(tour: Tour) -> Result<(), Error> {
    let router = router(ServerTasks::new(), tour)?;
    let config = router.config()?;
    serve_stdio(config, router)
}

/// A user who accepts everything, and counts changes.
struct User(Arc<AtomicUsize>);

impl ClientHandler for User {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept([("ok", true.into())]))
    }

    fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        Ok(CreateMessageResult::new(Role::Assistant, "line", "muse"))
    }

    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(vec![Root::new("file:///tour")]))
    }

    fn changed(&self, _: &Change) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A server over HTTP on a thread of the harness.
struct Served {
    address: SocketAddr,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn start(folder: PathBuf, tour: Tour) -> Result<Self, Failure> {
        let (started, starts) = mpsc::channel();
        let thread = exempt(|| {
            thread::spawn(move || {
                let store = FileTaskStore::open(folder).map_err(|error| error.to_string());
                let store = match store {
                    Ok(store) => store,
                    Err(error) => {
                        let _ = started.send(Err(error));
                        return Ok(());
                    }
                };
                let tasks = ServerTasks::new().store(store).on_problem(|problem| {
                    PROBLEMS.lock().expect("no panic").push(problem.to_string());
                });
                #[allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]
                let bound = || -> Result<_, Error> {
                    let router = router(tasks, tour)?;
                    let (config, any) = (router.config()?, "127.0.0.1:0");
                    let mut server = match tour {
                        Tour::Authorization => {
                            let http = Http::new().protected(authorization::protected());
                            HttpServer::bind(authorization::address(), config, http, router)?
                                .validate_tokens(off_loop(authorization::identity))
                        }
                        Tour::Tls => HttpServer::bind(any, config, Http::new(), router)?
                            .tls(ServerTls::from_pem(CHAIN, KEY)?),
                        _ => HttpServer::bind(any, config, Http::new(), router)?,
                    };
                    let ready = (server.address()?, make_handle(&mut server)?);
                    Ok((server, ready))
                };
                match bound() {
                    Ok((server, ready)) => {
                        let _ = started.send(Ok(ready));
                        run_http(server)
                    }
                    Err(error) => {
                        let _ = started.send(Err(error.to_string()));
                        Ok(())
                    }
                }
            })
        });
        match starts.recv().expect("the thread reports") {
            Ok((address, handle)) => Ok(Self { address, handle, thread }),
            Err(error) => {
                let _ = thread.join();
                Err(Failure::Error(error))
            }
        }
    }

    fn stop(self) -> Result<(), Failure> {
        self.handle.shutdown(Duration::from_secs(2));
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(|error| Failure::Wrong(format!("the server ended: {error}"))),
            Err(_) => Err(Failure::Wrong("the server panicked".into())),
        }
    }
}

#[allow(clippy::unnecessary_wraps, clippy::needless_pass_by_ref_mut, reason = "some adapters need it")]
fn make_handle<H: crate::adapter::Handler>(server: &mut HttpServer<H>) -> Result<Handle, Error> {
    Ok(server_handle!(server))
}

/// Where a scene takes place.
struct Scene {
    era: Era,
    changes: Arc<AtomicUsize>,
    address: Option<SocketAddr>,
    tour: Tour,
}

impl Scene {
    #[expect(deprecated, reason = "tested until its removal")]
    fn connect(&self) -> Result<Client, Failure> {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_secs(8);
        limits.probe_timeout = Duration::from_secs(8);
        limits.init_timeout = Duration::from_secs(8);
        let capabilities = Capabilities::new()
            .with(Capability::ElicitationForm)
            .with(Capability::Sampling)
            .with(Capability::Roots);
        let config = client::Config::new("tourist", "1")
            .versions(VersionSet::ALL.era(self.era))
            .capabilities(capabilities)
            .limits(limits)
            .task_polling(TaskPolling::new().interval_range(POLL, POLL));
        let mut options = Client::options(config).handler(User(self.changes.clone()));
        if self.tour == Tour::Authorization {
            options = options.authorize(authorization::authorizer());
        }
        let client = match self.address {
            Some(address) if self.tour == Tour::Tls => {
                let url = format!("https://localhost:{}/mcp", address.port());
                run!(options.tls(ClientTls::without_system_roots().root_pem(ROOT)?).connect_url(&url))?
            }
            Some(address) => run!(options.connect_url(&format!("http://{address}/mcp")))?,
            None => {
                let own = exempt(std::env::current_exe).expect("a path");
                run!(options.spawn(Program::new(own).arg("as-server").arg(self.tour.name())))?
            }
        };
        let client = wrap(client);
        ensure!(client.peer().era() == self.era, "another era");
        Ok(client)
    }

    fn is_http(&self) -> bool {
        self.address.is_some()
    }
}

fn text(result: &CallToolResult<'_>) -> String {
    result.content.first().and_then(|first| first.as_text()).unwrap_or_default().to_owned()
}

fn echo(client: &Client, length: usize) -> Result<(), Failure> {
    let given = "x".repeat(length);
    let answer = text(&client.call_tool("echo", &json!({ "text": given }))?);
    ensure!(answer == given, "{} bytes instead of {length}", answer.len());
    Ok(())
}

fn says(client: &Client, tool: &str, expected: &str) -> Result<(), Failure> {
    let answer = text(&client.call_tool(tool, &json!({}))?);
    ensure!(answer == expected, "{answer} instead of {expected}");
    Ok(())
}

/// Succeeds if the call fails with a text that contains `expected`.
fn refused<T>(outcome: Result<T, Error>, expected: &str) -> Result<(), Failure> {
    match outcome {
        Ok(_) => Err(Failure::Wrong("not refused".into())),
        Err(error) if error.to_string().contains(expected) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn listed<T>(outcome: Result<Vec<T>, Error>, expected: usize) -> Result<(), Failure> {
    let count = outcome?.len();
    ensure!(count == expected, "{count} entries instead of {expected}");
    Ok(())
}

/// Sends bytes to the server and hangs up, after the beginning of an answer if there is an `expected` one.
fn vanish(scene: &Scene, bytes: &[u8], expected: &str) -> Result<(), Failure> {
    let Some(address) = scene.address else { return Ok(()) };
    let outcome = exempt(|| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(bytes)?;
        stream.set_read_timeout(Some(Duration::from_secs(8)))?;
        let mut answer = vec![0; expected.len()];
        // A read of nothing would wait, too.
        let count = if expected.is_empty() { 0 } else { stream.read(&mut answer)? };
        answer.truncate(count);
        Ok::<_, std::io::Error>(answer)
    });
    // The server may have met the fault on this connection.
    let answer = outcome.unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer);
    ensure!(expected.starts_with(&*answer), "{answer} instead of {expected}");
    Ok(())
}

type Step = (&'static str, fn(&Scene, &mut Client) -> Result<(), Failure>);

/// Lists, and what belongs to their entries.
const LISTS: &[Step] = &[
    ("ping", |_, client| Ok(client.ping().map(drop)?)),
    ("tools", |_, client| listed(client.list_tools(), 11)),
    ("tools again, from the cache", |_, client| listed(client.list_tools(), 11)),
    ("tools without a cache", |_, client| {
        client.clear_cache();
        listed(client.list_tools(), 11)
    }),
    ("resources", |_, client| listed(client.list_resources(), 1)),
    ("templates", |_, client| listed(client.list_resource_templates(), 1)),
    ("prompts", |_, client| listed(client.list_prompts(), 1)),
    ("entries", |_, client| listed(client.list(EntryKind::Prompt), 1)),
    ("prompt", |_, client| {
        let prompt = format!("{:?}", client.get_prompt("plan", &json!({"text": "it"}))?);
        ensure!(prompt.contains("Plan it"), "{prompt}");
        Ok(())
    }),
    ("prompt without argument", |_, client| refused(client.get_prompt("plan", &json!({})), "text")),
    ("unknown prompt", |_, client| refused(client.get_prompt("none", &json!({})), "none")),
    ("completion", |_, client| {
        let values = client.complete(PromptReference::new("plan"), "text", "tw")?.completion.values;
        ensure!(values == ["two"], "{values:?}");
        Ok(())
    }),
    ("resource", |_, client| Ok(client.read_resource("tour:news").map(drop)?)),
    ("resource of a template", |_, client| Ok(client.read_resource("tour:a/raw").map(drop)?)),
    ("unknown resource", |_, client| refused(client.read_resource("nowhere:"), "")),
];

/// Calls of tools, and their failures.
const CALLS: &[Step] = &[
    ("empty echo", |_, client| echo(client, 0)),
    ("echo of a byte", |_, client| echo(client, 1)),
    ("echo of 4 KiB", |_, client| echo(client, 4 << 10)),
    ("echo of 80 KiB", |_, client| echo(client, 80 << 10)),
    ("echo after it", |_, client| echo(client, 10)),
    ("progress", |_, client| {
        let mut seen = Vec::new();
        let counted = client.call_tool_with("count", &json!({}), &CallOptions::new(), &mut |progress| {
            seen.push(progress.progress)
        })?;
        ensure!(text(&counted) == "counted", "{counted:?}");
        ensure!(seen.last() == Some(&5.0) && seen.is_sorted(), "progress {seen:?}");
        Ok(())
    }),
    ("timer", |_, client| says(client, "sleep", "slept")),
    ("unknown tool", |_, client| refused(client.call_tool("none", &json!({})), "none")),
    ("wrong argument", |_, client| refused(client.call_tool("echo", &json!({"text": 1})), "text")),
    ("failing tool", |_, client| refused(client.call_tool("fails", &json!({})), "on purpose")),
    ("panicking tool", |_, client| refused(client.call_tool("panics", &json!({})), "panicked")),
    ("three calls at once", |_, client| {
        let mut calls = Vec::new();
        for number in 0..3 {
            let arguments = json!({ "text": format!("call {number}") });
            calls.push(client.start_tool("echo", &arguments, &CallOptions::new())?);
        }
        for (number, call) in calls.into_iter().enumerate().rev() {
            let answer = client.wait(call)?;
            ensure!(answer.as_str().contains(&format!("call {number}")), "{}", answer.as_str());
        }
        Ok(())
    }),
    ("call by name", |_, client| {
        let params = json!({"name": "echo", "arguments": {"text": "raw"}});
        let answer = client.request("tools/call", &params, &CallOptions::new())?;
        ensure!(answer.as_str().contains("raw"), "{}", answer.as_str());
        Ok(())
    }),
];

/// Requests of the server, changes, and calls that end early.
const EXCHANGES: &[Step] = &[
    ("elicitation", |_, client| says(client, "asks", "Accept")),
    ("sampling and roots", |_, client| says(client, "verse", "muse 1")),
    ("change without subscription", |_, client| says(client, "publish", "published")),
    ("subscription", |scene, client| {
        let before = scene.changes.load(SeqCst);
        let filter = SubscriptionFilter::new().resource_subscriptions(["tour:news".to_owned()]);
        let (subscription, honoured) = client.subscribe(&filter)?;
        if honoured.resource_subscriptions.is_none_or(|uris| uris.is_empty()) {
            return Err(Failure::Error(NOT_HONOURED.into()));
        }
        // A change may be lost with its connection, but not the subscription.
        let begun = exempt(std::time::Instant::now);
        while exempt(|| begun.elapsed()) < REOPENED {
            says(client, "publish", "published")?;
            for _ in 0..200 {
                if scene.changes.load(SeqCst) > before {
                    return Ok(client.unsubscribe(subscription)?);
                }
                poll_client_gently(client)?;
            }
            exempt(|| thread::sleep(POLL));
        }
        Err(Failure::Error("no change arrived".into()))
    }),
    ("cancellation", |_, client| {
        let call = client.start_tool("endless", &json!({}), &CallOptions::new())?;
        Ok(client.cancel(call, Some("enough"))?)
    }),
    ("call after a cancellation", |_, client| echo(client, 10)),
    ("timeout of a call", |_, client| {
        let options = CallOptions::new().timeout(Duration::from_millis(10));
        let outcome = client.call_tool_with("endless", &json!({}), &options, &mut |_| {});
        refused(outcome, "no answer in time")
    }),
    ("call after a timeout", |_, client| echo(client, 10)),
];

/// Tasks, and other clients of the same server.
const TASKS: &[Step] = &[
    ("task", |_, client| match client.start_task("task", &json!({}), None)? {
        StartedTask::Task(task) => {
            let result = text(&client.wait_task(&task)?);
            ensure!(result == "task true", "{result}");
            Ok(())
        }
        StartedTask::Done(result) => {
            ensure!(text(&result) == "task false", "{result:?}");
            Ok(())
        }
    }),
    ("cancelled task", |scene, client| {
        if !scene.is_http() || scene.era != Era::Modern {
            return Ok(());
        }
        match client.start_task("endless-task", &json!({}), None)? {
            StartedTask::Task(task) => {
                client.get_task(&task)?;
                Ok(client.cancel_task(&task)?)
            }
            StartedTask::Done(result) => Err(Failure::Wrong(format!("no task: {result:?}"))),
        }
    }),
    ("second client", |scene, _| {
        let other = scene.connect()?;
        echo(&other, 100)?;
        Ok(other.close().map(drop)?)
    }),
    ("client that hangs up in its head", |scene, _| {
        vanish(scene, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n", "")
    }),
    ("client that is refused", |scene, _| {
        vanish(scene, b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404")
    }),
    ("client that says nothing", |scene, _| vanish(scene, b"", "")),
    ("last echo", |_, client| echo(client, 1_000)),
];

/// Calls with tokens that lack a scope, or are revoked.
const PROTECTED: &[Step] = &[
    ("caller", |_, client| says(client, "caller", PRINCIPAL)),
    ("echo of 4 KiB", |_, client| echo(client, 4 << 10)),
    ("call that needs another scope", |_, client| says(client, "scoped", "scoped")),
    ("call with that scope", |_, client| says(client, "scoped", "scoped")),
    ("call with a revoked token", |_, client| {
        authorization::revoke();
        says(client, "caller", PRINCIPAL)
    }),
    ("second client", |scene, _| {
        let other = scene.connect()?;
        echo(&other, 100)?;
        Ok(other.close().map(drop)?)
    }),
    ("client without a token", |scene, _| {
        vanish(scene, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 401")
    }),
    ("last echo", |_, client| echo(client, 1_000)),
];

/// Follows as usual, and waits for less long.
fn soon() -> FollowOptions {
    let mut config = FollowConfig::default();
    (config.shortest_backoff, config.longest_backoff) = (POLL, Duration::from_millis(100));
    (config.shortest_poll, config.default_poll) = (POLL, POLL);
    config.longest_poll = Duration::from_millis(20);
    FollowOptions::new().config(config)
}

/// Returns what a follower gets next, without the errors that it goes on after.
macro_rules! news {
    ($follower:expr) => {
        loop {
            match next_event!($follower)? {
                Some(FollowEvent::Error(_)) => {}
                Some(FollowEvent::Event(event)) => break event.event_id,
                Some(FollowEvent::Ended(error)) => return Err(Failure::Error(error.to_string())),
                other => return Err(Failure::Wrong(format!("{other:?} instead of an event"))),
            }
        }
    };
}

/// Lets the server publish an event, and returns its id.
fn arrive(client: &Client) -> Result<String, Failure> {
    Ok(text(&client.call_tool("arrive", &json!({}))?))
}

/// Follows events from a position on, which is behind those that were published before.
fn follow(client: &Client, options: FollowOptions) -> Result<(), Failure> {
    let of_server = events_client!(inner_client!(client));
    let before = run!(of_server.poll(&PollEventsParams::new("arrival")))?;
    let Some(cursor) = Nullable::text(before.cursor.as_ref()) else {
        return Err(Failure::Wrong("no position".into()));
    };
    let published = [arrive(client)?, arrive(client)?];
    let mut follower = run!(of_server.follow_with("arrival", &json!({}), options.cursor(cursor)))?;
    for expected in published {
        let id = news!(follower);
        ensure!(id == expected, "{id} instead of {expected}");
    }
    let (expected, id) = (arrive(client)?, news!(follower));
    ensure!(id == expected, "{id} instead of {expected}");
    Ok(())
}

/// Events, by polls and by streams.
const EVENTS: &[Step] = &[
    ("types", |_, client| {
        let types = run!(events_client!(inner_client!(client)).list())?;
        ensure!(types.len() == 1, "{types:?}");
        Ok(())
    }),
    ("events by polls", |_, client| follow(client, soon().only_polls())),
    ("events by a stream", |_, client| follow(client, soon())),
    ("unknown type", |_, client| {
        let poll = PollEventsParams::new("nothing");
        match run!(events_client!(inner_client!(client)).poll(&poll)) {
            Ok(_) => Err(Failure::Wrong("not refused".into())),
            Err(error) if error.to_string().contains("NotFound") => Ok(()),
            Err(error) => Err(error.into()),
        }
    }),
    ("last echo", |_, client| echo(client, 1_000)),
];

/// Dispatches what arrived for the client; unlike the suites it takes a lost connection as an outcome.
fn poll_client_gently(client: &mut Client) -> Result<(), Failure> {
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| poll_client(client)))
        .map_err(|_| Failure::Error("the connection has ended".into()))
}

/// A part of the tour, with a connection of its own and for HTTP a server.
pub(crate) struct Leg {
    name: &'static str,
    era: Era,
    is_http: bool,
    pub(crate) tour: Tour,
    steps: &'static [Step],
}

const fn leg(name: &'static str, era: Era, is_http: bool, steps: &'static [Step]) -> Leg {
    Leg { name, era, is_http, tour: Tour::Features, steps }
}

const fn authorization(name: &'static str, era: Era) -> Leg {
    Leg { tour: Tour::Authorization, ..leg(name, era, true, PROTECTED) }
}

/// Events over legacy are polls alone, and another profile.
const fn events(name: &'static str, is_http: bool) -> Leg {
    Leg { tour: Tour::Events, ..leg(name, Era::Modern, is_http, EVENTS) }
}

const fn tls(name: &'static str, era: Era) -> Leg {
    Leg { tour: Tour::Tls, ..leg(name, era, true, CALLS) }
}

pub(crate) const LEGS: [Leg; 22] = [
    leg("stdio, legacy, lists", Era::Legacy, false, LISTS),
    leg("stdio, legacy, calls", Era::Legacy, false, CALLS),
    leg("stdio, legacy, exchanges", Era::Legacy, false, EXCHANGES),
    leg("stdio, legacy, tasks", Era::Legacy, false, TASKS),
    leg("stdio, modern, lists", Era::Modern, false, LISTS),
    leg("stdio, modern, calls", Era::Modern, false, CALLS),
    leg("stdio, modern, exchanges", Era::Modern, false, EXCHANGES),
    leg("stdio, modern, tasks", Era::Modern, false, TASKS),
    leg("HTTP, legacy, lists", Era::Legacy, true, LISTS),
    leg("HTTP, legacy, calls", Era::Legacy, true, CALLS),
    leg("HTTP, legacy, exchanges", Era::Legacy, true, EXCHANGES),
    leg("HTTP, legacy, tasks", Era::Legacy, true, TASKS),
    leg("HTTP, modern, lists", Era::Modern, true, LISTS),
    leg("HTTP, modern, calls", Era::Modern, true, CALLS),
    leg("HTTP, modern, exchanges", Era::Modern, true, EXCHANGES),
    leg("HTTP, modern, tasks", Era::Modern, true, TASKS),
    authorization("HTTP, legacy, authorization", Era::Legacy),
    authorization("HTTP, modern, authorization", Era::Modern),
    events("stdio, modern, events", false),
    events("HTTP, modern, events", true),
    tls("HTTP, legacy, TLS", Era::Legacy),
    tls("HTTP, modern, TLS", Era::Modern),
];

/// Steps of a tour, and those that failed.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) steps: usize,
    pub(crate) failed: Vec<Failed>,
}

impl Outcome {
    fn step(
        &mut self,
        leg: &Leg,
        name: &str,
        enter: &dyn Fn(&str),
        work: impl FnOnce() -> Result<(), Failure>,
    ) {
        let step = format!("{}: {name}", leg.name);
        enter(&step);
        self.steps += 1;
        let begun = exempt(std::time::Instant::now);
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(work));
        exempt(|| {
            if let Some(least) = std::env::var_os("MCP_TORTURE_SLOW") {
                let least: u128 = least.to_str().and_then(|least| least.parse().ok()).unwrap_or_default();
                let taken = begun.elapsed().as_millis();
                if taken >= least {
                    eprintln!("{taken} ms: {step}");
                }
            }
        });
        if let Err(failure) = outcome.unwrap_or_else(|_| Err(Failure::Wrong("a panic".into()))) {
            self.failed.push(Failed { step, failure });
        }
    }
}

/// Runs these legs one after the other. `enter` is told the name of each step.
pub(crate) fn tour(legs: &[Leg], folder: &std::path::Path, enter: &dyn Fn(&str)) -> Outcome {
    let mut outcome = Outcome::default();
    for leg in legs {
        // The server of the leg before it has left tasks there.
        exempt(|| drop(std::fs::remove_dir_all(folder)));
        run_leg(leg, folder, enter, &mut outcome);
    }
    outcome
}

fn run_leg(leg: &Leg, folder: &std::path::Path, enter: &dyn Fn(&str), outcome: &mut Outcome) {
    let (mut served, mut connected) = (None, None);
    let Leg { era, tour, .. } = *leg;
    let mut scene = Scene { era, changes: Arc::default(), address: None, tour };
    if leg.is_http {
        outcome.step(leg, "start", enter, || {
            served = Some(Served::start(folder.to_owned(), tour)?);
            Ok(())
        });
        let Some(started) = &served else { return };
        scene.address = Some(started.address);
        faults::set_server(started.address.port());
    }
    // The second attempt, because nothing else of the leg is possible without a client.
    for name in ["connect", "connect again"] {
        if connected.is_none() {
            outcome.step(leg, name, enter, || {
                connected = Some(scene.connect()?);
                Ok(())
            });
        }
    }
    if let Some(mut client) = connected {
        for (name, work) in leg.steps {
            outcome.step(leg, name, enter, || work(&scene, &mut client));
        }
        outcome.step(leg, "close", enter, || Ok(client.close().map(drop)?));
    }
    if let Some(server) = served {
        outcome.step(leg, "stop", enter, || server.stop());
    }
}
