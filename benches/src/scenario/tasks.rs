//! Tool calls as tasks.

use core::hint::black_box;
use core::time::Duration;

use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Event, TaskLimits, TaskOptions, TaskTable};
use mcp_proto::{Anchor, Entropy, Instant};

use super::memory::heap_growth;
use super::server::config;
use super::{EchoArguments, Footprint, Scenario, TEXT, TIME_STEP, advance};
use crate::heap;
use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra};

const EXTENSION: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A server with tasks on a byte stream.
#[derive(Debug)]
struct TaskServer {
    pipe: Server,
    now: Instant,
    /// Request that creates a task.
    create: Vec<u8>,
    /// Requests that poll and collect, and the position of the id in them.
    polls: [(Vec<u8>, usize); 2],
}

impl TaskServer {
    fn new(era: WireEra, limits: TaskLimits) -> Self {
        let mut pipe = Server::new(config(), Instant::ZERO);
        let table = TaskTable::new(Entropy::new([7; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400));
        pipe.engine().set_tasks(Instant::ZERO, table.limits(limits));
        let line = String::from_utf8(RequestLine::new(era, TEXT).line().to_vec()).expect("UTF-8");
        let create = match era {
            WireEra::Modern => line.replace("Capabilities\":{}", &format!("Capabilities\":{EXTENSION}")),
            WireEra::Legacy => line.replace(",\"arguments\"", ",\"task\":{},\"arguments\""),
        };
        let collect = if era == WireEra::Legacy { "tasks/result" } else { "tasks/get" };
        let polls = ["tasks/get", collect].map(|method| poll(era, method));
        let mut server = Self { pipe, now: Instant::ZERO, create: create.into_bytes(), polls };
        if era == WireEra::Legacy {
            for message in [INITIALIZE, INITIALIZED] {
                server.pipe.handle_input(server.now, &[message, b"\n"].concat());
                while server.pipe.poll_event(server.now).is_some() {}
            }
            server.take_output();
        }
        server
    }

    /// Creates a task. Returns its id, and the call that runs it if it has its turn.
    fn begin(&mut self, ttl: Duration) -> (String, Option<Call>) {
        self.pipe.handle_input(self.now, black_box(&self.create));
        let Some(Event::Call(call)) = self.pipe.poll_event(self.now) else { panic!("a call") };
        let options = TaskOptions::new().ttl(ttl);
        self.pipe.engine().tasks(self.now).begin(&call, options).expect("room");
        drop(call);
        let run = match self.pipe.poll_event(self.now) {
            Some(Event::Call(run)) => Some(run),
            _ => None,
        };
        let sent = self.pipe.transmit();
        let at = memchr::memmem::find(sent, b"\"taskId\":\"").expect("a task") + 10;
        let id = String::from_utf8(sent[at..at + 22].to_vec()).expect("ASCII");
        self.take_output();
        (id, run)
    }

    /// Polls (0) or collects (1).
    fn request(&mut self, which: usize, id: &str) {
        let (line, at) = &mut self.polls[which];
        line[*at..*at + 22].copy_from_slice(id.as_bytes());
        self.pipe.handle_input(self.now, black_box(line));
        assert!(self.pipe.poll_event(self.now).is_none(), "the engine answers");
        assert!(self.take_output() > 100, "an answer");
    }

    fn take_output(&mut self) -> usize {
        let n = black_box(self.pipe.transmit()).len();
        self.pipe.consume(n);
        n
    }
}

/// Returns a request about a task, and the position of the id.
fn poll(era: WireEra, method: &str) -> (Vec<u8>, usize) {
    let meta = match era {
        WireEra::Legacy => String::new(),
        WireEra::Modern => {
            let declared = format!("Capabilities\":{EXTENSION}");
            format!(",{}", crate::wire::modern().replace("Capabilities\":{}", &declared))
        }
    };
    let id = "A".repeat(22);
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"{method}\",\"params\":{{\"taskId\":\"{id}\"{meta}}}}}\n"
    );
    let at = line.find(&id).expect("the id");
    (line.into_bytes(), at)
}

/// A task that is created, polled, finished and collected.
#[derive(Debug)]
pub struct TaskRoundTrip(TaskServer);

impl TaskRoundTrip {
    /// Returns the scenario in its steady state, with about a hundred tasks that have ended.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let mut scenario = Self(TaskServer::new(era, TaskLimits::new()));
        for _ in 0..300 {
            scenario.run_once();
        }
        scenario
    }
}

impl Scenario for TaskRoundTrip {
    fn run_once(&mut self) {
        let server = &mut self.0;
        advance(&mut server.now, TIME_STEP);
        server.pipe.handle_timeout(server.now);
        let (id, run) = server.begin(TIME_STEP * 100);
        let run = run.expect("its turn");
        server.request(0, &id);
        let tool = run.tool_call().expect("a tool");
        let arguments: EchoArguments<'_> = tool.parse().expect("arguments");
        let result = CallToolResult::text(arguments.text);
        server.pipe.engine().complete(server.now, run.id(), &result).expect("open");
        server.request(1, &id);
    }
}

/// Returns the memory per task that waits for its turn, beyond the bytes of its parameters.
#[must_use]
pub fn waiting_tasks(era: WireEra, n: usize) -> Footprint {
    let limits = TaskLimits::new()
        .max_running(1)
        .max_tasks(n + 1)
        .max_tasks_per_owner(n + 1)
        .max_bytes(usize::MAX)
        .max_bytes_per_owner(usize::MAX)
        .max_unowned_tasks(n + 1)
        .max_unowned_bytes(usize::MAX);
    let mut server = TaskServer::new(era, limits);
    let _run = server.begin(Duration::from_secs(60));
    let before = heap::snapshot().live;
    for _ in 0..n {
        let (_, run) = server.begin(Duration::from_secs(60));
        assert!(run.is_none(), "one runs");
    }
    // The arguments are what the client sent: name and text.
    let arguments = r#"{"name":"echo","arguments":{"text":""}}"#.len() + TEXT;
    Footprint { heap: heap_growth(before) / n as f64 - arguments as f64, inline: 0 }
}
