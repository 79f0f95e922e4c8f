//! Webhooks in a build without the feature `post`: a type without values, so that there are none.

use mcp_proto::CallId;

use super::{Answer, Request};
use crate::source::{Lane, Source};
use crate::webhook::SubscriptionKey;
use crate::wire::{EventOccurrence, EventsError, Profile, SubscribeEventsResult};

/// There is no value of it.
pub(super) enum Webhooks {}

impl Webhooks {
    pub(super) fn publish(&mut self, _: &Source, _: &EventOccurrence) {
        match *self {}
    }

    pub(super) fn report_gap(&mut self, _: &Source, _: &str) {
        match *self {}
    }

    pub(super) fn subscribe(
        &mut self,
        _: &Source,
        _: (Lane, CallId),
        _: Request,
    ) -> Result<Option<SubscribeEventsResult>, EventsError> {
        match *self {}
    }

    pub(super) fn unsubscribe(&mut self, _: &SubscriptionKey, _: &Profile) -> Result<(), EventsError> {
        match *self {}
    }

    pub(super) fn cancel(&mut self, _: Lane, _: CallId) -> bool {
        match *self {}
    }

    pub(super) fn remove_lane(&mut self, _: Lane) {
        match *self {}
    }

    pub(super) fn terminate(&mut self, _: &dyn Fn(&str, &str) -> Option<EventsError>) -> usize {
        match *self {}
    }

    pub(super) fn has_answers(&self, _: Lane) -> bool {
        match *self {}
    }

    pub(super) fn poll_answer(&mut self, _: Lane) -> Option<(CallId, Answer)> {
        match *self {}
    }

    pub(super) fn take_news(&mut self, _: &Source) {
        match *self {}
    }
}
