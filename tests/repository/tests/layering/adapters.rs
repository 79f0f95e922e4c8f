//! Dependencies between the modules of the packages that the adapters share, and between the packages of the workspace.

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, root};

/// The packages that the adapters share: each module with the modules of its package that it may use. A row names only modules
/// above it, so there are no cycles.
const SHARED: &[(&str, &[(&str, &str)])] = &[
    (
        "std",
        &[
            ("catch", ""),
            ("clock", ""),
            ("entropy", ""),
            ("poll", ""),
            ("io", "poll"),
            ("schema", ""),
            ("tls", "poll io"),
            ("process", "poll clock io"),
            ("durable_file", ""),
            ("sync", "catch"),
            ("session_store", "durable_file"),
            ("task_store", "sync catch durable_file"),
            ("testing", "clock session_store"),
            ("net_stream", "poll io tls"),
            ("http_client", "poll clock io tls sync net_stream"),
        ],
    ),
    ("auth", &[("client", ""), ("token", "client")]),
    ("extensions", &[("cards", ""), ("pins", ""), ("skills", "")]),
    (
        "events",
        &[
            ("address", ""),
            ("webhook", ""),
            ("wire", "webhook"),
            ("receiver", "webhook wire"),
            ("receive", "receiver webhook"),
            ("follow", "wire"),
            ("subscription", "follow receiver webhook wire"),
            ("client", "follow receiver subscription wire"),
            ("log", "wire"),
            ("store", "log webhook wire"),
            ("source", "log store wire"),
            ("delivery", "address store webhook wire"),
            ("post", "address delivery"),
            ("server", "delivery post source store webhook wire"),
            ("fuzzing", "address receiver webhook"),
        ],
    ),
    (
        "runtime",
        &[
            ("cache", ""),
            ("inline_map", ""),
            ("token_rate", ""),
            ("error", ""),
            ("driver", ""),
            ("server", "driver error inline_map token_rate"),
            ("client", "cache driver error inline_map server token_rate"),
            ("runtime", "client driver error inline_map server"),
        ],
    ),
];

/// Maximum number of modules, and of edges between them.
const MAX_MODULES: usize = 44;
const MAX_EDGES: usize = 78;

/// The packages of this workspace that each package may depend on.
const PACKAGES: &[(&str, &str)] = &[
    ("core", ""),
    ("adapters/std", "mcp-proto"),
    ("adapters/auth", "mcp-proto mcp-std"),
    ("adapters/extensions", "mcp-proto"),
    ("adapters/runtime", "mcp-proto mcp-std mcp-auth mcp-extensions"),
    ("adapters/events", "mcp-proto mcp-std mcp-runtime"),
    ("adapters/blocking", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/threads", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/smol", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/tokio", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/tower", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-events mcp-runtime"),
    ("adapters/telemetry", "mcp-proto"),
    ("adapters/redis", "mcp-std"),
    ("adapters/proxy", "mcp-proto"),
    ("adapters/c", "mcp-proto"),
    (
        "adapters/cli",
        "mcp-proto mcp-std mcp-auth mcp-extensions mcp-events mcp-proto-proxy mcp-redis-store mcp-runtime mcp-blocking mcp-threads mcp-smol mcp-tokio",
    ),
];

fn sources(package: &str) -> Vec<SourceFile> {
    let mut sources = source::read(&root().join("adapters").join(package).join("src"));
    sources.retain(|s| !s.path.ends_with("tests.rs"));
    sources
}

/// Returns the top-level module of a file.
fn module(path: &str) -> String {
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

/// Returns the edges between the modules of a package, with a source line for each.
fn edges(package: &str) -> BTreeMap<(String, String), String> {
    let sources = sources(package);
    let lib = sources.iter().find(|s| s.path == "lib.rs").expect("lib.rs");
    let mut reexports = BTreeMap::new();
    for (_, path) in lib.code_paths("pub use ") {
        if let [module, name] = path.as_slice() {
            reexports.insert(name.clone(), module.clone());
        }
    }
    let mut edges = BTreeMap::new();
    for source in sources.iter().filter(|s| s.path != "lib.rs") {
        let from = module(&source.path);
        for (line, path) in source.code_paths("crate::") {
            let Some(first) = path.first() else { continue };
            let to = reexports.get(first).unwrap_or(first).clone();
            if to != from {
                edges
                    .entry((from.clone(), to))
                    .or_insert_with(|| format!("adapters/{package}/src/{}:{line}", source.path));
            }
        }
    }
    edges
}

#[test]
fn modules_of_shared_packages_use_only_what_their_row_allows() {
    let (mut modules, mut all_edges, mut wrong) = (0, 0, Vec::new());
    for (package, table) in SHARED {
        let rows: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        for (i, (name, uses)) in table.iter().enumerate() {
            for used in uses.split_whitespace() {
                assert!(rows[..i].contains(&used), "`{name}` may use `{used}`, which is not above it");
            }
        }
        // The guide is text.
        let is_code = |module: &String| !matches!(&**module, "guide" | "lib");
        let found: BTreeSet<String> =
            sources(package).iter().map(|s| module(&s.path)).filter(is_code).collect();
        let listed: BTreeSet<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(found, listed, "the modules of `mcp-{package}` and their rows");
        let edges = edges(package);
        for ((from, to), place) in &edges {
            let allowed = table.iter().find(|(name, _)| name == from).map_or("", |(_, uses)| *uses);
            if !allowed.split_whitespace().any(|used| used == to) {
                wrong.push(format!("{place}: `{from}` uses `{to}`"));
            }
        }
        modules += rows.len();
        all_edges += edges.len();
    }
    assert!(modules <= MAX_MODULES, "{modules} modules");
    assert!(all_edges > 15, "the imports were not found");
    assert!(all_edges <= MAX_EDGES, "{all_edges} edges between modules");
    assert_none("dependencies between modules that no row allows", &wrong);
}

#[test]
fn packages_depend_only_on_those_below_them() {
    let mut wrong = Vec::new();
    for (folder, allowed) in PACKAGES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        let mut section = String::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                line.clone_into(&mut section);
            }
            let is_dependency = section.ends_with("dependencies]") && !section.contains("dev-dependencies");
            let name: String = line.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
            if is_dependency && name.starts_with("mcp-") && !allowed.split_whitespace().any(|a| a == name) {
                wrong.push(format!("{folder}/Cargo.toml: {name}"));
            }
        }
    }
    assert_none("dependencies between packages that no row allows", &wrong);
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let exact = workspace
        .lines()
        .find(|line| line.starts_with("mcp-runtime "))
        .expect("mcp-runtime in the workspace");
    assert!(
        exact.contains("version = \"="),
        "the loops of `mcp-runtime` are outside semver, so it is required by `=`: {exact}"
    );
}
