//! The authorization code: the request in the browser, and the redirect that comes back.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use subtle::ConstantTimeEq as _;

use super::super::client_request::ClientRequest;
use super::super::config::{DpopMode, GrantType};
use super::super::jose;
use super::super::token::refused;
use super::facts::{Facts, is_dpop};
use super::{Event, Flow, Purpose, RedirectOutcome, State, owned, random};
use crate::error::{ErrorKind, Step};
use crate::jose::DpopKey;
use crate::request::{self, Form};
use crate::token::Secret;
use mcp_proto::http::Url;
use mcp_proto::{Instant, Scopes};

/// Length of the longest query of a redirect, in bytes; a longer one counts as foreign.
const MAX_QUERY: usize = 16 << 10;

impl Flow {
    /// Goes on once the client at the authorization server is known.
    pub(super) fn client_ready(&mut self) {
        if let Err(why) = self.facts.choose_scopes() {
            return self.invalid(Step::Challenge, why, "RFC 6749, 3.3");
        }
        if matches!(self.facts.config.grant_type(), GrantType::AuthorizationCode)
            && self.facts.redirect_uri.is_none()
        {
            self.emit(Event::NeedRedirectUri { preferred: None });
            self.state = State::AwaitingRedirectUri { preferred: None };
            return;
        }
        match self.facts.uses_dpop() {
            Ok(true) => {
                self.state = State::AwaitingKey;
                self.emit(Event::CreateKey);
            }
            Ok(false) => {
                self.facts.dpop = None;
                self.request_grant();
            }
            Err(why) => self.unsupported(Step::Token, why, "RFC 9449, 5.1"),
        }
    }

    /// Takes a new key, after [`Event::CreateKey`].
    pub fn handle_key(&mut self, now: Instant, key: DpopKey) {
        self.tick(now);
        if matches!(self.state, State::AwaitingKey) {
            self.facts.dpop = Some(key);
            self.request_grant();
        }
    }

    fn request_grant(&mut self) {
        match self.facts.config.grant_type() {
            GrantType::AuthorizationCode => self.open_browser(),
            GrantType::DeviceCode => self.request_device_code(),
            GrantType::ClientCredentials => {
                let Some(mut request) = self.token_request(Step::Token, "client_credentials") else { return };
                request.optional("scope", self.facts.scope_param());
                self.request(request, Purpose::Tokens(Step::Token));
            }
            GrantType::Enterprise(_) | GrantType::Assertion => self.need_assertion(),
        }
    }

    fn open_browser(&mut self) {
        let (state, verifier) = (random(&mut self.entropy), random(&mut self.entropy));
        match self.facts.authorization_url(&state, &verifier) {
            Ok(url) => {
                self.deadline = Some(self.now + self.facts.config.login_timeout);
                self.state = State::AwaitingRedirect { state, verifier: verifier.into() };
                self.emit(Event::OpenBrowser { url });
            }
            Err(kind) => {
                self.fail_at(Step::Authorization, kind, "RFC 6749, 3.1");
            }
        }
    }

    /// Takes the query of a redirect, without its `?`, after [`Event::OpenBrowser`].
    ///
    /// A redirect with another `state`, or one of more than 16 KiB, changes nothing (AUTH-045). The first one of this
    /// flow counts.
    pub fn handle_redirect(&mut self, now: Instant, query: &str) -> RedirectOutcome {
        self.tick(now);
        let State::AwaitingRedirect { state, verifier } = &self.state else {
            return RedirectOutcome::Foreign;
        };
        if query.len() > MAX_QUERY {
            return RedirectOutcome::Foreign;
        }
        let Some(params) = RedirectParams::parse(query, state) else { return RedirectOutcome::Foreign };
        let verifier = verifier.clone();
        self.deadline = None;
        match self.facts.check_redirect(&params) {
            Ok(code) => {
                self.redeem(&code, verifier);
                RedirectOutcome::Accepted
            }
            Err((kind, rule)) => {
                let error = self.facts.error(Step::Authorization, kind, rule);
                self.end_with(error.clone());
                RedirectOutcome::Failed(error)
            }
        }
    }

    /// Redeems a code for tokens (AUTH-040, AUTH-043).
    fn redeem(&mut self, code: &str, verifier: Secret) {
        let redirect_uri = self.facts.redirect_uri.clone().unwrap_or_default();
        let Some(mut request) = self.token_request(Step::Token, "authorization_code") else { return };
        request.text("redirect_uri", &redirect_uri).text("code", code).param("code_verifier", verifier);
        self.request(request, Purpose::Tokens(Step::Token));
    }

    /// Starts a request to the token endpoint for the MCP server (AUTH-043); `None` if there is none and the flow ended.
    #[inline(never)]
    pub(super) fn token_request(&mut self, step: Step, grant: &str) -> Option<Box<ClientRequest>> {
        let found = self.facts.issuer.as_ref().zip(self.facts.client.as_ref());
        let found = found.and_then(|(issuer, client)| Some((issuer.token_endpoint.clone()?, issuer, client)));
        match found {
            Some((endpoint, issuer, client)) => {
                let client = client.client.clone();
                let mut request = Box::new(ClientRequest::new(endpoint, client, issuer.issuer.clone()));
                request
                    .text("grant_type", grant)
                    .optional("resource", self.facts.resource_param().as_deref());
                Some(request)
            }
            None => {
                self.unsupported(step, "`token_endpoint` is missing", "RFC 8414, 2");
                None
            }
        }
    }
}

impl Facts {
    /// Returns whether the tokens are to be bound to a key.
    pub(super) fn uses_dpop(&self) -> Result<bool, &'static str> {
        let offers = self.issuer.as_ref().is_some_and(|issuer| issuer.supports_dpop);
        let asks = self.challenges().iter().any(is_dpop)
            || self.resource.as_ref().is_some_and(|resource| resource.requires_dpop);
        match self.config.dpop {
            DpopMode::Never => Ok(false),
            DpopMode::Auto => Ok(offers && asks),
            DpopMode::Always if offers => Ok(true),
            DpopMode::Always => Err("`dpop_signing_alg_values_supported` does not name ES256"),
        }
    }

    /// Returns the URL of the authorization request (AUTH-040, AUTH-043, AUTH-045).
    pub(super) fn authorization_url(&self, state: &str, verifier: &str) -> Result<Url, ErrorKind> {
        let endpoint = self.issuer.as_ref().and_then(|issuer| issuer.authorization_endpoint.as_ref());
        let endpoint =
            endpoint.ok_or_else(|| ErrorKind::Unsupported("`authorization_endpoint` is missing".into()))?;
        let (Some(client), Some(redirect_uri)) = (&self.client, &self.redirect_uri) else {
            return Err(ErrorKind::Unsupported("there is no client".into()));
        };
        let mut query = Form::default();
        query.push("response_type", "code");
        query.push("client_id", &client.client.id);
        query.push("redirect_uri", redirect_uri);
        query.push("code_challenge", &jose::digest(verifier));
        query.push("code_challenge_method", "S256");
        query.push("state", state);
        if let Some(resource) = self.resource_param() {
            query.push("resource", &resource);
        }
        if !self.scopes.is_empty() {
            query.push("scope", self.scopes.as_str());
        }
        if self.scopes.contains(Scopes::OFFLINE_ACCESS) {
            // OpenID Connect Core, 11: without consent the scope is ignored.
            query.push("prompt", "consent");
        }
        if let Some(key) = &self.dpop {
            query.push("dpop_jkt", &jose::thumbprint(&key.public));
        }
        // The endpoint may have a query (RFC 6749, 3.1), which must not set a parameter of this request.
        let own = endpoint.target().split_once('?').map_or("", |(_, query)| query);
        let sep = match endpoint.target().contains('?') {
            true if own.is_empty() => "",
            true => "&",
            false => "?",
        };
        let mut is_repeated = false;
        let is_valid = request::parse_form(own, &mut |name, _| is_repeated |= query.has(&name)).is_some();
        if is_repeated || !is_valid {
            let why = "the query of `authorization_endpoint` is malformed, or has a parameter of the request";
            return Err(ErrorKind::Invalid(why.into()));
        }
        let query = query.into_string();
        let text = format!("{}{}{sep}{query}", endpoint.origin(), endpoint.target());
        Url::parse(&text).map_err(|why| ErrorKind::Invalid(format!("the URL for the browser: {why}").into()))
    }

    /// Applies RFC 9207 before anything else of a response is looked at (AUTH-047, AUTH-048, AUTH-049).
    fn check_redirect(&self, params: &RedirectParams) -> Result<String, (ErrorKind, &'static str)> {
        let invalid = |why: &'static str, rule| (ErrorKind::Invalid(why.into()), rule);
        let Some(issuer) = &self.issuer else { return Err(invalid("there is no issuer", "AUTH-046")) };
        if params.is_ambiguous {
            return Err(invalid("a parameter of the redirect is repeated", "RFC 6749, 3.1"));
        }
        match &params.iss {
            Some(iss) if *iss != issuer.issuer => {
                return Err(invalid("`iss` of the redirect is another issuer", "AUTH-047"));
            }
            None if issuer.sends_issuer => {
                return Err(invalid("`iss` of the redirect is missing", "AUTH-047"));
            }
            _ => {}
        }
        // Only now is the error read: that of another issuer must not be shown (AUTH-049).
        if let Some(code) = &params.error {
            return Err((refused(code, params.error_description.as_deref()), "RFC 6749, 4.1.2.1"));
        }
        match &params.code {
            Some(code) if !code.is_empty() => Ok(code.clone()),
            _ => Err(invalid("`code` of the redirect is missing", "RFC 6749, 4.1.2")),
        }
    }
}

/// The parameters of a redirect, decoded.
#[derive(Default)]
struct RedirectParams {
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
    is_ambiguous: bool,
}

impl RedirectParams {
    /// Reads a query; `None` unless it has this `state`, once.
    fn parse(query: &str, state: &str) -> Option<Self> {
        let mut found = Self::default();
        let mut given = None;
        request::parse_form(query, &mut |name, value| {
            let slot = match &*name {
                "state" => &mut given,
                "code" => &mut found.code,
                "iss" => &mut found.iss,
                "error" => &mut found.error,
                "error_description" => &mut found.error_description,
                _ => return,
            };
            found.is_ambiguous |= slot.is_some();
            *slot = Some(value);
        })?;
        let is_ours = given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(state.as_bytes())));
        is_ours.then_some(found)
    }
}

/// Returns the query of a redirect that a user pasted: a whole URL, or the query alone.
///
/// ```
/// use mcp_oauth::redirect_query;
/// assert_eq!(redirect_query(" http://127.0.0.1:1/callback?code=c&state=s#x\n"), "code=c&state=s");
/// assert_eq!(redirect_query("code=c&state=s"), "code=c&state=s");
/// ```
#[must_use]
pub fn redirect_query(pasted: &str) -> String {
    let text = pasted.trim();
    let text = text.split('#').next().unwrap_or_default();
    // A `?` may also be within a value of a query alone.
    let url = text.split_once('?').filter(|(before, _)| !before.contains('='));
    owned(url.map_or(text, |(_, query)| query))
}
