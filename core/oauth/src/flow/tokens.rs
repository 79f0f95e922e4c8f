//! Grants without a user, the responses of token endpoints, and the record that is stored.

use super::super::client_request::{Client, ClientRequest};
use super::super::config::GrantType;
use super::super::jose;
use super::super::record::{TokenRecord, url_text};
use super::super::request::FetchResponse;
use super::super::server_metadata::ServerMetadata;
use super::super::token::{self, Expected, TokenResponse};
use super::facts::Facts;
use super::{AfterRemoval, AssertionRequest, Event, Flow, Purpose, State};
use crate::error::{Error, ErrorKind, Step};
use crate::token::Secret;
use alloc::boxed::Box;
use mcp_proto::http::Url;
use mcp_proto::{Instant, Scopes};

/// The most seconds before its end at which a token is renewed.
const MAX_MARGIN: u64 = 30;
/// A short-lived token is renewed when this part of its lifetime is left.
const MARGIN_PART: u64 = 5;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

impl Flow {
    pub(super) fn need_assertion(&mut self) {
        let audience = self.facts.issuer.as_ref().map(|issuer| issuer.issuer.clone()).unwrap_or_default();
        let request = match self.facts.config.grant_type() {
            GrantType::Enterprise(_) => AssertionRequest::IdToken,
            _ => AssertionRequest::Assertion { audience },
        };
        self.state = State::AwaitingAssertion;
        self.emit(Event::NeedAssertion(request));
    }

    /// Takes an assertion, after [`Event::NeedAssertion`].
    pub fn handle_assertion(&mut self, now: Instant, assertion: Secret) {
        self.tick(now);
        if !matches!(self.state, State::AwaitingAssertion) {
            return;
        }
        if let Err(error) = self.facts.check_assertion(&assertion) {
            return self.end_with(error);
        }
        self.assertion = Some(assertion);
        match self.facts.config.grant_type() {
            GrantType::Enterprise(_) => self.discover_provider(),
            _ => self.present_assertion(),
        }
    }

    /// Exchanges the identity token of the user for an assertion for the authorization server (RFC 8693).
    ///
    /// `metadata` is that of the identity provider, if the application named its issuer.
    pub(super) fn provider_ready(&mut self, endpoint: Url, metadata: Option<&ServerMetadata>) {
        let GrantType::Enterprise(provider) = self.facts.config.grant_type() else { return };
        let Some(id_token) = self.assertion.take() else { return };
        let supports = |method: &str| {
            // Without metadata the default of RFC 8414 holds.
            metadata.map_or(method == "client_secret_basic", |found| found.supports_auth(method))
        };
        let lists_methods = metadata.is_some_and(|found| found.auth_methods.is_some());
        let Some(auth) = provider.client.auth.method(supports, lists_methods) else {
            let why = "`token_endpoint_auth_methods_supported` has no method of this client";
            let error = provider.error(ErrorKind::Unsupported(why.into()), "RFC 8414, 2");
            return self.end_with(error);
        };
        // The audience of an assertion of the client (RFC 7523, 3).
        let issuer = metadata.map_or_else(|| url_text(&endpoint), |found| found.issuer.clone());
        let client = Client { id: provider.client.client_id.clone(), auth };
        let audience = self.facts.issuer.as_ref().map(|issuer| issuer.issuer.clone()).unwrap_or_default();
        let mut request = ClientRequest::new(endpoint, client, issuer);
        request
            .text("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .text("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag")
            .text("audience", &audience)
            .optional("resource", self.facts.resource_param().as_deref())
            .optional("scope", self.facts.scope_param())
            .param("subject_token", id_token)
            .text("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
        self.request(Box::new(request), Purpose::TokenExchange);
    }

    /// Presents an assertion to the authorization server (RFC 7523, 2.1).
    fn present_assertion(&mut self) {
        let Some(assertion) = self.assertion.take() else { return };
        let Some(mut request) = self.token_request(Step::Token, JWT_BEARER) else { return };
        request.param("assertion", assertion).optional("scope", self.facts.scope_param());
        self.request(request, Purpose::Tokens(Step::Token));
    }

    // ---- responses -------------------------------------------------------------------------------------------

    pub(super) fn request_succeeded(
        &mut self,
        request: &ClientRequest,
        purpose: &Purpose,
        response: &FetchResponse,
    ) {
        let expected = match purpose {
            Purpose::Device => return self.device_authorized(response),
            Purpose::Revocation => {
                return self.replace_record(State::RemovingTokens(AfterRemoval::End), None);
            }
            Purpose::TokenExchange => Expected::IdentityAssertion,
            Purpose::Tokens(_) | Purpose::DevicePoll(_) | Purpose::Refresh => Expected::AccessToken,
        };
        let step = purpose.step();
        match TokenResponse::parse(&response.body, expected) {
            Ok(tokens) if expected == Expected::IdentityAssertion => {
                self.assertion = Some(tokens.access_token);
                self.present_assertion();
            }
            Ok(tokens) if matches!(purpose, Purpose::Refresh) => self.refreshed(tokens),
            Ok(tokens) => self.authorized(tokens),
            Err(kind) => self.end_with(Error::new(step, request.server(), kind, "RFC 6749, 5.1")),
        }
    }

    pub(super) fn request_refused(&mut self, request: &ClientRequest, purpose: Purpose, kind: ErrorKind) {
        let step = purpose.step();
        match purpose {
            Purpose::DevicePoll(poll) => self.device_refused(poll, request.server(), kind),
            Purpose::Refresh => self.refresh_refused(request, kind),
            Purpose::Revocation => {
                // The tokens are forgotten here all the same.
                let error = Error::new(step, request.server(), kind, "RFC 7009");
                self.replace_record(State::RemovingTokens(AfterRemoval::Fail(error)), None);
            }
            Purpose::TokenExchange => {
                self.end_with(Error::new(step, request.server(), kind, "RFC 6749, 5.2"));
            }
            Purpose::Tokens(_) | Purpose::Device => {
                let is_unknown = token::is_client_unknown(&kind);
                let error = Error::new(step, request.server(), kind, "RFC 6749, 5.2");
                self.end_without_client(error, is_unknown);
            }
        }
    }

    /// Stores the tokens of a new authorization.
    fn authorized(&mut self, tokens: TokenResponse) {
        if let Err(error) = self.facts.check_binding(&tokens) {
            return self.end_with(error);
        }
        let (Some(issuer), Some(client)) = (&self.facts.issuer, &self.facts.client) else { return };
        let record = TokenRecord {
            resource: self.facts.audience(),
            issuer: issuer.issuer.clone(),
            registration: client.registration,
            client_id: client.client.id.clone(),
            auth_method: client.client.auth.name().into(),
            client_secret: client.secret.clone(),
            token_endpoint: issuer.token_endpoint.as_ref().map(url_text).unwrap_or_default(),
            revocation_endpoint: issuer.revocation_endpoint.as_ref().map(url_text),
            requested: self.facts.scopes.clone(),
            // A response without `scope` grants what was asked for (RFC 6749, 5.1).
            granted: self.facts.scopes.clone(),
            needed: Scopes::new(),
            access_token: Secret::new(""),
            dpop: None,
            is_bearer: false,
            refresh_token: None,
            issued_at: 0,
            renew_at: None,
            expires_at: None,
            replaces: None,
            attempt: None,
            omits_resource: self.facts.config.omits_resource,
            repeats_scope: self.facts.config.repeats_scope,
        };
        self.save_tokens(record, tokens);
    }

    /// Stores the tokens of a refresh. A server that does not rotate sends no refresh token.
    fn refreshed(&mut self, tokens: TokenResponse) {
        if let Err(error) = self.facts.check_binding(&tokens) {
            return self.end_with(error);
        }
        if let Some(record) = self.facts.record.take() {
            self.save_tokens(record, tokens);
        }
    }

    fn save_tokens(&mut self, mut record: TokenRecord, tokens: TokenResponse) {
        // The lifetime began before the response arrived, and not before the request was sent.
        let issued_at = self.clock.unix_secs(self.sent_at);
        // A public client has to use the key for its refresh token, too (RFC 9449, 5).
        // A server that says Bearer may have bound that one all the same.
        record.dpop = self.facts.dpop.clone();
        record.is_bearer = !tokens.is_dpop;
        record.access_token = tokens.access_token;
        record.refresh_token = tokens.refresh_token.or(record.refresh_token);
        record.granted = tokens.scopes.unwrap_or(record.granted);
        record.issued_at = issued_at;
        let times = tokens.expires_in.map(|lifetime| times(issued_at, lifetime, self.unix_secs()));
        (record.renew_at, record.expires_at) = times.unzip();
        record.replaces = self.facts.refused;
        record.attempt = None;
        let refreshed = self.is_locked.then(|| record.to_secret());
        self.facts.record = Some(record);
        if refreshed.is_some() {
            return self.replace_record(State::SavingRefreshed, refreshed);
        }
        // A refresh or a logout that is in work elsewhere ends first: it would replace or remove these tokens (AUTH-063).
        self.state = State::LockingForTokens;
        self.emit(Event::Lock { key: TokenRecord::key(&self.facts.server) });
    }

    pub(super) fn store_tokens(&mut self) {
        if let Some(record) = &self.facts.record {
            let (key, value) = (TokenRecord::key(&self.facts.server), Some(record.to_secret()));
            self.state = State::SavingTokens;
            self.emit(Event::Save { key, value });
        }
    }
}

/// Returns when a token that is stored now is to be renewed, and when it expires. All are Unix times in seconds.
fn times(issued_at: u64, lifetime: u64, now: u64) -> (u64, u64) {
    // A token that is due at once would be renewed without end.
    let earliest = now.saturating_add(1);
    let margin = (lifetime / MARGIN_PART).min(MAX_MARGIN);
    // The margin is a part of the lifetime, so the difference is not negative.
    [lifetime - margin, lifetime].map(|age| issued_at.saturating_add(age).max(earliest)).into()
}

impl Facts {
    /// Checks that an assertion is for the authorization server that gets it: another one could present it elsewhere
    /// (RFC 7523, 3).
    fn check_assertion(&self, assertion: &Secret) -> Result<(), Error> {
        // An identity token is for the identity provider and not for this server, so only assertions are checked.
        let Some(issuer) = self.issuer.as_ref().filter(|_| *self.config.grant_type() == GrantType::Assertion)
        else {
            return Ok(());
        };
        let endpoint = issuer.token_endpoint.as_ref().map(url_text).unwrap_or_default();
        match jose::has_audience(assertion.expose(), [&issuer.issuer, &endpoint]) {
            Some(false) => {
                let why =
                    ErrorKind::Invalid("`aud` of the assertion is not this authorization server".into());
                Err(self.error(Step::Token, why, "RFC 7523, 3"))
            }
            // An assertion that is no JWT does not show its audience. The server has to check it.
            Some(true) | None => Ok(()),
        }
    }

    /// Checks that a token is bound to the key if it has to be, and to no other.
    fn check_binding(&self, tokens: &TokenResponse) -> Result<(), Error> {
        let rule = "RFC 9449, 5";
        if tokens.is_dpop && self.dpop.is_none() {
            let why = ErrorKind::Invalid("`token_type` is DPoP, but no key was offered".into());
            return Err(self.error(Step::Token, why, rule));
        }
        if self.config.dpop == super::super::config::DpopMode::Always && !tokens.is_dpop {
            let why = ErrorKind::Unsupported("the token is not bound to the key".into());
            return Err(self.error(Step::Token, why, rule));
        }
        Ok(())
    }

    /// Returns the value of `scope`; `None` if none is asked for.
    pub(super) fn scope_param(&self) -> Option<&str> {
        (!self.scopes.is_empty()).then(|| self.scopes.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::record::TokenRecord;
    use super::times;
    use alloc::format;

    #[test]
    fn exhaustive_token_is_due_in_the_last_fifth_of_its_lifetime() {
        crate::extent::exhaustive(
            "lifetimes: a token that is stored is usable for a second, due when less than a fifth and 30 s remain, and when it ends",
            "lifetimes, and delays of the response, and each second until the end, seconds in steps of 16 or 1, up to",
            [40, 200, 800],
            |most| {
                let mut count = 0;
                let most = most as u64;
                let lifetimes = (0..=most).chain([3_600, u64::MAX - 1, u64::MAX]);
                for (lifetime, delay) in lifetimes
                    .flat_map(|lifetime| (0..=most).step_by(16).chain(0..4).map(move |d| (lifetime, d)))
                {
                    let (issued, now) = (1_000, 1_000 + delay);
                    let (renew_at, expires_at) = times(issued, lifetime, now);
                    let text = format!(
                        r#"{{"version":1,"resource":"r","issuer":"i","registration":"dynamic","client_id":"c","auth_method":"none","token_endpoint":"t","access_token":"t","renew_at":{renew_at},"expires_at":{expires_at}}}"#
                    );
                    let record = TokenRecord::parse(&text.into()).expect("a record");
                    let ends = issued.saturating_add(lifetime);
                    assert!(!record.is_due(now) && expires_at == ends.max(now + 1) && renew_at <= expires_at);
                    for t in now + 1..=now + most + 2 {
                        let remaining = ends.saturating_sub(t);
                        let is_late = remaining <= 30 && remaining <= lifetime / 5;
                        assert_eq!(record.is_due(t), is_late, "{lifetime} {delay} {t}");
                        assert!(record.is_due(t) || t < expires_at);
                        count += 1;
                    }
                }
                count
            },
        );
    }
}
