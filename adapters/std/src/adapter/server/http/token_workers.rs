//! Threads on which tokens are validated, so that no connection waits for another service.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mcp_proto::http::server::{Denial, TokenRequest};
use mcp_proto::server::Identity;

use crate::catch;
use crate::token::TokenValidator;

/// A decision about a token.
pub type TokenOutcome = Result<Arc<Identity>, Denial>;

/// The validator of a server, with the threads on which it may block. All shards share it.
#[derive(Clone)]
pub struct TokenWorkers(Arc<Shared>);

struct Shared {
    validator: Box<dyn TokenValidator>,
    state: Mutex<State>,
    /// Notified when a job arrives.
    arrival: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Takes a decision to the loop.
pub type TokenReply = Box<dyn FnOnce(TokenOutcome) + Send>;

/// A token to validate, and where the decision goes.
struct Job {
    request: TokenRequest,
    reply: TokenReply,
    is_wanted: Arc<AtomicBool>,
}

impl TokenWorkers {
    /// Creates the workers of a validator. Threads are started when tokens wait.
    pub fn new(validator: impl TokenValidator + 'static) -> Self {
        let (validator, state) = (Box::new(validator), Mutex::default());
        Self(Arc::new(Shared { validator, state, arrival: Condvar::new() }))
    }

    /// Decides about a token if that needs no waiting.
    #[must_use]
    pub fn validate_now(&self, request: &TokenRequest) -> Option<TokenOutcome> {
        // The panic hook has reported the panic. A token that causes one is not accepted.
        catch(|| self.0.validator.validate_now(request)).unwrap_or(Some(Err(Denial::invalid_token())))
    }

    /// Removes the tokens whose decision nobody wants any more.
    pub fn discard_unwanted(&self) {
        self.0.lock().jobs.retain(|job| job.is_wanted.load(Ordering::Acquire));
    }

    /// Queues a token, whose decision is passed to `reply`. Clear the returned flag when nobody wants it any more.
    ///
    /// # Errors
    ///
    /// The decision, if too many tokens wait or no thread can be started.
    pub fn submit(&self, request: TokenRequest, reply: TokenReply) -> Result<Arc<AtomicBool>, Denial> {
        let mut state = self.0.lock();
        if state.jobs.len() >= MAX_WAITING {
            return Err(Denial::Unavailable);
        }
        if state.idle <= state.jobs.len() && state.threads < MAX_THREADS {
            let shared = self.0.clone();
            let started = thread::Builder::new().name("mcp-tokens".into()).spawn(move || shared.work());
            match started {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(Denial::Unavailable),
                Err(_) => {}
            }
        }
        let is_wanted = Arc::new(AtomicBool::new(true));
        state.jobs.push_back(Job { request, reply, is_wanted: is_wanted.clone() });
        drop(state);
        self.0.arrival.notify_one();
        Ok(is_wanted)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Validates tokens until there are none for a while.
    fn work(&self) {
        while let Some(Job { request, reply, .. }) = self.next_job() {
            let outcome = catch(|| self.validator.validate(&request));
            let outcome = outcome.unwrap_or_else(|_| Err(Denial::invalid_token()));
            reply(outcome);
        }
    }

    /// Waits for a job. Returns `None` if the thread is to end.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.jobs.is_empty() {
            state.idle += 1;
            let (guard, _) = self
                .arrival
                .wait_timeout_while(state, MAX_IDLE, |state| state.jobs.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
        }
        let job = state.jobs.pop_front();
        state.threads -= usize::from(job.is_none());
        job
    }
}

impl fmt::Debug for TokenWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWorkers").finish_non_exhaustive()
    }
}

/// Maximum number of tokens that wait for a thread; a further one is answered with 503.
const MAX_WAITING: usize = 256;
/// Maximum number of tokens that are validated at a time, apart from those that need no waiting.
const MAX_THREADS: usize = 8;
/// Time after which a thread without work ends.
const MAX_IDLE: Duration = Duration::from_secs(10);
