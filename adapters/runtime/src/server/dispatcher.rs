//! The dispatcher: assigns calls to handlers that run elsewhere.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use mcp_proto::server::{Announcement, BufferedResult, Call, CancelReason, Event};
use mcp_proto::{CallId, Instant, Limits, RpcError};
use mcp_std::catch;
use mcp_std::sync::{Inbox, SendError, Sender};

use super::attachments::LoopExtension;
use super::handler::HandlerFailure;
use super::remote::{ActiveCall, FinishedCall, HandlerOutcome, LoopCommand, LoopMessage, RemoteCall};
use super::server_loop::{Backlog, ServerLoop, apply_outcome, max_running_tasks, set_task_message};
use super::tasks::DriveTasks;

/// Assigns calls to remote handlers and applies their outcomes.
///
/// At most [`max_running`](Self::max_running) handlers run at a time. Further calls wait, within
/// [`Limits::max_waiting_requests`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits). While
/// [`is_congested`](Self::is_congested) returns `true`, the event loop must pause reading. The runs of tasks are not among
/// them: at most [`TaskLimits::max_running`](mcp_proto::server::TaskLimits) run at a time. A cancelled run counts until its
/// handler has returned and its [work](super::AsyncCx::run_blocking) has ended, although the engine lets the next task run at once.
///
/// Invariants: `free_slots` contains exactly the indices of the `None` entries of `slots`. `running_tasks` is the number
/// of runs of tasks in `slots`. `waiting_tasks` contains only runs of tasks, and `backlog` none.
#[derive(Debug)]
pub struct Dispatcher {
    inbox: Inbox<LoopMessage>,
    /// Messages taken from the inbox, kept to reuse the memory.
    messages: VecDeque<LoopMessage>,
    /// Buffers for results: at most [`MAX_BUFFERS`], none larger than [`MAX_BUFFER_SIZE`].
    #[expect(clippy::vec_box, reason = "they are passed on in their boxes")]
    buffers: Vec<Box<BufferedResult>>,
    slots: Vec<Option<Arc<ActiveCall>>>,
    /// Indices of slots without a call.
    free_slots: Vec<usize>,
    backlog: Backlog,
    /// Runs of tasks that wait for the end of cancelled ones. The engine bounds their number, so they are not congestion.
    waiting_tasks: Backlog,
    max_running: usize,
    running_tasks: usize,
    /// Whether the last turn began with messages.
    processed_first: bool,
    tasks: TaskSlot,
    extensions: Extensions,
    /// Running tasks whose descriptions may be shown later, with the time.
    held_messages: Vec<(Instant, Arc<ActiveCall>)>,
}

/// The extensions on the loop.
struct Extensions(Vec<Box<dyn LoopExtension>>);

impl core::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Extensions").field(&self.0.len()).finish()
    }
}

/// The driver of the task store, if the server has tasks.
struct TaskSlot(Option<Box<dyn DriveTasks>>);

impl core::fmt::Debug for TaskSlot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("TaskSlot").field(&self.0.is_some()).finish()
    }
}

impl Dispatcher {
    /// Creates a dispatcher for at most `max_running` handlers at a time (at least 1).
    #[must_use]
    pub fn new(max_running: usize) -> Self {
        Self {
            inbox: Inbox::new(MAX_COMMANDS),
            messages: VecDeque::new(),
            buffers: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            backlog: Backlog::default(),
            waiting_tasks: Backlog::default(),
            max_running: max_running.max(1),
            running_tasks: 0,
            processed_first: false,
            tasks: TaskSlot(None),
            extensions: Extensions(Vec::new()),
            held_messages: Vec::new(),
        }
    }

    /// Sets what drives the tasks of the server.
    pub fn set_tasks(&mut self, tasks: Box<dyn DriveTasks>) {
        self.tasks = TaskSlot(Some(tasks));
    }

    /// Returns whether the server has tasks.
    #[must_use]
    pub const fn has_tasks(&self) -> bool {
        self.tasks.0.is_some()
    }

    /// Adds the part of an extension on this loop.
    pub fn add_extension(&mut self, extension: Box<dyn LoopExtension>) {
        self.extensions.0.push(extension);
    }

    /// Passes changes of tasks to the store, and its outcomes to the engine; sends what is due of extensions. Returns whether
    /// there was anything.
    pub fn drive(&mut self, server_loop: &mut dyn ServerLoop) -> bool {
        let mut any = self.tasks.0.as_mut().is_some_and(|tasks| tasks.drive(server_loop));
        for extension in &mut self.extensions.0 {
            // The panic hook has reported the panic.
            any |= catch(|| extension.drive(server_loop)).unwrap_or(false);
        }
        any
    }

    /// Passes an event to the extension that it is for. Returns false if it is for others.
    pub(super) fn extend(&mut self, server_loop: &mut dyn ServerLoop, event: &Event) -> bool {
        self.extensions.0.iter_mut().any(|extension| {
            // After a panic, the call is not for others, which do not know its method.
            catch(|| extension.handle_event(server_loop, event)).unwrap_or_else(|_| {
                if let Event::Call(call) = event {
                    let now = server_loop.now();
                    let failed = RpcError::internal("the extension panicked");
                    let _ = server_loop.engine().fail(now, call.id(), &failed);
                }
                true
            })
        })
    }

    /// Waits for the changes that the store has not finished, up to a few seconds, at the end of the server.
    pub fn finish_tasks(&mut self, server_loop: &mut dyn ServerLoop) {
        if let Some(tasks) = self.tasks.0.take() {
            tasks.finish(server_loop);
        }
    }

    /// Returns when [`process_messages`](Self::process_messages) has to be called again.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let extensions = self.extensions.0.iter().filter_map(|extension| extension.next_deadline());
        self.next_held_message().into_iter().chain(extensions).min()
    }

    fn next_held_message(&self) -> Option<Instant> {
        self.held_messages.iter().map(|(at, _)| *at).min()
    }

    /// Shows the descriptions of tasks that were held back.
    fn show_held_messages(&mut self, server_loop: &mut dyn ServerLoop) {
        if self.next_held_message().is_some_and(|at| at <= server_loop.now()) {
            self.held_messages.retain_mut(|(at, running)| match show_task_message(server_loop, running) {
                Some(later) => {
                    *at = later;
                    true
                }
                None => false,
            });
        }
    }

    /// Returns the number of running tasks, including cancelled ones that have not ended.
    #[must_use]
    pub const fn running_tasks(&self) -> usize {
        self.running_tasks
    }

    /// Sets the maximum number of handlers at a time (at least 1). Running handlers are not affected.
    pub fn set_max_running(&mut self, max_running: usize) {
        self.max_running = max_running.max(1);
    }

    /// Returns the maximum number of handlers at a time.
    #[must_use]
    pub const fn max_running(&self) -> usize {
        self.max_running
    }

    /// Registers the waker for later messages. Then call [`process_messages`](Self::process_messages) before waiting.
    pub fn register(&self, waker: &Waker) {
        self.inbox.register(waker);
    }

    /// Returns whether [`process_messages`](Self::process_messages) may have something to do.
    pub(super) fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Begins a turn. Returns whether it [processes messages](Self::process_messages) without a look for input before.
    ///
    /// That look is a system call, and answers are written without it. It is not left out twice in a row: messages of other
    /// threads do not keep a loop from reading.
    pub(super) fn processes_messages_first(&mut self) -> bool {
        self.processed_first = self.has_messages() && !self.processed_first;
        self.processed_first
    }

    /// Lets messages wake nothing until they are processed, for a loop that does so before it waits.
    pub fn expect_messages(&self) {
        self.inbox.expect_items();
    }

    /// Returns whether no message can arrive: no handler runs and no [`CommandSender`] exists.
    #[must_use]
    pub fn has_no_senders(&self) -> bool {
        self.inbox.has_no_senders()
    }

    /// Returns a handle that sends commands to the event loop from any thread.
    #[must_use]
    pub fn commands(&self) -> CommandSender {
        CommandSender(self.inbox.sender())
    }

    /// Returns the number of running handlers, including those of cancelled calls, and work that outlives its handler.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// Returns whether calls wait for handlers.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.backlog.is_empty() || !self.waiting_tasks.is_empty()
    }

    /// Returns whether so many calls wait that reading must pause.
    #[must_use]
    pub fn is_congested(&self, limits: &Limits) -> bool {
        self.backlog.is_full(limits)
    }

    /// Queues a call or cancels a running one, or passes the event to an extension. Returns events that are for none of them.
    #[inline]
    pub fn accept_event(&mut self, server_loop: &mut dyn ServerLoop, event: Event) -> Option<Event> {
        if self.extend(server_loop, &event) {
            return None;
        }
        match event {
            Event::Call(ref call) if call.is_task_run() => self.waiting_tasks.push(event),
            Event::Call(_) => self.backlog.push(event),
            Event::Cancelled { call, reason } => match self.find_running(call) {
                Some(running) => running.cancel(reason),
                None => {
                    self.waiting_tasks.remove(call);
                    self.backlog.remove(call);
                }
            },
            other => return Some(other),
        }
        None
    }

    /// Returns the next call for a handler, or `None` if the maximum number runs or no call waits.
    pub fn next_call(&mut self, server_loop: &mut dyn ServerLoop) -> Option<RemoteCall> {
        let Some(Event::Call(call)) = self.next_queue(server_loop)?.pop() else { return None };
        self.running_tasks += usize::from(call.is_task_run());
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let running = Arc::new(ActiveCall::new(call, index, server_loop));
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(running.clone());
        }
        let buffer = self.buffers.pop();
        Some(RemoteCall::new(running, self.inbox.sender(), buffer))
    }

    /// Returns the queue whose oldest call may run: runs of tasks come first.
    fn next_queue(&mut self, server_loop: &mut dyn ServerLoop) -> Option<&mut Backlog> {
        if !self.waiting_tasks.is_empty() && self.running_tasks < max_running_tasks(server_loop) {
            return Some(&mut self.waiting_tasks);
        }
        // Runs of tasks have a limit of their own and do not count for this one (DESIGN-48).
        let may_run = self.running_count() - self.running_tasks < self.max_running;
        may_run.then_some(&mut self.backlog)
    }

    /// Applies all received messages: outcomes, progress, changes and commands; and [drives](Self::drive) tasks and extensions.
    /// Returns whether there was any work.
    ///
    /// `on_failure` receives failures that the authors of handlers should know.
    pub fn process_messages(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        on_failure: &mut dyn FnMut(&Call, &HandlerFailure),
    ) -> bool {
        if self.has_messages() {
            server_loop.tick();
        }
        let any = self.apply_messages(server_loop, on_failure);
        self.show_held_messages(server_loop);
        self.drive(server_loop) || any
    }

    fn apply_messages(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        on_failure: &mut dyn FnMut(&Call, &HandlerFailure),
    ) -> bool {
        if !self.inbox.take(&mut self.messages) {
            return false;
        }
        let mut messages = core::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            match message {
                LoopMessage::Progress(running) => {
                    if let Some(progress) = running.take_progress() {
                        // The call is stale if it was cancelled in the meantime.
                        let now = server_loop.now();
                        let _ = server_loop.engine().progress(now, running.call().id(), progress);
                    }
                    self.held_messages
                        .extend(show_task_message(server_loop, &running).map(|at| (at, running)));
                }
                LoopMessage::Finished(running, outcome) => {
                    self.end_call(server_loop, &running, outcome, on_failure);
                }
                LoopMessage::Released(running) => self.free_slot(&running),
                // A condition of the application may panic.
                LoopMessage::Changed(changes) => _ = catch(|| changes.publish(server_loop)),
                // The panic hook has reported the panic.
                LoopMessage::Run(command) => _ = catch(|| command(server_loop)),
            }
        }
        self.messages = messages;
        true
    }

    /// Applies the outcome of a handler whose future the loop itself has polled. Does not read the clock.
    pub fn apply_finished(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        finished: FinishedCall,
        on_failure: &mut dyn FnMut(&Call, &HandlerFailure),
    ) {
        // What the handler has sent before its end comes first.
        self.apply_messages(server_loop, on_failure);
        let FinishedCall { mut remote, outcome } = finished;
        remote.mark_finished();
        self.end_call(server_loop, remote.running(), outcome, on_failure);
    }

    fn end_call(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        running: &ActiveCall,
        outcome: HandlerOutcome,
        on_failure: &mut dyn FnMut(&Call, &HandlerFailure),
    ) {
        // Work that the handler moved to other threads keeps the slot until it ends (DESIGN-56).
        if running.release() {
            self.free_slot(running);
        }
        let buffer = apply_outcome(server_loop, running.call(), outcome, on_failure);
        if self.buffers.len() < MAX_BUFFERS {
            self.buffers.extend(buffer.filter(|buffer| buffer.capacity() <= MAX_BUFFER_SIZE));
        }
    }

    fn free_slot(&mut self, running: &ActiveCall) {
        if let Some(slot) = self.slots.get_mut(running.slot) {
            *slot = None;
            self.free_slots.push(running.slot);
            self.running_tasks -= usize::from(running.call().is_task_run());
        }
    }

    fn find_running(&self, call: CallId) -> Option<&ActiveCall> {
        self.slots.iter().flatten().map(|running| &**running).find(|running| running.call().id() == call)
    }
}

/// Shows the description of a task, or returns when it may be shown.
fn show_task_message(server_loop: &mut dyn ServerLoop, running: &ActiveCall) -> Option<Instant> {
    let now = server_loop.now();
    match running.take_task_message(now) {
        Ok(message) => {
            if let Some(message) = message {
                set_task_message(server_loop, running.call(), &message);
            }
            None
        }
        Err(later) => Some(later),
    }
}

/// Cancels all running calls, because their outcomes can no longer be sent.
impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.slots.iter().flatten().for_each(|running| running.cancel(CancelReason::Shutdown));
    }
}

/// Sends commands to an event loop from any thread.
#[derive(Clone, Debug)]
pub struct CommandSender(Sender<LoopMessage>);

impl CommandSender {
    /// Sends a command, which runs soon.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if 1,024 commands wait, [`SendError::Closed`] if the loop has stopped.
    pub fn send(
        &self,
        command: impl FnOnce(&mut dyn ServerLoop) + Send + 'static,
    ) -> Result<(), SendError<()>> {
        self.0
            .send(LoopMessage::Run(Box::new(command) as LoopCommand))
            .map_err(|refused| discard_item(&refused))
    }

    /// Publishes a change to its audience. The bound on waiting commands does not apply.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the loop has stopped.
    pub fn publish<'c>(&self, change: impl Into<Announcement<'c>>) -> Result<(), SendError<()>> {
        let report = LoopMessage::Changed(change.into().into());
        self.0.send_or_merge(report, LoopMessage::merge).map_err(|refused| discard_item(&refused))
    }

    /// Sends a command that must not be refused. The bound on waiting commands does not apply.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the loop has stopped.
    pub fn send_unbounded(
        &self,
        command: impl FnOnce(&mut dyn ServerLoop) + Send + 'static,
    ) -> Result<(), SendError<()>> {
        self.0
            .send_unbounded(LoopMessage::Run(Box::new(command) as LoopCommand))
            .map_err(|refused| discard_item(&refused))
    }

    /// Returns whether the loop has stopped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

fn discard_item(refused: &SendError<LoopMessage>) -> SendError<()> {
    match refused {
        SendError::Full(_) => SendError::Full(()),
        SendError::Closed(_) => SendError::Closed(()),
    }
}

/// Maximum number of buffers that are kept for results.
const MAX_BUFFERS: usize = 16;
/// Maximum size in bytes of such a buffer.
const MAX_BUFFER_SIZE: usize = 4 << 10;
/// Maximum number of waiting commands. Outcomes of calls are not counted.
const MAX_COMMANDS: usize = 1024;
