//! Web pages that a server wants visited, and the news that the user is done there (2025-11-25; ELIC-025 to ELIC-028).

use alloc::string::String;

use super::engine::Engine;
use super::event::Event;
use crate::diagnostic::Diagnostic;
use crate::model::{ElicitParams, ElicitUrlParams, ElicitationCompleteParams, InputRequest};
use crate::rpc::RpcError;
use crate::version::Version;
use crate::vocab;

impl Engine {
    /// A question may be a page to visit
    pub(super) fn note_page(&mut self, request: &InputRequest<'_>) {
        if let InputRequest::Elicit(ElicitParams::Url(page)) = request {
            self.note_pages(core::slice::from_ref(page));
        }
    }

    /// So may be why a call was refused (ELIC-029)
    pub(super) fn note_refusal(&mut self, error: &RpcError) {
        if let Some(refusal) = error.as_url_elicitation_required() {
            self.note_pages(&refusal.elicitations);
        }
    }

    /// Of those that nobody comes back to, the oldest are forgotten
    fn note_pages(&mut self, pages: &[ElicitUrlParams]) {
        if self.peer.as_ref().is_none_or(|p| p.version != Version::V2025_11_25) {
            return;
        }
        let (most, longest) = (self.link.limits.max_inputs, self.link.limits.max_id);
        for id in pages.iter().filter_map(|page| page.elicitation_id.as_deref()) {
            let known = &mut self.inputs.get_or_insert_default().pages;
            if id.len() > longest || known.iter().any(|other| **other == *id) {
                continue;
            }
            if known.len() >= most {
                known.remove(0);
            }
            known.push(id.into());
        }
    }

    /// The user is done at a page; one that is not known, or was done before, is ignored (ELIC-027)
    pub(super) fn page_done(&mut self, params: &[u8]) {
        let method = vocab::ELICITATION_COMPLETE;
        let Ok(done) = serde_json::from_slice::<ElicitationCompleteParams>(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let known = self.inputs.as_mut().and_then(|inputs| {
            let place = inputs.pages.iter().position(|id| **id == *done.elicitation_id)?;
            Some(inputs.pages.remove(place))
        });
        match known {
            Some(id) => self.events.push_back(Event::ElicitationComplete(String::from(id))),
            None => self.diagnose(Diagnostic::UnwantedNews(method.into())),
        }
    }
}
