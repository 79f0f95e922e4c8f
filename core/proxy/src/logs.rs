//! Log messages: the level requested from the server, and the clients that they are forwarded to.

use alloc::borrow::Cow;

use mcp_proto::client::{self, LogMessage};
use mcp_proto::model::LoggingLevel;
use mcp_proto::server::Call;
use mcp_proto::{Capability, ChannelId, Era, SendStatus};

use super::relay::{Engines, Relay};
use super::relayed_call::RelayedCall;

/// Log level requested from the server.
#[derive(Debug, Default)]
pub(super) struct UpstreamLogLevel {
    /// Whether the server supports logging.
    is_supported: bool,
    /// Whether the level is sent with each call (modern) instead of once (legacy).
    is_modern: bool,
    /// Level sent last; `None` before the first.
    last_set: Option<Option<LoggingLevel>>,
    /// Least severe level that a modern call requested. Used with legacy servers, whose level is permanent.
    modern_minimum: Option<LoggingLevel>,
}

impl UpstreamLogLevel {
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn new(peer: &client::Peer) -> Self {
        let any = peer.has(Capability::Logging);
        Self { is_supported: any, is_modern: peer.era() == Era::Modern, last_set: None, modern_minimum: None }
    }

    /// Sets the level that the client of a call wants, before the call is sent.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn prepare_call(&mut self, engines: &mut Engines<'_>, call: &Call, sessions: &[ChannelId]) {
        if !self.is_supported {
            return;
        }
        let wanted = match call.version().era() {
            Era::Modern => {
                let level = call.meta().and_then(|meta| meta.member("io.modelcontextprotocol/logLevel"));
                level.and_then(|level| level.parse::<LoggingLevel>().ok())
            }
            // A session that has not set a level receives all messages.
            Era::Legacy => Some(engines.downstream.log_level(call.channel()).unwrap_or(LoggingLevel::Debug)),
        };
        if self.is_modern {
            self.set_level(engines, wanted);
        } else if call.version().era() == Era::Modern {
            self.modern_minimum = least_severe(self.modern_minimum.take(), wanted);
            self.update_level(engines, sessions);
        }
    }

    /// Sends a legacy server the least severe level that any client wants.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn update_level(&mut self, engines: &mut Engines<'_>, sessions: &[ChannelId]) {
        if !self.is_supported || self.is_modern {
            return;
        }
        let levels: Vec<_> = sessions.iter().map(|session| engines.downstream.log_level(*session)).collect();
        if levels.iter().all(Option::is_none) && self.modern_minimum.is_none() {
            return;
        }
        let levels = levels.into_iter().map(|level| Some(level.unwrap_or(LoggingLevel::Debug)));
        let wanted = levels.fold(self.modern_minimum.clone(), least_severe);
        self.set_level(engines, wanted);
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn set_level(&mut self, engines: &mut Engines<'_>, level: Option<LoggingLevel>) {
        if self.last_set.as_ref() == Some(&level) {
            return;
        }
        // Without room in the queue it is sent the next time.
        if engines.upstream.set_log_level(engines.upstream_now, level.clone()).is_ok() {
            self.last_set = Some(level);
        }
    }
}

/// Returns the less severe of two levels.
fn least_severe(a: Option<LoggingLevel>, b: Option<LoggingLevel>) -> Option<LoggingLevel> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl Relay {
    /// Returns the name under which a client sees a logger: behind a gateway with that of the server.
    fn logger<'a>(&'a self, logger: Option<&'a str>) -> Option<Cow<'a, str>> {
        match (&self.name, logger) {
            (Some(name), Some(logger)) => Some(format!("{name}/{logger}").into()),
            (name, logger) => logger.or(name.as_deref()).map(Cow::Borrowed),
        }
    }

    /// Forwards a log message of the server.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn forward_log(&self, engines: &mut Engines<'_>, log: &LogMessage) {
        let logger = self.logger(log.logger.as_deref());
        let logger = logger.as_deref();
        let mut pass = |call: &Call| {
            // Fails if the call has ended.
            let sent = engines.downstream.log(engines.now, call.id(), &log.level, logger, &log.data);
            sent.is_ok_and(|sent| sent != SendStatus::Dropped)
        };
        if let Some(call) = log.call {
            // Dropped if the client does not want it, or while the client is being asked.
            if let Some(call) = self.calls.by_upstream(call).and_then(RelayedCall::delivered_call) {
                pass(call);
            }
            return;
        }
        if self.keeps_back_unowned() {
            return;
        }
        // On a byte stream the choice of the call makes no difference. Over HTTP a message is sent with the only
        // running call, because the client may be gone once that is answered. With several clients, the owner is known
        // only if one call is running.
        let mut delivered = self.calls.iter().filter_map(|(_, relayed)| relayed.delivered_call());
        if !self.has_single_client() {
            // Also those whose clients are being asked: their servers go on.
            let mut running = self.calls.iter().filter(|(_, relayed)| relayed.may_run(self.clients));
            if let (Some((_, only)), None) = (running.next(), running.next()) {
                let is_owner = self.calls.is_only_owner(self.clients, only.channel(), engines.now);
                only.delivered_call().filter(|_| is_owner).map(pass);
                return;
            }
        }
        if let Some(session) = self.only_session(engines.now) {
            let _ = engines.downstream.log_session(engines.now, session, &log.level, logger, &log.data);
        } else if self.has_single_client() {
            delivered.any(&mut pass);
        }
    }
}
