//! A one-shot channel from the event loop to a caller: the outcome of an operation, preceded by its progress, or by the
//! notifications of a long-lived call.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard};

use mcp_std::sync::lock;

use mcp_proto::client::Notification;
use mcp_proto::{CallKey, Fault, Limits, Progress};

use crate::error::Error;

/// The caller's end: receives one outcome, and is woken for it.
///
/// Dropping it abandons the operation.
pub struct OutcomeReceiver<T>(Arc<Mutex<State<T>>>);

/// The loop's end. Dropping it without an outcome sends [`Error::Closed`].
pub struct OutcomeSender<T>(Arc<Mutex<State<T>>>);

/// An update on an operation.
#[derive(Debug)]
pub enum OutcomeUpdate<T> {
    /// A progress report.
    Progress(Progress),
    /// A notification that belongs to the call.
    Notification(Notification),
    /// The outcome. It is the last update.
    Outcome(Result<T, Error>),
}

struct State<T> {
    outcome: Option<Result<T, Error>>,
    waker: Option<Waker>,
    /// The call, once it has begun.
    call: Option<CallKey>,
    /// The newest progress reports, at most [`MAX_PROGRESS`]. `None` while the caller does not want progress.
    progress: Option<VecDeque<Progress>>,
    /// The notifications that were not taken. `None` while the caller does not want any.
    notifications: Option<NotificationQueue>,
    /// Whether the outcome was sent.
    completed: bool,
    /// Whether the caller lost interest.
    abandoned: bool,
}

/// Wakes the caller, after unlocking.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waker = state.waker.take();
    drop(state);
    waker.into_iter().for_each(Waker::wake);
}

/// Notifications in order, with the bytes of their parameters.
#[derive(Default)]
struct NotificationQueue {
    queue: VecDeque<Notification>,
    bytes: usize,
}

impl NotificationQueue {
    fn pop(&mut self) -> Option<Notification> {
        let notification = self.queue.pop_front()?;
        self.bytes -= cost(&notification);
        Some(notification)
    }
}

fn cost(notification: &Notification) -> usize {
    notification.method.len() + notification.params.as_ref().map_or(0, |params| params.as_bytes().len())
}

/// Reason why a notification was not queued for the caller of its call.
#[derive(Debug)]
pub(crate) enum UnqueuedNotification {
    /// The caller wants none: it is for the handler.
    Unwanted(Notification),
    /// The caller is too slow, or has gone: the call cannot go on. The notification is lost.
    Full,
}

impl<T> OutcomeReceiver<T> {
    /// Creates both ends. `progress` enables progress reports.
    #[must_use]
    pub fn new(progress: bool) -> (OutcomeSender<T>, Self) {
        Self::with(progress.then(VecDeque::new), None)
    }

    /// Creates both ends for a long-lived call, whose notifications are queued for the caller.
    #[must_use]
    pub fn with_notifications() -> (OutcomeSender<T>, Self) {
        Self::with(None, Some(NotificationQueue::default()))
    }

    fn with(
        progress: Option<VecDeque<Progress>>,
        notifications: Option<NotificationQueue>,
    ) -> (OutcomeSender<T>, Self) {
        let state = State {
            outcome: None,
            waker: None,
            call: None,
            progress,
            notifications,
            completed: false,
            abandoned: false,
        };
        let shared = Arc::new(Mutex::new(state));
        (OutcomeSender(shared.clone()), Self(shared))
    }

    /// Polls for the next update. While it is pending, `waker` is kept and woken for the next one.
    ///
    /// Stays pending forever once the outcome was taken.
    pub fn poll(&self, waker: &Waker) -> Poll<OutcomeUpdate<T>> {
        let mut state = lock(&self.0);
        if let Some(progress) = state.progress.as_mut().and_then(VecDeque::pop_front) {
            return Poll::Ready(OutcomeUpdate::Progress(progress));
        }
        if let Some(notification) = state.notifications.as_mut().and_then(NotificationQueue::pop) {
            return Poll::Ready(OutcomeUpdate::Notification(notification));
        }
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(OutcomeUpdate::Outcome(outcome));
        }
        match &mut state.waker {
            Some(previous) => previous.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Polls for the outcome as [`poll`](Self::poll) does, and passes the progress before it to `on_progress`.
    pub(crate) fn poll_outcome(
        &self,
        waker: &Waker,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Poll<Result<T, Error>> {
        loop {
            match self.poll(waker) {
                Poll::Ready(OutcomeUpdate::Outcome(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(OutcomeUpdate::Progress(progress)) => on_progress(&progress),
                Poll::Ready(OutcomeUpdate::Notification(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Enables progress reports. They are then returned by [`poll`](Self::poll).
    pub fn enable_progress(&self) {
        lock(&self.0).progress.get_or_insert_default();
    }

    /// Returns whether the outcome was sent and taken.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let state = lock(&self.0);
        state.completed && state.outcome.is_none()
    }

    /// Returns the call, once it has begun.
    #[must_use]
    pub fn call(&self) -> Option<CallKey> {
        lock(&self.0).call
    }

    /// Abandons the operation and returns an outcome that was sent but not taken.
    ///
    /// A later outcome is [returned](OutcomeSender::send_or_return) to its sender.
    pub fn close(&self) -> Option<Result<T, Error>> {
        let mut state = lock(&self.0);
        state.abandoned = true;
        state.waker = None;
        state.outcome.take()
    }

    /// Abandons the operation. Returns the call to cancel, if it has begun and is not over.
    pub fn abandon(&self) -> Option<CallKey> {
        let mut state = lock(&self.0);
        let was_open = !core::mem::replace(&mut state.abandoned, true);
        state.waker = None;
        state.call.filter(|_| was_open && !state.completed)
    }
}

impl<T> Drop for OutcomeReceiver<T> {
    fn drop(&mut self) {
        let _ = self.abandon();
    }
}

impl<T> OutcomeSender<T> {
    /// Sends the outcome.
    pub fn send(self, outcome: Result<T, Error>) {
        self.send_once(outcome);
    }

    /// Sends the outcome, or returns it if the caller lost interest. Use it for outcomes that must then be undone.
    #[must_use]
    pub fn send_or_return(self, outcome: Result<T, Error>) -> Option<Result<T, Error>> {
        self.send_once(outcome)
    }

    fn send_once(&self, outcome: Result<T, Error>) -> Option<Result<T, Error>> {
        let mut state = lock(&self.0);
        if core::mem::replace(&mut state.completed, true) || state.abandoned {
            return Some(outcome);
        }
        state.outcome = Some(outcome);
        wake(state);
        None
    }

    /// Sets the call. Returns `false` if the caller lost interest.
    #[must_use]
    pub fn set_call(&self, call: CallKey) -> bool {
        let mut state = lock(&self.0);
        state.call = Some(call);
        !state.abandoned
    }

    /// Returns whether the caller lost interest.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        lock(&self.0).abandoned
    }

    /// Sends a progress report, or returns it if the caller does not want progress.
    ///
    /// If the caller does not take the reports, only the newest are queue.
    pub fn send_progress(&self, progress: Progress) -> Option<Progress> {
        let mut state = lock(&self.0);
        let Some(queue) = &mut state.progress else { return Some(progress) };
        if queue.len() >= MAX_PROGRESS {
            queue.pop_front();
        }
        queue.push_back(progress);
        wake(state);
        None
    }

    /// Queues a notification for the caller.
    ///
    /// # Errors
    ///
    /// [`UnqueuedNotification::Full`] if the caller has gone, or has not taken [`Limits::max_events`] notifications, or
    /// [`Limits::max_waiting_bytes`] bytes of them. The last one may exceed these.
    pub(crate) fn send_notification(
        &self,
        notification: Notification,
        limits: &Limits,
    ) -> Result<(), UnqueuedNotification> {
        let mut state = lock(&self.0);
        let is_abandoned = state.abandoned;
        let Some(NotificationQueue { queue, bytes }) = &mut state.notifications else {
            return Err(UnqueuedNotification::Unwanted(notification));
        };
        if is_abandoned || queue.len() >= limits.max_events || *bytes >= limits.max_waiting_bytes {
            return Err(UnqueuedNotification::Full);
        }
        *bytes += cost(&notification);
        queue.push_back(notification);
        wake(state);
        Ok(())
    }
}

impl<T> Drop for OutcomeSender<T> {
    fn drop(&mut self) {
        if !lock(&self.0).completed {
            let _ = self.send_once(Err(Error::closed(Fault::Closed)));
        }
    }
}

impl<T> fmt::Debug for OutcomeReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeReceiver").field("call", &self.call()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OutcomeSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeSender").finish_non_exhaustive()
    }
}

/// Maximum number of progress reports that wait for a caller. The oldest are dropped.
const MAX_PROGRESS: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::task::Wake;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct OutcomeWakeCount(AtomicUsize);

    impl Wake for OutcomeWakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn receiver_is_woken_once_and_gets_newest_progress_then_outcome() {
        let count = Arc::new(OutcomeWakeCount::default());
        let waker = Waker::from(count.clone());
        let (sender, receiver) = OutcomeReceiver::new(true);
        assert!(receiver.poll(&waker).is_pending());
        for n in 0..100_u32 {
            assert!(sender.send_progress(Progress::new(f64::from(n))).is_none());
        }
        // The first report takes the waker; without another poll there is nothing to wake.
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        sender.send(Ok(7));
        for n in 36..100_u32 {
            let expected = Progress::new(f64::from(n));
            assert!(
                matches!(receiver.poll(&waker), Poll::Ready(OutcomeUpdate::Progress(p)) if p == expected)
            );
        }
        assert!(matches!(receiver.poll(&waker), Poll::Ready(OutcomeUpdate::Outcome(Ok(7)))));
        assert!(receiver.poll(&waker).is_pending());
    }

    #[test]
    fn dropped_sender_sends_closed_error() {
        let (sender, receiver) = OutcomeReceiver::<()>::new(false);
        assert!(!sender.is_abandoned());
        drop(sender);
        let Poll::Ready(OutcomeUpdate::Outcome(Err(error))) = receiver.poll(Waker::noop()) else { panic!() };
        assert!(error.is_closed());
    }

    fn notification(text: &str) -> Notification {
        let mut event = None;
        // The core makes notifications alone.
        let mut engine = mcp_proto::client::Engine::new(Arc::new(mcp_proto::client::Config::new("t", "1")));
        let now = mcp_proto::Instant::ZERO;
        let channel = engine.open_channel(now);
        let message = std::format!(r#"{{"jsonrpc":"2.0","method":"x/y","params":{{"t":"{text}"}}}}"#);
        engine.handle_message(now, channel, message.into_bytes().into());
        while let Some(next) = engine.poll_event(now) {
            event = Some(next);
        }
        let Some(mcp_proto::client::Event::Notification(notification)) = event else { panic!("{event:?}") };
        notification
    }

    #[test]
    fn notifications_are_bounded_by_number_and_bytes_and_precede_the_outcome() {
        let mut limits = Limits::default();
        limits.max_events = 3;
        let (sender, receiver) = OutcomeReceiver::with_notifications();
        let take = || match receiver.poll(Waker::noop()) {
            Poll::Ready(OutcomeUpdate::Notification(notification)) => {
                notification.params.expect("there are some")
            }
            other => panic!("{other:?}"),
        };
        for text in ["a", "b", "c"] {
            sender.send_notification(notification(text), &limits).expect("room");
        }
        let refused = sender.send_notification(notification("d"), &limits);
        assert!(matches!(refused, Err(UnqueuedNotification::Full)), "{refused:?}");
        assert_eq!(take().as_str(), r#"{"t":"a"}"#);
        // The last one may be larger than what is left.
        limits.max_waiting_bytes = 2 * (3 + 9) + 1;
        sender.send_notification(notification(&"e".repeat(100)), &limits).expect("room");
        take();
        let refused = sender.send_notification(notification("f"), &limits);
        assert!(matches!(refused, Err(UnqueuedNotification::Full)), "{refused:?}");
        sender.send(Ok(7));
        assert_eq!(take().as_str(), r#"{"t":"c"}"#);
        take();
        assert!(matches!(receiver.poll(Waker::noop()), Poll::Ready(OutcomeUpdate::Outcome(Ok(7)))));
    }

    #[test]
    fn notification_is_for_the_handler_unless_the_caller_wants_it() {
        let limits = Limits::default();
        let (sender, _receiver) = OutcomeReceiver::<()>::new(true);
        let sent = sender.send_notification(notification("a"), &limits);
        assert!(matches!(sent, Err(UnqueuedNotification::Unwanted(_))), "{sent:?}");
        let (sender, receiver) = OutcomeReceiver::<()>::with_notifications();
        drop(receiver);
        let sent = sender.send_notification(notification("a"), &limits);
        assert!(matches!(sent, Err(UnqueuedNotification::Full)), "{sent:?}");
    }

    #[test]
    fn progress_is_returned_to_sender_when_not_enabled() {
        let (sender, receiver) = OutcomeReceiver::<()>::new(false);
        assert!(sender.send_progress(Progress::new(1.0)).is_some());
        drop(receiver);
        assert!(sender.is_abandoned());
    }
}
