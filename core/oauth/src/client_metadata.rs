//! Client id metadata documents: a URL as client id, and the document that it leads to
//! (draft-ietf-oauth-client-id-metadata-document-00).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::document::Document;
use super::jose::JsonObject;
use super::locations;
use mcp_proto::http::Url;

/// A document or its URL is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client id metadata document: {0}")]
pub struct ClientMetadataError(Cow<'static, str>);

/// A client id metadata document (AUTH-034).
///
/// ```
/// use mcp_oauth::ClientMetadata;
/// let document = ClientMetadata::new("https://app.example.com/client.json", "Example")
///     .redirect_uri("http://127.0.0.1/callback")
///     .to_json()?;
/// ClientMetadata::check("https://app.example.com/client.json", document.as_bytes())?;
/// # Ok::<(), mcp_oauth::ClientMetadataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetadata {
    client_id: String,
    client_name: String,
    client_uri: Option<String>,
    logo_uri: Option<String>,
    redirect_uris: Vec<String>,
    jwks_uri: Option<String>,
}

impl ClientMetadata {
    /// Creates the document of the client whose id is `client_id`, the URL of the document.
    #[must_use]
    pub fn new(client_id: impl Into<String>, client_name: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            client_name: client_name.into(),
            client_uri: None,
            logo_uri: None,
            redirect_uris: Vec::new(),
            jwks_uri: None,
        }
    }

    /// Adds a redirect URI.
    ///
    /// For a native application `http://127.0.0.1/callback`: authorization servers accept any port on the loopback
    /// interface (RFC 8252, 7.3).
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.redirect_uris.push(uri.into());
        self
    }

    /// Sets the home page of the client.
    #[must_use]
    pub fn client_uri(mut self, uri: impl Into<String>) -> Self {
        self.client_uri = Some(uri.into());
        self
    }

    /// Sets the logo of the client.
    #[must_use]
    pub fn logo_uri(mut self, uri: impl Into<String>) -> Self {
        self.logo_uri = Some(uri.into());
        self
    }

    /// Sets the URL of the public keys of the client, which then authenticates by `private_key_jwt` (AUTH-035).
    #[must_use]
    pub fn jwks_uri(mut self, uri: impl Into<String>) -> Self {
        self.jwks_uri = Some(uri.into());
        self
    }

    /// Returns the document.
    ///
    /// # Errors
    ///
    /// [`ClientMetadataError`] if it would not be acceptable.
    pub fn to_json(&self) -> Result<String, ClientMetadataError> {
        let method = if self.jwks_uri.is_some() { "private_key_jwt" } else { "none" };
        let mut document = JsonObject::new();
        document.string("client_id", &self.client_id).string("client_name", &self.client_name);
        document.optional("client_uri", self.client_uri.as_deref());
        document.optional("logo_uri", self.logo_uri.as_deref());
        document.strings("redirect_uris", self.redirect_uris.iter().map(|uri| &**uri));
        document.strings("grant_types", ["authorization_code", "refresh_token"]);
        document.strings("response_types", ["code"]);
        document.string("token_endpoint_auth_method", method);
        document.optional("jwks_uri", self.jwks_uri.as_deref());
        let text = document.finish();
        Self::check(&self.client_id, text.as_bytes())?;
        Ok(text)
    }

    /// Checks the document that was found at `url`, as an authorization server does (AUTH-034, AUTH-036).
    ///
    /// # Errors
    ///
    /// [`ClientMetadataError`] with the first member that breaks a rule.
    pub fn check(url: &str, document: &[u8]) -> Result<(), ClientMetadataError> {
        check_client_id(url)?;
        Document::read(document, ClientMetadataError, |document| {
            if document.required_string("client_id") != url {
                return Err(ClientMetadataError("`client_id` is not the URL of the document".into()));
            }
            document.required_string("client_name");
            let uris = document.strings("redirect_uris").unwrap_or_default();
            if uris.is_empty() {
                return Err(ClientMetadataError("`redirect_uris` is missing".into()));
            }
            uris.iter().try_for_each(|uri| check_redirect_uri(uri))?;
            let method = document.string("token_endpoint_auth_method");
            // The document is public, so it cannot hold a shared secret (draft, 4.1).
            if method.is_some_and(|method| method.starts_with("client_secret")) {
                return Err(ClientMetadataError("`token_endpoint_auth_method` needs a shared secret".into()));
            }
            match document.string("client_secret") {
                Some(_) => Err(ClientMetadataError("`client_secret` must not be there".into())),
                None => Ok(()),
            }
        })
    }
}

/// Checks a redirect URI: `https`, `http` on the loopback interface, or a private scheme (AUTH-061).
fn check_redirect_uri(uri: &str) -> Result<(), ClientMetadataError> {
    let fault = |why: &str| ClientMetadataError(format!("`redirect_uris`: {why}").into());
    if uri.contains('#') {
        return Err(fault("a redirect URI has a fragment"));
    }
    match Url::parse(uri) {
        Ok(url) if url.origin().secure || url.origin().is_loopback() => Ok(()),
        Ok(_) => Err(fault("a redirect URI is http on another host than the loopback interface")),
        Err(_) => {
            let scheme = mcp_proto::uri::scheme(uri).and_then(|end| uri.get(..end)).unwrap_or_default();
            // A scheme of an application is a reversed domain name (RFC 8252, 7.1).
            if scheme.contains('.') {
                Ok(())
            } else {
                Err(fault("a redirect URI is not a URI of an application"))
            }
        }
    }
}

/// Checks the URL of a client id metadata document: `https` with a path, and nothing that could be read in two ways
/// (AUTH-034; draft, 3).
pub(super) fn check_client_id(text: &str) -> Result<(), ClientMetadataError> {
    let fault = |why: &'static str| ClientMetadataError(Cow::Borrowed(why));
    let url = Url::parse(text).map_err(|why| ClientMetadataError(format!("its URL: {why}").into()))?;
    if !url.origin().secure {
        return Err(fault("its URL is not https"));
    }
    if locations::path(&url) == "/" {
        return Err(fault("its URL has no path"));
    }
    if text.contains('#') {
        return Err(fault("its URL has a fragment"));
    }
    let raw_path = text.splitn(4, '/').nth(3).unwrap_or_default();
    if raw_path.split(['/', '?']).any(|segment| matches!(segment, "." | "..")) {
        return Err(fault("its URL has dot segments"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "https://app.example.com/client.json";

    // covers: AUTH-034, AUTH-036
    #[test]
    fn only_https_urls_with_a_path_are_client_ids() {
        for good in [ID, "https://h/a?b", "https://h:8443/a/b"] {
            assert_eq!(check_client_id(good), Ok(()), "{good}");
        }
        for bad in [
            "http://h/a",
            "https://h",
            "https://h/",
            "https://h/a#f",
            "https://h/a/../b",
            "https://u@h/a",
            "x",
        ] {
            assert!(check_client_id(bad).is_err(), "{bad}");
        }
    }

    // covers: AUTH-034, AUTH-036
    #[test]
    fn a_built_document_is_valid_and_others_are_refused() {
        let document = ClientMetadata::new(ID, "N\"x")
            .redirect_uri("http://127.0.0.1/callback")
            .client_uri("https://h/");
        let text = document.to_json().expect("a document");
        assert_eq!(ClientMetadata::check(ID, text.as_bytes()), Ok(()));
        assert!(ClientMetadata::check("https://other/client.json", text.as_bytes()).is_err());
        assert!(ClientMetadata::new(ID, "N").to_json().is_err(), "no redirect URI");
        for uri in ["http://h/cb", "javascript:alert(1)", "https://h/cb#f", "custom:/x"] {
            assert!(ClientMetadata::new(ID, "N").redirect_uri(uri).to_json().is_err(), "{uri}");
        }
        for uri in ["https://h/cb", "http://[::1]/cb", "com.example.app:/cb"] {
            assert!(ClientMetadata::new(ID, "N").redirect_uri(uri).to_json().is_ok(), "{uri}");
        }
        let secret = br#"{"client_id":"https://app.example.com/client.json","client_name":"N",
            "redirect_uris":["https://h/cb"],"token_endpoint_auth_method":"client_secret_post"}"#;
        assert!(ClientMetadata::check(ID, secret).is_err());
    }
}
