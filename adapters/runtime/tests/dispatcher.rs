//! Handlers that run remote from the loop: their outcomes, and the calls that they leave unanswered.

use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Call, Config, Engine, Event, TaskLimits, TaskOptions, TaskTable};
use mcp_proto::{Anchor, Capabilities, Capability, Change, Entropy, Instant, Progress, RawJson, RpcError};
use mcp_runtime::server::{Answered, Cx, Dispatcher, HandlerFailure, RemoteCall, ServerLoop};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// An engine on a stream, without a loop.
#[derive(Debug)]
struct PipeServerLoop(pipe::Server);

impl ServerLoop for PipeServerLoop {
    fn engine(&mut self) -> &mut Engine {
        self.0.engine()
    }
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn tick(&mut self) -> Instant {
        Instant::ZERO
    }
    fn poll_event_during_call(&mut self) -> Option<Event> {
        unreachable!("no handler runs on the loop")
    }
    fn defer(&mut self, _: Event) {
        unreachable!("no handler runs on the loop")
    }
    fn write(&mut self) -> bool {
        unreachable!("no handler runs on the loop")
    }
    fn wait(&mut self, _: Instant) {
        unreachable!("no handler runs on the loop")
    }
}

struct DispatcherBench {
    server_loop: PipeServerLoop,
    dispatcher: Dispatcher,
    failures: Vec<HandlerFailure>,
}

impl DispatcherBench {
    fn new(max_running: usize) -> Self {
        let capabilities = Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::ToolsListChanged)
            .with(Capability::Resources)
            .with(Capability::ResourceSubscriptions);
        let config = Config::new("dispatcher", "1.0").capabilities(capabilities);
        let server_loop = PipeServerLoop(pipe::Server::new(Arc::new(config), Instant::ZERO));
        Self { server_loop, dispatcher: Dispatcher::new(max_running), failures: Vec::new() }
    }

    fn read(&mut self, line: &str) {
        self.server_loop.0.handle_input(Instant::ZERO, line.as_bytes());
        while let Some(event) = self.server_loop.0.poll_event(Instant::ZERO) {
            if let Some(other) = self.dispatcher.accept_event(&mut self.server_loop, event) {
                assert!(!matches!(other, Event::Call(_) | Event::Cancelled { .. }), "{other:?}");
            }
        }
    }

    fn call(&mut self, id: u32) {
        self.read(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"_meta\":{{\"progressToken\":{id},{META}}}}}}}\n"
        ));
    }

    /// Creates a task, and returns its id.
    fn begin_task(&mut self, id: u32) -> String {
        let meta = META.replace(
            "Capabilities\":{}",
            r#"Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        );
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"_meta\":{{{meta}}}}}}}\n"
        );
        self.server_loop.0.handle_input(Instant::ZERO, line.as_bytes());
        let Some(Event::Call(call)) = self.server_loop.0.poll_event(Instant::ZERO) else { panic!("no call") };
        let mut tasks = self.server_loop.engine().tasks(Instant::ZERO);
        tasks.begin(&call, TaskOptions::new()).unwrap();
        self.read("");
        let written = self.take_written();
        let id = written.split_once("\"taskId\":\"").and_then(|(_, rest)| rest.split_once('"'));
        id.unwrap_or_else(|| panic!("{written}")).0.into()
    }

    fn cancel_task(&mut self, id: &str) {
        let meta = META.replace(
            "Capabilities\":{}",
            r#"Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        );
        self.read(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"tasks/cancel\",\"params\":{{\"taskId\":\"{id}\",\"_meta\":{{{meta}}}}}}}\n"
        ));
        let written = self.take_written();
        assert!(written.contains("\"id\":\"c\",\"result\""), "{written}");
    }

    fn cancel(&mut self, id: u32) {
        self.read(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
        ));
    }

    fn next_call(&mut self) -> Option<RemoteCall> {
        self.dispatcher.next_call(&mut self.server_loop)
    }

    /// Processes messages of the handlers and returns the bytes written since the last call.
    fn take_written(&mut self) -> String {
        let failures = &mut self.failures;
        self.dispatcher
            .process_messages(&mut self.server_loop, &mut |_, failure| failures.push(failure.clone()));
        let mut written = String::new();
        while !self.server_loop.0.transmit().is_empty() {
            written.push_str(core::str::from_utf8(self.server_loop.0.transmit()).unwrap());
            let n = self.server_loop.0.transmit().len();
            self.server_loop.0.consume(n);
        }
        written
    }
}

fn ok(cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
    cx.complete(&CallToolResult::text("ok"))
}

#[test]
fn calls_are_answered_from_other_threads_in_any_order() {
    let mut bench = DispatcherBench::new(2);
    for id in 1..=3 {
        bench.call(id);
    }
    let (first, second) = (bench.next_call().unwrap(), bench.next_call().unwrap());
    assert!(bench.next_call().is_none() && bench.dispatcher.running_count() == 2, "no more than two run");
    assert_eq!(bench.take_written(), "");
    thread::spawn(|| second.run(ok)).join().unwrap();
    let written = bench.take_written();
    assert!(written.contains("\"id\":2") && written.contains("\"text\":\"ok\""), "{written}");
    let third = bench.next_call().unwrap();
    assert!(bench.next_call().is_none());
    first.run(ok);
    third.run(|cx, _| cx.complete_raw(&RawJson::new(r#"{"content":[],"x":1}"#).unwrap()));
    let written = bench.take_written();
    assert!(written.contains("\"id\":1") && written.contains("\"x\":1"), "{written}");
    assert!(
        bench.dispatcher.running_count() == 0
            && bench.dispatcher.has_no_senders()
            && bench.failures.is_empty()
    );
}

#[test]
fn failing_handler_still_answers_its_call() {
    let mut bench = DispatcherBench::new(9);
    let mut end = |handler: &dyn Fn(RemoteCall)| {
        bench.call(7);
        handler(bench.next_call().unwrap());
        let written = bench.take_written();
        assert!(written.contains("\"id\":7") && written.contains("\"error\""), "{written}");
        bench.failures.pop()
    };
    assert!(matches!(end(&|work| work.run(|_, _| panic!("on purpose"))), Some(HandlerFailure::Panicked(_))));
    assert_eq!(end(&drop), Some(HandlerFailure::Unanswered));
    assert!(end(&|work| work.run(|_, _| Err(RpcError::invalid_params("no")))).is_none());
    assert!(matches!(end(&|work| work.run(|cx, _| cx.complete(&[1]))), Some(HandlerFailure::Encode(_))));
    // Violations of protocol rules are only found on the loop.
    let reserved = r#"{"content":[],"_meta":{"io.modelcontextprotocol/mine":1}}"#;
    let reserved = RawJson::new(reserved).unwrap();
    assert!(matches!(
        end(&|work| work.run(|cx, _| cx.complete_raw(&reserved))),
        Some(HandlerFailure::Refused(_))
    ));
}

#[test]
fn cancellation_reaches_running_and_removes_waiting_calls() {
    let mut bench = DispatcherBench::new(1);
    bench.call(1);
    bench.call(2);
    let running = bench.next_call().unwrap();
    let handler = thread::spawn(|| {
        running.run(|cx, _| {
            assert!(!cx.is_cancelled());
            // Ends as soon as it is cancelled.
            assert!(cx.sleep(Duration::from_secs(600)).is_err() && cx.is_cancelled());
            cx.complete(&CallToolResult::text("too late"))
        });
    });
    bench.cancel(1);
    bench.cancel(2);
    handler.join().unwrap();
    assert_eq!(bench.take_written(), "", "a cancelled call is not answered");
    assert!(bench.next_call().is_none() && bench.dispatcher.running_count() == 0);
    // A handler that gives up because of a cancellation is no failure.
    bench.call(3);
    let running = bench.next_call().unwrap();
    bench.cancel(3);
    drop(running);
    assert_eq!(bench.take_written(), "");
    assert!(bench.failures.is_empty());
}

// covers: TASK-036
#[test]
fn cancelled_run_of_task_keeps_its_place_until_its_end() {
    let mut bench = DispatcherBench::new(2);
    let limits = TaskLimits::new().max_running(2);
    let table = TaskTable::new(Entropy::new([7; 32], 0), Anchor::new(Instant::ZERO, 0)).limits(limits);
    bench.server_loop.engine().set_tasks(Instant::ZERO, table);
    let ids = [1, 2, 3, 4].map(|id| bench.begin_task(id));
    let (first, second) = (bench.next_call().unwrap(), bench.next_call().unwrap());
    assert!(bench.next_call().is_none(), "the engine lets two run");
    for id in &ids[..2] {
        bench.cancel_task(id);
    }
    assert!(first.is_cancelled() && second.is_cancelled());
    assert!(bench.next_call().is_none(), "the cancelled ones have not ended");
    // Other calls have their own places, and are not delayed.
    bench.call(5);
    bench.call(6);
    assert!(bench.next_call().is_some_and(|call| !call.running().call().is_task_run()));
    assert_eq!(bench.dispatcher.running_tasks(), 2);
    // A run that waits for a place can be cancelled, too.
    bench.cancel_task(&ids[2]);
    drop(first);
    bench.take_written();
    let fourth = bench.next_call().unwrap();
    let task = fourth.running().call().task_id().unwrap();
    assert_eq!(task.as_str(), ids[3]);
    assert!(!fourth.is_cancelled() && bench.dispatcher.running_tasks() == 2);
    drop((second, fourth));
    bench.take_written();
    assert_eq!(bench.dispatcher.running_tasks(), 0);
}

#[test]
fn fast_progress_reports_are_coalesced() {
    let mut bench = DispatcherBench::new(1);
    bench.call(1);
    bench.next_call().unwrap().run(|cx, _| {
        for n in 1..=5_000 {
            cx.progress(Progress::new(n.into()))?;
        }
        // More than the queue can hold.
        for _ in 0..5_000 {
            cx.publish(&Change::Tools);
        }
        cx.complete(&CallToolResult::text("ok"))
    });
    let written = bench.take_written();
    let progress: Vec<_> = written.lines().filter(|line| line.contains("\"progress\"")).collect();
    assert!(progress.len() == 1 && progress[0].contains("5000"), "{written}");
    assert!(written.contains("\"id\":1"), "{written}");
}

#[test]
fn changes_are_published_even_if_the_queue_is_full() {
    let mut bench = DispatcherBench::new(1);
    let listen = |id, uri| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"{uri}\"]}},\"_meta\":{{{META}}}}}}}\n"
        )
    };
    bench.read(&listen(1, "file:///1"));
    let written = bench.take_written();
    assert!(written.contains("acknowledged"), "{written}");
    for name in ["r", &"resource".repeat(100)] {
        bench.call(2);
        bench.next_call().unwrap().run(|cx, _| {
            for n in 0..5_000 {
                cx.publish(&Change::Resource(format!("file:///{name}/{n}")));
            }
            cx.publish(&Change::Tools);
            cx.publish(&Change::Resource("file:///1".into()));
            cx.complete(&CallToolResult::text("ok"))
        });
        let written = bench.take_written();
        assert!(written.contains("list_changed") && written.contains("\"file:///1\""), "{written}");
        let commands = bench.dispatcher.commands();
        for _ in 0..1024 {
            commands.send(|_| ()).unwrap();
        }
        assert!(commands.send(|_| ()).is_err(), "the queue is full");
        commands.publish(&Change::Tools).unwrap();
        assert!(bench.take_written().contains("list_changed"));
    }
}
