//! The authorizer of an application: flows with their I/O.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::time::Duration;
use std::thread;
use std::time::Instant as SystemInstant;

use mcp_oauth::{
    AccessToken, Config, Error, ErrorKind, Event, Flow, RedirectOutcome, SignRequest, Signature, SigningKey,
    Step, TokenRecord, Trigger,
};
use mcp_proto::http::client::Url;
use mcp_proto::{Anchor, AuthChallenge, Entropy, Instant};

use super::browser::Browser;
use super::fetch::{Fetcher, HttpFetcher};
use super::interaction::{BrowserLogin, Cancellation, Interaction, RedirectReceiver};
use super::keys::{ClientKey, generate_dpop_key, sign_dpop};
use super::redirect::{RedirectEnd, RedirectPage};
use super::store::{MemoryStore, StoreError, StoreLock, TokenStore};
use mcp_std::Clock;

#[cfg(test)]
mod tests;

/// Longest wait without a look at the cancellation.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Gets access tokens for the clients of an application, and renews and stores them.
///
/// Clones share everything. Each authorization runs on a thread of its own, so the connection goes on meanwhile.
///
/// ```no_run
/// use mcp_oauth::Config;
/// use mcp_auth::client::{Authorizer, FileStore};
///
/// let path = FileStore::default_path().expect("a home folder");
/// let authorizer = Authorizer::new(Config::new("My application")).store(FileStore::new(path));
/// # let _ = authorizer;
/// ```
#[derive(Clone)]
pub struct Authorizer {
    config: Arc<Config>,
    store: Arc<dyn TokenStore>,
    fetcher: Arc<dyn Fetcher>,
    interaction: Arc<dyn Interaction>,
    client_key: Option<ClientKey>,
}

impl Authorizer {
    /// Creates an authorizer that keeps tokens in memory, and opens the browser of the system.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config: Arc::new(config),
            store: Arc::new(MemoryStore::new()),
            fetcher: Arc::new(HttpFetcher::new()),
            interaction: Arc::new(BrowserLogin::new(Browser::system())),
            client_key: None,
        }
    }

    /// Sets the store of tokens and registrations.
    #[must_use]
    pub fn store(mut self, store: impl TokenStore + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets the sender of requests, for example an [`HttpFetcher`] with other roots.
    #[must_use]
    pub fn fetcher(mut self, fetcher: impl Fetcher + 'static) -> Self {
        self.fetcher = Arc::new(fetcher);
        self
    }

    /// Sets how users are reached.
    #[must_use]
    pub fn interaction(mut self, interaction: impl Interaction + 'static) -> Self {
        self.interaction = Arc::new(interaction);
        self
    }

    /// Sets the key by which the client authenticates (`private_key_jwt`).
    #[must_use]
    pub fn client_key(mut self, key: ClientKey) -> Self {
        self.client_key = Some(key);
        self
    }

    /// Replaces the configuration of flows.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = Arc::new(config);
        self
    }

    /// Returns the configuration of flows.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns what is stored for a server.
    ///
    /// # Errors
    ///
    /// [`Error`] if the store cannot be read or the entry is damaged.
    pub fn stored(&self, server: &Url) -> Result<Option<TokenRecord>, Error> {
        let failed = |why: String| Error::local(Step::Store, server.origin().to_string(), why);
        let stored = self.store.load(&TokenRecord::key(server)).map_err(|error| failed(error.to_string()))?;
        stored.as_ref().map(TokenRecord::parse).transpose().map_err(|why| failed(why.into_owned()))
    }

    /// Lets a user log in, whatever is stored. `challenges` are those of the server, if they are known.
    ///
    /// # Errors
    ///
    /// [`Error`] of the step that failed.
    pub fn log_in(
        &self,
        server: &Url,
        challenges: Vec<AuthChallenge>,
        cancellation: &Cancellation,
    ) -> Result<Option<AccessToken>, Error> {
        self.run(server, Trigger::LogIn { challenges }, cancellation)
    }

    /// Revokes the stored tokens for a server where it offers that, and forgets them.
    ///
    /// # Errors
    ///
    /// [`Error`] if the store cannot be used, or if the tokens could not be revoked; they are then forgotten all the
    /// same.
    pub fn log_out(&self, server: &Url, cancellation: &Cancellation) -> Result<(), Error> {
        self.run(server, Trigger::LogOut, cancellation).map(drop)
    }

    /// Runs a flow to its end and returns its token, if any.
    ///
    /// # Errors
    ///
    /// [`Error`] of the step that failed.
    pub fn run(
        &self,
        server: &Url,
        trigger: Trigger,
        cancellation: &Cancellation,
    ) -> Result<Option<AccessToken>, Error> {
        let clock = FlowClock::start();
        let secret = mcp_std::entropy::seed()
            .map_err(|error| Error::local(Step::Store, server.origin().to_string(), error.to_string()))?;
        let entropy = Entropy::new(secret, mcp_std::entropy::nonce());
        let flow = Flow::new(
            Arc::clone(&self.config),
            server.clone(),
            trigger,
            clock.anchor(),
            clock.now(),
            entropy,
        );
        let fetcher = self.fetcher.for_flow().unwrap_or_else(|| Arc::clone(&self.fetcher));
        let mut run =
            FlowRun { authorizer: self, fetcher, clock, flow, receiver: None, lock: None, cancellation };
        run.run()
    }

    /// Signs for a flow, or a proof for a request: with the key of the client, or with the key in the request.
    ///
    /// # Errors
    ///
    /// The reason in English, for [`fail_proof`](mcp_proto::http::client::Authorization::fail_proof).
    pub fn sign(&self, request: &SignRequest) -> Result<Signature, String> {
        let signed = match &request.key {
            SigningKey::Dpop(private) => sign_dpop(private, &request.input),
            SigningKey::Client => match &self.client_key {
                Some(key) => key.sign(&request.input),
                None => return Err("there is no key of the client".into()),
            },
            _ => return Err("the key is unknown".into()),
        };
        signed.map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// One flow with what it holds.
struct FlowRun<'a> {
    authorizer: &'a Authorizer,
    fetcher: Arc<dyn Fetcher>,
    clock: FlowClock,
    flow: Flow,
    receiver: Option<Box<dyn RedirectReceiver>>,
    lock: Option<StoreLock>,
    cancellation: &'a Cancellation,
}

impl FlowRun<'_> {
    fn run(&mut self) -> Result<Option<AccessToken>, Error> {
        loop {
            // Under the lock a refresh token may be spent already: what replaces it has to be stored first.
            if self.lock.is_none() && self.cancellation.is_cancelled() {
                self.fail("cancelled");
            }
            match self.flow.poll_event(self.clock.now()) {
                Some(Event::Authorized(token)) => return Ok(Some(*token)),
                Some(Event::NoToken) => return Ok(None),
                Some(Event::Failed(error)) => return Err(error),
                Some(event) => self.serve(event),
                None => self.wait(),
            }
        }
    }

    fn fail(&mut self, reason: &str) {
        self.flow.fail(self.clock.now(), reason);
    }

    /// Waits until the flow goes on by itself.
    fn wait(&mut self) {
        match self.flow.poll_timeout() {
            Some(at) => {
                let left = self.clock.until(at);
                thread::sleep(left.min(MAX_SLEEP));
                if left <= MAX_SLEEP {
                    self.flow.handle_timeout(self.clock.now());
                }
            }
            // Each event is answered before the next poll.
            None => self.fail("the authorization waits for nothing"),
        }
    }

    /// Does what the flow asks for.
    fn serve(&mut self, event: Event) {
        let authorizer = self.authorizer;
        match event {
            Event::Fetch(fetch) => {
                let fetched = match &self.lock {
                    Some(_) => self.fetcher.fetch(&fetch),
                    None => self.fetcher.fetch_cancellable(&fetch, self.cancellation),
                };
                match fetched {
                    Ok(response) => self.flow.handle_response(self.clock.now(), fetch.id, response),
                    Err(failure) => self.flow.handle_fetch_failure(self.clock.now(), fetch.id, failure),
                }
            }
            Event::Load { key } => self.load(&key),
            Event::Lock { key } => {
                let wait = authorizer.config.lock_timeout();
                match authorizer.store.lock(&key, wait, self.cancellation) {
                    Ok(lock) => {
                        self.lock = Some(lock);
                        self.load(&key);
                    }
                    Err(error) => self.store_failed(&error),
                }
            }
            Event::Unlock { .. } => self.lock = None,
            Event::Save { key, value } => {
                let saved = match &value {
                    Some(text) => authorizer.store.save(&key, text),
                    None => authorizer.store.remove(&key),
                };
                match saved {
                    Ok(()) => self.flow.handle_saved(self.clock.now()),
                    Err(error) => self.store_failed(&error),
                }
            }
            Event::Replace { key, old, new } => {
                match authorizer.store.replace(&key, old.as_ref(), new.as_ref()) {
                    Ok(true) => self.flow.handle_saved(self.clock.now()),
                    Ok(false) => self.load(&key),
                    Err(error) => self.store_failed(&error),
                }
            }
            Event::Sign(request) => match authorizer.sign(&request) {
                Ok(signature) => self.flow.handle_signature(self.clock.now(), &signature),
                Err(why) => self.fail(&why),
            },
            Event::CreateKey => match generate_dpop_key() {
                Ok(key) => self.flow.handle_key(self.clock.now(), key),
                Err(error) => self.fail(&error.to_string()),
            },
            event => self.interact(event),
        }
    }

    fn load(&mut self, key: &str) {
        match self.authorizer.store.load(key) {
            Ok(text) => self.flow.handle_loaded(self.clock.now(), text.as_ref()),
            Err(error) => self.store_failed(&error),
        }
    }

    fn store_failed(&mut self, error: &StoreError) {
        let (now, reason) = (self.clock.now(), error.to_string());
        match error {
            StoreError::Locked { .. } => self.flow.fail(now, ErrorKind::Locked(reason.into())),
            _ => self.flow.fail(now, reason),
        }
    }

    /// Asks the user, or who answers in their place.
    fn interact(&mut self, event: Event) {
        let interaction = Arc::clone(&self.authorizer.interaction);
        match event {
            Event::NeedRedirectUri { preferred } => {
                match interaction.receive_redirects(preferred.as_deref()) {
                    Ok(receiver) => {
                        let uri = receiver.redirect_uri();
                        self.receiver = Some(receiver);
                        self.flow.set_redirect_uri(self.clock.now(), &uri);
                    }
                    Err(error) => self.fail(&error.to_string()),
                }
            }
            Event::OpenBrowser { url } => self.open_browser(&url),
            Event::ShowUserCode(code) => {
                if let Err(error) = interaction.show_user_code(&code) {
                    self.fail(&error.to_string());
                }
            }
            Event::ChooseServer { issuers } => {
                self.flow.choose(self.clock.now(), interaction.choose_server(&issuers));
            }
            Event::NeedClient { issuer } => match interaction.client(&issuer) {
                Some(client) => self.flow.set_client(self.clock.now(), &client),
                None => self.fail("the client is not registered there and cannot register itself"),
            },
            Event::NeedAssertion(request) => match interaction.assertion(&request) {
                Ok(assertion) => self.flow.handle_assertion(self.clock.now(), assertion),
                Err(error) => self.fail(&error.to_string()),
            },
            _ => self.fail("the authorization asks for something unknown"),
        }
    }

    fn open_browser(&mut self, url: &Url) {
        let Some(mut receiver) = self.receiver.take() else {
            return self.fail("there is no receiver of redirects");
        };
        let left = self.flow.poll_timeout().map_or(Duration::ZERO, |at| self.clock.until(at));
        let deadline = SystemInstant::now() + left;
        let (flow, clock) = (&mut self.flow, &self.clock);
        let mut answer = |query: &str| match flow.handle_redirect(clock.now(), query) {
            RedirectOutcome::Accepted => RedirectPage::Done,
            RedirectOutcome::Failed(error) => RedirectPage::Failed(error.to_string()),
            _ => RedirectPage::Foreign,
        };
        match receiver.receive(url, deadline, self.cancellation, &mut answer) {
            Ok(RedirectEnd::Accepted) => {}
            Ok(RedirectEnd::Cancelled) => self.fail("cancelled"),
            Ok(RedirectEnd::TimedOut) => {
                if let Some(due) = self.flow.poll_timeout() {
                    self.clock.advance_to(due);
                }
                self.flow.handle_timeout(self.clock.now());
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }
}

// The clock of a flow, which may wait for a user while the machine sleeps.

/// A monotonic clock that advances with Unix time while the machine sleeps, so that what a flow signs afterwards has the
/// time of then. A system clock that is set back has no effect on it.
#[derive(Debug)]
pub(super) struct FlowClock {
    clock: Clock,
    anchor: Anchor,
    /// The most seconds by which Unix time was ahead: time does not go back when the system clock is set back.
    ahead: Cell<u64>,
    /// No earlier time is returned.
    earliest: Cell<Instant>,
}

impl FlowClock {
    pub(super) fn start() -> Self {
        let clock = Clock::start();
        Self { clock, anchor: clock.anchor(), ahead: Cell::new(0), earliest: Cell::new(Instant::ZERO) }
    }

    /// Returns the relation to Unix time.
    pub(super) const fn anchor(&self) -> Anchor {
        self.anchor
    }

    pub(super) fn now(&self) -> Instant {
        let now = self.clock.now();
        let ahead = self.clock.anchor().unix_secs(now).saturating_sub(self.anchor.unix_secs(now));
        if ahead > Clock::MAX_DRIFT {
            self.ahead.set(ahead.max(self.ahead.get()));
        }
        (now + Duration::from_secs(self.ahead.get())).max(self.earliest.get())
    }

    /// Continues at `deadline`, if it has not passed: another clock says that it has.
    pub(super) fn advance_to(&self, deadline: Instant) {
        self.earliest.set(deadline.max(self.earliest.get()));
    }

    /// Returns the time from now until `deadline`, or zero if it has passed.
    pub(super) fn until(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(self.now())
    }
}
