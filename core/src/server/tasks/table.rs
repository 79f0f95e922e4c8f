//! The table of tasks: their states, owners and bounds. It knows no connection and writes no message.
//!
//! `core/docs/tasks.md` has the transitions as a table, which a test compares with this code.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use core::time::Duration;

use super::entry::{Owner, OwnerEntry, TASK_BYTES, TaskEntry, TaskOutcome, TaskRequest, TaskState};
use super::store::StoreQueue;
use crate::calls::inbound::NO_MEMORY_FOR_ANSWER;
use crate::deadlines::Deadlines;
use crate::entropy::Entropy;
use crate::error::UseError;
use crate::limits::Limit;
use crate::memory::Charge;
use crate::rpc::RpcError;
use crate::slab::list::List;
use crate::slab::tree::Tree;
use crate::slab::{Key, Slab};
use crate::sync::Arc;
use crate::tasks::ledger::TaskHead;
use crate::tasks::text::{TaskBits, TaskIds};
use crate::time::{Anchor, Instant};
use crate::version::Version;

/// The tasks of a server, for [`Engine::set_tasks`](super::super::Engine::set_tasks).
///
/// They are kept in memory, and in a store if there is [one](Self::stored).
#[derive(Debug)]
pub struct TaskTable {
    ids: TaskIds,
    pub(super) anchor: Anchor,
    pub(super) limits: TaskLimits,
    pub(super) tasks: Slab<TaskEntry>,
    pub(super) by_id: Tree,
    pub(super) owners: Slab<OwnerEntry>,
    pub(super) by_owner: Tree,
    pub(super) deadlines: Deadlines<Key>,
    /// Tasks that wait for their turn to run, and some that do not any more.
    queue: VecDeque<Key>,
    /// Invariant: the number of tasks whose state holds a place.
    pub(super) running: usize,
    /// Invariant: the sum of the bytes that are charged for the tasks.
    pub(super) bytes: usize,
    /// Those bytes, on the account of the engine.
    pub(super) charge: Charge,
    /// Metadata of the last request that was kept.
    last_meta: Option<Arc<[u8]>>,
    pub(super) store: Option<StoreQueue>,
    /// Whether `tasks/list` is offered.
    pub(super) has_list: bool,
}

/// A task to be created.
#[derive(Debug)]
pub(in crate::server) struct NewTask {
    pub(in crate::server) version: Version,
    pub(in crate::server) owner: Owner,
    /// Requested time to live.
    pub(in crate::server) ttl: Option<Duration>,
    pub(in crate::server) poll_interval: Option<Duration>,
    pub(in crate::server) message: Option<String>,
    pub(in crate::server) session: Option<Key>,
    pub(in crate::server) request: Option<TaskRequest>,
}

impl TaskTable {
    /// Creates an empty table, which is kept in memory only.
    ///
    /// Ids of tasks are drawn from `entropy`: 128 bits each (TASK-035, TASK-131). `anchor` gives the time of day.
    #[must_use]
    pub fn new(entropy: Entropy, anchor: Anchor) -> Self {
        Self {
            ids: TaskIds::new(entropy),
            anchor,
            limits: TaskLimits::default(),
            tasks: Slab::new(),
            by_id: Tree::new(),
            owners: Slab::new(),
            by_owner: Tree::new(),
            deadlines: Deadlines::new(),
            queue: VecDeque::new(),
            running: 0,
            bytes: 0,
            charge: Charge::default(),
            last_meta: None,
            store: None,
            has_list: true,
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: TaskLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps the tasks in a store: [`Tasks::poll_store`](super::super::Tasks::poll_store) returns what it has to do.
    ///
    /// Load what it has ([`Tasks::load`](super::super::Tasks::load)) before the first request arrives.
    #[must_use]
    pub fn stored(mut self) -> Self {
        self.store.get_or_insert_default();
        self
    }

    /// Does not offer `tasks/list`: for a server where nothing tells the tasks of one client from those of others (TASK-035).
    #[must_use]
    pub const fn without_list(mut self) -> Self {
        self.has_list = false;
        self
    }

    // ---- reading ----

    pub(in crate::server) fn get(&self, key: Key) -> Option<&TaskEntry> {
        self.tasks.get(key)
    }

    pub(in crate::server) fn get_mut(&mut self, key: Key) -> Option<&mut TaskEntry> {
        self.tasks.get_mut(key)
    }

    /// Returns the task with an id, whether clients see it or not.
    pub(super) fn find_bits(&mut self, bits: TaskBits) -> Option<Key> {
        self.by_id.find(&mut self.tasks, |_, task| task.head.id.cmp(&bits))
    }

    /// Returns the task with this id, if clients see it and the party may use it in this revision (TASK-034).
    ///
    /// An unknown task, one of another owner and one that has expired are searched for alike.
    pub(in crate::server) fn find(
        &mut self,
        now: Instant,
        id: &[u8],
        party: &Owner,
        version: Version,
    ) -> Option<Key> {
        let key = self.find_bits(TaskBits::parse(id)?)?;
        let task = self.tasks.get(key)?;
        let owner = &self.owners.get(task.owner)?.owner;
        // Without an owner, the id alone gives access (TASK-035).
        (task.is_visible(now, version) && (*owner == Owner::Holder || owner == party)).then_some(key)
    }

    /// Returns the visible tasks of a party from a position on, with their positions (TASK-026, TASK-027).
    pub(in crate::server) fn list(
        &mut self,
        now: Instant,
        party: &Owner,
        version: Version,
        after: Option<(u32, Key)>,
    ) -> impl Iterator<Item = (Key, &TaskEntry)> {
        let key = self.find_owner(party);
        let (tasks, owner) = (&self.tasks, key.and_then(|key| self.owners.get(key)));
        let begin = match after {
            None => owner.and_then(|of| of.tasks.first(tasks)),
            // The task of the position mostly exists. Otherwise the list is searched from its beginning.
            Some((number, at))
                if tasks.get(at).is_some_and(|t| (t.number, Some(t.owner)) == (number, key)) =>
            {
                List::next(tasks, at)
            }
            Some((number, _)) => {
                owner.and_then(|of| of.tasks.iter(tasks).find(|(_, t)| t.number > number)).map(|(key, _)| key)
            }
        };
        let keys = core::iter::successors(begin, |key| List::next(tasks, *key));
        let listed = keys.filter_map(|key| Some((key, tasks.get(key)?)));
        listed.filter(move |(_, task)| task.is_visible(now, version))
    }

    /// Returns a task whose handler has left with questions and this state, and the number of the questions.
    pub(super) fn find_asking(&self, state: &[u8]) -> Option<(Key, usize)> {
        let has_state = |task: &TaskEntry| task.request.as_ref().is_some_and(|kept| *kept.state == *state);
        // Handlers without state cannot be told apart.
        let found = self.tasks.iter().filter(|(_, task)| !state.is_empty() && has_state(task));
        found.map(|(key, task)| (key, task.questions().len())).find(|(_, count)| *count > 0)
    }

    pub(in crate::server) const fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns how many tasks may run at a time.
    pub(super) fn max_running(&self) -> usize {
        self.limits.max_running.max(1)
    }

    /// Returns whether one more task may run at once, without waiting for its turn.
    pub(in crate::server) fn has_place(&self) -> bool {
        self.running < self.max_running() && self.queue.is_empty()
    }

    // ---- creation ----

    /// Creates a task. It waits for its turn, or for the store.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    pub(in crate::server) fn create(&mut self, now: Instant, new: NewTask) -> Result<Key, UseError> {
        let message = new.message.as_ref().map_or(0, |m| m.len());
        self.check_room(&new.owner, TASK_BYTES + message + new.request.as_ref().map_or(0, |r| r.len()))?;
        let ttl = new.ttl.unwrap_or(self.limits.default_ttl).min(self.limits.max_ttl);
        let poll = new.poll_interval.unwrap_or(self.limits.poll_interval);
        let head = TaskHead::new(self.ids.draw(), now, self.anchor, ttl, poll);
        let state = if self.store.is_some() { TaskState::Creating } else { TaskState::Queued };
        let entry = TaskEntry {
            session: new.session,
            request: new.request.map(Box::new),
            message: new.message.map(Into::into),
            ..TaskEntry::new(head, state, new.version)
        };
        let key = self.insert(entry, new.owner)?;
        match self.store {
            Some(_) => self.save_before_going_on(key),
            None => self.push_turn(key),
        }
        Ok(key)
    }

    // ---- transitions ----

    /// Changes the state of a task, with the sums that depend on it.
    pub(super) fn set_state(&mut self, key: Key, state: TaskState) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        let (before, after) = (task.state.holds_place(), state.holds_place());
        task.state = state;
        self.running = (self.running + usize::from(after)).saturating_sub(usize::from(before));
    }

    fn touch(&mut self, now: Instant, key: Key) {
        if let Some(task) = self.tasks.get_mut(key) {
            task.head.touch(now, self.anchor);
        }
    }

    /// Returns the next task that has its turn, if there is a place. Its handler runs from now on.
    pub(in crate::server) fn take_turn(&mut self) -> Option<Key> {
        while self.running < self.max_running() {
            let key = self.queue.pop_front()?;
            // It was cancelled, or has ended otherwise, while it waited.
            if self.tasks.get(key).is_none_or(|task| task.state != TaskState::Queued) {
                continue;
            }
            if self.store.is_none() {
                self.set_state(key, TaskState::Running);
                return Some(key);
            }
            // The store has to know it first: after a restart, the handler must not run a second time.
            self.set_state(key, TaskState::Starting);
            self.save_before_going_on(key);
        }
        None
    }

    /// Puts back a task whose handler has not begun to run, although it had its turn.
    pub(in crate::server) fn postpone(&mut self, key: Key) {
        if self.tasks.get(key).is_some_and(|task| task.state == TaskState::Running) {
            self.set_state(key, TaskState::Queued);
            self.push_turn(key);
            // A store has it as running, so a restart would report it as interrupted.
            self.save(key);
        }
    }

    /// Takes what the handler of a task gets for its run.
    pub(in crate::server) fn take_request(&mut self, key: Key) -> Option<TaskRequest> {
        self.change(key, |task| task.request.take()).flatten().map(|request| *request)
    }

    /// Keeps the request and the questions of a running task, which waits for their answers.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`].
    pub(in crate::server) fn suspend(
        &mut self,
        now: Instant,
        key: Key,
        mut request: TaskRequest,
    ) -> Result<(), UseError> {
        self.tasks.get(key).filter(|task| task.state == TaskState::Running).ok_or(UseError::Stale)?;
        if let Some(used_keys) = self.tasks.get(key).map(|task| &task.used_keys) {
            let names = request.questions.iter().map(|question| &*question.name);
            let keys: alloc::vec::Vec<_> = used_keys.assign(names).collect();
            for (question, key) in request.questions.iter_mut().zip(keys) {
                question.key = key;
            }
        }
        let keys: usize = request.questions.iter().map(|question| charge(question.wire_key())).sum();
        self.check_growth(key, request.len() + keys)?;
        self.share_meta(&mut request);
        let is_complete = request.questions.iter().all(|question| question.answer.is_some());
        self.change(key, |task| {
            for question in &request.questions {
                task.used_keys.insert(question.wire_key());
            }
            (task.request, task.run) = (Some(Box::new(request)), None);
        });
        self.touch(now, key);
        self.set_state(key, TaskState::Asking);
        if is_complete {
            self.resume(key);
        } else {
            self.save(key);
        }
        Ok(())
    }

    /// Uses the text of the last metadata for an equal one.
    pub(in crate::server) fn share_meta(&mut self, request: &mut TaskRequest) {
        if let Some((_, meta)) = &mut request.meta {
            match &self.last_meta {
                Some(last) if **last == **meta => *meta = Arc::clone(last),
                _ => self.last_meta = Some(Arc::clone(meta)),
            }
        }
    }

    /// Records the answer to a question. Returns whether it was the last one, so the task waits for its turn again.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], and [`UseError::Stale`] if the question is not open.
    pub(in crate::server) fn answer(
        &mut self,
        now: Instant,
        key: Key,
        question: usize,
        outcome: crate::calls::inbound::InputOutcome,
    ) -> Result<bool, UseError> {
        let bytes = outcome.as_ref().map_or(0, |value| value.as_bytes().len());
        let task = self.tasks.get(key).ok_or(UseError::Stale)?;
        task.questions().get(question).filter(|q| q.answer.is_none()).ok_or(UseError::Stale)?;
        // An error always has room: the handler would wait without end.
        if outcome.is_ok() {
            self.check_growth(key, bytes)?;
        }
        let is_complete = self.change(key, |task| {
            if let Some(question) = task.questions_mut().get_mut(question) {
                (question.answer, question.asked) = (Some(outcome), None);
            }
            task.questions().iter().all(|question| question.answer.is_some())
        });
        self.touch(now, key);
        if is_complete == Some(true) {
            self.resume(key);
        }
        // The start of the run is saved before it, and the answers with it.
        self.save(key);
        Ok(is_complete == Some(true))
    }

    fn resume(&mut self, key: Key) {
        self.change(key, |task| {
            if let Some(request) = &mut task.request {
                request.attempt = request.attempt.saturating_add(1);
                let questions = core::mem::take(&mut request.questions);
                request.answers.extend(questions.into_iter().filter_map(|q| Some((q.name, q.answer?))));
            }
        });
        self.set_state(key, TaskState::Queued);
        self.push_turn(key);
    }

    /// Ends a task whose handler has answered. Clients see it once the store has it: at once without a store.
    ///
    /// Returns whether clients see it.
    pub(in crate::server) fn finish(&mut self, now: Instant, key: Key, outcome: TaskOutcome) -> bool {
        if self.tasks.get(key).is_none_or(|task| task.state != TaskState::Running) {
            return false;
        }
        let bytes = match &outcome {
            TaskOutcome::Result(text, _) | TaskOutcome::Error(text) => text.len(),
        };
        // An error is short enough to be kept even if it exceeds the limit.
        let outcome = match self.check_growth(key, bytes) {
            Ok(()) => outcome,
            Err(UseError::Full(Limit::Memory)) => error_outcome(&RpcError::internal(NO_MEMORY_FOR_ANSWER)),
            Err(_) => error_outcome(&RpcError::internal("the result is too large to be kept")),
        };
        let state = match outcome {
            TaskOutcome::Result(..) => TaskState::Completed,
            TaskOutcome::Error(_) => TaskState::Failed,
        };
        self.end(now, key, state, Some(outcome))
    }

    /// Cancels a task that has not ended. Returns whether clients see it.
    pub(in crate::server) fn cancel(&mut self, now: Instant, key: Key) -> bool {
        let is_over = |task: &TaskEntry| task.state.is_terminal() || task.state == TaskState::Creating;
        if self.tasks.get(key).is_none_or(is_over) {
            return false;
        }
        self.end(now, key, TaskState::Cancelled, None)
    }

    pub(super) fn end(
        &mut self,
        now: Instant,
        key: Key,
        state: TaskState,
        outcome: Option<TaskOutcome>,
    ) -> bool {
        let is_settled = self.store.is_none();
        self.touch(now, key);
        self.set_state(key, state);
        self.change(key, |task| {
            task.tool_failed = matches!(outcome, Some(TaskOutcome::Result(_, true)));
            (task.outcome, task.request, task.run) = (outcome, None, None);
            task.used_keys = UsedKeys::default();
            // What it worked at is over.
            task.message = None;
            task.is_settled = is_settled;
        });
        if !is_settled {
            self.save_before_going_on(key);
        }
        is_settled
    }

    /// Sets the message of a task that has not ended. Returns false if there is no room, or it is the same.
    pub(in crate::server) fn set_message(&mut self, now: Instant, key: Key, message: &str) -> bool {
        let Some(task) = self.tasks.get(key).filter(|task| !task.state.is_terminal()) else { return false };
        if task.message.as_deref() == Some(message) || self.check_growth(key, message.len()).is_err() {
            return false;
        }
        self.change(key, |task| task.message = Some(message.into()));
        self.touch(now, key);
        self.save(key);
        true
    }

    // ---- time ----

    /// Returns a task that has expired.
    pub(in crate::server) fn next_expired(&mut self, now: Instant) -> Option<Key> {
        loop {
            let (at, key) = self.deadlines.pop_due(now)?;
            if self.tasks.get(key).is_some_and(|task| task.head.expires_at == at) {
                return Some(key);
            }
        }
    }

    /// Returns the next time at which a task expires or the store is tried again.
    pub(in crate::server) fn next_deadline(&mut self) -> Option<Instant> {
        let tasks = &self.tasks;
        let expiry = self.deadlines.next(|_, key| tasks.get(key).is_some());
        let retry = self.store.as_mut().and_then(|store| store.next_retry());
        expiry.into_iter().chain(retry).min()
    }

    #[cfg(test)]
    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Frees the memory of an empty table.
    pub(in crate::server) fn trim(&mut self) {
        self.tasks.trim();
        self.owners.trim();
        self.queue.shrink_to_fit();
        let tasks = &self.tasks;
        self.deadlines.trim(|_, key| tasks.get(key).is_some());
    }

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::server) fn check_sums(&self) {
        let all = || self.tasks.iter().map(|(_, task)| task);
        assert_eq!(self.bytes, all().map(TaskEntry::len).sum::<usize>(), "the bytes of all tasks");
        assert_eq!(self.running, all().filter(|t| t.state.holds_place()).count(), "the tasks that run");
        self.check_owners();
        let waiting = all().filter(|task| task.state == TaskState::Queued).count();
        assert!(self.queue.len() >= waiting, "each task that waits for its turn is in the queue");
    }

    /// Lets a task wait for its turn.
    pub(super) fn push_turn(&mut self, key: Key) {
        // Tasks that ended before their turn leave their keys, which are removed before they are many.
        if self.queue.len() > 2 * self.tasks.len() + 32 {
            let tasks = &self.tasks;
            self.queue.retain(|key| tasks.get(*key).is_some_and(|task| task.state == TaskState::Queued));
        }
        self.queue.push_back(key);
    }
}

/// Returns the outcome of a task that ends with an error.
pub(in crate::server) fn error_outcome(error: &RpcError) -> TaskOutcome {
    let mut text = alloc::vec::Vec::new();
    error.write(&mut text);
    TaskOutcome::Error(text.into())
}

// Keys of input requests: a task uses none twice (TASK-120).

/// The keys that a task has used for its input requests. They are stored with it, so a restart changes nothing.
#[derive(Debug, Default)]
pub(super) struct UsedKeys(BTreeSet<Box<str>>);

impl UsedKeys {
    /// Returns the keys for the questions of a new round, by their names: `None` for those that are their own keys.
    ///
    /// A name that was never a key is its own key. Any other name gets the first free number.
    pub(super) fn assign<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> impl Iterator<Item = Option<String>> {
        // A numbered key gives way to a name of the same round that is spelled like it.
        let mut taken: BTreeSet<String> =
            names.clone().filter(|name| !self.contains(name)).map(String::from).collect();
        names.map(move |name| {
            if !self.contains(name) {
                return None;
            }
            // Fewer numbers are taken than there are keys, so the search ends.
            let mut numbered = (2_u32..).map(|number| alloc::format!("{name}#{number}"));
            let key = numbered.find(|key| !self.contains(key) && !taken.contains(key))?;
            taken.insert(key.clone());
            Some(key)
        })
    }

    fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// Adds a key. Returns false if it was there.
    pub(super) fn insert(&mut self, key: &str) -> bool {
        self.0.insert(key.into())
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|key| &**key)
    }

    /// Returns the bytes that are charged for the keys.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|key| charge(key)).sum()
    }
}

/// Returns the bytes that are charged for a key: its text, and its place in the set.
pub(super) const fn charge(key: &str) -> usize {
    key.len() + 16
}

// Limits of a table of tasks.

/// Limits of the tasks of a server; each documents what happens when it is reached (TASK-036).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// Number of tasks, including those that have ended and can still be read (default 10,000).
    ///
    /// A task that has expired counts until the store has deleted its record.
    /// No task is created beyond it: [`Tasks::begin`](crate::server::Tasks::begin) returns
    /// [`UseError::Full`](crate::UseError::Full), and the call stays open.
    pub max_tasks: usize,
    /// Number of tasks of one owner: a principal or a session (default 1,000). As [`max_tasks`](Self::max_tasks).
    pub max_tasks_per_owner: usize,
    /// Number of all tasks without an owner (default 5,000). As [`max_tasks`](Self::max_tasks).
    ///
    /// Clients without a principal and a session create them: those of 2026-07-28 on a server without authorization.
    pub max_unowned_tasks: usize,
    /// Bytes that are kept for all tasks: 256 for each, its arguments, state, answers, messages and its result (default
    /// 64 MiB).
    ///
    /// As [`max_tasks`](Self::max_tasks) for a new task. A result beyond it makes its task fail, input requests and
    /// answers beyond it are refused, and a message beyond it is dropped.
    pub max_bytes: usize,
    /// Bytes that are kept for the tasks of one owner (default 16 MiB). As [`max_bytes`](Self::max_bytes).
    pub max_bytes_per_owner: usize,
    /// Bytes that are kept for all tasks without an owner (default 32 MiB). As
    /// [`max_bytes`](Self::max_bytes).
    pub max_unowned_bytes: usize,
    /// Time from creation to expiry of a task whose requestor asked for none (default one hour).
    pub default_ttl: Duration,
    /// Longest time from creation to expiry (default one day). A longer request gets this one (TASK-016).
    pub max_ttl: Duration,
    /// Suggested time between two polls (default one second; TASK-017).
    pub poll_interval: Duration,
    /// Number of requests of one principal, session or connection that wait for tasks: for results (2025-11-25), and for
    /// the store (default 64). All requests together have the bound of
    /// [`Limits::max_live_calls`](crate::Limits::max_live_calls).
    ///
    /// Error -32603 answers a request beyond it, and changes nothing.
    pub max_waiting_requests: usize,
    /// Number of tasks whose handlers run at the same time (default 64). Others wait for their turn as data.
    ///
    /// In the adapters, the handler of a cancelled task counts until it has returned and its blocking work has ended.
    pub max_running: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            max_tasks: 10_000,
            max_tasks_per_owner: 1_000,
            max_unowned_tasks: 5_000,
            max_bytes: 64 << 20,
            max_bytes_per_owner: 16 << 20,
            max_unowned_bytes: 32 << 20,
            default_ttl: Duration::from_secs(3_600),
            max_ttl: Duration::from_secs(86_400),
            poll_interval: Duration::from_secs(1),
            max_waiting_requests: 64,
            max_running: 64,
        }
    }
}

impl TaskLimits {
    /// Creates the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`max_tasks`](#structfield.max_tasks).
    #[must_use]
    pub const fn max_tasks(mut self, tasks: usize) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// Sets [`max_tasks_per_owner`](#structfield.max_tasks_per_owner).
    #[must_use]
    pub const fn max_tasks_per_owner(mut self, tasks: usize) -> Self {
        self.max_tasks_per_owner = tasks;
        self
    }

    /// Sets [`max_unowned_tasks`](#structfield.max_unowned_tasks).
    #[must_use]
    pub const fn max_unowned_tasks(mut self, tasks: usize) -> Self {
        self.max_unowned_tasks = tasks;
        self
    }

    /// Sets [`max_bytes`](#structfield.max_bytes).
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets [`max_bytes_per_owner`](#structfield.max_bytes_per_owner).
    #[must_use]
    pub const fn max_bytes_per_owner(mut self, bytes: usize) -> Self {
        self.max_bytes_per_owner = bytes;
        self
    }

    /// Sets [`max_unowned_bytes`](#structfield.max_unowned_bytes).
    #[must_use]
    pub const fn max_unowned_bytes(mut self, bytes: usize) -> Self {
        self.max_unowned_bytes = bytes;
        self
    }

    /// Sets [`default_ttl`](#structfield.default_ttl).
    #[must_use]
    pub const fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// Sets [`max_ttl`](#structfield.max_ttl).
    #[must_use]
    pub const fn max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = ttl;
        self
    }

    /// Sets [`poll_interval`](#structfield.poll_interval).
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets [`max_waiting_requests`](#structfield.max_waiting_requests).
    #[must_use]
    pub const fn max_waiting_requests(mut self, requests: usize) -> Self {
        self.max_waiting_requests = requests;
        self
    }

    /// Sets [`max_running`](#structfield.max_running).
    #[must_use]
    pub const fn max_running(mut self, tasks: usize) -> Self {
        self.max_running = tasks;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn round(used: &mut UsedKeys, names: &[&str]) -> Vec<String> {
        let keys = used.assign(names.iter().copied()).zip(names);
        let keys: Vec<String> = keys.map(|(key, name)| key.unwrap_or_else(|| (*name).into())).collect();
        assert!(keys.iter().all(|key| used.insert(key)), "{keys:?}");
        keys
    }

    // covers: TASK-120
    #[test]
    fn key_is_the_name_until_that_is_used() {
        let mut used = UsedKeys::default();
        for (names, keys) in [
            (&["boat", "basin"][..], &["boat", "basin"][..]),
            (&["boat", "pier"], &["boat#2", "pier"]),
            // The number was used for a boat.
            (&["boat#2", "boat"], &["boat#2#2", "boat#3"]),
            (&["basin#2", "basin", "crane"], &["basin#2", "basin#3", "crane"]),
        ] {
            assert_eq!(round(&mut used, names).iter().map(|key| &**key).collect::<Vec<_>>(), keys);
        }
    }
}
