//! Sessions that several processes serve without affinity, in a store or by what their ids carry.
//!
//! [`SharedSessions`] belongs to a process: it has the store and the keys. Each loop of a server takes what its server says
//! about sessions to the store and back. The store runs on threads of its own.

mod buckets;
mod failures;
mod in_ids;
mod jobs;
mod kept_calls;
mod message;
mod relays;
mod seal;
#[cfg(test)]
mod tests;

pub(crate) use buckets::SharedBuckets;
pub use seal::SessionKeys;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};

use mcp_proto::Instant;
use mcp_proto::http::server::{ExchangeId, Server, SessionId, SharedSessionEvent};
use mcp_std::entropy;
use mcp_std::session_store::{SessionStore, SessionStoreError, StoredSession, Swap, Watch, Watched};
use mcp_std::sync::{Inbox, Sender, Workers};

use self::failures::Failed;
use self::in_ids::SessionsInIds;
use self::jobs::{Job, Outcome, guard};
use self::message::{Message, RelayName};
use self::relays::{Relays, number_of};
use self::seal::{Purpose, Sealer};
use super::server_loop::ChangeSet;
use super::session_sharing::{Driven, ShareSessions};

/// Number of threads on which the store is called, for each loop.
const THREADS: usize = 4;
/// Largest number of calls of the store that wait, for each loop. Beyond it requests that need the store get 503.
const MAX_WAITING: usize = 1024;
/// Largest number of messages of other processes that wait, for each loop. Beyond it all sessions are loaded again.
const MAX_MESSAGES: usize = 1024;
/// Largest number of background loads under way, for each loop.
const MAX_LOADING: usize = 64;
/// Largest number of processes of which one look tells whether they have ended: it takes one of the threads.
const MAX_DOUBTED: usize = 16;
/// Number of times that a record is stored again after a conflict.
const MAX_CONFLICTS: u32 = 8;
/// Longest time for each of both at the end of the server.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The sessions of a process that other processes serve, too, for its servers: in a [store](Self::join), or
/// [without one](Self::in_ids).
///
/// All processes that share sessions have the same store and the same keys, and servers with the same configuration and number
/// of shards. A session survives its process, and each request of it can go to any of them. What each process publishes
/// reaches the subscribers of all, except to a [limited audience](mcp_proto::server::Audience), and except lists of extensions.
///
/// A call belongs to the process that it came to, and ends with it, unless its tool [may run
/// again](mcp_proto::router::ToolEntry::repeatable).
#[derive(Clone)]
pub struct SharedSessions(Place);

/// Where sessions are found by a process that does not have them.
#[derive(Clone)]
enum Place {
    Store(Arc<Shared>),
    Ids(SessionsInIds),
}

struct Shared {
    store: Arc<dyn SessionStore>,
    sealer: Sealer,
    loops: Arc<Loops>,
    _watch: Watch,
}

/// Where the messages of other processes go.
#[derive(Default)]
struct Loops(Mutex<Vec<Sender<Received>>>);

/// An event of the watch of the store.
#[derive(Clone)]
enum Received {
    /// A sealed message.
    Message(Arc<[u8]>),
    Gap,
}

impl Loops {
    fn send(&self, received: &Received) {
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|sender| !sender.is_closed());
        for sender in loops.iter() {
            if sender.send(received.clone()).is_err() {
                // The inbox is full. Whatever is lost, the sessions are loaded again.
                let _ = sender.send_or_merge(Received::Gap, |last, _| {
                    *last = Received::Gap;
                    true
                });
            }
        }
    }
}

impl SharedSessions {
    /// Joins the processes that use a store. The keys are those of all of them.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError`] if the store does not answer.
    pub fn join(store: impl SessionStore + 'static, keys: &SessionKeys) -> Result<Self, SessionStoreError> {
        let store: Arc<dyn SessionStore> = Arc::new(store);
        let loops = Arc::<Loops>::default();
        let receivers = loops.clone();
        let watch = store.watch(Arc::new(move |watched: Watched<'_>| {
            receivers.send(&match watched {
                Watched::Message(message) => Received::Message(message.into()),
                Watched::Gap => Received::Gap,
            });
        }))?;
        let sealer = Sealer::new(keys);
        Ok(Self(Place::Store(Arc::new(Shared { store, sealer, loops, _watch: watch }))))
    }

    /// Lets the id of each session carry what is known of its client, sealed with keys that all processes have: each takes up
    /// the session from it, without a store. For servers without subscriptions to resources, and sessions that may be begun anew.
    ///
    /// An id is taken up until `lifetime` after its session began, by the clock of the system: then the client gets
    /// 404 and begins a new session. One that the application has ended is taken up no more by the process that did so; another one
    /// takes it up until then. An id has at most 1,024 characters. If a client says more than
    /// about 600 bytes of itself, its session belongs to one process.
    ///
    /// An id tells no process what another one does. So these stay in their process: answers to questions, cancellations, log
    /// levels, the resumption of streams, and changes of lists. A client cannot end its session (DELETE: 405).
    #[must_use]
    pub fn in_ids(keys: &SessionKeys, lifetime: Duration) -> Self {
        Self(Place::Ids(SessionsInIds::new(Sealer::new(keys), lifetime)))
    }

    /// Shares the sessions of a server, which has had no request; for loops other than those of this crate.
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started; that of the store if it does not answer; without a store,
    /// [`io::ErrorKind::InvalidInput`] if the server offers subscriptions to resources.
    pub fn share(&self, server: &mut Server) -> io::Result<Box<dyn ShareSessions>> {
        match &self.0 {
            Place::Store(shared) => Ok(Box::new(SessionSharing::start(shared, Arc::default(), server)?)),
            Place::Ids(in_ids) => in_ids.start(server),
        }
    }
}

/// Shows no keys.
impl fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Store(_) => f.debug_struct("SharedSessions").finish_non_exhaustive(),
            Place::Ids(in_ids) => f.debug_tuple("SharedSessions").field(in_ids).finish(),
        }
    }
}

/// The end of a message.
enum Told {
    /// It was one of changes. Those that may not have reached the other processes are given back.
    Changes(Option<ChangeSet>),
    /// It may not have reached the other processes.
    Failed(Message),
    Others,
}

/// The sessions of one server.
struct SessionSharing {
    shared: Arc<Shared>,
    /// The number of this loop among those of all processes: the others see it as a process of its own.
    process: u32,
    /// The numbers of all shards of the server. They tell each other of changes without the store.
    shards: Arc<Mutex<Vec<u32>>>,
    workers: Workers<Job, Outcome>,
    /// One thread, so that messages arrive in their order.
    publisher: Workers<Message, Told>,
    inbox: Inbox<Received>,
    received: VecDeque<Received>,
    /// The sessions that are being stored.
    saving: BTreeMap<SessionId, Saving>,
    /// The sessions that are to be loaded for their GET streams, when there is room.
    to_load: BTreeSet<SessionId>,
    /// Number of such loads that are under way.
    loading: usize,
    failed: Failed,
    /// The pause has begun after which failed steps are tried again.
    is_paused: bool,
    relays: Relays,
    /// Processes that were asked for streams since the last look whether they have ended.
    doubted: BTreeSet<u32>,
    is_finding_ended: bool,
    /// Changes that are published when the earlier ones are.
    changes: Option<ChangeSet>,
    is_publishing: bool,
}

/// A session that is being stored.
#[derive(Default)]
struct Saving {
    /// Whose responses wait for the record that is being stored.
    waiting: Vec<ExchangeId>,
    /// Those that wait for the next one.
    next: Vec<ExchangeId>,
    conflicts: u32,
}

impl SessionSharing {
    /// Shares the sessions of a server, which has had no request.
    fn start(shared: &Arc<Shared>, shards: Arc<Mutex<Vec<u32>>>, server: &mut Server) -> io::Result<Self> {
        let shared = shared.clone();
        let process = guard(|| shared.store.join()).map_err(io::Error::other)?;
        let [a, b, c, d, ..] = entropy::seed()?;
        server.shared_sessions().begin(process);
        let runner = shared.clone();
        let run = move |job| runner.run(process, job);
        let workers = Workers::start("mcp-sessions", THREADS, MAX_WAITING, run)?;
        let publishing = shared.clone();
        let publisher = Workers::start("mcp-sessions-out", 1, MAX_WAITING, move |message| {
            let is_told = publishing.publish(process, &message);
            match message {
                Message::Changes(changes) => Told::Changes((!is_told).then_some(changes)),
                message if !is_told => Told::Failed(message),
                _ => Told::Others,
            }
        })?;
        shards.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        let inbox = Inbox::new(MAX_MESSAGES);
        shared.loops.0.lock().unwrap_or_else(PoisonError::into_inner).push(inbox.sender());
        // It is heard at once: a process that was asked with its number before, by an id that a client made up, is another one.
        _ = shared.publish(process, &Message::Changes(ChangeSet::default()));
        Ok(Self {
            shared,
            process,
            shards,
            workers,
            publisher,
            inbox,
            received: VecDeque::new(),
            saving: BTreeMap::new(),
            to_load: BTreeSet::new(),
            loading: 0,
            failed: Failed::default(),
            is_paused: false,
            relays: Relays::new(u32::from_ne_bytes([a, b, c, d])),
            doubted: BTreeSet::new(),
            is_finding_ended: false,
            changes: None,
            is_publishing: false,
        })
    }

    fn publish_next(&mut self) {
        if self.is_publishing {
            return;
        }
        self.failed.has_changes = false;
        if let Some(message) = self.changes.take().and_then(|changes| Message::of_changes(&changes)) {
            match self.publisher.submit(message) {
                Ok(()) => self.is_publishing = true,
                Err(Message::Changes(changes)) => self.keep_changes(&changes),
                Err(_) => {}
            }
        }
    }

    /// Keeps changes that the other processes may not have been told of.
    fn keep_changes(&mut self, changes: &ChangeSet) {
        self.changes.get_or_insert_default().merge(changes);
        self.failed.has_changes = true;
    }

    /// Tells the other processes. Returns whether there is room: if not, it is as if the message were lost on its way.
    fn tell(&self, message: Message) -> bool {
        self.publisher.submit(message).is_ok()
    }

    /// Stores a session, unless that is under way.
    fn save(&mut self, now: Instant, server: &mut Server, id: &SessionId) {
        let Some(saving) = self.saving.get_mut(id).filter(|saving| saving.waiting.is_empty()) else { return };
        saving.waiting = core::mem::take(&mut saving.next);
        self.store(now, server, id);
    }

    /// Stores a session as it is now, for those that wait.
    fn store(&mut self, now: Instant, server: &mut Server, id: &SessionId) {
        let record = server.shared_sessions().save(id);
        let job = record.map(|record| Job::Save {
            id: id.clone(),
            replaces: record.replaces,
            bytes: record.bytes,
            lifetime: server.config().record_lifetime(),
        });
        if job.is_none_or(|job| self.workers.submit(job).is_err()) {
            self.refuse(now, server, id);
        }
    }

    /// Ends the storing of a session, for all whose responses wait for the record.
    fn end_save(&mut self, id: &SessionId, end: impl FnMut(ExchangeId)) {
        let Some(saving) = self.saving.get_mut(id) else { return };
        saving.conflicts = 0;
        core::mem::take(&mut saving.waiting).into_iter().for_each(end);
        if saving.next.is_empty() {
            self.saving.remove(id);
        }
    }

    fn finish(&mut self, now: Instant, server: &mut Server, outcome: Outcome) {
        match outcome {
            Outcome::Loaded { exchange: Some(exchange), result, .. } => {
                let mut sessions = server.shared_sessions();
                match result {
                    // A record that cannot be taken is answered with 404.
                    Ok(Some(StoredSession { version, record })) => {
                        _ = sessions.found(now, exchange, version, &record);
                    }
                    Ok(None) => sessions.not_found(now, exchange),
                    Err(_) => sessions.unavailable(now, exchange),
                }
            }
            Outcome::Loaded { id, result, .. } => {
                self.loading = self.loading.saturating_sub(1);
                match result {
                    Ok(Some(StoredSession { version, record })) => {
                        _ = server.shared_sessions().merge(now, &id, version, &record);
                    }
                    Ok(None) => server.shared_sessions().forget(now, &id),
                    Err(_) => _ = self.failed.loads.insert(id),
                }
                self.load_next(server);
            }
            Outcome::Saved { id, result, is_told } => {
                if let Some(version) = version_of(&result).filter(|_| !is_told) {
                    self.failed.add_changed(id.clone(), version);
                }
                self.finish_save(now, server, &id, result);
            }
            Outcome::Removed { exchange, id, result, is_told } => {
                if result.is_err() || !is_told {
                    // Otherwise it would come back.
                    self.failed.add_ended(id);
                }
                let Some(exchange) = exchange else { return };
                match result {
                    Ok(()) => server.shared_sessions().stored(now, exchange, 0),
                    Err(_) => server.shared_sessions().not_stored(now, exchange),
                }
            }
            Outcome::Touched => {}
            Outcome::Ended(processes) => {
                for process in processes {
                    self.relays.end_process(now, server, process);
                }
                self.is_finding_ended = false;
                self.find_ended();
            }
            Outcome::Call(outcome) => self.finish_call(now, server, outcome),
            Outcome::Paused => self.try_again(now, server),
        }
    }

    /// Gives the messages of a session that wait here to the process with a number, which has a GET stream.
    fn hand_over(&mut self, now: Instant, server: &mut Server, id: &SessionId, to: u32, after: Option<&str>) {
        for message in server.shared_sessions().take_waiting(now, id, after) {
            let told = self.publisher.submit(Message::ForStream(id.clone(), to, message.to_vec()));
            if let Err(message) = told {
                self.fail(now, server, message);
            }
        }
    }

    /// Asks the process with a number for the stream of a call that a request resumes.
    fn ask(
        &mut self,
        now: Instant,
        server: &mut Server,
        exchange: ExchangeId,
        stream: (SessionId, u32, String),
    ) {
        let process = stream.1;
        let Some(asked) = self.relays.resume(now, server, exchange, stream) else { return };
        match self.publisher.submit(asked) {
            Ok(()) => {
                self.doubted.insert(process);
                self.find_ended();
            }
            Err(asked) => self.fail(now, server, asked),
        }
    }

    /// Looks which of the processes have ended that were asked. Without an answer their silence tells.
    fn find_ended(&mut self) {
        if self.is_finding_ended || self.doubted.is_empty() {
            return;
        }
        let doubted = core::mem::take(&mut self.doubted);
        let some = doubted.into_iter().take(MAX_DOUBTED).collect();
        self.is_finding_ended = self.workers.submit(Job::FindEnded(some)).is_ok();
    }

    fn finish_save(
        &mut self,
        now: Instant,
        server: &mut Server,
        id: &SessionId,
        result: Result<Swap, SessionStoreError>,
    ) {
        match result {
            Ok(Swap::Stored(version)) => self.end_save(id, |exchange| {
                server.shared_sessions().stored(now, exchange, version);
            }),
            Ok(Swap::Conflict(stored)) => {
                let is_merged = match stored {
                    Some(StoredSession { version, record }) => {
                        server.shared_sessions().merge(now, id, version, &record).is_ok()
                    }
                    // Another process has ended it.
                    None => false,
                };
                if !is_merged {
                    server.shared_sessions().forget(now, id);
                }
                let saving = self.saving.get_mut(id).filter(|_| is_merged);
                let is_again = saving.is_some_and(|saving| {
                    saving.conflicts += 1;
                    // The record has their changes, too.
                    saving.waiting.append(&mut saving.next);
                    saving.conflicts < MAX_CONFLICTS
                });
                if is_again {
                    return self.store(now, server, id);
                }
                self.refuse(now, server, id);
            }
            Err(_) => self.refuse(now, server, id),
        }
        if self.saving.contains_key(id) {
            self.save(now, server, id);
        }
    }

    /// Refuses the requests whose changes could not be stored.
    fn refuse(&mut self, now: Instant, server: &mut Server, id: &SessionId) {
        self.end_save(id, |exchange| {
            server.shared_sessions().not_stored(now, exchange);
        });
    }

    /// Returns the changes that are to be published here.
    fn receive(&mut self, now: Instant, server: &mut Server, received: &Received) -> Option<ChangeSet> {
        let Received::Message(sealed) = received else {
            self.relays.end_all(now, server);
            for id in server.shared_sessions().mark_all_stale() {
                // Other processes may have sent messages that this one did not hear: they send again those that still wait.
                _ = self.tell(Message::StreamOpened(id.clone(), String::new()));
                self.load(server, id);
            }
            // Changes that were published meanwhile are unknown.
            return Some(ChangeSet::everything());
        };
        let message = self.shared.sealer.open(Purpose::Message, sealed).ok()?;
        let (process, message) = Message::read(&message)?;
        self.relays.hear(now, process, &message);
        // Own messages return, too.
        if process == self.process {
            return None;
        }
        let mut sessions = server.shared_sessions();
        match message {
            Message::Changed(id, version) => {
                if sessions.mark_stale(&id, version) {
                    self.load(server, id);
                }
            }
            Message::Ended(id) => sessions.forget(now, &id),
            Message::Relay(id, message) => sessions.receive(now, &id, &message.into()),
            Message::StreamOpened(id, after) => {
                let after = Some(&*after).filter(|after| !after.is_empty());
                self.hand_over(now, server, &id, process, after);
            }
            Message::ForStream(id, to, message) if to == self.process => {
                _ = sessions.send(now, &id, message.into());
            }
            Message::Resume(id, to, request, after) if to == self.number() => {
                let name = RelayName { id, process, request };
                let opened = self.relays.open(now, server, name, &after);
                _ = opened.is_none_or(|opened| self.tell(opened));
            }
            Message::Stream(name, number, part, bytes) if name.process == self.process => {
                let answer = self.relays.receive(now, server, name, (number, part, bytes));
                _ = answer.is_none_or(|answer| self.tell(answer));
            }
            Message::StopStream(name) if name.process == process => self.relays.stop(now, server, &name),
            // For another process.
            Message::ForStream(..) | Message::Resume(..) | Message::Stream(..) | Message::StopStream(..) => {}
            Message::Changes(changes) => {
                let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
                return (!shards.contains(&process)).then_some(changes);
            }
        }
        None
    }

    /// Returns whether [`work`](Self::work) may have something to do. It is asked several times for each call, most of which
    /// have nothing to do with other processes.
    fn has_work(&self) -> bool {
        self.workers.has_outcome()
            || self.publisher.has_outcome()
            || !self.inbox.is_empty()
            || (!self.is_paused && !self.failed.is_empty())
            || self.relays.has_open()
    }

    /// Takes what the store and other processes say.
    fn work(&mut self, now: Instant, server: &mut Server) -> Driven {
        let mut driven = Driven::default();
        while let Some(outcome) = self.workers.poll_outcome() {
            driven.any = true;
            self.finish(now, server, outcome);
        }
        while let Some(told) = self.publisher.poll_outcome() {
            driven.any = true;
            match told {
                Told::Changes(failed) => {
                    self.is_publishing = false;
                    match failed {
                        Some(changes) => self.keep_changes(&changes),
                        None => self.publish_next(),
                    }
                }
                Told::Failed(message) => self.fail(now, server, message),
                Told::Others => {}
            }
        }
        if self.inbox.take(&mut self.received) {
            let mut received = core::mem::take(&mut self.received);
            for received in received.drain(..) {
                driven.any = true;
                if let Some(changes) = self.receive(now, server, &received) {
                    driven.changes.get_or_insert_default().merge(&changes);
                }
            }
            self.received = received;
        }
        if !self.is_paused && !self.failed.is_empty() {
            // If the queue is full, there are outcomes to come, and it is tried again after them.
            self.is_paused = self.workers.submit(Job::Pause).is_ok();
        }
        let publisher = &self.publisher;
        driven.any |= self.relays.drive(now, server, |message| publisher.submit(message).is_ok());
        driven
    }

    /// Returns the number that streams of this process have.
    fn number(&self) -> u32 {
        number_of(self.process)
    }

    /// Loads a session that has a GET stream, when there is room.
    fn load(&mut self, server: &Server, id: SessionId) {
        self.to_load.insert(id);
        self.load_next(server);
    }

    /// Begins loads of sessions that have GET streams. Most of the queue is left to requests.
    fn load_next(&mut self, server: &Server) {
        let lifetime = server.config().record_lifetime();
        while self.loading < MAX_LOADING {
            let Some(id) = self.to_load.pop_first() else { return };
            if let Err(Job::Load { id, .. }) = self.workers.submit(Job::Load { exchange: None, id, lifetime })
            {
                self.failed.loads.insert(id);
                return;
            }
            self.loading += 1;
        }
    }
}

/// Returns the version of a record that was stored.
const fn version_of(result: &Result<Swap, SessionStoreError>) -> Option<u64> {
    if let Ok(Swap::Stored(version)) = result { Some(*version) } else { None }
}

impl ShareSessions for SessionSharing {
    fn register(&self, waker: &Waker) {
        self.workers.register(waker);
        self.publisher.register(waker);
        self.inbox.register(waker);
    }

    fn publish(&mut self, changes: &ChangeSet) {
        self.changes.get_or_insert_default().merge(changes);
        self.publish_next();
    }

    fn handle_event(&mut self, now: Instant, server: &mut Server, event: SharedSessionEvent) {
        match event {
            SharedSessionEvent::Load { exchange, id } => {
                if self.failed.ended.contains(&id) {
                    return server.shared_sessions().not_found(now, exchange);
                }
                let lifetime = server.config().record_lifetime();
                let job = Job::Load { exchange: Some(exchange), id, lifetime };
                if self.workers.submit(job).is_err() {
                    server.shared_sessions().unavailable(now, exchange);
                }
            }
            SharedSessionEvent::Changed { exchange, id } => {
                self.saving.entry(id.clone()).or_default().next.push(exchange);
                self.save(now, server, &id);
            }
            SharedSessionEvent::Ended { id, exchange } => {
                let saving = self.saving.remove(&id).unwrap_or_default();
                for waiting in saving.waiting.into_iter().chain(saving.next) {
                    server.shared_sessions().not_stored(now, waiting);
                }
                if let Err(Job::Remove { exchange, id }) = self.workers.submit(Job::Remove { exchange, id }) {
                    self.failed.add_ended(id);
                    if let Some(exchange) = exchange {
                        server.shared_sessions().not_stored(now, exchange);
                    }
                }
            }
            SharedSessionEvent::Used { ids } => {
                let lifetime = server.config().record_lifetime();
                _ = self.workers.submit(Job::Touch { ids, lifetime });
            }
            SharedSessionEvent::StreamOpened { id, after } => {
                _ = self.tell(Message::StreamOpened(id, after.unwrap_or_default()));
            }
            SharedSessionEvent::Resume { exchange, id, process, after } => {
                self.ask(now, server, exchange, (id, process, after));
            }
            SharedSessionEvent::KeepCall { .. }
            | SharedSessionEvent::CallAnswered { .. }
            | SharedSessionEvent::CallCancelled { .. }
            | SharedSessionEvent::FindCall { .. } => self.handle_call_event(now, server, event),
            SharedSessionEvent::Relay { id, message } => _ = self.tell(Message::Relay(id, message.to_vec())),
            _ => {}
        }
    }

    fn drive(&mut self, now: Instant, server: &mut Server) -> Driven {
        if self.has_work() { self.work(now, server) } else { Driven::default() }
    }

    fn for_shard(&self, server: &mut Server) -> io::Result<Box<dyn ShareSessions>> {
        Ok(Box::new(Self::start(&self.shared, self.shards.clone(), server)?))
    }

    fn finish(self: Box<Self>) {
        // Another process waits for these, and the process may end now.
        let _ = self.publisher.finish(FINISH_TIMEOUT);
        let _ = self.workers.finish(FINISH_TIMEOUT);
    }
}

impl fmt::Debug for SessionSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSharing").field("process", &self.process).finish_non_exhaustive()
    }
}
