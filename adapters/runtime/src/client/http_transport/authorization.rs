//! The authorization of a connection: challenges are answered on a thread of their own, proofs are signed here.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::task::Waker;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::{io, thread};

use mcp_auth::client::{AccessToken, DpopProofs, Error, Registration, Secret, Step, Trigger};
use mcp_proto::http::client::{Challenge, ChallengeCause, Client, Credential, ExchangeId, ProofRequest, Url};
use mcp_proto::{Anchor, DeprecatedFeature, Diagnostic, Instant};

use mcp_auth::client::{Authorizer, Cancellation};
use mcp_std::Clock;

type Outcome = Result<Option<AccessToken>, Error>;

/// The authorization of one connection.
#[derive(Debug)]
pub(super) struct Authorization {
    authorizer: Authorizer,
    server: Url,
    /// The token that was used last.
    token: Option<AccessToken>,
    /// Of the tokens that are bound to a key: the one in use, and the one before, with which requests may wait for a proof.
    proofs: Vec<(Secret, DpopProofs)>,
    /// Unix time as the credential of that token has it.
    anchor: Anchor,
    running: Option<RunningFlow>,
    /// Ends with the connection.
    cancellation: Cancellation,
    /// Whether a token of a client that registered itself was reported.
    has_reported_registration: bool,
    /// A note about the last token, not reported yet.
    note: Option<&'static str>,
}

#[derive(Debug)]
struct RunningFlow {
    exchange: ExchangeId,
    /// Whether the flow only renews a credential that may still be good.
    is_renewal: bool,
    outcome: Receiver<Outcome>,
}

/// Wakes the connection when it is dropped, so that a panic of the flow is noticed, too.
struct Notify {
    sender: Option<Sender<Outcome>>,
    waker: Waker,
}

impl Drop for Notify {
    fn drop(&mut self) {
        // Before the wake-up, so that the connection finds the end of the channel.
        self.sender = None;
        self.waker.wake_by_ref();
    }
}

impl Authorization {
    pub(super) fn new(authorizer: Authorizer, server: Url) -> Self {
        let cancellation = Cancellation::new();
        Self {
            authorizer,
            server,
            token: None,
            proofs: Vec::new(),
            anchor: Anchor::default(),
            running: None,
            cancellation,
            has_reported_registration: false,
            note: None,
        }
    }

    /// Reports what a login had to assume, and once per connection that the client of the token had registered itself,
    /// which is deprecated (AUTH-018).
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn poll_diagnostic(&mut self) -> Option<Diagnostic> {
        if let Some(note) = self.note.take() {
            return Some(Diagnostic::Http(String::from(note)));
        }
        let is_dynamic = self.token.as_ref().is_some_and(|token| token.registration == Registration::Dynamic);
        if !is_dynamic || self.has_reported_registration {
            return None;
        }
        self.has_reported_registration = true;
        Some(Diagnostic::DeprecatedFeature { feature: DeprecatedFeature::DynamicClientRegistration })
    }

    /// Answers challenges and signs proofs at `now`. Returns whether the client has something new to send.
    pub(super) fn advance(
        &mut self,
        client: &mut Client,
        now: Instant,
        clock: &Clock,
        waker: impl FnMut() -> io::Result<Waker>,
    ) -> bool {
        // First, so that the outcome of a flow answers the challenge that is open now.
        let mut has_output = self.start_flow(client, now, clock, waker);
        has_output |= self.finish_flow(client, now, clock);
        while let Some(request) = client.authorization().poll_proof() {
            match self.prove(now, &request) {
                Ok(proof) => client.authorization().handle_proof(now, request.exchange, &proof),
                Err(why) => client.authorization().fail_proof(now, request.exchange, &why),
            }
            has_output = true;
        }
        has_output
    }

    fn prove(&mut self, now: Instant, request: &ProofRequest) -> Result<String, String> {
        let is_its = |(token, _): &&mut (Secret, DpopProofs)| token.expose() == request.token();
        let Some((_, proofs)) = self.proofs.iter_mut().find(is_its) else {
            return Err(String::from("the token has no key"));
        };
        let nonce = request.nonce.as_deref();
        let sign = proofs.begin(now, request.method, &request.url, nonce, request.token());
        let signature = self.authorizer.sign(&sign)?;
        Ok(sign.finish(&signature))
    }

    /// Makes the credential anew if Unix time has jumped: the machine slept, which the monotonic clock does not see, or
    /// its clock was set. Otherwise an expired token would be sent, with a proof of yesterday.
    pub(super) fn follow_clock(&mut self, client: &mut Client, now: Instant, clock: &Clock) {
        let Some(token) = &self.token else { return };
        let anchor = clock.anchor();
        if anchor.unix_secs(now).abs_diff(self.anchor.unix_secs(now)) <= Clock::MAX_DRIFT {
            return;
        }
        let (token, before) = (token.clone(), self.anchor);
        let made = self.credential(token, clock);
        let set = made.map(|(made, proofs)| (client.authorization().set_credential(now, made), proofs));
        if let Ok((Ok(()), proofs)) = set {
            self.keep(proofs);
        } else {
            // It is refused while a challenge is open, whose answer may bring no other credential: try again then.
            self.anchor = before;
        }
    }

    /// Starts a flow for the next challenge, if there is one. Returns whether the challenge was answered at once.
    fn start_flow(
        &mut self,
        client: &mut Client,
        now: Instant,
        clock: &Clock,
        mut waker: impl FnMut() -> io::Result<Waker>,
    ) -> bool {
        let Some(challenge) = client.authorization().poll_challenge() else { return false };
        let exchange = challenge.exchange;
        if let Some(running) = &mut self.running {
            // The exchange that asked first has ended; the user who is logging in need not do so twice.
            running.exchange = exchange;
            return false;
        }
        let started = waker().and_then(|waker| self.spawn(challenge, waker));
        if let Err(error) = started {
            let server = self.server.origin().to_string();
            self.answer(
                client,
                now,
                clock,
                exchange,
                Err(Error::local(Step::Challenge, server, error.to_string())),
            );
            return true;
        }
        false
    }

    fn spawn(&mut self, challenge: Challenge, waker: Waker) -> io::Result<()> {
        let (sender, outcome) = channel();
        let exchange = challenge.exchange;
        let is_renewal = challenge.cause == ChallengeCause::Due;
        let trigger = self.trigger(challenge);
        let (authorizer, server) = (self.authorizer.clone(), self.server.clone());
        let cancellation = self.cancellation.clone();
        let notify = Notify { sender: Some(sender), waker };
        thread::Builder::new().name(String::from("mcp-authorization")).spawn(move || {
            let outcome = authorizer.run(&server, trigger, &cancellation);
            if let Some(sender) = &notify.sender {
                // The connection may have ended.
                let _ = sender.send(outcome);
            }
        })?;
        self.running = Some(RunningFlow { exchange, is_renewal, outcome });
        Ok(())
    }

    fn trigger(&self, challenge: Challenge) -> Trigger {
        let challenges = challenge.challenges;
        match (challenge.cause, self.token.as_ref().map(|token| token.token.clone())) {
            (ChallengeCause::Due, None) => Trigger::Connect,
            (ChallengeCause::Due, Some(token)) => Trigger::Due(token),
            (ChallengeCause::InsufficientScope, Some(rejected)) => {
                Trigger::InsufficientScope { challenges, rejected }
            }
            (_, rejected) => Trigger::Unauthorized { challenges, rejected },
        }
    }

    /// Takes the outcome of the flow, if it has ended. Returns whether it has.
    fn finish_flow(&mut self, client: &mut Client, now: Instant, clock: &Clock) -> bool {
        let Some(running) = &self.running else { return false };
        let (exchange, is_renewal) = (running.exchange, running.is_renewal);
        let outcome = match running.outcome.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                let server = self.server.origin().to_string();
                Err(Error::local(Step::Challenge, server, "the authorization panicked"))
            }
        };
        self.running = None;
        match outcome {
            // The server decides whether the old credential is still good; if not, the next flow tells why.
            Err(_) if is_renewal => self.answer(client, now, clock, exchange, Ok(None)),
            outcome => self.answer(client, now, clock, exchange, outcome),
        }
        true
    }

    fn answer(
        &mut self,
        client: &mut Client,
        now: Instant,
        clock: &Clock,
        exchange: ExchangeId,
        outcome: Outcome,
    ) {
        let mut authorization = client.authorization();
        // The challenge may have been withdrawn in the meantime: the exchange that asked was cancelled.
        let _ = match outcome.and_then(|token| token.map(|token| self.credential(token, clock)).transpose()) {
            Ok(Some((credential, proofs))) => authorization
                .authorize(now, exchange, credential.clone())
                .or_else(|_| authorization.set_credential(now, credential))
                .map(|()| self.keep(proofs)),
            Ok(None) => authorization.refuse(now, exchange),
            Err(error) => authorization.fail(now, exchange, &error),
        };
    }

    /// Keeps the proofs of a token that the client has taken. Those of one that it has refused would be false.
    fn keep(&mut self, proofs: Option<(Secret, DpopProofs)>) {
        let Some(new) = proofs else { return };
        self.proofs.retain(|(token, _)| *token != new.0);
        self.proofs.insert(0, new);
        self.proofs.truncate(2);
    }

    /// Returns the credential of a token, with its proofs if it is bound to a key.
    fn credential(
        &mut self,
        token: AccessToken,
        clock: &Clock,
    ) -> Result<(Credential, Option<(Secret, DpopProofs)>), Error> {
        let failed = |why: String| Error::local(Step::Token, self.server.origin().to_string(), why);
        let anchor = clock.anchor();
        self.anchor = anchor;
        let renew_at = token.renew_at.map(|at| {
            let now = clock.now();
            now + core::time::Duration::from_secs(at.saturating_sub(anchor.unix_secs(now)))
        });
        let (credential, proofs) = match token.dpop.clone() {
            Some(key) => {
                let secret = mcp_std::entropy::seed().map_err(|error| failed(error.to_string()))?;
                let proofs = DpopProofs::new(key, anchor, secret, clock.now());
                (Credential::dpop(token.token.expose()), Some((token.token.clone(), proofs)))
            }
            None => (Credential::bearer(token.token.expose()), None),
        };
        let credential = credential.map_err(|error| failed(error.to_string()))?;
        if token.is_server_its_issuer {
            self.note = Some(OWN_ISSUER);
        }
        self.token = Some(token);
        Ok((credential.renew_at(renew_at), proofs))
    }
}

/// The note about a server of 2025-03-26 without metadata (AUTH-013).
const OWN_ISSUER: &str = "the server has no protected resource metadata and counts as its own authorization server, as in 2025-03-26";

impl Drop for Authorization {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use mcp_auth::client::{Config, TokenRecord};
    use mcp_proto::VersionSet;
    use mcp_proto::http::client::{Config as Http, ConnectionPool, PoolLimits};

    use super::*;
    use mcp_auth::client::{MemoryStore, TokenStore as _};

    /// Returns an authorizer that has a token for a server; the token is renewed in an hour.
    fn stored(server: &Url, unix_secs: u64) -> Authorizer {
        let store = MemoryStore::new();
        let record = alloc::format!(
            r#"{{"version":1,"resource":"https://mcp.test/mcp","issuer":"https://as.test","registration":"dynamic",
            "client_id":"c","auth_method":"none","token_endpoint":"https://as.test/token","requested":"","granted":"",
            "access_token":"s3cret","renew_at":{}}}"#,
            unix_secs + 3_600
        );
        store.save(&TokenRecord::key(server), &record.into()).unwrap();
        Authorizer::new(Config::new("test")).store(store)
    }

    /// Returns the cause of the challenge before the first request, `slept` seconds after the token was stored.
    fn first_challenge(slept: u64) -> Option<ChallengeCause> {
        let (clock, server) = (Clock::start(), Url::parse("https://mcp.test/mcp").unwrap());
        let authorizer = stored(&server, clock.anchor().unix_secs(clock.now()));
        let mut token = authorizer.run(&server, Trigger::Connect, &Cancellation::new()).unwrap().unwrap();
        let engine = mcp_proto::client::Config::new("test", "1").versions(VersionSet::MODERN);
        let http = Http::new("https://mcp.test/mcp").unwrap().handle_challenges(true);
        let mut client = Client::new(Arc::new(engine), Arc::new(http), clock.now());
        let mut authorization = Authorization::new(authorizer, server);
        let (credential, _) = authorization.credential(token.clone(), &clock).unwrap();
        client.authorization().set_credential(clock.now(), credential).unwrap();
        // The machine sleeps: Unix time goes on, and the monotonic clock stands still. Instead of the clock of this machine
        // everything before is set back.
        token.renew_at = token.renew_at.map(|at| at - slept);
        authorization.token = Some(token);
        authorization.anchor = Anchor::new(clock.now(), clock.anchor().unix_secs(clock.now()) - slept);
        authorization.follow_clock(&mut client, clock.now(), &clock);
        let _ = ConnectionPool::new(PoolLimits::default()).poll_event(clock.now(), &mut client);
        client.authorization().poll_challenge().map(|challenge| challenge.cause)
    }

    #[test]
    fn token_that_expired_while_the_machine_slept_is_renewed() {
        assert_eq!(first_challenge(7_200), Some(ChallengeCause::Due));
        for slept in [0, 3, 60, 3_000] {
            assert_eq!(first_challenge(slept), None, "{slept} s");
        }
    }

    /// Returns the key and the token of the proof of the next request.
    fn next_proof(authorization: &mut Authorization, client: &mut Client, now: Instant) -> (String, String) {
        let request = client.authorization().poll_proof().expect("a request that waits");
        let proof = authorization.prove(now, &request).expect("a proof");
        let head = proof.split('.').next().unwrap_or_default();
        (head.to_owned(), request.token().to_owned())
    }

    #[test]
    fn request_that_waits_while_its_token_is_renewed_is_proved_by_its_own_key() {
        let (clock, server) = (Clock::start(), Url::parse("https://mcp.test/mcp").unwrap());
        let authorizer = stored(&server, clock.anchor().unix_secs(clock.now()));
        let token = authorizer.run(&server, Trigger::Connect, &Cancellation::new()).unwrap().unwrap();
        let engine = mcp_proto::client::Config::new("test", "1").versions(VersionSet::MODERN);
        let http = Http::new("https://mcp.test/mcp").unwrap().handle_challenges(true);
        let mut client = Client::new(Arc::new(engine), Arc::new(http), clock.now());
        let mut authorization = Authorization::new(authorizer, server);
        let mut heads = Vec::new();
        let mut pool = ConnectionPool::new(PoolLimits::default());
        for secret in ["t0ken-1", "t0ken-2"] {
            let mut token = token.clone();
            token.token = secret.into();
            token.dpop = Some(mcp_auth::client::generate_dpop_key().unwrap());
            let (credential, proofs) = authorization.credential(token, &clock).unwrap();
            client.authorization().set_credential(clock.now(), credential).unwrap();
            authorization.keep(proofs);
            if heads.is_empty() {
                let _ = pool.poll_event(clock.now(), &mut client);
            }
            heads.push(authorization.proofs[0].0.expose().to_owned());
        }
        let (head, token) = next_proof(&mut authorization, &mut client, clock.now());
        assert_eq!(
            (token.as_str(), &heads[..]),
            ("t0ken-1", &["t0ken-1".to_owned(), "t0ken-2".to_owned()][..])
        );
        let first =
            &mut authorization.proofs.iter_mut().find(|(token, _)| token.expose() == "t0ken-1").unwrap().1;
        let own = first.begin(clock.now(), "POST", &authorization.server, None, "t0ken-1");
        assert_eq!(own.finish(b"").split('.').next(), Some(head.as_str()));
    }

    // covers: AUTH-018
    #[test]
    fn token_of_a_client_that_registered_itself_is_reported_once() {
        let (clock, server) = (Clock::start(), Url::parse("https://mcp.test/mcp").unwrap());
        let authorizer = stored(&server, clock.anchor().unix_secs(clock.now()));
        let token = authorizer.run(&server, Trigger::Connect, &Cancellation::new()).unwrap().unwrap();
        let with = |registration: Registration| {
            let mut authorization = Authorization::new(authorizer.clone(), server.clone());
            assert!(authorization.poll_diagnostic().is_none());
            let mut token = token.clone();
            token.registration = registration;
            for _ in 0..2 {
                authorization.credential(token.clone(), &clock).unwrap();
            }
            [authorization.poll_diagnostic(), authorization.poll_diagnostic()]
        };
        let feature = DeprecatedFeature::DynamicClientRegistration;
        assert_eq!(with(token.registration), [Some(Diagnostic::DeprecatedFeature { feature }), None]);
        assert_eq!(with(Registration::PreRegistered), [None, None]);
        assert_eq!(with(Registration::MetadataDocument), [None, None]);
    }
}
