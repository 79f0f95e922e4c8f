//! Messages of the engine itself while there is no memory for them: each is sent later, or refused by its name, and none is lost.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Value, json};

use super::request_check::MessageSource;
use super::tasks::requests::TaskOptions;
use super::tasks::table::TaskTable;
use crate::calls::inbound::{Progress, SendStatus};
use crate::entropy::Entropy;
use crate::model::{ElicitSchema, Implementation, LoggingLevel};
use crate::rpc::envelope::Envelope;
use crate::server::{Call, Config, Engine, Event, InputRequired};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::{Anchor, Instant};
use crate::{Capabilities, Capability, Limits};

const SECOND: Duration = Duration::from_secs(1);

/// A server with one client of 2025-11-25 on a byte stream.
struct Device {
    engine: Engine,
    channel: ChannelId,
    now: Instant,
    limits: Limits,
    calls: Vec<Call>,
}

impl Device {
    #[expect(deprecated, reason = "supported until its removal")]
    fn new(configure: impl FnOnce(Config) -> Config) -> Self {
        let limits = Limits { progress_burst: 1, progress_rate: 1, ..Limits::default() };
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
        let config = Config::new("s", "1").capabilities(capabilities).limits(limits.clone());
        let mut engine = Engine::new(Arc::new(configure(config)));
        engine.set_tasks(Instant::ZERO, TaskTable::new(Entropy::new([5; 32], 0), Anchor::default()));
        let channel = engine.open_channel(Instant::ZERO);
        let mut device = Self { engine, channel, now: Instant::ZERO, limits, calls: Vec::new() };
        device.feed(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"},
            "capabilities": {"elicitation": {}},
        }}));
        device.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        device.sent();
        device
    }

    fn feed(&mut self, message: &Value) {
        self.engine.handle_message(self.now, self.channel, message.to_string().into());
        self.settle();
    }

    /// Answers a request that was taken while there was memory for it.
    fn answer(&mut self, message: &Value) {
        let frame = message.to_string().into();
        let Envelope { id, method, params, .. } = self.engine.parse(&frame).expect("a request");
        let (channel, id) = (self.channel.0, id.expect("an id"));
        let source = MessageSource { channel, root: channel, batch: None, waited: false, header_check: None };
        self.engine.answer_in_engine(source, &frame, &id, &method, &params);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            if let Event::Call(call) = event {
                self.calls.push(call);
            }
        }
        self.engine.check_sums();
    }

    fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.engine.handle_timeout(self.now);
            self.settle();
        }
        self.now = until;
    }

    /// Takes what was sent.
    fn sent(&mut self) -> Vec<Value> {
        let mut sent = Vec::new();
        while let Some(message) = self.engine.outbox(self.channel).and_then(|outbox| outbox.pop_message()) {
            sent.push(serde_json::from_slice(&message).expect("JSON"));
        }
        sent
    }

    fn methods(&mut self) -> Vec<String> {
        self.sent().iter().map(|message| message["method"].as_str().unwrap_or_default().into()).collect()
    }

    /// Leaves the outbox the room of a short message, and no memory for its growth.
    fn exhaust(&mut self) {
        self.exhaust_but(0);
    }

    /// Leaves the outbox so many bytes more.
    fn exhaust_but(&mut self, extra: usize) {
        let none = usize::MAX / 4;
        let limits = Limits { memory_reserve: none, max_id: 8, max_uri: 0, ..self.limits.clone() };
        let room = limits.message_room() + extra;
        self.engine.endpoint.channels.get_mut(self.channel.0).expect("open").outbox.reserve(room);
        self.engine.endpoint.limits = Arc::new(limits);
    }

    /// Sets the limit of the outbox to so many bytes beyond what is in that of a channel.
    fn limit_outbox(&mut self, channel: ChannelId, spare: usize) {
        let outbox_high_water = self.engine.outbox(channel).expect("open").len() + spare;
        self.engine.endpoint.limits = Arc::new(Limits { outbox_high_water, ..self.limits.clone() });
    }

    /// Leaves no memory for any message.
    fn exhaust_all(&mut self) {
        let none = usize::MAX / 4;
        self.engine.endpoint.limits =
            Arc::new(Limits { memory_reserve: none, max_uri: none, ..self.limits.clone() });
    }

    fn restore(&mut self) {
        self.engine.endpoint.limits = Arc::new(self.limits.clone());
    }

    /// Begins a task. Returns its id and the call that runs it.
    fn begin_task(&mut self) -> (String, Call) {
        let params = json!({"name": "t", "task": {}, "_meta": {"progressToken": "p"}});
        self.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let call = self.calls.pop().expect("a call");
        self.engine.tasks(self.now).begin(&call, TaskOptions::new()).expect("room");
        self.settle();
        let created = self.sent().pop().expect("an answer");
        let id = created["result"]["task"]["taskId"].as_str().expect("a task").into();
        (id, self.calls.pop().expect("a run"))
    }
}

// covers: PING-004
#[test]
fn keep_alive_goes_on_after_a_ping_without_memory() {
    let mut device = Device::new(|config| config.keep_alive_ping(SECOND, 0));
    device.exhaust_all();
    device.advance(3 * SECOND);
    assert!(device.sent().is_empty());
    device.restore();
    device.advance(SECOND);
    assert_eq!(device.methods(), ["ping"]);
}

#[test]
fn held_log_message_without_memory_is_sent_later() {
    #[expect(deprecated, reason = "supported until its removal")]
    fn log(device: &mut Device, text: &str) -> SendStatus {
        let (engine, level) = (&mut device.engine, LoggingLevel::Error);
        engine.log_session(device.now, device.channel, &level, None, text).expect("open")
    }
    let mut device = Device::new(|config| config);
    assert_eq!(log(&mut device, "a"), SendStatus::Queued);
    assert_eq!(log(&mut device, &"b".repeat(9_000)), SendStatus::Deferred);
    assert_eq!(device.sent().len(), 1);
    device.exhaust();
    device.advance(3 * SECOND);
    assert!(device.sent().is_empty());
    device.restore();
    device.advance(SECOND);
    let sent = device.sent();
    assert_eq!(sent.len(), 1, "the message is lost");
    assert_eq!(sent[0]["params"]["data"].as_str().map(str::len), Some(9_000));
}

// covers: PROG-007, PROG-013
#[test]
fn progress_of_a_task_without_room_or_rate_is_sent_later() {
    for cause in ["memory", "room", "rate"] {
        let mut device = Device::new(|config| config);
        let (_, run) = device.begin_task();
        let report = |device: &mut Device, value: f64| {
            let progress = Progress::new(value).with_message("m".repeat(9_000));
            device.engine.progress(device.now, run.id(), progress).expect("open")
        };
        match cause {
            "memory" => device.exhaust(),
            "room" => {
                let limits = Limits { outbox_high_water: 0, ..device.limits.clone() };
                device.engine.endpoint.limits = Arc::new(limits);
            }
            _ => {
                // The burst is one.
                assert_eq!(report(&mut device, 1.0), SendStatus::Queued);
                assert_eq!(device.sent().len(), 1);
            }
        }
        assert_eq!(report(&mut device, 2.0), SendStatus::Deferred, "{cause}");
        assert_eq!(report(&mut device, 3.0), SendStatus::Deferred, "{cause}");
        assert_eq!(report(&mut device, 2.5), SendStatus::Dropped, "{cause}");
        device.advance(SECOND / 2);
        assert!(device.sent().is_empty(), "{cause}");
        device.restore();
        device.advance(SECOND);
        let sent = device.sent();
        assert_eq!(sent.len(), 1, "{cause}");
        assert_eq!(
            (&sent[0]["params"]["progress"], &sent[0]["params"]["progressToken"]),
            (&json!(3), &json!("p"))
        );
        assert!(sent[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"].is_object(), "{cause}");
    }
}

// covers: TASK-021
#[test]
fn question_of_a_task_without_memory_is_asked_later() {
    let mut device = Device::new(|config| config);
    let (id, run) = device.begin_task();
    let mut input = InputRequired::new();
    assert!(input.elicit(&run, "q", "?", ElicitSchema::default()).is_err());
    device.engine.require_input(device.now, &run, &input).expect("the client answers forms");
    device.settle();
    device.sent();
    // It waits for a place, which the exhausted device has.
    device.engine.endpoint.limits = Arc::new(Limits { max_pending_calls: 0, ..device.limits.clone() });
    device.feed(&json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": id}}));
    assert!(!device.methods().contains(&"elicitation/create".into()));
    device.exhaust_all();
    device.advance(3 * SECOND);
    assert!(device.engine.endpoint.outbound.calls.is_empty(), "nobody answers what was not sent");
    device.restore();
    device.advance(SECOND);
    assert_eq!(device.methods(), ["elicitation/create"]);
}

// covers: TASK-025
#[test]
fn status_of_a_task_is_told_below_the_limit_of_the_outbox() {
    for (spare, methods) in [(0, &[""][..]), (1, &["", "notifications/tasks/status"])] {
        let mut device = Device::new(|config| config);
        let (_, run) = device.begin_task();
        device.feed(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        device.limit_outbox(device.channel, spare);
        assert!(device.engine.tasks(device.now).working(run.id(), "half"));
        assert_eq!(device.methods(), methods);
    }
}

// covers: TASK-033, TASK-037
#[test]
fn progress_of_a_task_takes_the_first_of_its_streams_with_room() {
    for (spare, expected) in [(0, [false, true]), (1, [true, false])] {
        let mut device = Device::new(|config| config);
        let (id, run) = device.begin_task();
        let streams = [2, 3].map(|request| {
            let (session, owner) = (Some(device.channel.0), Key { slot: 0, generation: 0 });
            let stream = device.engine.exchanges().open_channel(device.now, session, owner, <_>::default());
            let params = json!({"taskId": id});
            let request =
                json!({"jsonrpc": "2.0", "id": request, "method": "tasks/result", "params": params});
            device.engine.handle_message(device.now, ChannelId(stream), request.to_string().into());
            ChannelId(stream)
        });
        assert!(device.engine.endpoint.send(streams[0].0, 0, |out| out.extend_from_slice(b"{}\n")));
        device.limit_outbox(streams[0], spare);
        let sent = device.engine.progress(device.now, run.id(), Progress::new(1.0));
        assert_eq!(sent, Ok(SendStatus::Queued));
        let has_progress = |stream: ChannelId| {
            let text = device.engine.peek_outbox(stream);
            text.windows(10).any(|part| part == b"\"progress\"")
        };
        assert_eq!(streams.map(has_progress), expected, "{spare}");
    }
}

// covers: TASK-108
#[test]
fn answers_about_a_task_fit_into_the_room_that_is_made_for_them_which_is_little_more() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let request = |id: i64, method: &str, member: &str, value: &str| {
        let params = json!({member: value, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    // Begins a call, which becomes a task. Escaped, each byte of its message is six.
    let with_call = || {
        let mut device = Device::new(|config| config.info(Implementation::new("s".repeat(3_000), "1")));
        device.feed(&request(1, "tools/call", "name", "t"));
        let call = device.calls.pop().expect("a call");
        (device, call)
    };
    let begin = |device: &mut Device, call: &Call| {
        let options = TaskOptions::new().message("\u{1}".repeat(1_000));
        device.engine.tasks(device.now).begin(call, options).expect("room");
        device.settle();
    };
    let get = |device: &mut Device| {
        let answer = device.sent().pop().expect("an answer");
        request(2, "tasks/get", "taskId", answer["result"]["taskId"].as_str().expect("a task"))
    };
    let outbox = |device: &mut Device| {
        let outbox = device.engine.outbox(device.channel).expect("open");
        (outbox.len(), outbox.capacity())
    };
    for is_creation in [true, false] {
        let least = (0..32_768).step_by(256).find_map(|extra| {
            let (mut device, call) = with_call();
            let mut asked = None;
            if !is_creation {
                begin(&mut device, &call);
                asked = Some(get(&mut device));
                // The outbox of this one is large by now.
                device.channel = device.engine.open_channel(device.now);
            }
            device.exhaust_but(extra);
            let (_, made) = outbox(&mut device);
            match asked {
                None => begin(&mut device, &call),
                Some(request) => device.answer(&request),
            }
            let (length, room) = outbox(&mut device);
            device.sent().pop()?.get("result")?;
            assert_eq!(room, made, "there is no memory for {length} bytes");
            Some((length, room))
        });
        let (length, room) = least.expect("an answer");
        assert!((length..length + 4_096).contains(&room), "{is_creation} {length} {room}");
    }
    let (mut device, call) = with_call();
    device.engine.endpoint.limits = Arc::new(Limits { memory_reserve: 1, ..device.limits.clone() });
    begin(&mut device, &call);
    for is_creation in [true, false] {
        let (length, room) = outbox(&mut device);
        assert!(length > 9_000 && room < 65_536, "{length} {room}");
        if is_creation {
            let request = get(&mut device);
            device.feed(&request);
        }
    }
}
