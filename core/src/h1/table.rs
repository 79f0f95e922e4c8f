//! Transitions of a connection as one table: role × state × trigger → next state, or a refusal.
//!
//! A connection has two sides, one for the peer's message and one for its own. A transition needs the consent of both.
//! `docs/h1-states.md` shows the table.

use RecvState as R;
use Refusal::OutOfOrder;
use SendState as S;
use Trigger::{
    Abort, Blank, Close, Continue, EndEarly, Eof, Fail, Input, Overrun, RecvEnd, RecvExpecting, RecvHead,
    Reject, Reuse, SendData, SendEnd, SendHead, SendUntilClose, Sent, Timeout, WriteFailed,
};

use super::error::{Reason, WriteError};

/// State of the peer's message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum RecvState {
    /// No message is expected (client), or no byte of the next one has arrived (server).
    Idle,
    /// A response is awaited, but no byte of the request was written, so that no input can answer it.
    Unsent,
    /// A response is awaited.
    Due,
    /// A part of the head has arrived.
    Head,
    Body,
    /// The rest of a request that was already answered is dropped.
    Discard,
    Done,
    /// Input arrived without a request; the next poll reports it.
    Unsolicited,
    /// Input arrived although the buffer was full; the next poll reports it.
    Overrun,
    /// The connection has ended, but input is read and dropped for a while.
    Lingering,
    Closed,
}

/// State of our own message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum SendState {
    Idle,
    /// A response is due, and the client waits for `100 Continue`.
    Expected,
    /// A response is due.
    Due,
    Body,
    /// In a body that the end of the connection delimits.
    UntilClose,
    Done,
    /// Closed within a body that the end of the connection delimits.
    Reset,
    Closed,
}

/// The cause of a transition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Trigger {
    Input,
    /// Input arrived although the buffer is full.
    Overrun,
    /// An empty line was skipped, and the buffer is empty.
    Blank,
    /// More input is needed, and it has ended.
    Eof,
    /// More input is needed, and the time for it has passed.
    Timeout,
    RecvHead,
    /// As `RecvHead`, of a request that expects `100 Continue`.
    RecvExpecting,
    RecvEnd,
    /// Bytes were written to the peer.
    Sent,
    /// `100 Continue` is sent.
    Continue,
    SendHead,
    /// As `SendHead`, of a response that the end of the connection delimits.
    SendUntilClose,
    SendData,
    SendEnd,
    /// Nothing more can be written to the peer.
    WriteFailed,
    /// The connection itself responds to a faulty request.
    Reject,
    /// A faulty request ends the connection without a response.
    Fail,
    Abort,
    /// The exchange is complete, and another one may follow.
    Reuse,
    /// No other exchange may follow.
    Close,
    /// The response is complete before its request, and no other exchange may follow.
    EndEarly,
}

/// The reason why there is no transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The trigger is impossible in this state.
    OutOfOrder,
    /// The connection has ended.
    Over,
    /// The peer's message has a fault.
    Fault(Reason),
}

impl From<Refusal> for WriteError {
    fn from(refusal: Refusal) -> Self {
        if refusal == Refusal::Over { Self::Closed } else { Self::OutOfOrder }
    }
}

/// States of both sides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct State {
    pub(super) recv: RecvState,
    pub(super) send: SendState,
}

impl State {
    pub(super) const IDLE: Self = Self { recv: R::Idle, send: S::Idle };

    /// Returns whether no exchange follows.
    pub(super) const fn is_over(self) -> bool {
        matches!(self.recv, R::Lingering | R::Closed)
    }

    /// Returns the states after `trigger`.
    #[inline]
    pub(super) fn next(self, table: &Table, trigger: Trigger) -> Result<Self, Refusal> {
        let recv = table.recv.get(self.recv as usize).and_then(|row| row.get(trigger as usize));
        let send = table.send.get(self.send as usize).and_then(|row| row.get(trigger as usize));
        let (Some(recv), Some(send)) = (recv, send) else { return Err(OutOfOrder) };
        // The peer's side answers first: its refusal can be a fault, and the other one would hide that.
        Ok(Self { recv: (*recv)?, send: (*send)? })
    }
}

/// The transitions of one role: a row for each state of a side, a column for each trigger.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) recv: [Row<RecvState>; RECV_STATES],
    pub(super) send: [Row<SendState>; SEND_STATES],
}

type Row<S> = [Result<S, Refusal>; TRIGGERS];
/// A state, the refusal of all triggers that are not listed, and the others.
pub(super) type Rule<S> = (S, Refusal, &'static [(Trigger, Result<S, Refusal>)]);

pub(super) const TRIGGERS: usize = EndEarly as usize + 1;
const RECV_STATES: usize = R::Closed as usize + 1;
const SEND_STATES: usize = S::Closed as usize + 1;
const OVER: Refusal = Refusal::Over;
const TRUNCATED: Refusal = Refusal::Fault(Reason::Truncated);
const HEAD_TIMEOUT: Refusal = Refusal::Fault(Reason::HeadTimeout);
const BODY_TIMEOUT: Refusal = Refusal::Fault(Reason::BodyTimeout);

pub(super) static SERVER: Table = Table {
    recv: fill(&SERVER_RECEIVES, SERVER_RECV_IGNORES),
    send: fill(&SERVER_SENDS, SERVER_SEND_IGNORES),
};
pub(super) static CLIENT: Table = Table {
    recv: fill(&CLIENT_RECEIVES, CLIENT_RECV_IGNORES),
    send: fill(&CLIENT_SENDS, CLIENT_SEND_IGNORES),
};

// Triggers that leave a side as it is, whatever its state.
pub(super) const SERVER_RECV_IGNORES: &[Trigger] = &[Continue, SendHead, SendUntilClose, SendData];
pub(super) const SERVER_SEND_IGNORES: &[Trigger] = &[Input, Overrun, Blank];
pub(super) const CLIENT_RECV_IGNORES: &[Trigger] = &[SendData, SendEnd, WriteFailed];
pub(super) const CLIENT_SEND_IGNORES: &[Trigger] = &[Input, Overrun, RecvHead, RecvEnd, Sent];

// The rules are in the order of the states.
#[rustfmt::skip]
pub(super) const SERVER_RECEIVES: [Rule<RecvState>; RECV_STATES] = [
    (R::Idle, OutOfOrder, &[(Input, Ok(R::Head)), (Overrun, Ok(R::Overrun)), (Eof, Ok(R::Closed)),
        (Timeout, Ok(R::Closed)), (Close, Ok(R::Closed))]),
    (R::Unsent, OutOfOrder, &[]),
    (R::Due, OutOfOrder, &[]),
    (R::Head, OutOfOrder, &[(Input, Ok(R::Head)), (Overrun, Ok(R::Overrun)), (Blank, Ok(R::Idle)),
        (RecvHead, Ok(R::Body)), (RecvExpecting, Ok(R::Body)), (Eof, Err(TRUNCATED)), (Timeout, Err(HEAD_TIMEOUT)),
        (Reject, Ok(R::Lingering)), (Close, Ok(R::Lingering))]),
    (R::Body, OutOfOrder, &[(Input, Ok(R::Body)), (Overrun, Ok(R::Overrun)), (RecvEnd, Ok(R::Done)),
        (SendEnd, Ok(R::Discard)), (Eof, Err(TRUNCATED)), (Timeout, Err(BODY_TIMEOUT)),
        (Reject, Ok(R::Lingering)), (Fail, Ok(R::Closed)), (Abort, Ok(R::Closed))]),
    // `Reject` is missing: the response to this request was already sent.
    (R::Discard, OutOfOrder, &[(Input, Ok(R::Discard)), (Overrun, Ok(R::Overrun)), (RecvEnd, Ok(R::Done)),
        (Eof, Err(TRUNCATED)), (Timeout, Err(BODY_TIMEOUT)), (Fail, Ok(R::Closed)), (EndEarly, Ok(R::Lingering))]),
    (R::Done, OutOfOrder, &[(Input, Ok(R::Done)), (Overrun, Ok(R::Overrun)), (SendEnd, Ok(R::Done)),
        (Reuse, Ok(R::Idle)), (Eof, Ok(R::Closed)), (Abort, Ok(R::Closed))]),
    (R::Unsolicited, OutOfOrder, &[]),
    (R::Overrun, OutOfOrder, &[(SendEnd, Ok(R::Overrun)), (Reject, Ok(R::Lingering)), (Fail, Ok(R::Closed)),
        (Abort, Ok(R::Closed)), (EndEarly, Ok(R::Lingering))]),
    (R::Lingering, OVER, &[(Input, Ok(R::Lingering))]),
    (R::Closed, OVER, &[]),
];
#[rustfmt::skip]
pub(super) const SERVER_SENDS: [Rule<SendState>; SEND_STATES] = [
    (S::Idle, OutOfOrder, &[(RecvHead, Ok(S::Due)), (RecvExpecting, Ok(S::Expected)), (Eof, Ok(S::Closed)),
        (Timeout, Ok(S::Closed)), (Reject, Ok(S::Closed)), (Close, Ok(S::Closed))]),
    (S::Expected, OutOfOrder, &[(Continue, Ok(S::Due)), (SendHead, Ok(S::Body)), (Reject, Ok(S::Closed)),
        (Abort, Ok(S::Closed))]),
    (S::Due, OutOfOrder, &[(RecvEnd, Ok(S::Due)), (SendHead, Ok(S::Body)), (SendUntilClose, Ok(S::UntilClose)), (Eof, Ok(S::Closed)),
        (Reject, Ok(S::Closed)), (Abort, Ok(S::Closed))]),
    (S::Body, OutOfOrder, &[(RecvEnd, Ok(S::Body)), (SendData, Ok(S::Body)), (SendEnd, Ok(S::Done)), (Eof, Ok(S::Closed)),
        (Fail, Ok(S::Closed)), (Abort, Ok(S::Closed))]),
    // A cut response of this kind looks complete to its client. Only a reset shows that it is not.
    (S::UntilClose, OutOfOrder, &[(RecvEnd, Ok(S::UntilClose)), (SendData, Ok(S::UntilClose)), (SendEnd, Ok(S::Done)), (Eof, Ok(S::Reset)),
        (Fail, Ok(S::Reset)), (Abort, Ok(S::Reset))]),
    (S::Done, OutOfOrder, &[(RecvEnd, Ok(S::Done)), (Reuse, Ok(S::Idle)), (Fail, Ok(S::Closed)), (EndEarly, Ok(S::Closed))]),
    (S::Reset, OVER, &[]),
    (S::Closed, OVER, &[]),
];
#[rustfmt::skip]
pub(super) const CLIENT_RECEIVES: [Rule<RecvState>; RECV_STATES] = [
    (R::Idle, OutOfOrder, &[(Input, Ok(R::Unsolicited)), (Overrun, Ok(R::Overrun)), (SendHead, Ok(R::Unsent)),
        (Eof, Ok(R::Closed)), (Timeout, Ok(R::Closed)), (Abort, Ok(R::Closed)), (Close, Ok(R::Closed))]),
    (R::Unsent, OutOfOrder, &[(Input, Ok(R::Unsolicited)), (Overrun, Ok(R::Overrun)), (Sent, Ok(R::Due)),
        (Eof, Ok(R::Closed)), (Abort, Ok(R::Closed))]),
    (R::Due, OutOfOrder, &[(Input, Ok(R::Head)), (Overrun, Ok(R::Overrun)), (Eof, Ok(R::Closed)),
        (Abort, Ok(R::Closed))]),
    (R::Head, OutOfOrder, &[(Input, Ok(R::Head)), (Overrun, Ok(R::Overrun)), (RecvHead, Ok(R::Body)),
        (Eof, Err(TRUNCATED)), (Timeout, Err(HEAD_TIMEOUT)), (Abort, Ok(R::Closed))]),
    (R::Body, OutOfOrder, &[(Input, Ok(R::Body)), (Overrun, Ok(R::Overrun)), (RecvEnd, Ok(R::Done)),
        (Eof, Err(TRUNCATED)), (Timeout, Err(BODY_TIMEOUT)), (Abort, Ok(R::Closed))]),
    (R::Discard, OutOfOrder, &[]),
    (R::Done, OutOfOrder, &[(Reuse, Ok(R::Idle)), (EndEarly, Ok(R::Closed))]),
    (R::Unsolicited, OVER, &[(Abort, Ok(R::Closed)), (Close, Ok(R::Closed))]),
    (R::Overrun, OVER, &[(Abort, Ok(R::Closed))]),
    (R::Lingering, OVER, &[]),
    (R::Closed, OVER, &[]),
];
#[rustfmt::skip]
pub(super) const CLIENT_SENDS: [Rule<SendState>; SEND_STATES] = [
    (S::Idle, OutOfOrder, &[(SendHead, Ok(S::Body)), (Eof, Ok(S::Closed)), (Timeout, Ok(S::Closed)),
        (Abort, Ok(S::Closed)), (Close, Ok(S::Closed))]),
    (S::Expected, OutOfOrder, &[]),
    (S::Due, OutOfOrder, &[]),
    (S::Body, OutOfOrder, &[(SendData, Ok(S::Body)), (SendEnd, Ok(S::Done)), (WriteFailed, Ok(S::Done)),
        (Eof, Ok(S::Closed)), (Abort, Ok(S::Closed)), (EndEarly, Ok(S::Closed))]),
    (S::UntilClose, OutOfOrder, &[]),
    (S::Done, OutOfOrder, &[(Reuse, Ok(S::Idle)), (Eof, Ok(S::Closed)), (Abort, Ok(S::Closed))]),
    (S::Reset, OVER, &[]),
    (S::Closed, OVER, &[]),
];

/// Returns the rows of a side. A trigger that it ignores has a transition in every state, also after the end.
#[allow(clippy::indexing_slicing, reason = "only the compiler runs it")]
const fn fill<S: Copy, const N: usize>(rules: &[Rule<S>; N], ignored: &[Trigger]) -> [Row<S>; N] {
    let mut rows = [[Err(OutOfOrder); TRIGGERS]; N];
    let mut state = 0;
    while state < N {
        let (from, refusal, transitions) = rules[state];
        rows[state] = [Err(refusal); TRIGGERS];
        let mut at = 0;
        while at < transitions.len() {
            rows[state][transitions[at].0 as usize] = transitions[at].1;
            at += 1;
        }
        at = 0;
        while at < ignored.len() {
            rows[state][ignored[at] as usize] = Ok(from);
            at += 1;
        }
        state += 1;
    }
    rows
}
