//! I/O of the authorization of clients: requests, the redirect of the browser, stored tokens, and keys.
//!
//! The flow itself is [`mcp_proto::auth`]. It asks for what this module does:
//!
//! | the flow asks for | served by |
//! |---|---|
//! | an HTTP request ([`Fetch`](mcp_proto::auth::Fetch)) | a [`Fetcher`]: [`HttpFetcher`], or one of the application |
//! | a page for the user | a [`Browser`] |
//! | the redirect of the browser | a [`RedirectListener`] |
//! | loading and storing | a [`TokenStore`]: [`MemoryStore`], [`FileStore`], or one of the application |
//! | signatures, keys for DPoP | a [`ClientKey`], [`sign_dpop`], [`generate_dpop_key`] |
//!
//! All calls block. Each ends early when its [`Cancellation`] is cancelled, within about 50 ms.

mod authorizer;
mod browser;
mod cancellation;
mod fetch;
mod interaction;
mod keys;
mod redirect;
mod store;

pub use authorizer::Authorizer;
pub use browser::{Browser, BrowserError};
pub use cancellation::Cancellation;
pub use fetch::{Fetcher, HttpFetcher};
pub use interaction::{BrowserLogin, Interaction, NoInteraction, PasteLogin, RedirectReceiver};
pub use keys::{ClientKey, KeyError, generate_dpop_key, sign_dpop};
pub use redirect::{RedirectEnd, RedirectListener, RedirectPage};
pub use store::{FileStore, MemoryStore, StoreError, StoreLock, StoreWarning, TokenStore};
