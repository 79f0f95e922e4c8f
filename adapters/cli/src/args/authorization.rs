//! Options of authorization, in groups that commands combine.

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::values::duration;

/// Where tokens are stored.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct TokenStoreArgs {
    /// Stores tokens in this file.
    ///
    /// The default is the file that MCP_TOKEN_STORE names, else mcp-proto/tokens.json in the folder for the data of the
    /// user. Only its owner may read it. The tokens in it are not encrypted.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_store: Option<PathBuf>,
}

/// The client as an authorization server knows it.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct OAuthClientArgs {
    /// Names the client that is registered at the authorization server.
    ///
    /// No other registration is then tried.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Sets the secret of the client: a value, env:NAME or @FILE.
    ///
    /// Other users of this machine can see a command line. The secret is not stored: whatever needs it again is given
    /// it again.
    #[arg(long, value_name = "SECRET", requires = "client_id", conflicts_with = "client_key")]
    pub(crate) client_secret: Option<SecretArg>,
    /// Authenticates the client by a signature with this private key (private_key_jwt).
    ///
    /// The file is PEM and not encrypted: P-256, Ed25519, or RSA with 2048 to 4096 bits. The key is not stored.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,
    /// Allows http to this host, where others can read tokens (may be repeated).
    ///
    /// A name without a port. Otherwise http is for this machine alone. Without this option a server at an http URL on
    /// another machine gets no token.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_http: Vec<String>,
}

/// How tokens are got, and which.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct GrantArgs {
    /// Names the client by the URL of its metadata document.
    ///
    /// The URL is https and has a path. It is used where the authorization server supports such documents.
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) client_metadata: Option<String>,
    /// Selects the way to a token.
    ///
    /// The default is what the other options ask for: assertion with --assertion, enterprise with --id-token or --idp,
    /// device with --device, otherwise code. A secret or a key alone does not imply client-credentials, because clients
    /// of users have them, too.
    #[arg(long, value_name = "GRANT", value_enum)]
    pub(crate) grant: Option<GrantChoice>,
    /// Reads the identity token of the user: @FILE or env:NAME.
    ///
    /// For --grant enterprise, with --idp.
    #[arg(long, value_name = "@FILE", conflicts_with = "assertion", hide_short_help = true)]
    pub(crate) id_token: Option<SecretArg>,
    /// Names the identity provider of an enterprise by its issuer.
    ///
    /// For --grant enterprise, with --id-token. The client has the same id there, and shows no secret to it.
    #[arg(long, value_name = "URL", conflicts_with = "assertion", hide_short_help = true)]
    pub(crate) idp: Option<String>,
    /// Reads an assertion for the authorization server: @FILE or env:NAME.
    ///
    /// For workload identity. The file is read anew for each token.
    #[arg(long, value_name = "@FILE", hide_short_help = true)]
    pub(crate) assertion: Option<SecretArg>,
    /// Selects when tokens are bound to a key.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) dpop: DpopChoice,
    /// Asks for this scope instead of those that the server names (may be repeated).
    ///
    /// Scopes that the server asks for later are added.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Takes a server without metadata for its own authorization server.
    ///
    /// So it was in 2025-03-26. It is the default unless --protocol-version or --era excludes that revision; this option
    /// also opens the default page to log in before anything there has answered.
    #[arg(long, conflicts_with = "no_legacy_auth", hide_short_help = true)]
    pub(crate) legacy_auth: bool,
    /// Does not take a server without metadata for its own authorization server.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_legacy_auth: bool,
    /// Accepts an authorization server that does not list PKCE in its metadata.
    ///
    /// PKCE is used in any case. Revisions from 2025-11-25 on ask for the list.
    #[arg(long, hide_short_help = true)]
    pub(crate) allow_unlisted_pkce: bool,
    /// Leaves the parameter `resource` out, for an authorization server that refuses it.
    ///
    /// Its tokens may be good at other servers, too. Later commands do the same with the stored tokens.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_resource: bool,
    /// Asks for the granted scopes again at each refresh, for an authorization server that otherwise grants fewer.
    ///
    /// Later commands do the same with the stored tokens.
    #[arg(long, hide_short_help = true)]
    pub(crate) refresh_scope: bool,
}

/// How a user is asked.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct LoginArgs {
    /// Opens the page to log in by this command.
    ///
    /// It is split into words without a shell, and the address is appended. The default is the command in BROWSER, else
    /// the browser of the system. The address is printed on stderr, too.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["no_browser", "device"])]
    pub(crate) browser: Option<String>,
    /// Opens no browser: prints the address, and reads the redirect from stdin.
    ///
    /// After the login the browser shows a page of this program, or an error page if it runs elsewhere. Its address, or the
    /// query of it, is the line to enter. The login fails when stdin ends.
    #[arg(long, conflicts_with = "device")]
    pub(crate) no_browser: bool,
    /// Sets the redirect URI with which the client is registered: http at localhost or 127.0.0.1.
    ///
    /// By default it is http://127.0.0.1:PORT/callback at a free port. Servers that compare it exactly need the host, port and
    /// path of the registration, for example http://localhost:8085/cb. With --no-browser it may be any URL.
    #[arg(long, value_name = "URL", conflicts_with = "device")]
    pub(crate) redirect_uri: Option<String>,
    /// Shows a code to enter on another device.
    ///
    /// The same as --grant device.
    #[arg(long)]
    pub(crate) device: bool,
    /// Limits the time to log in (default 5m).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) login_wait: Option<Duration>,
}

/// All options of authorization, for commands that connect to a server.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct AuthorizationArgs {
    /// Lets the user log in, by the options of `mcp-probe login`.
    ///
    /// That is if the server asks for it. Those options are taken here, too. On a terminal that is the default. Otherwise only stored tokens are used, and those that need no user.
    #[arg(long)]
    pub(crate) authorize: bool,
    /// Whether nobody is asked, even on a terminal. Commands set it.
    #[arg(skip)]
    pub(crate) asks_nobody: bool,
    #[command(flatten)]
    pub(crate) tokens: TokenArgs,
}

/// How tokens are got, for which client, and where they are stored.
#[derive(Debug, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    #[command(flatten)]
    pub(crate) grant: GrantArgs,
    #[command(flatten)]
    pub(crate) client: OAuthClientArgs,
    #[command(flatten)]
    pub(crate) store: TokenStoreArgs,
}

/// A value of the command line that holds a secret or refers to one. `Debug` omits it (SEC-019).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretArg(pub(crate) String);

impl From<&str> for SecretArg {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for SecretArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretArg(…)")
    }
}

/// The way to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum GrantChoice {
    /// A user logs in with a browser.
    Code,
    /// A user logs in on another device.
    Device,
    /// The client itself: --client-id with --client-secret or --client-key.
    ClientCredentials,
    /// An identity provider vouches for the user: --id-token and --idp.
    Enterprise,
    /// An assertion, for example of a workload: --assertion.
    Assertion,
}

/// When tokens are bound to a key (DPoP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum DpopChoice {
    /// Where the authorization server offers it and the server asks for it.
    #[default]
    Auto,
    /// Always. An authorization server without it is an error.
    Always,
    /// Never.
    Never,
}

#[cfg(feature = "auth")]
impl LoginArgs {
    /// Returns the name of an option that is given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.browser.is_some(), "--browser"),
            (self.no_browser, "--no-browser"),
            (self.redirect_uri.is_some(), "--redirect-uri"),
            (self.device, "--device"),
            (self.login_wait.is_some(), "--login-wait"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

#[cfg(feature = "auth")]
impl GrantArgs {
    /// Returns the name of an option that is given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.client_metadata.is_some(), "--client-metadata"),
            (self.grant.is_some(), "--grant"),
            (self.id_token.is_some(), "--id-token"),
            (self.idp.is_some(), "--idp"),
            (self.assertion.is_some(), "--assertion"),
            (self.dpop != DpopChoice::Auto, "--dpop"),
            (!self.scope.is_empty(), "--scope"),
            (self.legacy_auth, "--legacy-auth"),
            (self.no_legacy_auth, "--no-legacy-auth"),
            (self.allow_unlisted_pkce, "--allow-unlisted-pkce"),
            (self.no_resource, "--no-resource"),
            (self.refresh_scope, "--refresh-scope"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

#[cfg(feature = "auth")]
impl OAuthClientArgs {
    /// Returns the name of an option that is given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.client_id.is_some(), "--client-id"),
            (self.client_secret.is_some(), "--client-secret"),
            (self.client_key.is_some(), "--client-key"),
            (!self.allow_http.is_empty(), "--allow-http"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

#[cfg(feature = "auth")]
impl AuthorizationArgs {
    /// Returns the name of an option that is given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let TokenArgs { login, grant, client, store } = &self.tokens;
        let given = self.authorize.then_some("--authorize").or_else(|| grant.given());
        let given = given.or_else(|| client.given());
        let given = given.or_else(|| store.token_store.is_some().then_some("--token-store"));
        given.or_else(|| login.given())
    }
}
