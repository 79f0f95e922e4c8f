//! The public names of the adapters: the same on each, but for the rows of a table.
//!
//! Read from the source: the items at the root of each crate and in its `testing`, and the public methods and constants
//! of the types among them. Methods that a macro of `mcp-runtime` writes are those of all adapters and not listed.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, root};

const ADAPTERS: [&str; 4] = ["blocking", "threads", "smol", "tokio"];

/// Names that some adapters lack: the adapters that have them, the names, and the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "threads smol tokio",
        "PendingCall PendingCall::key",
        "a call that runs is a value that can be dropped; blocking has its key",
    ),
    ("blocking", "Client::engine Client::now", "the thread of the client is that of its engine"),
    (
        "threads smol tokio",
        "Client::check_open",
        "the client runs in the background, so it may end unnoticed",
    ),
    ("blocking smol tokio", "Client::poll", "threads drives the client in the background"),
    (
        "smol tokio",
        "AsyncClientHandler async_handler Client::run Client::run_with Run RunWith Connecting",
        "callbacks and the connection are futures",
    ),
    ("smol", "block_on", "the others need no executor, or have one"),
    (
        "smol",
        "SendRouter",
        "the handlers of blocking and threads are functions; tokio spawns futures, which must be `Send`",
    ),
    ("tokio", "LocalRouter", "the router whose handlers need not be `Send`"),
    ("smol tokio", "Client::complete_typed", "it waits with the timer of the runtime"),
    ("blocking threads", "Calls::complete_typed", "of smol and tokio it is a method of the client"),
    (
        "blocking threads",
        "Calls::as_async Calls::block_on",
        "calls of extensions are written once, as futures, and run by clients that block",
    ),
    ("smol tokio", "unblock", "handlers of blocking and threads may block"),
    ("blocking threads smol", "MemoryEnd memory_pair", "tokio has `tokio::io::duplex`"),
    ("tokio", "Tokio", "the adapter in the type of its routers"),
    (
        "tokio",
        "Spawned Spawned::new Spawned::on Spawned::router",
        "only tokio has tasks that run on the threads of a runtime",
    ),
    ("smol tokio", "generic", "the types behind aliases, with their methods"),
    ("blocking", "LocalBackend", "how calls reach the connection of this client"),
    ("threads", "LoopBackend", "how calls reach the connection of this client"),
    ("smol tokio", "SharedBackend", "how calls reach the connection of this client"),
    ("blocking", "Blocking", "the adapter in the type of its routers"),
    ("threads", "Threads", "the adapter in the type of its routers"),
    ("smol", "Smol", "the adapter in the type of its routers"),
    (
        "blocking threads",
        "Server::poll Server::shutdown Server::engine Server::channel Server::now Server::handler HttpServer::poll \
         HttpServer::shutdown HttpServer::engine HttpServer::server HttpServer::publish HttpServer::now \
         HttpServer::handler HttpServer::connections",
        "in smol and tokio the future of `run` owns the server, and `Handle` reaches it",
    ),
    ("threads", "Server::workers HttpServer::workers", "handlers on threads of their own"),
    ("smol tokio", "Server::max_running", "handlers that are futures"),
    (
        "blocking smol tokio",
        "HttpServer::max_running",
        "handlers that are futures, for which `mcp-runtime` has it",
    ),
    (
        "blocking",
        "Server::run_remotely Server::expect_messages HttpServer::run_remotely HttpServer::expect_messages \
         HttpServer::commands HttpServer::register HttpServer::poll_io HttpServer::process_events \
         HttpServer::prepare_wait HttpServer::is_over HttpServer::pin_thread HttpServer::cores",
        "its servers are those of `mcp-runtime`, on which the other adapters build theirs",
    ),
    ("smol tokio", "HttpServer::shards_with", "routers of smol cannot be shared by threads"),
    (
        "blocking threads",
        "Stdio::from_fds Stdio::set_read_nonblocking",
        "a stream of `mcp-std`; in smol and tokio the reactor watches the descriptors",
    ),
    ("smol tokio", "ByteStream ByteStream::new", "a stream of `mcp-std`, watched by the reactor"),
    (
        "blocking",
        "testing::Server testing::Server::new testing::Server::from_peer testing::Server::identity testing::pair testing::pair_as",
        "the other adapters are tested by the client of blocking",
    ),
    ("threads smol tokio", "testing::test_peer", "makes a handler testable by `mcp_blocking::testing`"),
];

/// Aliases: names of adapters, and the type in `mcp-runtime` that has their methods.
const ALIASES: &[(&str, &str)] = &[("Cx", "CallCx"), ("AsyncCx", "CallCx"), ("Router", "Router")];

/// Types of asynchronous adapters that are aliases of types in `runtime` of `mcp-runtime`.
const RUNTIME_TYPES: (&str, &[&str]) = (
    "smol tokio",
    &["Client", "Connecting", "HttpServer", "PendingCall", "Run", "RunWith", "Server", "SharedBackend"],
);

/// Names of the shared packages that differ between adapters, and what they are compared as.
const RENAMED: &[(&str, &str, &str)] = &[
    ("smol", "AsyncCx", "Cx"),
    ("smol", "AsyncHandler", "Handler"),
    ("smol", "AsyncCalls", "Calls"),
    ("tokio", "AsyncCx", "Cx"),
    ("tokio", "AsyncHandler", "Handler"),
    ("tokio", "AsyncCalls", "Calls"),
    ("blocking", "BlockingCalls", "Calls"),
    ("threads", "BlockingCalls", "Calls"),
    ("blocking", "BlockingClientNext", "ClientNext"),
    ("threads", "BlockingClientNext", "ClientNext"),
];

/// A public item at the root of an adapter.
struct RootItem {
    name: String,
    /// Package, and folder or file stem in it, from which it comes; `None` if it is an item of the adapter.
    shared_module: Option<String>,
}

fn sources(package: &str) -> Vec<SourceFile> {
    source::read(&root().join("adapters").join(package).join("src"))
}

/// Returns the public names of an adapter.
fn public_names(adapter: &str, shared: &[SourceFile]) -> BTreeSet<String> {
    let sources = sources(adapter);
    let file =
        |path: &str| sources.iter().find(|s| s.path == path).unwrap_or_else(|| panic!("{adapter}: {path}"));
    let mut names = BTreeSet::new();
    for item in root_items(file("testing.rs")) {
        let methods = inherent_items(file("testing.rs"), &item.name);
        names.extend(methods.into_iter().map(|method| format!("testing::{}::{method}", item.name)));
        names.insert(format!("testing::{}", item.name));
    }
    for RootItem { name, shared_module } in root_items(file("lib.rs")) {
        let own = sources.iter().filter(|s| s.path != "testing.rs").collect();
        let within = |module: &str| shared.iter().filter(|s| s.path.starts_with(module)).collect();
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let is_runtime_type =
            RUNTIME_TYPES.0.split(' ').any(|of| of == adapter) && RUNTIME_TYPES.1.contains(&&*name);
        let places: Vec<&SourceFile> = match (alias, shared_module.as_deref()) {
            (Some(_), _) => within("runtime/server"),
            _ if is_runtime_type => within("runtime/runtime"),
            (None, Some(module)) => within(module),
            (None, None) => own,
        };
        let implemented = alias.map_or(&*name, |(_, implemented)| implemented);
        let renamed = RENAMED.iter().find(|(of, from, _)| *of == adapter && *from == name);
        let shown = renamed.map_or(&*name, |(_, _, shown)| shown);
        for source in places {
            let items = inherent_items(source, implemented).into_iter();
            names.extend(items.map(|item| format!("{shown}::{item}")));
        }
        names.insert(shown.to_owned());
    }
    names
}

/// Returns the public items that a file declares or re-exports outside of blocks.
fn root_items(source: &SourceFile) -> Vec<RootItem> {
    let own = |name: String| RootItem { name, shared_module: None };
    let mut items = Vec::new();
    for (_, path) in source.code_paths("pub use ") {
        let Some((name, module)) = path.split_last() else { continue };
        let shared_module = match module {
            // Items of packages that are not shared, such as the core, are the same wherever they are re-exported.
            [package, ..] if package.starts_with("mcp_") => Some(module.join("/")[4..].to_owned()),
            _ => None,
        };
        items.push(RootItem { name: name.clone(), shared_module });
    }
    items.extend(declared_items(&source.code).into_iter().map(own));
    items
}

/// Returns the names after `pub fn`, `pub struct` and the like, outside of nested blocks.
fn declared_items(block: &str) -> Vec<String> {
    const QUALIFIERS: [&str; 3] = ["async", "unsafe", "const"];
    const KINDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];
    let (mut found, mut nesting) = (Vec::new(), Nesting::default());
    for (at, _) in block.match_indices("pub ") {
        let starts_word = !block[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if !starts_word || nesting.depth_at(block, at) > 0 {
            continue;
        }
        let mut words =
            block[at..].split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).skip(1);
        let mut kind = words.next().unwrap_or_default();
        let mut name = words.next().unwrap_or_default();
        while QUALIFIERS.contains(&kind) && (KINDS.contains(&name) || QUALIFIERS.contains(&name)) {
            (kind, name) = (name, words.next().unwrap_or_default());
        }
        if KINDS.contains(&kind) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The number of blocks that are open at a position, which only moves on.
#[derive(Default)]
struct Nesting {
    at: usize,
    depth: usize,
}

impl Nesting {
    fn depth_at(&mut self, code: &str, at: usize) -> usize {
        for byte in &code.as_bytes()[self.at..at] {
            match byte {
                b'{' => self.depth += 1,
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.at = at;
        self.depth
    }
}

/// Returns the public methods and constants that a file gives to a type.
fn inherent_items(source: &SourceFile, name: &str) -> Vec<String> {
    let code = &source.code;
    let (mut found, mut nesting) = (Vec::new(), Nesting::default());
    for (at, _) in code.match_indices("impl") {
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && code[at + 4..].starts_with(|c: char| c.is_whitespace() || c == '<');
        if !is_word || nesting.depth_at(code, at) > 0 {
            continue;
        }
        let Some(open) = code[at..].find('{') else { continue };
        if implemented_type(&code[at + 4..at + open]) == Some(name) {
            let body = &code[at + open + 1..];
            found.extend(declared_items(&body[..block_end(body)]));
        }
    }
    found
}

/// Returns the name of the type of an inherent `impl`, from the text between `impl` and its block.
fn implemented_type(head: &str) -> Option<&str> {
    let mut rest = head.trim_start();
    if rest.starts_with('<') {
        let (mut depth, mut before) = (0usize, ' ');
        let end = rest.find(|c: char| {
            match c {
                '<' => depth += 1,
                '>' if before != '-' => depth -= 1,
                _ => {}
            }
            before = c;
            depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    }
    let path = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next()?;
    let is_inherent = !rest.split("where").next()?.contains(" for ");
    path.rsplit("::").next().filter(|_| is_inherent)
}

/// Returns the position of the brace that closes a block, from the text after its opening brace.
fn block_end(body: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    body.len()
}

#[test]
fn adapters_have_the_same_public_names() {
    let of = |package: &str| {
        let mut sources = sources(package);
        sources.iter_mut().for_each(|source| source.path.insert_str(0, &format!("{package}/")));
        sources
    };
    let shared: Vec<SourceFile> = ["std", "runtime"].into_iter().flat_map(of).collect();
    let names: BTreeMap<&str, BTreeSet<String>> =
        ADAPTERS.into_iter().map(|adapter| (adapter, public_names(adapter, &shared))).collect();
    for expected in ["Server", "Server::stdio", "Server::handle", "Handle::publish", "Cx::elicit", "testing"]
    {
        for (adapter, names) in &names {
            assert!(names.contains(expected), "`{expected}` was not found in {adapter}: {names:?}");
        }
    }
    // The guide is documentation, in the adapters that have pages of their own.
    let all: BTreeSet<&String> = names.values().flatten().filter(|name| *name != "guide").collect();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for name in all {
        let having: Vec<&str> =
            ADAPTERS.into_iter().filter(|adapter| names[adapter].contains(name)).collect();
        let row = DIFFERENCES.iter().find(|(_, listed, _)| listed.split_whitespace().any(|n| n == name));
        match row {
            Some((listed, _, _)) => {
                used.insert(name.as_str());
                if listed.split_whitespace().ne(having.iter().copied()) {
                    wrong.push(format!("`{name}` is listed for `{listed}`, but is in {having:?}"));
                }
            }
            None if having.len() < ADAPTERS.len() => wrong.push(format!("`{name}` is only in {having:?}")),
            None => {}
        }
    }
    for name in DIFFERENCES.iter().flat_map(|(_, listed, _)| listed.split_whitespace()) {
        if !used.contains(name) {
            wrong.push(format!("`{name}` has a row, and no adapter has it"));
        }
    }
    assert_none("public names that differ between the adapters", &wrong);
}

#[test]
fn public_items_of_a_source_are_found() {
    let text = "
pub use mcp_std::io::{MemoryEnd, memory_pair};
pub use client::Client;
pub(crate) use hidden::Hidden;
pub const fn constant() {}
pub mod testing;
pub type Options = u8;
struct Private { pub field: u8 }
impl<'a, F: Fn() -> u8, T> module::Client<'a, F, T> where T: Sized {
    pub async fn call(&self) { pub fn inner() {} }
    pub const fn len() {}
    pub(crate) fn hidden() {}
    pub const MAX: u8 = 1;
}
impl Trait for Client { fn no() {} }
impl Other { pub fn no() {} }
";
    let source = SourceFile::new("lib.rs", text);
    let roots: Vec<(String, Option<String>)> =
        root_items(&source).into_iter().map(|item| (item.name, item.shared_module)).collect();
    let io = || Some("std/io".to_owned());
    let own = |name: &str| (name.to_owned(), None);
    assert_eq!(
        roots,
        [
            ("MemoryEnd".to_owned(), io()),
            ("memory_pair".to_owned(), io()),
            own("Client"),
            own("constant"),
            own("testing"),
            own("Options")
        ]
    );
    assert_eq!(inherent_items(&source, "Client"), ["call", "len", "MAX"]);
}
