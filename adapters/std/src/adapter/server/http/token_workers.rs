//! Threads on which tokens are validated, so that no connection waits for another service.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mcp_proto::http::server::{Denial, ExchangeId, TokenRequest};
use mcp_proto::server::Identity;

use super::shards::ShardMessage;
use crate::adapter::sync::{Inbox, Sender};
use crate::catch;
use crate::token::TokenValidator;

/// A decision about a token.
pub(super) type TokenOutcome = Result<Arc<Identity>, Denial>;

/// The validator of a server, with the threads on which it may block. All shards share it.
#[derive(Clone)]
pub(super) struct TokenWorkers(Arc<Shared>);

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

/// A token to validate, and the shard and the exchange to which the decision goes.
pub(super) struct Job {
    pub(super) request: TokenRequest,
    pub(super) exchange: ExchangeId,
    pub(super) shard: Sender<ShardMessage>,
}

impl TokenWorkers {
    pub(super) fn new(validator: impl TokenValidator + 'static) -> Self {
        let (validator, state) = (Box::new(validator), Mutex::default());
        Self(Arc::new(Shared { validator, state, arrival: Condvar::new() }))
    }

    /// Decides about a token if that needs no waiting.
    pub(super) fn validate_now(&self, request: &TokenRequest) -> Option<TokenOutcome> {
        // The panic hook has reported the panic. A token that causes one is not accepted.
        catch(|| self.0.validator.validate_now(request)).unwrap_or(Some(Err(Denial::invalid_token())))
    }

    /// Removes the tokens of a shard for which nobody waits any more: `waits` returns whether an exchange does.
    pub(super) fn discard(&self, shard: &Inbox<ShardMessage>, waits: impl Fn(ExchangeId) -> bool) {
        self.0.lock().jobs.retain(|job| !job.shard.is_sender_of(shard) || waits(job.exchange));
    }

    /// Queues a token.
    ///
    /// # Errors
    ///
    /// The decision, if too many tokens wait or no thread can be started.
    pub(super) fn submit(&self, job: Job) -> Result<(), Denial> {
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
        state.jobs.push_back(job);
        drop(state);
        self.0.arrival.notify_one();
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Validates tokens until there are none for a while.
    fn work(&self) {
        while let Some(Job { request, exchange, shard }) = self.next_job() {
            let outcome = catch(|| self.validator.validate(&request));
            let outcome = outcome.unwrap_or_else(|_| Err(Denial::invalid_token()));
            // Bounded by the tokens that wait. The loop may have ended.
            let _ = shard.send_unbounded(ShardMessage::Token(exchange, outcome));
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
