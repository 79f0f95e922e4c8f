//! Authorization of this program at servers over HTTP: from the options to an authorizer.

mod interaction;
mod options;
mod pasted_redirect;
mod store;

use std::io::{self, IsTerminal as _};
#[cfg(unix)]
use std::path::Path;

use mcp_oauth::{ClientAuth, ClientCredentials, Config, Registration, TokenRecord};
use mcp_proto::http::client::{Credential, Url};

use crate::args::authorization::{OAuthClientArgs, TokenArgs, TokenStoreArgs};
use crate::args::{AuthorizationArgs, RevisionArgs};
use crate::authorizer::Authorizer;
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::server::read_secret;
use crate::server::{RemoteServer, Server};
use interaction::ProbeInteraction;
use options::ClientOptions;
pub(crate) use store::ProbeStore;

/// Returns the authorizer of a command that connects to a server; `None` if it has nothing to answer.
///
/// # Errors
///
/// Fails if an option is wrong, or if the store of tokens cannot be read.
pub(crate) fn for_command(
    args: &AuthorizationArgs,
    revisions: &RevisionArgs,
    server: &mut Server,
) -> Result<Option<Authorizer>, CommandFailure> {
    if let (false, Some(name)) = (args.authorize, args.tokens.login.given()) {
        return Err(CommandFailure::usage(format!("{name} says how to log in: add --authorize")));
    }
    let Server::Remote(remote) = server else {
        return match args.given() {
            Some(name) => {
                Err(CommandFailure::usage(format!("{name} needs a server over HTTP: give its URL")))
            }
            None => Ok(None),
        };
    };
    let options = ClientOptions::for_tokens(&args.tokens, revisions)?;
    remote.allow_http(&options.http_hosts);
    let url = endpoint(remote)?;
    if remote.has_credential() {
        if remote.config()?.exposes_credential() {
            return Err(cleartext_failure(&url));
        }
        if args.authorize {
            let why = "--authorize gets a token, but --bearer or --header gives one: leave one of them out";
            return Err(CommandFailure::usage(why));
        }
        return Ok(None);
    }
    if exposes_tokens(remote)? {
        // Such a server may well ask for nothing. If it does ask, its failure names `login`, which says what to allow.
        return if args.authorize { Err(cleartext_failure(&url)) } else { Ok(None) };
    }
    let store = ProbeStore::open(args.tokens.store.token_store.as_deref());
    let record = stored(&store, &url)?.filter(|_| !options.names_client);
    let interaction = ProbeInteraction::new(&args.tokens.login, options.assertion.clone())?;
    let asks_user = !args.asks_nobody && (args.authorize || is_terminal());
    let authorizer = adopting(&options, asks_user, record.as_ref());
    Ok(Some(authorizer.store(store).interaction(interaction)))
}

/// Returns the authorizer of a server that uses what `login` has stored, and asks no user; `None` if it has nothing to answer.
///
/// # Errors
///
/// Fails if an option is wrong, or if the store of tokens cannot be read.
pub(crate) fn for_stored_tokens(
    store: &TokenStoreArgs,
    allow_http: &[String],
    server: &mut Server,
) -> Result<Option<Authorizer>, CommandFailure> {
    let Server::Remote(remote) = server else { return Ok(None) };
    let allow_http = allow_http.to_vec();
    let client = OAuthClientArgs { client_id: None, client_secret: None, client_key: None, allow_http };
    let options = ClientOptions::for_client(&client)?;
    remote.allow_http(&options.http_hosts);
    let url = endpoint(remote)?;
    if remote.has_credential() {
        return if remote.config()?.exposes_credential() { Err(cleartext_failure(&url)) } else { Ok(None) };
    }
    if exposes_tokens(remote)? {
        return Ok(None);
    }
    let store = ProbeStore::open(store.token_store.as_deref());
    let record = stored(&store, &url)?;
    let authorizer = adopting(&options, false, record.as_ref());
    Ok(Some(authorizer.store(store)))
}

/// Replaces what depends on the environment and the working directory of this process, so that another one gets the same tokens.
///
/// # Errors
///
/// Fails if a secret cannot be read, or is in a variable and needed again.
#[cfg(unix)]
pub(crate) fn resolve(args: &mut AuthorizationArgs, here: &Path) -> Result<(), CommandFailure> {
    let TokenArgs { grant, client, store, .. } = &mut args.tokens;
    if let Some(secret) = &mut client.client_secret {
        let value = read_secret(&secret.0, "--client-secret")?;
        if value.starts_with('@') || value.starts_with("env:") {
            let why = "--client-secret: a secret that begins with '@' or 'env:' cannot be passed on";
            return Err(CommandFailure::usage(why));
        }
        secret.0 = value;
    }
    for (name, value) in [("--assertion", &mut grant.assertion), ("--id-token", &mut grant.id_token)] {
        let Some(value) = value else { continue };
        let Some(path) = value.0.strip_prefix('@') else {
            return Err(CommandFailure::usage(format!(
                "{name}: it is read anew for each token: write @FILE"
            )));
        };
        value.0 = format!("@{}", here.join(path).display());
    }
    client.client_key = client.client_key.take().map(|path| here.join(path));
    store.token_store = store::find(store.token_store.as_deref()).map(|path| here.join(path));
    Ok(())
}

/// Returns what is stored for the server at `url`.
///
/// # Errors
///
/// Fails if the store or what is stored is damaged.
pub(crate) fn stored(store: &ProbeStore, url: &Url) -> Result<Option<TokenRecord>, CommandFailure> {
    let authorizer = Authorizer::new(Config::new("mcp-probe")).store(store.clone());
    authorizer.stored(url).map_err(|error| CommandFailure::from_authorization(&error, url))
}

/// Checks that no option reads stdin, which has something else to say; `by` says what, as the end of a sentence.
///
/// # Errors
///
/// Fails if one does.
pub(crate) fn check_stdin(args: &AuthorizationArgs, by: &str) -> Result<(), CommandFailure> {
    if args.tokens.login.no_browser {
        let why = format!("--no-browser reads the redirect from stdin, {by}: run `mcp-probe login` first");
        return Err(CommandFailure::usage(why));
    }
    Ok(())
}

/// Returns the authorizer of `login`, and makes the server ready to be asked without a token.
///
/// # Errors
///
/// Fails if an option is wrong.
pub(crate) fn for_login(
    tokens: &TokenArgs,
    revisions: &RevisionArgs,
    remote: &mut RemoteServer,
) -> Result<Authorizer, CommandFailure> {
    let options = ClientOptions::for_tokens(tokens, revisions)?;
    remote.allow_http(&options.http_hosts);
    let url = endpoint(remote)?;
    if remote.has_credential() {
        let why = "login gets a token: leave --bearer and the header field Authorization out";
        return Err(CommandFailure::usage(why));
    }
    if exposes_tokens(remote)? {
        return Err(cleartext_failure(&url));
    }
    let interaction = ProbeInteraction::new(&tokens.login, options.assertion.clone())?;
    let store = ProbeStore::for_tokens(tokens.store.token_store.as_deref())?;
    Ok(options.authorizer(|config| config).store(store).interaction(interaction))
}

/// Returns the authorizer of `login --forget`, as the client of the stored record, if there is one.
///
/// # Errors
///
/// Fails if an option is wrong.
pub(crate) fn for_logout(
    client: &OAuthClientArgs,
    store: &ProbeStore,
    record: Option<&TokenRecord>,
) -> Result<Authorizer, CommandFailure> {
    let options = ClientOptions::for_client(client)?;
    let authorizer = adopting(&options, false, record.filter(|_| !options.names_client));
    Ok(authorizer.store(store.clone()))
}

/// Creates an authorizer whose client is that of a stored record, so that its tokens are used.
///
/// Only a dynamic registration is stored with its secret. Tokens of other clients with a secret or a key are used until
/// they expire.
fn adopting(options: &ClientOptions, asks_user: bool, record: Option<&TokenRecord>) -> Authorizer {
    options.authorizer(|config| {
        let config = config.interactive(asks_user);
        let Some(record) = record else { return config };
        match record.registration() {
            Registration::PreRegistered => {
                let client = ClientCredentials::new(record.client_id(), ClientAuth::None);
                config.credentials(client.issuer(record.issuer()))
            }
            // It was acceptable when it was stored.
            Registration::MetadataDocument => {
                config.clone().client_metadata_url(record.client_id()).unwrap_or(config)
            }
            _ => config,
        }
    })
}

/// Returns whether a user is at a terminal and can be asked.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns the URL of a server.
///
/// # Errors
///
/// Fails if the URL or a header field is invalid.
pub(crate) fn endpoint(remote: &RemoteServer) -> Result<Url, CommandFailure> {
    Ok(remote.config()?.endpoint().clone())
}

/// Returns whether a token for a server would travel in the clear to another machine, without permission.
fn exposes_tokens(remote: &RemoteServer) -> Result<bool, CommandFailure> {
    let any = Credential::bearer("x").map_err(|why| CommandFailure::failed(why.to_string()))?;
    Ok(remote.config()?.credential(any).exposes_credential())
}

/// Creates the failure for a token that would travel in the clear.
fn cleartext_failure(url: &Url) -> CommandFailure {
    let host = &url.origin().host;
    CommandFailure::usage(format!(
        "a token for {} would travel in the clear to another machine",
        url.origin()
    ))
    .with_hint(format!("use https; --allow-http {host} allows it for this host"))
}
