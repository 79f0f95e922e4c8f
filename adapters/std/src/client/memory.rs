//! What a client keeps of what its server has said: results that may be given again, schemas that results have to fit

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// What a client remembers; clones share it
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    cache: Option<(SharedCache, Asker)>,
    /// What results of tools are held against
    schemas: Option<OutputSchemas>,
}

impl Memory {
    /// Held for a look, never while something is waited for
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has introduced itself: from now on results of its can be kept
    pub fn open(&self, caching: Option<Caching>, config: &Config, peer: &Peer) {
        self.lock().cache = caching.map(|caching| {
            let Caching { cache, server, principal, legacy } = caching;
            let asker = Asker::new(config, peer, &server, &principal);
            (cache, legacy.into_iter().fold(asker, Asker::keep_legacy))
        });
    }

    /// Says what results of tools are held against from now on
    pub fn set_schemas(&self, schemas: Option<OutputSchemas>) {
        self.lock().schemas = schemas;
    }

    /// What is kept for a question; otherwise leave to keep what comes
    pub fn look(&self, question: Question) -> Result<RawJson, Option<Ticket>> {
        let state = self.lock();
        let Some((cache, asker)) = &state.cache else { return Err(None) };
        cache.get(asker, &question).ok_or_else(|| Some(cache.ticket(asker, question)))
    }

    /// Keeps a result, if there is leave to
    pub fn keep(&self, ticket: Option<Ticket>, result: &RawJson) {
        let Some(ticket) = ticket else { return };
        if let Some((cache, _)) = &self.lock().cache {
            cache.put(ticket, result);
        }
    }

    /// Something has changed at the server
    pub fn notice(&self, change: &Change) {
        let mut state = self.lock();
        if let Some((cache, asker)) = &state.cache {
            cache.notice(asker, change);
        }
        if let Some(schemas) = &mut state.schemas {
            schemas.notice(change);
        }
    }

    /// Forgets one list
    pub fn forget_list(&self, kind: Kind) {
        if let Some((cache, asker)) = &self.lock().cache {
            cache.forget_list(asker, kind);
        }
    }

    /// Forgets everything of this server
    pub fn forget(&self) {
        if let Some((cache, asker)) = &self.lock().cache {
            cache.forget(asker);
        }
    }

    /// Takes note of the whole of a list
    pub fn learn(&self, kind: Kind, entries: &[RawJson]) {
        if let (Some(schemas), Kind::Tool) = (&mut self.lock().schemas, kind) {
            schemas.learn(entries);
        }
    }

    /// Holds the structured result of a tool against its schema, as far as that is known
    pub fn check(&self, tool: &str, result: &RawJson) -> Result<(), Misfit> {
        self.lock().schemas.as_mut().map_or(Ok(()), |schemas| schemas.check(tool, result))
    }
}
