//! Discovery: the metadata of the MCP server, the choice of an authorization server, and its metadata.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::super::config::{GrantType, ProviderLocation};
use super::super::document::Defect;
use super::super::locations::{self, UrlPolicy};
use super::super::request::json_fields;
use super::super::search::{Search, SearchStep};
use super::super::server_metadata::ServerMetadata;
use super::facts::Facts;
use super::{Event, Flow, SearchTarget, State};
use crate::client_request::Registration;
use crate::error::{Error, ErrorKind, Step};
use crate::server_metadata::ResourceMetadata;
use mcp_proto::fields::PROTOCOL_VERSION;
use mcp_proto::http::Url;
use mcp_proto::{Scopes, Version};

/// The revision whose servers are their own authorization servers.
const LEGACY_VERSION: &[u8] = b"2025-03-26";

impl Flow {
    /// Begins with the metadata of the MCP server (AUTH-022, AUTH-023).
    pub(super) fn discover(&mut self) {
        let search = match self.facts.challenge_param("resource_metadata") {
            Some(text) => match self.facts.named_metadata(text) {
                // The server names its document, so no other place is tried (AUTH-023).
                Ok(url) => Some(Search::at(Step::ResourceMetadata, url)),
                Err(why) => return self.invalid(Step::Challenge, why, "SEC-011"),
            },
            None => Search::new(Step::ResourceMetadata, locations::resource_metadata(&self.facts.server)),
        };
        self.search(search, SearchTarget::Resource);
    }

    /// Starts a search.
    fn search(&mut self, search: Option<Search>, target: SearchTarget) {
        match search {
            Some(search) => {
                let url = search.url().clone();
                self.continue_search(Box::new(search), target, SearchStep::Fetch(url));
            }
            None => self.invalid(Step::ServerMetadata, "its URL is too long", ""),
        }
    }

    pub(super) fn continue_search(&mut self, search: Box<Search>, target: SearchTarget, step: SearchStep) {
        match step {
            SearchStep::Fetch(url) => {
                let mut fields = json_fields();
                if matches!(target, SearchTarget::Server { is_legacy: true, .. }) {
                    fields.push(PROTOCOL_VERSION, LEGACY_VERSION); // AUTH-015
                }
                let is_trusted = matches!(target, SearchTarget::Provider { .. });
                let step = match target {
                    SearchTarget::Resource => Step::ResourceMetadata,
                    SearchTarget::Server { .. } | SearchTarget::Provider { .. } => Step::ServerMetadata,
                };
                let Some(fetch) = self.fetch(step, "GET", url, fields, String::new(), is_trusted) else {
                    return;
                };
                self.state = State::Searching { search, target, fetch };
            }
            SearchStep::Found(body) => self.document_found(search, target, &body),
            SearchStep::Missing(error) => self.document_missing(&target, error),
            // Another authorization server of the list may still be usable (AUTH-024).
            SearchStep::Failed(error) if matches!(target, SearchTarget::Server { .. }) => {
                self.reject_server(error)
            }
            SearchStep::Failed(error) => self.end_with(error),
        }
    }

    fn document_found(&mut self, mut search: Box<Search>, target: SearchTarget, body: &[u8]) {
        let parsed = match &target {
            SearchTarget::Resource => match ResourceMetadata::parse(body, &self.facts.server) {
                Ok(resource) => return self.choose_server(resource),
                Err((why, rule)) => {
                    let error =
                        Error::new(Step::ResourceMetadata, search.place(), ErrorKind::Invalid(why), rule);
                    return self.end_with(error);
                }
            },
            SearchTarget::Server { issuer, .. } | SearchTarget::Provider { issuer } => {
                ServerMetadata::parse(body, issuer, &self.facts.policy_for(&target))
            }
        };
        match parsed {
            Ok(metadata) if matches!(target, SearchTarget::Provider { .. }) => self.provider_found(&metadata),
            Ok(metadata) => {
                // A document of the fallback shows that the server is its own issuer, so the missing metadata is no
                // error.
                self.facts.missing_metadata = None;
                self.server_found(metadata);
            }
            Err((why, rule)) => {
                // Another place may have the document of this issuer; this one is not used (AUTH-030).
                let step = search.reject(why, rule);
                self.continue_search(search, target, step);
            }
        }
    }

    fn document_missing(&mut self, target: &SearchTarget, error: Error) {
        match target {
            // The metadata of an authorization server at the MCP server (AUTH-013).
            SearchTarget::Resource if self.facts.may_be_its_own_issuer() => {
                self.facts.is_server_its_issuer = true;
                let origin = format!("{}", self.facts.server.origin());
                // An earlier login there has shown that it is one.
                let is_known = self.facts.record.as_ref().is_some_and(|record| record.issuer == origin);
                self.facts.missing_metadata = Some(error).filter(|_| !is_known);
                let places = locations::legacy_server_metadata(&self.facts.server);
                let issuer = format!("{}", self.facts.server.origin());
                let target = SearchTarget::Server { issuer, is_legacy: true };
                self.search(Search::new(Step::ServerMetadata, places), target);
            }
            SearchTarget::Server { is_legacy: true, .. } => {
                let is_wanted = self.facts.is_legacy_wanted();
                match self.facts.missing_metadata.take().filter(|_| !is_wanted) {
                    // The page of whatever program it is would be shown to a user, or a secret to it.
                    Some(missing) if self.facts.trusts_first() => return self.end_with(missing),
                    missing => self.facts.missing_metadata = missing,
                }
                self.server_found(ServerMetadata::default_endpoints(&self.facts.server)); // AUTH-014
            }
            SearchTarget::Server { .. } => self.reject_server(error),
            _ => self.end_with(error),
        }
    }

    // ---- the choice of an authorization server (AUTH-024) ----------------------------------------------------

    fn choose_server(&mut self, resource: ResourceMetadata) {
        let issuers = resource.authorization_servers.clone();
        self.facts.resource = Some(resource);
        let bound = self.facts.config.credentials.as_ref().and_then(|client| client.issuer.as_ref());
        // The MCP server cannot replace the issuer that the application names (AUTH-039).
        if let Some(wanted) = self.facts.config.issuer.as_ref().or(bound) {
            if issuers.contains(wanted) {
                return self.discover_server(wanted.clone());
            }
            let why = format!("`authorization_servers` does not name {}", Url::redacted(wanted));
            return self.invalid(Step::ResourceMetadata, why, "AUTH-039");
        }
        // Tokens and a registration are stored for this issuer, so it is preferred to the first of the list.
        let known =
            self.facts.record.as_ref().map(|record| &record.issuer).filter(|known| issuers.contains(known));
        match (known.cloned(), issuers.first()) {
            (Some(known), _) => self.discover_server(known),
            (None, Some(_)) if self.facts.config.choose_server && issuers.len() > 1 => {
                self.emit(Event::ChooseServer { issuers: issuers.clone() });
                self.state = State::ChoosingServer(issuers);
            }
            (None, Some(first)) => {
                // `reject_server` takes the next one from the end.
                self.facts.further_issuers = issuers.iter().skip(1).rev().cloned().collect();
                self.discover_server(first.clone());
            }
            (None, None) => self.invalid(Step::ResourceMetadata, "there is no authorization server", ""),
        }
    }

    /// Chooses an authorization server by its place in the list, after [`Event::ChooseServer`]; one that is not in the
    /// list ends the flow.
    pub fn choose(&mut self, now: mcp_proto::Instant, index: usize) {
        self.tick(now);
        match core::mem::replace(&mut self.state, State::Ended) {
            State::ChoosingServer(issuers) => match issuers.get(index) {
                Some(issuer) => self.discover_server(issuer.clone()),
                None => {
                    self.invalid(Step::ResourceMetadata, "no authorization server was chosen", "AUTH-024")
                }
            },
            state => self.state = state,
        }
    }

    /// Tries the next authorization server, or ends the flow with the defect of the first one (AUTH-024).
    fn reject_server(&mut self, error: Error) {
        let error = self.facts.first_defect.take().unwrap_or(error);
        match self.facts.further_issuers.pop() {
            Some(next) => {
                // Errors name the server in `issuer`, and later ones must not name the one that was rejected.
                self.facts.issuer = None;
                self.facts.first_defect = Some(error);
                self.discover_server(next);
            }
            None => self.end_with(error),
        }
    }

    fn discover_server(&mut self, issuer: String) {
        let refused = |why, rule| self.facts.error(Step::ResourceMetadata, ErrorKind::Invalid(why), rule);
        let url = match self.facts.policy().parse("authorization_servers", &issuer) {
            Ok(url) if issuer.contains(['?', '#']) => {
                let why = format!("the issuer {} has a query or a fragment", url.origin());
                return self.reject_server(refused(why.into(), "RFC 8414, 2"));
            }
            Ok(url) => url,
            Err(why) => return self.reject_server(refused(why, "SEC-011")),
        };
        let search = Search::new(Step::ServerMetadata, locations::server_metadata(&url));
        self.search(search, SearchTarget::Server { issuer, is_legacy: false });
    }

    fn server_found(&mut self, metadata: ServerMetadata) {
        let is_code = matches!(self.facts.config.grant_type(), GrantType::AuthorizationCode);
        let supports_pkce = metadata.supports_pkce.unwrap_or_else(|| self.facts.may_leave_pkce_out());
        // A client that a user named is asked for again; the one of the configuration is bound to its issuer.
        let is_configured = self.facts.config.credentials.is_some();
        let known = self.facts.record.as_ref();
        let known = known.filter(|r| is_configured && r.registration == Registration::PreRegistered);
        let moved_from = known
            .filter(|record| record.issuer != metadata.issuer)
            .map(|record| Url::redacted(&record.issuer));
        // This precedes the checks, because their errors name the server that is stored here.
        self.facts.issuer = Some(metadata);
        if let Some(issuer) = moved_from {
            let why = format!("the client was registered at {issuer}, which the server no longer uses");
            return self.invalid(Step::Registration, why, "AUTH-039");
        }
        if is_code && !supports_pkce {
            let why = "`code_challenge_methods_supported` does not name S256";
            let error =
                self.facts.error(Step::ServerMetadata, ErrorKind::Unsupported(why.into()), "AUTH-041");
            return self.reject_server(error);
        }
        if let Some(why) = self.facts.missing_endpoint() {
            let error =
                self.facts.error(Step::ServerMetadata, ErrorKind::Unsupported(why.into()), "RFC 8414, 2");
            return self.reject_server(error);
        }
        if !self.refresh_after_discovery() {
            self.choose_client();
        }
    }

    // ---- the identity provider of an enterprise --------------------------------------------------------------

    /// Looks for the token endpoint of the identity provider.
    pub(super) fn discover_provider(&mut self) {
        let GrantType::Enterprise(provider) = self.facts.config.grant_type() else { return };
        let (ProviderLocation::TokenEndpoint(url) | ProviderLocation::Issuer(url, _)) = &provider.location;
        // The provider is compared with itself: the application named it, so its network does not matter, but plain
        // http does.
        let policy = UrlPolicy { server: url.origin(), http_hosts: &self.facts.config.http_hosts };
        // The identity token and the credentials of the client would travel in the clear.
        if let Err(why) = policy.check("the URL of the identity provider", url) {
            return self.end_with(provider.error(ErrorKind::Invalid(why), "AUTH-061"));
        }
        match &provider.location {
            ProviderLocation::TokenEndpoint(url) => {
                let url = url.clone();
                self.provider_ready(url, None);
            }
            ProviderLocation::Issuer(url, issuer) => {
                let issuer = issuer.clone();
                let search = Search::new(Step::ServerMetadata, locations::server_metadata(url));
                self.search(search, SearchTarget::Provider { issuer });
            }
        }
    }

    fn provider_found(&mut self, metadata: &ServerMetadata) {
        match metadata.token_endpoint.clone() {
            Some(url) => self.provider_ready(url, Some(metadata)),
            None => {
                let why = "the identity provider has no `token_endpoint`";
                if let GrantType::Enterprise(provider) = self.facts.config.grant_type() {
                    let error = provider.error(ErrorKind::Unsupported(why.into()), "RFC 8414, 2");
                    self.end_with(error);
                }
            }
        }
    }
}

impl Facts {
    /// Checks the URL of the metadata in a challenge: a server speaks for its own origin alone.
    pub(super) fn named_metadata(&self, text: &str) -> Result<Url, Defect> {
        let url = self.policy().parse("resource_metadata", text)?;
        if url.origin() == self.server.origin() {
            return Ok(url);
        }
        Err(format!("`resource_metadata` is at another origin, {}", url.origin()).into())
    }

    /// Returns whether a server without protected resource metadata may be one of 2025-03-26 (AUTH-013).
    fn may_be_its_own_issuer(&self) -> bool {
        let client = self.config.credentials.as_ref();
        let wanted = self.config.issuer.as_ref().or_else(|| client?.issuer.as_ref());
        // AUTH-039: the issuer that the application names is not replaced by the server.
        let is_other = wanted.is_some_and(|wanted| *wanted != format!("{}", self.server.origin()));
        let is_allowed = self.config.legacy_fallback;
        !is_other && is_allowed.unwrap_or_else(|| self.config.versions.contains(Version::V2025_03_26))
    }

    /// Returns whether the application knows that the server is one of 2025-03-26.
    fn is_legacy_wanted(&self) -> bool {
        let is_only = self.config.versions.newest() == Some(Version::V2025_03_26);
        self.config.legacy_fallback.unwrap_or(is_only)
    }

    /// Returns whether a user is asked, or a secret of the client shown, before the authorization server has answered
    /// anything.
    fn trusts_first(&self) -> bool {
        self.config.credentials.is_some() || !self.config.dynamic_registration
    }

    /// Returns whether the metadata of an authorization server need not list PKCE (AUTH-041).
    fn may_leave_pkce_out(&self) -> bool {
        self.config.unlisted_pkce
            || self.is_server_its_issuer
            || self.config.versions.newest().is_some_and(|newest| newest < Version::V2025_11_25)
    }

    /// Returns the endpoint that the grant needs and the authorization server lacks: no user is asked in vain.
    pub(super) fn missing_endpoint(&self) -> Option<&'static str> {
        let issuer = self.issuer.as_ref()?;
        match self.config.grant_type() {
            _ if issuer.token_endpoint.is_none() => Some("`token_endpoint` is missing"),
            GrantType::AuthorizationCode if issuer.authorization_endpoint.is_none() => {
                Some("`authorization_endpoint` is missing")
            }
            GrantType::DeviceCode if issuer.device_authorization_endpoint.is_none() => {
                Some("`device_authorization_endpoint` is missing")
            }
            _ => None,
        }
    }

    /// Returns the scopes that the challenge asks for.
    pub(super) fn challenged_scopes(&self) -> Result<Option<Scopes>, Defect> {
        let Some(text) = self.challenge_param("scope") else { return Ok(None) };
        Scopes::parse(text).map(Some).map_err(|why| Cow::Owned(format!("`scope` of the challenge: {why}")))
    }

    /// Determines the scopes to ask for (AUTH-052, AUTH-053, AUTH-057, AUTH-059).
    pub(super) fn choose_scopes(&mut self) -> Result<(), Defect> {
        let challenged = self.challenged_scopes()?;
        let listed = self.resource.as_ref().and_then(|resource| resource.scopes.clone());
        let is_step_up = matches!(self.trigger, super::Trigger::InsufficientScope { .. });
        let mut scopes = match (&self.config.scopes, challenged) {
            (Some(chosen), Some(challenged)) if is_step_up => {
                // Those of the challenge come first: a full set would otherwise lose them, and be refused for ever.
                challenged.union(chosen)
            }
            (Some(chosen), _) => chosen.clone(),
            (None, Some(challenged)) => challenged,
            (None, None) => listed.unwrap_or_default(),
        };
        let issuer = self.issuer.as_ref();
        if let Some(record) = &self.record {
            // What was asked for earlier is not lost by asking again, at the same authorization server.
            let is_login = matches!(self.trigger, super::Trigger::LogIn { .. });
            let earlier = if is_login { &record.needed } else { &record.requested };
            // Whoever chooses scopes for a login means these.
            let is_chosen = is_login && self.config.scopes.is_some();
            if !is_chosen && issuer.is_some_and(|issuer| issuer.issuer == record.issuer) {
                scopes = scopes.union(earlier);
            }
        }
        let offers_offline = issuer.is_some_and(|issuer| issuer.scopes.contains(Scopes::OFFLINE_ACCESS));
        // Alone it would replace the scopes that the server grants to a request without any.
        if self.config.offline_access && self.needs_user() && offers_offline && !scopes.is_empty() {
            // It is a wish: a full set goes without it.
            scopes = scopes.union(&core::iter::once(Scopes::OFFLINE_ACCESS).collect());
        }
        self.scopes = scopes;
        Ok(())
    }
}
