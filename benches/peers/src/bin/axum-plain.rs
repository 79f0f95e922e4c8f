//! `axum-plain PORT`: a plain axum handler that answers by the floor: the least that axum and `serde_json` take.

extern crate alloc;

#[path = "../../../src/floor.rs"]
#[expect(dead_code, reason = "only `answer` is used here")]
mod floor;
#[path = "../../../src/lines.rs"]
mod lines;

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: axum-plain PORT")?;
    let app = axum::Router::new().route("/mcp", post(answer));
    mcp_benches_peers::serve_axum(&port, app).await
}

async fn answer(request: Bytes) -> Response {
    let mut body = Vec::new();
    if !floor::answer(&request, &mut body) {
        return StatusCode::ACCEPTED.into_response();
    }
    body.pop();
    let json = HeaderValue::from_static("application/json");
    // One session for all: the handler does not look at it.
    let session = HeaderValue::from_static("0123456789abcdef");
    ([(header::CONTENT_TYPE, json), (header::HeaderName::from_static("mcp-session-id"), session)], body)
        .into_response()
}
