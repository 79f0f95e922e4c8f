//! Validation of the access tokens that clients of a protected HTTP server present.
//!
//! A server requires tokens if its [configuration](mcp_proto::http::server::Config::protected) says so. A
//! [`TokenValidator`] decides about each of them:
//!
//! - a closure `Fn(&TokenRequest) -> Result<Identity, Denial>`, which runs in the code that serves all connections, so it must not block;
//! - [`off_loop`] of such a closure, which may block;
//! - with the feature `server`: `JwtValidator` for tokens that are JWTs, and `IntrospectionValidator` for all
//!   others, and `DpopVerifier` for closures that accept tokens which are bound to a key.
//!
//! Adapters re-export this module as `token`.
//!
//! A validator has to check that the token was issued for this server (AUTH-010, SEC-007), and that it is still valid. A
//! server does not pass the token of a client on to other services (AUTH-011).

#[cfg(feature = "server")]
mod dpop;
#[cfg(all(any(fuzzing, test), feature = "server"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "server")]
mod introspection;
#[cfg(feature = "server")]
mod issuer;
#[cfg(feature = "server")]
mod jwt;
#[cfg(feature = "server")]
mod settings;
#[cfg(all(test, feature = "server"))]
mod tests;

#[cfg(feature = "server")]
pub use dpop::DpopVerifier;
#[cfg(feature = "server")]
pub use introspection::IntrospectionValidator;
#[cfg(feature = "server")]
pub use issuer::{ServiceFailure, ServiceFailureReason};
#[cfg(feature = "server")]
pub use jwt::Algorithm;
#[cfg(feature = "server")]
pub use jwt::JwtValidator;

use alloc::sync::Arc;
use core::fmt;

use mcp_proto::http::server::{Denial, TokenRequest};
use mcp_proto::server::Identity;

// The decision about one token.

/// Decides about the access tokens of requests.
///
/// Every `Fn(&TokenRequest) -> Result<Identity, Denial>` is a validator; the closure may also return an `Arc<Identity>`.
/// It runs in the code that serves all connections, which do nothing else meanwhile: it should look something up in memory.
///
/// ```
/// use mcp_proto::http::server::{Denial, TokenRequest};
/// use mcp_proto::server::Identity;
/// use mcp_auth::token::TokenValidator;
///
/// let validator = |request: &TokenRequest| {
///     if request.token.matches("a-long-random-text") {
///         Ok(Identity::new("alice").scopes("tools:use"))
///     } else {
///         Err(Denial::invalid_token())
///     }
/// };
/// let request = TokenRequest::bearer("guess", "POST", "https://tools.example.com/mcp");
/// assert_eq!(validator.validate(&request), Err(Denial::invalid_token()));
/// ```
pub trait TokenValidator: Send + Sync {
    /// Decides about a token. May block; it runs on a thread for this purpose.
    ///
    /// # Errors
    ///
    /// The denial that the client receives.
    fn validate(&self, request: &TokenRequest) -> Result<Arc<Identity>, Denial>;

    /// Decides about a token without blocking, in the code that serves all connections. `None` if [`validate`](Self::validate) is
    /// needed. By default it always is.
    fn validate_now(&self, _request: &TokenRequest) -> Option<Result<Arc<Identity>, Denial>> {
        None
    }
}

impl<F, I> TokenValidator for F
where
    F: Fn(&TokenRequest) -> Result<I, Denial> + Send + Sync,
    I: Into<Arc<Identity>>,
{
    fn validate(&self, request: &TokenRequest) -> Result<Arc<Identity>, Denial> {
        self(request).map(Into::into)
    }

    fn validate_now(&self, request: &TokenRequest) -> Option<Result<Arc<Identity>, Denial>> {
        Some(self.validate(request))
    }
}

/// A closure that decides about tokens and may block; see [`off_loop`].
#[derive(Clone, Copy)]
pub struct OffLoop<F>(F);

/// Makes a validator of a closure that may block: it does not run on the loop of the server.
pub const fn off_loop<F, I>(validate: F) -> OffLoop<F>
where
    F: Fn(&TokenRequest) -> Result<I, Denial> + Send + Sync,
    I: Into<Arc<Identity>>,
{
    OffLoop(validate)
}

impl<F, I> TokenValidator for OffLoop<F>
where
    F: Fn(&TokenRequest) -> Result<I, Denial> + Send + Sync,
    I: Into<Arc<Identity>>,
{
    fn validate(&self, request: &TokenRequest) -> Result<Arc<Identity>, Denial> {
        (self.0)(request).map(Into::into)
    }
}

impl<F> fmt::Debug for OffLoop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffLoop").finish_non_exhaustive()
    }
}
