//! The HTTP API of the library.

use std::error::Error;
use std::time::Duration;

use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use mcp_tower::schemars;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

/// Time for one request, with its response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest body of a response.
const MAX_BODY: usize = 1024 * 1024;
/// Longest message of the API that is passed on, in characters.
const MAX_MESSAGE: usize = 200;

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
pub struct Book {
    pub id: u64,
    pub title: String,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
pub struct Books {
    pub books: Vec<Book>,
    /// Number of the next page; missing after the last one
    pub next_page: Option<u32>,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
pub struct Loan {
    pub book: u64,
    /// Date of return
    pub until: String,
}

/// Errors of the API. Their texts are for the model that called a tool; the operator reads the causes as well.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the library refuses: {0}")]
    Refused(String),
    #[error("the library does not accept this server; its operator has to check the key")]
    Key,
    #[error("the library is not available ({0}); try again later")]
    Unavailable(StatusCode),
    #[error("the library did not answer within {} s; try again later", TIMEOUT.as_secs())]
    TimedOut,
    #[error("the library cannot be reached; try again later")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    #[error("the answer of the library is too large; ask for less")]
    TooLarge,
    #[error("the answer of the library cannot be read")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

/// A client of the API, with the key of this server. It keeps connections open.
pub struct Api {
    http: Client<HttpConnector, Full<Bytes>>,
    url: String,
    key: HeaderValue,
}

impl Api {
    pub fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let mut key = HeaderValue::try_from(format!("Bearer {key}"))?;
        key.set_sensitive(true);
        let http = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { http, url: url.to_owned(), key })
    }

    pub async fn search(&self, user: &str, query: &str, page: u32) -> Result<Books, ApiError> {
        let query = encode(query);
        self.send(Method::GET, &format!("/books?query={query}&page={page}"), user).await
    }

    pub async fn lend(&self, user: &str, book: u64) -> Result<Loan, ApiError> {
        self.send(Method::POST, &format!("/books/{book}/loan"), user).await
    }

    /// Sends a request for a user. Dropping the future closes the connection, so that the API learns of it.
    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, user: &str) -> Result<T, ApiError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(header::AUTHORIZATION, &self.key)
            .header("x-user", encode(user))
            .body(Full::default())
            .map_err(|error| ApiError::Unreachable(error.into()))?;
        let exchange = async {
            let response = self.http.request(request).await;
            let (head, body) = response.map_err(|error| ApiError::Unreachable(error.into()))?.into_parts();
            let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { ApiError::TooLarge } else { ApiError::Unreachable(error) }
            })?;
            Ok::<_, ApiError>(Response::from_parts(head, body.to_bytes()))
        };
        let response = tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or(Err(ApiError::TimedOut))?;
        match response.status() {
            status if status.is_success() => {
                serde_json::from_slice(response.body()).map_err(|error| ApiError::Unreadable(error.into()))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(ApiError::Key),
            StatusCode::TOO_MANY_REQUESTS => Err(ApiError::Unavailable(StatusCode::TOO_MANY_REQUESTS)),
            status if status.is_client_error() => Err(refusal(status, response.body())),
            status => Err(ApiError::Unavailable(status)),
        }
    }
}

/// Returns the error with the reason of the API, as far as it gives one.
fn refusal(status: StatusCode, body: &[u8]) -> ApiError {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
    }
    let reason =
        serde_json::from_slice(body).map(|Refusal { error }| error.chars().take(MAX_MESSAGE).collect());
    ApiError::Refused(reason.unwrap_or_else(|_| status.to_string()))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
