//! Access tokens, and the responses of token endpoints.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::client_request::Registration;
use super::document::Document;
use super::jose::DpopKey;
use super::request::FetchResponse;
use crate::error::{ErrorKind, clipped};
use mcp_proto::Scopes;
use mcp_proto::http::Url;

/// An access token for one MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// The token.
    pub token: Secret,
    /// The key that the token is bound to; without one it is a bearer token.
    pub dpop: Option<DpopKey>,
    /// The time at which the token should be renewed, shortly before it expires: Unix time in seconds.
    pub renew_at: Option<u64>,
    /// The scopes that were granted, or asked for if the server did not say.
    pub scopes: Scopes,
    /// How the client that got the token had been registered.
    pub registration: Registration,
    /// Whether the flow took the MCP server, which has no protected resource metadata, for its own authorization server
    /// ([`Config::legacy_fallback`](super::Config::legacy_fallback)). Not set for a token that was stored or renewed.
    pub is_server_its_issuer: bool,
}

/// A successful response of a token endpoint (RFC 6749, 5.1).
#[derive(Debug)]
pub(super) struct TokenResponse {
    pub(super) access_token: Secret,
    /// Whether the token is bound to the key of the request.
    pub(super) is_dpop: bool,
    pub(super) refresh_token: Option<Secret>,
    /// Lifetime in seconds.
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Scopes>,
}

/// The token type that a request expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    AccessToken,
    /// An identity assertion for an authorization server (RFC 8693, `N_A`).
    IdentityAssertion,
}

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl TokenResponse {
    /// Reads a response with status 200.
    pub(super) fn parse(body: &[u8], expected: Expected) -> Result<Self, ErrorKind> {
        Document::read(body, ErrorKind::Invalid, |document| Self::build(document, expected))
    }

    fn build(document: &Document, expected: Expected) -> Result<Self, ErrorKind> {
        let token = document.required_string("access_token");
        // The token becomes a header field: a line end in it would add another one.
        if !is_access_token(&token) {
            return Err(ErrorKind::Invalid("`access_token` has characters that no token may have".into()));
        }
        let kind = document.required_string("token_type");
        let is_dpop = kind.eq_ignore_ascii_case("dpop");
        match expected {
            Expected::AccessToken if is_dpop || kind.eq_ignore_ascii_case("bearer") => {}
            Expected::IdentityAssertion => {
                let issued = document.string("issued_token_type");
                if issued.as_deref() != Some(ID_JAG) {
                    return Err(ErrorKind::Invalid(
                        "`issued_token_type` is not an identity assertion".into(),
                    ));
                }
            }
            Expected::AccessToken => {
                return Err(ErrorKind::Invalid("`token_type` is neither Bearer nor DPoP".into()));
            }
        }
        let refresh_token = document.string("refresh_token");
        if refresh_token.as_ref().is_some_and(|token| !token.bytes().all(|b| (0x20..0x7f).contains(&b))) {
            return Err(ErrorKind::Invalid("`refresh_token` has characters that no token may have".into()));
        }
        Ok(Self {
            access_token: token.into(),
            is_dpop,
            // An empty one cannot be presented, so it counts as none.
            refresh_token: refresh_token.filter(|token| !token.is_empty()).map(Secret::from),
            expires_in: document.seconds("expires_in"),
            scopes: document.scope("scope"),
        })
    }
}

/// Returns the reason of a response that is no success (RFC 6749, 5.2). No redirect is followed (SEC-011).
pub(super) fn refusal(response: &FetchResponse) -> ErrorKind {
    let described = || {
        let code = Document::read(&response.body, drop, |document| Ok(document.required_string("error")));
        let description =
            Document::read(&response.body, drop, |document| Ok(document.string("error_description")));
        Some(refused(&code.ok()?, description.ok().flatten().as_deref()))
    };
    match response.status {
        300..=399 => {
            let to = Url::redacted(response.field("location").unwrap_or("no place"));
            ErrorKind::Redirected(clipped(&to))
        }
        // Too slow or too often, whatever the body says: the same request may be answered later (RFC 9110, 15.5.9; RFC 6585, 4).
        status @ (408 | 429) => ErrorKind::Status(status),
        400..=499 => described().unwrap_or(ErrorKind::Status(response.status)),
        status => ErrorKind::Status(status),
    }
}

/// Returns whether a text may go into a field of each request: RFC 6750, 2.1 has no other characters.
pub(super) fn is_access_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns whether an authorization server does not know the client (RFC 6749, 5.2).
pub(super) fn is_client_unknown(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Refused { code, .. } if &**code == "invalid_client")
}

/// Returns an OAuth error in a form that can be shown.
pub(super) fn refused(code: &str, description: Option<&str>) -> ErrorKind {
    let description = description.filter(|text| !text.is_empty()).map(clipped);
    ErrorKind::Refused { code: clipped(code), description }
}

// Text that must not be shown: tokens, keys, client secrets.

/// A secret text. `Debug` omits it (SEC-019).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself.
    #[must_use]
    pub const fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    #[inline(never)]
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    #[inline(never)]
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn read(body: &str) -> Result<TokenResponse, ErrorKind> {
        TokenResponse::parse(body.as_bytes(), Expected::AccessToken)
    }

    #[test]
    fn token_responses_are_read_strictly() {
        let found = read(
            r#"{"access_token":"t","token_type":"bearer","expires_in":60,"refresh_token":"r","scope":"a b"}"#,
        )
        .expect("a token");
        assert_eq!(found.access_token.expose(), "t");
        assert!(!found.is_dpop);
        assert_eq!(found.expires_in, Some(60));
        assert_eq!(found.scopes.expect("scopes").as_str(), "a b");
        for body in [
            r#"{"token_type":"Bearer"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"a\nb","token_type":"Bearer"}"#,
            r#"{"access_token":"a b","token_type":"Bearer"}"#,
            r#"{"access_token":"t"}"#,
            r#"{"access_token":"t","token_type":"mac"}"#,
            r#"{"access_token":"t","token_type":"Bearer","refresh_token":"\n"}"#,
            r#"{"access_token":"t","token_type":"Bearer","scope":"a\"b"}"#,
            r#"{"access_token":"t","token_type":"Bearer","expires_in":-1}"#,
            r#"{"access_token":"t","access_token":"u","token_type":"Bearer"}"#,
            "<html>",
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }

    // covers: SEC-019
    #[test]
    fn errors_and_debug_output_hold_no_token() {
        let found = read(r#"{"access_token":"s3cret","token_type":"Bearer","refresh_token":"s3cret"}"#);
        assert!(!format!("{found:?}").contains("s3cret"));
        let bad = read(r#"{"access_token":"s3cret\n","token_type":"Bearer"}"#).expect_err("a newline");
        assert!(!format!("{bad:?}").contains("s3cret"));
    }

    #[test]
    fn refusals_have_the_code_of_the_server() {
        let response =
            |status, body: &str| FetchResponse { status, body: body.into(), ..FetchResponse::default() };
        let found = refusal(&response(400, r#"{"error":"invalid_grant","error_description":"gone"}"#));
        assert_eq!(found, refused("invalid_grant", Some("gone")));
        assert_eq!(refusal(&response(400, "<html>")), ErrorKind::Status(400));
        for status in [408, 429, 502] {
            let found = refusal(&response(status, r#"{"error":"invalid_grant"}"#));
            assert_eq!(found, ErrorKind::Status(status), "nobody has judged the grant");
        }
    }

    // covers: SEC-019
    #[test]
    fn debug_output_of_secrets_is_always_the_same() {
        use crate::jose::{Algorithm, DpopKey, SignRequest, SigningKey};
        let key = DpopKey { private: "s3cret".into(), public: [0; 64] };
        assert_eq!(format!("{:?} {key:?}", Secret::new("s3cret")), "Secret(…) DpopKey { .. }");
        let request =
            SignRequest { key: SigningKey::Client, algorithm: Algorithm::Es256, input: (*b"s3cret").into() };
        assert_eq!(format!("{request:?}"), "SignRequest { key: Client, algorithm: Es256, .. }");
    }
}
