//! What a client keeps of what its server has said: results that may be given again, schemas that results have to fit

use alloc::string::String;
use core::time::Duration;

use crate::SharedCache;
use mcp_proto::Change;
use mcp_proto::RawJson;
use mcp_proto::client::{Asker, Config, Kind, Misfit, OutputSchemas, Peer, Question, Ticket};

/// Where results are kept, and by what they are known there
#[derive(Clone, Debug, Default)]
pub struct Caching {
    /// Where
    pub cache: SharedCache,
    /// By what name the server is known there
    pub server: String,
    /// On whose behalf the client acts
    pub principal: String,
    /// How long lists of legacy servers are kept; not at all without
    pub legacy: Option<Duration>,
}

/// What a client remembers
#[derive(Debug, Default)]
pub struct Memory {
    cache: Option<(SharedCache, Asker)>,
    /// What results of tools are held against
    pub schemas: Option<OutputSchemas>,
}

impl Memory {
    /// The server has introduced itself: from now on results of its can be kept
    pub fn open(&mut self, caching: Option<Caching>, config: &Config, peer: &Peer) {
        self.cache = caching.map(|caching| {
            let Caching { cache, server, principal, legacy } = caching;
            let asker = Asker::new(config, peer, &server, &principal);
            (cache, legacy.into_iter().fold(asker, Asker::keep_legacy))
        });
    }

    /// What is kept for a question; otherwise leave to keep what comes
    pub fn look(&self, question: Question) -> Result<RawJson, Option<Ticket>> {
        let Some((cache, asker)) = &self.cache else { return Err(None) };
        cache.get(asker, &question).ok_or_else(|| Some(cache.ticket(asker, question)))
    }

    /// Keeps a result, if there is leave to
    pub fn keep(&self, ticket: Option<Ticket>, result: &RawJson) {
        if let (Some((cache, _)), Some(ticket)) = (&self.cache, ticket) {
            cache.put(ticket, result);
        }
    }

    /// Something has changed at the server
    pub fn notice(&mut self, change: &Change) {
        if let Some((cache, asker)) = &self.cache {
            cache.notice(asker, change);
        }
        if let Some(schemas) = &mut self.schemas {
            schemas.notice(change);
        }
    }

    /// Forgets one list
    pub fn forget_list(&self, kind: Kind) {
        if let Some((cache, asker)) = &self.cache {
            cache.forget_list(asker, kind);
        }
    }

    /// Forgets everything of this server
    pub fn forget(&self) {
        if let Some((cache, asker)) = &self.cache {
            cache.forget(asker);
        }
    }

    /// Takes note of the whole of a list
    pub fn learn(&mut self, kind: Kind, entries: &[RawJson]) {
        if let (Some(schemas), Kind::Tool) = (&mut self.schemas, kind) {
            schemas.learn(entries);
        }
    }

    /// Holds the structured result of a tool against its schema, as far as that is known
    pub fn check(&mut self, tool: &str, result: &RawJson) -> Result<(), Misfit> {
        self.schemas.as_mut().map_or(Ok(()), |schemas| schemas.check(tool, result))
    }
}
