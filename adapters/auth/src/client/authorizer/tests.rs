//! The authorizer between an authorization server, a store and a user in memory, and its clock.

use alloc::collections::VecDeque;
use alloc::format;
use std::io;
use std::sync::Mutex;
use std::time::SystemTime;

use mcp_oauth::{
    AssertionRequest, ClientAuth, ClientCredentials, DpopMode, Fetch, FetchFailure, FetchResponse, GrantType,
    Secret, UserCode,
};
use serde_json::{Value, json};

use super::*;
use crate::client::NoInteraction;

const SERVER: &str = "https://tools.test/mcp";
const ISSUER: &str = "https://login.test";
const SECOND: &str = "https://other.test";

fn server() -> Url {
    Url::parse(SERVER).unwrap()
}

fn unix_secs() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// The protected server and its two authorization servers: the documents, and the requests that came.
#[derive(Clone, Default)]
struct Web(Arc<Mutex<WebState>>);

#[derive(Default)]
struct WebState {
    /// The path, the body, and the proof of each POST.
    posts: Vec<(String, String, String)>,
    /// Whether each request could be cancelled.
    cancellable: Vec<bool>,
    /// Whether clients can register themselves.
    registers: bool,
    /// Set by the next request.
    cancels: Option<Cancellation>,
}

impl Web {
    fn registering() -> Self {
        let web = Self::default();
        web.0.lock().unwrap().registers = true;
        web
    }

    /// Returns the body of each POST to an endpoint.
    fn posts(&self, path: &str) -> Vec<String> {
        let state = self.0.lock().unwrap();
        state.posts.iter().filter(|(at, ..)| at == path).map(|(_, body, _)| body.clone()).collect()
    }

    fn answer(&self, fetch: &Fetch, is_cancellable: bool) -> FetchResponse {
        let mut state = self.0.lock().unwrap();
        state.cancellable.push(is_cancellable);
        if let Some(cancellation) = state.cancels.take() {
            cancellation.cancel();
        }
        let (origin, path) = (fetch.url.origin().to_string(), fetch.url.target());
        let proof =
            fetch.fields.iter().find(|(name, _)| *name == "DPoP").map_or(&b""[..], |(_, proof)| proof);
        let token_type = if proof.is_empty() { "Bearer" } else { "DPoP" };
        if fetch.method == "POST" {
            let body = String::from_utf8(fetch.body.clone()).unwrap();
            state.posts.push((path.into(), body, String::from_utf8(proof.into()).unwrap()));
        }
        let at = |path: &str| format!("{origin}{path}");
        let (status, body) = match path {
            "/.well-known/oauth-protected-resource/mcp" => {
                (200, json!({ "resource": SERVER, "authorization_servers": [ISSUER, SECOND] }))
            }
            "/.well-known/oauth-authorization-server" => {
                let mut document = json!({
                    "issuer": origin, "authorization_endpoint": at("/authorize"),
                    "token_endpoint": at("/token"), "revocation_endpoint": at("/revoke"),
                    "device_authorization_endpoint": at("/device"),
                    "code_challenge_methods_supported": ["S256"], "dpop_signing_alg_values_supported": ["ES256"],
                    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
                });
                if state.registers {
                    document["registration_endpoint"] = json!(at("/register"));
                }
                (200, document)
            }
            "/register" => (201, json!({ "client_id": "registered", "token_endpoint_auth_method": "none" })),
            "/device" => (
                200,
                json!({ "device_code": "d", "user_code": "WDJB-MJHT", "expires_in": 60, "interval": 1,
                    "verification_uri": at("/activate") }),
            ),
            "/token" => (
                200,
                json!({ "access_token": "t", "token_type": token_type, "expires_in": 3_600, "refresh_token": "r" }),
            ),
            "/revoke" => (200, Value::Null),
            _ => (404, Value::Null),
        };
        FetchResponse { status, body: body.to_string().into_bytes(), ..FetchResponse::default() }
    }
}

impl Fetcher for Web {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        Ok(self.answer(fetch, false))
    }

    fn fetch_cancellable(&self, fetch: &Fetch, _: &Cancellation) -> Result<FetchResponse, FetchFailure> {
        Ok(self.answer(fetch, true))
    }
}

/// The query of a redirect, after the state of the login, and how the wait for it ends.
type Visit = (&'static str, io::Result<RedirectEnd>);

/// A user: the visits of the browser for one login, and what was seen.
#[derive(Clone, Default)]
struct User(Arc<Mutex<UserState>>);

#[derive(Default)]
struct UserState {
    visits: VecDeque<Visit>,
    pages: Vec<RedirectPage>,
    codes: Vec<UserCode>,
    choices: Vec<Vec<String>>,
    audiences: Vec<AssertionRequest>,
    login_time: Duration,
}

impl User {
    fn with(visits: impl IntoIterator<Item = Visit>) -> Self {
        let user = Self::default();
        user.0.lock().unwrap().visits.extend(visits);
        user
    }

    fn agreeing() -> Self {
        Self::with([("&code=c", Ok(RedirectEnd::Accepted))])
    }

    fn pages(&self) -> Vec<RedirectPage> {
        self.0.lock().unwrap().pages.clone()
    }
}

impl Interaction for User {
    fn receive_redirects(&self, _: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        Ok(Box::new(self.clone()))
    }

    fn show_user_code(&self, code: &UserCode) -> io::Result<()> {
        self.0.lock().unwrap().codes.push(code.clone());
        Ok(())
    }

    fn choose_server(&self, issuers: &[String]) -> usize {
        self.0.lock().unwrap().choices.push(issuers.into());
        1
    }

    fn client(&self, issuer: &str) -> Option<ClientCredentials> {
        Some(ClientCredentials::new(format!("client of {issuer}"), ClientAuth::None))
    }

    fn assertion(&self, request: &AssertionRequest) -> io::Result<Secret> {
        self.0.lock().unwrap().audiences.push(request.clone());
        Ok("assertion".into())
    }
}

impl RedirectReceiver for User {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:7/callback".into()
    }

    fn receive(
        &mut self,
        url: &Url,
        deadline: SystemInstant,
        _: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        let mut seen = self.0.lock().unwrap();
        seen.login_time = deadline.saturating_duration_since(SystemInstant::now());
        let state = url.target().split('&').find(|part| part.starts_with("state=")).unwrap();
        let (query, end) = seen.visits.pop_front().expect("no further login");
        seen.pages.push(answer("state=other&code=c"));
        if !query.is_empty() {
            seen.pages.push(answer(&format!("{state}{query}")));
        }
        end
    }
}

fn authorizer(config: Config, web: &Web, interaction: impl Interaction + 'static) -> Authorizer {
    Authorizer::new(config).fetcher(web.clone()).interaction(interaction)
}

fn log_in(authorizer: &Authorizer) -> Result<Option<AccessToken>, Error> {
    authorizer.log_in(&server(), Vec::new(), &Cancellation::new())
}

/// Lets a user without an answer log in, and returns the reason why it fails.
fn refused(config: Config, web: &Web, interaction: impl Interaction + 'static) -> String {
    log_in(&authorizer(config, web, interaction)).unwrap_err().to_string()
}

// covers: AUTH-045
#[test]
fn login_of_a_user_is_stored_used_and_revoked_at_the_end() {
    let (web, user, begun) = (Web::registering(), User::agreeing(), unix_secs());
    let authorizer = authorizer(Config::new("tests"), &web, user.clone());
    assert_eq!(authorizer.stored(&server()), Ok(None));
    let token = log_in(&authorizer).unwrap().unwrap();
    assert_eq!((token.token.expose(), token.dpop), ("t", None));
    assert_eq!(user.pages(), [RedirectPage::Foreign, RedirectPage::Done]);
    let left = user.0.lock().unwrap().login_time;
    assert!(left > Duration::from_secs(240) && left <= Duration::from_secs(300), "{left:?}");
    let stored = authorizer.stored(&server()).unwrap().unwrap();
    assert_eq!((stored.client_id(), stored.issuer(), stored.is_refreshable()), ("registered", ISSUER, true));
    assert!((begun + 3_600..begun + 3_660).contains(&stored.expires_at().unwrap()), "{stored:?}");
    let sent = web.posts("/token");
    assert!(
        matches!(&*sent, [form] if form.contains("&redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback&code=c&"))
    );

    let again = authorizer.run(&server(), Trigger::Connect, &Cancellation::new()).unwrap().unwrap();
    assert_eq!((again.token, web.posts("/token").len()), (token.token, 1));
    authorizer.log_out(&server(), &Cancellation::new()).unwrap();
    assert!(web.posts("/revoke").iter().any(|form| form.contains("token=r&")), "{:?}", web.posts("/revoke"));
    assert_eq!(authorizer.stored(&server()), Ok(None));
    assert_eq!(authorizer.run(&server(), Trigger::Connect, &Cancellation::new()), Ok(None));
    assert!(format!("{authorizer:?}").starts_with("Authorizer { config: Config {"), "{authorizer:?}");
}

#[test]
fn logins_that_fail_say_why() {
    let web = Web::registering();
    let failed = |visit: Visit| {
        let user = User::with([visit]);
        let why = log_in(&authorizer(Config::new("tests"), &web, user.clone())).unwrap_err();
        (why, user.pages().pop().unwrap())
    };
    let (why, page) = failed(("&error=access_denied", Ok(RedirectEnd::Accepted)));
    assert!(why.to_string().contains("refused with `access_denied`"), "{why}");
    assert_eq!(page, RedirectPage::Failed(why.to_string()));
    for (end, expected) in [
        (Ok(RedirectEnd::Cancelled), ErrorKind::Local("cancelled".into())),
        (
            Ok(RedirectEnd::TimedOut),
            ErrorKind::NoRedirect { uri: "http://127.0.0.1:7/callback".into(), forgets_client: false },
        ),
        (Err(io::Error::other("no browser")), ErrorKind::Local("no browser".into())),
    ] {
        assert_eq!(failed(("", end)).0.kind(), &expected);
    }
    assert!(web.posts("/token").is_empty());
}

#[test]
fn what_only_the_application_has_is_asked_of_it() {
    let (config, web, user) = (|| Config::new("tests"), Web::default(), User::agreeing());
    let chosen = authorizer(config().choose_server(true), &web, user.clone());
    log_in(&chosen).unwrap().unwrap();
    let stored = chosen.stored(&server()).unwrap().unwrap();
    assert_eq!((stored.issuer(), stored.client_id()), (SECOND, "client of https://other.test"));
    assert_eq!(user.0.lock().unwrap().choices, [[ISSUER, SECOND]]);

    let client = || ClientCredentials::new("c", ClientAuth::None);
    let config = |grant| config().credentials(client()).grant(grant);
    log_in(&authorizer(config(GrantType::DeviceCode), &web, user.clone())).unwrap().unwrap();
    assert_eq!(user.0.lock().unwrap().codes[0].user_code, "WDJB-MJHT");
    log_in(&authorizer(config(GrantType::Assertion), &web, user.clone())).unwrap().unwrap();
    let audience = ISSUER.into();
    assert_eq!(user.0.lock().unwrap().audiences, [AssertionRequest::Assertion { audience }]);
    assert!(web.posts("/token").last().unwrap().contains("&assertion=assertion&"));
}

#[test]
fn application_without_an_answer_fails_with_the_reason() {
    let (config, web) = (|| Config::new("tests"), Web::default());
    let registered = || config().credentials(ClientCredentials::new("c", ClientAuth::None));
    for (config, expected) in [
        (registered(), "there is no user to ask"),
        (config(), "the client is not registered there and cannot register itself"),
        (registered().grant(GrantType::DeviceCode), "this program cannot show the code of a device login"),
        (registered().grant(GrantType::Assertion), "this program has no assertion"),
    ] {
        // The default choice is the first server.
        let why = refused(config.choose_server(true), &web, NoInteraction);
        assert!(why.contains(expected) && why.contains(ISSUER), "{why}");
    }
}

// covers: AUTH-035
#[test]
fn keys_of_the_client_and_of_proofs_sign() {
    let web = Web::default();
    let key = ClientKey::from_pem(include_str!("../../../tests/keys/p256.pem")).unwrap();
    let auth = ClientAuth::PrivateKeyJwt { algorithm: key.algorithm(), key_id: None };
    let config = Config::new("tests").credentials(ClientCredentials::new("c", auth));
    let config = config.grant(GrantType::ClientCredentials).dpop(DpopMode::Always);
    let why = refused(config.clone(), &web, NoInteraction);
    assert!(why.contains("there is no key of the client"), "{why}");
    let token = log_in(&authorizer(config, &web, NoInteraction).client_key(key)).unwrap().unwrap();
    assert!(token.dpop.is_some());
    let state = web.0.lock().unwrap();
    let (_, form, proof) = state.posts.last().unwrap();
    let assertion = form.split('&').find_map(|part| part.strip_prefix("client_assertion=")).unwrap();
    for signed in [assertion, proof] {
        // 64 bytes, in Base64url.
        assert_eq!(signed.split('.').map(str::len).nth(2), Some(86), "{signed}");
    }
}

/// A record that is due to be renewed.
fn due() -> Secret {
    json!({
        "version": 1, "resource": SERVER, "issuer": ISSUER, "registration": "pre-registered", "client_id": "c",
        "auth_method": "none", "token_endpoint": "https://login.test/token", "access_token": "old",
        "refresh_token": "r0", "issued_at": 0, "renew_at": 0,
    })
    .to_string()
    .into()
}

// covers: AUTH-063
#[test]
fn cancellation_ends_a_flow_unless_it_holds_the_lock() {
    let (web, store, cancelled) = (Web::default(), MemoryStore::new(), Cancellation::new());
    store.save(&TokenRecord::key(&server()), &due()).unwrap();
    let authorizer = authorizer(Config::new("tests"), &web, NoInteraction).store(store);
    // The refresh token is spent once the request is on its way: its successor must be stored.
    web.0.lock().unwrap().cancels = Some(cancelled.clone());
    let token = authorizer.run(&server(), Trigger::Connect, &cancelled).unwrap().unwrap();
    assert_eq!((token.token.expose(), cancelled.is_cancelled()), ("t", true));
    assert_eq!(web.0.lock().unwrap().cancellable, [false]);
    let why = authorizer.run(&server(), Trigger::Connect, &cancelled).unwrap_err();
    assert_eq!(why.kind(), &ErrorKind::Local("cancelled".into()));
    assert!(log_in(&authorizer).is_err());
    assert!(web.0.lock().unwrap().cancellable.ends_with(&[true]), "a login can be cancelled");
}

/// A store of which one operation fails.
struct Broken(MemoryStore, &'static str);

impl Broken {
    fn run<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.1 == operation { Err(StoreError::Other("no disk".into())) } else { run() }
    }
}

impl TokenStore for Broken {
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError> {
        self.run("load", || self.0.load(key))
    }

    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError> {
        self.run("save", || self.0.save(key, text))
    }

    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError> {
        self.run("replace", || self.0.replace(key, old, new))
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.run("remove", || self.0.remove(key))
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        match self.1 {
            "lock" => Err(StoreError::Locked { path: None, wait }),
            _ => self.0.lock(key, wait, cancellation),
        }
    }
}

#[test]
fn store_that_fails_ends_the_flow_at_the_step_of_the_store() {
    for operation in ["load", "replace", "lock"] {
        let store = MemoryStore::new();
        store.save(&TokenRecord::key(&server()), &due()).unwrap();
        let authorizer =
            authorizer(Config::new("tests"), &Web::default(), NoInteraction).store(Broken(store, operation));
        let error = authorizer.run(&server(), Trigger::Connect, &Cancellation::new()).unwrap_err();
        let expected = match operation {
            "lock" => {
                ErrorKind::Locked("the token store was locked by another process or thread for 55s".into())
            }
            _ => ErrorKind::Local("no disk".into()),
        };
        assert_eq!((error.step(), error.kind()), (Step::Store, &expected), "{operation}");
        if operation == "load" {
            let error = authorizer.stored(&server()).unwrap_err();
            assert_eq!(error, Error::local(Step::Store, "https://tools.test", "no disk"));
        }
    }
    let store = Broken(MemoryStore::new(), "save");
    let why = log_in(&authorizer(Config::new("tests"), &Web::registering(), User::agreeing()).store(store));
    assert_eq!(why.unwrap_err().kind(), &ErrorKind::Local("no disk".into()));
}

/// Returns the time of a clock that started when Unix time was less by so many seconds.
fn after(secs: i64) -> u64 {
    let mut clock = FlowClock::start();
    let unix = clock.anchor.unix_secs(Instant::ZERO);
    clock.anchor = Anchor::new(Instant::ZERO, unix.saturating_add_signed(-secs));
    assert_eq!(clock.until(Instant::ZERO), Duration::ZERO);
    clock.now().as_micros() / 1_000_000
}

#[test]
fn clock_follows_unix_time_forward_alone() {
    assert!(after(7_200) >= 7_199);
    for unchanged in [0, 2, -7_200] {
        assert!(after(unchanged) < 5, "{unchanged}");
    }
    // Each second of the system clock may begin between two looks, but not each time.
    let drift = i64::try_from(Clock::MAX_DRIFT).unwrap();
    assert!((0..10).any(|_| after(drift) == 0), "what two clocks may differ by is no sleep");
    let mut clock = FlowClock::start();
    let unix = clock.anchor.unix_secs(Instant::ZERO);
    clock.anchor = Anchor::new(Instant::ZERO, unix - 3_600);
    let ahead = clock.now();
    clock.anchor = Anchor::new(Instant::ZERO, unix);
    assert!(clock.now() >= ahead, "the system clock was set forward and back");
}

/// A receiver of redirects has a clock of its own.
#[test]
fn time_that_was_skipped_does_not_come_back() {
    let clock = FlowClock::start();
    let due = clock.now() + Duration::from_secs(60);
    assert!(clock.until(due) > Duration::from_secs(30));
    clock.advance_to(due);
    assert_eq!((clock.now(), clock.until(due)), (due, Duration::ZERO));
    clock.advance_to(Instant::ZERO);
    assert!(clock.now() >= due);
}
