//! The flow from a challenge to an access token.

mod authorization;
mod client;
mod decision;
mod device;
mod discovery;
mod event;
mod facts;
mod refresh;
mod tokens;

pub use authorization::redirect_query;
pub use event::{AssertionRequest, Event, RedirectOutcome, Trigger, UserCode};

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use self::decision::Sight;
use self::device::DevicePoll;
use self::facts::Facts;
use super::client_request::{ClientRequest, RequestOutcome, RequestStep};
use super::config::Config;
use super::document::Defect;
use super::jose::{Signature, base64url};
use super::record::TokenRecord;
use super::request::{Fetch, FetchId, FetchPolicy, FetchResponse};
use super::search::Search;
use super::token::Secret;
use crate::error::{Error, ErrorKind, FetchFailure, Step};
use mcp_proto::head::Fields;
use mcp_proto::http::Url;
use mcp_proto::sync::Arc;
use mcp_proto::{Anchor, Entropy, Instant};

/// Largest number of requests of one flow. Polls of the device flow count apart: they are bounded by time.
const MAX_FETCHES: u32 = 32;

/// Added to the time of a request: its sender ends it in time, the deadline of the flow is for one who does not.
const GRACE: Duration = Duration::from_secs(5);

/// One authorization for one MCP server: a state machine without I/O.
///
/// ```text
///   new → poll_event until None → answer the event, or wait until poll_timeout → poll_event …
///     → Event::Authorized, Event::NoToken or Event::Failed ends the flow
/// ```
///
/// One question is open at a time. An answer that nobody asked for is ignored. When the flow cannot be given what it asks
/// for, [`fail`](Self::fail) ends it.
pub struct Flow {
    facts: Facts,
    clock: Anchor,
    now: Instant,
    entropy: Entropy,
    state: State,
    /// Few; the next one first.
    events: Vec<Event>,
    deadline: Option<Instant>,
    /// Requests that count against the bound.
    fetches: u32,
    /// The id of the last request; polls have their own, too.
    last_fetch: u32,
    /// The time of the last request.
    sent_at: Instant,
    is_locked: bool,
    /// Changes of the record by others while this flow had the lock.
    changes: u8,
    /// The last nonce of the authorization server.
    nonce: Option<String>,
    /// The identity token or the assertion, until it is presented.
    assertion: Option<Secret>,
}

/// What a flow waits for.
enum State {
    Start,
    LoadingRecord,
    LockingRecord,
    /// The refresh token is about to be used.
    MarkingAttempt,
    Searching {
        search: Box<Search>,
        target: SearchTarget,
        fetch: FetchId,
    },
    ChoosingServer(Vec<String>),
    LoadingClient,
    LoadingBinding {
        key: String,
    },
    AwaitingClient,
    AwaitingRedirectUri {
        preferred: Option<String>,
    },
    Registering {
        fetch: FetchId,
        redirect_uri: String,
    },
    SavingClient,
    /// The authorization server no longer knows the client; ends with this error, or gets another authorization.
    RemovingClient(Option<Error>),
    AwaitingKey,
    AwaitingRedirect {
        state: String,
        verifier: Secret,
    },
    AwaitingAssertion,
    Requesting {
        request: Box<ClientRequest>,
        purpose: Purpose,
        fetch: Option<FetchId>,
    },
    WaitingToPoll(DevicePoll),
    /// The tokens of a new authorization are there; another process may use the store.
    LockingForTokens,
    SavingTokens,
    /// The tokens of a refresh are there.
    SavingRefreshed,
    /// A user is needed, who shall be asked for more scopes; another process may use the store.
    LockingForScopes,
    SavingScopes,
    RemovingTokens(AfterRemoval),
    Ended,
}

impl State {
    /// Returns the id of the request that is open.
    const fn open_fetch(&self) -> Option<FetchId> {
        match self {
            Self::Searching { fetch, .. } | Self::Registering { fetch, .. } => Some(*fetch),
            Self::Requesting { fetch, .. } => *fetch,
            _ => None,
        }
    }
}

/// The document that a search is for.
enum SearchTarget {
    Resource,
    Server { issuer: String, is_legacy: bool },
    Provider { issuer: String },
}

/// What a request by the client is for.
enum Purpose {
    Tokens(Step),
    Device,
    DevicePoll(DevicePoll),
    TokenExchange,
    Refresh,
    Revocation,
}

/// How a flow goes on once the tokens are removed.
enum AfterRemoval {
    /// The refresh token was refused: get another authorization.
    Authorize,
    /// The authorization server no longer knows the client: forget its registration, then get another authorization.
    ForgetClient { issuer: String },
    /// End without a token.
    End,
    /// End with this error.
    Fail(Error),
}

impl Flow {
    /// Creates a flow for the MCP server at `server`.
    ///
    /// `clock` says which Unix time an [`Instant`] is. `entropy` must not be shared with another flow.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        server: Url,
        trigger: Trigger,
        clock: Anchor,
        now: Instant,
        entropy: Entropy,
    ) -> Self {
        Self {
            facts: Facts::new(config, server, trigger),
            clock,
            now,
            entropy,
            state: State::Start,
            events: Vec::new(),
            deadline: None,
            fetches: 0,
            last_fetch: 0,
            sent_at: now,
            is_locked: false,
            changes: 0,
            nonce: None,
            assertion: None,
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.tick(now);
        if matches!(self.state, State::Start) {
            self.start();
        }
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns whether the flow has ended and all its events were polled.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended) && self.events.is_empty()
    }

    /// Advances the time to `now`; an early or spurious call has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        if self.deadline.is_none_or(|at| at > self.now) {
            return;
        }
        self.deadline = None;
        match core::mem::replace(&mut self.state, State::Ended) {
            State::WaitingToPoll(poll) => self.poll_device(poll),
            state @ (State::Searching { .. } | State::Registering { .. } | State::Requesting { .. }) => {
                // The state goes back, because `fetch_failed` takes the step and the request from it.
                self.state = state;
                self.fetch_failed(FetchFailure::TimedOut);
            }
            // A page that says that the client is unknown redirects to nowhere.
            State::AwaitingRedirect { .. } => {
                let forgets_client = self.facts.uses_stored_registration;
                let uri = self.facts.redirect_uri.clone().unwrap_or_default().into();
                let kind = ErrorKind::NoRedirect { uri, forgets_client };
                let error = self.facts.error(Step::Authorization, kind, "");
                self.end_without_client(error, forgets_client);
            }
            state => {
                self.state = state;
                self.fail_at(self.step(), ErrorKind::TimedOut, "");
            }
        }
    }

    /// Takes the response to a request.
    pub fn handle_response(&mut self, now: Instant, fetch: FetchId, response: FetchResponse) {
        self.tick(now);
        if self.state.open_fetch() != Some(fetch) {
            return;
        }
        self.deadline = None;
        // The sender has the same bound (`FetchPolicy`). This check is for one that does not keep it.
        if response.body.len() > self.facts.config.max_document {
            return self.fetch_failed(FetchFailure::TooLarge);
        }
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Searching { mut search, target, .. } => {
                let step = search.handle_response(response, &self.facts.policy_for(&target));
                self.continue_search(search, target, step);
            }
            State::Registering { redirect_uri, .. } => self.registered(&response, redirect_uri),
            State::Requesting { mut request, purpose, .. } => match request.handle_response(response) {
                RequestOutcome::Again => self.continue_request(request, purpose),
                RequestOutcome::Success(response) => {
                    // One to an identity provider has no proof, and so no nonce.
                    self.nonce = request.take_nonce().or_else(|| self.nonce.take());
                    self.request_succeeded(&request, &purpose, &response);
                }
                RequestOutcome::Refused(kind) => {
                    self.nonce = request.take_nonce().or_else(|| self.nonce.take());
                    self.request_refused(&request, purpose, kind);
                }
            },
            state => self.state = state,
        }
    }

    /// Takes the failure of a request.
    pub fn handle_fetch_failure(&mut self, now: Instant, fetch: FetchId, failure: FetchFailure) {
        self.tick(now);
        if self.state.open_fetch() == Some(fetch) {
            self.deadline = None;
            self.fetch_failed(failure);
        }
    }

    /// Takes what the store has, after [`Event::Load`], [`Event::Lock`], or an [`Event::Replace`] that found another text.
    pub fn handle_loaded(&mut self, now: Instant, value: Option<&Secret>) {
        self.tick(now);
        match &self.state {
            State::LoadingRecord => self.record_read(Sight::Loaded, value),
            State::LockingRecord => self.record_read(Sight::Locked, value),
            State::LockingForScopes => {
                self.is_locked = true;
                match self.facts.record_with_needed_scopes(value) {
                    Ok(record) => self.replace_record(State::SavingScopes, Some(record)),
                    Err(error) => self.end_with(error),
                }
            }
            State::MarkingAttempt
            | State::SavingRefreshed
            | State::SavingScopes
            | State::RemovingTokens(_) => {
                match core::mem::replace(&mut self.state, State::Ended) {
                    // What another flow has stored since is not what the user wanted to end.
                    State::RemovingTokens(AfterRemoval::End) => self.end(Event::NoToken),
                    State::RemovingTokens(AfterRemoval::Fail(error)) => self.end_with(error),
                    _ => self.record_read(Sight::Changed { times: self.changes }, value),
                }
            }
            State::LockingForTokens => {
                self.is_locked = true;
                self.store_tokens();
            }
            State::LoadingClient => self.client_loaded(value),
            State::LoadingBinding { key } => match self.facts.check_secret_binding(value) {
                Ok(Some(value)) => {
                    let key = key.clone();
                    self.state = State::SavingClient;
                    self.emit(Event::Save { key, value: Some(value) });
                }
                Ok(None) => self.client_ready(),
                Err(error) => self.end_with(error),
            },
            _ => {}
        }
    }

    /// Takes notice that the store was written, after [`Event::Save`] or [`Event::Replace`].
    pub fn handle_saved(&mut self, now: Instant) {
        self.tick(now);
        match core::mem::replace(&mut self.state, State::Ended) {
            // Not before: a rotated refresh token must not be lost (AUTH-063).
            State::SavingTokens | State::SavingRefreshed => self.hand_out(),
            State::MarkingAttempt => self.attempt_marked(),
            State::SavingScopes => self.end_with(self.facts.login_required()),
            State::SavingClient => self.client_ready(),
            State::RemovingClient(Some(error)) => self.end_with(error),
            State::RemovingClient(None) => self.removed(),
            State::RemovingTokens(then) => match then {
                AfterRemoval::ForgetClient { issuer } => self.remove_client(&issuer, None),
                AfterRemoval::Authorize => self.removed(),
                AfterRemoval::End => self.end(Event::NoToken),
                AfterRemoval::Fail(error) => self.end_with(error),
            },
            state => self.state = state,
        }
    }

    /// Takes a signature, after [`Event::Sign`].
    pub fn handle_signature(&mut self, now: Instant, signature: &Signature) {
        self.tick(now);
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Requesting { mut request, purpose, fetch: None } => {
                request.handle_signature(signature);
                self.continue_request(request, purpose);
            }
            state => self.state = state,
        }
    }

    /// Ends the flow because the application cannot give what it was asked for.
    ///
    /// `reason` is shown to users and must not hold a secret. A text is [`ErrorKind::Local`]; for a store that is not
    /// released in time it is [`ErrorKind::Locked`]. The tokens of a new authorization are stored all the same if they have
    /// only waited for the lock: the user has logged in.
    pub fn fail(&mut self, now: Instant, reason: impl Into<ErrorKind>) {
        self.tick(now);
        match &self.state {
            State::LockingForTokens => {
                // The flow does not wait for the lock any more, so the application must not take it.
                self.events.clear();
                self.store_tokens();
            }
            State::LockingForScopes => self.end_with(self.facts.login_required()),
            State::Ended => {}
            _ => self.fail_at(self.step(), reason.into(), ""),
        }
    }

    /// Returns the step that is in work.
    #[must_use]
    pub const fn step(&self) -> Step {
        match &self.state {
            State::Start
            | State::LoadingRecord
            | State::LockingRecord
            | State::MarkingAttempt
            | State::LockingForTokens
            | State::SavingTokens
            | State::SavingRefreshed
            | State::LockingForScopes
            | State::SavingScopes
            | State::RemovingTokens(_)
            | State::LoadingClient
            | State::LoadingBinding { .. }
            | State::SavingClient
            | State::RemovingClient(_)
            | State::Ended => Step::Store,
            State::Searching { target: SearchTarget::Resource, .. } | State::ChoosingServer(_) => {
                Step::ResourceMetadata
            }
            State::Searching { .. } => Step::ServerMetadata,
            State::AwaitingClient | State::Registering { .. } => Step::Registration,
            State::AwaitingRedirectUri { .. } | State::AwaitingRedirect { .. } => Step::Authorization,
            State::AwaitingKey | State::AwaitingAssertion | State::WaitingToPoll(_) => Step::Token,
            State::Requesting { purpose, .. } => purpose.step(),
        }
    }

    // ---- helpers ---------------------------------------------------------------------------------------------

    #[inline(never)]
    fn tick(&mut self, now: Instant) {
        debug_assert!(
            now >= self.now,
            "`now` is {now} after {}: time does not go back (`mcp_proto::guide::contract`, rule \"Time\")",
            self.now
        );
        self.now = self.now.max(now);
    }

    #[inline(never)]
    const fn unix_secs(&self) -> u64 {
        self.clock.unix_secs(self.now)
    }

    #[inline(never)]
    fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Ends the flow with its last event. A question that was not polled yet needs no answer any more.
    #[inline(never)]
    fn end(&mut self, event: Event) {
        // An `Unlock` that was not polled yet has to stay, or the entry would stay locked.
        self.events.retain(|event| matches!(event, Event::Unlock { .. }));
        self.unlock();
        self.state = State::Ended;
        self.deadline = None;
        self.emit(event);
    }

    #[inline(never)]
    fn end_with(&mut self, error: Error) {
        // The default endpoints do not exist, or nothing has shown that they do: the server is none of 2025-03-26.
        let is_answer = matches!(error.kind(), ErrorKind::Refused { .. });
        let is_absent = matches!(error.step(), Step::ServerMetadata | Step::Registration | Step::Token)
            && !is_answer
            || error.is_login_required();
        let missing = self.facts.missing_metadata.take().filter(|_| is_absent);
        self.end(Event::Failed(missing.unwrap_or(error)));
    }

    fn unlock(&mut self) {
        if core::mem::take(&mut self.is_locked) {
            let key = TokenRecord::key(&self.facts.server);
            self.emit(Event::Unlock { key });
        }
    }

    fn invalid(&mut self, step: Step, why: impl Into<Defect>, rule: &'static str) {
        self.fail_at(step, ErrorKind::Invalid(why.into()), rule);
    }

    fn unsupported(&mut self, step: Step, why: &'static str, rule: &'static str) {
        self.fail_at(step, ErrorKind::Unsupported(why.into()), rule);
    }

    /// Ends the flow with an error at the server of a step.
    #[inline(never)]
    fn fail_at(&mut self, step: Step, kind: ErrorKind, rule: &'static str) {
        let error = self.facts.error(step, kind, rule);
        self.end_with(error);
    }

    /// Asks for a request; `None` if the flow has made too many and ended.
    #[inline(never)]
    fn fetch(
        &mut self,
        step: Step,
        method: &'static str,
        url: Url,
        fields: Fields,
        body: String,
        is_trusted: bool,
    ) -> Option<FetchId> {
        // Redirects and retries count, too, so no server can keep the flow busy.
        self.fetches += 1;
        if self.fetches > MAX_FETCHES {
            self.fail_at(step, ErrorKind::TooManyRequests, "");
            return None;
        }
        self.last_fetch = self.last_fetch.wrapping_add(1);
        self.sent_at = self.now;
        let id = FetchId(self.last_fetch);
        let timeout = self.facts.config.fetch_timeout;
        self.deadline = Some(self.now + timeout.saturating_add(GRACE));
        let policy = FetchPolicy {
            timeout,
            max_body: self.facts.config.max_document,
            reachable_from: (!is_trusted).then(|| self.facts.server.origin().clone()),
        };
        self.emit(Event::Fetch(Fetch { id, method, url, fields, body: body.into_bytes(), policy }));
        Some(id)
    }

    #[inline(never)]
    fn fetch_failed(&mut self, failure: FetchFailure) {
        let step = self.step();
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Searching { search, target, .. } => {
                let step = search.handle_failure(failure);
                self.continue_search(search, target, step);
            }
            State::Requesting { request, purpose, .. } => {
                self.request_refused(&request, purpose, ErrorKind::Fetch(failure));
            }
            _ => {
                self.fail_at(step, ErrorKind::Fetch(failure), "");
            }
        }
    }

    /// Starts a request by the client.
    #[inline(never)]
    fn request(&mut self, mut request: Box<ClientRequest>, purpose: Purpose) {
        // Only requests for tokens of the MCP server have a proof: only those tokens are bound to the key.
        if !matches!(purpose, Purpose::Revocation | Purpose::TokenExchange | Purpose::Device) {
            request.dpop(self.facts.dpop.clone(), self.nonce.take());
        }
        self.continue_request(request, purpose);
    }

    fn continue_request(&mut self, mut request: Box<ClientRequest>, purpose: Purpose) {
        let unix_secs = self.unix_secs();
        let step = request.next(unix_secs, &mut || random(&mut self.entropy));
        let fetch = match step {
            RequestStep::Sign(sign) => {
                self.emit(Event::Sign(sign));
                None
            }
            RequestStep::Send { url, fields, body } => {
                if let Purpose::DevicePoll(_) = purpose {
                    // Bounded by the lifetime of the device code.
                    self.fetches = self.fetches.saturating_sub(1);
                }
                let is_trusted = matches!(purpose, Purpose::TokenExchange);
                let step = purpose.step();
                let Some(fetch) = self.fetch(step, "POST", url, fields, body, is_trusted) else { return };
                Some(fetch)
            }
        };
        self.state = State::Requesting { request, purpose, fetch };
    }
}

impl Purpose {
    const fn step(&self) -> Step {
        match self {
            Self::Tokens(step) => *step,
            Self::Device => Step::DeviceAuthorization,
            Self::DevicePoll(_) => Step::Token,
            Self::TokenExchange => Step::TokenExchange,
            Self::Refresh => Step::Refresh,
            Self::Revocation => Step::Revocation,
        }
    }
}

/// Shows the step; the state holds secrets (SEC-019).
impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("server", &self.facts.server.origin())
            .field("step", &self.step())
            .field("fetches", &self.fetches)
            .finish_non_exhaustive()
    }
}

/// Returns a new unguessable text with 256 bits.
fn random(entropy: &mut Entropy) -> String {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    base64url(&bytes)
}

/// Returns the text of a URL for a request.
fn owned(text: &str) -> String {
    text.to_owned()
}
