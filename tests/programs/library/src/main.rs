//! `mcp-library`: an MCP server under axum, whose tools are a client of another HTTP API.

#![forbid(unsafe_code)]
// A program that uses no deprecated feature gets no warning: neither from macros nor from generic code.
#![deny(deprecated)]

mod api;
mod entries;
mod settings;

use std::time::Duration;

use anyhow::Context as _;
use axum::http::Uri;
use axum::routing::get;
use mcp_tower::auth::HttpFetcher;
use mcp_tower::mcp_proto::http::server::Protected;
use mcp_tower::token::JwtValidator;
use mcp_tower::{HttpConfig, McpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use api::Api;
use settings::Settings;

/// Time for calls to end after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(5);

/// Creates the MCP server for the endpoint `url`.
fn service(settings: &Settings, url: &str) -> anyhow::Result<McpService> {
    let endpoint: Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
    let host = endpoint.authority().with_context(|| format!("{url} has no host"))?;
    let protected = Protected::new(url, &settings.issuer)?.scope(entries::READ)?.resource_name("Library");
    let validator = JwtValidator::new(&protected, HttpFetcher::new())
        .on_failure(|failure| eprintln!("authorization server: {failure}"));
    let http = HttpConfig::new().path(endpoint.path()).allow_host(host.as_str()).protected(protected);
    let router = entries::router(Api::new(&settings.api, &settings.api_key)?);
    Ok(McpService::builder(router).http(http).validate_tokens(validator).build()?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let listener = TcpListener::bind(&settings.address)
        .await
        .with_context(|| format!("cannot listen at {}", settings.address))?;
    let url = match &settings.url {
        Some(url) => url.clone(),
        None => format!("http://{}/mcp", listener.local_addr()?),
    };
    let service = service(&settings, &url)?;
    // Between requests, it ends the calls of clients that have left, and sessions that expire.
    tokio::spawn(service.run());
    // The metadata of the protected resource has a path of its own, which ends with that of the public URL.
    let app = axum::Router::new()
        .route("/health", get(async || "ok"))
        .route_service("/mcp", service.clone())
        .route_service("/.well-known/oauth-protected-resource/{*endpoint}", service.clone());
    let mut terminated = signal(SignalKind::terminate())?;
    let stopped = async move {
        terminated.recv().await;
        service.shutdown(GRACE).await;
    };
    eprintln!("{url}");
    Ok(axum::serve(listener, app).with_graceful_shutdown(stopped).await?)
}
