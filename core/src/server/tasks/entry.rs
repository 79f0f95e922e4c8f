//! A task: its state, and what is kept for it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::table::{TaskLimits, TaskTable, UsedKeys};
use crate::calls::inbound::InputOutcome;
use crate::error::UseError;
use crate::limits::Limit;
use crate::model::TaskStatus;
use crate::rpc::RequestId;
use crate::server::authorization::Authorization;
use crate::slab::list::{List, ListLinks};
use crate::slab::tree::TreeLinks;
use crate::slab::{Key, links};
use crate::sync::Arc;
use crate::tasks::ledger::TaskHead;
use crate::time::Instant;
use crate::version::Version;

/// State of a task. `core/docs/tasks.md` shows the transitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum TaskState {
    /// The store does not have it yet, and its requestor does not know it.
    Creating,
    /// It waits for its turn to run.
    Queued,
    /// The store does not know yet that it runs.
    Starting,
    /// Its handler runs.
    Running,
    /// It waits for input.
    Asking,
    Completed,
    Failed,
    Cancelled,
}

impl TaskState {
    pub(super) const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether the task has one of the places for running tasks.
    pub(super) const fn holds_place(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// The party that a task belongs to (TASK-034).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::server) enum Owner {
    /// Every holder of the id.
    Holder,
    /// The legacy session of this channel.
    Session(Key),
    /// A principal, in any session and era.
    Principal(Arc<str>),
}

/// An input request of a task, in the form of its revision.
#[derive(Debug)]
pub(in crate::server) struct Question {
    /// The key by which the handler finds the answer.
    pub(in crate::server) name: Box<str>,
    /// The key on the wire, where it differs (TASK-120).
    pub(in crate::server) key: Option<String>,
    pub(in crate::server) method: &'static str,
    pub(in crate::server) params: Box<[u8]>,
    pub(in crate::server) answer: Option<InputOutcome>,
    /// The outbound request that asks it (2025-11-25).
    pub(in crate::server) asked: Option<Key>,
}

impl Question {
    /// Returns the key on the wire.
    pub(in crate::server) fn wire_key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.name)
    }
}

/// The parts of a call with which its handler runs again.
#[derive(Debug, Default)]
pub(in crate::server) struct TaskRequest {
    /// Text of the parameters, without the value of `_meta`.
    pub(in crate::server) params: Box<[u8]>,
    /// Position of `_meta` in `params`, and its value, which tasks of one client share.
    pub(in crate::server) meta: Option<(u32, Arc<[u8]>)>,
    /// Number of earlier deliveries.
    pub(in crate::server) attempt: u32,
    pub(in crate::server) state: Box<[u8]>,
    pub(in crate::server) answers: Vec<(Box<str>, InputOutcome)>,
    /// Open and answered input requests of the last round.
    pub(in crate::server) questions: Vec<Question>,
    pub(in crate::server) authorization: Option<Authorization>,
    /// The address from which the task was created. It is not stored.
    pub(in crate::server) creator_ip: Option<IpAddr>,
}

impl TaskRequest {
    /// Returns the bytes that are kept.
    pub(super) fn len(&self) -> usize {
        let answer = |outcome: &InputOutcome| outcome.as_ref().map_or(0, |value| value.as_bytes().len());
        let answers: usize = self.answers.iter().map(|(key, outcome)| key.len() + answer(outcome)).sum();
        let question = |q: &Question| {
            let key = q.key.as_ref().map_or(0, |key| key.len());
            q.name.len() + key + q.params.len() + q.answer.as_ref().map_or(0, answer)
        };
        // Metadata that is shared counts for each task: the last one keeps it.
        let meta = self.meta.as_ref().map_or(0, |(_, meta)| meta.len());
        self.params.len()
            + self.state.len()
            + meta
            + answers
            + self.questions.iter().map(question).sum::<usize>()
    }
}

/// Outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::server) enum TaskOutcome {
    /// A result object, and whether it reports a tool failure.
    Result(Box<[u8]>, bool),
    /// An error object.
    Error(Box<[u8]>),
}

/// A request that is answered when the store has a state of its task.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    pub(super) call: Key,
    /// Number of the state.
    pub(super) revision: u32,
}

/// The state of a requestor that is connected.
#[derive(Debug, Default)]
pub(in crate::server) struct TaskPeers {
    /// Progress token of the original request, which stays valid (TASK-033, PROG-014).
    pub(in crate::server) progress_token: Option<RequestId>,
    /// The largest progress that the call and the runs before this one have sent with the token (PROG-007).
    pub(super) newest_progress: Option<f64>,
    /// The call that is told about the task when the store has it.
    pub(in crate::server) creator: Option<Key>,
    /// Blocked requests for the result, in order of arrival.
    pub(in crate::server) collectors: Vec<Key>,
    /// Requests that are answered when the store has what they changed.
    pub(super) acknowledgements: Vec<Acknowledgement>,
}

/// A task.
#[derive(Debug)]
pub(in crate::server) struct TaskEntry {
    pub(in crate::server) head: TaskHead,
    pub(in crate::server) state: TaskState,
    /// Revision of the request.
    pub(in crate::server) version: Version,
    /// A terminal state is visible only after the store has it.
    pub(super) is_settled: bool,
    /// The result reports a tool failure.
    pub(super) tool_failed: bool,
    /// A save of it failed, and it waits for its turn.
    pub(super) failed_saves: u8,
    /// Number of the current state for the store, of the last state that it has, and of the one that it is writing.
    pub(super) revision: u32,
    pub(super) saved: u32,
    pub(super) saving: u32,
    /// The state that has to be saved before the task goes on.
    pub(super) milestone: u32,
    /// Position among the tasks of its owner.
    pub(super) number: u32,
    pub(super) owner: Key,
    /// Channel of the session that created it (2025-11-25).
    pub(in crate::server) session: Option<Key>,
    /// The inbound call of the handler.
    pub(in crate::server) run: Option<Key>,
    pub(super) request: Option<Box<TaskRequest>>,
    /// Keys of all its input requests; none after its end.
    pub(super) used_keys: UsedKeys,
    pub(super) message: Option<Box<str>>,
    pub(super) outcome: Option<TaskOutcome>,
    pub(in crate::server) peers: Option<Box<TaskPeers>>,
    pub(super) links: TreeLinks,
    pub(super) owned: ListLinks,
}

impl TaskEntry {
    /// Creates a task that has neither run nor ended, and has no owner yet.
    pub(super) fn new(head: TaskHead, state: TaskState, version: Version) -> Self {
        Self {
            head,
            state,
            version,
            is_settled: false,
            tool_failed: false,
            failed_saves: 0,
            revision: 0,
            saved: 0,
            saving: 0,
            milestone: 0,
            number: 0,
            owner: Key { slot: 0, generation: 0 },
            session: None,
            run: None,
            request: None,
            used_keys: UsedKeys::default(),
            message: None,
            outcome: None,
            peers: None,
            links: TreeLinks::default(),
            owned: ListLinks::NONE,
        }
    }

    /// Returns whether clients of a revision see the task now.
    pub(super) fn is_visible(&self, now: Instant, version: Version) -> bool {
        self.status().is_some() && self.head.expires_at > now && self.version == version
    }

    /// Returns the status that clients see; `None` before the task is created.
    pub(in crate::server) fn status(&self) -> Option<TaskStatus> {
        Some(match self.state {
            TaskState::Creating => return None,
            TaskState::Asking => TaskStatus::InputRequired,
            // A restart could lose an end that the store does not have, so clients do not see it yet.
            state if !state.is_terminal() || !self.is_settled => TaskStatus::Working,
            // TASK-032, TASK-113
            TaskState::Completed if self.tool_failed && self.version < Version::V2026_07_28 => {
                TaskStatus::Failed
            }
            TaskState::Completed => TaskStatus::Completed,
            TaskState::Failed => TaskStatus::Failed,
            _ => TaskStatus::Cancelled,
        })
    }

    /// Returns whether clients see that the task has ended.
    pub(in crate::server) const fn has_ended(&self) -> bool {
        self.state.is_terminal() && self.is_settled
    }

    /// Returns the questions of the current round.
    pub(in crate::server) fn questions(&self) -> &[Question] {
        self.request.as_ref().filter(|_| self.state == TaskState::Asking).map_or(&[], |r| &r.questions)
    }

    /// Returns the questions of the current round, to mark how they are asked.
    pub(in crate::server) fn questions_mut(&mut self) -> &mut [Question] {
        self.request
            .as_mut()
            .filter(|_| self.state == TaskState::Asking)
            .map_or(&mut [], |r| &mut r.questions)
    }

    pub(in crate::server) fn peers_mut(&mut self) -> &mut TaskPeers {
        self.peers.get_or_insert_default()
    }

    /// Returns whether the store has the current state; true without a store.
    pub(super) const fn is_saved(&self) -> bool {
        self.saved >= self.revision
    }

    /// Returns whether the store may have a record of it.
    pub(super) const fn may_be_stored(&self) -> bool {
        self.saving != 0 || self.saved != 0 || self.failed_saves != 0
    }

    /// Returns the bytes that are charged for it.
    pub(super) fn len(&self) -> usize {
        let outcome = match &self.outcome {
            Some(TaskOutcome::Result(text, _) | TaskOutcome::Error(text)) => text.len(),
            None => 0,
        };
        TASK_BYTES
            + self.request.as_ref().map_or(0, |r| r.len())
            + self.used_keys.len()
            + self.message.as_ref().map_or(0, |m| m.len())
            + outcome
    }
}

/// Bytes that are charged for a task itself.
pub(super) const TASK_BYTES: usize = 256;

links! { TaskEntry: list owned, tree links }

/// An owner with its tasks, in order of creation.
#[derive(Debug)]
pub(super) struct OwnerEntry {
    pub(super) owner: Owner,
    pub(super) tasks: List,
    /// Invariant: the number of tasks in the list.
    pub(super) count: usize,
    /// Invariant: the sum of the bytes that are charged for them.
    pub(super) bytes: usize,
    pub(super) next_number: u32,
    pub(super) links: TreeLinks,
}

links! { OwnerEntry: tree links }

// The calls that wait for tasks.

/// Reason for which a call is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// The store does not have its new task yet.
    Creation(Key),
    /// It asks for the result of the task, which has not ended.
    Result(Key),
    /// The store does not have the change yet that the request made.
    Change(Key),
}

impl Held {
    pub(super) const fn task(self) -> Key {
        match self {
            Self::Creation(task) | Self::Result(task) | Self::Change(task) => task,
        }
    }

    const fn is_change(self) -> bool {
        matches!(self, Self::Change(_))
    }
}

/// The calls that wait for tasks, and the number of requests of each party among them.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    calls: BTreeMap<Key, (Held, Option<Owner>)>,
    /// Requests for results, and requests that change tasks: the first do not delay the second.
    by_party: BTreeMap<(bool, Owner), usize>,
}

impl HeldCalls {
    /// Adds a call whose task is being created, which has the bounds of tasks.
    pub(super) fn insert_creation(&mut self, call: Key, task: Key) {
        self.calls.insert(call, (Held::Creation(task), None));
    }

    pub(super) fn insert(&mut self, call: Key, held: Held, party: Owner) {
        *self.by_party.entry((held.is_change(), party.clone())).or_default() += 1;
        self.calls.insert(call, (held, Some(party)));
    }

    pub(super) fn remove(&mut self, call: Key) -> Option<Held> {
        let (held, party) = self.calls.remove(&call)?;
        if let Some(party) = party {
            let at = (held.is_change(), party);
            let left = self.by_party.remove(&at).unwrap_or_default().saturating_sub(1);
            if left > 0 {
                self.by_party.insert(at, left);
            }
        }
        Some(held)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, Held)> {
        self.calls.iter().map(|(call, (held, _))| (*call, *held))
    }

    /// Returns the number of requests of a party that wait as this one.
    pub(super) fn of_party(&self, held: Held, party: &Owner) -> usize {
        self.by_party.get(&(held.is_change(), party.clone())).copied().unwrap_or_default()
    }

    /// Panics if the number of a party is wrong.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn check(&self) {
        let mut counts = BTreeMap::new();
        for (held, party) in self.calls.values() {
            if let Some(party) = party {
                *counts.entry((held.is_change(), party.clone())).or_default() += 1;
            }
        }
        assert_eq!(counts, self.by_party, "the waiting requests of each party");
    }
}

// Owners of tasks, and the bounds of each.

impl TaskLimits {
    /// Returns the number of tasks and of bytes that an owner may have.
    const fn of_owner(&self, owner: &Owner) -> (usize, usize) {
        match owner {
            Owner::Holder => (self.max_unowned_tasks, self.max_unowned_bytes),
            Owner::Session(_) | Owner::Principal(_) => (self.max_tasks_per_owner, self.max_bytes_per_owner),
        }
    }
}

impl TaskTable {
    pub(super) fn find_owner(&mut self, owner: &Owner) -> Option<Key> {
        self.by_owner.find(&mut self.owners, |_, other| other.owner.cmp(owner))
    }

    /// Returns the owner of a task.
    pub(super) fn owner(&self, task: &TaskEntry) -> Option<&Owner> {
        self.owners.get(task.owner).map(|of| &of.owner)
    }

    /// Returns the tasks of an owner, in order of creation.
    pub(super) fn tasks_of(&mut self, owner: &Owner) -> Vec<Key> {
        let of = self.find_owner(owner).and_then(|owner| self.owners.get(owner));
        of.map(|of| of.tasks.iter(&self.tasks).map(|(key, _)| key).collect()).unwrap_or_default()
    }

    /// Checks that there is room for one more task of this size.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`]. Records that the store has still to delete count as tasks.
    pub(super) fn check_room(&mut self, owner: &Owner, bytes: usize) -> Result<(), UseError> {
        let deleted = self.store.as_ref().map_or(0, |store| store.pending_deletes());
        let known = self.find_owner(owner).and_then(|key| self.owners.get(key));
        let (count, used) = known.map_or((0, 0), |of| (of.count, of.bytes));
        let (max_tasks, max_bytes) = self.limits.of_owner(owner);
        if self.tasks.len() + deleted >= self.limits.max_tasks || count >= max_tasks {
            return Err(UseError::Full(Limit::Tasks));
        }
        let has_room = self.bytes.saturating_add(bytes) <= self.limits.max_bytes
            && used.saturating_add(bytes) <= max_bytes;
        if !has_room {
            return Err(UseError::Full(Limit::TaskBytes));
        }
        if self.charge.account().takes_new(bytes) { Ok(()) } else { Err(UseError::Full(Limit::Memory)) }
    }

    /// Checks that a task may have more bytes.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    pub(super) fn check_growth(&self, task: Key, bytes: usize) -> Result<(), UseError> {
        let of = self.tasks.get(task).and_then(|task| self.owners.get(task.owner));
        let has_room = self.bytes.saturating_add(bytes) <= self.limits.max_bytes
            && of.is_some_and(|of| of.bytes.saturating_add(bytes) <= self.limits.of_owner(&of.owner).1);
        if !has_room {
            return Err(UseError::Full(Limit::TaskBytes));
        }
        if self.charge.account().takes_result(bytes) { Ok(()) } else { Err(UseError::Full(Limit::Memory)) }
    }

    /// Changes what is kept for a task, with the sums of the bytes.
    pub(super) fn change<R>(&mut self, key: Key, change: impl FnOnce(&mut TaskEntry) -> R) -> Option<R> {
        let task = self.tasks.get_mut(key)?;
        let before = task.len();
        let result = change(task);
        let after = task.len();
        // The sum comes first: the difference alone may be negative.
        self.bytes = (self.bytes + after).saturating_sub(before);
        self.charge.follow_coarsely(self.bytes);
        if let Some(of) = self.owners.get_mut(task.owner) {
            of.bytes = (of.bytes + after).saturating_sub(before);
        }
        Some(result)
    }

    /// Adds a task, also beyond the limits.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if its id is in use.
    pub(super) fn insert(&mut self, mut entry: TaskEntry, owner: Owner) -> Result<Key, UseError> {
        let (id, bytes, expires_at) = (entry.head.id, entry.len(), entry.head.expires_at);
        let place = self.by_id.place(&mut self.tasks, |_, other| other.head.id.cmp(&id));
        let place = place.map_err(|_| UseError::Stale)?;
        let owner = match self.by_owner.place(&mut self.owners, |_, other| other.owner.cmp(&owner)) {
            Err(known) => known,
            Ok(place) => {
                let links = TreeLinks::default();
                let entry =
                    OwnerEntry { owner, tasks: List::new(), count: 0, bytes: 0, next_number: 0, links };
                let key = self.owners.insert(entry);
                self.by_owner.insert(&mut self.owners, place, key);
                key
            }
        };
        let Some(of) = self.owners.get_mut(owner) else { return Err(UseError::Stale) };
        (entry.owner, entry.number) = (owner, of.next_number);
        of.next_number = of.next_number.wrapping_add(1);
        of.count += 1;
        of.bytes += bytes;
        let key = self.tasks.insert(entry);
        self.by_id.insert(&mut self.tasks, place, key);
        of.tasks.push(&mut self.tasks, key);
        self.bytes += bytes;
        self.charge.follow_coarsely(self.bytes);
        self.deadlines.arm(expires_at, key);
        let tasks = &self.tasks;
        self.deadlines.sweep(tasks.len(), |_, key| tasks.get(key).is_some());
        Ok(key)
    }

    /// Removes a task. Its record in the store is deleted.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<TaskEntry> {
        let (id, owner) = (self.tasks.get(key)?.head.id, self.tasks.get(key)?.owner);
        self.by_id.remove(&mut self.tasks, key, |_, task| task.head.id.cmp(&id));
        let bytes = self.tasks.get(key)?.len();
        if let Some(of) = self.owners.get_mut(owner) {
            of.tasks.remove(&mut self.tasks, key);
            of.count = of.count.saturating_sub(1);
            of.bytes = of.bytes.saturating_sub(bytes);
            if of.count == 0 {
                self.remove_owner(owner);
            }
        }
        let task = self.tasks.remove(key)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.charge.follow_coarsely(self.bytes);
        self.running -= usize::from(task.state.holds_place()).min(self.running);
        // Also after a failed save, which may have been carried out all the same.
        if let Some(store) = self.store.as_mut().filter(|_| task.may_be_stored()) {
            store.delete(task.head.id, task.revision.saturating_add(1));
        }
        Some(task)
    }

    fn remove_owner(&mut self, key: Key) {
        let Some(owner) = self.owners.get(key).map(|of| of.owner.clone()) else { return };
        self.by_owner.remove(&mut self.owners, key, |_, other| other.owner.cmp(&owner));
        self.owners.remove(key);
    }

    /// Panics if a sum of an owner differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn check_owners(&self) {
        let owned: usize = self.owners.iter().map(|(_, of)| of.count).sum();
        assert_eq!(owned, self.tasks.len(), "each task has an owner");
        for (key, of) in self.owners.iter() {
            let tasks = of.tasks.iter(&self.tasks).filter(|(_, task)| task.owner == key);
            let listed: Vec<usize> = tasks.map(|(_, task)| task.len()).collect();
            assert_eq!((listed.len(), of.count > 0), (of.count, true), "the tasks of an owner");
            assert_eq!(listed.iter().sum::<usize>(), of.bytes, "the bytes of an owner");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the waiting requests of each party")]
    fn check_of_held_calls_finds_a_wrong_number() {
        let mut held = HeldCalls::default();
        held.insert(
            Key { slot: 1, generation: 0 },
            Held::Result(Key { slot: 2, generation: 0 }),
            Owner::Holder,
        );
        held.check();
        held.by_party.clear();
        held.check();
    }

    #[test]
    fn task_and_its_slot_fit_in_320_bytes() {
        assert!(size_of::<TaskEntry>() + 16 <= 320, "{}", size_of::<TaskEntry>());
    }
}
