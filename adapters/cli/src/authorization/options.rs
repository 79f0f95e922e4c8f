//! The options of authorization, checked.

use mcp_auth::client::{Authorizer, ClientKey};
use mcp_oauth::{ClientAuth, ClientCredentials, Config, DpopMode, GrantType, IdentityProvider, Scopes};
use mcp_proto::http::client::{Credential, Url};

use crate::args::RevisionArgs;
use crate::args::authorization::{
    DpopChoice, GrantArgs, GrantChoice, LoginArgs, OAuthClientArgs, SecretArg, TokenArgs,
};
use crate::args::values::name_of;
use crate::failure::CommandFailure;
use crate::output::read_text;
use crate::server::read_secret;

/// A client with the grant that it uses.
pub(super) struct ClientOptions {
    config: Config,
    key: Option<ClientKey>,
    pub(super) http_hosts: Vec<String>,
    /// The identity token or the assertion, which is read when it is needed.
    pub(super) assertion: Option<AssertionSource>,
    pub(super) names_client: bool,
}

/// Where an assertion is read.
#[derive(Clone, Debug)]
pub(super) struct AssertionSource {
    option: &'static str,
    value: SecretArg,
}

/// The type of a grant, and the assertion that it needs.
struct Grant {
    kind: Option<GrantType>,
    assertion: Option<AssertionSource>,
}

impl ClientOptions {
    /// Checks the options of a command that gets tokens.
    ///
    /// # Errors
    ///
    /// Fails if an option is wrong by itself or contradicts another one. No message holds a secret (SEC-019).
    pub(super) fn for_tokens(args: &TokenArgs, revisions: &RevisionArgs) -> Result<Self, CommandFailure> {
        let TokenArgs { client, grant, login, .. } = args;
        let mut options = Self::for_client(client)?;
        if let Some(url) = &grant.client_metadata {
            let named = options.config.client_metadata_url(url);
            options.config = named.map_err(|why| usage("--client-metadata", &why))?;
            options.names_client = true;
        }
        options.config = with_preferences(options.config, grant, login, revisions)?;
        let found = Grant::new(client, grant, login, &options.http_hosts)?;
        options.assertion = found.assertion;
        if let Some(kind) = found.kind {
            options.config = options.config.grant(kind);
        }
        Ok(options)
    }

    /// Checks the options of a command that gets no token.
    ///
    /// # Errors
    ///
    /// The same.
    pub(super) fn for_client(client: &OAuthClientArgs) -> Result<Self, CommandFailure> {
        let http_hosts =
            client.allow_http.iter().map(|host| http_host(host)).collect::<Result<Vec<_>, _>>()?;
        let mut config =
            http_hosts.iter().fold(Config::new("mcp-probe"), |config, host| config.allow_http(host));
        let (auth, key) = client_auth(client)?;
        let mut names_client = false;
        if let Some(id) = &client.client_id {
            config = config.credentials(ClientCredentials::new(id, auth.clone()));
            names_client = true;
        } else if client.client_key.is_some() {
            return Err(CommandFailure::usage("--client-key needs --client-id"));
        }
        Ok(Self { config, key, http_hosts, assertion: None, names_client })
    }

    /// Creates an authorizer with these options and the given changes.
    pub(super) fn authorizer(&self, change: impl FnOnce(Config) -> Config) -> Authorizer {
        let authorizer = Authorizer::new(change(self.config.clone()));
        match &self.key {
            Some(key) => authorizer.client_key(key.clone()),
            None => authorizer,
        }
    }
}

impl AssertionSource {
    /// Checks that the value refers to a file or a variable that can be read.
    fn new(option: &'static str, value: &SecretArg) -> Result<Self, CommandFailure> {
        if !value.0.starts_with('@') && !value.0.starts_with("env:") {
            return Err(CommandFailure::usage(format!("{option}: must be @FILE or env:NAME")));
        }
        let source = Self { option, value: value.clone() };
        source.read().map(|_| source)
    }

    /// Reads the assertion.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read or is empty.
    pub(super) fn read(&self) -> Result<String, CommandFailure> {
        let text = read_secret(&self.value.0, self.option)?;
        if text.is_empty() {
            Err(CommandFailure::usage(format!("{}: it is empty", self.option)))
        } else {
            Ok(text)
        }
    }
}

impl Grant {
    /// Chooses the grant, and checks that it has what it needs.
    fn new(
        client: &OAuthClientArgs,
        grant: &GrantArgs,
        login: &LoginArgs,
        http_hosts: &[String],
    ) -> Result<Self, CommandFailure> {
        let choice = choose_grant(grant, login)?;
        let no_user = !matches!(choice, GrantChoice::Code | GrantChoice::Device);
        let client_id = client.client_id.as_ref().or(grant.client_metadata.as_ref());
        match (client_id, no_user) {
            (None, true) => {
                let why = format!("--grant {} needs --client-id", name_of(&choice));
                return Err(CommandFailure::usage(why));
            }
            (_, true) if login.browser.is_some() || login.no_browser => {
                let why = format!(
                    "--grant {} asks no user: leave --browser and --no-browser out",
                    name_of(&choice)
                );
                return Err(CommandFailure::usage(why));
            }
            _ => {}
        }
        let mut assertion = None;
        let kind = match choice {
            GrantChoice::Code => None,
            GrantChoice::Device => Some(GrantType::DeviceCode),
            GrantChoice::ClientCredentials => {
                if client.client_secret.is_none() && client.client_key.is_none() {
                    let why = "--grant client-credentials needs --client-secret or --client-key";
                    return Err(CommandFailure::usage(why));
                }
                Some(GrantType::ClientCredentials)
            }
            GrantChoice::Enterprise => {
                let (Some(id_token), Some(idp), Some(id)) = (&grant.id_token, &grant.idp, client_id) else {
                    return Err(CommandFailure::usage("--grant enterprise needs --id-token and --idp"));
                };
                assertion = Some(AssertionSource::new("--id-token", id_token)?);
                Some(GrantType::Enterprise(identity_provider(idp, id, http_hosts)?))
            }
            GrantChoice::Assertion => {
                let Some(value) = &grant.assertion else {
                    return Err(CommandFailure::usage("--grant assertion needs --assertion"));
                };
                assertion = Some(AssertionSource::new("--assertion", value)?);
                Some(GrantType::Assertion)
            }
        };
        Ok(Self { kind, assertion })
    }
}

/// Returns the grant that the options ask for.
fn choose_grant(grant: &GrantArgs, login: &LoginArgs) -> Result<GrantChoice, CommandFailure> {
    let implied = [
        (grant.assertion.is_some(), GrantChoice::Assertion, "--assertion"),
        (grant.id_token.is_some(), GrantChoice::Enterprise, "--id-token"),
        (grant.idp.is_some(), GrantChoice::Enterprise, "--idp"),
        (login.device, GrantChoice::Device, "--device"),
    ];
    let mut chosen = grant.grant.map(|choice| (choice, format!("--grant {}", name_of(&choice))));
    for (_, choice, option) in implied.into_iter().filter(|(is_given, ..)| *is_given) {
        match &chosen {
            Some((other, by)) if *other != choice => {
                return Err(CommandFailure::usage(format!("{option} contradicts {by}")));
            }
            Some(_) => {}
            None => chosen = Some((choice, option.to_owned())),
        }
    }
    Ok(chosen.map_or(GrantChoice::Code, |(choice, _)| choice))
}

/// Applies what the user prefers of what a server offers.
fn with_preferences(
    mut config: Config,
    grant: &GrantArgs,
    login: &LoginArgs,
    revisions: &RevisionArgs,
) -> Result<Config, CommandFailure> {
    if !grant.scope.is_empty() {
        let scopes = Scopes::try_collect(grant.scope.iter().flat_map(|text| text.split(' ')));
        let scopes = scopes.map_err(|why| usage("--scope", &why))?;
        config = config.scopes(scopes);
    }
    if let Some(wait) = login.login_wait {
        config = config.login_timeout(wait);
    }
    config = config.versions(revisions.version_set().map_err(CommandFailure::usage)?);
    if grant.legacy_auth || grant.no_legacy_auth {
        config = config.legacy_fallback(grant.legacy_auth);
    }
    let config = config.omit_resource(grant.no_resource).scope_on_refresh(grant.refresh_scope);
    Ok(config.unlisted_pkce(grant.allow_unlisted_pkce).dpop(match grant.dpop {
        DpopChoice::Auto => DpopMode::Auto,
        DpopChoice::Always => DpopMode::Always,
        DpopChoice::Never => DpopMode::Never,
    }))
}

/// Returns how the client authenticates, and its key.
fn client_auth(client: &OAuthClientArgs) -> Result<(ClientAuth, Option<ClientKey>), CommandFailure> {
    if let Some(path) = &client.client_key {
        let wrong = |why: &dyn core::fmt::Display| {
            usage("--client-key", &format!("the file {}: {why}", path.display()))
        };
        let pem = read_text(path, MAX_KEY_BYTES).map_err(|error| wrong(&error))?;
        let key = ClientKey::from_pem(&pem).map_err(|why| wrong(&why))?;
        let auth = ClientAuth::PrivateKeyJwt { algorithm: key.algorithm(), key_id: None };
        return Ok((auth, Some(key)));
    }
    let Some(secret) = &client.client_secret else { return Ok((ClientAuth::None, None)) };
    let secret = read_secret(&secret.0, "--client-secret")?;
    if secret.is_empty() {
        return Err(CommandFailure::usage("--client-secret: it is empty"));
    }
    Ok((ClientAuth::Secret(secret.into()), None))
}

/// Returns the identity provider, at which the client shows no secret: it belongs to another server.
fn identity_provider(
    issuer: &str,
    client_id: &str,
    http_hosts: &[String],
) -> Result<IdentityProvider, CommandFailure> {
    let client = ClientCredentials::new(client_id, ClientAuth::None);
    let provider = IdentityProvider::new(issuer, client).map_err(|why| usage("--idp", &why))?;
    let url = mcp_proto::http::client::Config::new(issuer).map_err(|why| usage("--idp", &why))?;
    let host = &*url.endpoint().origin().host;
    let any = Credential::bearer("x").map_err(|why| CommandFailure::failed(why.to_string()))?;
    // The identity token goes there.
    if url.clone().credential(any).exposes_credential() && !http_hosts.iter().any(|allowed| allowed == host) {
        return Err(CommandFailure::usage(format!("--idp: must be https: --allow-http {host} allows http")));
    }
    Ok(provider)
}

/// Returns the name of a host, as URLs have it.
fn http_host(text: &str) -> Result<String, CommandFailure> {
    let url = Url::parse(&format!("http://{text}/")).ok();
    let host = url.filter(|url| url.origin().port == 80 && url.target() == "/" && !text.ends_with(":80"));
    match host {
        Some(url) => Ok(url.origin().host.to_string()),
        None => Err(CommandFailure::usage(
            "--allow-http: must be the name of a host: write mcp.example.com, not http://mcp.example.com:8080",
        )),
    }
}

fn usage(option: &str, why: &dyn core::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("{option}: {why}"))
}

/// Maximum number of bytes read from a file with a key. The rest is ignored.
const MAX_KEY_BYTES: u64 = 64 << 10;
