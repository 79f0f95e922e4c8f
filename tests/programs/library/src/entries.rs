//! The tools of the server.

use std::sync::Arc;

use mcp_tower::mcp_proto::model::ToolAnnotations;
use mcp_tower::{Cx, Router, Typed, schemars};

use crate::api::{Api, ApiError, Books, Loan};

/// Scope that every request needs.
pub const READ: &str = "library:read";
/// Scope of the tool `lend`. Clients learn of it when they need it.
const LEND: &str = "library:lend";

/// Finds books by a word of their title, by pages
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// Word of the title
    query: String,
    /// `next_page` of the page before
    #[serde(default = "first_page")]
    page: u32,
}

const fn first_page() -> u32 {
    1
}

/// Lends a book to the user
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lend {
    /// Number of the book
    book: u64,
}

#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The server runs without authorization.
    #[error("the user is unknown")]
    NoUser,
}

/// Returns the user of the access token. The token itself stays with the validator.
fn user(cx: &Cx) -> Result<String, ToolError> {
    cx.principal().ok_or(ToolError::NoUser)
}

async fn search(api: &Api, cx: &mut Cx, Search { query, page }: Search) -> Result<Typed<Books>, ToolError> {
    Ok(Typed(api.search(&user(cx)?, &query, page).await?))
}

async fn lend(api: &Api, cx: &mut Cx, Lend { book }: Lend) -> Result<Typed<Loan>, ToolError> {
    Ok(Typed(api.lend(&user(cx)?, book).await?))
}

/// Creates the server.
pub fn router(api: Api) -> Router {
    let mut router = Router::new("library", env!("CARGO_PKG_VERSION"));
    // The causes of a failure are for the operator.
    router.on_failure(|call, failure| eprintln!("{}: {failure}", call.describe_target()));
    let api = Arc::new(api);
    let catalog = api.clone();
    router
        .tool("search", async move |cx: &mut Cx, query: Search| search(&catalog, cx, query).await)
        .title("Search the library")
        .annotations(ToolAnnotations::new().read_only_hint(true));
    router
        .tool("lend", async move |cx: &mut Cx, book: Lend| lend(&api, cx, book).await)
        .title("Lend a book")
        .require_scope(LEND)
        .annotations(ToolAnnotations::new().destructive_hint(false));
    router
}
