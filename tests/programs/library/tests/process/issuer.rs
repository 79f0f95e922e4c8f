//! A small authorization server: it publishes its key, and signs the claims of the tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub struct Issuer {
    pub url: String,
    key: Ed25519KeyPair,
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        let public = URL_SAFE_NO_PAD.encode(key.public_key());
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": public}]});
        let metadata = json!({
            "issuer": url,
            "jwks_uri": format!("{url}/keys"),
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
            "response_types_supported": ["code"],
        });
        let app = axum::Router::new()
            .route("/.well-known/oauth-authorization-server", get(async || Json(metadata)))
            .route("/keys", get(async || Json(keys)));
        tokio::spawn(async { axum::serve(listener, app).await });
        Self { url, key }
    }

    /// Returns the claims of a token for a resource.
    pub fn claims(&self, resource: &str, scope: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let expires = now + Duration::from_secs(300);
        json!({
            "iss": self.url, "aud": resource, "sub": "Ann Müller", "client_id": "test", "jti": "1",
            "iat": now.as_secs(), "exp": expires.as_secs(), "scope": scope,
        })
    }

    /// Signs a token.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "1"});
        let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signature = self.key.sign(format!("{header}.{claims}").as_bytes());
        format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
