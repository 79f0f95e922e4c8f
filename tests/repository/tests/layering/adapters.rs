//! Dependencies between the modules of `mcp-std`, and between the packages of the workspace.

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, root};

/// Each module of `mcp-std` with the modules that it may use; a row names only modules above it, so there are no
/// cycles.
const STD_MODULES: &[(&str, &str)] = &[
    ("catch", ""),
    ("clock", ""),
    ("entropy", ""),
    ("adapter::poll", ""),
    ("io", "adapter::poll"),
    ("schema", ""),
    ("skills", ""),
    ("tls", "adapter::poll io"),
    ("process", "adapter::poll clock io"),
    ("cache", "clock"),
    ("durable_file", ""),
    ("adapter::sync", ""),
    ("task_store", "adapter::sync catch durable_file"),
    ("error", "process task_store"),
    ("testing", "clock"),
    ("adapter::net_stream", "adapter::poll io tls"),
    ("adapter::driver", "adapter::poll clock io"),
    ("auth", "adapter::net_stream adapter::poll clock durable_file entropy io tls"),
    ("token", "auth"),
    (
        "adapter::server",
        "adapter::driver adapter::net_stream adapter::poll adapter::sync catch clock entropy error io schema skills task_store tls token",
    ),
    (
        "adapter::client",
        "adapter::driver adapter::net_stream adapter::poll adapter::server adapter::sync auth cache catch clock entropy \
         error io process schema tls skills",
    ),
    (
        "adapter::runtime",
        "adapter::client adapter::driver adapter::poll adapter::server adapter::sync catch clock entropy error io process tls token",
    ),
];

/// Maximum number of modules, and of edges between them.
const MAX_MODULES: usize = 22;
const MAX_EDGES: usize = 70;

/// The packages of this workspace that each package may depend on.
const PACKAGES: &[(&str, &str)] = &[
    ("core", ""),
    ("adapters/std", "mcp-proto"),
    ("adapters/blocking", "mcp-proto mcp-std"),
    ("adapters/threads", "mcp-proto mcp-std"),
    ("adapters/smol", "mcp-proto mcp-std"),
    ("adapters/tokio", "mcp-proto mcp-std"),
    ("adapters/tower", "mcp-proto mcp-std"),
    ("adapters/telemetry", "mcp-proto"),
    ("adapters/c", "mcp-proto"),
    ("adapters/cli", "mcp-proto mcp-std mcp-blocking mcp-threads mcp-smol mcp-tokio"),
];

fn std_sources() -> Vec<SourceFile> {
    let mut sources = source::read(&root().join("adapters/std/src"));
    sources.retain(|s| !s.path.ends_with("tests.rs"));
    sources
}

/// Returns the module of a file: its top-level module, or the module below `adapter`.
fn std_module(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    match *parts.as_slice() {
        ["adapter", below, ..] if below != "mod" => format!("adapter::{below}"),
        [first, ..] => first.to_owned(),
        [] => String::new(),
    }
}

/// Returns the edges between modules, with a source line for each.
fn edges() -> BTreeMap<(String, String), String> {
    let sources = std_sources();
    let lib = sources.iter().find(|s| s.path == "lib.rs").expect("lib.rs");
    let mut reexports = BTreeMap::new();
    for (_, path) in lib.code_paths("pub use ") {
        if let [module, name] = path.as_slice() {
            reexports.insert(name.clone(), module.clone());
        }
    }
    let mut edges = BTreeMap::new();
    for source in sources.iter().filter(|s| s.path != "lib.rs" && s.path != "adapter/mod.rs") {
        let from = std_module(&source.path);
        for (line, path) in source.code_paths("crate::") {
            let Some(first) = path.first() else { continue };
            let to = match (&**first, path.get(1)) {
                ("adapter", Some(below)) if *below == "NetStream" => "adapter::net_stream".to_owned(),
                ("adapter", Some(below)) => format!("adapter::{below}"),
                (name, _) => reexports.get(name).cloned().unwrap_or_else(|| name.to_owned()),
            };
            if to != from {
                edges
                    .entry((from.clone(), to))
                    .or_insert_with(|| format!("adapters/std/src/{}:{line}", source.path));
            }
        }
    }
    edges
}

#[test]
fn modules_of_mcp_std_use_only_what_their_row_allows() {
    let rows: Vec<&str> = STD_MODULES.iter().map(|(name, _)| *name).collect();
    for (i, (name, uses)) in STD_MODULES.iter().enumerate() {
        for used in uses.split_whitespace() {
            assert!(rows[..i].contains(&used), "`{name}` may use `{used}`, which is not above it");
        }
    }
    // The guide is text.
    let is_code = |module: &String| !matches!(&**module, "adapter" | "guide" | "lib");
    let found: BTreeSet<String> = std_sources().iter().map(|s| std_module(&s.path)).filter(is_code).collect();
    let listed: BTreeSet<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    assert_eq!(found, listed, "the modules and their rows");
    assert!(rows.len() <= MAX_MODULES, "{} modules", rows.len());
    let edges = edges();
    assert!(edges.len() > 15, "the imports were not found");
    assert!(edges.len() <= MAX_EDGES, "{} edges between modules: {:?}", edges.len(), edges.keys());
    let mut wrong = Vec::new();
    for ((from, to), place) in &edges {
        let allowed = STD_MODULES.iter().find(|(name, _)| name == from).map_or("", |(_, uses)| *uses);
        if !allowed.split_whitespace().any(|used| used == to) {
            wrong.push(format!("{place}: `{from}` uses `{to}`"));
        }
    }
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
    let exact =
        workspace.lines().find(|line| line.starts_with("mcp-std ")).expect("mcp-std in the workspace");
    assert!(
        exact.contains("version = \"="),
        "`mcp_std::adapter` is outside semver, so it is required by `=`: {exact}"
    );
}
