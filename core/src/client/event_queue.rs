//! The events that the application has not polled.

use alloc::collections::VecDeque;

use super::event::{Event, SubscriptionKey};
use super::input::InputId;
use crate::calls::inbound::Progress;
use crate::calls::outbound::CallKey;
use crate::change::Change;

/// Events in order. Some are merged with later ones, or removed, until they are polled.
///
/// A search walks over unpolled events, and only if there is one that may be found. Reading pauses at
/// [`Limits::max_events`](crate::Limits), which bounds the walk.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<Event>,
    /// Number of events that may be merged or removed.
    revocable: u32,
}

const fn is_revocable(event: &Event) -> bool {
    matches!(
        event,
        Event::Input(_) | Event::Progress { .. } | Event::Changed { .. } | Event::Subscribed { .. }
    )
}

impl EventQueue {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn push_back(&mut self, event: Event) {
        self.revocable += u32::from(is_revocable(&event));
        self.events.push_back(event);
    }

    pub(super) fn pop_front(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.revocable -= u32::from(is_revocable(&event));
        Some(event)
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.events.shrink_to_fit();
    }

    /// Queues a progress report; it replaces an earlier one of the call that was not polled (PROG-013).
    pub(super) fn push_progress(&mut self, call: CallKey, progress: Progress) {
        let unread = self.revocable().rev().find_map(|event| match event {
            Event::Progress { call: other, progress } if *other == call => Some(progress),
            _ => None,
        });
        match unread {
            Some(old) => *old = progress,
            None => self.push_back(Event::Progress { call, progress }),
        }
    }

    /// Queues a change, unless an equal one was not polled yet.
    pub(super) fn push_change(&mut self, subscription: Option<SubscriptionKey>, change: Change) {
        let is_queued = self.revocable().any(|event| match event {
            Event::Changed { key, change: other } => *key == subscription && *other == change,
            _ => false,
        });
        if !is_queued {
            self.push_back(Event::Changed { key: subscription, change });
        }
    }

    /// Reports that an input request has ended, or removes its event if that was not polled.
    pub(super) fn withdraw_input(&mut self, id: InputId) {
        let found = self.revocable().position(|event| matches!(event, Event::Input(input) if input.id == id));
        match found {
            Some(index) => {
                self.revocable -= 1;
                self.events.remove(index);
            }
            None => self.push_back(Event::InputWithdrawn(id)),
        }
    }

    /// Removes the reports for a subscription.
    pub(super) fn remove_subscription(&mut self, subscription: SubscriptionKey) {
        if self.revocable == 0 {
            return;
        }
        let Self { events, revocable } = self;
        events.retain(|event| {
            let stays = match event {
                Event::Subscribed { key, .. } => *key != subscription,
                Event::Changed { key, .. } => *key != Some(subscription),
                _ => true,
            };
            *revocable -= u32::from(!stays);
            stays
        });
    }

    /// Returns all events if one of them may be merged or removed, and none otherwise.
    fn revocable(&mut self) -> impl DoubleEndedIterator<Item = &mut Event> + ExactSizeIterator {
        let searched = if self.revocable == 0 { 0 } else { self.events.len() };
        self.events.range_mut(..searched)
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::{Input, InputSource};
    use super::*;
    use crate::built::Conversing;
    use crate::model::InputRequest;
    use crate::slab::Key;
    use alloc::boxed::Box;

    fn input(serial: u64) -> InputId {
        InputId(InputSource::Round(Key { slot: 0, generation: 0 }, serial))
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn input_event(serial: u64) -> Event {
        let request = Box::new(InputRequest::ListRoots(None));
        Event::Input(Input { id: input(serial), call: None, key: None, request, _marker: Conversing })
    }

    fn check(queue: &EventQueue) {
        let count = queue.events.iter().filter(|event| is_revocable(event)).count();
        assert_eq!(queue.revocable as usize, count);
    }

    #[test]
    fn number_of_revocable_events_equals_a_count_after_every_step() {
        let mut queue = EventQueue::default();
        let subscription = |n: u64| SubscriptionKey::new(n % 3, Key { slot: 0, generation: 0 });
        for step in 0..2_000_u64 {
            let call = CallKey(Key { slot: (step % 5) as u32, generation: 0 });
            match step * 7 % 11 {
                0 | 1 => queue.push_back(input_event(step)),
                2 => queue.push_progress(call, Progress::new(step as f64)),
                3 => queue.push_change(Some(subscription(step)), Change::Tools),
                4 => queue.push_change(None, Change::Resources),
                5 => queue.remove_subscription(subscription(step)),
                6 | 7 => queue.withdraw_input(input(step.saturating_sub(5))),
                8 => queue.push_back(Event::ElicitationComplete("e".into())),
                _ => drop(queue.pop_front()),
            }
            check(&queue);
        }
        while queue.pop_front().is_some() {
            check(&queue);
        }
        assert!(queue.is_empty() && queue.revocable == 0);
    }

    #[test]
    fn withdrawn_input_removes_its_unpolled_event_or_is_reported() {
        let mut queue = EventQueue::default();
        queue.push_back(input_event(1));
        queue.push_back(input_event(2));
        assert!(queue.pop_front().is_some());
        queue.withdraw_input(input(2));
        assert!(queue.is_empty());
        queue.withdraw_input(input(1));
        assert!(matches!(queue.pop_front(), Some(Event::InputWithdrawn(id)) if id == input(1)));
    }

    #[test]
    fn equal_change_and_newer_progress_are_merged_until_polled() {
        let (mut queue, call) = (EventQueue::default(), CallKey(Key { slot: 0, generation: 0 }));
        queue.push_change(None, Change::Tools);
        queue.push_change(None, Change::Tools);
        queue.push_progress(call, Progress::new(1.0));
        queue.push_progress(call, Progress::new(2.0));
        assert!(queue.len() == 2 && queue.pop_front().is_some());
        assert!(
            matches!(queue.pop_front(), Some(Event::Progress { progress, .. }) if progress.progress == 2.0)
        );
        queue.push_change(None, Change::Tools);
        assert_eq!(queue.len(), 1);
    }
}
