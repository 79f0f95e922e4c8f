//! Authorization of clients: the [`Authorizer`], and its I/O.
//!
//! An [`Authorizer`] gets, stores and renews access tokens. Give it to a client by
//! `Options::authorize` of an adapter; it then answers the challenges of the server, lets a
//! user log in if that is needed, and sends a stored token from the first request on.
//!
//! ```no_run
//! use mcp_auth::client::{Authorizer, Browser, BrowserLogin, Config, FileStore, Scopes};
//!
//! let config = Config::new("My application").scopes(Scopes::parse("files:read")?);
//! let login = BrowserLogin::new(Browser::from_env()?).show_url(|url| eprintln!("Log in at {}{}", url.origin(), url.target()));
//! let authorizer = Authorizer::new(config)
//!     .store(FileStore::new(FileStore::default_path().expect("a home folder")))
//!     .interaction(login);
//! # let _ = authorizer;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | grant | configuration |
//! |---|---|
//! | a user in a browser (default) | [`BrowserLogin`], or [`PasteLogin`] without a browser on this machine |
//! | a user on another device | [`GrantType::DeviceCode`], and [`Interaction::show_user_code`] |
//! | the client itself | [`GrantType::ClientCredentials`], with [`ClientCredentials`] and perhaps a [`ClientKey`] |
//! | an enterprise that manages access | [`GrantType::Enterprise`], and [`Interaction::assertion`] for the identity token |
//! | a workload | [`GrantType::Assertion`], and [`Interaction::assertion`] |
//!
//! The flow itself is [`mcp_oauth`]. It asks for what this module does:
//!
//! | the flow asks for | served by |
//! |---|---|
//! | an HTTP request ([`Fetch`]) | a [`Fetcher`]: [`HttpFetcher`], or one of the application |
//! | a page for the user | a [`Browser`] |
//! | the redirect of the browser | a [`RedirectListener`] |
//! | loading and storing | a [`TokenStore`]: [`MemoryStore`], [`FileStore`], or one of the application |
//! | signatures, keys for DPoP | a [`ClientKey`], [`sign_dpop`], [`generate_dpop_key`] |
//!
//! All calls block. Each ends early when its [`Cancellation`] is cancelled, within about 50 ms.

mod authorizer;
mod browser;
mod fetch;
mod interaction;
mod keys;
mod redirect;
mod store;

pub use authorizer::Authorizer;
pub use browser::{Browser, BrowserError};
pub use fetch::{Fetcher, HttpFetcher};
pub use interaction::{BrowserLogin, Cancellation, Interaction, NoInteraction, PasteLogin, RedirectReceiver};
pub use keys::{ClientKey, KeyError, generate_dpop_key, sign_dpop};
pub use mcp_oauth::{
    AccessToken, Algorithm, ApplicationType, AssertionRequest, ClientAuth, ClientCredentials, ClientMetadata,
    Config, DpopKey, DpopMode, DpopProofs, Error, ErrorKind, Fetch, FetchFailure, FetchResponse, GrantType,
    IdentityProvider, Registration, Scopes, Secret, SignRequest, Signature, Step, TokenRecord, Trigger,
    UserCode,
};
pub use redirect::{RedirectEnd, RedirectListener, RedirectPage};
pub use store::{FileStore, MemoryStore, StoreError, StoreLock, StoreWarning, TokenStore};
