//! What a flow knows: its configuration, its trigger, what was stored, and what it found out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::client_request::Client;
use super::super::config::{Config, GrantType};
use super::super::document::Defect;
use super::super::locations::{self, UrlPolicy};
use super::super::record::{RefusedToken, TokenRecord};
use super::super::server_metadata::ServerMetadata;
use super::{SearchTarget, Trigger};
use crate::client_request::Registration;
use crate::error::{Error, ErrorKind, Step};
use crate::jose::DpopKey;
use crate::server_metadata::ResourceMetadata;
use crate::token::Secret;
use mcp_proto::http::Url;
use mcp_proto::sync::Arc;
use mcp_proto::{AuthChallenge, Scopes};

/// The knowledge of a flow. It decides nothing about the order of steps.
pub(super) struct Facts {
    pub(super) config: Arc<Config>,
    pub(super) server: Url,
    pub(super) trigger: Trigger,
    /// The record that is stored, if it fits this client.
    pub(super) record: Option<TokenRecord>,
    /// The text of the entry as this flow read or wrote it last, of whatever client it is.
    pub(super) stored: Option<Secret>,
    /// The token that the MCP server refused, if a new one takes its place.
    pub(super) refused: Option<RefusedToken>,
    /// The refresh token that the authorization server refused for good.
    pub(super) refused_grant: Option<Secret>,
    /// What discovery found.
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) issuer: Option<ServerMetadata>,
    /// Whether the MCP server counts as its own authorization server.
    pub(super) is_server_its_issuer: bool,
    /// Why the protected resource metadata is missing, while nothing shows that the default endpoints exist.
    pub(super) missing_metadata: Option<Error>,
    /// Authorization servers to try if this one cannot be used, the next one last.
    pub(super) further_issuers: Vec<String>,
    /// The defect of the first authorization server that could not be used.
    pub(super) first_defect: Option<Error>,
    /// The client at the authorization server.
    pub(super) client: Option<Registered>,
    /// Whether the client is registered by an earlier flow.
    pub(super) uses_stored_registration: bool,
    pub(super) redirect_uri: Option<String>,
    /// The scopes to ask for.
    pub(super) scopes: Scopes,
    pub(super) dpop: Option<DpopKey>,
}

/// A client with its registration.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    pub(super) client: Client,
    pub(super) registration: Registration,
    /// The secret of a dynamic registration, for the record.
    pub(super) secret: Option<Secret>,
}

impl Facts {
    pub(super) fn new(config: Arc<Config>, server: Url, trigger: Trigger) -> Self {
        Self {
            config,
            server,
            trigger,
            record: None,
            stored: None,
            refused: None,
            refused_grant: None,
            resource: None,
            issuer: None,
            is_server_its_issuer: false,
            missing_metadata: None,
            further_issuers: Vec::new(),
            first_defect: None,
            client: None,
            uses_stored_registration: false,
            redirect_uri: None,
            scopes: Scopes::new(),
            dpop: None,
        }
    }

    /// Creates an error at the server of a step.
    #[inline(never)]
    pub(super) fn error(&self, step: Step, kind: ErrorKind, rule: &'static str) -> Error {
        let server = match (step, &self.issuer) {
            (Step::Store | Step::Challenge | Step::ResourceMetadata, _) | (_, None) => {
                format!("{}", self.server.origin())
            }
            (_, Some(issuer)) => Url::redacted(&issuer.issuer),
        };
        Error::new(step, server, kind, rule)
    }

    /// Creates the error for a stored value that cannot be read. `subject` ends in its verb.
    #[inline(never)]
    pub(super) fn damaged(&self, subject: &str, why: &Defect) -> Error {
        self.error(Step::Store, ErrorKind::Local(format!("{subject} damaged: {why}").into()), "")
    }

    pub(super) fn policy(&self) -> UrlPolicy<'_> {
        UrlPolicy { server: self.server.origin(), http_hosts: &self.config.http_hosts }
    }

    /// Returns the policy for a document, of the party that named its place.
    pub(super) fn policy_for<'a>(&'a self, target: &'a SearchTarget) -> UrlPolicy<'a> {
        match (target, self.config.grant_type()) {
            // The application named the identity provider, wherever it is.
            (SearchTarget::Provider { .. }, GrantType::Enterprise(provider)) => {
                UrlPolicy { server: provider.location.origin(), http_hosts: &self.config.http_hosts }
            }
            _ => self.policy(),
        }
    }

    /// Returns the challenges that started the flow.
    pub(super) fn challenges(&self) -> &[AuthChallenge] {
        match &self.trigger {
            Trigger::Unauthorized { challenges, .. }
            | Trigger::InsufficientScope { challenges, .. }
            | Trigger::LogIn { challenges } => challenges,
            Trigger::Connect | Trigger::Due(_) | Trigger::LogOut => &[],
        }
    }

    /// Returns a parameter of the challenges for access tokens.
    pub(super) fn challenge_param(&self, name: &str) -> Option<&str> {
        // A challenge of another scheme, `Basic` for example, says nothing about tokens.
        let tokens = self.challenges().iter().filter(|c| c.is_bearer() || is_dpop(c));
        tokens.filter_map(|challenge| challenge.param(name)).next()
    }

    /// Returns whether a user has to take part.
    pub(super) fn needs_user(&self) -> bool {
        matches!(self.config.grant_type(), GrantType::AuthorizationCode | GrantType::DeviceCode)
    }

    /// Returns the parameter that names the audience, unless it is left out.
    pub(super) fn resource_param(&self) -> Option<String> {
        (!self.config.omits_resource).then(|| self.audience())
    }

    /// Returns the audience of the token: the identifier of the MCP server.
    pub(super) fn audience(&self) -> String {
        match &self.resource {
            Some(resource) => resource.resource.clone(),
            None => locations::canonical(&self.server),
        }
    }
}

/// Returns whether a challenge asks for a token that is bound to a key.
pub(super) fn is_dpop(challenge: &AuthChallenge) -> bool {
    challenge.scheme.eq_ignore_ascii_case("dpop")
}
