//! Steps that have failed without a request, or after its answer, and are tried again after a pause.

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::Instant;
use mcp_proto::http::server::{Server, SessionId};

use super::SessionSharing;
use super::jobs::Job;
use super::message::Message;

/// Largest number of sessions of which something has failed, of each kind. Beyond it their records expire by themselves, and
/// what was not told stays unknown to other processes until they load the sessions.
const MAX_FAILED: usize = 1 << 16;

/// Steps that have failed without a request, or after its answer.
#[derive(Default)]
pub(super) struct Failed {
    /// Sessions to load for their GET streams.
    pub(super) loads: BTreeSet<SessionId>,
    /// Sessions that have ended, and may be in the store still, or in other processes. At most [`MAX_FAILED`].
    pub(super) ended: BTreeSet<SessionId>,
    /// Sessions whose change is stored, as this version, and not told. At most [`MAX_FAILED`].
    pub(super) changed: BTreeMap<SessionId, u64>,
    /// Sessions whose messages wait here for the GET stream in the process with a number. At most [`MAX_FAILED`].
    pub(super) waiting: BTreeMap<SessionId, u32>,
    /// Changes wait in [`SessionSharing::changes`].
    pub(super) has_changes: bool,
}

impl Failed {
    pub(super) fn is_empty(&self) -> bool {
        self.loads.is_empty()
            && self.ended.is_empty()
            && self.changed.is_empty()
            && self.waiting.is_empty()
            && !self.has_changes
    }

    pub(super) fn add_ended(&mut self, id: SessionId) {
        if self.ended.len() < MAX_FAILED {
            self.ended.insert(id);
        }
    }

    pub(super) fn add_changed(&mut self, id: SessionId, version: u64) {
        if self.changed.len() < MAX_FAILED {
            let newest = self.changed.entry(id).or_default();
            *newest = version.max(*newest);
        }
    }
}

impl SessionSharing {
    /// Does again what has failed before the pause.
    pub(super) fn try_again(&mut self, now: Instant, server: &mut Server) {
        self.is_paused = false;
        let failed = core::mem::take(&mut self.failed);
        self.to_load.extend(failed.loads);
        self.load_next(server);
        for id in failed.ended {
            if let Err(Job::Remove { id, .. }) = self.workers.submit(Job::Remove { exchange: None, id }) {
                self.failed.add_ended(id);
            }
        }
        for (id, version) in failed.changed {
            if !self.tell(Message::Changed(id.clone(), version)) {
                self.failed.add_changed(id, version);
            }
        }
        for (id, to) in failed.waiting {
            self.hand_over(now, server, &id, to, None);
        }
        self.publish_next();
    }

    /// Takes note of a message that may not have reached the other processes.
    pub(super) fn fail(&mut self, now: Instant, server: &mut Server, message: Message) {
        match message {
            Message::ForStream(id, to, message) => {
                _ = server.shared_sessions().send(now, &id, message.into());
                if self.failed.waiting.len() < MAX_FAILED {
                    self.failed.waiting.insert(id, to);
                }
            }
            Message::Changed(id, version) => self.failed.add_changed(id, version),
            Message::Resume(_, _, request, _) => self.relays.refuse(now, server, request),
            Message::Stream(name, number, ..) => {
                let told = self.relays.lose_part(now, server, name, number);
                _ = told.is_none_or(|message| self.tell(message));
            }
            _ => {}
        }
    }
}
