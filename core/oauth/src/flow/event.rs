//! What a flow asks for, and what it was started by.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::request::Fetch;
use super::super::token::AccessToken;
use crate::error::Error;
use crate::jose::SignRequest;
use crate::token::Secret;
use mcp_proto::AuthChallenge;
use mcp_proto::http::Url;

/// The reason to start a [`Flow`](super::Flow).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trigger {
    /// A connection is about to be made. A stored token is used, and renewed if it is due; nobody is asked.
    Connect,
    /// The MCP server refused a request with 401.
    Unauthorized {
        /// The challenges of the response; empty if there were none.
        challenges: Vec<AuthChallenge>,
        /// The token that was refused, if one was sent.
        rejected: Option<Secret>,
    },
    /// The MCP server refused a request with 403 and `insufficient_scope`.
    InsufficientScope {
        /// The challenges of the response.
        challenges: Vec<AuthChallenge>,
        /// The token whose scopes are not sufficient.
        rejected: Secret,
    },
    /// A token is due to be renewed.
    Due(Secret),
    /// A user wants to log in, whatever is stored.
    LogIn {
        /// The challenges of the MCP server; empty if they are not known.
        challenges: Vec<AuthChallenge>,
    },
    /// The tokens are to be revoked and forgotten.
    LogOut,
}

/// What a [`Flow`](super::Flow) asks for. All but `Unlock`, `ShowUserCode` and the last three wait for their answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Send a request. Answer with [`handle_response`](super::Flow::handle_response) or
    /// [`handle_fetch_failure`](super::Flow::handle_fetch_failure).
    Fetch(Fetch),
    /// Read the store. Answer with [`handle_loaded`](super::Flow::handle_loaded).
    Load {
        /// The key of the entry.
        key: String,
    },
    /// Lock an entry of the store against all other flows and processes, then read it. Answer with
    /// [`handle_loaded`](super::Flow::handle_loaded). Only one flow at a time may refresh, replace or remove tokens
    /// (AUTH-063). Wait for it up to [`Config::lock_timeout`](crate::Config::lock_timeout).
    Lock {
        /// The key of the entry.
        key: String,
    },
    /// Replace an entry of the store, durably, if it is `old`: compare and set, as one step. Answer with
    /// [`handle_saved`](super::Flow::handle_saved), or with [`handle_loaded`](super::Flow::handle_loaded) and what is there
    /// instead. The lock of the entry is held, but need not be enough: a process may lose it without knowing.
    Replace {
        /// The key of the entry.
        key: String,
        /// The text that the flow has read or written last; `None` if there was no entry.
        old: Option<Secret>,
        /// The new text; `None` removes the entry.
        new: Option<Secret>,
    },
    /// Write the store, durably. Answer with [`handle_saved`](super::Flow::handle_saved).
    Save {
        /// The key of the entry.
        key: String,
        /// The new value; `None` removes the entry.
        value: Option<Secret>,
    },
    /// Release the lock of an entry. Also release it when the flow ends or is dropped.
    Unlock {
        /// The key of the entry.
        key: String,
    },
    /// Choose one of several authorization servers. Answer with [`choose`](super::Flow::choose).
    ChooseServer {
        /// The issuers, in the order of the server.
        issuers: Vec<String>,
    },
    /// Name a client for an authorization server at which this one cannot register. Answer with
    /// [`set_client`](super::Flow::set_client).
    NeedClient {
        /// The issuer.
        issuer: String,
    },
    /// Prepare to receive a redirect. Answer with [`set_redirect_uri`](super::Flow::set_redirect_uri).
    NeedRedirectUri {
        /// The redirect URI that the client registered earlier. If it can be used again, no new registration is made.
        preferred: Option<String>,
    },
    /// Make a key for DPoP. Answer with [`handle_key`](super::Flow::handle_key).
    CreateKey,
    /// Sign. Answer with [`handle_signature`](super::Flow::handle_signature).
    Sign(SignRequest),
    /// Open a URL in the browser of the user, without a shell (SEC-015). Answer with
    /// [`handle_redirect`](super::Flow::handle_redirect) when the browser comes back.
    OpenBrowser {
        /// The URL; `https`, or `http` on the loopback interface.
        url: Url,
    },
    /// Show a user where to authorize on another device.
    ShowUserCode(UserCode),
    /// Supply an assertion. Answer with [`handle_assertion`](super::Flow::handle_assertion).
    NeedAssertion(AssertionRequest),
    /// The flow ended with a token.
    Authorized(Box<AccessToken>),
    /// The flow ended without a token: none is stored, or it was removed.
    NoToken,
    /// The flow failed.
    Failed(Error),
}

/// The instructions of the device flow for a user (RFC 8628, 3.2). The texts are of the server: escape them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserCode {
    /// The code to enter.
    pub user_code: String,
    /// Where to enter it.
    pub verification_uri: Url,
    /// The same with the code in it, for a QR code.
    pub verification_uri_complete: Option<Url>,
    /// How long the code is valid, in seconds.
    pub expires_in: u64,
}

/// An assertion that the application has to supply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssertionRequest {
    /// The identity token of the user, by the identity provider of the configuration.
    IdToken,
    /// An assertion for an authorization server (RFC 7523, 2.1).
    Assertion {
        /// The issuer of the authorization server: the audience of the assertion.
        audience: String,
    },
}

/// What became of a redirect; decides which page the browser shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectOutcome {
    /// It belongs to this flow, which goes on.
    Accepted,
    /// It belongs to this flow, which failed.
    Failed(Error),
    /// It belongs to another flow, or to none; this one goes on waiting (AUTH-045).
    Foreign,
}
