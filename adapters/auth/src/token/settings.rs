//! What all validators of an authorization server have: audiences, clock, proofs, and a callback for failures.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_proto::http::client::Url;
use mcp_proto::http::server::Protected;
use serde_json::Value;

use super::dpop::DpopVerifier;
use super::issuer::FailureCallback;
use super::jwt::Claims;

/// The settings of a validator; [`setters`] makes the methods that change them.
pub(super) struct Settings {
    resource: String,
    /// Audiences beside the identifier of the resource.
    pub(super) audiences: Vec<String>,
    pub(super) dpop: DpopVerifier,
    pub(super) clock: UnixClock,
    pub(super) failures: FailureCallback,
}

/// The audience of a token that is accepted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The identifier of the resource.
    Resource,
    /// Another name of this server.
    Other,
}

impl Settings {
    pub(super) fn new(protected: &Protected) -> Self {
        Self {
            resource: protected.resource().into(),
            audiences: Vec::new(),
            dpop: DpopVerifier::new(),
            clock: UnixClock::default(),
            failures: FailureCallback::default(),
        }
    }

    /// Returns which audience of this server a token is for, if it is for any (AUTH-010, SEC-007).
    pub(super) fn find_audience(&self, claims: &Claims) -> Option<Audience> {
        let names = match claims.get("aud")? {
            Value::Array(all) => all.as_slice(),
            one => core::slice::from_ref(one),
        };
        let is_for = |own: &String| names.iter().filter_map(Value::as_str).any(|name| is_same(own, name));
        if is_for(&self.resource) {
            return Some(Audience::Resource);
        }
        self.audiences.iter().any(is_for).then_some(Audience::Other)
    }

    /// Returns all audiences, for debug output.
    pub(super) fn all_audiences(&self) -> Vec<&str> {
        core::iter::once(&self.resource).chain(&self.audiences).map(String::as_str).collect()
    }
}

/// Returns whether two identifiers name one resource: scheme and host in any case, with or without the default port and the
/// slash of an empty path (RFC 8707, 2; RFC 3986, 6.2.3). All else is compared byte for byte: to an issuer
/// `/a/../b` and `/b` may be two resources.
fn is_same(own: &str, other: &str) -> bool {
    let split = |text: &str| {
        let url = Url::parse(text).ok()?;
        let rest = text.split_once("://")?.1;
        let path = rest.find(['/', '?', '#']).and_then(|at| rest.get(at..)).unwrap_or_default();
        Some((url.origin().clone(), String::from(if path == "/" { "" } else { path })))
    };
    own == other || split(own).is_some_and(|own| split(other) == Some(own))
}

/// Makes the methods of a validator that change its [`Settings`], which are its field `settings`.
macro_rules! setters {
    ($validator:ty) => {
        impl $validator {
            /// Accepts another audience in addition to the identifier of the resource.
            ///
            /// It must stand for this server alone, for example a name that an authorization server without resource
            /// indicators has given to it.
            #[must_use]
            pub fn audience(mut self, audience: impl Into<alloc::string::String>) -> Self {
                self.settings.audiences.push(audience.into());
                self
            }

            /// Sets the verifier of the proofs for tokens that are bound to a key (DPoP; default: one without nonces).
            #[must_use]
            pub fn dpop(mut self, verifier: $crate::token::DpopVerifier) -> Self {
                self.settings.dpop = verifier;
                self
            }

            /// Sets what is called when the authorization server gives nothing to use (default: nothing).
            ///
            /// It runs on a thread of the validator, once for each request that failed.
            #[must_use]
            pub fn on_failure(
                mut self,
                callback: impl Fn(&$crate::token::ServiceFailure) + Send + Sync + 'static,
            ) -> Self {
                self.settings.failures = $crate::token::issuer::FailureCallback::new(callback);
                self
            }

            /// Sets the clock: a function that returns the Unix time in seconds (default: that of the system).
            #[must_use]
            pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
                self.settings.clock = $crate::token::settings::UnixClock::new(clock);
                self
            }
        }
    };
}

pub(super) use setters;

// The clock of validators.

/// A source of the Unix time in seconds.
#[derive(Clone)]
pub(super) struct UnixClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl UnixClock {
    pub(super) fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(super) fn now(&self) -> u64 {
        (self.0)()
    }
}

/// The clock of the system; a time before 1970 is 1970.
impl Default for UnixClock {
    fn default() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl fmt::Debug for UnixClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixClock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AUTH-010, AUTH-044
    #[test]
    fn resources_are_the_same_in_each_spelling_of_scheme_and_host() {
        let same = |own: &str, others: &[&str]| {
            for other in others {
                assert!(is_same(own, other) && is_same(other, own), "{own} {other}");
            }
        };
        same(
            "https://tools.example.com/mcp",
            &["HTTPS://Tools.Example.COM/mcp", "https://tools.example.com:443/mcp"],
        );
        same("https://tools.example.com", &["https://tools.example.com/", "https://TOOLS.example.com:443/"]);
        same("tools", &["tools"]);
        for other in [
            "https://tools.example.com/MCP",
            "https://tools.example.com/mcp/",
            "https://tools.example.com/mcp?x",
            "https://tools.example.com/mcp#x",
            "https://tools.example.com/a/../mcp",
            "https://tools.example.com/%6dcp",
            "http://tools.example.com/mcp",
            "https://tools.example.com:8443/mcp",
            "https://tools.example.com",
            "https://tools.example.com./mcp",
            "https://user@tools.example.com/mcp",
            "//tools.example.com/mcp",
            "",
        ] {
            assert!(!is_same("https://tools.example.com/mcp", other), "{other}");
        }
        assert!(!is_same("tools", "Tools"));
        assert_eq!(alloc::format!("{:?}", UnixClock::default()), "UnixClock { .. }");
    }
}
