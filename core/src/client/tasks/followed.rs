//! One task that a call follows: what is known of it, what is in flight for it, and its questions.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::states::TaskPolling;
use super::{FollowedTasks, TaskOutcome};
use crate::calls::outbound::CallKey;
use crate::client::common::CommonState;
use crate::client::event::Event;
use crate::client::input::{Input, InputId, InputSource};
use crate::error::CallError;
use crate::json::write_str;
use crate::model::{InputRequest, InputRequests, Task, TaskId, TaskStatus};
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::tasks::clip;
use crate::tasks::follow::{Follow, PollPace, is_transient, unknown_status};
use crate::time::Instant;

/// A task that a call follows.
pub(super) struct FollowedTask {
    pub(super) follow: Follow,
    /// The call created the task: the task is cancelled if the call ends before it.
    pub(super) is_owned: bool,
    /// Time at which this client learned of the task.
    since: Instant,
    message: Option<String>,
    last_updated_at: String,
    /// End of the time to live, as far as it can be known here.
    expires_at: Option<Instant>,
    /// `tasks/get` in flight.
    pub(super) poll: Option<Key>,
    /// A notification has come since the last poll was sent, so the answer to the poll may be older.
    pub(super) was_notified: bool,
    /// `tasks/result` in flight (2025-11-25).
    pub(super) result: Option<Key>,
    /// `tasks/update` in flight (2026-07-28).
    pub(super) update: Option<Key>,
    /// `subscriptions/listen` for the task (2026-07-28).
    pub(super) listen: TaskListen,
    /// Error that `tasks/result` gave before the task was known to have ended.
    pub(super) early_error: Option<RpcError>,
    /// Input requests of the task by their keys, which the server never reuses (TASK-120, TASK-121).
    pub(super) questions: BTreeMap<Box<str>, Question>,
    /// Number of states with new input requests; in 2025-11-25 that of input requests which came while none was open.
    pub(super) rounds: u32,
    /// Time by which the open input requests must be answered.
    pub(super) input_deadline: Option<Instant>,
    /// Bytes that are charged for the keys of the input requests.
    pub(super) charged_bytes: usize,
}

/// The request for notifications about a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskListen {
    /// It was not sent, because polls are frequent.
    Unneeded,
    Open(Key),
    /// The server refused it, or ended it.
    Ended,
}

/// An input request of a task. It holds the answer of a user, so it has no `Debug`.
pub(super) enum Question {
    /// The application has to answer; the serial number is in its [`InputId`](super::super::input::InputId).
    Open { serial: u64, method: &'static str },
    /// The server has not confirmed the answer.
    Answered { text: Box<[u8]>, attempts: u32, in_flight: bool },
    /// It was answered or withdrawn. Its key is never asked again.
    Closed,
}

impl FollowedTask {
    pub(super) fn new(now: Instant, id: TaskId, is_owned: bool) -> Self {
        Self {
            follow: Follow::new(now, id),
            is_owned,
            since: now,
            message: None,
            last_updated_at: String::new(),
            expires_at: None,
            poll: None,
            was_notified: false,
            result: None,
            update: None,
            listen: TaskListen::Unneeded,
            early_error: None,
            questions: BTreeMap::new(),
            rounds: 0,
            input_deadline: None,
            charged_bytes: 0,
        }
    }

    /// Records a state. Returns whether its status or its message is new.
    ///
    /// # Errors
    ///
    /// [`CallError::InvalidTask`] for an unknown status. [`CallError::TaskExpired`] if the time to live has passed and
    /// nothing has changed since the last state (TASK-116).
    pub(super) fn record(
        &mut self,
        now: Instant,
        task: &Task<'_>,
        pace: &PollPace,
    ) -> Result<bool, CallError> {
        if let TaskStatus::Other(word) = &task.status {
            return Err(unknown_status(word));
        }
        let (status, message): (_, Option<String>) =
            (task.status.clone(), task.status_message.as_deref().map(|text| clip(text).into()));
        let is_new = status != self.follow.status || message != self.message;
        let has_progressed = is_new || self.last_updated_at != task.last_updated_at;
        if let Some(ttl) = task.time_to_live() {
            // The clock of the server may differ, so the time begins when this client learned of the task.
            self.expires_at = ttl.duration().map(|ttl| self.since + ttl);
        }
        // A task that still changes is there, whatever its time to live says.
        if !status.is_terminal() && !has_progressed && self.is_expired(now) {
            return Err(CallError::TaskExpired);
        }
        (self.follow.status, self.message) = (status, message);
        self.last_updated_at = clip(&task.last_updated_at).into();
        self.follow.record_state(now, task, pace);
        Ok(is_new)
    }

    fn is_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }

    /// Returns the outcome of the call after the last failure of a request about the task.
    pub(super) fn end_error(&self, now: Instant, error: CallError) -> CallError {
        if is_transient(&error) && self.is_expired(now) { CallError::TaskExpired } else { error }
    }

    /// Returns whether polls are so rare that the server should be asked for notifications, too.
    pub(super) fn should_listen(&self, polling: &TaskPolling) -> bool {
        self.listen == TaskListen::Unneeded
            && !self.follow.status.is_terminal()
            && polling.pace().interval(self.follow.proposed_interval, 0) >= polling.listen_from
    }

    /// Returns when the task needs attention, apart from what is in flight.
    pub(super) fn wakes_at(&self) -> Instant {
        // `tasks/result` of a task that has ended is in flight, and it brings the outcome.
        let is_polled = self.poll.is_none() && !(self.follow.status.is_terminal() && self.result.is_some());
        let poll = if is_polled { self.follow.next_poll } else { Instant::FAR_FUTURE };
        self.input_deadline.map_or(poll, |at| at.min(poll))
    }

    /// Returns whether an input request waits for the application.
    pub(super) fn has_open_questions(&self) -> bool {
        self.questions.values().any(|question| matches!(question, Question::Open { .. }))
    }

    /// Writes the members of `inputResponses` that the server has not confirmed, and marks them as in flight.
    pub(super) fn write_answers(&mut self, out: &mut Vec<u8>) {
        for (name, question) in &mut self.questions {
            let Question::Answered { text, attempts, in_flight } = question else { continue };
            if !out.is_empty() {
                out.push(b',');
            }
            write_str(out, name);
            out.push(b':');
            out.extend_from_slice(text);
            *attempts = attempts.saturating_add(1);
            *in_flight = true;
        }
    }

    /// Records that the server has the answers that were in flight.
    pub(super) fn confirm_answers(&mut self) {
        for question in self.questions.values_mut() {
            if matches!(question, Question::Answered { in_flight: true, .. }) {
                *question = Question::Closed;
            }
        }
    }

    /// Records that the answers in flight may be lost. Returns how often they were sent.
    pub(super) fn lose_answers(&mut self) -> u32 {
        let mut most = 0;
        for question in self.questions.values_mut() {
            if let Question::Answered { attempts, in_flight, .. } = question {
                *in_flight = false;
                most = most.max(*attempts);
            }
        }
        most
    }

    /// Takes over a question from another call that followed the task and has ended, and its charge for the key.
    ///
    /// An answer that the server has not confirmed is sent here.
    pub(super) fn inherit(&mut self, name: Box<str>, mut question: Question) {
        if let Question::Answered { in_flight, .. } = &mut question {
            // The request that carried the answer ends with the other call, so its confirmation is not seen here.
            *in_flight = false;
        }
        self.charged_bytes += name.len();
        self.questions.insert(name, question);
    }

    /// Returns whether an answer waits to be sent.
    pub(super) fn has_unsent_answers(&self) -> bool {
        self.questions
            .values()
            .any(|question| matches!(question, Question::Answered { in_flight: false, .. }))
    }
}

/// Omits the id, and the answers of users.
impl fmt::Debug for FollowedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedTask")
            .field("status", &self.follow.status)
            .field("questions", &self.questions.len())
            .finish_non_exhaustive()
    }
}

// Input requests of a task in 2026-07-28: each is asked once, and each answer is sent until the server has it.

/// Number of times that an answer is sent before the server's refusal of it ends the call.
const MAX_ATTEMPTS: u32 = 3;

impl FollowedTasks {
    /// Reports the input requests that were not seen before, by this call or another one that follows the task (TASK-112,
    /// TASK-121). When the other call ends with some of them open, the next state is asked here.
    ///
    /// If `is_current`, the list is known not to be older than those before, and input requests that it lacks are
    /// withdrawn.
    ///
    /// # Errors
    ///
    /// The outcome of the call: the requests are not valid, not declared or too many.
    pub(super) fn ask(
        &mut self,
        common: &mut CommonState,
        call: Key,
        requests: InputRequests<'static>,
        is_current: bool,
    ) -> Result<(), CallError> {
        let limits = crate::sync::Arc::clone(&common.endpoint.limits);
        let invalid = |reason: String| CallError::InvalidInputRequest { reason };
        if requests.len() > limits.max_inputs {
            return Err(invalid(alloc::format!("it has more than {} input requests", limits.max_inputs)));
        }
        let Some(version) = common.peer.as_ref().map(|peer| peer.version) else { return Ok(()) };
        let requests: Vec<(String, InputRequest<'static>)> = requests.into_iter().collect();
        if is_current {
            let names: Vec<&str> = requests.iter().map(|(name, _)| &**name).collect();
            self.withdraw(common, call, &names);
        }
        let Some(id) = self.tasks.get(&call).map(|followed| followed.follow.id.clone()) else {
            return Ok(());
        };
        let is_known = |name: &str| {
            let mut followed = self.calls_of(&id).filter_map(|call| self.tasks.get(&call));
            followed.any(|followed| followed.questions.contains_key(name))
        };
        let mut new: Vec<(String, InputRequest<'static>)> =
            requests.into_iter().filter(|(name, _)| !is_known(name)).collect();
        for (_, request) in &mut new {
            common.config.check_input_request(request, version)?;
        }
        if new.is_empty() {
            // An answer that the server has not got is sent again.
            self.send_answers(common, call);
            return Ok(());
        }
        // A state that only repeats known questions has returned above and is no round.
        let Some(followed) = self.tasks.get_mut(&call) else { return Ok(()) };
        followed.rounds += 1;
        if followed.rounds > limits.max_input_rounds {
            return Err(CallError::TooManyRounds { limit: limits.max_input_rounds });
        }
        let added: usize = new.iter().map(|(name, _)| name.len()).sum();
        if common.retained_bytes + added > limits.max_retained_bytes {
            return Err(invalid("it exceeds the limit `max_retained_bytes`".into()));
        }
        common.retained_bytes += added;
        followed.charged_bytes += added;
        followed.input_deadline = Some(common.endpoint.now + limits.input_timeout);
        for (name, request) in new {
            let serial = common.next_serial();
            let (name, method): (Box<str>, _) = (name.into(), request.method().unwrap_or_default());
            followed.questions.insert(name.clone(), Question::Open { serial, method });
            self.open_inputs.insert(serial, (call, name.clone()));
            let id = InputId(InputSource::Task(serial));
            let (call, request) = (Some(CallKey(call)), Box::new(request));
            let input = Input { id, call, key: Some(name), request };
            common.events.push_back(Event::Input(input));
        }
        self.send_answers(common, call);
        Ok(())
    }

    /// Withdraws the open input requests that are not in `listed`. Answers to the others are not needed any more.
    pub(super) fn withdraw(&mut self, common: &mut CommonState, call: Key, listed: &[&str]) {
        let Some(followed) = self.tasks.get_mut(&call) else { return };
        for (name, question) in &mut followed.questions {
            if listed.contains(&&**name) {
                continue;
            }
            match question {
                Question::Open { serial, .. } => {
                    self.open_inputs.remove(serial);
                    withdraw_input(common, *serial);
                }
                // It waits for its confirmation.
                Question::Answered { in_flight: true, .. } => continue,
                _ => {}
            }
            *question = Question::Closed;
        }
        if !followed.has_open_questions() {
            followed.input_deadline = None;
        }
    }

    /// Handles the answer to `tasks/update` (TASK-118).
    pub(super) fn receive_update(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<(), CallError>,
    ) -> TaskOutcome {
        let max_failures = common.config.polling().max_failures;
        let followed = self.tasks.get_mut(&call)?;
        let Err(error) = outcome else {
            followed.confirm_answers();
            self.send_answers(common, call);
            return None;
        };
        let attempts = followed.lose_answers();
        let max = if is_transient(&error) { max_failures.max(1) } else { MAX_ATTEMPTS };
        if attempts >= max {
            return Some(Err(error));
        }
        // The next state tells whether the answers arrived, or the task is gone.
        if !is_transient(&error) {
            self.poll(common, call);
        }
        None
    }
}

/// Reports that an input request has ended.
pub(super) fn withdraw_input(common: &mut CommonState, serial: u64) {
    common.events.withdraw_input(InputId(InputSource::Task(serial)));
}
