//! Between a loop and handlers that run elsewhere

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use mcp_proto::server::{Call, CancelReason, Event};
use mcp_proto::{CallId, Change, Limits};

use super::handler::Failure;
use super::host::{self, Backlog, Host};
use super::remote::{Command, Remote, Report, Running};
use crate::catch;
use crate::inbox::{Inbox, Refused, Sender};

/// Hands calls to handlers that run elsewhere, and takes in what becomes of them
///
/// At most so many run at a time as it was told; the next ones wait, within
/// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits). Who turns the loop reads no
/// more while it [is congested](Self::is_congested).
#[derive(Debug)]
pub struct Desk {
    inbox: Inbox<Report>,
    /// What was taken out of the inbox, for the sake of its memory
    reports: VecDeque<Report>,
    running: Vec<Option<Arc<Running>>>,
    /// Places without a call
    free: Vec<usize>,
    backlog: Backlog,
    most: usize,
}

impl Desk {
    /// Nobody works yet; at most `most` handlers will at a time (at least 1)
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            inbox: Inbox::new(MAX_COMMANDS),
            reports: VecDeque::new(),
            running: Vec::new(),
            free: Vec::new(),
            backlog: Backlog::default(),
            most: most.max(1),
        }
    }

    /// At most `most` handlers are begun from now on while others run (at least 1)
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
    }

    /// How many handlers may run at a time
    #[must_use]
    pub const fn limits_to(&self) -> usize {
        self.most
    }

    /// Has `waker` woken when somebody has something to say from now on; to be followed by [`apply`](Self::apply)
    pub fn register(&self, waker: &Waker) {
        self.inbox.register(waker);
    }

    /// Whether nobody can have anything to say: no handler runs, and nobody has a [`Commands`]
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.inbox.is_alone()
    }

    /// For whoever wants something done on the loop
    #[must_use]
    pub fn commands(&self) -> Commands {
        Commands(self.inbox.sender())
    }

    /// Calls that handlers work on, whether they are wanted or not
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len() - self.free.len()
    }

    /// Whether so many calls wait that no more are to be taken in
    #[must_use]
    pub fn is_congested(&self, limits: &Limits) -> bool {
        self.backlog.is_full(limits)
    }

    /// Takes a call in, or the end of one that is not wanted any more; gives everything else back
    pub fn take_in(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Call(_) => self.backlog.push(event),
            Event::Cancelled { call, reason } => match self.find(call) {
                Some(running) => running.cancel(reason),
                None => self.backlog.push(Event::Cancelled { call, reason }),
            },
            other => return Some(other),
        }
        None
    }

    /// The call that has waited longest, if a handler may run for it; none while as many run as may
    pub fn next_call(&mut self, host: &mut dyn Host) -> Option<Remote> {
        if self.running() >= self.most {
            return None;
        }
        let Some(Event::Call(call)) = self.backlog.pop() else { return None };
        let place = self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        });
        let running = Arc::new(Running::new(call, place, host));
        if let Some(free) = self.running.get_mut(place) {
            *free = Some(running.clone());
        }
        Some(Remote::new(running, self.inbox.sender()))
    }

    /// Does what was reported since: answers calls, tells of progress, carries out commands; whether there was anything
    ///
    /// `failed` hears what the authors of handlers should know.
    pub fn apply(&mut self, host: &mut dyn Host, failed: &mut dyn FnMut(&Call, &Failure)) -> bool {
        if !self.inbox.take(&mut self.reports) {
            return false;
        }
        host.tick();
        let mut reports = core::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            match report {
                Report::Progress(running) => {
                    if let Some(progress) = running.take_progress() {
                        // Stale when the call was cancelled meanwhile.
                        let now = host.now();
                        let _ = host.engine().progress(now, running.call().id(), progress);
                    }
                }
                Report::Over(running, verdict) => {
                    if let Some(place) = self.running.get_mut(running.place) {
                        *place = None;
                        self.free.push(running.place);
                    }
                    host::settle(host, running.call(), verdict, failed);
                }
                Report::Changed(changes) => changes.publish(host),
                // A panic ends what panicked and nothing else; the panic hook has said it.
                Report::Do(command) => _ = catch(|| command(host)),
            }
        }
        self.reports = reports;
        true
    }

    fn find(&self, call: CallId) -> Option<&Running> {
        self.running.iter().flatten().map(|running| &**running).find(|running| running.call().id() == call)
    }
}

/// Nobody waits for the answers of handlers that still run
impl Drop for Desk {
    fn drop(&mut self) {
        self.running.iter().flatten().for_each(|running| running.cancel(CancelReason::Shutdown));
    }
}

/// Has things done on a loop, from any thread
#[derive(Clone, Debug)]
pub struct Commands(Sender<Report>);

impl Commands {
    /// Has something done, soon
    ///
    /// # Errors
    ///
    /// [`Refused`] when the loop is over, or 1,024 commands wait for it.
    pub fn send(&self, command: impl FnOnce(&mut dyn Host) + Send + 'static) -> Result<(), Refused<()>> {
        self.0.send(Report::Do(Box::new(command) as Command)).map_err(|refused| without(&refused))
    }

    /// Has everybody told who wants to know that something has changed, however much waits
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`] when the loop is over.
    pub fn publish(&self, change: Change) -> Result<(), Refused<()>> {
        let report = Report::Changed(change.into());
        self.0.send_or_merge(report, Report::merge).map_err(|refused| without(&refused))
    }

    /// Has something done that must not be refused, however much waits
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`] when the loop is over.
    pub fn send_due(&self, command: impl FnOnce(&mut dyn Host) + Send + 'static) -> Result<(), Refused<()>> {
        self.0.send_due(Report::Do(Box::new(command) as Command)).map_err(|refused| without(&refused))
    }

    /// Whether the loop is over
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

fn without(refused: &Refused<Report>) -> Refused<()> {
    match refused {
        Refused::Full(_) => Refused::Full(()),
        Refused::Closed(_) => Refused::Closed(()),
    }
}

/// Commands that wait for a loop at most; answers to calls come on top
const MAX_COMMANDS: usize = 1024;
