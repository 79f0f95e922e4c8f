//! A fake authorization server, and the rules by which it judges requests.

use alloc::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::message::{Reply, Request, digest, encoded, form, jwt};

/// A client that an authorization server knows.
#[derive(Clone, Debug, Default)]
pub struct KnownClient {
    /// How it authenticates, by the name in metadata.
    pub method: String,
    /// The secret; empty for a public client.
    pub secret: String,
    /// The redirect URI, if it is checked.
    pub redirect_uri: Option<String>,
}

/// What a code, a refresh token or an access token stands for.
#[derive(Clone, Debug, Default)]
struct Grant {
    client: String,
    scope: String,
    challenge: String,
    redirect_uri: String,
    resource: String,
    jkt: Option<String>,
    is_used: bool,
}

/// A fake authorization server; its metadata decides which endpoints it has.
#[derive(Clone, Debug)]
pub struct AuthServer {
    /// The issuer.
    pub issuer: String,
    /// The metadata; the endpoints are looked up in it.
    pub metadata: Value,
    /// The URL at which the metadata is served; empty if it is not.
    pub metadata_at: String,
    /// Clients by their ids.
    pub clients: BTreeMap<String, KnownClient>,
    /// Lifetime of access tokens, in seconds.
    pub lifetime: Option<u64>,
    /// Whether a refresh token is issued.
    pub issues_refresh: bool,
    /// Whether a refresh token is used once.
    pub rotates: bool,
    /// Whether requests must leave `resource` out, instead of having it.
    pub refuses_resource: bool,
    /// The scopes that are granted instead of those that were asked for.
    pub granted: Option<String>,
    /// The nonce that a proof must have.
    pub nonce: Option<String>,
    /// Answers to polls of the device flow, before a token: errors.
    pub device_answers: Vec<&'static str>,
    /// Secrets that were issued.
    pub secrets: BTreeSet<String>,
    codes: BTreeMap<String, Grant>,
    refresh: BTreeMap<String, Grant>,
    device: BTreeMap<String, Grant>,
    proofs: BTreeSet<String>,
    issued: u32,
}

impl AuthServer {
    /// Creates a server with all endpoints that registers public clients.
    #[must_use]
    pub fn new(issuer: &str) -> Self {
        let metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "device_authorization_endpoint": format!("{issuer}/device"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
        });
        Self {
            issuer: issuer.into(),
            metadata,
            metadata_at: format!("{issuer}/.well-known/oauth-authorization-server"),
            clients: BTreeMap::new(),
            lifetime: Some(3_600),
            issues_refresh: true,
            rotates: true,
            refuses_resource: false,
            granted: None,
            nonce: None,
            device_answers: Vec::new(),
            secrets: BTreeSet::new(),
            codes: BTreeMap::new(),
            refresh: BTreeMap::new(),
            device: BTreeMap::new(),
            proofs: BTreeSet::new(),
            issued: 0,
        }
    }

    /// Adds a client.
    pub fn add_client(&mut self, id: &str, method: &str, secret: &str) {
        let client = KnownClient { method: method.into(), secret: secret.into(), redirect_uri: None };
        if !secret.is_empty() {
            self.secrets.insert(secret.into());
        }
        self.clients.insert(id.into(), client);
    }

    /// Returns the URL of an endpoint.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> &str {
        self.metadata[name].as_str().unwrap_or_default()
    }

    /// Forgets all refresh tokens, as if the grants were revoked.
    pub fn revoke_all(&mut self) {
        self.refresh.clear();
    }

    fn new_secret(&mut self, kind: &str) -> String {
        self.issued += 1;
        let secret = format!("{kind}-s3cret-{}-{}", self.issued, digest(&self.issuer).get(..6).unwrap_or(""));
        self.secrets.insert(secret.clone());
        secret
    }

    /// Answers a request; `None` if the URL is none of this server.
    pub(super) fn handle(&mut self, request: &Request, unix_secs: u64) -> Option<Reply> {
        if request.method == "GET" {
            let is_served = !self.metadata_at.is_empty() && request.url == self.metadata_at;
            return is_served.then(|| Reply::json(200, &self.metadata));
        }
        let is_at = |name: &str| request.url == self.endpoint(name);
        if is_at("registration_endpoint") {
            return Some(self.register(request));
        }
        if is_at("token_endpoint") {
            return Some(self.token(request, unix_secs));
        }
        if is_at("device_authorization_endpoint") {
            return Some(self.authorize_device(request, unix_secs));
        }
        is_at("revocation_endpoint").then(|| match self.authenticated(request, unix_secs) {
            Some(_) => {
                self.refresh.remove(request.param("token"));
                Reply::text(200, "")
            }
            None => Reply::json(401, &json!({ "error": "invalid_client" })),
        })
    }

    /// Opens the authorization URL as a browser does, with a user who agrees; returns the query of the redirect.
    pub(super) fn authorize(&mut self, url: &str) -> String {
        let query: BTreeMap<String, String> =
            form(url.split_once('?').expect("a query").1).into_iter().collect();
        let get = |name: &str| query.get(name).cloned().unwrap_or_default();
        assert_eq!(get("response_type"), "code");
        assert_eq!(get("code_challenge_method"), "S256");
        assert_eq!(get("code_challenge").len(), 43, "a SHA-256 digest");
        assert!(get("state").len() >= 43, "256 bits");
        assert_eq!(get("resource").is_empty(), self.refuses_resource, "{url}");
        let (client, redirect_uri) = (get("client_id"), get("redirect_uri"));
        let is_document = client.starts_with("https://");
        let known = self.clients.get(&client);
        let registered = known.and_then(|known| known.redirect_uri.as_ref());
        if !(is_document || known.is_some()) || registered.is_some_and(|uri| *uri != redirect_uri) {
            // A page that says so, and no redirect (RFC 6749, 4.1.2.1).
            return String::new();
        }
        let code = self.new_secret("code");
        let grant = Grant {
            client,
            scope: get("scope"),
            challenge: get("code_challenge"),
            redirect_uri,
            resource: get("resource"),
            jkt: query.get("dpop_jkt").cloned(),
            is_used: false,
        };
        self.codes.insert(code.clone(), grant);
        let mut answer = format!("code={}&state={}", encoded(&code), encoded(&get("state")));
        if self.metadata["authorization_response_iss_parameter_supported"] == true {
            answer.push_str(&format!("&iss={}", encoded(&self.issuer)));
        }
        answer
    }

    fn register(&mut self, request: &Request) -> Reply {
        let body: Value = serde_json::from_str(&request.body).expect("JSON");
        let method = body["token_endpoint_auth_method"].as_str().unwrap_or_default().to_owned();
        let id = format!("dynamic-{}", self.clients.len());
        let secret = if method == "none" { String::new() } else { self.new_secret("client") };
        let redirect_uri = body["redirect_uris"][0].as_str().map(Into::into);
        let mut answer = json!({ "client_id": id, "token_endpoint_auth_method": method });
        if !secret.is_empty() {
            answer["client_secret"] = json!(secret);
            answer["client_secret_expires_at"] = json!(0);
        }
        self.clients.insert(id, KnownClient { method, secret, redirect_uri });
        Reply::json(201, &answer)
    }

    /// Returns the id of the client that authenticates itself.
    fn authenticated(&self, request: &Request, unix_secs: u64) -> Option<String> {
        if let Some((id, secret)) = request.basic() {
            let client = self.clients.get(&id)?;
            return (client.method == "client_secret_basic" && client.secret == secret).then_some(id);
        }
        if !request.param("client_assertion").is_empty() {
            let (header, claims) = jwt(request.param("client_assertion"));
            let id = claims["iss"].as_str()?;
            let client = self.clients.get(id)?;
            let is_fresh = claims["exp"].as_u64()? > unix_secs && !claims["jti"].as_str()?.is_empty();
            let is_valid = claims["sub"] == claims["iss"] && header["typ"] == "JWT" && is_fresh;
            let audience = [&*self.issuer, self.endpoint("token_endpoint")];
            let is_ours = audience.contains(&claims["aud"].as_str()?);
            return (client.method == "private_key_jwt" && is_valid && is_ours).then(|| id.into());
        }
        let id = request.param("client_id");
        if id.starts_with("https://") {
            return Some(id.into());
        }
        let client = self.clients.get(id)?;
        let is_valid = match &*client.method {
            "none" => true,
            "client_secret_post" => client.secret == request.param("client_secret"),
            _ => false,
        };
        is_valid.then(|| id.into())
    }

    /// Checks a proof of possession; returns the thumbprint of its key.
    fn proof(&mut self, request: &Request, unix_secs: u64) -> Result<Option<String>, Reply> {
        let Some(proof) = request.field("dpop") else { return Ok(None) };
        let (header, claims) = jwt(proof);
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert!(header["jwk"].get("d").is_none(), "the private half is in the proof");
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!(request.place())));
        assert!(claims["iat"].as_u64().is_some_and(|at| at.abs_diff(unix_secs) < 60), "{claims}");
        assert!(self.proofs.insert(claims["jti"].as_str().expect("jti").into()), "a proof was sent twice");
        if let Some(nonce) = &self.nonce {
            if claims["nonce"].as_str() != Some(nonce) {
                return Err(Reply::error("use_dpop_nonce").with_field("DPoP-Nonce", nonce));
            }
        }
        let jwk = &header["jwk"];
        let members = ["crv", "kty", "x", "y"].map(|name| format!("\"{name}\":{}", jwk[name]));
        Ok(Some(digest(&format!("{{{}}}", members.join(",")))))
    }

    fn token(&mut self, request: &Request, unix_secs: u64) -> Reply {
        let is_exchange = request.grant() == "token-exchange";
        assert!(is_exchange || request.param("resource").is_empty() == self.refuses_resource, "`resource`");
        let Some(client) = self.authenticated(request, unix_secs) else {
            return Reply::json(401, &json!({ "error": "invalid_client" }));
        };
        let jkt = match self.proof(request, unix_secs) {
            Ok(jkt) => jkt,
            Err(reply) => return reply,
        };
        let grant = match request.grant() {
            "authorization_code" => self.redeem(request),
            "refresh_token" => self.refresh(request),
            "device_code" => match self.device_answers.first() {
                Some(_) => return Reply::error(self.device_answers.remove(0)),
                None => self.device.get(request.param("device_code")).cloned(),
            },
            "token-exchange" => {
                assert!(!request.param("subject_token").is_empty());
                let token = self.new_secret("id-jag");
                return Reply::json(
                    200,
                    &json!({ "access_token": token, "token_type": "N_A",
                        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag" }),
                );
            }
            "jwt-bearer" if request.param("assertion").is_empty() => None,
            "jwt-bearer" | "client_credentials" => Some(Grant {
                client: client.clone(),
                scope: request.param("scope").into(),
                ..Grant::default()
            }),
            _ => return Reply::error("unsupported_grant_type"),
        };
        let Some(mut grant) = grant.filter(|grant| grant.client == client) else {
            return Reply::error("invalid_grant");
        };
        if grant.jkt.is_some() && grant.jkt != jkt {
            return Reply::error("invalid_dpop_proof");
        }
        grant.jkt = jkt;
        self.issue(grant, request.grant() == "refresh_token")
    }

    fn redeem(&mut self, request: &Request) -> Option<Grant> {
        let grant = self.codes.get_mut(request.param("code"))?;
        let fits = grant.challenge == digest(request.param("code_verifier"))
            && grant.redirect_uri == request.param("redirect_uri")
            && grant.resource == request.param("resource")
            && !grant.is_used;
        let redeemed = fits.then(|| grant.clone());
        grant.is_used = true;
        redeemed
    }

    fn refresh(&mut self, request: &Request) -> Option<Grant> {
        let grant = self.refresh.get_mut(request.param("refresh_token"))?;
        if grant.is_used {
            // A refresh token that is used twice was stolen: the whole grant ends.
            self.refresh.clear();
            return None;
        }
        grant.is_used = self.rotates;
        let mut grant = grant.clone();
        grant.is_used = false;
        Some(grant)
    }

    fn issue(&mut self, grant: Grant, is_refresh: bool) -> Reply {
        let mut answer = json!({
            "access_token": self.new_secret("access"),
            "token_type": if grant.jkt.is_some() { "DPoP" } else { "Bearer" },
        });
        if let Some(lifetime) = self.lifetime {
            answer["expires_in"] = json!(lifetime);
        }
        let granted = self.granted.as_ref().unwrap_or(&grant.scope);
        if !granted.is_empty() {
            answer["scope"] = json!(granted);
        }
        if self.issues_refresh && (!is_refresh || self.rotates) {
            let token = self.new_secret("refresh");
            answer["refresh_token"] = json!(token);
            self.refresh.insert(token, grant);
        }
        Reply::json(200, &answer)
    }

    fn authorize_device(&mut self, request: &Request, unix_secs: u64) -> Reply {
        let Some(client) = self.authenticated(request, unix_secs) else {
            return Reply::json(401, &json!({ "error": "invalid_client" }));
        };
        let code = self.new_secret("device");
        let grant = Grant { client, scope: request.param("scope").into(), ..Grant::default() };
        self.device.insert(code.clone(), grant);
        Reply::json(
            200,
            &json!({ "device_code": code, "user_code": "WDJB-MJHT", "expires_in": 120, "interval": 5,
                "verification_uri": format!("{}/activate", self.issuer) }),
        )
    }
}
