//! The tools and resources of the server.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use mcp_threads::mcp_proto::Capability;
use mcp_threads::mcp_proto::model::{ResourceContents, ResourceTemplate, ToolAnnotations};
use mcp_threads::mcp_proto::router::template::{Template, VariablePolicy};
use mcp_threads::{Cx, Router, RpcError, Typed, ok, schemars};

use crate::error::FileError;
use crate::files::{self, MAX_PART};
use crate::scope::Scope;
use crate::search::search;
use crate::watch::Watch;

const FILE: &str = "file:///{+path}";

/// Lists a directory; without a path, the folders that may be used
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct List {
    /// Absolute path of a directory
    path: Option<String>,
}

/// Reads a text file, in parts of at most 64 KiB
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Read {
    /// Absolute path of a file
    path: String,
    /// Byte at which the part begins
    #[serde(default)]
    offset: u64,
    /// Bytes of the part
    length: Option<u64>,
}

/// Finds the lines that contain a text, in up to 10,000 files of a directory and below
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// Absolute path of a directory
    path: String,
    /// Text in one line; case matters
    text: String,
}

/// Writes a text file, over the old one if there is one
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Write {
    /// Absolute path of the file; its directory has to exist
    path: String,
    text: String,
}

/// Returns the path of a `file` URI.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    static TEMPLATE: LazyLock<Template> = LazyLock::new(|| Template::new(FILE).expect("a valid constant"));
    if uri == "file:///" {
        return Some(PathBuf::from("/"));
    }
    // It refuses `..` and what is not UTF-8.
    let values = TEMPLATE.match_uri(uri, VariablePolicy::default()).ok()?;
    values.get("path").map(|path| PathBuf::from(format!("/{path}")))
}

/// Returns the folders that a call may use.
///
/// Clients with roots are asked for them in each call. So a change of the roots takes effect with the next call, and
/// nothing has to be remembered for each client. While the answer is missing, this returns an error to leave the
/// handler with.
#[expect(deprecated, reason = "supported until its removal")]
fn scope(folders: &[PathBuf], cx: &mut Cx<'_>) -> Result<Scope, RpcError> {
    let scope = Scope::new(folders);
    if !cx.peer().has(Capability::Roots) {
        return Ok(scope);
    }
    let result = cx.list_roots("roots")?;
    let roots: Vec<PathBuf> = result.roots.iter().filter_map(|root| path_of(&root.uri)).collect();
    Ok(scope.narrow(&roots))
}

/// Returns the content of a resource; `None` if there is no such file.
fn read_resource(
    scope: &Scope,
    uri: &str,
    path: &str,
) -> Result<Option<ResourceContents<'static>>, RpcError> {
    let uri = uri.to_owned();
    match files::read_all(scope, path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Some(ResourceContents::text(uri, text))),
        Ok(Err(bytes)) => Ok(Some(ResourceContents::blob_bytes(uri, bytes.as_bytes()))),
        Err(FileError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the server.
pub fn router(folders: Vec<PathBuf>, allows_writing: bool, watch: Arc<Watch>) -> Router {
    let reads = || ToolAnnotations::new().read_only_hint(true).open_world_hint(false);
    let mut router = Router::new("files", env!("CARGO_PKG_VERSION"));
    router.subscriptions(move |uri, is_wanted| watch.set(uri, is_wanted));

    let folders: Arc<[PathBuf]> = folders.into();
    let [listed, read, searched] = [(); 3].map(|()| folders.clone());
    router
        .tool("list", move |cx, List { path }: List| {
            files::list(&scope(&listed, cx)?, path.as_deref()).map(Typed)
        })
        .title("List a directory")
        .annotations(reads());
    router
        .tool("read", move |cx, Read { path, offset, length }: Read| {
            files::read_part(&scope(&read, cx)?, &path, offset, length.unwrap_or(MAX_PART)).map(Typed)
        })
        .title("Read a file")
        .annotations(reads());
    router
        .tool("search", move |cx, Search { path, text }: Search| {
            search(&scope(&searched, cx)?, cx, &path, &text).map(Typed)
        })
        .title("Search files")
        .annotations(reads());
    if allows_writing {
        let written = folders.clone();
        router
            .tool("write", move |cx, Write { path, text }: Write| {
                files::write(&scope(&written, cx)?, &path, &text)
                    .map(|()| format!("{} bytes written", text.len()))
            })
            .title("Write a file")
            .annotations(ToolAnnotations::new().idempotent_hint(true).open_world_hint(false));
    }
    let file = ResourceTemplate::new(FILE, "file")
        .title("A file")
        .description("A file of up to 1 MiB, text or binary");
    router.resource_template(file, move |cx, target| {
        let path = format!("/{}", target.variables.get("path").unwrap_or_default());
        let contents = read_resource(&scope(&folders, cx)?, &target.uri, &path)?;
        ok(contents.map(|contents| vec![contents]))
    });
    router
}
