//! Dependencies between the modules of the packages that the adapters share, between those of `mcp-probe`, and between the
//! packages of the workspace.

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, package_sources, root};

/// The packages that the adapters share: each module with the modules of its package that it may use. A row names only modules
/// above it, so there are no cycles.
const SHARED: &[(&str, &[(&str, &str)])] = &[
    (
        "std",
        &[
            ("catch", ""),
            ("clock", ""),
            ("entropy", ""),
            ("memory", ""),
            ("poll", ""),
            ("io", "poll"),
            ("distinct_members", ""),
            ("schema", "distinct_members"),
            ("tls", "poll io"),
            ("process", "poll clock io"),
            ("durable_file", ""),
            ("json_file", "distinct_members"),
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
            ("seen", ""),
            ("receiver", "seen webhook wire"),
            ("receive", "receiver webhook"),
            ("follow", "seen wire"),
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
const MAX_MODULES: usize = 47;
const MAX_EDGES: usize = 80;

/// The packages of this workspace that each package may depend on.
pub(super) const PACKAGES: &[(&str, &str)] = &[
    ("core", ""),
    ("core/oauth", "mcp-proto"),
    ("adapters/std", "mcp-proto"),
    ("adapters/auth", "mcp-proto mcp-oauth mcp-std"),
    ("core/extensions", "mcp-proto"),
    ("adapters/runtime", "mcp-proto mcp-std mcp-auth mcp-extensions"),
    ("core/events", "mcp-proto mcp-std mcp-runtime"),
    ("adapters/blocking", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/threads", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/smol", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/tokio", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-runtime"),
    ("adapters/tower", "mcp-proto mcp-std mcp-auth mcp-extensions mcp-events mcp-runtime"),
    ("adapters/telemetry", "mcp-proto"),
    ("adapters/redis", "mcp-std"),
    ("core/proxy", "mcp-proto mcp-std mcp-auth mcp-runtime"),
    ("core/trace", "mcp-proto mcp-std"),
    ("core/sim", "mcp-proto mcp-events"),
    (
        "adapters/mock",
        "mcp-proto mcp-std mcp-extensions mcp-events mcp-proto-trace mcp-runtime mcp-blocking mcp-threads mcp-smol mcp-tokio mcp-tower",
    ),
    ("adapters/check", "mcp-proto mcp-oauth mcp-std mcp-auth mcp-proto-trace"),
    ("adapters/c", "mcp-proto"),
    ("adapters/embedded", "mcp-proto"),
    (
        "adapters/cli",
        "mcp-proto mcp-oauth mcp-std mcp-auth mcp-extensions mcp-events mcp-proto-proxy mcp-proto-trace mcp-redis-store mcp-runtime mcp-blocking mcp-threads mcp-smol mcp-tokio mcp-mock mcp-check",
    ),
];

fn sources(package: &str) -> Vec<SourceFile> {
    let mut sources = source::read(&package_sources(package));
    sources.retain(|s| !source::is_test_file(&s.path));
    sources
}

/// Returns the top-level module of a file.
fn module(path: &str) -> String {
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

/// Edges between modules, from the one that uses to the one that is used, with a source line for each.
type Edges = BTreeMap<(String, String), String>;

/// Returns the edges between the modules of a package.
fn edges(package: &str) -> Edges {
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
                    .or_insert_with(|| format!("{package}/src/{}:{line}", source.path));
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

/// Returns the modules that a module uses, directly or by others.
fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        let uses = edges.keys().filter(|(user, _)| user == next).map(|(_, used)| &**used);
        open.extend(uses.filter(|used| found.insert(*used)));
    }
    found
}

/// Returns the modules that use `module` and that it uses, directly or by others: its circle. Empty if it is in none.
fn circle<'a>(edges: &'a Edges, module: &'a str) -> BTreeSet<&'a str> {
    let mut found = reachable(edges, module);
    found.retain(|used| reachable(edges, used).contains(module));
    found
}

/// Returns the modules of the commands, which the variants of `enum Command` name.
fn commands(sources: &[SourceFile]) -> BTreeSet<String> {
    let all = sources.iter().find(|s| s.path == "command.rs").expect("command.rs");
    let (_, variants) = all.code.split_once("enum Command {").expect("the commands");
    let (variants, _) = variants.split_once('}').expect("the end of the enum");
    let modules = variants.split("::").filter_map(|before| Some(before.rsplit_once('(')?.1.to_owned()));
    modules.filter(|name| name != "subcommand)]").collect()
}

/// Returns what is wrong between the commands, their shared options, and the module that knows all commands.
fn wrong_uses(edges: &Edges, commands: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((from, to), place) in edges {
        let is_allowed = match &**to {
            _ if from == "args" => false,
            // Tips for a command line that cannot be parsed look at all of its definition.
            "command" => from == "words",
            // A line of the shell sends the requests of the commands among them.
            "verb" => from == "command" || from == "shell",
            to if commands.contains(to) => from == "command",
            _ => true,
        };
        if !is_allowed {
            wrong.push(format!("{place}: `{from}` uses `{to}`"));
        }
    }
    for module in commands.iter().map(String::as_str).chain(["args", "command", "words"]) {
        let circle = circle(edges, module);
        if !circle.is_empty() {
            wrong.push(format!("`{module}` is in a circle: {circle:?}"));
        }
    }
    wrong
}

#[test]
fn commands_of_mcp_probe_know_shared_options_and_not_each_other() {
    let (edges, commands) = (edges("cli"), commands(&sources("cli")));
    assert!(commands.len() > 15 && commands.contains("events"), "{commands:?}");
    assert!(edges.keys().filter(|(from, _)| from == "command").count() > 15, "no imports found");
    assert_none("dependencies between commands", &wrong_uses(&edges, &commands));
    let circles = edges.keys().map(|(from, _)| circle(&edges, from));
    let largest = circles.max_by_key(BTreeSet::len).unwrap_or_default();
    assert!(largest.is_empty(), "a circle of {} modules: {largest:?}", largest.len());
}

#[test]
fn a_command_that_knows_another_one_is_found() {
    let commands = ["login", "whoami"].map(str::to_owned).into();
    let wrong = |uses: &[(&str, &str)]| {
        let edge = |(from, to): &(&str, &str)| (((*from).to_owned(), (*to).to_owned()), "x.rs:1".to_owned());
        wrong_uses(&uses.iter().map(edge).collect(), &commands).join("\n")
    };
    let right = [
        ("command", "login"),
        ("command", "whoami"),
        ("login", "args"),
        ("login", "session"),
        ("session", "args"),
    ];
    assert_eq!(wrong(&right), "");
    for (from, to) in [("login", "whoami"), ("session", "login"), ("session", "command"), ("args", "session")]
    {
        let found = wrong(&[&right[..], &[(from, to)]].concat());
        assert!(found.contains(&format!("x.rs:1: `{from}` uses `{to}`")), "{found}");
    }
    let found = wrong(&[&right[..], &[("words", "command"), ("session", "words")]].concat());
    assert!(
        found.contains("`words` is in a circle: {\"command\", \"login\", \"session\", \"words\"}"),
        "{found}"
    );
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
