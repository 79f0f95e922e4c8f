//! A POST by which a client authenticates itself: to the token endpoint and those beside it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::document::Document;
use super::jose::{self, Algorithm, AssertionClaims, DpopKey, ProofClaims, SignRequest, SigningKey};
use super::locations;
use super::request::{self, FetchResponse, Form, json_fields};
use super::token::{self, Secret};
use crate::error::ErrorKind;
use mcp_proto::head::Fields;
use mcp_proto::http::Url;

/// Lifetime of an assertion of a client, in seconds.
const ASSERTION_LIFETIME: u64 = 60;
/// Largest number of nonces that a server may ask for in one request.
pub(super) const MAX_NONCES: u8 = 2;
/// Length of the longest nonce, in bytes.
const MAX_NONCE: usize = 512;

/// Length of the shortest secret that is looked for in an error; a shorter one may be a part of any text.
const MIN_SECRET: usize = 6;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The way in which a client authenticates to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuthMethod {
    None,
    Basic(Secret),
    Post(Secret),
    PrivateKeyJwt { algorithm: Algorithm, key_id: Option<String> },
}

impl AuthMethod {
    /// Returns the name of the method in metadata (RFC 8414, `token_endpoint_auth_methods_supported`).
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::PrivateKeyJwt { .. } => "private_key_jwt",
        }
    }

    const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Basic(secret) | Self::Post(secret) => Some(secret),
            Self::None | Self::PrivateKeyJwt { .. } => None,
        }
    }
}

/// A client at one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) auth: AuthMethod,
}

/// A request under construction, until its final response.
#[derive(Debug)]
pub(super) struct ClientRequest {
    url: Url,
    client: Client,
    /// The audience of an assertion: the issuer of the server.
    audience: String,
    params: Vec<(&'static str, Secret)>,
    dpop: Option<DpopKey>,
    nonce: Option<String>,
    nonces: u8,
    assertion: Part,
    proof: Part,
}

/// A signed part of a request.
#[derive(Debug)]
enum Part {
    Missing,
    /// The signing input.
    Signing(String),
    Ready(String),
}

/// What to do next.
pub(super) enum RequestStep {
    Sign(SignRequest),
    Send { url: Url, fields: Fields, body: String },
}

/// The outcome of a response.
pub(super) enum RequestOutcome {
    /// Continue with [`ClientRequest::next`].
    Again,
    /// The server refused.
    Refused(ErrorKind),
    /// Status 200.
    Success(FetchResponse),
}

impl ClientRequest {
    /// Creates a request without a proof.
    pub(super) const fn new(url: Url, client: Client, audience: String) -> Self {
        Self {
            url,
            client,
            audience,
            params: Vec::new(),
            dpop: None,
            nonce: None,
            nonces: 0,
            assertion: Part::Missing,
            proof: Part::Missing,
        }
    }

    /// Adds a proof of possession, with the nonce that the server asked for last.
    pub(super) fn dpop(&mut self, key: Option<DpopKey>, nonce: Option<String>) {
        (self.dpop, self.nonce) = (key, nonce);
    }

    /// Adds a parameter.
    #[inline(never)]
    pub(super) fn param(&mut self, name: &'static str, value: Secret) -> &mut Self {
        self.params.push((name, value));
        self
    }

    /// Adds a parameter that is no secret.
    #[inline(never)]
    pub(super) fn text(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.param(name, value.into())
    }

    /// Adds a parameter, if there is a value.
    #[inline(never)]
    pub(super) fn optional(&mut self, name: &'static str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Returns the server, for errors.
    pub(super) fn server(&self) -> String {
        locations::without_query(&self.url)
    }

    /// Returns the nonce that the server asked for last.
    pub(super) fn take_nonce(&mut self) -> Option<String> {
        self.nonce.take()
    }

    /// Returns what to do next. `random_id` gives a new unique value; `unix_secs` is the time.
    pub(super) fn next(&mut self, unix_secs: u64, random_id: &mut dyn FnMut() -> String) -> RequestStep {
        // One signature is asked for at a time, so `handle_signature` knows for which part it is.
        if let (AuthMethod::PrivateKeyJwt { algorithm, key_id }, Part::Missing) =
            (&self.client.auth, &self.assertion)
        {
            let claims = AssertionClaims {
                id: &random_id(),
                client_id: &self.client.id,
                audience: &self.audience,
                issued_at: unix_secs,
                lifetime: ASSERTION_LIFETIME,
            };
            let input = claims.signing_input(*algorithm, key_id.as_deref());
            let request = sign(SigningKey::Client, *algorithm, &input);
            self.assertion = Part::Signing(input);
            return request;
        }
        if let (Some(key), Part::Missing) = (&self.dpop, &self.proof) {
            let claims = ProofClaims {
                id: &random_id(),
                method: "POST",
                url: &locations::without_query(&self.url),
                issued_at: unix_secs,
                nonce: self.nonce.as_deref(),
                access_token: None,
            };
            let input = claims.signing_input(&key.public);
            let request = sign(SigningKey::Dpop(key.private.clone()), Algorithm::Es256, &input);
            self.proof = Part::Signing(input);
            return request;
        }
        self.send()
    }

    /// Takes the signature that was asked for last.
    pub(super) fn handle_signature(&mut self, signature: &[u8]) {
        for part in [&mut self.assertion, &mut self.proof] {
            if let Part::Signing(input) = part {
                *part = Part::Ready(jose::join(core::mem::take(input), signature));
            }
        }
    }

    fn send(&self) -> RequestStep {
        let mut fields = json_fields();
        fields.push("Content-Type", b"application/x-www-form-urlencoded");
        let mut body = Form::default();
        for (name, value) in &self.params {
            body.push(name, value.expose());
        }
        match &self.client.auth {
            AuthMethod::None => body.push("client_id", &self.client.id),
            AuthMethod::Post(secret) => {
                body.push("client_id", &self.client.id);
                body.push("client_secret", secret.expose());
            }
            AuthMethod::Basic(secret) => {
                // RFC 6749, 2.3.1: both are encoded as in a form first.
                let mut pair = String::new();
                request::encode_form(&mut pair, &self.client.id);
                pair.push(':');
                request::encode_form(&mut pair, secret.expose());
                fields.push("Authorization", format!("Basic {}", STANDARD.encode(pair)).as_bytes());
            }
            AuthMethod::PrivateKeyJwt { .. } => {
                if let Part::Ready(assertion) = &self.assertion {
                    body.push("client_assertion_type", ASSERTION_TYPE);
                    body.push("client_assertion", assertion);
                }
            }
        }
        if let Part::Ready(proof) = &self.proof {
            fields.push("DPoP", proof.as_bytes());
        }
        RequestStep::Send { url: self.url.clone(), fields, body: body.into_string() }
    }

    /// Takes the response. Nothing with credentials follows a redirect (SEC-011).
    pub(super) fn handle_response(&mut self, response: FetchResponse) -> RequestOutcome {
        let nonce = response.field("dpop-nonce").filter(|n| is_nonce(n)).map(|n| n.to_owned());
        if let (Some(nonce), Some(_)) = (nonce, &self.dpop) {
            self.nonce = Some(nonce);
            // RFC 9449 names 400 for authorization servers (8) and 401 for resource servers (9). Either is understood.
            let asks = matches!(response.status, 400 | 401) && error_code(&response) == "use_dpop_nonce";
            if asks && self.nonces < MAX_NONCES {
                self.nonces += 1;
                // An assertion may be used once, too.
                (self.proof, self.assertion) = (Part::Missing, Part::Missing);
                return RequestOutcome::Again;
            }
        }
        match response.status {
            200 => RequestOutcome::Success(response),
            _ => RequestOutcome::Refused(self.without_secrets(token::refusal(&response))),
        }
    }
}

impl ClientRequest {
    /// Returns a reason without what a server repeats of the secrets of the request (SEC-019).
    fn without_secrets(&self, kind: ErrorKind) -> ErrorKind {
        let is_shown = |text: &str| {
            let names =
                |secret: &Secret| secret.expose().len() >= MIN_SECRET && text.contains(secret.expose());
            self.params.iter().any(|(name, value)| is_secret(name) && names(value))
                || self.client.auth.secret().is_some_and(names)
        };
        match kind {
            ErrorKind::Refused { code, .. } if is_shown(&code) => {
                ErrorKind::Refused { code: "…".into(), description: None }
            }
            ErrorKind::Refused { code, description: Some(text) } if is_shown(&text) => {
                ErrorKind::Refused { code, description: None }
            }
            ErrorKind::Redirected(to) if is_shown(&to) => ErrorKind::Redirected("…".into()),
            kind => kind,
        }
    }
}

/// Returns whether the value of a parameter is a secret.
fn is_secret(name: &str) -> bool {
    matches!(
        name,
        "code" | "code_verifier" | "refresh_token" | "token" | "device_code" | "assertion" | "subject_token"
    )
}

fn sign(key: SigningKey, algorithm: Algorithm, input: &str) -> RequestStep {
    RequestStep::Sign(SignRequest { key, algorithm, input: input.as_bytes().into() })
}

fn error_code(response: &FetchResponse) -> String {
    Document::read(&response.body, drop, |document| Ok(document.required_string("error"))).unwrap_or_default()
}

/// Returns whether a text is a nonce (RFC 9449, 8.1).
pub(crate) fn is_nonce(text: &str) -> bool {
    let fits = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.len() <= MAX_NONCE && text.bytes().all(fits)
}

// How a client is registered at an authorization server.

/// How a client got its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// By its configuration.
    PreRegistered,
    /// It is the URL of a client id metadata document.
    MetadataDocument,
    /// By dynamic client registration.
    #[deprecated(note = "MCP PR #2858; earliest removal: first revision released on or after 2027-07-28")]
    Dynamic,
}

impl Registration {
    /// Returns the name.
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreRegistered => "pre-registered",
            Self::MetadataDocument => "metadata-document",
            Self::Dynamic => "dynamic",
        }
    }

    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::PreRegistered, Self::MetadataDocument, Self::Dynamic].into_iter().find(|r| r.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(auth: AuthMethod) -> ClientRequest {
        let url = Url::parse("https://as/token?x=1").expect("a URL");
        let mut request = ClientRequest::new(url, Client { id: "a b".into(), auth }, "https://as".into());
        request.text("grant_type", "refresh_token");
        request
    }

    fn sent(request: &mut ClientRequest) -> (Fields, String) {
        loop {
            match request.next(7, &mut || "id".into()) {
                RequestStep::Sign(_) => request.handle_signature(&[1; 64]),
                RequestStep::Send { fields, body, .. } => return (fields, body),
            }
        }
    }

    fn value(fields: &Fields, name: &str) -> Option<String> {
        fields.iter().find(|(n, _)| *n == name).map(|(_, v)| String::from_utf8_lossy(v).into_owned())
    }

    #[test]
    fn each_method_authenticates_in_its_way() {
        let (fields, body) = sent(&mut request(AuthMethod::None));
        assert_eq!(
            (value(&fields, "Authorization"), &*body),
            (None, "grant_type=refresh_token&client_id=a+b")
        );
        let (fields, body) = sent(&mut request(AuthMethod::Basic("s:t".into())));
        assert_eq!(value(&fields, "Authorization"), Some(format!("Basic {}", STANDARD.encode("a+b:s%3At"))));
        assert_eq!(body, "grant_type=refresh_token");
        let (fields, body) = sent(&mut request(AuthMethod::Post("s".into())));
        assert_eq!(value(&fields, "Authorization"), None);
        assert_eq!(body, "grant_type=refresh_token&client_id=a+b&client_secret=s");
        let jwt = AuthMethod::PrivateKeyJwt { algorithm: Algorithm::Es256, key_id: None };
        let (_, body) = sent(&mut request(jwt));
        assert!(
            body.contains("client_assertion_type=urn%3Aietf") && body.contains("&client_assertion="),
            "{body}"
        );
        assert!(!body.contains("client_id="), "{body}");
    }

    #[test]
    fn a_nonce_is_used_in_a_new_proof_twice_at_most() {
        let key = DpopKey { private: "k".into(), public: [0; 64] };
        let mut request = request(AuthMethod::None);
        request.dpop(Some(key), None);
        let (fields, _) = sent(&mut request);
        let first = value(&fields, "DPoP").expect("a proof");
        let ask = || {
            let mut fields = Fields::new();
            fields.push("DPoP-Nonce", b"n1");
            FetchResponse { status: 400, fields, body: br#"{"error":"use_dpop_nonce"}"#.to_vec() }
        };
        for _ in 0..2 {
            assert!(matches!(request.handle_response(ask()), RequestOutcome::Again));
            assert_ne!(value(&sent(&mut request).0, "DPoP").as_ref(), Some(&first));
        }
        assert!(matches!(request.handle_response(ask()), RequestOutcome::Refused(ErrorKind::Refused { .. })));
    }

    // covers: SEC-019
    #[test]
    fn refusals_that_repeat_a_secret_are_shown_without_it() {
        for (auth, code, description, expected) in [
            (AuthMethod::None, "a", "not for https://h.test", ("a", Some("not for https://h.test"))),
            (AuthMethod::None, "a", "the token rs3cret", ("a", None)),
            (AuthMethod::None, "rs3cret", "b", ("…", None)),
            (AuthMethod::None, "a", "the secret cs3cret", ("a", Some("the secret cs3cret"))),
            (AuthMethod::Post("cs3cret".into()), "a", "the secret cs3cret", ("a", None)),
            (AuthMethod::Basic("cs3cret".into()), "a", "the secret cs3cret", ("a", None)),
        ] {
            let mut request = request(auth);
            request.text("refresh_token", "rs3cret").text("resource", "https://h.test");
            let body = format!(r#"{{"error":"{code}","error_description":"{description}"}}"#).into_bytes();
            let mut fields = Fields::new();
            fields.push("DPoP-Nonce", b"n1");
            request.dpop(Some(DpopKey { private: "k".into(), public: [0; 64] }), None);
            // A nonce alone asks for nothing.
            let response = FetchResponse { status: 400, fields, body };
            let RequestOutcome::Refused(ErrorKind::Refused { code, description }) =
                request.handle_response(response)
            else {
                panic!("accepted")
            };
            assert_eq!((&*code, description.as_deref()), expected);
        }
    }

    // covers: SEC-011
    #[test]
    fn redirects_are_not_followed() {
        let mut fields = Fields::new();
        fields.push("Location", b"https://evil/?token=x");
        let response = FetchResponse { status: 307, fields, body: Vec::new() };
        let RequestOutcome::Refused(ErrorKind::Redirected(to)) =
            request(AuthMethod::None).handle_response(response)
        else {
            panic!("followed")
        };
        assert_eq!(&*to, "https://evil/?…");
    }
}
