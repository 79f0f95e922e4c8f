//! The authorization of a client: challenges, the exchanges held for them, credentials, and proofs of possession.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::binding::Client;
use super::config::Credential;
use super::exchange::{Challenge, ExchangeId, ExchangePurpose};
use super::exchange_table::ClientExchange;
use super::proof::ProofRequest;
use crate::error::{AuthChallenge, AuthorizationError, HttpError, HttpResponse, UseError};
use crate::head::is_token;
use crate::time::Instant;

/// The challenges of a server, and the answers of the application to them.
///
/// There is one challenge at a time. While it is open, the exchanges that need another credential are held.
#[derive(Debug)]
pub struct Authorization<'c> {
    client: &'c mut Client,
}

impl Client {
    /// Returns the challenges of the server, and the answers to them.
    pub const fn authorization(&mut self) -> Authorization<'_> {
        Authorization { client: self }
    }
}

impl Authorization<'_> {
    /// Returns the next challenge if [`Config::handle_challenges`](super::Config::handle_challenges) is set.
    pub fn poll_challenge(&mut self) -> Option<Challenge> {
        self.client.credentials.poll_challenge()
    }

    /// Answers a challenge with a credential.
    ///
    /// All held exchanges are sent with it, and all later ones use it.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    pub fn authorize(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        credential: Credential,
    ) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        self.client.credentials.replace(credential);
        for (mut held, since, answer) in self.client.exchanges.take_held() {
            // Both have limits of their own: a new credential can be due as soon as it comes.
            match answer {
                Some(_) => held.retries.credentials += 1,
                None => held.retries.renewals += 1,
            }
            self.resend_held(held, since);
        }
        Ok(())
    }

    /// Uses a credential from now on, without a challenge.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if a challenge is open, which is to be answered instead.
    pub fn set_credential(&mut self, now: Instant, credential: Credential) -> Result<(), UseError> {
        self.client.tick(now);
        if self.client.exchanges.first_held().is_some() {
            return Err(UseError::Stale);
        }
        self.client.credentials.replace(credential);
        Ok(())
    }

    /// Answers a challenge without a credential.
    ///
    /// Held exchanges that the server refused fail. Those that were not sent yet, because the credential is due, are
    /// sent with the one that there is.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        self.refuse_held();
        self.client.finish_closing();
        Ok(())
    }

    /// Answers a challenge with the reason why there is no credential; all held exchanges fail with it.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if this exchange has no open challenge.
    pub fn fail(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        error: impl Into<AuthorizationError>,
    ) -> Result<(), UseError> {
        self.resolve(now, exchange)?;
        let error = error.into();
        for (held, _, refusal) in self.client.exchanges.take_held() {
            self.client.exchange_failed(held, HttpError::Authorization { error: error.clone(), refusal });
        }
        self.client.finish_closing();
        Ok(())
    }

    /// Returns the next proof to make, for a [credential that is bound to a key](Credential::dpop).
    ///
    /// The request is sent once it has its proof. Answer with [`handle_proof`](Self::handle_proof) or
    /// [`fail_proof`](Self::fail_proof).
    pub fn poll_proof(&mut self) -> Option<ProofRequest> {
        self.client.credentials.proofs.poll()
    }

    /// Takes a proof: a JWT in its compact form. With one that no header field can have, the exchange fails as by
    /// [`fail_proof`](Self::fail_proof).
    pub fn handle_proof(&mut self, now: Instant, exchange: ExchangeId, proof: &str) {
        self.client.tick(now);
        let Some(mut request) = self.client.credentials.proofs.take(exchange) else { return };
        if !request.fields.push(crate::fields::DPOP, proof.as_bytes()) {
            self.fail_unsent(exchange, "the proof has characters that are not allowed in a field");
        } else if self.client.exchanges.get(exchange.0).is_some() {
            // Otherwise it was cancelled in the meantime.
            self.client.exchanges.push_request(request);
        }
    }

    /// Takes notice that a proof cannot be made; the exchange fails, as one that was not sent.
    pub fn fail_proof(&mut self, now: Instant, exchange: ExchangeId, reason: &str) {
        self.client.tick(now);
        if self.client.credentials.proofs.take(exchange).is_some() {
            self.fail_unsent(exchange, reason);
        }
    }

    fn fail_unsent(&mut self, exchange: ExchangeId, reason: &str) {
        if let Some(x) = self.client.remove(exchange.0) {
            self.client.exchange_failed(x, HttpError::Unreachable { reason: reason.into() });
            self.client.finish_closing();
        }
    }

    // ---- held exchanges --------------------------------------------------------------------------------------

    /// Holds an exchange that the server refused until there is a credential; it fails if none will come.
    pub(super) fn hold_refused(&mut self, mut x: ClientExchange, answer: HttpResponse) {
        let may_repeat = x.retries.credentials < self.client.config.max_credentials;
        if may_repeat && x.credential_generation != self.client.credentials.generation() {
            // A newer credential is available already.
            x.retries.credentials += 1;
            self.client.resend(x);
        } else if may_repeat && self.may_wait(&x) {
            self.hold(x, Some(Box::new(answer)));
        } else {
            self.client.exchange_failed(x, HttpError::Response(answer));
        }
    }

    /// Holds an exchange that was not sent if the credential is due; returns it if it can be sent.
    #[inline]
    pub(super) fn hold_due(&mut self, x: ClientExchange) -> Option<ClientExchange> {
        if !self.client.credentials.is_due(self.client.now) || !self.may_wait(&x) {
            return Some(x);
        }
        if x.retries.renewals > 0 {
            // The new credential is due already: the server has to decide, or this would go on without end.
            return Some(x);
        }
        self.hold(x, None);
        None
    }

    /// Returns whether an exchange may wait for the application.
    fn may_wait(&self, x: &ClientExchange) -> bool {
        self.client.config.handles_challenges
            && !self.client.is_closing
            && !matches!(x.purpose(), ExchangePurpose::DeleteSession)
    }

    /// Holds an exchange until the application answers a challenge. `answer` is the refusal if it was sent.
    fn hold(&mut self, x: ClientExchange, answer: Option<Box<HttpResponse>>) {
        let client = &mut *self.client;
        if let Some(id) = x.request_id() {
            // A login can take longer than the time-out of the call, which therefore stands still.
            client.engine.exchanges().pause_request(client.now, id);
        }
        // The application may have to ask a user.
        let due = client.now + client.engine.config().effective_limits().input_timeout;
        client.exchanges.insert(x.held(client.now, due, answer));
        client.credentials.raise_challenge(&mut client.exchanges);
    }

    /// Ends the wait for a credential: refused exchanges fail, others are sent with the one that is due.
    pub(super) fn refuse_held(&mut self) {
        // This comes first. A credential that is still due would hold the exchanges again.
        self.client.credentials.keep_due();
        for (held, since, answer) in self.client.exchanges.take_held() {
            match answer {
                Some(answer) => self.client.exchange_failed(held, HttpError::Response(*answer)),
                None => self.resend_held(held, since),
            }
        }
    }

    fn resolve(&mut self, now: Instant, exchange: ExchangeId) -> Result<(), UseError> {
        self.client.tick(now);
        self.client.credentials.resolve(exchange)
    }

    fn resend_held(&mut self, held: ClientExchange, since: Instant) {
        if let Some(id) = held.request_id() {
            let time = self.client.now.saturating_duration_since(since);
            self.client.engine.exchanges().resume_request(self.client.now, id, time);
        }
        self.client.resend(held);
    }
}

// A strict parser of `WWW-Authenticate`, the challenges of a 401 or 403 (RFC 9110, 11.6.1).
//
// The list ends at the first syntax error; a challenge is never guessed.

/// Largest number of challenges kept of one response.
const MAX_CHALLENGES: usize = 8;
/// Largest number of parameters kept of one challenge.
const MAX_PARAMS: usize = 16;
/// Length of the longest field that is parsed, in bytes.
const MAX_FIELD: usize = 8 << 10;

/// Returns all challenges in these values of `WWW-Authenticate` fields, in order (RFC 9110, 11.6.1).
///
/// A value longer than 8 KiB is skipped, and the rest of a value after a malformed challenge.
pub fn parse_challenges<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<AuthChallenge> {
    let mut found = Vec::new();
    for value in values {
        if value.len() <= MAX_FIELD {
            // Human-readable texts may have any encoding.
            parse_field(&String::from_utf8_lossy(value), &mut found);
        }
    }
    found
}

struct ChallengeParser<'a> {
    rest: &'a str,
}

impl<'a> ChallengeParser<'a> {
    fn spaces(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.len() < before
    }

    fn eat(&mut self, byte: u8) -> bool {
        match self.rest.strip_prefix(char::from(byte)) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|b| !fits(b)).unwrap_or(self.rest.len());
        // Accepted bytes are ASCII, so the cut is between characters.
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn token(&mut self) -> Option<&'a str> {
        let token = self.take(|b| is_token(&[b]));
        (!token.is_empty()).then_some(token)
    }

    fn quoted(&mut self) -> Option<String> {
        let mut value = String::new();
        let mut chars = self.rest.char_indices();
        loop {
            match chars.next()? {
                (at, '"') => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(value);
                }
                (_, '\\') => value.push(chars.next()?.1),
                (_, c) => value.push(c),
            }
        }
    }

    /// Parses `name = value`; returns `None` and consumes nothing if there is something else.
    fn param(&mut self) -> Option<(String, String)> {
        let mut ahead = ChallengeParser { rest: self.rest };
        let name = ahead.token()?;
        ahead.spaces();
        if !ahead.eat(b'=') {
            return None;
        }
        ahead.spaces();
        let value = if ahead.eat(b'"') { ahead.quoted()? } else { ahead.token()?.into() };
        // A second `=` is padding, so this is a token68 and not a parameter.
        if ahead.rest.starts_with('=') {
            return None;
        }
        self.rest = ahead.rest;
        Some((name.to_ascii_lowercase(), value))
    }
}

fn parse_field(text: &str, found: &mut Vec<AuthChallenge>) {
    let mut parser = ChallengeParser { rest: text };
    loop {
        while parser.spaces() || parser.eat(b',') {}
        if parser.rest.is_empty() || found.len() >= MAX_CHALLENGES {
            return;
        }
        let Some(scheme) = parser.token() else { return };
        let mut challenge = AuthChallenge::new(scheme.into());
        let spaced = parser.spaces();
        if spaced {
            parse_params(&mut parser, &mut challenge);
        }
        // Behind a challenge only a comma or the end is valid. Anything else ends the list, so that nothing is
        // guessed.
        let over = parser.rest.is_empty() || parser.rest.starts_with(',');
        found.push(challenge);
        if !over {
            return;
        }
    }
}

fn parse_params(parser: &mut ChallengeParser<'_>, challenge: &mut AuthChallenge) {
    // `Basic dG9rZW4=`: a token68 in place of parameters, which is skipped.
    let mut ahead = ChallengeParser { rest: parser.rest };
    ahead.take(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/'));
    ahead.take(|b| b == b'=');
    ahead.spaces();
    // A parameter has a value there.
    if ahead.rest.is_empty() || ahead.rest.starts_with(',') {
        parser.rest = ahead.rest;
        return;
    }
    while let Some((name, value)) = parser.param() {
        // Of equal names the first one counts.
        if challenge.params.len() < MAX_PARAMS && challenge.param(&name).is_none() {
            challenge.params.push((name, value));
        }
        parser.spaces();
        let mut ahead = ChallengeParser { rest: parser.rest };
        let mut comma = false;
        // A comma also separates challenges, so only a name with `=` behind it is one more parameter.
        while ahead.spaces() || ahead.eat(b',') {
            comma = true;
        }
        if !comma || ahead.peek_param().is_none() {
            return;
        }
        parser.rest = ahead.rest;
    }
}

impl ChallengeParser<'_> {
    /// Returns the next parameter without consuming it.
    fn peek_param(&self) -> Option<(String, String)> {
        ChallengeParser { rest: self.rest }.param()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exhaustive::for_each_str;
    use crate::testing::exhaustive;
    use alloc::format;

    fn shown(text: &str) -> String {
        let all = parse_challenges([text.as_bytes()].into_iter());
        let one = |c: &AuthChallenge| {
            let params: Vec<_> = c.params.iter().map(|(n, v)| format!("{n}={v}")).collect();
            format!("{}({})", c.scheme, params.join(";"))
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_of_all_forms_are_parsed() {
        for (text, expected) in [
            ("Bearer", "Bearer()"),
            (
                r#"Bearer resource_metadata="https://a/b?c=d,e", scope="a b""#,
                "Bearer(resource_metadata=https://a/b?c=d,e;scope=a b)",
            ),
            (
                r#"bearer error=insufficient_scope , Error_Description = "say \"no\"""#,
                r#"bearer(error=insufficient_scope;error_description=say "no")"#,
            ),
            (
                r#"Basic realm="x", Bearer scope="y", DPoP algs="ES256""#,
                "Basic(realm=x) Bearer(scope=y) DPoP(algs=ES256)",
            ),
            ("Negotiate dG9rZW4=, Bearer", "Negotiate() Bearer()"),
            ("Basic, Bearer realm=a,,", "Basic() Bearer(realm=a)"),
            (r#"Bearer a=1, a=2, A=3"#, "Bearer(a=1)"),
            ("", ""),
            (",,", ""),
            // The list ends at a syntax error.
            (r#"Bearer scope="open"#, "Bearer()"),
            ("\u{e9}", ""),
            ("Bearer \u{e9}, Basic", "Bearer()"),
            (r#"Bearer a="x" b=c, Basic"#, "Bearer(a=x)"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn several_fields_form_one_bounded_list() {
        let fields = [&b"Basic realm=a"[..], b"Bearer scope=b"];
        assert_eq!(parse_challenges(fields.into_iter()).len(), 2);
        assert_eq!(parse_challenges([b"A,".repeat(100).as_slice()].into_iter()).len(), MAX_CHALLENGES);
        let foreign = parse_challenges(
            [&b"Bearer realm=\"caf\xe9\", scope=\"a\", Basic realm=\xe9, Digest"[..]].into_iter(),
        );
        assert_eq!((foreign.len(), foreign[0].param("scope")), (2, Some("a")));
        assert!(parse_challenges(["Bearer ".repeat(2_000).as_bytes()].into_iter()).is_empty());
        let many: String = (0..100).map(|i| format!("p{i}=1,")).collect();
        assert_eq!(
            parse_challenges([format!("B {many}").as_bytes()].into_iter())[0].params.len(),
            MAX_PARAMS
        );
    }

    #[test]
    fn exhaustive_challenges_are_read_as_they_were_written() {
        // Each as it is written, and as its scheme and parameters are to be read. `%` stands for a value.
        const FORMS: [(&str, &str); 7] = [
            ("Basic", "Basic()"),
            ("Negotiate YQ==", "Negotiate()"),
            ("Bearer realm=%", "Bearer(realm=%)"),
            ("bearer Scope\t= %", "bearer(scope=%)"),
            ("DPoP a=1 ,b=%", "DPoP(a=1;b=%)"),
            ("X a=%,,\t, b=2", "X(a=%;b=2)"),
            ("X a=%, a=2, A=3", "X(a=%)"),
        ];
        exhaustive(
            "challenges: all of a field are read, with the parameters and the quoted values that were written, whatever these have",
            "pairs of 7 forms, two separators, values of 8 pieces, up to a length of",
            [2, 3, 4],
            |longest| {
                let mut cases = 0;
                for_each_str(&["a", " ", ",", "=", "\"", "\\", "b=c", "\u{e9}"], longest, |value| {
                    let quoted = format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""));
                    for (first, shown_first) in FORMS {
                        for (second, shown_second) in FORMS {
                            for separator in [",", " , ,"] {
                                let text = format!("{first}{separator} {second}").replace('%', &quoted);
                                let expected = format!("{shown_first} {shown_second}").replace('%', value);
                                assert_eq!(shown(&text), expected, "{text}");
                                cases += 1;
                            }
                        }
                    }
                });
                cases
            },
        );
    }
}
