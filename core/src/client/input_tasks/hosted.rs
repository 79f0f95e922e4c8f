//! The table of hosted tasks: their states, deadlines and bounds.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{InboundCall, RequestSource, respond};
use crate::client::common::CommonState;
use crate::client::input::{InputId, InputSource, check_input_response};
use crate::client::tasks::WriteAnswer;
use crate::entropy::Entropy;
use crate::error::UseError;
use crate::limits::Limit;
use crate::model::{TaskId, TaskStatus};
use crate::rpc::{self, RpcError};
use crate::slab::Key;
use crate::tasks::ledger::{TaskHead, list_position, send_list, task_id, unknown_task};
use crate::tasks::text::{TaskBits, TaskIds, ascii};
use crate::tasks::{clip, write_with_related_task};
use crate::time::{Anchor, Instant};
use crate::version::Version;
use crate::{methods, shape};

/// The only revision with such tasks.
const VERSION: Version = Version::V2025_11_25;

/// Settings of tasks that a client hosts, for [`Config::input_tasks`](crate::client::Config::input_tasks).
#[derive(Clone, Debug)]
pub struct InputTasks {
    entropy: Entropy,
    anchor: Anchor,
    limits: InputTaskLimits,
}

impl InputTasks {
    /// Creates the settings.
    ///
    /// Ids of tasks are drawn from `entropy`, 128 bits each (TASK-035). `anchor` gives the time of day. Engines that
    /// share a configuration use the same ids, each for a server of its own.
    #[must_use]
    pub fn new(entropy: Entropy, anchor: Anchor) -> Self {
        Self { entropy, anchor, limits: InputTaskLimits::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: InputTaskLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// End of a task.
pub(super) enum Outcome {
    /// The answer, in the form of the revision.
    Answer(Box<[u8]>),
    Error(RpcError),
    Cancelled,
}

impl Outcome {
    /// Returns the bytes that are kept.
    fn len(&self) -> usize {
        match self {
            Self::Answer(text) => text.len(),
            Self::Error(error) => error.message.len() + error.data.as_ref().map_or(0, |d| d.as_bytes().len()),
            Self::Cancelled => 0,
        }
    }
}

/// A task: a question that is open until there is an outcome.
pub(super) struct HostedTask {
    head: TaskHead,
    method: &'static str,
    /// The task of the server that needs the answer (TASK-023).
    related_task: Option<TaskId>,
    /// Time by which the question must be answered.
    answer_by: Instant,
    pub(super) outcome: Option<Outcome>,
    /// The server has collected the outcome.
    pub(super) is_collected: bool,
    /// Requests that wait for the outcome, in order of arrival.
    pub(super) waiting: Vec<Key>,
}

impl HostedTask {
    /// Returns whether the server does not need the task any more.
    const fn is_unneeded(&self) -> bool {
        self.is_collected || matches!(self.outcome, Some(Outcome::Cancelled))
    }

    /// Appends the members of a state, without braces (TASK-014, TASK-015).
    fn write_state(&self, out: &mut Vec<u8>) {
        let (status, message) = match &self.outcome {
            None => (TaskStatus::Working, None),
            Some(Outcome::Answer(_)) => (TaskStatus::Completed, None),
            Some(Outcome::Error(error)) => (TaskStatus::Failed, Some(clip(&error.message))), // TASK-032
            Some(Outcome::Cancelled) => (TaskStatus::Cancelled, None),
        };
        self.head.write(out, &status, message, false);
    }
}

/// Hosted tasks; see the [module](super). Tasks are found by the serial numbers of their questions.
///
/// Invariants: `by_id` has an entry for each task. `bytes`, `waiting` and `open` are the sums over the tasks of the bytes
/// of outcomes, the requests that wait, and those without an outcome. `deadlines` has the expiry of each task, and the
/// time by which an open question must be answered.
pub(in crate::client) struct HostedTasks {
    ids: TaskIds,
    anchor: Anchor,
    pub(super) limits: InputTaskLimits,
    pub(super) tasks: BTreeMap<u64, HostedTask>,
    by_id: BTreeMap<TaskBits, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Time of the earliest timer that was armed.
    armed: Option<Instant>,
    bytes: usize,
    pub(super) waiting: usize,
    open: usize,
}

/// Omits ids and answers.
impl fmt::Debug for HostedTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedTasks")
            .field("tasks", &self.tasks.len())
            .field("open", &self.open)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl HostedTasks {
    /// Makes the table of a client.
    pub(in crate::client) fn new(settings: &InputTasks) -> Self {
        let InputTasks { entropy, anchor, limits } = settings.clone();
        Self {
            ids: TaskIds::new(entropy),
            anchor,
            limits,
            tasks: BTreeMap::new(),
            by_id: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            armed: None,
            bytes: 0,
            waiting: 0,
            open: 0,
        }
    }

    /// Returns the task with this id, unless it has expired.
    ///
    /// # Errors
    ///
    /// The error response to send (TASK-031).
    pub(super) fn find(&self, now: Instant, id: &str) -> Result<u64, RpcError> {
        let found = TaskBits::parse(id.as_bytes()).and_then(|bits| self.by_id.get(&bits).copied());
        let is_visible = |serial: &u64| self.tasks.get(serial).is_some_and(|task| task.head.expires_at > now);
        found.filter(is_visible).ok_or_else(unknown_task)
    }

    /// Ends a task with an outcome, and answers the requests that wait for it.
    pub(super) fn end(&mut self, common: &mut CommonState, serial: u64, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(&serial).filter(|task| task.outcome.is_none()) else { return };
        task.head.touch(common.endpoint.now, self.anchor);
        // If both times are the same, their entry is that of the expiry.
        if task.answer_by != task.head.expires_at {
            self.deadlines.remove(&(task.answer_by, serial));
        }
        self.bytes += outcome.len();
        self.open -= 1;
        task.outcome = Some(outcome);
        let waiting = core::mem::take(&mut task.waiting);
        self.waiting -= waiting.len();
        for request in waiting {
            self.send_outcome(common, request, serial);
        }
    }

    /// Answers a request for the result of a task that has ended: as its question would have been (TASK-019, TASK-024).
    pub(super) fn send_outcome(&mut self, common: &mut CommonState, request: Key, serial: u64) {
        let Some(task) = self.tasks.get_mut(&serial) else { return };
        task.is_collected = true;
        match &task.outcome {
            Some(Outcome::Answer(text)) => {
                respond(&mut common.endpoint, request, text.len(), |out| {
                    write_with_related_task(out, text, ascii(&task.head.id.text()));
                });
            }
            Some(Outcome::Error(error)) => _ = common.endpoint.fail(request, error),
            Some(Outcome::Cancelled) | None => {
                common.endpoint.fail(request, &RpcError::internal("the task was cancelled"));
            }
        }
    }

    /// Removes a task, and withdraws its question if that is open.
    fn remove(&mut self, common: &mut CommonState, serial: u64) {
        let Some(task) = self.tasks.remove(&serial) else { return };
        self.by_id.remove(&task.head.id);
        self.deadlines.remove(&(task.head.expires_at, serial));
        self.deadlines.remove(&(task.answer_by, serial));
        self.waiting -= task.waiting.len();
        match &task.outcome {
            Some(outcome) => self.bytes -= outcome.len(),
            None => {
                self.open -= 1;
                withdraw(common, serial);
            }
        }
        for request in task.waiting {
            common.endpoint.fail(request, &RpcError::invalid_params("the task has expired"));
        }
    }

    /// Makes room: the oldest task that the server does not need any more gives way (TASK-030). Returns whether there was one.
    fn make_room(&mut self, common: &mut CommonState) -> bool {
        let unneeded = self.tasks.iter().find(|(_, task)| task.is_unneeded()).map(|(serial, _)| *serial);
        if let Some(serial) = unneeded {
            self.remove(common, serial);
        }
        unneeded.is_some()
    }

    /// Tells the server that a task has ended (TASK-025). It is a hint, so a full outbox drops it.
    fn notify(&self, common: &mut CommonState, serial: u64) {
        let (Some(task), Some(main)) = (self.tasks.get(&serial), common.main_channel) else { return };
        if task.is_collected || common.is_congested() {
            return;
        }
        common.endpoint.send(main, 0, |out| {
            rpc::notification_head(out, methods::TASK_STATUS);
            out.extend_from_slice(b",\"params\":{");
            task.write_state(out);
            out.push(b'}');
            rpc::end(out);
        });
    }

    /// Arms the timer for the next deadline.
    fn arm(&mut self, common: &mut CommonState) {
        let Some((at, _)) = self.deadlines.first() else { return };
        // A timer cannot be disarmed, so another one is armed only for an earlier time.
        if self.armed.is_none_or(|armed| *at < armed) {
            common.endpoint.deadlines.arm(*at, EndpointTimer::Tasks);
            self.armed = Some(*at);
        }
    }
}

impl HostedTasks {
    /// Creates the task of a question and answers its request. Returns the serial number of the question.
    ///
    /// `ttl` is the time to live that the server asks for.
    ///
    /// # Errors
    ///
    /// The error response to send: there are too many tasks.
    pub(in crate::client) fn create(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &'static str,
        ttl: Option<Duration>,
        related_task: Option<&TaskId>,
    ) -> Result<u64, RpcError> {
        if self.tasks.len() >= self.limits.max_tasks {
            self.make_room(common);
        }
        if self.tasks.len() >= self.limits.max_tasks {
            return Err(RpcError::internal("too many tasks"));
        }
        let now = common.endpoint.now;
        let (id, serial) = (self.ids.draw(), common.next_serial());
        let ttl = ttl.unwrap_or(self.limits.default_ttl).min(self.limits.max_ttl);
        let head = TaskHead::new(id, now, self.anchor, ttl, self.limits.poll_interval);
        let (expires_at, answer_by) = (head.expires_at, now + common.endpoint.limits.input_timeout);
        let task = HostedTask {
            head,
            method,
            related_task: related_task.cloned(),
            answer_by,
            outcome: None,
            is_collected: false,
            waiting: Vec::new(),
        };
        source.send_result(&mut common.endpoint, 0, |out| {
            out.extend_from_slice(b"{\"task\":{"); // TASK-009
            task.write_state(out);
            out.extend_from_slice(b"}}");
        });
        self.tasks.insert(serial, task);
        self.by_id.insert(id, serial);
        self.open += 1;
        self.deadlines.insert((expires_at, serial));
        self.deadlines.insert((answer_by, serial));
        self.arm(common);
        Ok(serial)
    }

    /// Ends a task with the answer to its question.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer), and [`UseError::Full`].
    pub(in crate::client) fn answer(
        &mut self,
        common: &mut CommonState,
        question: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError> {
        let task = self.tasks.get(&question).filter(|task| task.outcome.is_none()).ok_or(UseError::Stale)?;
        let mut text = Vec::new();
        let members = write(&mut text, shape::table(VERSION)).map_err(UseError::from)?;
        check_input_response(task.method, members, &text)?;
        // One that does not fit costs no other task its place.
        let kept = self.tasks.values().filter(|task| !task.is_unneeded());
        let kept: usize = kept.filter_map(|task| task.outcome.as_ref()).map(Outcome::len).sum();
        if kept.saturating_add(text.len()) > self.limits.max_bytes {
            return Err(UseError::Full(Limit::TaskBytes));
        }
        // The tasks that stay leave room, as was checked above. So this ends.
        while self.bytes.saturating_add(text.len()) > self.limits.max_bytes && self.make_room(common) {}
        self.end(common, question, Outcome::Answer(text.into()));
        self.notify(common, question);
        Ok(())
    }

    /// Ends a task with an error.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`].
    pub(in crate::client) fn refuse(
        &mut self,
        common: &mut CommonState,
        question: u64,
        error: &RpcError,
    ) -> Result<(), UseError> {
        self.tasks.get(&question).filter(|task| task.outcome.is_none()).ok_or(UseError::Stale)?;
        self.end(common, question, Outcome::Error(shape::error_in_revision(error, VERSION).into_owned()));
        self.notify(common, question);
        Ok(())
    }

    /// Forgets a request that waits for a result. Returns false if it is not one.
    pub(in crate::client) fn release(&mut self, request: Key) -> bool {
        for task in self.tasks.values_mut() {
            if let Some(at) = task.waiting.iter().position(|waiting| *waiting == request) {
                task.waiting.remove(at);
                self.waiting -= 1;
                return true;
            }
        }
        false
    }

    /// Processes the deadlines that have passed.
    pub(in crate::client) fn handle_timeout(&mut self, common: &mut CommonState) {
        let now = common.endpoint.now;
        // A timer that has fired is not armed any more.
        self.armed = self.armed.filter(|at| *at > now);
        while let Some((at, serial)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, serial));
            let Some(task) = self.tasks.get(&serial) else { continue };
            if task.head.expires_at <= now {
                self.remove(common, serial);
            } else if task.outcome.is_none() {
                withdraw(common, serial);
                self.end(common, serial, Outcome::Error(RpcError::internal("no answer in time")));
                self.notify(common, serial);
            }
        }
        self.arm(common);
    }

    /// Removes all tasks and withdraws their questions: the connection or the session has ended.
    pub(in crate::client) fn clear(&mut self, common: &mut CommonState) {
        for (serial, task) in core::mem::take(&mut self.tasks) {
            if task.outcome.is_none() {
                withdraw(common, serial);
            }
        }
        self.by_id.clear();
        self.deadlines.clear();
        (self.bytes, self.waiting, self.open) = (0, 0, 0);
    }

    /// Returns whether a question about this task of the server is open.
    pub(in crate::client) fn is_open_for(&self, task: &TaskId) -> bool {
        self.tasks
            .values()
            .any(|hosted| hosted.outcome.is_none() && hosted.related_task.as_ref() == Some(task))
    }

    /// Returns the number of questions that are open.
    pub(in crate::client) fn open_questions(&self) -> usize {
        self.open
    }

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::client) fn check_sums(&self, common: &CommonState) {
        let tasks = || self.tasks.values();
        assert_eq!(
            self.bytes,
            tasks().filter_map(|task| task.outcome.as_ref()).map(Outcome::len).sum::<usize>()
        );
        assert_eq!(self.waiting, tasks().map(|task| task.waiting.len()).sum::<usize>());
        assert_eq!(self.open, tasks().filter(|task| task.outcome.is_none()).count());
        assert!(self.tasks.len() <= self.limits.max_tasks && self.waiting <= self.limits.max_waiting);
        let ids: BTreeMap<TaskBits, u64> =
            self.tasks.iter().map(|(serial, task)| (task.head.id, *serial)).collect();
        assert_eq!(self.by_id, ids);
        let times = |(serial, task): (&u64, &HostedTask)| {
            let open = task.outcome.is_none().then_some((task.answer_by, *serial));
            [Some((task.head.expires_at, *serial)), open]
        };
        let deadlines: BTreeSet<_> = self.tasks.iter().flat_map(times).flatten().collect();
        assert_eq!(self.deadlines, deadlines);
        // A timer comes no later than the first deadline.
        assert!(self.deadlines.first().is_none_or(|(at, _)| self.armed.is_some_and(|armed| armed <= *at)));
        for task in tasks() {
            assert!(
                task.outcome.is_none() || task.waiting.is_empty(),
                "a request waits for a task that has ended"
            );
            assert!(task.waiting.iter().all(|request| common.endpoint.inbound.calls.get(*request).is_some()));
        }
    }
}

/// Reports that a question is not open any more.
pub(super) fn withdraw(common: &mut CommonState, serial: u64) {
    common.events.withdraw_input(InputId(InputSource::Hosted(serial)));
}

// Limits of tasks that the client hosts.

/// Limits of the tasks that a client hosts for a server; each documents what happens when it is reached (TASK-036).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputTaskLimits {
    /// Number of tasks, including those that have ended and can still be read (default 100).
    ///
    /// At the limit, the oldest task whose answer was collected or that was cancelled is removed (TASK-030). If there is
    /// none, the question is refused with error -32603.
    pub max_tasks: usize,
    /// Bytes of answers that are kept (default 16 MiB).
    ///
    /// An answer beyond it is refused with [`UseError::Full`](crate::UseError::Full), and its question stays open.
    pub max_bytes: usize,
    /// Number of requests for results that wait for an answer (default 100). More are refused with error -32603.
    pub max_waiting: usize,
    /// Time from creation to expiry of a task for which the server asks for no time (default ten minutes).
    pub default_ttl: Duration,
    /// Longest time from creation to expiry (default one hour). A longer request gets this one (TASK-016).
    ///
    /// A question that is open when its task expires is withdrawn.
    pub max_ttl: Duration,
    /// Suggested time between two polls (default one second; TASK-017).
    pub poll_interval: Duration,
}

impl Default for InputTaskLimits {
    fn default() -> Self {
        Self {
            max_tasks: 100,
            max_bytes: 16 << 20,
            max_waiting: 100,
            default_ttl: Duration::from_secs(600),
            max_ttl: Duration::from_secs(3_600),
            poll_interval: Duration::from_secs(1),
        }
    }
}

impl InputTaskLimits {
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

    /// Sets [`max_bytes`](#structfield.max_bytes).
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets [`max_waiting`](#structfield.max_waiting).
    #[must_use]
    pub const fn max_waiting(mut self, requests: usize) -> Self {
        self.max_waiting = requests;
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
}

// Requests of the server about hosted tasks: `tasks/get`, `tasks/result`, `tasks/cancel`, `tasks/list`.

impl HostedTasks {
    /// Answers a request about tasks, now or later.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(in crate::client) fn handle_request(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &str,
        params: &[u8],
    ) -> Result<(), RpcError> {
        if method == methods::TASKS_LIST {
            return self.list(common, source, params);
        }
        let serial = self.find(common.endpoint.now, &task_id(params)?)?;
        let Some(task) = self.tasks.get(&serial) else { return Ok(()) };
        let has_ended = task.outcome.is_some();
        match method {
            methods::TASKS_RESULT => return self.collect(common, source, serial, has_ended),
            methods::TASKS_CANCEL if has_ended => {
                return Err(RpcError::invalid_params("the task has already ended")); // TASK-028
            }
            methods::TASKS_CANCEL => {
                withdraw(common, serial);
                self.end(common, serial, Outcome::Cancelled);
            }
            _ => {}
        }
        let Some(task) = self.tasks.get(&serial) else { return Ok(()) };
        source.send_result(&mut common.endpoint, 0, |out| {
            out.push(b'{');
            task.write_state(out);
            out.push(b'}');
        });
        Ok(())
    }

    /// Handles `tasks/result`: at once if the task has ended, else later (TASK-019, TASK-020).
    ///
    /// # Errors
    ///
    /// The error response to send: too many requests wait.
    fn collect(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        serial: u64,
        has_ended: bool,
    ) -> Result<(), RpcError> {
        if !has_ended && self.waiting >= self.limits.max_waiting {
            return Err(RpcError::internal("too many requests wait for tasks"));
        }
        let request =
            begin_request(common, source).ok_or_else(|| RpcError::internal("the connection has ended"))?;
        if has_ended {
            self.send_outcome(common, request, serial);
        } else if let Some(task) = self.tasks.get_mut(&serial) {
            task.waiting.push(request);
            self.waiting += 1;
        }
        Ok(())
    }

    /// Handles `tasks/list` (TASK-026, TASK-027).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn list(
        &self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        params: &[u8],
    ) -> Result<(), RpcError> {
        // The cursor is a serial number: it stays right when the task that it names is gone.
        let after = list_position(params, |text| text.parse::<u64>().ok())?.unwrap_or_default();
        let now = common.endpoint.now;
        let listed = self.tasks.range(after.saturating_add(1)..);
        let tasks = listed.filter(|(_, task)| task.head.expires_at > now);
        let write = |out: &mut Vec<u8>, (_, task): (&u64, &HostedTask)| task.write_state(out);
        send_list(&mut common.endpoint, source, tasks, write, |(serial, _)| alloc::format!("{serial}"));
        Ok(())
    }
}

/// Adds a request to the table of calls. It ends with its task at the latest.
fn begin_request(common: &mut CommonState, source: RequestSource<'_>) -> Option<Key> {
    let call = InboundCall::new(source.id.clone(), source.channel, VERSION);
    common.endpoint.begin_call(InboundCall { batch: source.batch, ..call })
}
