//! Suites for an adapter of your own: does it drive the state machines as [their contract][contract] asks?
//!
//! An adapter is code that drives a [`pipe::Server`] or a [`pipe::Client`] over a byte stream. These checks run it against
//! the core itself at the other end of a TCP connection: both eras, input in pieces of any size, peers that do not read, that
//! leave or that are silent, deadlines without input, and the end of the input while calls are open. They find an event loop
//! that blocks, loses output or forgets its deadlines; a debug build of the core tells of one that spins. What an adapter offers to
//! handlers is its own, and not checked.
//!
//! The adapters of this workspace pass them, too.
//!
//! # Use
//!
//! Implement [`Adapter`] in a test program, and name the type:
//!
//! ```text
//! struct Mine;
//! impl mcp_std::testing::adapter::Adapter for Mine { … }
//! mcp_std::adapter_tests!(Mine);
//! ```
//!
//! `adapters/std/examples/poll_adapter` in the repository is an adapter on plain `poll(2)` that does this.
//!
//! [contract]: https://docs.rs/mcp-proto/latest/mcp_proto/guide/contract/

use core::cell::RefCell;
use core::error::Error;
use core::time::Duration;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_proto::client::{self, Event};
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{self, Pipe as _};
use mcp_proto::server;
use mcp_proto::{CallKey, CallOptions, Capabilities, Capability, Limits, RawJson, RpcError, VersionSet};

use super::peer::{DEADLINE, Peer};

/// Outcome of an operation of the adapter, with its own error.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// An adapter under test. Its functions run on threads of their own.
pub trait Adapter: 'static {
    /// Serves `stream` by `config` until the connection ends.
    ///
    /// The server has two tools. `echo` answers with a text, the argument `text`. `endless` does not answer until its call is
    /// cancelled.
    ///
    /// # Errors
    ///
    /// If the connection ended by a fault of the client. A client that leaves is none.
    fn serve(config: server::Config, stream: TcpStream) -> Outcome<()>;

    /// Connects a client over `stream` by `config`, calls `tool` once for each text, with that as its argument `text`, and
    /// closes the client. Returns the outcomes of the calls in the same order: the text of each result.
    ///
    /// # Errors
    ///
    /// If the client cannot be connected.
    fn talk(
        config: client::Config,
        stream: TcpStream,
        tool: &str,
        texts: &[&str],
    ) -> Outcome<Vec<Outcome<String>>>;
}

/// Declares a test for each check of [`mcp_std::testing::adapter`](crate::testing::adapter), for the type of an adapter.
#[macro_export]
macro_rules! adapter_tests {
    ($adapter:ty) => {
        $crate::adapter_tests! { $adapter:
            server_serves_both_eras_in_pieces_of_any_size
            server_answers_all_calls_of_a_client_that_reads_late
            server_goes_on_after_a_call_was_cancelled
            server_ends_open_calls_after_the_grace_period
            server_meets_a_deadline_without_input
            server_ends_when_its_client_has_left
            server_reports_a_faulty_client
            client_calls_in_both_eras_in_pieces_of_any_size
            client_call_times_out
            client_call_fails_when_its_server_has_left
        }
    };
    ($adapter:ty: $($check:ident)*) => {$(
        #[test]
        fn $check() {
            $crate::testing::adapter::$check::<$adapter>();
        }
    )*};
}

const ERAS: [VersionSet; 2] = [VersionSet::LEGACY, VersionSet::MODERN];
const PIECES: [usize; 3] = [1, 7, usize::MAX];

fn server_config() -> server::Config {
    server::Config::new("adapter-under-test", "1").capabilities(Capabilities::new().with(Capability::Tools))
}

fn client_config(versions: VersionSet) -> client::Config {
    let mut limits = Limits::default();
    // A check may write much before it reads.
    (limits.outbox_high_water, limits.max_queued_bytes, limits.max_retained_bytes) =
        (64 << 20, 64 << 20, 64 << 20);
    client::Config::new("adapter-test", "1").versions(versions).limits(limits)
}

/// Returns both ends of a connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    (near, listener.accept().expect("the same connection").0)
}

/// Operation of the adapter on a thread.
struct Running<T> {
    thread: JoinHandle<()>,
    outcome: mpsc::Receiver<T>,
}

impl<T: Send + 'static> Running<T> {
    fn start(run: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, outcome) = mpsc::channel();
        let thread = thread::spawn(move || drop(sender.send(run())));
        Self { thread, outcome }
    }

    /// Waits for its end.
    #[track_caller]
    fn finish(self) -> T {
        match self.outcome.recv_timeout(DEADLINE) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the adapter has not ended after {DEADLINE:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => match self.thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("it has sent its outcome"),
            },
        }
    }
}

/// A client of the core, connected to a server of the adapter.
struct Client {
    peer: Peer<pipe::Client>,
    serving: Running<Outcome<()>>,
}

impl Client {
    fn connect<A: Adapter>(config: server::Config, versions: VersionSet) -> Self {
        let (near, far) = connection();
        let serving = Running::start(move || A::serve(config, far));
        let peer = Peer::new(near, |now| pipe::Client::new(client_config(versions).into(), now));
        Self { peer, serving }
    }

    fn call(&mut self, tool: &str, text: &str) -> CallKey {
        let (now, arguments) = (self.peer.now(), Text { text });
        let called = self.peer.pipe.engine().call_tool(now, tool, &arguments, &CallOptions::new());
        called.expect("the client has room for a call")
    }

    /// Waits for the text of each call, and returns them in order.
    #[track_caller]
    fn expect_texts(&mut self, calls: &[CallKey]) -> Vec<String> {
        let texts = RefCell::new(vec![None; calls.len()]);
        let handle = |_: &mut pipe::Client, _, event| {
            let Event::Done { call, outcome, .. } = event else { return };
            let mut texts = texts.borrow_mut();
            let place = calls.iter().position(|key| *key == call).and_then(|at| texts.get_mut(at));
            // Others were cancelled.
            let Some(place) = place else { return };
            let result = outcome.unwrap_or_else(|error| panic!("a call failed: {error}"));
            assert!(place.replace(text_of(&result)).is_none(), "a call has ended twice");
        };
        self.peer.run_until("answers", handle, |_| texts.borrow().iter().all(Option::is_some));
        texts.into_inner().into_iter().flatten().collect()
    }

    /// Waits until the server is known and everything is written.
    #[track_caller]
    fn settle(&mut self) {
        let is_settled =
            |client: &mut pipe::Client| client.engine().peer().is_some() && client.transmit().is_empty();
        self.peer.run_until("a handshake", |_, _, _| {}, is_settled);
    }

    /// Ends its output, and returns the outcome of the server.
    #[track_caller]
    fn leave(mut self) -> Outcome<()> {
        let is_written = |client: &mut pipe::Client| client.transmit().is_empty();
        self.peer.run_until("room to write", |_, _, _| {}, is_written);
        self.peer.stream.shutdown(Shutdown::Write).expect("a connection");
        self.peer.run_until("the end of the stream", |_, _, _| {}, |client| client.is_drained());
        self.serving.finish()
    }
}

#[derive(serde::Serialize)]
struct Text<'a> {
    text: &'a str,
}

fn text_of(result: &RawJson) -> String {
    let result: CallToolResult<'_> = result.parse().expect("the result of a tool");
    result.content.first().and_then(|block| block.as_text()).expect("a text").to_owned()
}

/// Checks a server: `echo` answers in both eras, however its input is cut.
///
/// # Panics
///
/// If the adapter fails the check; so do the other functions of this module.
pub fn server_serves_both_eras_in_pieces_of_any_size<A: Adapter>() {
    for versions in ERAS {
        for cut in PIECES {
            let mut client = Client::connect::<A>(server_config(), versions);
            client.peer.cut = cut;
            let texts = ["one", "two \u{1f44b}", ""];
            let calls = texts.map(|text| client.call("echo", text));
            assert_eq!(client.expect_texts(&calls), texts);
            client.leave().expect("a client that leaves is no error");
        }
    }
}

/// Checks a server whose client writes calls and reads nothing meanwhile: it stops reading, loses nothing, and goes on.
pub fn server_answers_all_calls_of_a_client_that_reads_late<A: Adapter>() {
    let mut client = Client::connect::<A>(server_config(), VersionSet::MODERN);
    client.settle();
    client.peer.reads = false;
    let text = "0123456789".repeat(20_000);
    let calls: Vec<CallKey> = (0..100).map(|_| client.call("echo", &text)).collect();
    // Ten megabytes go through the buffers of a connection only if the server keeps them, which it must not.
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(300) {
        if client.peer.turn(|_, _, _| {}) {
            quiet_since = Instant::now();
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!client.peer.pipe.transmit().is_empty(), "the server has read calls whose answers have no room");
    client.peer.reads = true;
    assert!(client.expect_texts(&calls).iter().all(|answer| *answer == text), "an answer differs");
    client.leave().expect("a client that leaves is no error");
}

/// Checks a server whose client cancels a call that runs: it does not answer it, and answers the next one.
pub fn server_goes_on_after_a_call_was_cancelled<A: Adapter>() {
    for versions in ERAS {
        let mut client = Client::connect::<A>(server_config(), versions);
        let endless = client.call("endless", "");
        client.settle();
        let now = client.peer.now();
        client.peer.pipe.engine().cancel(now, endless, None).expect("an open call");
        let next = client.call("echo", "next");
        assert_eq!(client.expect_texts(&[next]), ["next"]);
        client.leave().expect("a client that leaves is no error");
    }
}

/// Checks a server whose input ends while a call is open: it gives the call its grace period, and then ends.
pub fn server_ends_open_calls_after_the_grace_period<A: Adapter>() {
    let grace = Duration::from_millis(300);
    let mut limits = Limits::default();
    limits.eof_grace_period = grace;
    let mut client = Client::connect::<A>(server_config().limits(limits), VersionSet::MODERN);
    client.call("endless", "");
    client.settle();
    let begun = Instant::now();
    client.leave().expect("a client that leaves is no error");
    assert!(begun.elapsed() >= grace, "the server did not wait");
}

/// Checks a server whose client is silent: a deadline passes although nothing arrives.
///
/// The client answers no ping, so the server ends the connection after about two seconds.
pub fn server_meets_a_deadline_without_input<A: Adapter>() {
    let config = server_config().keep_alive_ping(Duration::from_secs(1), 0);
    let mut client = Client::connect::<A>(config, VersionSet::LEGACY);
    client.settle();
    let outcome = client.serving.finish();
    assert!(outcome.is_err(), "the client did not answer");
}

/// Checks a server whose client breaks the connection, with output under way: it ends, without an error.
pub fn server_ends_when_its_client_has_left<A: Adapter>() {
    let mut client = Client::connect::<A>(server_config(), VersionSet::MODERN);
    client.settle();
    client.peer.reads = false;
    for _ in 0..20 {
        client.call("echo", &"x".repeat(100_000));
    }
    for _ in 0..20 {
        client.peer.turn(|_, _, _| {});
    }
    let Client { peer, serving } = client;
    drop(peer);
    serving.finish().expect("a client that leaves is no error");
}

/// Checks a server that gets nothing but faulty messages: it ends, with an error.
pub fn server_reports_a_faulty_client<A: Adapter>() {
    let mut limits = Limits::default();
    limits.max_faulty_messages = Some(3);
    let (mut near, far) = connection();
    let serving = Running::start(move || A::serve(server_config().limits(limits), far));
    near.write_all(&b"{}\n".repeat(4)).expect("a connection");
    let outcome = serving.finish();
    assert!(outcome.is_err(), "nothing tells of the faults");
}

/// Connects a client of the adapter to a server of the core, and returns what its calls return.
///
/// `echo` answers, `silent` does not, and `leave` ends the connection.
#[track_caller]
fn talk<A: Adapter>(
    config: client::Config,
    cut: usize,
    tool: &'static str,
    texts: &[&str],
) -> Outcome<Vec<Outcome<String>>> {
    let (near, far) = connection();
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let talking = Running::start(move || {
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        A::talk(config, far, tool, &texts)
    });
    let mut peer = Peer::new(near, |now| pipe::Server::new(server_config().into(), now));
    peer.cut = cut;
    let handle = |server: &mut pipe::Server, now, event| {
        let server::Event::Call(call) = event else { return };
        let text = call.tool_call().and_then(|tool| match &*tool.name {
            "echo" => tool.parse::<EchoArguments>().map(|arguments| Some(arguments.text)),
            "silent" => Ok(None),
            _ => Err(RpcError::internal("the server leaves")),
        });
        match text {
            Ok(Some(text)) => {
                server.engine().complete(now, call.id(), &CallToolResult::text(text)).expect("an open call")
            }
            Ok(None) => {}
            Err(_) if call.tool_call().is_ok() => server.abort(now, &mcp_proto::Fault::Closed),
            Err(error) => server.engine().fail(now, call.id(), &error).expect("an open call"),
        }
    };
    peer.run_until("the end of the client", handle, |server| server.is_drained());
    drop(peer);
    talking.finish()
}

#[derive(serde::Deserialize)]
struct EchoArguments {
    text: String,
}

/// Checks a client: its calls are answered in both eras, however its input is cut.
pub fn client_calls_in_both_eras_in_pieces_of_any_size<A: Adapter>() {
    for versions in ERAS {
        for cut in PIECES {
            // No piece of it fits into the buffers of a stream.
            let tens = if cut == usize::MAX { 100_000 } else { 200 * cut };
            let large = "0123456789".repeat(tens);
            let texts = ["one", "two \u{1f44b}", &large];
            let answers = talk::<A>(client_config(versions), cut, "echo", &texts).expect("a connection");
            let answers: Vec<String> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
            assert!(answers == texts, "the answers differ");
        }
    }
}

/// Checks a client whose call is not answered: it ends at its timeout.
pub fn client_call_times_out<A: Adapter>() {
    for versions in ERAS {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_millis(100);
        let config = client_config(versions).limits(limits);
        let answers = talk::<A>(config, usize::MAX, "silent", &[""]).expect("a connection");
        assert!(matches!(&answers[..], [Err(_)]), "the call has not failed");
    }
}

/// Checks a client whose server ends the connection during a call: the call fails.
pub fn client_call_fails_when_its_server_has_left<A: Adapter>() {
    let config = client_config(VersionSet::MODERN);
    let answers = talk::<A>(config, usize::MAX, "leave", &[""]).expect("a connection");
    assert!(matches!(&answers[..], [Err(_)]), "the call has not failed");
}
