//! What a client stores: the tokens for an MCP server, and its registration at an authorization server.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use super::client_request::Registration;
use super::document::{Defect, Document};
use super::jose::{self, DpopKey, JsonObject};
use super::locations;
use super::token::{self, Secret};
use mcp_proto::Scopes;
use mcp_proto::http::Url;

/// Version of the stored form.
const VERSION: u64 = 1;

/// The tokens for one MCP server, as they are stored.
///
/// A flow reads and writes this form; an application may read it to show what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) registration: Registration,
    pub(super) client_id: String,
    /// How the client authenticates, by its name in metadata.
    pub(super) auth_method: String,
    /// The secret of a dynamic registration.
    pub(super) client_secret: Option<Secret>,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    /// The scopes that were asked for.
    pub(super) requested: Scopes,
    /// The scopes that were granted.
    pub(super) granted: Scopes,
    /// The scopes to ask for next, because the server asked for more and there was no user (AUTH-057); else empty.
    pub(super) needed: Scopes,
    pub(super) access_token: Secret,
    /// The key that was offered for the tokens.
    pub(super) dpop: Option<DpopKey>,
    /// Whether the access token is not bound to the key; the refresh token may be.
    pub(super) is_bearer: bool,
    pub(super) refresh_token: Option<Secret>,
    /// Unix times, in seconds.
    pub(super) issued_at: u64,
    pub(super) renew_at: Option<u64>,
    pub(super) expires_at: Option<u64>,
    /// The refused token that the access token took the place of, if it did.
    pub(super) replaces: Option<RefusedToken>,
    /// The mark of a refresh whose outcome is not stored: the refresh token may be used up. No two attempts have the same.
    pub(super) attempt: Option<String>,
    /// How the authorization server is to be asked, as the configuration of the login said.
    pub(super) omits_resource: bool,
    pub(super) repeats_scope: bool,
}

/// An access token that the MCP server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedToken {
    /// It had been in use.
    Used,
    /// It had been issued just before.
    New,
}

impl RefusedToken {
    const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::New => "new",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Used, Self::New].into_iter().find(|token| token.name() == name)
    }
}

impl TokenRecord {
    /// Returns the key under which the tokens for a server are stored.
    #[must_use]
    pub fn key(server: &Url) -> String {
        format!("token {}", locations::canonical(server))
    }

    /// Reads a stored record.
    ///
    /// # Errors
    ///
    /// A text that names the defect, without secrets.
    pub fn parse(stored: &Secret) -> Result<Self, Cow<'static, str>> {
        read(stored, |document| {
            let secret = |name: &str| document.string(name).map(Secret::from);
            let access_token = document.required_string("access_token");
            // The token becomes a header field, and the store may have been changed from outside.
            if !token::is_access_token(&access_token) {
                return Err("`access_token` has characters that no token may have".into());
            }
            Ok(Self {
                resource: document.required_string("resource"),
                issuer: document.required_string("issuer"),
                registration: Registration::from_name(&document.required_string("registration"))
                    .ok_or("`registration` is unknown")?,
                client_id: document.required_string("client_id"),
                auth_method: document.required_string("auth_method"),
                client_secret: secret("client_secret"),
                token_endpoint: document.required_string("token_endpoint"),
                revocation_endpoint: document.string("revocation_endpoint"),
                requested: document.scope("requested").unwrap_or_default(),
                granted: document.scope("granted").unwrap_or_default(),
                needed: document.scope("needed").unwrap_or_default(),
                access_token: access_token.into(),
                dpop: read_key(document)?,
                is_bearer: document.boolean("is_bearer"),
                refresh_token: secret("refresh_token"),
                issued_at: document.seconds("issued_at").unwrap_or(0),
                renew_at: document.seconds("renew_at"),
                expires_at: document.seconds("expires_at"),
                replaces: document.string("replaces").as_deref().and_then(RefusedToken::from_name),
                attempt: document.string("attempt"),
                omits_resource: document.boolean("omits_resource"),
                repeats_scope: document.boolean("repeats_scope"),
            })
        })
    }

    pub(super) fn to_secret(&self) -> Secret {
        let mut out = JsonObject::new();
        out.number("version", VERSION).string("resource", &self.resource).string("issuer", &self.issuer);
        out.string("registration", self.registration.name()).string("client_id", &self.client_id);
        out.string("auth_method", &self.auth_method);
        out.optional("client_secret", self.client_secret.as_ref().map(Secret::expose));
        out.string("token_endpoint", &self.token_endpoint);
        out.optional("revocation_endpoint", self.revocation_endpoint.as_deref());
        out.string("requested", self.requested.as_str()).string("granted", self.granted.as_str());
        out.optional("needed", (!self.needed.is_empty()).then(|| self.needed.as_str()));
        out.string("access_token", self.access_token.expose());
        if let Some(key) = &self.dpop {
            out.string("dpop_private", key.private.expose())
                .string("dpop_public", &jose::base64url(&key.public));
            if self.is_bearer {
                out.raw("is_bearer", "true");
            }
        }
        out.optional("refresh_token", self.refresh_token.as_ref().map(Secret::expose));
        out.number("issued_at", self.issued_at);
        for (name, time) in [("renew_at", self.renew_at), ("expires_at", self.expires_at)] {
            if let Some(time) = time {
                out.number(name, time);
            }
        }
        out.optional("replaces", self.replaces.map(RefusedToken::name));
        out.optional("attempt", self.attempt.as_deref());
        for name in [("omits_resource", self.omits_resource), ("repeats_scope", self.repeats_scope)]
            .into_iter()
            .filter_map(|(name, is_set)| is_set.then_some(name))
        {
            out.raw(name, "true");
        }
        out.finish().into()
    }

    /// Returns whether the access token is due to be renewed at a Unix time.
    pub(super) fn is_due(&self, unix_secs: u64) -> bool {
        self.renew_at.is_some_and(|at| at <= unix_secs)
    }

    /// Returns the identifier of the MCP server for its authorization server.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the issuer of the tokens.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the client id.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Returns how the client got its id.
    #[must_use]
    pub const fn registration(&self) -> Registration {
        self.registration
    }

    /// Returns the granted scopes.
    #[must_use]
    pub const fn scopes(&self) -> &Scopes {
        &self.granted
    }

    /// Returns the scopes that the next login asks for, because the server asked for more than were granted.
    #[must_use]
    pub const fn needed_scopes(&self) -> &Scopes {
        &self.needed
    }

    /// Returns when the access token expires (Unix time in seconds), if the server said so.
    #[must_use]
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Returns whether there is a refresh token.
    #[must_use]
    pub const fn is_refreshable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Returns whether the access token is bound to a key (DPoP).
    #[must_use]
    pub const fn is_dpop(&self) -> bool {
        self.dpop.is_some() && !self.is_bearer
    }
}

/// A dynamic registration at one authorization server, as it is stored (AUTH-039).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientRecord {
    pub(super) client_id: String,
    pub(super) auth_method: String,
    pub(super) secret: Option<Secret>,
    /// The grant type that the client was registered for.
    pub(super) grant: String,
    /// Empty if the client was registered for a flow without one.
    pub(super) redirect_uri: String,
    /// When the secret expires: Unix time in seconds.
    pub(super) expires_at: Option<u64>,
}

impl ClientRecord {
    /// Returns the key under which the registration at an authorization server is stored.
    pub(super) fn key(issuer: &str) -> String {
        format!("client {issuer}")
    }

    pub(super) fn parse(stored: &Secret) -> Result<Self, Defect> {
        read(stored, |document| {
            Ok(Self {
                client_id: document.required_string("client_id"),
                auth_method: document.required_string("auth_method"),
                secret: document.string("client_secret").map(Secret::from),
                grant: document.required_string("grant"),
                redirect_uri: document.string("redirect_uri").unwrap_or_default(),
                expires_at: document.seconds("expires_at"),
            })
        })
    }

    pub(super) fn to_secret(&self) -> Secret {
        let mut out = JsonObject::new();
        out.number("version", VERSION).string("client_id", &self.client_id);
        out.string("auth_method", &self.auth_method);
        out.optional("client_secret", self.secret.as_ref().map(Secret::expose));
        out.string("grant", &self.grant).string("redirect_uri", &self.redirect_uri);
        if let Some(at) = self.expires_at {
            out.number("expires_at", at);
        }
        out.finish().into()
    }
}

/// The only authorization server that gets a shared secret of the configuration (AUTH-039).
pub(super) struct SecretBinding;

impl SecretBinding {
    /// Returns the key under which the issuer is stored for a client with a secret.
    pub(super) fn key(client_id: &str, secret: &Secret) -> String {
        // The NUL keeps another pair of id and secret from having the same text.
        let digest = jose::digest(&format!("{client_id}\0{}", secret.expose()));
        format!("issuer of {client_id} {}", digest.get(..16).unwrap_or_default())
    }

    pub(super) fn parse(stored: &Secret) -> Result<String, Defect> {
        read(stored, |document| Ok(document.required_string("issuer")))
    }

    pub(super) fn to_secret(issuer: &str) -> Secret {
        let mut out = JsonObject::new();
        out.number("version", VERSION).string("issuer", issuer);
        out.finish().into()
    }
}

/// Reads what is stored, in this version.
fn read<T>(stored: &Secret, build: impl FnOnce(&Document) -> Result<T, Defect>) -> Result<T, Defect> {
    Document::read(
        stored.expose().as_bytes(),
        |why| why,
        |document| match document.seconds("version") {
            Some(VERSION) => build(document),
            _ => Err("its version is unknown".into()),
        },
    )
}

fn read_key(document: &Document) -> Result<Option<DpopKey>, Defect> {
    let Some((private, public)) = document.string("dpop_private").zip(document.string("dpop_public")) else {
        return Ok(None);
    };
    match jose::from_base64url(&public).and_then(|bytes| bytes.try_into().ok()) {
        Some(public) => Ok(Some(DpopKey { private: private.into(), public })),
        None => Err("`dpop_public` is not a key".into()),
    }
}

/// Returns a URL as it is stored.
pub(super) fn url_text(url: &Url) -> String {
    format!("{}{}", url.origin(), url.target())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(deprecated, reason = "tested until its removal")]
    fn record() -> TokenRecord {
        TokenRecord {
            resource: "https://h/mcp".into(),
            issuer: "https://as".into(),
            registration: Registration::Dynamic,
            client_id: "c".into(),
            auth_method: "client_secret_post".into(),
            client_secret: Some("cs3cret".into()),
            token_endpoint: "https://as/token".into(),
            revocation_endpoint: None,
            requested: Scopes::parse("a b").expect("scopes"),
            granted: Scopes::parse("a").expect("scopes"),
            access_token: "ts3cret".into(),
            dpop: Some(DpopKey { private: "ps3cret".into(), public: [9; 64] }),
            is_bearer: false,
            refresh_token: Some("rs3cret".into()),
            issued_at: 5,
            renew_at: Some(10),
            expires_at: Some(11),
            needed: Scopes::parse("a b c").expect("scopes"),
            replaces: Some(RefusedToken::New),
            attempt: Some("m".into()),
            omits_resource: true,
            repeats_scope: true,
        }
    }

    // covers: SEC-019, AUTH-064
    #[test]
    fn records_are_read_as_they_were_written_and_shown_without_secrets() {
        let stored = record().to_secret();
        assert_eq!(TokenRecord::parse(&stored), Ok(record()));
        assert_eq!(record().client_id(), "c");
        assert!(!format!("{:?} {stored:?}", record()).contains("s3cret"));
        let client = ClientRecord {
            client_id: "c".into(),
            auth_method: "none".into(),
            secret: None,
            grant: "authorization_code".into(),
            redirect_uri: "http://127.0.0.1:1/callback".into(),
            expires_at: Some(3),
        };
        assert_eq!(ClientRecord::parse(&client.to_secret()), Ok(client));
    }

    #[test]
    fn a_stored_token_that_no_field_may_hold_is_refused() {
        for token in ["t\\r\\nX: y", "t t", "t\u{e9}"] {
            let text = record().to_secret().expose().replace("ts3cret", token);
            let why = TokenRecord::parse(&text.into()).expect_err(token);
            assert!(why.contains("`access_token`"), "{why}");
        }
    }

    #[test]
    fn a_damaged_key_is_refused() {
        let stored = record().to_secret();
        for (good, bad) in [("CQkJ", "CQk"), ("CQkJ", "CQ+J"), ("CQkJ", "é"), ("CQkJ", "CQkJCQkJ")] {
            let text = stored.expose().replacen(good, bad, 1);
            let why = TokenRecord::parse(&text.into()).expect_err(bad);
            assert!(why.contains("dpop_public"), "{why}");
        }
    }

    // covers: AUTH-039
    #[test]
    fn each_secret_of_each_client_has_a_key_of_its_own() {
        let key = |client: &str, secret: &str| SecretBinding::key(client, &secret.into());
        let keys = [key("a", "s3cret"), key("a", "s3cret2"), key("a2", "s3cret"), key("b", "s3cret")];
        for (at, key) in keys.iter().enumerate() {
            assert!(key.starts_with("issuer of ") && !key.contains("s3cret"), "{key}");
            assert!(!keys[..at].contains(key), "{key}");
        }
        assert_eq!(key("a", "s3cret"), keys[0]);
    }

    #[test]
    fn damaged_records_are_named() {
        for bad in ["", "{}", "[]", r#"{"version":2}"#, r#"{"version":1,"resource":"r"}"#] {
            assert!(TokenRecord::parse(&bad.into()).is_err(), "{bad}");
            assert!(ClientRecord::parse(&bad.into()).is_err(), "{bad}");
        }
    }
}
