//! Sessions of two servers whose store fails for a while, without sockets.

use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{thread, time};

use mcp_proto::http::server::{Config, Connection, Event, KeptCall};
use mcp_proto::{Capabilities, Capability, Change, Entropy, server};
use mcp_std::session_store::{MemorySessionStore, SessionName, WatchReceiver};

use super::seal::name_of;
use super::*;

/// A store whose records, or whose messages, can be out of reach. It can tell which processes have ended.
#[derive(Clone, Default)]
pub(super) struct Failing(Arc<FailingStore>);

#[derive(Default)]
struct FailingStore {
    store: MemorySessionStore,
    records_fail: AtomicBool,
    messages_fail: AtomicBool,
    failures: AtomicUsize,
    ended: Mutex<Vec<u32>>,
}

impl Failing {
    fn fail(&self, records: bool, messages: bool) {
        self.0.records_fail.store(records, Ordering::SeqCst);
        self.0.messages_fail.store(messages, Ordering::SeqCst);
    }

    /// Number of loads, removals and messages that have failed.
    fn failures(&self) -> usize {
        self.0.failures.load(Ordering::SeqCst)
    }

    /// Notes that a process has ended.
    fn end(&self, process: &Process) {
        self.0.ended.lock().unwrap().push(number_of(process.sharing.process));
    }

    fn check(&self, fails: &AtomicBool) -> Result<(), SessionStoreError> {
        if fails.load(Ordering::SeqCst) {
            self.0.failures.fetch_add(1, Ordering::SeqCst);
            return Err(SessionStoreError::TimedOut);
        }
        Ok(())
    }
}

impl SessionStore for Failing {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        self.check(&self.0.records_fail).and_then(|()| self.0.store.load(session))
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        self.0.store.compare_and_set(session, expected, record, lifetime)
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        self.0.store.touch(sessions, lifetime)
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        self.check(&self.0.records_fail).and_then(|()| self.0.store.remove(session))
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        self.0.store.join()
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        self.check(&self.0.messages_fail).and_then(|()| self.0.store.publish(message))
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        self.0.store.watch(receiver)
    }

    fn is_watching(&self, process: u32) -> Result<Option<bool>, SessionStoreError> {
        let ended = self.0.ended.lock().unwrap();
        Ok((!ended.is_empty()).then(|| !ended.contains(&process)))
    }
}

/// A server with one connection.
pub(super) struct Process {
    pub(super) server: Server,
    connection: Connection,
    pub(super) sharing: SessionSharing,
    pub(super) shared: Arc<Shared>,
    pub(super) written: String,
    pub(super) now: Instant,
    /// The call that has begun last.
    pub(super) call: Option<server::Call>,
}

impl Process {
    fn start(store: &Failing) -> Self {
        Self::shard(&join(store), &Arc::default(), None)
    }

    /// Starts a shard of a server, whose shards have these numbers.
    fn shard(joined: &SharedSessions, shards: &Arc<Mutex<Vec<u32>>>, shard: Option<u8>) -> Self {
        let capabilities = [Capability::ResourceSubscriptions, Capability::Tools];
        let capabilities = capabilities.into_iter().fold(Capabilities::new(), Capabilities::with);
        let config = server::Config::new("x", "1").capabilities(capabilities);
        let mut server = Server::new(config.into(), Config::new().into(), Entropy::new([7; 32], 0));
        if let Some(shard) = shard {
            server.set_shard(shard, 2);
        }
        let Place::Store(shared) = joined.0.clone() else { panic!("a store") };
        let sharing = SessionSharing::start(&shared, shards.clone(), &mut server).expect("threads");
        let connection = Connection::new(Instant::ZERO, Default::default());
        Self { server, connection, sharing, shared, written: String::new(), now: Instant::ZERO, call: None }
    }

    pub(super) fn request(&mut self, method: &str, id: &str, body: &str) {
        let session = if id.is_empty() { String::new() } else { alloc::format!("Mcp-Session-Id: {id}\r\n") };
        let head = alloc::format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.connection.handle_input(self.now, head.as_bytes());
    }

    /// Begins the stream of a call, and returns the id of its first event.
    pub(super) fn begin_call(&mut self, id: &SessionId, request: u32) -> String {
        let call = alloc::format!(
            r#"{{"jsonrpc":"2.0","id":{request},"method":"tools/call","params":{{"name":"x","arguments":{{}}}}}}"#
        );
        self.request("POST", id.reveal(), &call);
        self.run_until("a call", |process| process.call.is_some());
        self.now = self.now + Duration::from_secs(5);
        self.run_until_written("id: ");
        let event = self.written.split("id: ").last().and_then(|text| text.split('\n').next());
        event.expect("an event").trim().into()
    }

    /// Resumes a stream on a new connection.
    pub(super) fn resume(&mut self, id: &SessionId, after: &str) {
        self.connection = Connection::new(self.now, Default::default());
        self.request("GET", &alloc::format!("{}\r\nLast-Event-ID: {after}", id.reveal()), "");
    }

    pub(super) fn answer(&mut self, text: &str) {
        let call = self.call.take().expect("a call");
        let result = mcp_proto::model::CallToolResult::text(text);
        self.server.engine().complete(self.now, call.id(), &result).expect("it runs");
    }

    /// Runs until something has happened.
    pub(super) fn run_until(&mut self, what: &str, mut has_happened: impl FnMut(&mut Self) -> bool) {
        let begun = time::Instant::now();
        while !has_happened(self) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {}", self.written);
            let now = self.now;
            self.server.handle_timeout(now);
            self.connection.drive(now, &mut self.server);
            while let Some(event) = self.server.poll_event(now) {
                match event {
                    Event::Shared(event) => self.sharing.handle_event(now, &mut self.server, event),
                    Event::Server(server::Event::Call(call)) => self.call = Some(call),
                    _ => {}
                }
            }
            self.sharing.drive(now, &mut self.server);
            // There is one connection, which has all that is ready.
            while self.server.poll_ready(now).is_some() {}
            self.connection.drive(now, &mut self.server);
            let written = self.connection.transmit().to_vec();
            self.written += core::str::from_utf8(&written).expect("text");
            self.connection.consume(written.len());
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn run_until_written(&mut self, text: &str) {
        self.run_until(text, |process| process.written.contains(text));
    }

    /// Begins a session, and returns its id.
    pub(super) fn begin(&mut self) -> SessionId {
        let client = r#"{"name":"x","version":"1"}"#;
        let params =
            alloc::format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{client}}}"#);
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":"#;
        self.request("POST", "", &alloc::format!("{body}{params}}}"));
        self.run_until_written("\r\n\r\n{");
        let id = self.written.to_ascii_lowercase().find("mcp-session-id: ").expect("a session") + 16;
        let id = SessionId::new(&self.written[id..id + 28]).expect("an id");
        self.request("POST", id.reveal(), r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.run_until_written(" 202 ");
        id
    }
}

fn join(store: &Failing) -> SharedSessions {
    SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).expect("it is there")
}

/// Runs several processes until something has happened.
fn run_all(all: &mut [&mut Process], what: &str, mut has_happened: impl FnMut(&[&mut Process]) -> bool) {
    let begun = time::Instant::now();
    while !has_happened(all) {
        let written: Vec<&str> = all.iter().map(|process| &*process.written).collect();
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {written:?}");
        for process in all.iter_mut() {
            let mut is_first = true;
            process.run_until(what, |_| !core::mem::take(&mut is_first));
        }
    }
}

// covers: SEC-005, SSE-021
#[test]
fn each_client_that_resumes_at_a_shard_gets_its_own_stream() {
    let store = Failing::default();
    let start = || {
        let (joined, shards) = (join(&store), Arc::default());
        [0, 1].map(|shard| Process::shard(&joined, &shards, Some(shard)))
    };
    let ([mut a, mut b], [mut c, mut d]) = (start(), start());
    let streams = [&mut a, &mut b].map(|process| {
        let id = process.begin();
        let after = process.begin_call(&id, 77);
        (id, after)
    });
    for (process, (id, after)) in [&mut c, &mut d].into_iter().zip(&streams) {
        process.resume(id, after);
    }
    run_all(&mut [&mut a, &mut b, &mut c, &mut d], "both are resumed", |all| {
        all[2..].iter().all(|process| process.written.contains("text/event-stream"))
    });
    a.answer("of the first one");
    b.answer("of the second one");
    run_all(&mut [&mut a, &mut b, &mut c, &mut d], "both are answered", |all| {
        all[2..].iter().all(|process| process.written.contains("\"id\":77"))
    });
    for (process, own) in [(&c, "of the first one"), (&d, "of the second one")] {
        assert!(process.written.contains(own), "{}", process.written);
        assert_eq!(process.written.matches("of the ").count(), 1, "{}", process.written);
    }
}

/// Lets the second process resume the stream of a call of the first one. Returns the session and the id of the event.
fn resumed(a: &mut Process, b: &mut Process) -> (SessionId, String) {
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    b.resume(&id, &after);
    run_all(&mut [a, b], "it is resumed", |all| all[1].written.contains("text/event-stream"));
    (id, after)
}

// covers: SSE-021
#[test]
fn process_that_has_not_answered_another_one_has_ended() {
    let store = Failing::default();
    let [mut a, mut b, mut c] = [(); 3].map(|()| Process::start(&store));
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    let (number, two_seconds) = (number_of(a.sharing.process), Instant::ZERO + Duration::from_secs(2));
    b.resume(&id, &after);
    run_all(&mut [&mut b, &mut c], "it is asked", |all| all[1].sharing.relays.has_ended(two_seconds, number));
    // The one that asked ends before its two seconds are over. The other one need not wait for two more.
    drop(b);
    assert!(!c.sharing.relays.has_ended(Instant::ZERO + Duration::from_millis(1999), number));
    c.now = two_seconds;
    c.resume(&id, &after);
    c.run_until_written("the call was lost");
    // A message may have been lost, so this does not hold for ever.
    assert!(!c.sharing.relays.has_ended(Instant::ZERO + Duration::from_secs(60), number));
    // The first one was slow.
    run_all(&mut [&mut a, &mut c], "it is heard", |all| {
        !all[1].sharing.relays.has_ended(two_seconds, number)
    });
    // One that has not begun yet was asked by a client that made its number up.
    let (number, four_seconds) = (number + 3, two_seconds + Duration::from_secs(2));
    assert!(a.shared.publish(a.sharing.process, &Message::Resume(id, number, 1, after)));
    run_all(&mut [&mut c], "it is asked", |all| all[0].sharing.relays.has_ended(four_seconds, number));
    let d = Process::start(&store);
    assert_eq!(number_of(d.sharing.process), number);
    run_all(&mut [&mut c], "it is heard", |all| !all[0].sharing.relays.has_ended(four_seconds, number));
}

/// Starts processes whose tool may run again.
pub(super) fn repeating<const N: usize>(store: &Failing) -> [Process; N] {
    core::array::from_fn(|_| {
        let mut process = Process::start(store);
        process.server.shared_sessions().set_repeatable_tools(["x".into()]);
        process
    })
}

// covers: SSE-021
#[test]
fn call_of_a_process_that_was_killed_runs_again_where_its_client_resumes_it() {
    let store = Failing::default();
    let [mut a, mut b, mut c] = repeating(&store);
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    drop(a);
    b.resume(&id, &after);
    // Until the process that was asked counts as ended.
    let ended = |process: &mut Process, seconds| {
        process.run_until("it is asked", |process| !process.sharing.relays.is_idle());
        process.now = process.now + Duration::from_secs(seconds);
    };
    ended(&mut b, 2);
    run_all(&mut [&mut b, &mut c], "it runs again", |all| all[0].call.is_some());
    // The client asks a third process, which asks the second one, and is killed with that.
    c.now = Instant::ZERO + Duration::from_secs(3);
    c.resume(&id, &after);
    run_all(&mut [&mut b, &mut c], "it is passed on", |all| all[1].written.contains("text/event-stream"));
    drop((b, c));
    let [mut d] = repeating(&store);
    d.resume(&id, &after);
    ended(&mut d, 2);
    // The first owner is silent, and so is the second one.
    d.run_until("the second one is asked", |process| process.sharing.relays.asked() == 2);
    d.now = d.now + Duration::from_secs(2);
    d.run_until("it runs again", |process| process.call.is_some());
    d.answer("done");
    d.run_until_written("done");
    assert_eq!(d.written.matches("\"id\":77").count(), 1, "{}", d.written);
}

// covers: SSE-021
#[test]
fn nobody_waits_for_processes_of_which_the_store_says_that_they_have_ended() {
    let store = Failing::default();
    let [mut a, mut b, mut c, mut d] = repeating(&store);
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    store.end(&a);
    drop(a);
    // No time passes: not for the first owner, not for the second one, and not for one that has heard of neither.
    for process in [&mut b, &mut c] {
        process.resume(&id, &after);
        process.run_until("it runs again", |process| process.call.is_some());
        let ended = core::mem::replace(process, Process::start(&store));
        store.end(&ended);
    }
    d.resume(&id, &after);
    d.run_until("it runs again", |process| process.call.is_some());
    d.answer("done");
    d.run_until_written("done");
    assert_eq!((d.now, d.written.matches("\"id\":77").count()), (Instant::ZERO, 1), "{}", d.written);
}

// covers: SSE-021
#[test]
fn process_whose_connection_to_the_store_was_lost_with_others_is_waited_for() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    let number = number_of(a.sharing.process);
    store.0.ended.lock().unwrap().push(number);
    b.shared.loops.send(&Received::Gap);
    b.resume(&id, &after);
    b.run_until("it is asked", |process| !process.sharing.relays.is_idle());
    b.run_until("it was looked whether it has ended", |process| process.sharing.is_finding_ended);
    b.run_until("it was looked whether it has ended", |process| !process.sharing.is_finding_ended);
    assert!(!b.written.contains("lost"), "{}", b.written);
    // It has a new one, and answers what it is asked then.
    store.0.ended.lock().unwrap().clear();
    b.resume(&id, &after);
    run_all(&mut [&mut a, &mut b], "it is resumed", |all| all[1].written.contains("text/event-stream"));
    a.answer("done");
    run_all(&mut [&mut a, &mut b], "it is answered", |all| all[1].written.contains("done"));
    // Half a minute later the silence of one need not be waited for.
    let after = a.begin_call(&id, 78);
    store.end(&a);
    drop(a);
    b.now = b.now + Duration::from_secs(30);
    b.resume(&id, &after);
    b.run_until_written("the call was lost");
}

// covers: SSE-021
#[test]
fn process_that_has_a_new_connection_soon_has_not_ended() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    store.end(&a);
    b.resume(&id, &after);
    b.run_until("it is looked", |process| process.sharing.is_finding_ended);
    // It has not heard the question, and the store says that it watches when it is looked again.
    thread::sleep(Duration::from_millis(100));
    store.0.ended.lock().unwrap().clear();
    b.run_until("it was looked", |process| !process.sharing.is_finding_ended);
    assert!(!b.written.contains("lost"), "{}", b.written);
    run_all(&mut [&mut a, &mut b], "it is resumed", |all| all[1].written.contains("text/event-stream"));
    a.answer("done");
    run_all(&mut [&mut a, &mut b], "it is answered", |all| all[1].written.contains("done"));
}

// covers: SSE-021
#[test]
fn answer_of_a_call_that_another_process_has_taken_over_is_dropped() {
    let store = Failing::default();
    let [mut a, mut b] = repeating(&store);
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    // It hears and says nothing for two seconds.
    b.resume(&id, &after);
    b.run_until("it is asked", |process| !process.sharing.relays.is_idle());
    b.now = b.now + Duration::from_secs(2);
    b.run_until("it runs again", |process| process.call.is_some());
    let slow = a.call.take().expect("it runs");
    let result = mcp_proto::model::CallToolResult::text("of the slow one");
    a.server.engine().complete(a.now, slow.id(), &result).expect("it runs");
    b.answer("of the new owner");
    b.run_until_written("of the new owner");
    run_all(&mut [&mut a, &mut b], "both have ended", |all| all[0].written.ends_with("0\r\n\r\n"));
    assert!(!a.written.contains("of the slow one") && !b.written.contains("of the slow one"));
    // The next answer of the first process is its own.
    let x = a.begin_call(&id, 78);
    a.answer("of the next call");
    a.run_until_written("of the next call");
    assert!(!x.is_empty());
}

// covers: SSE-021
#[test]
fn message_of_a_call_that_was_altered_in_the_store_is_that_of_no_call() {
    let store = Failing::default();
    let [mut a, mut b] = repeating(&store);
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    let call = KeptCall { process: number_of(a.sharing.process), request: "Nzc".into() };
    let name = seal::name_of_call(&id, &call);
    let stored = store.0.store.load(&name).expect("it answers").expect("it is stored");
    let mut altered = stored.record.clone();
    *altered.last_mut().expect("a seal") ^= 1;
    store.0.store.compare_and_set(&name, Some(stored.version), &altered, FINISH_TIMEOUT).expect("it answers");
    drop(a);
    b.resume(&id, &after);
    b.run_until("it is asked", |process| !process.sharing.relays.is_idle());
    b.now = b.now + Duration::from_secs(2);
    b.run_until_written("the call was lost");
    assert!(b.call.is_none());
}

// covers: SSE-021
#[test]
fn stream_that_cannot_be_asked_for_is_asked_for_again() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    let after = a.begin_call(&id, 77);
    store.fail(false, true);
    b.resume(&id, &after);
    b.run_until_written(" 503 ");
    store.fail(false, false);
    b.written.clear();
    b.resume(&id, &after);
    a.answer("done");
    run_all(&mut [&mut a, &mut b], "it is answered", |all| all[1].written.contains("done"));
}

// covers: SSE-021
#[test]
fn part_that_is_lost_ends_the_stream_and_one_that_comes_twice_is_written_once() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let (id, after) = resumed(&mut a, &mut b);
    // The first part, with the id that the client has.
    run_all(&mut [&mut a, &mut b], "it begins", |all| all[1].written.contains("id: "));
    let name = |b: &Process| RelayName {
        id: id.clone(),
        process: b.sharing.process,
        request: b.sharing.relays.last_request(),
    };
    let part = Message::Stream(name(&b), 2, message::StreamPart::More, b": twice\n\n".to_vec());
    assert!(a.shared.publish(a.sharing.process, &part) && a.shared.publish(a.sharing.process, &part));
    let other = RelayName { id: SessionId::new(&"A".repeat(28)).expect("an id"), ..name(&b) };
    let part = Message::Stream(other, 3, message::StreamPart::More, b": other\n\n".to_vec());
    assert!(a.shared.publish(a.sharing.process, &part));
    let part = Message::Stream(name(&b), 3, message::StreamPart::More, b": after\n\n".to_vec());
    assert!(a.shared.publish(a.sharing.process, &part));
    b.run_until_written(": after");
    assert!(b.written.matches(": twice").count() == 1 && !b.written.contains(": other"), "{}", b.written);
    // The third one is lost.
    let part = Message::Stream(name(&b), 5, message::StreamPart::More, b": late\n\n".to_vec());
    assert!(a.shared.publish(a.sharing.process, &part));
    b.run_until_written("\r\n0\r\n\r\n");
    assert!(!b.written.contains(": late"), "{}", b.written);
    b.written.clear();
    b.resume(&id, &after);
    a.answer("done");
    run_all(&mut [&mut a, &mut b], "it is answered", |all| all[1].written.contains("done"));
}

// covers: SSE-021
#[test]
fn part_that_cannot_be_sent_ends_the_stream_and_so_does_a_gap() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let (id, after) = resumed(&mut a, &mut b);
    b.shared.loops.send(&Received::Gap);
    b.run_until_written("\r\n0\r\n\r\n");
    b.written.clear();
    b.resume(&id, &after);
    run_all(&mut [&mut a, &mut b], "it is resumed", |all| all[1].written.contains("text/event-stream"));
    store.fail(false, true);
    a.answer("done");
    let failures = store.failures();
    a.run_until("twice in vain", |_| store.failures() >= failures + 2);
    store.fail(false, false);
    run_all(&mut [&mut a, &mut b], "it ends", |all| all[1].written.contains("\r\n0\r\n\r\n"));
    assert!(!b.written.contains("done"));
    b.resume(&id, &after);
    run_all(&mut [&mut a, &mut b], "it is answered", |all| all[1].written.contains("done"));
}

// covers: HTTP-071
#[test]
fn end_of_a_session_that_fails_is_repeated_and_so_are_changes() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    b.request("POST", id.reveal(), r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    b.run_until_written("\"id\":3");
    assert_eq!(b.server.session_count(), 1);
    store.fail(true, true);
    a.sharing.publish(&ChangeSet::everything());
    a.request("DELETE", id.reveal(), "");
    a.run_until_written(" 503 ");
    assert_eq!(b.server.session_count(), 1);
    store.fail(false, false);
    let mut changes = None;
    run_all(&mut [&mut a, &mut b], "it has ended", |all| all[1].server.session_count() == 0);
    let inbox = Inbox::new(64);
    b.shared.loops.0.lock().expect("no thread has panicked").push(inbox.sender());
    store.fail(false, true);
    let failures = store.failures();
    a.sharing.publish(&ChangeSet::everything());
    a.run_until("twice in vain", |_| store.failures() >= failures + 2);
    store.fail(false, false);
    let mut received = VecDeque::new();
    a.run_until("the changes", |_| {
        inbox.take(&mut received);
        for one in received.drain(..) {
            let Received::Message(sealed) = one else { continue };
            let opened = b.shared.sealer.open(Purpose::Message, &sealed).expect("sealed");
            if let Some((_, Message::Changes(set))) = Message::read(&opened) {
                changes = Some(set);
            }
        }
        changes.is_some()
    });
    let loaded = b.shared.load(&name_of(&id), Duration::from_secs(60)).expect("the store is up");
    assert!(loaded.is_none());
}

#[test]
fn record_of_an_older_key_is_sealed_anew_when_it_is_loaded() {
    let store = Failing::default();
    let [old, new] = [[7; 32], [8; 32]];
    let mut a = Process::start(&store);
    let id = a.begin();
    let minute = Duration::from_secs(60);
    let load = |keys: &SessionKeys| {
        let joined = SharedSessions::join(store.clone(), keys).expect("it is there");
        let Place::Store(shared) = joined.0 else { panic!("a store") };
        shared.load(&name_of(&id), minute).expect("the store is up").expect("a record")
    };
    let before = load(&SessionKeys::new(old));
    assert!(load(&SessionKeys::new(new)).record.is_empty());
    let both = SessionKeys::new(new).with_older(old);
    assert_eq!(load(&both).record, before.record);
    let after = load(&SessionKeys::new(new));
    assert_eq!((&after.record, after.version), (&before.record, load(&both).version));
}

#[test]
fn store_that_panics_has_failed() {
    let panics = || -> Result<(), SessionStoreError> { panic!("a panic of the test") };
    assert!(guard(panics).is_err() && guard(|| Ok(())).is_ok());
}

const MESSAGE: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

#[test]
fn message_that_cannot_be_handed_over_waits_for_the_next_stream() {
    let store = Failing::default();
    let [mut a, b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    assert!(a.server.shared_sessions().send(Instant::ZERO, &id, MESSAGE.into()));
    let opened = Message::StreamOpened(id.clone(), String::new());
    // The other process has a stream, but cannot be reached.
    assert!(b.shared.publish(b.sharing.process, &opened));
    // What was published is in the inbox of the first one already.
    store.fail(false, true);
    a.run_until("twice in vain", |_| store.failures() == 2);
    // The outcome is on its way: then it waits here again.
    store.fail(false, false);
    a.run_until("given back", |a| {
        let waiting = a.server.shared_sessions().take_waiting(a.now, &id, None);
        let is_back = waiting.iter().any(|message| **message == *MESSAGE);
        for message in waiting {
            assert!(a.server.shared_sessions().send(Instant::ZERO, &id, message));
        }
        is_back
    });
    let inbox = Inbox::new(8);
    b.shared.loops.0.lock().expect("no thread has panicked").push(inbox.sender());
    assert!(b.shared.publish(b.sharing.process, &opened));
    let mut messages = VecDeque::new();
    a.run_until("handed over", |_| {
        inbox.take(&mut messages);
        messages.drain(..).any(|received| {
            let Received::Message(sealed) = received else { return false };
            let opened = b.shared.sealer.open(Purpose::Message, &sealed).expect("sealed");
            matches!(Message::read(&opened), Some((_, Message::ForStream(_, _, message))) if message == MESSAGE)
        })
    });
}

#[test]
fn load_that_fails_for_a_stream_is_repeated() {
    let store = Failing::default();
    let [mut a, mut b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    a.request("GET", id.reveal(), "");
    a.run_until_written("text/event-stream");
    let subscribe = r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:1"}}"#;
    // The other process has the session, and changes it.
    b.request("POST", id.reveal(), r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    b.run_until_written("\"id\":3");
    store.fail(true, false);
    b.request("POST", id.reveal(), subscribe);
    b.run_until_written("\"id\":2");
    a.run_until("a load in vain", |_| store.failures() > 0);
    let change = Change::Resource("a:1".into());
    a.server.engine().publish(Instant::ZERO, &change);
    assert!(!a.written.contains("a:1"), "it does not know of the subscription");
    store.fail(false, false);
    // No request comes, and the stream has the changes of the new resource after a while.
    a.run_until("a:1", |a| {
        a.server.engine().publish(Instant::ZERO, &change);
        a.written.contains("a:1")
    });
}
