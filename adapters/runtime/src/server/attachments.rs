//! Attachments of a handler: the tasks and the extensions that its event loop takes over.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mcp_proto::server::{Config, Event};
use mcp_proto::{Anchor, Instant};

use super::dispatcher::{CommandSender, Dispatcher};
use super::server_loop::ServerLoop;
use super::tasks::{StorePlace, TaskSource};
use crate::Error;

/// An extension of the protocol that answers its methods itself, beside the handlers.
///
/// A router takes it by [`Router::extension`](super::router::Router::extension); another handler returns it from
/// [`Handler::attachments`](super::Handler::attachments) and is served with the configuration that
/// [`configure`](Self::configure) returns.
pub trait ServerExtension: Send + Sync {
    /// Adds the methods and capabilities of the extension to the configuration of a server.
    fn configure(&self, config: Config) -> Config;

    /// Returns a number that clones of this extension have in common and others have not: the address of what they share, for
    /// example. Of those with the same number only the first is added. By default each counts as another one.
    fn identity(&self) -> Option<usize> {
        None
    }

    /// Returns the part of the extension on one loop. `commands` wakes the loop from any thread: a server has one loop
    /// for each byte stream, or for each shard.
    fn join(&self, server_loop: &mut dyn ServerLoop, commands: CommandSender) -> Box<dyn LoopExtension>;
}

/// The part of a [`ServerExtension`] on one loop. It is dropped with the loop.
///
/// It runs on the thread of the loop, between the handlers of other calls, so it must neither wait nor compute long.
pub trait LoopExtension: Send {
    /// Handles an event that is for this extension: a call of one of its methods, which it answers now or later, or the
    /// cancellation of such a call. Returns false if the event is for others.
    fn handle_event(&mut self, server_loop: &mut dyn ServerLoop, event: &Event) -> bool;

    /// Sends what is due. Returns whether there was anything.
    ///
    /// The loop calls it after it has handled events or commands, and when [`next_deadline`](Self::next_deadline) has
    /// passed.
    fn drive(&mut self, server_loop: &mut dyn ServerLoop) -> bool;

    /// Returns when to [`drive`](Self::drive) without another cause.
    fn next_deadline(&self) -> Option<Instant>;
}

/// The tasks and extensions that each event loop takes from its handler; see [`Handler::attachments`](super::Handler::attachments).
#[derive(Clone, Default)]
pub struct Attachments {
    pub(super) tasks: Option<TaskSource>,
    pub(super) extensions: Vec<Arc<dyn ServerExtension>>,
    repeatable_tools: Vec<Box<str>>,
}

impl Attachments {
    /// Returns whether there is nothing to give.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_none() && self.extensions.is_empty() && self.repeatable_tools.is_empty()
    }

    /// Adds tasks.
    #[must_use]
    pub fn with_tasks(mut self, tasks: TaskSource) -> Self {
        self.tasks = Some(tasks);
        self
    }

    /// Adds an extension, unless it is there ([`ServerExtension::identity`]).
    #[must_use]
    pub fn with_extension(mut self, extension: Arc<dyn ServerExtension>) -> Self {
        self.add_extension(extension);
        self
    }

    /// Adds tools whose calls [may run again](mcp_proto::router::ToolEntry::repeatable).
    #[must_use]
    pub fn with_repeatable_tools(mut self, names: impl IntoIterator<Item = Box<str>>) -> Self {
        self.repeatable_tools.extend(names);
        self
    }

    pub(super) fn add_extension(&mut self, extension: Arc<dyn ServerExtension>) {
        let identity = extension.identity();
        if identity.is_none() || self.extensions.iter().all(|other| other.identity() != identity) {
            self.extensions.push(extension);
        }
    }

    /// Gives everything to the loop that `dispatcher` belongs to, which has a waker. `place` is where a store of tasks runs.
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if another loop has the tasks, or the store cannot be loaded.
    pub fn install(
        &self,
        dispatcher: &mut Dispatcher,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<(), Error> {
        if let Some(tasks) = &self.tasks {
            dispatcher.set_tasks(tasks.install(server_loop, anchor, place)?);
        }
        server_loop.set_repeatable_tools(&self.repeatable_tools);
        for extension in &self.extensions {
            let commands = dispatcher.commands();
            dispatcher.add_extension(extension.join(server_loop, commands));
        }
        Ok(())
    }
}

impl fmt::Debug for Attachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachments")
            .field("tasks", &self.tasks.is_some())
            .field("extensions", &self.extensions.len())
            .field("repeatable_tools", &self.repeatable_tools)
            .finish()
    }
}
