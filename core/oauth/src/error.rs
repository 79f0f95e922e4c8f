//! Why an authorization failed: at which step, at which server, by which rule.

use alloc::borrow::{Cow, ToOwned as _};
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use core::fmt;

use mcp_proto::sync::Arc;
use mcp_proto::{AuthorizationError, Scopes};

/// The reason why a [`Fetch`](crate::Fetch) has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchFailure {
    /// There was no connection, or it broke.
    #[error("{0}")]
    Unreachable(Box<str>),
    /// There was no whole response in time.
    #[error("no answer in time")]
    TimedOut,
    /// The policy permits none of the addresses of the host.
    #[error("the host has no address that this server may refer to ({0})")]
    Forbidden(Box<str>),
    /// The body is larger than the policy permits.
    #[error("the answer is too large")]
    TooLarge,
}

/// A step of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Reading the stored tokens, or waiting for another process that uses them.
    Store,
    /// Reading the challenge of the MCP server.
    Challenge,
    /// Reading the metadata of the protected resource (RFC 9728).
    ResourceMetadata,
    /// Reading the metadata of the authorization server (RFC 8414, OpenID Connect Discovery).
    ServerMetadata,
    /// Getting a client id.
    Registration,
    /// Asking the user in a browser.
    Authorization,
    /// Starting the device flow (RFC 8628).
    DeviceAuthorization,
    /// Exchanging the identity of the user at the identity provider (RFC 8693).
    TokenExchange,
    /// Getting an access token.
    Token,
    /// Getting another access token by the refresh token.
    Refresh,
    /// Revoking the tokens (RFC 7009).
    Revocation,
}

impl Step {
    /// Returns what the step does, as a noun phrase.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "the token store",
            Self::Challenge => "the challenge",
            Self::ResourceMetadata => "the protected resource metadata",
            Self::ServerMetadata => "the authorization server metadata",
            Self::Registration => "the client registration",
            Self::Authorization => "the authorization request",
            Self::DeviceAuthorization => "the device authorization request",
            Self::TokenExchange => "the token exchange",
            Self::Token => "the token request",
            Self::Refresh => "the refresh request",
            Self::Revocation => "the revocation request",
        }
    }
}

/// The reason of an [`Error`]. No variant holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A request got no response.
    Fetch(FetchFailure),
    /// A response has a status that fits neither success nor a described error.
    Status(u16),
    /// A redirect that is not followed.
    Redirected(Box<str>),
    /// A document, a parameter or a URL breaks a rule.
    Invalid(Cow<'static, str>),
    /// The server answered with an OAuth error (RFC 6749, 4.1.2.1 and 5.2).
    Refused {
        /// The error code, for example `access_denied`; untrusted text.
        code: Box<str>,
        /// The explanation of the server; untrusted text.
        description: Option<Box<str>>,
    },
    /// The server lacks what this client needs, or asks for what this client lacks.
    Unsupported(Cow<'static, str>),
    /// The server still refuses although the token has the scopes that it asked for (AUTH-057).
    InsufficientScope {
        /// The scopes that the server asks for; empty if it names none.
        scopes: Scopes,
    },
    /// A user is needed, and [`Config::interactive`](crate::Config::interactive) is off.
    LoginRequired {
        /// The scopes that the server asks for; empty if it names none. The next login asks for them, too.
        scopes: Scopes,
    },
    /// The server refuses a token that its authorization server issued just now, and refused the one before as well if it
    /// could be renewed (AUTH-057).
    TokenRefused {
        /// Whether the token is bound to a key (DPoP).
        is_bound: bool,
    },
    /// The user, or who answers for them, did not answer in time.
    TimedOut,
    /// There was no redirect in time.
    NoRedirect {
        /// The redirect URI that was waited for.
        uri: Box<str>,
        /// Whether the client was registered by an earlier flow.
        ///
        /// An authorization server that no longer knows a client says so on its page, without a redirect. So the
        /// registration is forgotten, and the next flow makes another.
        forgets_client: bool,
    },
    /// The application could not do what the flow asked for: a store, a signature, a browser.
    Local(Box<str>),
    /// Another process or thread did not release the stored tokens in time.
    Locked(Box<str>),
    /// The flow needed more requests than it may make.
    TooManyRequests,
}

/// Creates [`ErrorKind::Local`].
impl From<&str> for ErrorKind {
    fn from(reason: &str) -> Self {
        Self::Local(reason.into())
    }
}

/// Creates [`ErrorKind::Local`].
impl From<String> for ErrorKind {
    fn from(reason: String) -> Self {
        Self::Local(reason.into())
    }
}

/// An authorization failed.
///
/// `Display` says the step, the server, what was wrong and the rule; it holds no secret. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Arc<Details>);

#[derive(Debug, PartialEq, Eq)]
struct Details {
    step: Step,
    server: Box<str>,
    kind: ErrorKind,
    rule: &'static str,
}

impl Error {
    /// Creates an error. `server` is an origin or a URL without a query; `rule` may be empty.
    #[inline(never)]
    pub(crate) fn new(step: Step, server: String, kind: ErrorKind, rule: &'static str) -> Self {
        Self(Arc::new(Details { step, server: server.into(), kind, rule }))
    }

    /// Creates an error for what the application could not do, for example reading its store.
    #[must_use]
    pub fn local(step: Step, server: impl Into<String>, reason: impl Into<Box<str>>) -> Self {
        Self::new(step, server.into(), ErrorKind::Local(reason.into()), "")
    }

    /// Returns the step that failed.
    #[must_use]
    pub fn step(&self) -> Step {
        self.0.step
    }

    /// Returns the server at which the step failed: an origin, or a URL without its query.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the rule that decided, for example `AUTH-030` or `RFC 9207`; empty if there is none.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.0.rule
    }

    /// Returns whether a host was not reached.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Fetch(FetchFailure::Unreachable(_)))
    }

    /// Returns whether a server or a user did not answer in time, or another process did not release the stored tokens.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Fetch(FetchFailure::TimedOut)
                | ErrorKind::TimedOut
                | ErrorKind::NoRedirect { .. }
                | ErrorKind::Locked(_)
        )
    }

    /// Returns whether the same request may be authorized a moment later: nobody has refused it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.is_unreachable()
            || self.is_timeout()
            || match &self.0.kind {
                ErrorKind::Status(status) => matches!(status, 408 | 429 | 500..=599),
                // RFC 6749, 4.1.2.1
                ErrorKind::Refused { code, .. } => {
                    matches!(&**code, "temporarily_unavailable" | "server_error")
                }
                // A store may be readable again, and the next flow counts its requests anew.
                ErrorKind::Local(_) | ErrorKind::TooManyRequests => true,
                _ => false,
            }
    }

    /// Returns whether a user has to log in.
    #[must_use]
    pub fn is_login_required(&self) -> bool {
        matches!(self.0.kind, ErrorKind::LoginRequired { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { step, server, kind, rule } = &*self.0;
        write!(f, "{} at {}: ", step.name(), quoted(server))?;
        match kind {
            ErrorKind::Fetch(failure) => write!(f, "{failure}")?,
            ErrorKind::Status(status) => write!(f, "HTTP status {status}")?,
            ErrorKind::Redirected(to) => write!(f, "a redirect to {} is not followed", quoted(to))?,
            ErrorKind::Invalid(what) | ErrorKind::Unsupported(what) => f.write_str(&quoted(what))?,
            ErrorKind::Refused { code, description } => {
                write!(f, "refused with `{}`", quoted(code))?;
                if let Some(description) = description {
                    write!(f, " ({})", quoted(description))?;
                }
            }
            ErrorKind::InsufficientScope { scopes } => {
                f.write_str("the scopes are not sufficient, although the token has all that were asked for")?;
                write_scopes(f, scopes)?;
            }
            ErrorKind::LoginRequired { scopes } => {
                f.write_str("a user has to log in")?;
                write_scopes(f, scopes)?;
            }
            ErrorKind::TokenRefused { .. } => {
                f.write_str("the server refuses a token that its authorization server issued just now")?;
            }
            ErrorKind::TimedOut => f.write_str("no answer in time")?,
            ErrorKind::NoRedirect { uri, forgets_client } => {
                write!(f, "no redirect to {} in time", quoted(uri))?;
                f.write_str(if *forgets_client {
                    "; the registration of the client is forgotten"
                } else {
                    ""
                })?;
            }
            ErrorKind::Local(reason) | ErrorKind::Locked(reason) => f.write_str(&quoted(reason))?,
            ErrorKind::TooManyRequests => f.write_str("too many requests")?,
        }
        if !rule.is_empty() {
            write!(f, " ({rule})")?;
        }
        Ok(())
    }
}

/// Scopes have no characters that have to be escaped.
fn write_scopes(f: &mut fmt::Formatter<'_>, scopes: &Scopes) -> fmt::Result {
    match scopes.is_empty() {
        true => Ok(()),
        false => write!(f, "; the server asks for the scopes `{}`", scopes.as_str()),
    }
}

impl core::error::Error for Error {}

/// Returns the beginning of a text of a server, escaped for one line.
fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 256;
    let escaped =
        |c: char| if matches!(c, '"' | '\'' | '\\') { c.to_string() } else { c.escape_debug().to_string() };
    let more = if text.chars().nth(MAX_CHARS).is_some() { "…" } else { "" };
    text.chars().take(MAX_CHARS).map(escaped).chain([more.to_owned()]).collect()
}

/// What a client over HTTP reports of it.
impl From<&Error> for AuthorizationError {
    fn from(error: &Error) -> Self {
        Self::new(error.clone(), error.is_passing())
    }
}

/// Returns a text of a server, shortened for an error.
pub(crate) fn clipped(text: &str) -> Box<str> {
    let clipped: String = text.chars().take(512).collect();
    clipped.into()
}

#[cfg(test)]
mod tests {
    use mcp_proto::{CallError, HttpError};

    use super::*;

    #[test]
    fn only_what_somebody_has_decided_is_not_passing() {
        let refused = |code: &str| ErrorKind::Refused { code: code.into(), description: None };
        let scopes = Scopes::default;
        for (kind, is_passing) in [
            (ErrorKind::Fetch(FetchFailure::Unreachable("no route".into())), true),
            (ErrorKind::Fetch(FetchFailure::TimedOut), true),
            (ErrorKind::Fetch(FetchFailure::Forbidden("a private address".into())), false),
            (ErrorKind::Status(408), true),
            (ErrorKind::Status(429), true),
            (ErrorKind::Status(500), true),
            (ErrorKind::Status(503), true),
            (ErrorKind::Status(400), false),
            (ErrorKind::Status(404), false),
            (refused("temporarily_unavailable"), true),
            (refused("server_error"), true),
            (refused("invalid_grant"), false),
            (refused("access_denied"), false),
            (ErrorKind::Local("the disk is full".into()), true),
            (ErrorKind::Locked("another process".into()), true),
            (ErrorKind::TooManyRequests, true),
            (ErrorKind::TimedOut, true),
            (ErrorKind::LoginRequired { scopes: scopes() }, false),
            (ErrorKind::InsufficientScope { scopes: scopes() }, false),
            (ErrorKind::TokenRefused { is_bound: false }, false),
        ] {
            let error = Error::new(Step::Refresh, "https://login.example".into(), kind, "");
            assert_eq!(error.is_passing(), is_passing, "{error}");
            let call = CallError::from(HttpError::Authorization { error: (&error).into(), refusal: None });
            assert_eq!(call.is_access_refused(), !is_passing, "{call}");
        }
    }

    // covers: SEC-019
    #[test]
    fn each_error_says_where_it_happened_and_why() {
        let scopes = || Scopes::parse("files:read").expect("a scope");
        let refused = |description| ErrorKind::Refused { code: "access_denied".into(), description };
        for (step, kind, rule, text) in [
            (
                Step::Store,
                ErrorKind::Locked("another process has it".into()),
                "",
                "the token store at a: another process has it",
            ),
            (Step::Challenge, ErrorKind::Status(500), "", "the challenge at a: HTTP status 500"),
            (
                Step::ResourceMetadata,
                ErrorKind::Fetch(FetchFailure::Unreachable("no route".into())),
                "",
                "the protected resource metadata at a: no route",
            ),
            (
                Step::ServerMetadata,
                ErrorKind::Redirected("https://b\u{7}".into()),
                "AUTH-030",
                "the authorization server metadata at a: a redirect to https://b\\u{7} is not followed (AUTH-030)",
            ),
            (
                Step::Registration,
                ErrorKind::Unsupported("no way to get a client id".into()),
                "",
                "the client registration at a: no way to get a client id",
            ),
            (
                Step::Authorization,
                refused(Some("not\nyou".into())),
                "",
                "the authorization request at a: refused with `access_denied` (not\\nyou)",
            ),
            (
                Step::DeviceAuthorization,
                refused(None),
                "",
                "the device authorization request at a: refused with `access_denied`",
            ),
            (
                Step::TokenExchange,
                ErrorKind::Fetch(FetchFailure::TimedOut),
                "",
                "the token exchange at a: no answer in time",
            ),
            (
                Step::Token,
                ErrorKind::Fetch(FetchFailure::Forbidden("127.0.0.1".into())),
                "",
                "the token request at a: the host has no address that this server may refer to (127.0.0.1)",
            ),
            (
                Step::Refresh,
                ErrorKind::Fetch(FetchFailure::TooLarge),
                "",
                "the refresh request at a: the answer is too large",
            ),
            (
                Step::Revocation,
                ErrorKind::TooManyRequests,
                "",
                "the revocation request at a: too many requests",
            ),
            (
                Step::Token,
                ErrorKind::InsufficientScope { scopes: scopes() },
                "AUTH-057",
                "the token request at a: the scopes are not sufficient, although the token has all that were asked for; \
                 the server asks for the scopes `files:read` (AUTH-057)",
            ),
            (
                Step::Token,
                ErrorKind::LoginRequired { scopes: Scopes::default() },
                "",
                "the token request at a: a user has to log in",
            ),
            (
                Step::Token,
                ErrorKind::TokenRefused { is_bound: true },
                "",
                "the token request at a: the server refuses a token that its authorization server issued just now",
            ),
            (
                Step::Authorization,
                ErrorKind::TimedOut,
                "",
                "the authorization request at a: no answer in time",
            ),
            (
                Step::Authorization,
                ErrorKind::NoRedirect { uri: "http://localhost:1/cb".into(), forgets_client: false },
                "",
                "the authorization request at a: no redirect to http://localhost:1/cb in time",
            ),
            (
                Step::Authorization,
                ErrorKind::NoRedirect { uri: "http://h/".into(), forgets_client: true },
                "",
                "the authorization request at a: no redirect to http://h/ in time; the registration of the client is forgotten",
            ),
            (Step::Store, "the disk is full".into(), "", "the token store at a: the disk is full"),
            (Step::Store, String::from("read only").into(), "", "the token store at a: read only"),
            (
                Step::Token,
                ErrorKind::Invalid("`expires_in` is negative".into()),
                "RFC 6749",
                "the token request at a: `expires_in` is negative (RFC 6749)",
            ),
        ] {
            let error = Error::new(step, "a".into(), kind.clone(), rule);
            assert_eq!(alloc::format!("{error}"), text);
            assert_eq!((error.step(), error.server(), error.kind(), error.rule()), (step, "a", &kind, rule));
            assert_eq!(error.is_login_required(), matches!(kind, ErrorKind::LoginRequired { .. }));
        }
        let local = Error::local(Step::Store, "a", "the disk is full");
        assert_eq!((local.kind(), local.rule()), (&ErrorKind::Local("the disk is full".into()), ""));
        assert_eq!(clipped(&"\u{e9}".repeat(513)).chars().count(), 512);
    }
}
