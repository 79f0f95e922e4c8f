//! Sessions without a store: their ids carry the identity of the client, sealed.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::Instant;
use mcp_proto::http::server::{SealedIdentity, Server, SharedSessionEvent};
use mcp_std::entropy;

use super::seal::{Purpose, Sealer};
use crate::server::server_loop::ChangeSet;
use crate::server::session_sharing::{Driven, ShareSessions};

/// Seals and opens the identities in ids.
#[derive(Clone)]
pub(super) struct SessionsInIds {
    sealer: Arc<Sealer>,
    lifetime: Duration,
}

impl SessionsInIds {
    pub(super) fn new(sealer: Sealer, lifetime: Duration) -> Self {
        Self { sealer: Arc::new(sealer), lifetime }
    }

    /// Lets the ids of a server, which has had no request, carry the identity of their sessions.
    pub(super) fn start(&self, server: &mut Server) -> io::Result<Box<dyn ShareSessions>> {
        let [a, b, c, d, ..] = entropy::seed()?;
        let begun = server.shared_sessions().begin_in_ids(u32::from_ne_bytes([a, b, c, d]));
        begun.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Box::new(self.clone()))
    }

    /// Seals an identity, which expires; `None` if it is too long for an id, or there is no entropy.
    fn seal(&self, now: SystemTime, identity: &[u8]) -> Option<SealedIdentity> {
        let expires = seconds(now).saturating_add(self.lifetime.as_secs()).to_be_bytes();
        let sealed = self.sealer.seal(Purpose::Identity, &[&expires, identity].concat()).ok()?;
        SealedIdentity::new(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens an identity, and returns for how long it is good; `None` if it was not sealed with these keys, was altered, or has
    /// expired.
    fn open(&self, now: SystemTime, sealed: &SealedIdentity) -> Option<(Vec<u8>, Duration)> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed.reveal()).ok()?;
        let opened = self.sealer.open(Purpose::Identity, &sealed).ok()?;
        let (expires, identity) = opened.split_first_chunk()?;
        let left = u64::from_be_bytes(*expires).checked_sub(seconds(now)).filter(|left| *left > 0)?;
        Some((identity.to_vec(), Duration::from_secs(left)))
    }
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Shows no keys.
impl fmt::Debug for SessionsInIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsInIds").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl ShareSessions for SessionsInIds {
    fn register(&self, _: &Waker) {}

    fn handle_event(&mut self, now: Instant, server: &mut Server, event: SharedSessionEvent) {
        let mut sessions = server.shared_sessions();
        match event {
            SharedSessionEvent::Begun { exchange, id } => {
                let identity =
                    sessions.save(&id).and_then(|record| self.seal(SystemTime::now(), &record.bytes));
                let expires = now + self.lifetime;
                sessions.send_id(now, exchange, identity.as_ref().map(|identity| (identity, expires)));
            }
            SharedSessionEvent::TakeUp { exchange, identity } => {
                let identity = self.open(SystemTime::now(), &identity);
                // One that cannot be taken up is answered with 404.
                let identity = identity.as_ref().map(|(identity, left)| (&**identity, now + *left));
                let _ = sessions.take_up(now, exchange, identity);
            }
            _ => {}
        }
    }

    // No other process can be told.
    fn publish(&mut self, _: &ChangeSet) {}

    fn drive(&mut self, _: Instant, _: &mut Server) -> Driven {
        Driven::default()
    }

    fn for_shard(&self, server: &mut Server) -> io::Result<Box<dyn ShareSessions>> {
        self.start(server)
    }

    fn finish(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::super::SessionKeys;
    use super::*;
    use alloc::string::String;

    fn with(keys: &SessionKeys) -> SessionsInIds {
        SessionsInIds::new(Sealer::new(keys), Duration::from_secs(60))
    }

    // covers: SEC-019
    #[test]
    fn identity_opens_until_it_expires_with_a_known_key_and_as_it_was_sealed() {
        let [old, new] = [[3; 32], [4; 32]];
        let before = with(&SessionKeys::new(old));
        let during = with(&SessionKeys::new(new).with_older(old));
        let after = with(&SessionKeys::new(new));
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |seconds| now + Duration::from_secs(seconds);
        let sealed = before.seal(now, b"an identity").expect("it is short");
        for keys in [&before, &during] {
            let opened = Some((b"an identity".to_vec(), Duration::from_secs(60)));
            assert_eq!(keys.open(now, &sealed), opened);
            assert!(keys.open(at(59), &sealed).is_some() && keys.open(at(60), &sealed).is_none());
        }
        assert!(after.open(now, &sealed).is_none());
        let text = sealed.reveal();
        for end in 1..text.len() {
            let mut altered = text.as_bytes().to_vec();
            altered[end] = if altered[end] == b'A' { b'B' } else { b'A' };
            let altered = SealedIdentity::new(String::from_utf8(altered).expect("ASCII"));
            let cut = SealedIdentity::new(text[..end].into());
            assert!([altered, cut].iter().flatten().all(|other| before.open(now, other).is_none()), "{end}");
        }
        // A record of a store is sealed for another purpose.
        let record = before.sealer.seal(Purpose::Message, &[0xff; 20]).expect("sealed");
        let record = SealedIdentity::new(URL_SAFE_NO_PAD.encode(record)).expect("short");
        assert!(before.open(now, &record).is_none());
        assert!(before.seal(now, &[7; 693]).is_some() && before.seal(now, &[7; 694]).is_none());
    }
}
