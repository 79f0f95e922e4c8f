//! HTTP+SSE of 2024-11-05: one stream for everything that the server says, and a path to post to (HTTPSSE).

use alloc::format;

use bytes::Bytes;

use super::Server;
use super::exchange::{Form, Phase};
use super::head::{overloaded, unknown_session};
use super::post::{malformed, no_batches, repeated_id};
use super::pump::stream_fields;
use crate::frame::sse::{EventHead, write_event};
use crate::head::{BodySize, Fields};
use crate::http::fields;
use crate::rpc::envelope::Kind;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::version::Version;

impl Server {
    /// The stream begins with the path for messages (HTTPSSE-002)
    pub(super) fn open_old(&mut self, key: Key) {
        let Some((_, messages)) = self.config.old_paths.clone() else { return };
        let principal = self.exchanges.get(key).and_then(|x| x.principal.clone());
        if !self.room_for_session(principal.as_deref()) {
            return self.refuse(key, &overloaded("too many sessions"));
        }
        let channel = self.engine.open_channel(self.now);
        self.engine.set_principal(channel, principal.as_deref());
        self.engine.own_stream(channel.0, Some(key));
        let session = self.begin_session(channel.0, principal);
        let id = self.sessions.id(session);
        if let Some(record) = self.sessions.get_mut(session) {
            (record.get, record.old) = (Some(key), true);
        }
        if let Some(x) = self.exchanges.get_mut(key) {
            x.session = Some(session);
            x.stream = Some(channel.0);
            (x.form, x.phase) = (Form::Events, Phase::Open);
            let target = format!("{messages}?{}={id}", fields::OLD_SESSION);
            let head = EventHead { kind: Some("endpoint"), ..EventHead::default() };
            // A path with a line end in it is one that no request can name.
            x.out.write(|out| _ = write_event(out, &head, target.as_bytes()));
            x.respond(200, stream_fields(), BodySize::Stream);
        }
        self.mark(key);
    }

    /// A message for such a session: taken, and answered on its stream (HTTPSSE-003, HTTPSSE-007, HTTPSSE-009)
    pub(super) fn old_post(&mut self, key: Key, frame: Bytes) {
        let Some(x) = self.exchanges.get(key) else { return };
        let session = x.session;
        let record = session.and_then(|s| self.sessions.get(s)).filter(|s| s.principal == x.principal);
        let Some(channel) = record.filter(|s| s.old && s.get.is_some()).map(|s| ChannelId(s.channel)) else {
            return self.refuse(key, &unknown_session());
        };
        // What frees a place, or answers a question, is taken even if there is none.
        let envelope = self.engine.parse(&frame);
        let asks = envelope.as_ref().is_ok_and(|envelope| envelope.kind == Kind::Request);
        if (asks && self.is_overloaded()) || self.engine.is_stalled(channel) {
            return self.refuse(key, &overloaded("too many requests are in work"));
        }
        // What the stream has no answer for, since nobody could tell whose it is, is refused here or nowhere.
        let is_batch = frame.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
        let batches = session.is_some_and(|s| self.version_of(s) == Some(Version::V2025_03_26));
        let refusal = match &envelope {
            _ if is_batch => (!batches).then(no_batches),
            Err(rejected) if rejected.id.is_none() => Some(malformed(rejected.why)),
            Ok(envelope) if asks => {
                let id = envelope.id.as_ref();
                id.is_some_and(|id| self.engine.in_flight(channel.0, id)).then(repeated_id)
            }
            _ => None,
        };
        if let Some(x) = self.exchanges.get_mut(key) {
            // Its end is not the session's.
            x.session = None;
        }
        // A line break inside it would end it early on a byte stream; here it is whitespace like any other.
        self.engine.handle_message(self.now, channel, frame);
        match refusal {
            Some(refusal) => self.refuse(key, &refusal),
            None => self.answer_empty(key, 202, Fields::new()),
        }
    }
}
