//! Sessions of two servers whose store fails for a while, without sockets.

use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time;

use mcp_proto::http::server::{Config, Connection, Event};
use mcp_proto::{Capabilities, Capability, Change, Entropy, server};
use mcp_std::session_store::{MemorySessionStore, WatchReceiver};

use super::*;

/// A store whose records, or whose messages, can be out of reach.
#[derive(Clone, Default)]
struct Failing(Arc<(MemorySessionStore, AtomicBool, AtomicBool, AtomicUsize)>);

impl Failing {
    fn fail(&self, records: bool, messages: bool) {
        self.0.1.store(records, Ordering::SeqCst);
        self.0.2.store(messages, Ordering::SeqCst);
    }

    /// Number of loads and messages that have failed.
    fn failures(&self) -> usize {
        self.0.3.load(Ordering::SeqCst)
    }

    fn check(&self, fails: &AtomicBool) -> Result<(), SessionStoreError> {
        if fails.load(Ordering::SeqCst) {
            self.0.3.fetch_add(1, Ordering::SeqCst);
            return Err(SessionStoreError::TimedOut);
        }
        Ok(())
    }
}

impl SessionStore for Failing {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        self.check(&self.0.1).and_then(|()| self.0.0.load(session))
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        self.0.0.compare_and_set(session, expected, record, lifetime)
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        self.0.0.touch(sessions, lifetime)
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        self.0.0.remove(session)
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        self.0.0.join()
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        self.check(&self.0.2).and_then(|()| self.0.0.publish(message))
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        self.0.0.watch(receiver)
    }
}

/// A server with one connection.
struct Process {
    server: Server,
    connection: Connection,
    sharing: SessionSharing,
    shared: Arc<Shared>,
    written: String,
}

impl Process {
    fn start(store: &Failing) -> Self {
        let capabilities = Capabilities::new().with(Capability::ResourceSubscriptions);
        let config = server::Config::new("x", "1").capabilities(capabilities);
        let mut server = Server::new(config.into(), Config::new().into(), Entropy::new([7; 32], 0));
        let joined = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).expect("it is there");
        let Place::Store(shared) = joined.0 else { panic!("a store") };
        let sharing = SessionSharing::start(&shared, &mut server).expect("threads");
        let connection = Connection::new(Instant::ZERO, Default::default());
        Self { server, connection, sharing, shared, written: String::new() }
    }

    fn request(&mut self, method: &str, id: &str, body: &str) {
        let session = if id.is_empty() { String::new() } else { alloc::format!("Mcp-Session-Id: {id}\r\n") };
        let head = alloc::format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.connection.handle_input(Instant::ZERO, head.as_bytes());
    }

    /// Runs until something has happened.
    fn run_until(&mut self, what: &str, mut has_happened: impl FnMut(&mut Self) -> bool) {
        let begun = time::Instant::now();
        while !has_happened(self) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {}", self.written);
            let now = Instant::ZERO;
            self.connection.drive(now, &mut self.server);
            while let Some(event) = self.server.poll_event(now) {
                if let Event::Shared(event) = event {
                    self.sharing.handle_event(now, &mut self.server, event);
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

    fn run_until_written(&mut self, text: &str) {
        self.run_until(text, |process| process.written.contains(text));
    }

    /// Begins a session, and returns its id.
    fn begin(&mut self) -> SessionId {
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

const MESSAGE: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

#[test]
fn message_that_cannot_be_handed_over_waits_for_the_next_stream() {
    let store = Failing::default();
    let [mut a, b] = [(); 2].map(|()| Process::start(&store));
    let id = a.begin();
    assert!(a.server.shared_sessions().send(Instant::ZERO, &id, MESSAGE.into()));
    let opened = Message::StreamOpened(id.clone(), String::new());
    // The other process has a stream, but cannot be reached.
    assert!(b.shared.publish(&opened));
    // What was published is in the inbox of the first one already.
    store.fail(false, true);
    a.run_until("twice in vain", |_| store.failures() == 2);
    // The outcome is on its way: then it waits here again.
    store.fail(false, false);
    a.run_until("given back", |a| {
        let waiting = a.server.shared_sessions().take_waiting(Instant::ZERO, &id, None);
        let is_back = waiting.iter().any(|message| **message == *MESSAGE);
        for message in waiting {
            assert!(a.server.shared_sessions().send(Instant::ZERO, &id, message));
        }
        is_back
    });
    let inbox = Inbox::new(8);
    b.shared.loops.0.lock().expect("nobody has panicked").push(inbox.sender());
    assert!(b.shared.publish(&opened));
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
