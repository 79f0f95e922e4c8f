//! Requests and calls that wait for a task: for its result, or until the store has a change.

use alloc::vec::Vec;

use super::entry::{Acknowledgement, Owner, TaskEntry};
use super::held::Held;
use super::host::ServerTasks;
use super::write::{Detail, text_room, write_members};
use super::{TaskContext, TaskRequestFrame};
use crate::calls::inbound::InboundCall;
use crate::calls::observed_requests::continue_direct_answer;
use crate::rpc::RpcError;
#[cfg(any(fuzzing, test))]
use crate::server::channel::ServerEndpoint;
use crate::server::log;
use crate::slab::Key;
use crate::slab::tree::TreeLinks;
use crate::time::Instant;
use crate::version::Version;

impl ServerTasks {
    /// Begins a call that waits for a task. It ends with the task at the latest.
    ///
    /// # Errors
    ///
    /// The error response: too many requests wait, of this party or in all. Nothing has changed.
    pub(super) fn hold(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        version: Version,
        held: Held,
    ) -> Result<Key, RpcError> {
        let party = match Self::party(cx.endpoint, request.source.channel, version) {
            // Nothing but its connection tells it from others.
            Owner::Holder => Owner::Session(request.source.root),
            party => party,
        };
        let is_full = self.held.len() >= cx.endpoint.limits.max_live_calls as usize;
        if is_full || self.held.of_party(held, &party) >= self.table.limits.max_waiting_requests {
            return Err(RpcError::internal("too many requests wait for tasks"));
        }
        let call = Self::begin_call(cx, request, version)?;
        self.held.insert(call, held, party);
        Ok(call)
    }

    pub(super) fn begin_call(
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        version: Version,
    ) -> Result<Key, RpcError> {
        let begun = cx.endpoint.begin_call(InboundCall {
            id: request.id.clone(),
            channel: request.source.channel,
            version,
            cacheable: false,
            progress_token: None,
            throttle: None,
            expires_at: Instant::FAR_FUTURE,
            batch: request.source.batch,
            log_threshold: log::NONE,
            is_owed: false,
            links: TreeLinks::default(),
        });
        let key = begun.ok_or_else(|| RpcError::internal("the connection has ended"))?;
        continue_direct_answer(cx.endpoint, key);
        Ok(key)
    }

    /// Answers a request that changed a task, as soon as the store has the change (TASK-029, TASK-118, TASK-123).
    pub(super) fn acknowledge_when_saved(&mut self, cx: &mut TaskContext<'_>, call: Key, task: Key) {
        match self.table.get_mut(task) {
            Some(entry) if !entry.is_saved() => {
                let revision = entry.revision;
                entry.peers_mut().acknowledgements.push(Acknowledgement { call, revision });
            }
            entry => {
                self.held.remove(call);
                Self::acknowledge(cx, call, entry.as_deref());
            }
        }
    }

    /// Answers the requests whose changes of a task the store has.
    pub(super) fn acknowledge_saved(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        let Some(entry) = self.table.get_mut(task) else { return };
        let saved = entry.saved;
        let Some(peers) = entry.peers.as_mut().filter(|peers| !peers.acknowledgements.is_empty()) else {
            return;
        };
        let (done, waiting): (Vec<_>, Vec<_>) =
            core::mem::take(&mut peers.acknowledgements).into_iter().partition(|a| a.revision <= saved);
        peers.acknowledgements = waiting;
        for Acknowledgement { call, .. } in done {
            self.held.remove(call);
            Self::acknowledge(cx, call, self.table.get(task));
        }
    }

    /// Ends a call with the task (2025-11-25) or with an empty result.
    ///
    /// The empty result is without `_meta`: clients of rmcp 3 take one with the identity of the server for the result
    /// of another method, and fail.
    fn acknowledge(cx: &mut TaskContext<'_>, call: Key, task: Option<&TaskEntry>) {
        Self::respond(cx, call, task.map_or(0, text_room), |out| {
            match task.filter(|task| task.version < Version::V2026_07_28) {
                Some(task) => {
                    out.push(b'{');
                    write_members(out, task, Detail::Bare);
                    out.push(b'}');
                }
                None => out.extend_from_slice(b"{\"resultType\":\"complete\"}"),
            }
        });
    }

    /// Forgets a call that waits for a task. Returns false if it does not wait.
    pub(super) fn forget_held(&mut self, call: Key) -> bool {
        let Some(held) = self.held.remove(call) else { return false };
        let peers = self.table.get_mut(held.task()).and_then(|entry| entry.peers.as_mut());
        match (held, peers) {
            // Its client never learns the id.
            (Held::Creation(task), _) => _ = self.table.remove(task),
            (Held::Result(_), Some(peers)) => peers.collectors.retain(|other| *other != call),
            (Held::Change(_), Some(peers)) => peers.acknowledgements.retain(|other| other.call != call),
            (_, None) => {}
        }
        true
    }

    /// Refuses everything that waits for a task, which is about to be removed.
    pub(super) fn refuse_waiting(&mut self, cx: &mut TaskContext<'_>, task: Key, error: &RpcError) {
        let peers = self.table.get_mut(task).and_then(|entry| entry.peers.take()).unwrap_or_default();
        if let Some(call) = peers.creator {
            self.held.remove(call);
            Self::refuse(cx, call, &RpcError::internal("the task could not be stored in time"));
        }
        let changes = peers.acknowledgements.into_iter().map(|change| change.call);
        for call in peers.collectors.into_iter().chain(changes) {
            self.held.remove(call);
            Self::refuse(cx, call, error);
        }
    }

    #[cfg(any(fuzzing, test))]
    pub(super) fn check_waiting(&self, endpoint: &ServerEndpoint) {
        self.held.check();
        for (call, held) in self.held.iter() {
            assert!(endpoint.inbound.calls.get(call).is_some(), "a held call is in flight");
            let peers = self.table.get(held.task()).and_then(|entry| entry.peers.as_ref());
            assert!(
                peers.is_some_and(|peers| match held {
                    Held::Creation(_) => peers.creator == Some(call),
                    Held::Result(_) => peers.collectors.contains(&call),
                    Held::Change(_) => peers.acknowledgements.iter().any(|change| change.call == call),
                }),
                "a held call waits for a task"
            );
        }
    }
}
