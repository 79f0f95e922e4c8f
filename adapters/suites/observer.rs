//! Suite: observers, in whose scope handlers run, and which know the context of callers.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::cell::RefCell;
use core::time::Duration;
use std::sync::Mutex;

use mcp_proto::observe::{Direction, Observation, Observer, RequestEnd, RequestStart, TraceContext};
use mcp_proto::{Era, Instant};
use serde_json::json;

use crate::adapter::{Cx, Options, Router, client_layer, handler, serve, wait, wait_inside};
use crate::support::{ERAS, NoteLog, client_config, text, version_set, with_timeout};

thread_local! {
    /// Scope of the running code.
    static SCOPE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn scope() -> String {
    SCOPE.with_borrow(Clone::clone)
}

/// Runs code in a scope.
fn in_scope<T>(name: &str, run: &mut dyn FnMut() -> T) -> T {
    let outer = SCOPE.replace(name.to_owned());
    let outcome = run();
    SCOPE.set(outer);
    outcome
}

/// Notes the parent of each call of a tool, and runs its handler in a scope of that name.
#[derive(Clone, Default)]
struct Scopes(NoteLog);

impl core::fmt::Debug for Scopes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Scopes")
    }
}

#[derive(Debug)]
struct Scoped {
    name: String,
    notes: Scopes,
}

impl Observer for Scopes {
    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        let name = match (request.method, &request.subject) {
            ("tools/call", Some(name)) => name.clone().into_owned(),
            ("tools/list", _) if request.direction == Direction::Out => "list".to_owned(),
            _ => return None,
        };
        if request.direction == Direction::Out {
            // The scope is that of the caller, unless its context came with the request.
            let parent = request.parent.as_ref().and_then(|parent| parent.traceparent.clone());
            let parent = parent.unwrap_or_else(scope);
            self.0.record(format!("{name} in {parent}"));
        }
        Some(Arc::new(Scoped { name, notes: self.clone() }))
    }

    fn current_context(&self) -> Option<TraceContext> {
        Some(TraceContext::new().traceparent(scope())).filter(|_| !scope().is_empty())
    }
}

impl Observation for Scoped {
    fn in_scope(&self, run: &mut dyn FnMut()) {
        in_scope(&self.name, run);
    }

    fn end(&self, end: &RequestEnd<'_>) {
        self.notes.0.record(format!("{}: {:?}", self.name, end.outcome));
    }
}

fn router() -> Router {
    let mut router = Router::new("scopes", "1.0");
    for name in ["one", "two"] {
        router
            .tool(
                name,
                handler!(move |cx: &mut Cx, (): ()| {
                    let begun_in = scope();
                    // On another poll of a handler that is a future.
                    wait!(cx.sleep(Duration::from_millis(1))).expect("not cancelled");
                    format!("{begun_in}, {}", scope())
                }),
            )
            .description("Tells its scope");
    }
    router
        .tool(
            "fails",
            handler!(move |_: &mut Cx, (): ()| -> Result<String, mcp_proto::RpcError> {
                Err(mcp_proto::RpcError::invalid_params("never"))
            }),
        )
        .description("Fails");
    router
}

#[test]
fn handlers_run_in_scope_of_their_observation() {
    with_timeout(|| {
        for era in ERAS {
            let observer = Scopes::default();
            let at_server = observer.clone();
            let observed = move || {
                let mut router = router();
                router.observer(Arc::new(at_server));
                router
            };
            let (client, serving) = serve(observed, Options::new(client_config(version_set(era))));
            for name in ["one", "two"] {
                assert_eq!(text(&client.call_tool(name, &json!({})).unwrap()), format!("{name}, {name}"));
            }
            assert!(client.call_tool("fails", &json!({})).is_err());
            client.close().unwrap();
            serving.join().unwrap().unwrap();
            let notes = observer.0.take();
            assert_eq!(notes[..2], ["one: Success", "two: Success"]);
            assert!(notes[2].starts_with("fails: Failed(Rpc("), "{notes:?}");
            assert_eq!(notes.len(), 3);
        }
    });
}

/// Measures tool calls by the clock of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Measuring {
    pub(crate) needs_end_time: bool,
    pub(crate) durations: Arc<Mutex<Vec<Duration>>>,
}

#[derive(Debug)]
struct Measured {
    began_at: Instant,
    measuring: Measuring,
}

impl Observer for Measuring {
    fn request(&self, request: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        let is_call = request.method == "tools/call";
        is_call.then(|| Arc::new(Measured { began_at: request.at, measuring: self.clone() }) as _)
    }
}

impl Observation for Measured {
    fn needs_end_time(&self) -> bool {
        self.measuring.needs_end_time
    }

    fn end(&self, end: &RequestEnd<'_>) {
        let duration = end.at.saturating_duration_since(self.began_at);
        self.measuring.durations.lock().unwrap().push(duration);
    }
}

/// Time that the handler of [`slow_router`] takes without a look at the clock of its loop.
pub(crate) const SLOW: Duration = Duration::from_millis(20);

/// Returns a router with the tool `slow`.
pub(crate) fn slow_router(observer: &Measuring) -> Router {
    let mut router = Router::new("slow", "1.0");
    router
        .tool(
            "slow",
            handler!(move |_: &mut Cx, (): ()| {
                std::thread::sleep(SLOW);
                "done"
            }),
        )
        .description("Takes its time");
    router.observer(Arc::new(observer.clone()));
    router
}

#[test]
fn calls_end_when_their_handler_has_returned() {
    with_timeout(|| {
        let measuring = Measuring { needs_end_time: true, durations: Arc::default() };
        let observer = measuring.clone();
        let options = Options::new(client_config(version_set(Era::Modern)));
        let (client, serving) = serve(move || slow_router(&observer), options);
        client.call_tool("slow", &json!({})).unwrap();
        client.close().unwrap();
        serving.join().unwrap().unwrap();
        let durations = measuring.durations.lock().unwrap();
        // The clock of the engine counts microseconds.
        let least = SLOW - Duration::from_micros(1);
        assert!(matches!(durations[..], [duration] if duration >= least), "{durations:?}");
    });
}

// covers: META-021
#[test]
fn requests_have_context_of_their_caller() {
    with_timeout(|| {
        for era in ERAS {
            let observer = Scopes::default();
            let config = client_config(version_set(era)).observer(Arc::new(observer.clone()));
            let (client, serving) = serve(router, Options::new(config));
            for name in ["one", "two"] {
                SCOPE.set(format!("caller of {name}"));
                client.call_tool(name, &json!({})).unwrap();
            }
            SCOPE.set(String::new());
            client.close().unwrap();
            serving.join().unwrap().unwrap();
            let notes = observer.0.take();
            let sent: Vec<_> = notes.iter().filter(|note| note.contains(" in ")).collect();
            assert_eq!(sent, ["one in caller of one", "two in caller of two"]);
            assert_eq!(notes.len(), 4, "{notes:?}");
        }
    });
}

// covers: META-021
#[test]
fn requests_have_context_of_the_layer_that_makes_them() {
    with_timeout(|| {
        for era in ERAS {
            let observer = Scopes::default();
            let config = client_config(version_set(era)).observer(Arc::new(observer.clone()));
            let options = Options::new(config).layer(client_layer!(
                [] | request,
                next | {
                    let name = format!("layer around {}", request.name().unwrap_or_default());
                    let inside = |run: &mut dyn FnMut() -> _| in_scope(&name, run);
                    wait_inside!(inside, next.run(request.clone()))
                }
            ));
            let (client, serving) = serve(router, options.cache_legacy(Duration::MAX));
            SCOPE.set("caller".to_owned());
            client.call_tool("one", &json!({})).unwrap();
            // The context alone does not keep results from the cache.
            for _ in 0..2 {
                client.list_tools().unwrap();
            }
            SCOPE.set(String::new());
            client.close().unwrap();
            serving.join().unwrap().unwrap();
            let notes = observer.0.take();
            assert_eq!(notes[..2], ["one in layer around one", "one: Success"]);
            let list = ["list in layer around ", "list: Success"];
            // The server gives no hints, so only lists of legacy servers are cached.
            let lists = if era == Era::Legacy { list.to_vec() } else { [list, list].concat() };
            assert_eq!(notes[2..], lists, "{era:?}");
        }
    });
}
