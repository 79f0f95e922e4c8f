//! A client that uses the stored tokens of a server, and asks nobody. It can stop at a step of its authorization.

extern crate alloc;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::env;
use std::process::ExitCode;
use std::thread;

use mcp_auth::client::{
    Authorizer, Cancellation, Fetcher, FileStore, HttpFetcher, NoInteraction, StoreError, StoreLock,
    TokenStore,
};
use mcp_blocking::Client;
use mcp_oauth::{Config, Error as AuthorizationError, Fetch, FetchFailure, FetchResponse, Secret};
use mcp_proto::CallOptions;
use mcp_proto::client::Config as ClientConfig;
use serde_json::json;

const USAGE: &str = "\
usage: token-user --store FILE [OPTION...] URL

Calls the tool `whoami` of a protected server.

  --store FILE    the token store
  --stop-at STEP  stop at this step of a refresh until the process is killed
  --again-ms MS   call once more after this time

The steps: lock (before the lock is taken), locked, request (before it is sent), response (it is here), save (before the new
tokens are stored), saved.

Prints a JSON line for each step and for each call, and one if a user has to log in. The exit code is then 6.
";

/// The steps of a refresh: each is reported, and one may be the last.
#[derive(Clone)]
struct Steps {
    stop_at: Option<Arc<str>>,
    /// Whether a token request was answered.
    is_answered: Arc<AtomicBool>,
}

impl Steps {
    /// Reports a step, and stops there if that was asked for.
    fn pass(&self, step: &str) {
        println!("{}", json!({"step": step}));
        while self.stop_at.as_deref() == Some(step) {
            thread::park();
        }
    }
}

/// A store that reports the steps at it.
struct SteppedStore {
    inner: FileStore,
    steps: Steps,
}

impl TokenStore for SteppedStore {
    fn load(&self, key: &str) -> Result<Option<Secret>, StoreError> {
        self.inner.load(key)
    }

    fn save(&self, key: &str, text: &Secret) -> Result<(), StoreError> {
        self.inner.save(key, text)
    }

    fn replace(&self, key: &str, old: Option<&Secret>, new: Option<&Secret>) -> Result<bool, StoreError> {
        // The tokens of a refresh follow their response; before it the record is marked.
        let is_answered = self.steps.is_answered.load(Ordering::Relaxed);
        if is_answered && new.is_some() {
            self.steps.pass("save");
        }
        let is_replaced = self.inner.replace(key, old, new)?;
        if is_answered && new.is_some() {
            self.steps.pass("saved");
        }
        Ok(is_replaced)
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.inner.remove(key)
    }

    fn lock(&self, key: &str, wait: Duration, cancellation: &Cancellation) -> Result<StoreLock, StoreError> {
        self.steps.is_answered.store(false, Ordering::Relaxed);
        self.steps.pass("lock");
        let lock = self.inner.lock(key, wait, cancellation)?;
        self.steps.pass("locked");
        Ok(lock)
    }
}

/// A fetcher that reports token requests and their responses.
struct SteppedFetcher {
    inner: HttpFetcher,
    steps: Steps,
}

impl Fetcher for SteppedFetcher {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        let is_token_request = fetch.method == "POST" && fetch.url.target().ends_with("/token");
        if !is_token_request {
            return self.inner.fetch(fetch);
        }
        self.steps.pass("request");
        let response = self.inner.fetch(fetch);
        self.steps.is_answered.store(true, Ordering::Relaxed);
        self.steps.pass("response");
        response
    }
}

/// Command-line arguments.
struct UserArgs {
    store: String,
    steps: Steps,
    again: Option<Duration>,
    url: String,
}

impl UserArgs {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let (mut store, mut stop_at, mut again, mut urls) = (None, None, None, Vec::new());
        while let Some(word) = words.next() {
            match &*word {
                "--store" => store = Some(words.next()?),
                "--stop-at" => stop_at = Some(words.next()?.into()),
                "--again-ms" => again = Some(Duration::from_millis(words.next()?.parse().ok()?)),
                _ if word.starts_with("--") => return None,
                _ => urls.push(word),
            }
        }
        let url = urls.pop().filter(|_| urls.is_empty())?;
        Some(Self { store: store?, steps: Steps { stop_at, is_answered: Arc::default() }, again, url })
    }

    fn authorizer(&self) -> Authorizer {
        let steps = || self.steps.clone();
        Authorizer::new(Config::new("tests").interactive(false))
            .store(SteppedStore { inner: FileStore::new(&self.store), steps: steps() })
            .fetcher(SteppedFetcher { inner: HttpFetcher::new(), steps: steps() })
            .interaction(NoInteraction)
    }

    fn run(&self) -> Result<(), mcp_blocking::Error> {
        let options = Client::options(ClientConfig::new("token-user", "0")).no_cache();
        let client = options.authorize(self.authorizer()).connect_url(&self.url)?;
        for pause in [Some(Duration::ZERO), self.again].into_iter().flatten() {
            thread::sleep(pause);
            let params = json!({"name": "whoami", "arguments": {}});
            let result = client.request("tools/call", &params, &CallOptions::new())?;
            let result: serde_json::Value = serde_json::from_str(result.as_str()).expect("a result is JSON");
            println!("{}", json!({"step": "call", "text": result["content"][0]["text"]}));
        }
        client.close().map(drop)
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Some(args) = UserArgs::parse(env::args().skip(1)) else {
        eprint!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    match args.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.authorization().is_some_and(AuthorizationError::is_login_required) => {
            println!("{}", json!({"step": "login-required", "error": error.to_string()}));
            Ok(ExitCode::from(6))
        }
        Err(error) => Err(error.into()),
    }
}
