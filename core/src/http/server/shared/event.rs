//! Events of a server that shares its sessions: requests to the store, and messages to other processes.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{ExchangeId, KeptCall, SealedIdentity, SessionId};

/// An event of a server that [shares its sessions](super::SharedSessions::begin), for the store or for other processes.
#[derive(Debug)]
#[non_exhaustive]
pub enum SharedSessionEvent {
    /// A request names a session that is not here, or may have changed elsewhere.
    ///
    /// The exchange waits for [`found`](super::SharedSessions::found), [`not_found`](super::SharedSessions::not_found) or
    /// [`unavailable`](super::SharedSessions::unavailable), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout).
    Load {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
    },
    /// A request has begun a session or changed it: [save](super::SharedSessions::save) it.
    ///
    /// The response waits for [`stored`](super::SharedSessions::stored) or [`not_stored`](super::SharedSessions::not_stored), at
    /// most for [`Config::store_timeout`](super::super::Config::store_timeout).
    Changed {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
    },
    /// A session has ended: remove it from the store, and from other processes.
    Ended {
        /// The session.
        id: SessionId,
        /// The exchange of the request to end it, whose response waits as that of [`Changed`](Self::Changed).
        exchange: Option<ExchangeId>,
    },
    /// A session has a GET stream here: the other processes give it the messages for the client that wait there
    /// ([`take_waiting`](super::SharedSessions::take_waiting)).
    StreamOpened {
        /// The session.
        id: SessionId,
        /// The id of the last event that its client has received, if it said so.
        after: Option<String>,
    },
    /// A client resumes the stream of a call at another process, which [opens](super::SharedSessions::open_relay) it for this
    /// one.
    ///
    /// The exchange waits for [`relay`](super::SharedSessions::relay) or [`call_is_lost`](super::SharedSessions::call_is_lost);
    /// the latter is taken for granted after 2 s.
    Resume {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
        /// The number of the process, modulo 1024.
        process: u32,
        /// The id of the last event that the client has received.
        after: String,
    },
    /// These sessions were used: their records must not expire within
    /// [`Config::session_idle_timeout`](super::super::Config::session_idle_timeout).
    Used {
        /// The sessions.
        ids: Vec<SessionId>,
    },
    /// A client has sent what nothing waits for here: the answer to a question, a cancellation, a notification.
    ///
    /// Pass it to the other processes ([`receive`](super::SharedSessions::receive)).
    Relay {
        /// The session.
        id: SessionId,
        /// The message, or a batch.
        message: Bytes,
    },
    /// A call came whose tool may run [again](super::SharedSessions::set_repeatable_tools): store its message, with this process
    /// as the owner.
    ///
    /// The request waits for [`call_kept`](super::SharedSessions::call_kept), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout), and runs without being kept then.
    KeepCall {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
        /// The name of the call in its session.
        call: KeptCall,
        /// The message.
        message: Bytes,
    },
    /// A call has an answer, or was refused, whose message was stored: remove it, if this process is still the owner.
    ///
    /// An application keeps the name of a call that another process has taken over, without its message, for as long as the first
    /// one may come late with an answer: until then the first one is [told](super::SharedSessions::answer_call) so. That is
    /// not needed for a call that no process has taken over.
    ///
    /// The answer waits for [`answer_call`](super::SharedSessions::answer_call), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout), and is sent then.
    CallAnswered {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
        /// The name of the call.
        call: KeptCall,
    },
    /// A client has cancelled a request that does not run here: do not let its call be taken over
    /// ([`FindCall`](Self::FindCall)) for a minute, if its process has ended. If not, that gets the cancellation by
    /// [`Relay`](Self::Relay), as well.
    CallCancelled {
        /// The session.
        id: SessionId,
        /// The id of the request, as ids of events have it.
        request: String,
    },
    /// A client resumes the stream of a call whose process does not answer, or does not know it: take its message over from that
    /// process. If another one has done so before, [ask](super::SharedSessions::ask_owner) that.
    ///
    /// The exchange waits for [`repeat_call`](super::SharedSessions::repeat_call) or
    /// [`ask_owner`](super::SharedSessions::ask_owner), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout) and 2 s more, and is refused with 503 then.
    FindCall {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
        /// The name of the call.
        call: KeptCall,
        /// Number of the process that did not answer, modulo 1024: the message may be taken over from it. It may be this
        /// process.
        asked: u32,
    },
    /// A request has begun a session whose id [carries](super::SharedSessions::begin_in_ids) its identity:
    /// [save](super::SharedSessions::save) and seal it.
    ///
    /// The response waits for [`send_id`](super::SharedSessions::send_id), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout).
    Begun {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// The session.
        id: SessionId,
    },
    /// A request names a session that is not here, by an id that carries its identity: open that.
    ///
    /// The exchange waits for [`take_up`](super::SharedSessions::take_up), at most for
    /// [`Config::store_timeout`](super::super::Config::store_timeout).
    TakeUp {
        /// The exchange of the request.
        exchange: ExchangeId,
        /// Sealed identity that follows the session id in the request.
        identity: SealedIdentity,
    },
}
