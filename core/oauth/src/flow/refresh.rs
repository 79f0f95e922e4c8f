//! The beginning of a flow, the refresh of a token by one flow at a time, and the end of tokens.

use alloc::boxed::Box;

use super::super::client_request::{AuthMethod, Client, ClientRequest};
use super::super::locations;
use super::super::record::{RefusedToken, TokenRecord};
use super::super::token::{self, AccessToken};
use super::facts::Facts;
use super::{AfterRemoval, Event, Flow, Purpose, State, Trigger};
use crate::client_request::Registration;
use crate::error::{Error, ErrorKind, Step};
use crate::token::Secret;
use mcp_proto::http::Url;

/// Seconds within which a token counts as one that was issued just now.
const JUST_ISSUED: u64 = 60;

impl Flow {
    pub(super) fn start(&mut self) {
        // A token for this server would travel in the clear.
        if let Err(why) = self.facts.policy().check("the URL of the server", &self.facts.server) {
            if matches!(self.facts.trigger, Trigger::Connect) {
                // It may need no token.
                return self.end(Event::NoToken);
            }
            return self.invalid(Step::Challenge, why, "AUTH-061");
        }
        self.state = State::LoadingRecord;
        self.emit(Event::Load { key: TokenRecord::key(&self.facts.server) });
    }

    /// Asks for more scopes, unless the token has what is asked for (AUTH-057).
    pub(super) fn step_up(&mut self) {
        let asked = match self.facts.challenged_scopes() {
            Ok(scopes) => scopes.unwrap_or_default(),
            Err(why) => return self.invalid(Step::Challenge, why, "RFC 6750, 3"),
        };
        // Scopes that were asked for before and not granted would not be granted now either.
        if self.facts.record.as_ref().is_some_and(|record| record.requested.contains_all(&asked)) {
            let kind = ErrorKind::InsufficientScope { scopes: asked };
            return self.fail_at(Step::Challenge, kind, "AUTH-057");
        }
        self.discover();
    }

    /// Ends the flow because a user is needed. What a step-up asks for is stored first, for the next login (AUTH-057).
    pub(super) fn need_login(&mut self) {
        if let Err(why) = self.facts.choose_scopes() {
            return self.invalid(Step::Challenge, why, "RFC 6750, 3");
        }
        let is_step_up = matches!(self.facts.trigger, Trigger::InsufficientScope { .. });
        if is_step_up && self.facts.record.is_some() {
            self.state = State::LockingForScopes;
            return self.emit(Event::Lock { key: TokenRecord::key(&self.facts.server) });
        }
        self.end_with(self.facts.login_required());
    }

    /// Ends the flow with the token of the record.
    pub(super) fn hand_out(&mut self) {
        if let Some(record) = self.facts.record.take() {
            let mut token = access_token(record);
            token.is_server_its_issuer = self.facts.is_server_its_issuer;
            self.end(Event::Authorized(token.into()));
        }
    }

    pub(super) fn lock_record(&mut self) {
        self.state = State::LockingRecord;
        self.emit(Event::Lock { key: TokenRecord::key(&self.facts.server) });
    }

    /// Presents the refresh token.
    pub(super) fn attempt_marked(&mut self) {
        let Some(request) = self.facts.refresh_request() else { return self.removed() };
        // The refresh token may be bound to the key that it was issued for, so no new key is made (RFC 9449, 5).
        self.facts.dpop = self.facts.record.as_ref().and_then(|record| record.dpop.clone());
        self.request(request, Purpose::Refresh);
    }

    /// Replaces the record, unless it is another one by now: then `handle_loaded` follows.
    pub(super) fn replace_record(&mut self, state: State, new: Option<Secret>) {
        let old = core::mem::replace(&mut self.facts.stored, new.clone());
        self.state = state;
        self.emit(Event::Replace { key: TokenRecord::key(&self.facts.server), old, new });
    }

    /// Goes on after the tokens were removed, by this flow or by another process.
    pub(super) fn removed(&mut self) {
        // The lock is not held while a user logs in: other processes would wait for that.
        self.unlock();
        self.facts.record = None;
        match self.facts.trigger {
            Trigger::Connect | Trigger::LogOut => self.end(Event::NoToken),
            // What was discovered is still valid.
            _ if self.facts.issuer.is_some() => self.choose_client(),
            _ => self.discover(),
        }
    }

    /// Returns whether the token that was refused may be refreshed at the authorization server that was discovered;
    /// fails if it was issued just now.
    pub(super) fn refresh_after_discovery(&mut self) -> bool {
        let (Trigger::Unauthorized { rejected: Some(_), .. }, Some(record), Some(issuer)) =
            (&self.facts.trigger, &self.facts.record, &self.facts.issuer)
        else {
            return false;
        };
        if record.issuer != issuer.issuer {
            return false;
        }
        // A clock that was set back says nothing about the age.
        let is_new = self.unix_secs().checked_sub(record.issued_at).is_some_and(|age| age < JUST_ISSUED);
        let replaces = record.replaces.filter(|_| is_new);
        let may_renew = record.is_refreshable() || !self.facts.needs_user();
        // Each token is renewed once. A user who has just logged in is not asked again.
        if replaces == Some(RefusedToken::New) || (replaces.is_none() && is_new && !may_renew) {
            let is_bound = record.is_dpop();
            self.fail_at(Step::Challenge, ErrorKind::TokenRefused { is_bound }, "AUTH-057");
            return true;
        }
        let may_refresh = record.is_refreshable() && replaces.is_none();
        self.facts.refused = Some(if is_new { RefusedToken::New } else { RefusedToken::Used });
        // One that came by a refresh just now, and is refused as well: another authorization may help.
        if may_refresh {
            self.lock_record();
        }
        may_refresh
    }

    /// Handles the refusal of a refresh token.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn refresh_refused(&mut self, request: &ClientRequest, kind: ErrorKind) {
        let record = self.facts.record.as_ref();
        let registered = record.filter(|record| record.registration == Registration::Dynamic);
        let code = match &kind {
            ErrorKind::Refused { code, .. } => &**code,
            _ => "",
        };
        let then = match registered {
            _ if code == "invalid_grant" => Some(AfterRemoval::Authorize),
            Some(record) if token::is_client_unknown(&kind) => {
                Some(AfterRemoval::ForgetClient { issuer: record.issuer.clone() })
            }
            Some(_) if code == "unauthorized_client" => Some(AfterRemoval::Authorize),
            // A client of the configuration may have a wrong secret this time; its tokens are not to blame.
            _ => None,
        };
        if let Some(then) = then {
            self.facts.refused_grant = record.and_then(|record| record.refresh_token.clone());
            // It will never work again: forget it, so that no later flow tries.
            return self.replace_record(State::RemovingTokens(then), None);
        }
        let error = Error::new(Step::Refresh, request.server(), kind, "");
        self.end_with(error);
    }

    /// Revokes the stored tokens, then removes them (RFC 7009).
    pub(super) fn log_out(&mut self) {
        let Some(record) = self.facts.record.take() else { return self.end(Event::NoToken) };
        let endpoint = record
            .revocation_endpoint
            .as_deref()
            .and_then(|url| self.facts.policy().parse("revocation_endpoint", url).ok());
        let (Some(endpoint), Some(client)) = (endpoint, self.facts.client_of(&record)) else {
            return self.replace_record(State::RemovingTokens(AfterRemoval::End), None);
        };
        // The revocation of a refresh token ends its access tokens, too, as far as the server can (RFC 7009, 2.1).
        let (token, hint) = match record.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (record.access_token, "access_token"),
        };
        let mut request = ClientRequest::new(endpoint, client, record.issuer);
        request.param("token", token).text("token_type_hint", hint);
        self.request(Box::new(request), Purpose::Revocation);
    }
}

impl Facts {
    /// Returns the error of a flow that needs a user and may not ask one.
    pub(super) fn login_required(&self) -> Error {
        let scopes = self.challenged_scopes().ok().flatten().unwrap_or_default();
        self.error(Step::Authorization, ErrorKind::LoginRequired { scopes }, "")
    }

    /// Adds the scopes to ask for to the record as it is under the lock: another process may have refreshed it.
    pub(super) fn record_with_needed_scopes(&mut self, value: Option<&Secret>) -> Result<Secret, Error> {
        self.read_record(value)?;
        let Some(record) = &mut self.record else { return Err(self.login_required()) };
        record.needed = self.scopes.union(&record.needed);
        Ok(record.to_secret())
    }

    /// Returns whether a record is of this client and names acceptable endpoints.
    pub(super) fn fits(&self, record: &TokenRecord) -> bool {
        let covers = |resource: &Url| locations::covers(resource, &self.server);
        self.fits_client(record)
            && Url::parse(&record.resource).is_ok_and(|resource| covers(&resource))
            && self.policy().parse("token_endpoint", &record.token_endpoint).is_ok()
    }

    /// Returns whether a record is of the client of the configuration, or the configuration names none.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn fits_client(&self, record: &TokenRecord) -> bool {
        match (&self.config.credentials, record.registration) {
            (Some(client), Registration::PreRegistered) => {
                client.client_id == record.client_id
                    && client.issuer.as_ref().is_none_or(|issuer| *issuer == record.issuer) // AUTH-039
            }
            (Some(_), _) => false,
            (None, Registration::MetadataDocument) => {
                self.config.client_metadata.as_ref().is_none_or(|url| *url == record.client_id)
            }
            (None, Registration::PreRegistered | Registration::Dynamic) => true,
        }
    }

    /// Returns the request for another token; `None` if the stored ones cannot be refreshed.
    pub(super) fn refresh_request(&self) -> Option<Box<ClientRequest>> {
        let record = self.record.as_ref()?;
        // Another flow may use the same one at this time, if the lock did not exclude it.
        let refresh_token =
            record.refresh_token.clone().filter(|token| self.refused_grant.as_ref() != Some(token))?;
        let endpoint = Url::parse(&record.token_endpoint).ok()?;
        let mut request = ClientRequest::new(endpoint, self.client_of(record)?, record.issuer.clone());
        let omits_resource = self.config.omits_resource || record.omits_resource;
        let repeats_scope = self.config.repeats_scope || record.repeats_scope;
        request
            .text("grant_type", "refresh_token")
            .optional("resource", (!omits_resource).then_some(&*record.resource))
            .optional("scope", Some(record.granted.as_str()).filter(|all| repeats_scope && !all.is_empty()))
            .param("refresh_token", refresh_token);
        Some(Box::new(request))
    }

    /// Returns the client of a record, as it authenticates.
    pub(super) fn client_of(&self, record: &TokenRecord) -> Option<Client> {
        // Credentials of the configuration are for its own client alone.
        let configured = self.config.credentials.as_ref().filter(|_| self.fits_client(record));
        let secret = match (record.registration, configured) {
            (Registration::PreRegistered, Some(client)) => client.auth.secret(),
            _ => record.client_secret.as_ref(),
        };
        let auth = match (&*record.auth_method, secret) {
            ("none", _) => AuthMethod::None,
            ("client_secret_basic", Some(secret)) => AuthMethod::Basic(secret.clone()),
            ("client_secret_post", Some(secret)) => AuthMethod::Post(secret.clone()),
            ("private_key_jwt", _) => configured?.auth.key()?,
            // The method is unknown, or its secret or key is no longer configured.
            _ => return None,
        };
        Some(Client { id: record.client_id.clone(), auth })
    }
}

/// Returns the token of a record.
fn access_token(record: TokenRecord) -> AccessToken {
    AccessToken {
        token: record.access_token,
        dpop: record.dpop.filter(|_| !record.is_bearer),
        renew_at: record.renew_at,
        scopes: record.granted,
        registration: record.registration,
        is_server_its_issuer: false,
    }
}
