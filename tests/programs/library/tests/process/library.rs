//! The HTTP API of a library, which records its requests.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;

pub const KEY: &str = "key-of-the-server";

#[derive(Default)]
pub struct Library {
    /// Fields of all requests.
    pub seen: Mutex<Vec<HeaderMap>>,
    /// Requests that wait for ever, and those of them whose client has left.
    pub waiting: AtomicUsize,
    pub left: AtomicUsize,
}

/// Counts a client that has left.
struct Leaving(Arc<Library>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::SeqCst);
    }
}

impl Library {
    /// Returns the library and its URL.
    pub async fn start() -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let library = Arc::new(Self::default());
        let app = Router::new()
            .route("/books", get(books))
            .route("/books/{book}/loan", post(lend))
            .with_state(library.clone());
        tokio::spawn(async { axum::serve(listener, app).await });
        (library, url)
    }
}

async fn books(
    State(library): State<Arc<Library>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    library.seen.lock().unwrap().push(headers.clone());
    if headers.get("authorization").is_none_or(|key| key != format!("Bearer {KEY}").as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match &*query["query"] {
        "never" => {
            library.waiting.fetch_add(1, Ordering::SeqCst);
            let _leaving = Leaving(library);
            pending().await
        }
        "broken" => StatusCode::BAD_GATEWAY.into_response(),
        "busy" => StatusCode::TOO_MANY_REQUESTS.into_response(),
        "large" => vec![b' '; 2 << 20].into_response(),
        "html" => "<html>".into_response(),
        title => {
            let page: u64 = query["page"].parse().unwrap();
            let books = [json!({"id": page, "title": title})];
            // The third page is the last.
            Json(json!({"books": books, "next_page": (page < 3).then_some(page + 1)})).into_response()
        }
    }
}

async fn lend(State(library): State<Arc<Library>>, Path(book): Path<u64>, headers: HeaderMap) -> Response {
    library.seen.lock().unwrap().push(headers);
    match book {
        1 => Json(json!({"book": 1, "until": "2030-01-01"})).into_response(),
        2 => (StatusCode::CONFLICT, Json(json!({"error": "book 2 is lent already"}))).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
