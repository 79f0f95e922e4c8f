//! The interface of the application.

use mcp_proto::Instant;
use mcp_proto::server::{Engine, Event};

/// An application that answers the calls of a server.
///
/// Both methods run on the loop of the driver, and nothing else moves meanwhile: a call that takes long is kept by its id
/// and answered in a later [`poll`](Self::poll).
pub trait Application {
    /// Handles one event, and answers it at `engine` now or later.
    fn handle_event(&mut self, now: Instant, engine: &mut Engine, event: Event);

    /// Does the work that is due, for example answers a call or publishes a change.
    ///
    /// It is called in every turn of the driver, after the events. Returns the time of the next call at the latest, or
    /// `None` if there is nothing to do before the next event.
    fn poll(&mut self, now: Instant, engine: &mut Engine) -> Option<Instant> {
        let _ = (now, engine);
        None
    }
}

impl<A: Application + ?Sized> Application for &mut A {
    fn handle_event(&mut self, now: Instant, engine: &mut Engine, event: Event) {
        (**self).handle_event(now, engine, event);
    }

    fn poll(&mut self, now: Instant, engine: &mut Engine) -> Option<Instant> {
        (**self).poll(now, engine)
    }
}
