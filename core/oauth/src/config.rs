//! What a client brings to an authorization: who it is, how it may get a token, what it may ask.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::client_request::{AuthMethod, MAX_NONCES};
use super::jose::Algorithm;
use super::token::Secret;
use crate::error::{Error, ErrorKind, Step};
use mcp_proto::http::{Origin, Url, UrlError};
use mcp_proto::{Scopes, VersionSet};

/// How a client proves to an authorization server who it is (RFC 6749, 2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Not at all: a public client.
    None,
    /// By a secret, in the way that the server supports: `client_secret_basic`, else `client_secret_post`.
    Secret(Secret),
    /// By a secret in the `Authorization` field.
    SecretBasic(Secret),
    /// By a secret in the body.
    SecretPost(Secret),
    /// By an assertion that the application signs ([`SigningKey::Client`](super::SigningKey); AUTH-035).
    PrivateKeyJwt {
        /// The algorithm of the key.
        algorithm: Algorithm,
        /// The value of `kid` in the header.
        key_id: Option<String>,
    },
}

impl ClientAuth {
    /// Returns the shared secret.
    pub(super) const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Secret(secret) | Self::SecretBasic(secret) | Self::SecretPost(secret) => Some(secret),
            Self::None | Self::PrivateKeyJwt { .. } => None,
        }
    }

    /// Returns the authentication by a key.
    pub(super) fn key(&self) -> Option<AuthMethod> {
        match self {
            Self::PrivateKeyJwt { algorithm, key_id } => {
                Some(AuthMethod::PrivateKeyJwt { algorithm: *algorithm, key_id: key_id.clone() })
            }
            _ => None,
        }
    }

    /// Returns the authentication at a server; `None` if the server does not support it.
    ///
    /// `supports` tells which methods the server lists.
    pub(super) fn method(&self, supports: impl Fn(&str) -> bool, lists_methods: bool) -> Option<AuthMethod> {
        match self {
            Self::None => Some(AuthMethod::None),
            Self::SecretBasic(secret) => Some(AuthMethod::Basic(secret.clone())),
            Self::SecretPost(secret) => Some(AuthMethod::Post(secret.clone())),
            Self::Secret(secret) if supports("client_secret_basic") => {
                Some(AuthMethod::Basic(secret.clone()))
            }
            Self::Secret(secret) if supports("client_secret_post") => Some(AuthMethod::Post(secret.clone())),
            Self::Secret(_) => None,
            Self::PrivateKeyJwt { .. } if lists_methods && !supports("private_key_jwt") => None,
            Self::PrivateKeyJwt { .. } => self.key(),
        }
    }
}

/// A client as an authorization server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    pub(super) client_id: String,
    pub(super) auth: ClientAuth,
    pub(super) issuer: Option<String>,
}

impl ClientCredentials {
    /// Creates a client that was registered beforehand.
    #[must_use]
    pub fn new(client_id: impl Into<String>, auth: ClientAuth) -> Self {
        Self { client_id: client_id.into(), auth, issuer: None }
    }

    /// Sets the issuer of the only authorization server that these credentials are for (AUTH-039).
    ///
    /// Without it they belong to the first authorization server that they are used at, once its tokens are stored.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Returns the client id.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}

/// The way to an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantType {
    /// A user authorizes in a browser (authorization code with PKCE).
    AuthorizationCode,
    /// A user authorizes on another device (RFC 8628).
    DeviceCode,
    /// The client acts on its own behalf (extension `io.modelcontextprotocol/oauth-client-credentials`).
    ClientCredentials,
    /// An identity provider of an enterprise vouches for the user (extension
    /// `io.modelcontextprotocol/enterprise-managed-authorization`).
    Enterprise(IdentityProvider),
    /// An assertion that the application supplies (RFC 7523, 2.1), for example of a workload.
    Assertion,
}

impl GrantType {
    /// Returns the name of the grant for which a client registers itself.
    pub(super) const fn registered_name(&self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::DeviceCode => "urn:ietf:params:oauth:grant-type:device_code",
            Self::ClientCredentials => "client_credentials",
            Self::Enterprise(_) | Self::Assertion => "urn:ietf:params:oauth:grant-type:jwt-bearer",
        }
    }
}

/// The identity provider of an enterprise, named by the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProvider {
    pub(super) location: ProviderLocation,
    pub(super) client: ClientCredentials,
}

/// How the token endpoint of an identity provider is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProviderLocation {
    Issuer(Url, String),
    TokenEndpoint(Url),
}

impl ProviderLocation {
    /// Returns the origin that the application named.
    pub(super) const fn origin(&self) -> &Origin {
        match self {
            Self::Issuer(url, _) | Self::TokenEndpoint(url) => url.origin(),
        }
    }
}

impl IdentityProvider {
    /// Creates the error of a step at this provider.
    pub(super) fn error(&self, kind: ErrorKind, rule: &'static str) -> Error {
        Error::new(Step::TokenExchange, format!("{}", self.location.origin()), kind, rule)
    }

    /// Creates an identity provider whose metadata names the token endpoint. `client` is this client there.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `issuer` is not a URL.
    pub fn new(issuer: &str, client: ClientCredentials) -> Result<Self, UrlError> {
        let location = ProviderLocation::Issuer(Url::parse(issuer)?, issuer.to_owned());
        Ok(Self { location, client })
    }

    /// Creates an identity provider with a known token endpoint.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `endpoint` is not a URL.
    pub fn at_token_endpoint(endpoint: &str, client: ClientCredentials) -> Result<Self, UrlError> {
        Ok(Self { location: ProviderLocation::TokenEndpoint(Url::parse(endpoint)?), client })
    }
}

/// When tokens are bound to a key (DPoP, RFC 9449).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DpopMode {
    /// If the authorization server offers it with ES256 and the MCP server asks for it.
    #[default]
    Auto,
    /// Always; an authorization server without it is an error.
    Always,
    /// Never.
    Never,
}

/// The kind of an application (OpenID Connect Registration, 2; AUTH-037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ApplicationType {
    /// Runs on the machine of its user.
    #[default]
    Native,
    /// Runs on a remote host and has an `https` redirect URI.
    Web,
}

/// The configuration of [`Flow`](super::Flow)s; immutable and shared.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) client_name: String,
    pub(super) client_uri: Option<String>,
    pub(super) application_type: ApplicationType,
    pub(super) credentials: Option<ClientCredentials>,
    pub(super) client_metadata: Option<String>,
    pub(super) dynamic_registration: bool,
    pub(super) grant: Option<GrantType>,
    pub(super) scopes: Option<Scopes>,
    pub(super) offline_access: bool,
    pub(super) dpop: DpopMode,
    pub(super) issuer: Option<String>,
    pub(super) choose_server: bool,
    pub(super) interactive: bool,
    pub(super) versions: VersionSet,
    /// `None`: as the revisions say.
    pub(super) legacy_fallback: Option<bool>,
    pub(super) unlisted_pkce: bool,
    pub(super) omits_resource: bool,
    pub(super) repeats_scope: bool,
    pub(super) http_hosts: Vec<String>,
    pub(super) login_timeout: Duration,
    pub(super) fetch_timeout: Duration,
    pub(super) max_document: usize,
}

impl Config {
    /// Creates the configuration of a native application. `client_name` is shown to users.
    #[must_use]
    pub fn new(client_name: impl Into<String>) -> Self {
        Self {
            client_name: client_name.into(),
            client_uri: None,
            application_type: ApplicationType::default(),
            credentials: None,
            client_metadata: None,
            dynamic_registration: true,
            grant: None,
            scopes: None,
            offline_access: true,
            dpop: DpopMode::default(),
            issuer: None,
            choose_server: false,
            interactive: true,
            versions: VersionSet::ALL,
            legacy_fallback: None,
            unlisted_pkce: false,
            omits_resource: false,
            repeats_scope: false,
            http_hosts: Vec::new(),
            login_timeout: Duration::from_secs(300),
            fetch_timeout: Duration::from_secs(15),
            max_document: 256 << 10,
        }
    }

    /// Sets the home page of the client, for its registration.
    #[must_use]
    pub fn client_uri(mut self, uri: impl Into<String>) -> Self {
        self.client_uri = Some(uri.into());
        self
    }

    /// Sets the kind of the application (default native; AUTH-037).
    #[must_use]
    pub const fn application_type(mut self, kind: ApplicationType) -> Self {
        self.application_type = kind;
        self
    }

    /// Sets a client that was registered beforehand; no other registration is then tried (AUTH-031, AUTH-032).
    #[must_use]
    pub fn credentials(mut self, credentials: ClientCredentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the URL of the client id metadata document of this client (AUTH-033, AUTH-034).
    ///
    /// It is used where the authorization server supports such documents. See
    /// [`ClientMetadata`](super::ClientMetadata) for the document itself.
    ///
    /// # Errors
    ///
    /// [`ClientMetadataError`](super::ClientMetadataError) if the URL is not an acceptable client id.
    pub fn client_metadata_url(mut self, url: impl Into<String>) -> Result<Self, super::ClientMetadataError> {
        let url = url.into();
        super::client_metadata::check_client_id(&url)?;
        self.client_metadata = Some(url);
        Ok(self)
    }

    /// Sets whether the client registers itself where nothing else fits (default yes; RFC 7591).
    ///
    /// The specification deprecates it (AUTH-018), so this option goes with it, also for clients that turn it off.
    /// Use [`client_metadata_url`](Self::client_metadata_url) instead.
    #[deprecated(note = "MCP PR #2858; earliest removal: first revision released on or after 2027-07-28")]
    #[must_use]
    pub const fn dynamic_registration(mut self, register: bool) -> Self {
        self.dynamic_registration = register;
        self
    }

    /// Sets the grant type (default the authorization code).
    #[must_use]
    pub fn grant(mut self, grant: GrantType) -> Self {
        self.grant = Some(grant);
        self
    }

    /// Sets the scopes of the first authorization instead of those that the server names (AUTH-053).
    ///
    /// A step-up still unites.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = Some(scopes);
        self
    }

    /// Sets whether to ask for a refresh token by `offline_access` where the authorization server lists that scope
    /// (default yes; AUTH-059).
    #[must_use]
    pub const fn offline_access(mut self, ask: bool) -> Self {
        self.offline_access = ask;
        self
    }

    /// Sets when tokens are bound to a key.
    #[must_use]
    pub const fn dpop(mut self, mode: DpopMode) -> Self {
        self.dpop = mode;
        self
    }

    /// Sets the issuer to use if a server names several (AUTH-024). A server that does not name it is an error.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets whether the application chooses among several authorization servers by
    /// [`Event::ChooseServer`](super::Event) (default no: the first one; AUTH-024).
    #[must_use]
    pub const fn choose_server(mut self, choose: bool) -> Self {
        self.choose_server = choose;
        self
    }

    /// Sets whether a user may be asked (default yes). If not, a flow that needs one fails with
    /// [`ErrorKind::LoginRequired`](super::ErrorKind).
    #[must_use]
    pub const fn interactive(mut self, interactive: bool) -> Self {
        self.interactive = interactive;
        self
    }

    /// Sets the revisions that the client speaks (default all). The adapters set those of their client.
    ///
    /// They decide whether a server may be one of 2025-03-26 ([`legacy_fallback`](Self::legacy_fallback)), and whether the
    /// metadata of an authorization server has to list PKCE: revisions before 2025-11-25 do not ask for it (AUTH-041).
    #[must_use]
    pub const fn versions(mut self, versions: VersionSet) -> Self {
        self.versions = versions;
        self
    }

    /// Sets whether a server without protected resource metadata counts as its own authorization server, as in
    /// 2025-03-26 (AUTH-013, AUTH-014, AUTH-069). The default is yes if the client speaks that revision.
    ///
    /// Without any metadata the default endpoints `/authorize`, `/token` and `/register` are used. By default that needs
    /// an endpoint that answers before a user is asked or a secret is shown: the client has to register there.
    /// [`AccessToken::is_server_its_issuer`](super::AccessToken) tells of it.
    #[must_use]
    pub const fn legacy_fallback(mut self, fall_back: bool) -> Self {
        self.legacy_fallback = Some(fall_back);
        self
    }

    /// Sets whether an authorization server may leave `code_challenge_methods_supported` out of its metadata although a
    /// revision of the client asks for it (default no; AUTH-041). PKCE is used in any case.
    #[must_use]
    pub const fn unlisted_pkce(mut self, allow: bool) -> Self {
        self.unlisted_pkce = allow;
        self
    }

    /// Sets whether to leave the parameter `resource` out, for authorization servers that refuse it (default no; AUTH-043). Their tokens
    /// may be good at other servers, too. It is stored with the tokens.
    #[must_use]
    pub const fn omit_resource(mut self, omit: bool) -> Self {
        self.omits_resource = omit;
        self
    }

    /// Sets whether a refresh asks for the scopes that were granted, for authorization servers that otherwise grant fewer (default
    /// no; RFC 6749, 6). It is stored with the tokens.
    #[must_use]
    pub const fn scope_on_refresh(mut self, repeat: bool) -> Self {
        self.repeats_scope = repeat;
        self
    }

    /// Allows plain `http` to a host, by its name without a port. Tokens and codes travel there in the clear.
    #[must_use]
    pub fn allow_http(mut self, host: &str) -> Self {
        self.http_hosts.push(host.to_ascii_lowercase());
        self
    }

    /// Sets how long a user has to log in (default 300 s). Reached: the flow fails with
    /// [`ErrorKind::TimedOut`](super::ErrorKind).
    #[must_use]
    pub const fn login_timeout(mut self, timeout: Duration) -> Self {
        self.login_timeout = timeout;
        self
    }

    /// Sets the time of one request (default 15 s).
    #[must_use]
    pub const fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.fetch_timeout = timeout;
        self
    }

    /// Sets the largest body of a response, in bytes (default 256 KiB).
    #[must_use]
    pub const fn max_document(mut self, bytes: usize) -> Self {
        self.max_document = bytes;
        self
    }

    /// Returns how long to wait for the lock of an entry ([`Event::Lock`](super::Event)).
    ///
    /// It is the longest time for which another flow with this configuration holds the lock: the three requests of a
    /// refresh whose nonces are refused, and 10 s for the store and for signatures (55 s by default). A shorter wait
    /// would fail while the other flow still gets its tokens (AUTH-063).
    #[must_use]
    pub const fn lock_timeout(&self) -> Duration {
        let requests = self.fetch_timeout.saturating_mul(1 + MAX_NONCES as u32);
        requests.saturating_add(Duration::from_secs(10))
    }

    pub(super) fn grant_type(&self) -> &GrantType {
        self.grant.as_ref().unwrap_or(&GrantType::AuthorizationCode)
    }

    /// Returns the extensions of MCP that the client declares for this configuration (AUTH-067).
    #[must_use]
    pub fn extensions(&self) -> &'static [&'static str] {
        match self.grant_type() {
            GrantType::ClientCredentials => &["io.modelcontextprotocol/oauth-client-credentials"],
            GrantType::Enterprise(_) => &["io.modelcontextprotocol/enterprise-managed-authorization"],
            _ => &[],
        }
    }
}
