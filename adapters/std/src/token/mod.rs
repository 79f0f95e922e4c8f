//! Validation of the access tokens that clients of a protected HTTP server present.
//!
//! A server requires tokens if its [configuration](mcp_proto::http::server::Config::protected) says so. A
//! [`TokenValidator`] decides about each of them:
//!
//! - a closure `Fn(&TokenRequest) -> Result<Identity, Denial>`, which runs in the code that serves all connections, so it must not block;
//! - [`off_loop`] of such a closure, which may block;
//! - with the feature `auth-server`: `JwtValidator` for tokens that are JWTs, and `IntrospectionValidator` for all
//!   others, and `DpopVerifier` for closures that accept tokens which are bound to a key.
//!
//! Adapters re-export this module as `token`.
//!
//! A validator has to check that the token was issued for this server (AUTH-010, SEC-007), and that it is still valid. A
//! server does not pass the token of a client on to other services (AUTH-011).

#[cfg(feature = "auth-server")]
mod clock;
#[cfg(feature = "auth-server")]
mod dpop;
#[cfg(feature = "auth-server")]
mod failure;
#[cfg(all(any(fuzzing, test), feature = "auth-server"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "auth-server")]
mod introspection;
#[cfg(feature = "auth-server")]
mod issuer;
#[cfg(feature = "auth-server")]
mod jose;
#[cfg(feature = "auth-server")]
mod jwt;
#[cfg(feature = "auth-server")]
mod settings;
#[cfg(all(test, feature = "auth-server"))]
mod tests;
mod validator;

#[cfg(feature = "auth-server")]
pub use dpop::DpopVerifier;
#[cfg(feature = "auth-server")]
pub use failure::{ServiceFailure, ServiceFailureReason};
#[cfg(feature = "auth-server")]
pub use introspection::IntrospectionValidator;
#[cfg(feature = "auth-server")]
pub use jose::Algorithm;
#[cfg(feature = "auth-server")]
pub use jwt::JwtValidator;
pub use validator::{OffLoop, TokenValidator, off_loop};
