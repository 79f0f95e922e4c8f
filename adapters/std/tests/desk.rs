//! Handlers away from the loop: what they report, and what becomes of calls whose handlers do not

extern crate alloc;

use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{Capabilities, Capability, Change, Instant, Progress, RawJson, RpcError};
use mcp_std::serve::{Answered, Cx, Desk, Failure, Host, Remote};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// An engine on a stream, without a loop
#[derive(Debug)]
struct Still(pipe::Server);

impl Host for Still {
    fn engine(&mut self) -> &mut Engine {
        self.0.engine()
    }
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn tick(&mut self) -> Instant {
        Instant::ZERO
    }
    fn next_meanwhile(&mut self) -> Option<Event> {
        unreachable!("nobody runs here")
    }
    fn defer(&mut self, _: Event) {
        unreachable!("nobody runs here")
    }
    fn write(&mut self) -> bool {
        unreachable!("nobody runs here")
    }
    fn wait(&mut self, _: Instant) {
        unreachable!("nobody runs here")
    }
}

struct Bench {
    still: Still,
    desk: Desk,
    failures: Vec<Failure>,
}

impl Bench {
    fn new(most: usize) -> Self {
        let capabilities = Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::ToolsListChanged)
            .with(Capability::Resources)
            .with(Capability::ResourceSubscriptions);
        let config = Config::new("desk", "1.0").capabilities(capabilities);
        let still = Still(pipe::Server::new(Arc::new(config), Instant::ZERO));
        Self { still, desk: Desk::new(most), failures: Vec::new() }
    }

    fn read(&mut self, line: &str) {
        self.still.0.handle_input(Instant::ZERO, line.as_bytes());
        while let Some(event) = self.still.0.poll_event(Instant::ZERO) {
            if let Some(other) = self.desk.take_in(event) {
                assert!(!matches!(other, Event::Call(_) | Event::Cancelled { .. }), "{other:?}");
            }
        }
    }

    fn call(&mut self, id: u32) {
        self.read(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"_meta\":{{\"progressToken\":{id},{META}}}}}}}\n"
        ));
    }

    fn cancel(&mut self, id: u32) {
        self.read(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
        ));
    }

    fn next(&mut self) -> Option<Remote> {
        self.desk.next_call(&mut self.still)
    }

    /// What was written since
    fn written(&mut self) -> String {
        let failures = &mut self.failures;
        self.desk.apply(&mut self.still, &mut |_, failure| failures.push(failure.clone()));
        let mut written = String::new();
        while !self.still.0.transmit().is_empty() {
            written.push_str(core::str::from_utf8(self.still.0.transmit()).unwrap());
            let n = self.still.0.transmit().len();
            self.still.0.consume(n);
        }
        written
    }
}

fn ok(cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
    cx.complete(&CallToolResult::text("ok"))
}

#[test]
fn answers_come_from_other_threads_in_any_order() {
    let mut bench = Bench::new(2);
    for id in 1..=3 {
        bench.call(id);
    }
    let (first, second) = (bench.next().unwrap(), bench.next().unwrap());
    assert!(bench.next().is_none() && bench.desk.running() == 2, "no more than two run");
    assert_eq!(bench.written(), "");
    thread::spawn(|| second.run(ok)).join().unwrap();
    let written = bench.written();
    assert!(written.contains("\"id\":2") && written.contains("\"text\":\"ok\""), "{written}");
    let third = bench.next().unwrap();
    assert!(bench.next().is_none());
    first.run(ok);
    third.run(|cx, _| cx.complete_raw(&RawJson::new(r#"{"content":[],"x":1}"#).unwrap()));
    let written = bench.written();
    assert!(written.contains("\"id\":1") && written.contains("\"x\":1"), "{written}");
    assert!(bench.desk.running() == 0 && bench.desk.is_alone() && bench.failures.is_empty());
}

#[test]
fn nothing_that_a_handler_does_leaves_a_call_open() {
    let mut bench = Bench::new(9);
    let mut end = |handler: &dyn Fn(Remote)| {
        bench.call(7);
        handler(bench.next().unwrap());
        let written = bench.written();
        assert!(written.contains("\"id\":7") && written.contains("\"error\""), "{written}");
        bench.failures.pop()
    };
    assert!(matches!(end(&|work| work.run(|_, _| panic!("on purpose"))), Some(Failure::Panicked(_))));
    assert_eq!(end(&drop), Some(Failure::Unanswered));
    assert!(end(&|work| work.run(|_, _| Err(RpcError::invalid_params("no")))).is_none());
    assert!(matches!(end(&|work| work.run(|cx, _| cx.complete(&[1]))), Some(Failure::Encode(_))));
    // What only the protocol may say is found out on the loop.
    let reserved = r#"{"content":[],"_meta":{"io.modelcontextprotocol/mine":1}}"#;
    let reserved = RawJson::new(reserved).unwrap();
    assert!(matches!(end(&|work| work.run(|cx, _| cx.complete_raw(&reserved))), Some(Failure::Refused(_))));
}

#[test]
fn a_cancellation_reaches_who_runs_and_takes_out_who_waits() {
    let mut bench = Bench::new(1);
    bench.call(1);
    bench.call(2);
    let running = bench.next().unwrap();
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
    assert_eq!(bench.written(), "", "nobody waits for it");
    assert!(bench.next().is_none() && bench.desk.running() == 0);
    // One that gives up because of it is no failure.
    bench.call(3);
    let running = bench.next().unwrap();
    bench.cancel(3);
    drop(running);
    assert_eq!(bench.written(), "");
    assert!(bench.failures.is_empty());
}

#[test]
fn reports_that_come_faster_than_the_loop_leave_the_latest() {
    let mut bench = Bench::new(1);
    bench.call(1);
    bench.next().unwrap().run(|cx, _| {
        for n in 1..=5_000 {
            cx.progress(Progress::new(n.into()))?;
        }
        // More than the loop has room for.
        for _ in 0..5_000 {
            cx.publish(&Change::Tools);
        }
        cx.complete(&CallToolResult::text("ok"))
    });
    let written = bench.written();
    let progress: Vec<_> = written.lines().filter(|line| line.contains("\"progress\"")).collect();
    assert!(progress.len() == 1 && progress[0].contains("5000"), "{written}");
    assert!(written.contains("\"id\":1"), "{written}");
}

#[test]
fn what_changes_is_told_however_much_waits() {
    let mut bench = Bench::new(1);
    let listen = |id, uri| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"{uri}\"]}},\"_meta\":{{{META}}}}}}}\n"
        )
    };
    bench.read(&listen(1, "file:///1"));
    let written = bench.written();
    assert!(written.contains("acknowledged"), "{written}");
    for name in ["r", &"resource".repeat(100)] {
        bench.call(2);
        bench.next().unwrap().run(|cx, _| {
            for n in 0..5_000 {
                cx.publish(&Change::Resource(format!("file:///{name}/{n}")));
            }
            cx.publish(&Change::Tools);
            cx.publish(&Change::Resource("file:///1".into()));
            cx.complete(&CallToolResult::text("ok"))
        });
        let written = bench.written();
        assert!(written.contains("list_changed") && written.contains("\"file:///1\""), "{written}");
        let commands = bench.desk.commands();
        for _ in 0..1024 {
            commands.send(|_| ()).unwrap();
        }
        assert!(commands.send(|_| ()).is_err(), "no more than that wait");
        commands.publish(Change::Tools).unwrap();
        assert!(bench.written().contains("list_changed"));
    }
}
