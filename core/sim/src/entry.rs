//! Entries of the log of a world.

use mcp_proto::Instant;

/// One participant, as a column of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lane {
    /// The network and the clock.
    World,
    /// The client with this number.
    Client(usize),
    /// Its server.
    Server(usize),
}

/// An entry of the log of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Time of the entry.
    pub at: Instant,
    /// Its participant.
    pub lane: Lane,
    /// The event.
    pub what: What,
}

/// An event in the life of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A process was started.
    Started,
    /// A server over HTTP was started again, with the sessions that the one before has written down.
    Restored,
    /// A process died; all that it had open is lost.
    Died,
    /// A client made a call.
    Called {
        /// Mark of the call.
        mark: String,
    },
    /// A call of a client ended.
    Ended {
        /// Mark of the call.
        mark: String,
        /// Its outcome.
        outcome: String,
        /// The reason why the result is of another call.
        mistake: Option<String>,
    },
    /// A server received a request.
    Received {
        /// Name of the request.
        request: String,
    },
    /// A server answered a request.
    Answered {
        /// Name of the request.
        request: String,
    },
    /// A request was cancelled.
    Cancelled {
        /// Name of the request.
        request: String,
    },
    /// A server asked its client about a request, or made a task of it: the request is received again, under another name.
    Postponed {
        /// Name of the request.
        request: String,
    },
    /// A request came back with the answer to the question about it.
    Replied {
        /// Name of the request.
        request: String,
        /// The reason why the answer is to another question.
        mistake: Option<String>,
    },
    /// A server reported progress, and its engine has taken it.
    Reported {
        /// Name of the request.
        request: String,
        /// The progress, which is a whole number.
        value: u32,
    },
    /// A client knows the revision of its server, and sends the calls that have waited for it.
    Ready {
        /// Name of the revision.
        version: &'static str,
    },
    /// A client received progress.
    Progressed {
        /// Mark of the call.
        mark: String,
    },
    /// A line that is not of this side was written on its link.
    Injected {
        /// The line.
        line: String,
    },
    /// A side wrote a message.
    Sent {
        /// The line.
        line: String,
    },
    /// A client over HTTP sent a request. Its body is the message that precedes.
    Requested {
        /// Number of the exchange.
        exchange: usize,
        /// Its method, and the fields that concern sessions.
        head: String,
        /// The event after which it resumes a stream.
        resumes: Option<String>,
    },
    /// A server responded to the request of an exchange.
    Responded {
        /// Number of the exchange.
        exchange: usize,
        /// The status.
        status: u16,
    },
    /// A server wrote an event with an id on an event stream. Its message was sent before if this is a repetition.
    Streamed {
        /// Number of the exchange.
        exchange: usize,
        /// The id, with that of the session.
        id: String,
        /// The message; empty if there is none.
        line: String,
    },
    /// A server named the URL for messages on an event stream of HTTP+SSE, which brings all of its messages from here on.
    Endpoint {
        /// Number of the exchange.
        exchange: usize,
        /// The path, with the session.
        target: String,
    },
    /// A server has written all of a response.
    Finished {
        /// Number of the exchange.
        exchange: usize,
    },
    /// One end of the connection of an exchange could not read what the other one has written.
    Unreadable {
        /// Number of the exchange.
        exchange: usize,
        /// The fault.
        fault: String,
    },
    /// An exchange broke, or was aborted: what the server writes for its requests may not arrive.
    Lost {
        /// Number of the exchange.
        exchange: usize,
        /// The ids of its requests.
        requests: Vec<String>,
    },
    /// A stranger received an answer.
    Overheard {
        /// The status and the body.
        text: String,
        /// Number of the client whose session or task the stranger has presented, if the server let him use it.
        granted: Option<usize>,
    },
    /// A server published an event.
    Published {
        /// Id of the event.
        event: String,
        /// Those whom it is for.
        audience: String,
    },
    /// A client began to follow events.
    Followed {
        /// Name of the follower.
        follower: String,
        /// The audience that it belongs to.
        audience: String,
        /// Whether events come in their order: by polls or a stream.
        is_ordered: bool,
    },
    /// The position of a follower is known: it gets each event from here on, or is told that some are missing.
    Positioned {
        /// Name of the follower.
        follower: String,
    },
    /// A follower handed out an event.
    HandedOut {
        /// Name of the follower.
        follower: String,
        /// Id of the event.
        event: String,
    },
    /// A follower was told that events may be missing.
    Gap {
        /// Name of the follower.
        follower: String,
        /// The reason.
        reason: String,
    },
    /// A client does not follow events any more.
    Unfollowed {
        /// Name of the follower.
        follower: String,
        /// The error that has ended it; none if the client has.
        error: Option<String>,
    },
    /// A server sent a delivery to the receiver of webhooks.
    Posted {
        /// Target of the request, which names the client.
        target: String,
        /// The fields that concern webhooks, one a line.
        head: String,
        /// The body.
        body: String,
        /// Whether it is the last attempt.
        is_last: bool,
    },
    /// A stranger sent a delivery to the receiver of webhooks.
    Forged {
        /// The kind of forgery, and the status of the answer.
        text: String,
        /// Whether the receiver took it although no server has signed it, or not lately.
        is_taken: bool,
    },
    /// Followers have got what they were promised, or their time for it is over.
    CaughtUp,
    /// A side reported another event.
    Event {
        /// The event.
        text: String,
    },
    /// A side reported the end of its connection.
    Closed {
        /// The reason.
        fault: String,
    },
    /// A fault.
    Fault {
        /// The fault.
        text: String,
    },
    /// For a while there were no faults: what was held back is sent.
    Flushed,
    /// Every call has ended, and the clients hang up.
    Settled,
    /// All has ended, and only time passes from here on.
    Rest,
    /// A server over HTTP, all of whose clients have left. Over HTTP+SSE it is seen once more as soon as they have.
    Idle {
        /// Number of its exchanges.
        exchanges: usize,
        /// Number of its sessions.
        sessions: usize,
    },
    /// The most bytes that the servers held for their clients, as it was noted with each entry and each turn.
    Held {
        /// Their number.
        most: usize,
        /// The most that their limits allow.
        bound: usize,
    },
    /// All processes have ended.
    Released {
        /// Bytes that the servers still hold for their clients.
        memory: usize,
    },
}
