//! The table of hosted tasks: their states, deadlines and bounds.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::limits::InputTaskLimits;
use super::{HostedQuestion, InputTaskTable, RequestSource};
use crate::calls::endpoint::EndpointTimer;
use crate::client::common::CommonState;
use crate::client::input::{InputId, InputSource, check_input_response};
use crate::client::tasks::WriteAnswer;
use crate::entropy::Entropy;
use crate::error::UseError;
use crate::json::write_str;
use crate::limits::Limit;
use crate::methods;
use crate::model::{TaskId, TaskStatus};
use crate::raw::RawJson;
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::tasks::params::unknown_task;
use crate::tasks::related::write_with_related_task;
use crate::tasks::text::{StateText, TaskBits, TaskIds, ascii, granted_ttl, millis};
use crate::time::{Anchor, Instant};
use crate::version::Version;

/// The only revision with such tasks.
const VERSION: Version = Version::V2025_11_25;

/// Longest message of a state in bytes; a longer one is cut.
const MAX_MESSAGE: usize = 1 << 10;

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
    pub(super) id: TaskBits,
    method: &'static str,
    /// The task of the server that needs the answer (TASK-023).
    related_task: Option<TaskId>,
    created: u64,
    updated: u64,
    ttl_millis: u64,
    pub(super) expires_at: Instant,
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
    pub(in crate::client) fn boxed(settings: &InputTasks) -> Box<dyn InputTaskTable> {
        let InputTasks { entropy, anchor, limits } = settings.clone();
        Box::new(Self {
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
        })
    }

    /// Returns the task with this id, unless it has expired.
    ///
    /// # Errors
    ///
    /// The error response to send (TASK-031).
    pub(super) fn find(&self, now: Instant, id: &str) -> Result<u64, RpcError> {
        let found = TaskBits::parse(id.as_bytes()).and_then(|bits| self.by_id.get(&bits).copied());
        let is_visible = |serial: &u64| self.tasks.get(serial).is_some_and(|task| task.expires_at > now);
        found.filter(is_visible).ok_or_else(unknown_task)
    }

    /// Appends the members of a state, without braces (TASK-014, TASK-015).
    pub(super) fn write_state(&self, out: &mut Vec<u8>, task: &HostedTask) {
        let (status, message) = match &task.outcome {
            None => (TaskStatus::Working, None),
            Some(Outcome::Answer(_)) => (TaskStatus::Completed, None),
            Some(Outcome::Error(error)) => (TaskStatus::Failed, Some(clip(&error.message))), // TASK-032
            Some(Outcome::Cancelled) => (TaskStatus::Cancelled, None),
        };
        let state = StateText {
            id: task.id,
            status: &status,
            created: task.created,
            updated: task.updated,
            ttl_millis: task.ttl_millis,
            poll_millis: u32::try_from(millis(self.limits.poll_interval)).unwrap_or(u32::MAX),
        };
        state.write(out, false);
        if let Some(message) = message {
            out.extend_from_slice(b",\"statusMessage\":");
            write_str(out, message);
        }
    }

    /// Ends a task with an outcome, and answers the requests that wait for it.
    pub(super) fn end(&mut self, common: &mut CommonState, serial: u64, outcome: Outcome) {
        let updated = self.anchor.unix_secs(common.endpoint.now);
        let Some(task) = self.tasks.get_mut(&serial).filter(|task| task.outcome.is_none()) else { return };
        task.updated = updated;
        // If both times are the same, their entry is that of the expiry.
        if task.answer_by != task.expires_at {
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
                let Some(record) = common.endpoint.end_call(request) else { return };
                common.endpoint.send_or_batch(record.channel, None, &record.id, text.len(), |out| {
                    encode::result_head(out, &record.id);
                    write_with_related_task(out, text, ascii(&task.id.text()));
                    encode::end(out);
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
        self.by_id.remove(&task.id);
        self.deadlines.remove(&(task.expires_at, serial));
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
            encode::notification_head(out, methods::TASK_STATUS);
            out.extend_from_slice(b",\"params\":{");
            self.write_state(out, task);
            out.push(b'}');
            encode::end(out);
        });
    }

    /// Arms the timer for the next deadline.
    fn arm(&mut self, common: &mut CommonState) {
        let Some((at, _)) = self.deadlines.first() else { return };
        if self.armed.is_none_or(|armed| *at < armed) {
            common.endpoint.deadlines.arm(*at, EndpointTimer::Tasks);
            self.armed = Some(*at);
        }
    }
}

impl InputTaskTable for HostedTasks {
    fn create(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        question: HostedQuestion<'_>,
    ) -> Result<u64, RpcError> {
        if self.tasks.len() >= self.limits.max_tasks {
            self.make_room(common);
        }
        if self.tasks.len() >= self.limits.max_tasks {
            return Err(RpcError::internal("too many tasks"));
        }
        let now = common.endpoint.now;
        let (id, serial) = (self.ids.draw(), common.next_serial());
        let ttl_millis = granted_ttl(question.ttl, self.limits.default_ttl, self.limits.max_ttl);
        let expires_at = now + Duration::from_millis(ttl_millis);
        let answer_by = now + common.endpoint.limits.input_timeout;
        let created = self.anchor.unix_secs(now);
        let task = HostedTask {
            id,
            method: question.method,
            related_task: question.related_task.cloned(),
            created,
            updated: created,
            ttl_millis,
            expires_at,
            answer_by,
            outcome: None,
            is_collected: false,
            waiting: Vec::new(),
        };
        common.endpoint.send_or_batch(source.channel, source.batch, source.id, 0, |out| {
            encode::result_head(out, source.id);
            out.extend_from_slice(b"{\"task\":{"); // TASK-009
            self.write_state(out, &task);
            out.extend_from_slice(b"}}");
            encode::end(out);
        });
        self.tasks.insert(serial, task);
        self.by_id.insert(id, serial);
        self.open += 1;
        self.deadlines.insert((expires_at, serial));
        self.deadlines.insert((answer_by, serial));
        self.arm(common);
        Ok(serial)
    }

    fn handle_request(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<(), RpcError> {
        self.handle(common, source, method, params.map_or(b"{}", |params| params.as_bytes()))
    }

    fn answer(
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
        while self.bytes.saturating_add(text.len()) > self.limits.max_bytes && self.make_room(common) {}
        self.end(common, question, Outcome::Answer(text.into()));
        self.notify(common, question);
        Ok(())
    }

    fn refuse(&mut self, common: &mut CommonState, question: u64, error: &RpcError) -> Result<(), UseError> {
        self.tasks.get(&question).filter(|task| task.outcome.is_none()).ok_or(UseError::Stale)?;
        self.end(common, question, Outcome::Error(shape::error_in_revision(error, VERSION).into_owned()));
        self.notify(common, question);
        Ok(())
    }

    fn release(&mut self, request: Key) -> bool {
        for task in self.tasks.values_mut() {
            if let Some(at) = task.waiting.iter().position(|waiting| *waiting == request) {
                task.waiting.remove(at);
                self.waiting -= 1;
                return true;
            }
        }
        false
    }

    fn handle_timeout(&mut self, common: &mut CommonState) {
        let now = common.endpoint.now;
        self.armed = self.armed.filter(|at| *at > now);
        while let Some((at, serial)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, serial));
            let Some(task) = self.tasks.get(&serial) else { continue };
            if task.expires_at <= now {
                self.remove(common, serial);
            } else if task.outcome.is_none() {
                withdraw(common, serial);
                self.end(common, serial, Outcome::Error(RpcError::internal("no answer in time")));
                self.notify(common, serial);
            }
        }
        self.arm(common);
    }

    fn clear(&mut self, common: &mut CommonState) {
        for (serial, task) in core::mem::take(&mut self.tasks) {
            if task.outcome.is_none() {
                withdraw(common, serial);
            }
        }
        self.by_id.clear();
        self.deadlines.clear();
        (self.bytes, self.waiting, self.open) = (0, 0, 0);
    }

    fn is_open_for(&self, task: &TaskId) -> bool {
        self.tasks
            .values()
            .any(|hosted| hosted.outcome.is_none() && hosted.related_task.as_ref() == Some(task))
    }

    fn open_questions(&self) -> usize {
        self.open
    }

    #[cfg(any(fuzzing, all(test, feature = "crypto")))]
    fn check_sums(&self, common: &CommonState) {
        let tasks = || self.tasks.values();
        assert_eq!(
            self.bytes,
            tasks().filter_map(|task| task.outcome.as_ref()).map(Outcome::len).sum::<usize>()
        );
        assert_eq!(self.waiting, tasks().map(|task| task.waiting.len()).sum::<usize>());
        assert_eq!(self.open, tasks().filter(|task| task.outcome.is_none()).count());
        assert!(self.tasks.len() <= self.limits.max_tasks && self.waiting <= self.limits.max_waiting);
        let ids: BTreeMap<TaskBits, u64> =
            self.tasks.iter().map(|(serial, task)| (task.id, *serial)).collect();
        assert_eq!(self.by_id, ids);
        let times = |(serial, task): (&u64, &HostedTask)| {
            let open = task.outcome.is_none().then_some((task.answer_by, *serial));
            [Some((task.expires_at, *serial)), open]
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

fn clip(message: &str) -> &str {
    let end = (0..=message.len().min(MAX_MESSAGE)).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or_default()).unwrap_or_default()
}
