//! Elicitations by URL and their completion notifications (2025-11-25; ELIC-025 to ELIC-028).

use alloc::string::String;

use super::engine::Engine;
use super::event::Event;
use crate::diagnostic::Diagnostic;
use crate::methods;
use crate::model::{ElicitParams, ElicitUrlParams, ElicitationCompleteParams, InputRequest};
use crate::rpc::RpcError;
use crate::version::Version;

impl Engine {
    /// Remembers the id of an elicitation by URL.
    pub(super) fn remember_url_elicitation(&mut self, request: &InputRequest<'_>) {
        if let InputRequest::Elicit(ElicitParams::Url(page)) = request {
            self.remember_elicitations(core::slice::from_ref(page));
        }
    }

    /// Remembers the ids of elicitations in a -32042 error (ELIC-029).
    pub(super) fn remember_refused_elicitations(&mut self, error: &RpcError) {
        if let Some(refusal) = error.as_url_elicitation_required() {
            self.remember_elicitations(&refusal.elicitations);
        }
    }

    /// Remembers ids, up to `max_inputs`; the oldest are evicted.
    fn remember_elicitations(&mut self, pages: &[ElicitUrlParams]) {
        if self.peer.as_ref().is_none_or(|p| p.version != Version::V2025_11_25) {
            return;
        }
        let (max_ids, max_length) = (self.endpoint.limits.max_inputs, self.endpoint.limits.max_id);
        for id in pages.iter().filter_map(|page| page.elicitation_id.as_deref()) {
            let known = &mut self.inputs.get_or_insert_default().elicitation_ids;
            if id.len() > max_length || known.iter().any(|other| **other == *id) {
                continue;
            }
            if known.len() >= max_ids {
                known.remove(0);
            }
            known.push(id.into());
        }
    }

    /// Handles the completion of an elicitation. An unknown or completed one is ignored (ELIC-027).
    pub(super) fn receive_elicitation_complete(&mut self, params: &[u8]) {
        let method = methods::ELICITATION_COMPLETE;
        let Ok(completed) = serde_json::from_slice::<ElicitationCompleteParams>(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let known = self.inputs.as_mut().and_then(|inputs| {
            let index = inputs.elicitation_ids.iter().position(|id| **id == *completed.elicitation_id)?;
            Some(inputs.elicitation_ids.remove(index))
        });
        match known {
            Some(id) => self.events.push_back(Event::ElicitationComplete(String::from(id))),
            None => self.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
        }
    }
}
