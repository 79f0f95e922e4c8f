//! Suite: handlers that block, on the threads of the runtime for such work.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};

use mcp_proto::client::Config;
use mcp_proto::model::{
    BooleanSchema, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, Prompt, Resource, ResourceContents,
};
use mcp_proto::router::ResourceTarget;
use mcp_proto::{Capabilities, Capability, Progress, RpcError};
use mcp_runtime::server::layers::Timeout;
use mcp_runtime::server::router::async_layer_fn;
use serde_json::Value;

use crate::adapter::package::{AsyncClientHandler, BlockingCx, async_handler, unblock};
use crate::adapter::{Client, Cx, Error, Router, Server, async_stream, block_on, serve};
use crate::support::{DEADLINE, INITIALIZE, call_line, cancel_line, with_timeout};

/// A server of a router on a thread, and the client end of its stream.
struct Served {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn new(max_running: usize, router: impl FnOnce() -> Router + Send + 'static) -> Self {
        let (near, stream) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let serving = thread::spawn(move || {
            let router = router();
            let server = Server::new(router.config()?, async_stream(near), router).max_running(max_running);
            block_on(server.run())
        });
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut served = Self { stream, reader, serving };
        served.send(INITIALIZE);
        assert_eq!(served.read()["id"], 0);
        served
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
        serde_json::from_str(&line).unwrap()
    }

    fn finish(self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.serving.join().unwrap().unwrap();
    }
}

/// The side of the handler `gate`: it reports that it has begun, and waits for a message.
#[derive(Clone)]
struct Gate(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

fn gate() -> (Gate, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((begin, begun), (open, opened)) = (mpsc::channel(), mpsc::channel());
    (Gate(begin, Arc::new(Mutex::new(opened))), begun, open)
}

impl Gate {
    fn pass(&self) {
        self.0.send(()).unwrap();
        self.1.lock().unwrap().recv_timeout(DEADLINE).unwrap();
    }
}

fn router(gate: Gate) -> Router {
    let mut router = Router::new("work", "1.0");
    router
        .tool_blocking("gate", move |_: &mut BlockingCx<'_>, (): ()| {
            gate.pass();
            "passed"
        })
        .description("Waits");
    router.tool("quick", async |_: &mut Cx, (): ()| "quick").description("Answers");
    router
}

// covers: BASE-033
#[test]
fn server_goes_on_while_function_blocks() {
    with_timeout(|| {
        let (gate, begun, open) = gate();
        let mut served = Served::new(8, move || router(gate));
        served.send(&call_line(1, "gate"));
        begun.recv_timeout(DEADLINE).unwrap();
        served.send(&call_line(2, "quick"));
        assert_eq!(served.read()["id"], 2);
        open.send(()).unwrap();
        let answer = served.read();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&1.into(), &"passed".into()));
        served.finish();
    });
}

// covers: CANC-005
#[test]
fn cancelled_function_learns_it_and_keeps_its_place_until_its_end() {
    with_timeout(|| {
        let (gate, begun, open) = gate();
        let (tell, told) = mpsc::channel();
        let mut served = Served::new(1, move || {
            let mut router = Router::new("work", "1.0");
            let work = move |cx: &mut BlockingCx<'_>, (): ()| {
                let before = cx.checkpoint().is_err();
                gate.pass();
                // Neither the answer nor the panic reaches anybody.
                tell.send((before, cx.checkpoint().is_err(), cx.is_cancelled())).unwrap();
                panic!("on purpose, after the end of the call");
            };
            router.tool_blocking("gate", move |cx, arguments: ()| -> &str { work(cx, arguments) });
            router.tool("quick", async |_: &mut Cx, (): ()| "quick");
            router
        });
        served.send(&call_line(1, "gate"));
        begun.recv_timeout(DEADLINE).unwrap();
        served.send(&(cancel_line(1) + &call_line(2, "quick")));
        served.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut byte = [0];
        std::io::Read::read(&mut served.stream, &mut byte).expect_err("one handler at a time");
        served.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        open.send(()).unwrap();
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), (false, true, true));
        assert_eq!(served.read()["id"], 2, "the cancelled call is not answered");
        served.finish();
    });
}

#[test]
fn function_learns_that_a_time_limit_has_ended_its_call() {
    with_timeout(|| {
        let (tell, told) = mpsc::channel();
        let mut served = Served::new(1, move || {
            let mut router = Router::new("work", "1.0");
            let tell = tell.clone();
            router.tool_blocking("waits", move |cx: &mut BlockingCx<'_>, (): ()| -> &str {
                // The sleep ends with the wait of the handler.
                let is_told = cx.sleep(DEADLINE * 2).is_err();
                tell.send((is_told, cx.is_cancelled())).unwrap();
                "late"
            });
            router.tool("quick", async |_: &mut Cx, (): ()| "quick");
            router.layer(Timeout::new(Duration::from_millis(50)));
            router
        });
        served.send(&call_line(1, "waits"));
        assert_eq!(served.read()["result"]["isError"], true);
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), (true, true));
        // Its place is free again.
        served.send(&call_line(2, "quick"));
        assert_eq!(served.read()["id"], 2);
        served.finish();
    });
}

#[test]
fn what_is_inside_a_layer_starts_when_the_layer_polls_it() {
    with_timeout(|| {
        let (tell, told) = mpsc::channel();
        let mut served = Served::new(1, move || {
            let mut router = Router::new("work", "1.0");
            let started = tell.clone();
            router.tool("starts", move |_: &mut Cx, (): ()| {
                started.send("handler").unwrap();
                async { "started" }
            });
            router.layer(async_layer_fn(async move |cx, request, next| {
                drop(next.run(cx, request));
                tell.send("layer").unwrap();
                Err(RpcError::new(7, "closed").into())
            }));
            router
        });
        served.send(&call_line(1, "starts"));
        assert_eq!(served.read()["error"]["code"], 7);
        served.finish();
        assert_eq!(told.iter().collect::<Vec<_>>(), ["layer"]);
    });
}

#[test]
fn panic_of_function_fails_only_its_call_and_is_reported() {
    with_timeout(|| {
        let (failures, failed) = mpsc::channel();
        let mut served = Served::new(8, move || {
            let mut router = Router::new("work", "1.0");
            router.tool_blocking("panics", |_: &mut BlockingCx<'_>, (): ()| -> &str { panic!("on purpose") });
            router.tool_blocking("fails", |_: &mut BlockingCx<'_>, (): ()| Err::<(), _>("no such luck"));
            router.on_failure(move |_, failure| drop(failures.send(failure.to_string())));
            router
        });
        for id in 1..=2 {
            served.send(&call_line(id, "panics"));
            assert!(served.read()["error"]["message"].as_str().unwrap().contains("panicked"));
            assert!(failed.recv_timeout(DEADLINE).unwrap().contains("on purpose"));
        }
        served.send(&call_line(3, "fails"));
        let answer = served.read();
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(answer["result"]["content"][0]["text"], "no such luck");
        served.finish();
    });
}

// covers: PROG-001
#[test]
fn function_reports_progress() {
    with_timeout(|| {
        let (gate, begun, open) = gate();
        let mut served = Served::new(8, move || {
            let mut router = Router::new("work", "1.0");
            router.tool_blocking("counts", move |cx: &mut BlockingCx<'_>, (): ()| {
                cx.progress(Progress::new(1.0))?;
                gate.pass();
                Ok::<_, RpcError>("counted")
            });
            router
        });
        served.send(&call_line(7, "counts"));
        begun.recv_timeout(DEADLINE).unwrap();
        let report = served.read();
        assert_eq!(report["method"], "notifications/progress");
        assert_eq!(report["params"]["progressToken"], 7);
        assert_eq!(report["params"]["progress"].as_f64(), Some(1.0));
        open.send(()).unwrap();
        assert_eq!(served.read()["id"], 7);
        served.finish();
    });
}

/// Agrees to everything.
struct Agrees;

impl AsyncClientHandler for Agrees {
    async fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept([("ok", ElicitValue::Boolean(true))]))
    }
}

#[test]
fn function_asks_for_input() {
    with_timeout(|| {
        let make = || {
            let mut router = Router::new("work", "1.0");
            router.tool_blocking("asks", |cx: &mut BlockingCx<'_>, (): ()| {
                let form = ElicitSchema::default().field("ok", BooleanSchema::new());
                let answer = cx.elicit("go", "Shall it go on?", form)?;
                Ok::<_, RpcError>(format!("{:?}", answer.action))
            });
            router
        };
        let config =
            Config::new("me", "1.0").capabilities(Capabilities::new().with(Capability::ElicitationForm));
        let options = Client::options(config).handler(async_handler(Agrees));
        let (client, serving) = serve(make, options);
        let result = client.call_tool("asks", &serde_json::json!({})).unwrap();
        assert_eq!(result.content[0].as_text(), Some("Accept"));
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn any_handler_may_move_work_to_a_thread() {
    with_timeout(|| {
        let make = || {
            let mut router = Router::new("work", "1.0");
            let here = thread::current().id();
            let read = async move |cx: &mut Cx, target: &ResourceTarget<'_>| {
                let uri = target.uri.to_string();
                unblock(cx, move |_| format!("{uri}: {}", thread::current().id() != here)).await
            };
            router.resource(Resource::new("file://one", "one"), read);
            let ask = async |cx: &mut Cx, (): ()| {
                let first = unblock(cx, |_| 20).await;
                // A future that is dropped loses its value alone.
                futures_lite::future::poll_once(unblock(cx, |_| thread::sleep(Duration::from_millis(20))))
                    .await;
                format!("the answer is {}", first + unblock(cx, |_| 22).await)
            };
            router.prompt(Prompt::new("answer"), ask);
            router
        };
        let (client, serving) = serve(make, Client::options(Config::new("me", "1.0")));
        let read = client.read_resource("file://one").unwrap();
        let ResourceContents::Text(text) = &read.contents[0] else { panic!("{read:?}") };
        assert_eq!(text.text, "file://one: true");
        let prompt = client.get_prompt("answer", &serde_json::json!({})).unwrap();
        assert!(format!("{prompt:?}").contains("the answer is 42"), "{prompt:?}");
        client.close().unwrap();
        serving.join().unwrap().unwrap();
    });
}

/// The end of the server tells functions that go on.
#[test]
fn end_of_server_cancels_functions() {
    with_timeout(|| {
        let (tell, told) = mpsc::channel();
        let (gate, begun, open) = gate();
        let mut served = Served::new(8, move || {
            let mut router = Router::new("work", "1.0");
            router.tool_blocking("waits", move |cx: &mut BlockingCx<'_>, (): ()| {
                gate.pass();
                let _ = tell.send(cx.sleep(DEADLINE).is_err());
            });
            router
        });
        served.send(&call_line(1, "waits"));
        begun.recv_timeout(DEADLINE).unwrap();
        open.send(()).unwrap();
        // The client leaves; the server ends without waiting for the function.
        drop((served.stream, served.reader));
        served.serving.join().unwrap().unwrap();
        assert!(told.recv_timeout(DEADLINE).unwrap());
    });
}

/// Names are looked up on the threads for work that blocks.
#[cfg(feature = "http")]
#[test]
fn lookup_that_fails_names_host() {
    with_timeout(|| {
        // No resolver sends a query for this name.
        let options = Client::options(Config::new("me", "1.0"));
        let error = block_on(options.connect_url("http://a..b/mcp")).unwrap_err().to_string();
        assert!(error.contains("no address of a..b: "), "{error}");
    });
}
