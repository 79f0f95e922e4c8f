//! Sessions that other processes serve, too: what it takes to write one down, and to take one that is not here.

use core::hint::black_box;

use mcp_proto::http::server::{Config, SessionId};

use super::http::{HttpCall, HttpEcho};
use super::memory::Footprint;
use super::{Scenario, TIME_STEP, advance};
use crate::wire::WireEra;

/// Number of handshakes for which there is room.
const MAX_SESSIONS: usize = 2_000_000;

/// The record of an idle session, written for a store.
#[derive(Debug)]
pub struct SaveSession {
    echo: HttpEcho,
    id: SessionId,
}

impl SaveSession {
    /// Returns the scenario with a session after one call.
    #[must_use]
    pub fn new() -> Self {
        let echo = HttpCall::shared(WireEra::Legacy).echo;
        let id = stored_id(&echo);
        Self { echo, id }
    }
}

impl Default for SaveSession {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for SaveSession {
    fn run_once(&mut self) {
        let record = self.echo.server.shared_sessions().save(black_box(&self.id));
        assert!(black_box(record).is_some(), "a record");
    }
}

/// A call of a session that is not here: its record is loaded, and the session is dropped again after the call.
#[derive(Debug)]
pub struct LoadSession {
    call: HttpCall,
    id: SessionId,
}

impl LoadSession {
    /// Returns the scenario in its steady state.
    #[must_use]
    pub fn new() -> Self {
        let call = HttpCall::shared(WireEra::Legacy);
        let id = stored_id(&call.echo);
        let mut load = Self { call, id };
        for _ in 0..100 {
            load.run_once();
        }
        load
    }
}

impl Default for LoadSession {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for LoadSession {
    fn run_once(&mut self) {
        let echo = &mut self.call.echo;
        echo.server.shared_sessions().forget(echo.now, &self.id);
        assert_eq!(echo.server.session_count(), 0, "it is not here");
        self.call.run_once();
    }
}

fn stored_id(echo: &HttpEcho) -> SessionId {
    echo.stored.as_ref().expect("a session that is shared").id.clone()
}

/// Returns the bytes of the record of an idle session, before it is sealed.
#[must_use]
pub fn session_record() -> Footprint {
    let echo = HttpCall::shared(WireEra::Legacy).echo;
    let stored = echo.stored.as_ref().expect("a session that is shared");
    Footprint { heap: stored.bytes.len() as f64, inline: 0 }
}

/// The handshake of one more session: two requests over a keep-alive connection.
#[derive(Debug)]
pub struct Handshake {
    echo: HttpEcho,
}

impl Handshake {
    /// Returns the scenario with a server without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self { echo: HttpEcho::new(Config::new().max_sessions(MAX_SESSIONS, MAX_SESSIONS)) }
    }
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Handshake {
    fn run_once(&mut self) {
        advance(&mut self.echo.now, TIME_STEP);
        black_box(self.echo.session(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_run_and_an_idle_session_has_a_small_record() {
        let (mut save, mut load, mut handshake) = (SaveSession::new(), LoadSession::new(), Handshake::new());
        for opened in 1..4 {
            save.run_once();
            load.run_once();
            handshake.run_once();
            assert_eq!(handshake.echo.server.session_count(), opened, "each handshake opens one");
        }
        assert_eq!(load.call.echo.server.session_count(), 1, "it was loaded");
        assert!(session_record().heap <= 256.0, "{:?}", session_record());
    }
}
