//! The background process that keeps connections: a loop for each, in a thread of its own.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};

use mcp_std::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use std::{env, thread};

use clap::Parser;
use mcp_proto::VersionSet;
use mcp_proto::client::Peer;
use mcp_proto_proxy::host::{Bridge, ClientIdentity, Notice, Operator as _, Socket, Stop};
use mcp_std::io::{Descriptors, Interest, StreamAddress, StreamListener};
use mcp_std::poll::WaitRequest;
use mcp_std::process::terminate_all;

use super::control::{self, Answer, Request, Summary, Wanted};
use super::foreground::VERSION;
use super::process::{Begun, ControlFile, begin, say_ready};
use crate::args::{ProxyArgs, StderrChoice};
use crate::authorization;
use crate::connections;
use crate::failure::{CommandFailure, Exit};
use crate::proxy::{self, ProxyNotes, UpstreamOpener};
use crate::stop::{self, StopSignal};

/// State that the threads of the process share.
struct Keeper {
    folder: PathBuf,
    state: Mutex<State>,
    /// Signalled when a connection is open or has ended.
    changed: Condvar,
    /// Wakes the loop.
    waker: UnixStream,
}

#[derive(Default)]
struct State {
    connections: BTreeMap<String, Kept>,
    /// Requests that have no answer yet.
    requests: usize,
}

/// A connection, from the request for it to the end of its server.
struct Kept {
    /// The request for it: [`Wanted`] as text.
    wanted: String,
    phase: Phase,
    /// Whether more than one request asked for it.
    is_shared: bool,
    begun: Instant,
    stop: Stop,
}

/// Keeps connections until there are none, or until a signal ends the process.
///
/// # Errors
///
/// Fails if there is no place for the sockets. The process that started this one is told.
pub(crate) fn run() -> Result<(), CommandFailure> {
    // Its terminal may end before it.
    let _ = rustix::process::setsid();
    let failed = |error: io::Error| {
        // The starter may be gone.
        let _ = writeln!(io::stdout(), "{error}");
        CommandFailure::failed(error.to_string())
    };
    let Some(Begun { lock: _lock, listener, control, signal }) = begin().map_err(failed)? else {
        say_ready();
        return Ok(());
    };
    let folder = connections::folder();
    let (waker, wakes) = UnixStream::pair().map_err(failed)?;
    let nonblocking = [&waker, &wakes].into_iter().try_for_each(|stream| stream.set_nonblocking(true));
    nonblocking.map_err(failed)?;
    signal.set_looping(true);
    say_ready();
    // No folder is held.
    let _ = env::set_current_dir("/");
    let keeper = Keeper { folder, state: Mutex::default(), changed: Condvar::new(), waker };
    let keeper = Arc::new(keeper);
    let outcome = serve(&keeper, &listener, &control, &wakes, &signal);
    control.remove();
    drop(listener);
    signal.set_looping(false);
    let _ = keeper.end(None, stop::GRACE_PERIOD + 2 * stop::SERVER_END_TIMEOUT);
    terminate_all(stop::SERVER_END_TIMEOUT);
    outcome.map_err(|error| CommandFailure::failed(format!("connections can no longer be kept: {error}")))
}

/// Takes requests until there are no connections, or until a signal comes.
fn serve(
    keeper: &Arc<Keeper>,
    listener: &UnixListener,
    control: &ControlFile,
    mut wakes: &UnixStream,
    signal: &StopSignal,
) -> io::Result<()> {
    let mut linger = Instant::now() + LINGER;
    loop {
        loop {
            match listener.accept() {
                Ok((stream, _)) => keeper.take(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Descriptors are free again when a client goes.
                Err(_) => {
                    thread::sleep(Duration::from_millis(50));
                    break;
                }
            }
        }
        if signal.is_requested() || !control.is_there() {
            return Ok(());
        }
        let is_unused = {
            let state = lock(&keeper.state);
            state.connections.is_empty() && state.requests == 0
        };
        let now = Instant::now();
        if !is_unused {
            linger = now + LINGER;
        } else if linger <= now {
            return Ok(());
        }
        let due = if is_unused { linger.saturating_duration_since(now) } else { LOOK_INTERVAL };
        let due = Some(due);
        let read = |fd| {
            let descriptors = Descriptors { read: Some(fd), ..Descriptors::default() };
            WaitRequest::new(descriptors, Interest { read: true, write: false }, due)
        };
        WaitRequest::wait(&[read(listener.as_fd()), read(wakes.as_fd()), signal.stop.wait_request()], due)?;
        while io::Read::read(&mut wakes, &mut [0; 64]).is_ok_and(|n| n > 0) {}
    }
}

impl Keeper {
    /// Handles one request in a thread.
    fn take(self: &Arc<Self>, stream: UnixStream) {
        {
            let mut state = lock(&self.state);
            if state.requests >= MAX_REQUESTS {
                return;
            }
            state.requests += 1;
        }
        let keeper = Arc::clone(self);
        let run = move || {
            keeper.answer(&stream);
            lock(&keeper.state).requests -= 1;
            keeper.wake();
        };
        if thread::Builder::new().name("request".into()).spawn(run).is_err() {
            lock(&self.state).requests -= 1;
        }
    }

    fn wake(&self) {
        // It is awake if there is no room.
        let _ = (&self.waker).write(&[0]);
    }

    fn answer(self: &Arc<Self>, stream: &UnixStream) {
        let timed =
            stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(REQUEST_TIMEOUT)));
        let timed = timed.and_then(|()| stream.set_write_timeout(Some(REQUEST_TIMEOUT)));
        let answered = match timed.and_then(|()| control::read(stream)) {
            Ok(None) => return,
            Ok(Some(request)) => self.answer_to(request),
            Err(error) => Err(CommandFailure::failed(format!("the request cannot be read: {error}"))),
        };
        let answer = answered.unwrap_or_else(Answer::Failed);
        let is_told = control::write(stream, &answer).is_ok();
        // Who asked was interrupted, and knows of no connection.
        if let (Answer::Connected(Summary { name, is_new: true, .. }), false) = (answer, is_told) {
            let is_shared = lock(&self.state).connections.get(&name).is_some_and(|kept| kept.is_shared);
            if !is_shared {
                let _ = self.end(Some(&[name]), END_TIMEOUT);
            }
        }
    }

    fn answer_to(self: &Arc<Self>, request: Request) -> Result<Answer, CommandFailure> {
        Ok(match request {
            Request::List => Answer::Connections {
                process: std::process::id(),
                version: VERSION.to_owned(),
                connections: lock(&self.state).connections.values().filter_map(Kept::summary).collect(),
            },
            Request::Disconnect(names) => Answer::Disconnected(self.end(names.as_deref(), END_TIMEOUT)?),
            Request::Server(name) => match lock(&self.state).connections.get(&name) {
                Some(kept) => Answer::Server(kept.wanted.clone()),
                None => return Err(CommandFailure::missing_connection(&name)),
            },
            Request::Connect { version, wanted } => Answer::Connected(self.connect(&version, &wanted)?),
        })
    }

    /// Ends connections, or all. Returns the names of those that were there.
    ///
    /// # Errors
    ///
    /// Fails if one has not ended in time: it is still being made.
    fn end(&self, names: Option<&[String]>, wait: Duration) -> Result<Vec<String>, CommandFailure> {
        let mut state = lock(&self.state);
        let ends = |name: &String| names.is_none_or(|names| names.contains(name));
        let ended: Vec<_> = state.connections.keys().filter(|name| ends(name)).cloned().collect();
        for name in &ended {
            if let Some(kept) = state.connections.get_mut(name) {
                kept.phase = Phase::Ending;
                kept.stop.shutdown(stop::GRACE_PERIOD);
            }
        }
        let is_there = |state: &State, name: &String| state.connections.contains_key(name);
        let any = |state: &mut State| ended.iter().any(|name| is_there(state, name));
        let waited = self.changed.wait_timeout_while(state, wait, any);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match ended.iter().find(|name| is_there(&state, name)) {
            Some(name) => Err(CommandFailure::new(
                Exit::Timeout,
                format!("@{name} has not ended within {} s", wait.as_secs()),
            )
            .with_hint("a connection that is being made ends when its --connect-timeout is over")),
            None => Ok(ended),
        }
    }

    /// Makes a connection, unless the same one is there.
    fn connect(self: &Arc<Self>, version: &str, text: &str) -> Result<Summary, CommandFailure> {
        if version != VERSION {
            let why = format!("the background process is of version {VERSION}, this program of {version}");
            return Err(CommandFailure::failed(why)
                .with_hint("`mcp-probe connect --end-all` ends it, with the connections that it keeps"));
        }
        let wanted: Wanted = serde_json::from_str(text)
            .map_err(|error| CommandFailure::failed(format!("the request cannot be read: {error}")))?;
        let name = wanted.name.clone();
        let signal = StopSignal::of_loop().map_err(|error| CommandFailure::failed(error.to_string()))?;
        let mut state = lock(&self.state);
        while let Some(kept) = state.connections.get_mut(&name) {
            if !matches!(kept.phase, Phase::Ending) {
                if kept.wanted != text {
                    return Err(taken(&name));
                }
                kept.is_shared = true;
                if let Some(summary) = kept.summary() {
                    return Ok(summary);
                }
            }
            // Another command makes it right now, or it ends and is made anew.
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.connections.len() >= MAX_CONNECTIONS {
            return Err(CommandFailure::failed(format!("there are {MAX_CONNECTIONS} connections already"))
                .with_hint("`mcp-probe connect --end NAME` ends one"));
        }
        let kept = Kept {
            wanted: text.to_owned(),
            phase: Phase::Opening,
            is_shared: false,
            begun: Instant::now(),
            stop: signal.stop.clone(),
        };
        state.connections.insert(name.clone(), kept);
        drop(state);
        let (sender, opened) = mpsc::sync_channel(1);
        let place = Place { keeper: Arc::clone(self), name: name.clone() };
        let run = move || place.hold(wanted, &signal, &sender);
        // The place is given up with the closure if there is no thread.
        thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|error| CommandFailure::failed(format!("the connection cannot be kept: {error}")))?;
        let ended = || Err(CommandFailure::failed("the connection ended at once"));
        opened.recv().unwrap_or_else(|_| ended())
    }
}

fn taken(name: &str) -> CommandFailure {
    CommandFailure::new(
        Exit::Usage,
        format!("@{name} is a connection to another server, or with other options"),
    )
    .with_hint(format!("`mcp-probe connect --end {name}` ends it"))
}

enum Phase {
    Opening,
    Open(Summary),
    /// No command is served any more.
    Ending,
}

impl Kept {
    /// Describes the connection as of now, while it is open.
    fn summary(&self) -> Option<Summary> {
        let Phase::Open(summary) = &self.phase else { return None };
        Some(Summary { seconds: self.begun.elapsed().as_secs(), ..summary.clone() })
    }
}

/// The place of a connection. Dropping it tells that the connection has ended.
struct Place {
    keeper: Arc<Keeper>,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.keeper.state).connections.remove(&self.name);
        self.keeper.changed.notify_all();
        self.keeper.wake();
    }
}

impl Place {
    /// Runs the connection until it ends. Sends its description, or why there is none.
    fn hold(self, wanted: Wanted, signal: &StopSignal, opened: &SyncSender<Result<Summary, CommandFailure>>) {
        let outcome = self.serve(wanted, signal, opened);
        // A next attempt finds the name free.
        drop(self);
        if let Err(failure) = outcome {
            // Nobody listens if it was open.
            let _ = opened.try_send(Err(failure));
        }
    }

    fn serve(
        &self,
        wanted: Wanted,
        signal: &StopSignal,
        opened: &SyncSender<Result<Summary, CommandFailure>>,
    ) -> Result<(), CommandFailure> {
        let address = StreamAddress::Unix(connections::socket(&self.keeper.folder, &self.name));
        let listener =
            StreamListener::bind(&address).map_err(|error| CommandFailure::failed(error.to_string()))?;
        let idle = Some(wanted.idle).filter(|idle| !idle.is_zero());
        let shown = wanted.shown.clone();
        let opener = opener(wanted)?;
        let notes = ProxyNotes::new(signal);
        let (keeper, name) = (Arc::clone(&self.keeper), self.name.clone());
        let operator = move |notice: &Notice<'_>| {
            if let Notice::Ended = notice {
                if let Some(kept) = lock(&keeper.state).connections.get_mut(&name) {
                    kept.phase = Phase::Ending;
                }
            }
            notes.notice(notice);
        };
        let options = proxy::options(&opener.args, operator);
        // What all clients have is not known before the last one has come, and the server is told once.
        let bridge = Bridge::new(Arc::new(opener), options).connect(ClientIdentity::shared());
        let bridge = bridge.map_err(proxy::connect_failure)?;
        // Its revision is what clients see.
        let versions = VersionSet::only(bridge.peer().version);
        let _ = opened.try_send(Ok(self.open(shown, idle, bridge.peer())));
        let mut socket = Socket::new(listener);
        if let Some(idle) = idle {
            socket = socket.end_after(idle);
        }
        let served = bridge.versions(versions).serve_socket(socket, &signal.stop);
        served.map_err(|error| proxy::failure("bridge", error))
    }

    /// Notes that the server is connected.
    fn open(&self, server: String, idle: Option<Duration>, peer: &Peer) -> Summary {
        let summary = Summary {
            name: self.name.clone(),
            server,
            era: peer.era().to_string(),
            revision: peer.version.to_string(),
            seconds: 0,
            idle: idle.map(|idle| idle.as_secs_f64()),
            is_new: false,
        };
        // It may have been asked to end meanwhile.
        let mut state = lock(&self.keeper.state);
        if let Some(Kept { phase: phase @ Phase::Opening, .. }) = state.connections.get_mut(&self.name) {
            *phase = Phase::Open(summary.clone());
        }
        drop(state);
        self.keeper.changed.notify_all();
        Summary { is_new: true, ..summary }
    }
}

/// Returns how a server is connected to.
///
/// # Errors
///
/// Fails if an option of authorization is wrong, or if stored tokens cannot be read.
pub(super) fn opener(wanted: Wanted) -> Result<UpstreamOpener, CommandFailure> {
    /// The options of a bridge, of which only a few can be set.
    #[derive(Parser)]
    struct Defaults {
        #[command(flatten)]
        proxy: ProxyArgs,
    }
    let Wanted { mut server, authorization, revisions, connection, timeout, .. } = wanted;
    let defaults =
        Defaults::try_parse_from([""]).map_err(|error| CommandFailure::from_parse_error(&error))?;
    let authorizer = authorization::for_command(&authorization, &revisions, &mut server)?;
    let args = ProxyArgs {
        revisions,
        timeout,
        connection,
        // The connection ends, not its server alone.
        idle_timeout: Duration::ZERO,
        stderr: StderrChoice::Capture,
        ..defaults.proxy
    };
    Ok(UpstreamOpener { name: None, args: Arc::new(args), timeout, server, authorizer })
}

/// Time after which the process looks whether requests still come to it.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of requests at once.
const MAX_REQUESTS: usize = 128;
/// Time in which a command has to send its request, and to read the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a connection ends: calls, then the server.
const END_TIMEOUT: Duration = Duration::from_secs(12);
/// Time after the last connection in which the process waits for another one.
pub(super) const LINGER: Duration = Duration::from_secs(1);
