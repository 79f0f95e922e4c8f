//! Log messages: which the server is asked for, and whom they are passed on to

use mcp_proto::client::{self, Log};
use mcp_proto::model::LoggingLevel;
use mcp_proto::server::Call;
use mcp_proto::{Capability, ChannelId, Era, Sent};

use super::passage::Passage;
use super::relay::{Ends, Relay};

/// What the server was told to log
#[derive(Debug)]
pub(super) struct Logs {
    /// The server logs
    any: bool,
    /// It is told with each call, and not for good
    modern: bool,
    /// What it was told last; nothing yet
    told: Option<Option<LoggingLevel>>,
    /// The least serious level that a modern call wanted, for a server that is told for good
    least: Option<LoggingLevel>,
}

impl Logs {
    pub(super) fn new(peer: &client::Peer) -> Self {
        let any = peer.has(Capability::Logging);
        Self { any, modern: peer.era() == Era::Modern, told: None, least: None }
    }

    /// Takes care that a call that is about to be made is logged about as its client wants
    pub(super) fn before(&mut self, ends: &mut Ends<'_>, call: &Call, sessions: &[ChannelId]) {
        if !self.any {
            return;
        }
        let wanted = match call.version().era() {
            Era::Modern => {
                let level = call.meta().and_then(|meta| meta.member("io.modelcontextprotocol/logLevel"));
                level.and_then(|level| level.parse::<LoggingLevel>().ok())
            }
            // All is wanted as long as a session has not said anything.
            Era::Legacy => Some(ends.down.log_level(call.channel()).unwrap_or(LoggingLevel::Debug)),
        };
        if self.modern {
            self.tell(ends, wanted);
        } else if call.version().era() == Era::Modern {
            self.least = least(self.least.take(), wanted);
            self.settle(ends, sessions);
        }
    }

    /// Tells a legacy server what is wanted by all
    pub(super) fn settle(&mut self, ends: &mut Ends<'_>, sessions: &[ChannelId]) {
        if !self.any || self.modern {
            return;
        }
        let said: Vec<_> = sessions.iter().map(|session| ends.down.log_level(*session)).collect();
        if said.iter().all(Option::is_none) && self.least.is_none() {
            return;
        }
        let said = said.into_iter().map(|level| Some(level.unwrap_or(LoggingLevel::Debug)));
        let wanted = said.fold(self.least.clone(), least);
        self.tell(ends, wanted);
    }

    fn tell(&mut self, ends: &mut Ends<'_>, level: Option<LoggingLevel>) {
        if self.told.as_ref() == Some(&level) {
            return;
        }
        // Without room it is told the next time.
        if ends.up.set_log_level(ends.up_now, level.clone()).is_ok() {
            self.told = Some(level);
        }
    }
}

/// The less serious one
fn least(a: Option<LoggingLevel>, b: Option<LoggingLevel>) -> Option<LoggingLevel> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl Relay {
    /// The server has logged something
    pub(super) fn log(&self, ends: &mut Ends<'_>, log: &Log) {
        let logger = log.logger.as_deref();
        let mut pass = |call: &Call| {
            // Refused when it has ended.
            let sent = ends.down.log(ends.now, call.id(), &log.level, logger, &log.data);
            sent.is_ok_and(|sent| sent != Sent::Dropped)
        };
        if let Some(call) = log.call {
            // Dropped where its client does not want it, or is being asked.
            if let Some(call) = self.passages.by_up(call).and_then(Passage::here) {
                pass(call);
            }
            return;
        }
        // On a byte stream it makes no difference which call it is about. Over HTTP it goes along with the only call that
        // there is, since its client may be gone when that is answered; of several clients only one who is alone can be
        // meant.
        let mut here = self.passages.iter().filter_map(|(_, passage)| passage.here());
        if !self.is_alone() {
            if let (Some(only), None) = (here.next(), here.next()) {
                pass(only);
                return;
            }
        }
        if let Some(session) = self.only_session() {
            let _ = ends.down.log_session(ends.now, session, &log.level, logger, &log.data);
        } else if self.is_alone() {
            here.any(&mut pass);
        }
    }
}
