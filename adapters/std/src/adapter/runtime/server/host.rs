//! The engine and clock of a byte stream, as seen by the dispatcher.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::pipe;
use mcp_proto::server::{Engine, Event};

use crate::adapter::driver::PipeDriver;
use crate::adapter::server::ServerLoop;

/// The engine and clock of a pipe, as seen by the dispatcher.
pub(super) struct PipeHost<'a> {
    pub(super) pipe: &'a mut pipe::Server,
    pub(super) drive: &'a mut PipeDriver,
    pub(super) shutdown_deadline: &'a mut Option<Instant>,
}

impl ServerLoop for PipeHost<'_> {
    #[inline]
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.drive.now()
    }

    #[inline]
    fn tick(&mut self) -> Instant {
        self.drive.tick()
    }

    #[inline]
    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        *self.shutdown_deadline = Some(now + grace);
    }

    // No handler runs on the loop itself, so the following operations have nothing to do.

    #[inline]
    fn poll_event_during_call(&mut self) -> Option<Event> {
        None
    }

    #[inline]
    fn defer(&mut self, _: Event) {}

    #[inline]
    fn write(&mut self) -> bool {
        false
    }

    #[inline]
    fn wait(&mut self, _: Instant) {}
}
