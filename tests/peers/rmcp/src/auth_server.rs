//! A protected server, which accepts the JWTs of one issuer. The SDK has no middleware for access tokens, so this one
//! is the usual layer of axum.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header, request::Parts};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::PeerArgs;

/// Limit for a request body, in bytes.
const MAX_BODY: usize = 1 << 20;

/// Claims of a JWT access token (RFC 9068). The library checks the others.
#[derive(Clone, Deserialize)]
struct Claims {
    sub: String,
    client_id: String,
    #[serde(default)]
    scope: String,
}

impl Claims {
    fn scopes(&self) -> Vec<&str> {
        self.scope.split_whitespace().collect()
    }
}

/// The resource server, apart from its MCP service.
struct Protection {
    issuer: String,
    /// Identifier of the resource, which is the URL of the MCP endpoint.
    resource: String,
    metadata_url: String,
    scope: String,
    jwks_uri: String,
    keys: Mutex<JwkSet>,
}

/// The reason why a request is refused.
enum Refusal {
    Unauthorized(&'static str),
    InsufficientScope(Vec<String>),
}

async fn fetch(url: &str) -> Vec<u8> {
    let response = reqwest::get(url).await.and_then(reqwest::Response::error_for_status).expect(url);
    response.bytes().await.expect(url).to_vec()
}

async fn fetch_keys(jwks_uri: &str) -> JwkSet {
    serde_json::from_slice(&fetch(jwks_uri).await).expect("a JWK set")
}

impl Protection {
    async fn new(issuer: &str, scope: &str, origin: &str) -> Self {
        let metadata = fetch(&format!("{issuer}/.well-known/oauth-authorization-server")).await;
        let metadata: Value = serde_json::from_slice(&metadata).expect("JSON");
        assert_eq!(metadata["issuer"], issuer, "the issuer of the metadata");
        let jwks_uri = metadata["jwks_uri"].as_str().expect("a JWK set").to_owned();
        let keys = fetch_keys(&jwks_uri).await.into();
        Self {
            issuer: issuer.to_owned(),
            resource: format!("{origin}/mcp"),
            metadata_url: format!("{origin}/.well-known/oauth-protected-resource/mcp"),
            scope: scope.to_owned(),
            jwks_uri,
            keys,
        }
    }

    fn metadata(&self) -> Value {
        json!({
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "scopes_supported": [self.scope, "mcp:write"],
            "bearer_methods_supported": ["header"],
        })
    }

    /// Verifies a JWT. An unknown key is looked up once, because the issuer may have rotated its keys.
    async fn verify(&self, token: &str) -> Option<Claims> {
        let header = decode_header(token).ok()?;
        if !header.typ.as_deref().is_some_and(|typ| typ.eq_ignore_ascii_case("at+jwt")) {
            return None;
        }
        let kid = header.kid?;
        let mut keys = self.keys.lock().await;
        if keys.find(&kid).is_none() {
            *keys = fetch_keys(&self.jwks_uri).await;
        }
        let key = DecodingKey::from_jwk(keys.find(&kid)?).ok()?;
        let algorithm =
            [Algorithm::ES256, Algorithm::RS256].into_iter().find(|known| *known == header.alg)?;
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.resource]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Without leeway, so that tests with short lifetimes see the end of a token.
        validation.leeway = 0;
        decode(token, &key, &validation).ok().map(|verified| verified.claims)
    }

    /// Returns the claims of a request whose access token has the scopes that it needs.
    async fn authenticate(&self, parts: &Parts, body: &[u8]) -> Result<Claims, Refusal> {
        let field = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, token) =
            field.and_then(|field| field.split_once(' ')).ok_or(Refusal::Unauthorized(""))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::Unauthorized(""));
        }
        let claims =
            self.verify(token.trim()).await.ok_or(Refusal::Unauthorized(r#"error="invalid_token""#))?;
        let mut needed = vec![self.scope.clone()];
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if message["method"] == "tools/call" && message["params"]["name"] == "write" {
            needed.push("mcp:write".to_owned());
        }
        match needed.iter().all(|scope| claims.scopes().contains(&&**scope)) {
            true => Ok(claims),
            false => Err(Refusal::InsufficientScope(needed)),
        }
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        let (status, reason) = match refusal {
            Refusal::Unauthorized(reason) => (StatusCode::UNAUTHORIZED, reason.to_owned()),
            Refusal::InsufficientScope(scopes) => (
                StatusCode::FORBIDDEN,
                format!(r#"error="insufficient_scope", scope="{}""#, scopes.join(" ")),
            ),
        };
        let separator = if reason.is_empty() { "" } else { ", " };
        let challenge = format!(r#"Bearer {reason}{separator}resource_metadata="{}""#, self.metadata_url);
        (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
    }
}

async fn protect(State(protection): State<Arc<Protection>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match protection.authenticate(&parts, &body).await {
        Ok(claims) => {
            parts.extensions.insert(claims);
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Err(refusal) => protection.refuse(refusal),
    }
}

struct ProtectedServer;

impl ServerHandler for ProtectedServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = serde_json::from_value(json!({"tools": {}})).expect("capabilities");
        ServerConfig::new(capabilities).with_server_info(Implementation::new("auth-server", "3.11.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ["whoami", "write"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
        let result = json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        Ok(serde_json::from_value(result).expect("a list"))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match &*request.name {
            "whoami" => {
                let claims = cx.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Claims>());
                let claims = claims.ok_or_else(|| ErrorData::internal_error("no access token", None))?;
                json!({"client": claims.client_id, "scopes": claims.scopes(), "subject": claims.sub})
                    .to_string()
            }
            "write" => "written".to_owned(),
            _ => return Err(ErrorData::invalid_params("no such tool", None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

pub(crate) async fn serve(given: PeerArgs) {
    let issuer = given.option("--issuer").expect("--issuer");
    let scope = given.option("--scope").unwrap_or("mcp:read");
    let port = given.option("--port").unwrap_or("0");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let protection = Arc::new(Protection::new(issuer, scope, &origin).await);
    let service = StreamableHttpService::new(
        || Ok(ProtectedServer),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let metadata = protection.metadata().to_string();
    let serve_metadata =
        axum::routing::get(|| async { ([(header::CONTENT_TYPE, "application/json")], metadata) });
    let router = axum::Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn_with_state(Arc::clone(&protection), protect))
        .route("/.well-known/oauth-protected-resource/mcp", serve_metadata);
    eprintln!("listening on {}", protection.resource);
    let mut told =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("signals");
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.expect("to serve"),
        _ = told.recv() => {}
    }
}
