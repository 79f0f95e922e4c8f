//! What a handler can do while it runs

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::time::Duration;

#[cfg(feature = "schemars")]
use mcp_proto::model::Elicited;
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, ElicitSchema, ElicitUrlParams,
    InputRequest, InputResponse, ListRootsResult, LoggingLevel,
};
#[cfg(feature = "schemars")]
use mcp_proto::router::schema::schemars::JsonSchema;
use mcp_proto::server::{Asking, Call, CancelReason, Engine, Event, NoAnswer, Peer, Prepared};
use mcp_proto::{CallId, Change, EncodeError, Instant, Progress, RawJson, RpcError, Sent, UseError};
use serde::Serialize;

use super::desk::Desk;
use super::handler::Failure;
use super::host::{Here, Host};
use super::remote::{Done, Remote, Verdict};
use crate::Panic;

/// One call, in the hands of its handler
///
/// Where handlers run on the loop's thread (mcp-blocking), nothing else moves until one returns, except inside of
/// [`progress`](Self::progress), [`checkpoint`](Self::checkpoint) and [`sleep`](Self::sleep): these read and write, let
/// time-outs pass, and notice a cancellation. A handler that takes long calls one of them now and then, and passes
/// their error on with `?`. Where it runs elsewhere these only look whether the call is cancelled, and the same code works:
///
/// ```
/// # use mcp_std::serve::{Answered, Cx};
/// # use mcp_proto::{Progress, RpcError, model::CallToolResult};
/// fn count(cx: &mut Cx<'_>, to: u32) -> Result<Answered, RpcError> {
///     for n in 1..=to {
///         // … some work …
///         cx.progress(Progress::new(n.into()).of(to.into()))?;
///     }
///     cx.complete(&CallToolResult::text("done"))
/// }
/// ```
///
/// What arrives while a handler runs on the loop's thread waits until it has returned, within
/// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits). Beyond that, reading pauses,
/// and a cancellation that is not read yet is not noticed.
#[derive(Debug)]
pub struct Cx<'a, L: Line + ?Sized = dyn Line + 'a> {
    line: &'a mut L,
    call: &'a Call,
    /// What was written off the loop
    done: Option<Done>,
    over: Option<Over>,
    failure: Option<Arc<Failure>>,
    asking: Asking,
    next_look: Instant,
}

/// Where a handler runs, as far as the loop is concerned
pub enum Place<'p> {
    /// On its thread, with what commands from elsewhere come by
    Here(&'p mut dyn Host, &'p mut Desk),
    /// Elsewhere
    Away(&'p Remote),
}

impl Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(..) => f.write_str("Here"),
            Self::Away(remote) => f.debug_tuple("Away").field(remote).finish(),
        }
    }
}

/// What knows its [`Place`]
pub trait Line: Debug {
    /// That place
    fn place(&mut self) -> Place<'_>;
}

impl Line for Here<'_> {
    fn place(&mut self) -> Place<'_> {
        Place::Here(self.0, self.1)
    }
}

impl Line for Remote {
    fn place(&mut self) -> Place<'_> {
        Place::Away(self)
    }
}

/// Proof that a call was answered; only [`Cx`] makes it
#[derive(Debug)]
#[must_use = "return it from the handler"]
pub struct Answered(CallId);

impl Answered {
    /// Whether it is `call` that was answered
    pub fn is_for(&self, call: &Call) -> bool {
        self.0 == call.id()
    }
}

/// Why nothing more can be said about a call
#[derive(Debug)]
enum Over {
    Answered,
    Cancelled(Option<CancelReason>),
}

impl<'a, L: Line + ?Sized> Cx<'a, L> {
    /// A call in the hands of its handler
    pub const fn new(line: &'a mut L, call: &'a Call) -> Self {
        Self {
            line,
            call,
            done: None,
            over: None,
            failure: None,
            asking: Asking::new(),
            next_look: Instant::ZERO,
        }
    }

    /// Answers the call with a result, which must serialise to a JSON object
    ///
    /// It leaves when the handler has returned.
    ///
    /// # Errors
    ///
    /// An internal error when `result` cannot be written (the handler gets the details in
    /// [`failed`](super::Handler::failed)), or when the call was answered before. Pass it on. A call that was cancelled
    /// takes any answer, and sends none.
    pub fn complete<T: Serialize + ?Sized>(&mut self, result: &T) -> Result<Answered, RpcError> {
        self.unasked()?;
        let call = self.call;
        let outcome = match self.line.place() {
            Place::Here(host, _) => {
                let now = host.now();
                host.engine().complete(now, call.id(), result)
            }
            Place::Away(_) => match Prepared::new(call.version(), result) {
                Ok(result) => self.keep_done(Done::Prepared(result)),
                Err(error) => Err(error.into()),
            },
        };
        self.answered(outcome)
    }

    /// Answers the call with a result that is JSON already: an object, sent without being copied when it is large
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn complete_raw(&mut self, result: &RawJson) -> Result<Answered, RpcError> {
        self.unasked()?;
        let outcome = match self.line.place() {
            Place::Here(host, _) => {
                let now = host.now();
                host.engine().complete_raw(now, self.call.id(), result)
            }
            Place::Away(_) if !result.is_object() => Err(EncodeError::NotAnObject.into()),
            Place::Away(_) => self.keep_done(Done::Raw(result.clone())),
        };
        self.answered(outcome)
    }

    /// Answers the call with a result that was written before, in the shape of its revision
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn complete_prepared(&mut self, result: &Prepared) -> Result<Answered, RpcError> {
        self.unasked()?;
        let outcome = match self.line.place() {
            Place::Here(host, _) => {
                let now = host.now();
                host.engine().complete_prepared(now, self.call.id(), result)
            }
            Place::Away(_) => self.keep_done(Done::Prepared(result.clone())),
        };
        self.answered(outcome)
    }

    /// Reports how far the call has come, and does what [`checkpoint`](Self::checkpoint) does
    ///
    /// Reports may be made as often as one likes: what the client did not ask for, and what comes too fast
    /// ([`Limits::progress_rate`](mcp_proto::Limits)), is not sent; the latest one is, as soon as the rate allows.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn progress(&mut self, progress: Progress) -> Result<(), RpcError> {
        match self.line.place() {
            Place::Here(host, _) => {
                let now = host.tick();
                if let Ok(Sent::Queued) = host.engine().progress(now, self.call.id(), progress) {
                    self.next_look = now;
                }
                self.look(now)
            }
            Place::Away(remote) => {
                remote.progress(progress);
                self.checkpoint()
            }
        }
    }

    /// Says whether to go on; never waits. On the loop's thread it reads, writes and lets time-outs pass, too
    ///
    /// Cheap enough for an inner loop: it looks at the stream once in a millisecond at most.
    ///
    /// # Errors
    ///
    /// When the call is over: the client cancelled it or is gone, it is too old, the server shuts down, or it was
    /// answered. Pass the error on with `?` to stop; it is not sent to anybody.
    pub fn checkpoint(&mut self) -> Result<(), RpcError> {
        match self.line.place() {
            Place::Here(host, _) => {
                let now = host.tick();
                self.look(now)
            }
            Place::Away(remote) => {
                if let Some(reason) = remote.cancel_reason() {
                    self.over = Some(Over::Cancelled(Some(reason)));
                }
                self.check()
            }
        }
    }

    /// Lets `duration` pass while everything else goes on; blocks the thread
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint), at once when it happens.
    pub fn sleep(&mut self, duration: Duration) -> Result<(), RpcError> {
        match self.line.place() {
            Place::Here(host, _) => {
                let until = host.tick() + duration;
                self.pump(until);
                self.check()
            }
            Place::Away(remote) => {
                remote.wait_cancelled(duration);
                self.checkpoint()
            }
        }
    }

    /// Asks the user for something by a form, and gives the answer when it is there
    ///
    /// Leave with `?` when it is not: the handler runs again with the answer, from its beginning. `key` tells the question
    /// from others of this call. Declining is an answer too ([`ElicitAction`](mcp_proto::model::ElicitAction)).
    ///
    /// ```
    /// # use mcp_std::serve::Cx;
    /// # use mcp_proto::server::NoAnswer;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{ElicitSchema, StringSchema};
    /// fn greet(cx: &mut Cx<'_>) -> Result<String, RpcError> {
    ///     let form = ElicitSchema::new([("name", StringSchema::new().into())]).required(["name".to_owned()]);
    ///     let answer = cx.elicit("name", "What is your name?", form)?;
    ///     Ok(format!("Hello, {:?}!", answer.content))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoAnswer`], which `?` turns into an error that is never sent when the question is only to be asked first. A
    /// client that cannot be asked is told so instead of an answer.
    pub fn elicit(
        &mut self,
        key: &str,
        message: impl Into<String>,
        form: ElicitSchema,
    ) -> Result<ElicitResult, NoAnswer> {
        self.asking.elicit(self.call, key, message, form)
    }

    /// Asks the user for a value of `T`, whose form is made from the type
    /// ([`ElicitSchema::of`](mcp_proto::model::ElicitSchema)); otherwise as [`elicit`](Self::elicit)
    ///
    /// ```
    /// # use mcp_std::serve::Cx;
    /// # use mcp_proto::server::NoAnswer;
    /// use mcp_proto::model::Elicited;
    /// # use mcp_proto::router::schema::schemars::{self, JsonSchema};
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Stay {
    ///     /// How many nights?
    ///     nights: u8,
    /// }
    /// fn book(cx: &mut Cx<'_>) -> Result<String, NoAnswer> {
    ///     Ok(match cx.elicit_as::<Stay>("stay", "For how long?")? {
    ///         Elicited::Accepted(stay) => format!("{} nights", stay.nights),
    ///         Elicited::Declined | Elicited::Cancelled => "not booked".to_owned(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit); and [`NoAnswer::NoForm`] when `T` is none that a form can hold.
    #[cfg(feature = "schemars")]
    pub fn elicit_as<T>(&mut self, key: &str, message: impl Into<String>) -> Result<Elicited<T>, NoAnswer>
    where
        T: JsonSchema + serde::de::DeserializeOwned,
    {
        self.asking.elicit_as(self.call, key, message)
    }

    /// Has the user visit a web page (since 2025-11-25); otherwise as [`elicit`](Self::elicit)
    ///
    /// Accepting means that the page will be opened, not that anything was done there: see
    /// [`Asking::elicit_url`].
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn elicit_url(&mut self, key: &str, page: ElicitUrlParams) -> Result<ElicitAction, NoAnswer> {
        self.asking.elicit_url(self.call, key, page)
    }

    /// Asks the client's model for something; otherwise as [`elicit`](Self::elicit)
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn sample(
        &mut self,
        key: &str,
        params: CreateMessageParams<'static>,
    ) -> Result<CreateMessageResult<'a>, NoAnswer> {
        self.asking.sample(self.call, key, params)
    }

    /// Asks which directories the client lets the server see; otherwise as [`elicit`](Self::elicit)
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn roots(&mut self, key: &str) -> Result<ListRootsResult, NoAnswer> {
        self.asking.roots(self.call, key)
    }

    /// Asks anything; otherwise as [`elicit`](Self::elicit)
    ///
    /// Several things are asked at once by calling this for each of them before leaving.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    pub fn ask(&mut self, key: &str, question: InputRequest<'static>) -> Result<InputResponse<'a>, NoAnswer> {
        self.asking.ask(self.call, key, question)
    }

    /// Has `state` kept for the next delivery, if something is asked in this one; [`Call::state`] gives it back
    pub fn keep(&mut self, state: impl Into<Vec<u8>>) {
        self.asking.keep(state);
    }

    /// Logs something about the call, if the client wants to be told
    ///
    /// Away from the loop it is decided later whether anybody wants it, and [`Sent::Queued`] says no more than that it was
    /// handed over.
    ///
    /// # Errors
    ///
    /// When the server did not declare that it logs, or the call is over, as far as is known; when it cannot be written as
    /// JSON; `Full` when the loop is behind.
    pub fn log<T: Serialize + ?Sized>(
        &mut self,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<Sent, UseError> {
        let call = self.call.id();
        match self.line.place() {
            Place::Here(host, _) => {
                let now = host.tick();
                host.engine().log(now, call, level, logger, data)
            }
            Place::Away(remote) if remote.is_cancelled() => Err(UseError::Stale),
            Place::Away(remote) => {
                let (level, logger, data) = (level.clone(), logger.map(String::from), RawJson::encode(data)?);
                let told = remote.command(Box::new(move |host| {
                    let now = host.now();
                    // Whoever logged has gone on.
                    let _ = host.engine().log(now, call, &level, logger.as_deref(), &data);
                }));
                if told { Ok(Sent::Queued) } else { Err(UseError::Full("commands for the loop")) }
            }
        }
    }

    /// Tells everybody who wants to know that something has changed
    ///
    /// What a router lists, it tells of itself. However much waits for the loop, they are told, once for all that was
    /// published meanwhile; when there are very many resources among that, all who follow any are told.
    pub fn publish(&mut self, change: &Change) {
        match self.line.place() {
            Place::Here(host, _) => host.publish(change),
            Place::Away(remote) => remote.publish(change),
        }
    }

    /// Has the client come back for the answer, after `retry` or the configured time, and lets its connection go meanwhile
    ///
    /// For calls that take long. False where there is no such thing: on byte streams, and for clients of revisions other
    /// than 2025-11-25; then nothing has changed. Away from the loop only the former is known.
    pub fn poll_later(&mut self, retry: Option<Duration>) -> bool {
        let call = self.call.id();
        match self.line.place() {
            Place::Here(host, _) => host.poll_later(call, retry),
            Place::Away(remote) => {
                remote.polls() && remote.command(Box::new(move |host| _ = host.poll_later(call, retry)))
            }
        }
    }

    /// Whether the call is cancelled, as far as is known; only [`progress`](Self::progress),
    /// [`checkpoint`](Self::checkpoint) and [`sleep`](Self::sleep) find out
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self.over, Some(Over::Cancelled(_)))
    }

    /// Why the call is cancelled, if it is and that is known
    #[must_use]
    pub const fn cancel_reason(&self) -> Option<&CancelReason> {
        match &self.over {
            Some(Over::Cancelled(Some(reason))) => Some(reason),
            _ => None,
        }
    }

    /// The call that is to be answered
    #[must_use]
    pub const fn call(&self) -> &'a Call {
        self.call
    }

    /// Who makes the call, as far as it says
    pub fn peer(&mut self) -> Peer {
        match self.line.place() {
            Place::Here(host, _) => host.engine().peer(self.call),
            Place::Away(remote) => remote.peer(),
        }
    }

    /// On whose behalf the call is made, if that was established
    pub fn principal(&mut self) -> Option<String> {
        match self.line.place() {
            Place::Here(host, _) => host.engine().principal(self.call.channel()).map(String::from),
            Place::Away(remote) => remote.principal().map(String::from),
        }
    }

    /// Has something done with the engine for which there is no method here: a notification of one's own, for instance
    ///
    /// On the loop's thread it is done at once, elsewhere soon.
    ///
    /// # Errors
    ///
    /// An internal error when it is not done, as the loop is behind, or over.
    pub fn with_engine(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) + Send + 'static,
    ) -> Result<(), RpcError> {
        match self.line.place() {
            Place::Here(host, _) => {
                let now = host.tick();
                command(host.engine(), now);
                Ok(())
            }
            Place::Away(remote) => {
                let told = remote.command(Box::new(move |host| {
                    let now = host.now();
                    command(host.engine(), now);
                }));
                if told { Ok(()) } else { Err(RpcError::internal("the server is behind")) }
            }
        }
    }

    /// Remembers what the author of the handler should know, and the client is not told
    pub fn note(&mut self, failure: Failure) {
        self.failure = Some(Arc::new(failure));
    }

    /// Whether something has to be asked first, whatever the handler returns
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.asking.is_empty() && self.over.is_none()
    }

    /// What becomes of the call, now that its handler has ended: by returning, or by a panic
    #[must_use]
    pub fn verdict(mut self, outcome: Result<Result<Answered, RpcError>, Panic>) -> Verdict {
        if self.is_asking() && outcome.is_ok() {
            return Verdict::Ask(self.asking);
        }
        if let Some(done) = self.done.take() {
            // What comes after the answer is not sent, whether the answer has left or not.
            return Verdict::Complete(done, outcome.err().map(|panic| Arc::new(Failure::Panicked(panic))));
        }
        match (outcome, self.failure) {
            (Ok(Ok(answered)), _) if answered.is_for(self.call) => Verdict::Answered,
            // `Answered` of another call; none of this one.
            (Ok(Ok(_)), _) => {
                Verdict::Fail(RpcError::internal("no answer"), Some(Arc::new(Failure::Unanswered)))
            }
            (Ok(Err(error)), failure) => Verdict::Fail(error, failure),
            (Err(panic), _) => Verdict::panicked(panic),
        }
    }

    fn keep_done(&mut self, done: Done) -> Result<(), UseError> {
        if self.done.is_some() {
            return Err(UseError::Stale);
        }
        self.done = Some(done);
        Ok(())
    }

    fn answered(&mut self, outcome: Result<(), UseError>) -> Result<Answered, RpcError> {
        match outcome {
            Ok(()) => self.over = Some(Over::Answered),
            Err(UseError::Encode(error)) => {
                self.note(Failure::Encode(error));
                return Err(RpcError::internal("the result cannot be written as JSON"));
            }
            Err(refused) if refused != UseError::Stale => {
                self.note(refused.into());
                return Err(RpcError::internal("the result cannot be sent"));
            }
            Err(_) if matches!(self.over, Some(Over::Answered)) => {
                return Err(RpcError::internal("answered already"));
            }
            // Cancelled: nobody waits for the answer.
            Err(_) => {
                self.over.get_or_insert(Over::Cancelled(None));
            }
        }
        Ok(Answered(self.call.id()))
    }

    /// What was asked has to be answered first, whatever becomes of the error in the handler: it is not sent
    fn unasked(&self) -> Result<(), RpcError> {
        if self.asking.is_empty() {
            Ok(())
        } else {
            Err(RpcError::internal("something has to be asked first"))
        }
    }

    fn check(&self) -> Result<(), RpcError> {
        match self.over {
            None => Ok(()),
            Some(Over::Answered) => Err(RpcError::internal("answered already")),
            Some(Over::Cancelled(_)) => Err(RpcError::internal("cancelled")),
        }
    }

    fn look(&mut self, now: Instant) -> Result<(), RpcError> {
        if now >= self.next_look {
            self.pump(now);
            self.next_look = now + LOOK;
        }
        self.check()
    }

    /// Looks at the stream, and goes on doing so until `until`, or until the call is over
    fn pump(&mut self, until: Instant) {
        let Place::Here(host, desk) = self.line.place() else { return };
        let mut looked = false;
        loop {
            while let Some(event) = host.next_meanwhile() {
                match event {
                    Event::Cancelled { call, reason } if call == self.call.id() => {
                        self.over = Some(Over::Cancelled(Some(reason)));
                    }
                    event => host.defer(event),
                }
            }
            if host.write() {
                continue;
            }
            if self.over.is_some() || (looked && host.now() >= until) {
                return;
            }
            host.wait(until);
            // To shut down, for one. No handler runs elsewhere, so there is no failure to be told of.
            desk.apply(host, &mut |_, _| {});
            looked = true;
        }
    }
}

/// How often the stream is looked at for a handler that asks more often
const LOOK: Duration = Duration::from_millis(1);
