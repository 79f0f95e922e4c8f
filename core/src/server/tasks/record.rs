//! Records of tasks, as a store keeps them.
//!
//! A record is a format number and fields in a fixed order; a text is its length in four bytes and its bytes. A record
//! that cannot be read is left to the store.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::entry::{Owner, Question, TaskEntry, TaskOutcome, TaskRequest, TaskState};
use super::table::{TaskTable, UsedKeys};
use crate::calls::inbound::InputOutcome;
use crate::error::CallError;
use crate::methods;
use crate::raw::RawJson;
use crate::server::authorization::{Authorization, Identity};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tasks::ledger::TaskHead;
use crate::tasks::text::TaskBits;
use crate::time::{Anchor, Instant};
use crate::version::Version;

const FORMAT: u8 = 2;
pub(super) const STATES: [TaskState; 8] = [
    TaskState::Creating,
    TaskState::Queued,
    TaskState::Starting,
    TaskState::Running,
    TaskState::Asking,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Cancelled,
];

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        // Messages are shorter than 4 GiB.
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(text);
    }

    fn option(&mut self, text: Option<&[u8]>) {
        self.byte(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn answer(&mut self, answer: &InputOutcome) {
        // The reason of a refusal is not kept.
        self.option(answer.as_ref().ok().map(RawJson::as_bytes));
    }

    fn request(&mut self, request: &TaskRequest) {
        self.text(&request.params);
        self.option(request.meta.as_ref().map(|(_, meta)| &**meta));
        self.number(request.meta.as_ref().map_or(0, |(at, _)| u64::from(*at)));
        self.number(u64::from(request.attempt));
        self.text(&request.state);
        let identity = request.authorization.as_ref();
        self.option(identity.map(|party| party.principal().as_bytes()));
        self.option(identity.map(|party| party.scopes().as_str().as_bytes()));
        self.number(request.answers.len() as u64);
        for (name, answer) in &request.answers {
            self.text(name.as_bytes());
            self.answer(answer);
        }
        self.number(request.questions.len() as u64);
        for question in &request.questions {
            self.text(question.name.as_bytes());
            self.option(question.key.as_deref().map(str::as_bytes));
            self.text(question.method.as_bytes());
            self.text(&question.params);
            self.byte(u8::from(question.answer.is_some()));
            if let Some(answer) = &question.answer {
                self.answer(answer);
            }
        }
    }
}

/// Returns the record of a task.
pub(super) fn encode(table: &TaskTable, key: Key) -> Option<Vec<u8>> {
    let task = table.tasks.get(key)?;
    let mut out = Writer(Vec::with_capacity(task.len()));
    out.byte(FORMAT);
    out.0.extend_from_slice(&task.head.id.0);
    out.byte(u8::try_from(STATES.iter().position(|state| *state == task.state)?).ok()?);
    out.text(task.version.as_str().as_bytes());
    let head = &task.head;
    // A session does not survive the process; from then on the id alone gives access.
    out.option(match table.owner(task)? {
        Owner::Principal(name) => Some(name.as_bytes()),
        Owner::Session(_) | Owner::Holder => None,
    });
    for number in
        [head.created, head.updated, head.ttl_millis, u64::from(head.poll_millis), u64::from(task.revision)]
    {
        out.number(number);
    }
    out.number(task.used_keys.iter().len() as u64);
    for key in task.used_keys.iter() {
        out.text(key.as_bytes());
    }
    out.option(task.message.as_deref().map(str::as_bytes));
    match &task.outcome {
        None => out.byte(0),
        Some(TaskOutcome::Result(text, failed)) => {
            out.byte(if *failed { 2 } else { 1 });
            out.text(text);
        }
        Some(TaskOutcome::Error(text)) => {
            out.byte(3);
            out.text(text);
        }
    }
    out.byte(u8::from(task.request.is_some()));
    if let Some(request) = &task.request {
        out.request(request);
    }
    Some(out.0)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(len as usize)
    }

    fn text(&mut self) -> Option<&'a str> {
        core::str::from_utf8(self.bytes()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn option(&mut self) -> Option<Option<&'a str>> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Some(None),
        }
    }

    fn json(&mut self) -> Option<Vec<u8>> {
        let text = self.text()?;
        // Checked, because it is written into messages as it is.
        RawJson::new(Bytes::copy_from_slice(text.as_bytes())).ok()?;
        Some(text.as_bytes().into())
    }

    fn answer(&mut self) -> Option<InputOutcome> {
        match self.option()? {
            None => Some(Err(CallError::Cancelled)),
            Some(text) => RawJson::new(String::from(text)).ok().map(Ok),
        }
    }

    fn outcome(&mut self) -> Option<Option<TaskOutcome>> {
        Some(match self.byte()? {
            0 => None,
            kind @ (1 | 2) => Some(TaskOutcome::Result(self.json()?.into(), kind == 2)),
            3 => Some(TaskOutcome::Error(self.json()?.into())),
            _ => return None,
        })
    }

    fn request(&mut self) -> Option<TaskRequest> {
        let params: Box<[u8]> = self.text()?.as_bytes().into();
        let meta = self.option()?.map(|meta| Arc::<[u8]>::from(meta.as_bytes()));
        let at = self.small()?;
        let meta = match meta {
            // Anywhere else it could not be put back into the parameters.
            Some(meta) if (at as usize) <= params.len() => Some((at, meta)),
            Some(_) => return None,
            None => None,
        };
        let (attempt, state) = (self.small()?, self.bytes()?.into());
        let (principal, scopes) = (self.option()?, self.option()?);
        let authorization =
            principal.map(|name| Authorization::new(Identity::new(name).scopes(scopes.unwrap_or_default())));
        let (mut answers, mut questions) = (Vec::new(), Vec::new());
        // A wrong number cannot make a long loop, because the text ends.
        for _ in 0..self.small()? {
            answers.push((self.text()?.into(), self.answer()?));
        }
        for _ in 0..self.small()? {
            let (name, key) = (self.text()?.into(), self.option()?.map(Into::into));
            let method = methods::request_rule(self.text()?)?.name;
            let params = self.json()?;
            let answer = if self.flag()? { Some(self.answer()?) } else { None };
            questions.push(Question { name, key, method, params: params.into(), answer, asked: None });
        }
        let creator_ip = None;
        Some(TaskRequest { params, meta, attempt, state, answers, questions, authorization, creator_ip })
    }
}

/// The reason why [`Tasks::load`](super::super::Tasks::load) restores no task from a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskRecordError {
    /// The record has a format that this version of the library does not read.
    UnknownFormat(u8),
    /// The record is not whole.
    Damaged,
    /// The record is that of another task than its id says.
    OtherTask,
    /// The task is there already.
    Duplicate,
    /// The server has no tasks ([`Engine::set_tasks`](super::super::Engine::set_tasks)).
    NoTasks,
}

impl fmt::Display for TaskRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat(format) => {
                write!(f, "the record of a task has the format {format}, and this version reads {FORMAT}")
            }
            Self::Damaged => f.write_str("the record of a task is damaged"),
            Self::OtherTask => f.write_str("the record of a task is stored for another task"),
            Self::Duplicate => f.write_str("the task of a record is there already"),
            Self::NoTasks => f.write_str("the server has no tasks"),
        }
    }
}

impl core::error::Error for TaskRecordError {}

/// Reads a record. Returns the task and its owner.
///
/// # Errors
///
/// [`TaskRecordError::UnknownFormat`] and [`TaskRecordError::Damaged`].
pub(super) fn decode(
    record: &[u8],
    now: Instant,
    anchor: Anchor,
) -> Result<(TaskEntry, Owner), TaskRecordError> {
    match record.split_first() {
        Some((&FORMAT, fields)) => decode_fields(fields, now, anchor).ok_or(TaskRecordError::Damaged),
        Some((format, _)) => Err(TaskRecordError::UnknownFormat(*format)),
        None => Err(TaskRecordError::Damaged),
    }
}

/// Returns whether a task in this state has this outcome, and is kept with its request.
const fn fits_state(state: TaskState, outcome: Option<&TaskOutcome>, has_request: bool) -> bool {
    match state {
        TaskState::Completed => matches!(outcome, Some(TaskOutcome::Result(..))),
        TaskState::Failed => matches!(outcome, Some(TaskOutcome::Error(_))),
        TaskState::Cancelled | TaskState::Starting | TaskState::Running => outcome.is_none(),
        TaskState::Creating | TaskState::Queued | TaskState::Asking => outcome.is_none() && has_request,
    }
}

fn decode_fields(fields: &[u8], now: Instant, anchor: Anchor) -> Option<(TaskEntry, Owner)> {
    let mut from = Reader(fields);
    let id = TaskBits(from.take(16)?.try_into().ok()?);
    let state = *STATES.get(usize::from(from.byte()?))?;
    let version = Version::from_name(from.text()?)?;
    let owner = from.option()?.map_or(Owner::Holder, |name| Owner::Principal(name.into()));
    let (created, updated, ttl_millis) = (from.number()?, from.number()?, from.number()?);
    let (poll_millis, revision) = (from.small()?, from.small()?);
    let mut used_keys = UsedKeys::default();
    for _ in 0..from.small()? {
        used_keys.insert(from.text()?);
    }
    let message = from.option()?.map(Into::into);
    let outcome = from.outcome()?;
    let request = if from.flag()? { Some(Box::new(from.request()?)) } else { None };
    // A record of another program may have valid fields that do not belong together.
    if !fits_state(state, outcome.as_ref(), request.is_some()) || revision == 0 || !from.0.is_empty() {
        return None;
    }
    // If the clock was set back, the creation may lie ahead, and the task counts as new.
    let age = Duration::from_secs(anchor.unix_secs(now).saturating_sub(created));
    let left = Duration::from_millis(ttl_millis).saturating_sub(age);
    let tool_failed = matches!(outcome, Some(TaskOutcome::Result(_, true)));
    let expires_at = now + left;
    let head = TaskHead { id, created, updated, ttl_millis, expires_at, poll_millis };
    let entry = TaskEntry {
        is_settled: state.is_terminal(),
        tool_failed,
        revision,
        saved: revision,
        request,
        used_keys,
        message,
        outcome,
        ..TaskEntry::new(head, state, version)
    };
    Some((entry, owner))
}
