//! Dependencies between the modules of the core, and code that the core must not contain.
//!
//! `ALLOWED` is the architecture. A module may use the modules in its row, and a row names only modules above it, so
//! there are no cycles. A new edge is a decision that is made in this table.

mod adapter_names;
mod adapters;
mod branches;
mod budget;
mod citations;
mod deprecations;
mod drafts;
mod fuzz_targets;
mod io;
mod lives;
mod macros;
mod methods;
mod named_files;
mod report;
mod rooms;
pub(crate) mod source;

use alloc::collections::BTreeMap;
use std::path::{Path, PathBuf};

use source::SourceFile;

/// Each module of the core with the modules that it may use.
const ALLOWED: &[(&str, &str)] = &[
    // Leaves: bytes, numbers, tables.
    ("ascii", ""),
    ("memory", ""),
    ("json", "memory"),
    ("uri", ""),
    ("scope", ""),
    ("time", ""),
    // Checks of the caller in debug builds.
    ("driving", "time"),
    ("entropy", ""),
    ("extensions", ""),
    ("sync", ""),
    ("budget", ""),
    // Parts that features leave out.
    ("built", ""),
    ("slab", ""),
    ("limits", "json memory"),
    ("deadlines", "time"),
    ("outbox", "driving json memory"),
    ("raw", "json"),
    ("record", ""),
    ("seal", "json raw record"),
    // The interface of a validator, without an implementation.
    ("validate", "raw"),
    // Names of the protocol, as data.
    ("version", "built json"),
    ("meta", "version"),
    ("methods", "meta version"),
    ("change", ""),
    ("deprecation", ""),
    // JSON-RPC: it knows MCP only through the tables above.
    ("rpc", "ascii json limits meta methods raw"),
    // An oversized line is searched for its id.
    ("frame", "json memory rpc"),
    ("tap", "budget json limits slab time"),
    // The members that each type has in each revision, by name.
    ("shape", "built json methods rpc version"),
    // The types. The shaping code knows only their names.
    ("model", "ascii change json meta methods raw rpc shape uri version"),
    // Rules of drafts, by name, and their error codes.
    ("draft", "rpc"),
    ("identity", "json meta methods model raw shape version"),
    // The filter of a subscription, as both roles read it.
    ("listen_filter", "change identity json methods model rpc"),
    ("diagnostic", "deprecation methods rpc"),
    ("error", "ascii diagnostic json limits methods raw rpc scope version"),
    // The interface of an observer of requests.
    ("observe", "error json meta methods model rpc slab tap time version"),
    // Shared by both engines.
    ("calls", SHARED),
    // Tasks as both roles see them.
    ("tasks", "calls entropy error identity json meta methods model raw rpc slab time"),
    // Heads of HTTP messages, which no engine parses.
    ("head", "ascii"),
    // The engines do not know each other.
    ("server", SERVER),
    ("client", ENGINES),
    // Parts of HTTP that others use, too.
    ("short_base64", ""),
    ("fields", "ascii head short_base64"),
    ("url", "ascii uri"),
    ("network", "url"),
    // Entries that applications register by name. It answers calls and runs nothing.
    ("router", "change identity json methods model observe raw rpc server shape slab uri validate version"),
    // Engines on byte streams.
    ("pipe", "client diagnostic driving error frame server tap time"),
    // HTTP: `h1` knows nothing of MCP. `http` binds exchanges to engines, with any HTTP implementation.
    ("h1", "ascii driving head limits memory outbox time"),
    ("http", HTTP),
];

const SHARED: &str = "budget built deadlines diagnostic draft driving error frame identity json limits memory meta methods observe outbox raw rpc shape slab tap time version";
const ENGINES: &str = "budget built calls change deadlines deprecation diagnostic draft driving entropy error frame identity json limits listen_filter meta methods model observe outbox raw rpc scope seal shape slab tap tasks time validate version";
/// The server also has the types of an HTTP request that handlers see; it does not parse one.
const SERVER: &str = "ascii budget built calls change deadlines deprecation diagnostic draft driving entropy error extensions frame head identity json limits listen_filter memory meta methods model observe outbox raw rpc scope seal shape slab tap tasks time validate version";
const HTTP: &str = "ascii built calls client deadlines deprecation diagnostic draft driving entropy error fields frame h1 head json limits memory meta methods model network outbox raw record rpc scope server short_base64 slab tap time uri url version";

/// The module that names the shared pointer, as `alloc` does; every module may use it.
const POINTER: &str = "sync";

/// Modules for tests and measurements, which may use every module, and the guide, which is documentation alone.
const EXEMPT_MODULES: &[&str] = &["guide", "internals", "testing"];

/// The only files that may ask for an era.
const ERA_FILES: &[&str] = &[
    "version.rs",
    "calls/endpoint.rs",
    "client/common.rs",
    "client/engine.rs",
    "client/event.rs",
    "client/negotiate.rs",
    "client/receive.rs",
    "http/client/session.rs",
    "http/server/post.rs",
    "http/server/request_headers.rs",
    "server/custom_method.rs",
    "server/engine.rs",
    "server/input.rs",
    "server/notifications.rs",
    "server/receive.rs",
    "server/reply.rs",
    "server/request_check.rs",
];

/// Code that the core must not contain, and the reason.
const BANNED: &[(&str, &str)] = &[
    ("std::", "the core is no_std"),
    ("Instant::now", "the core reads no clock"),
    ("SystemTime", "the core reads no clock"),
    ("print!", "the core prints nothing"),
    ("println!", "the core prints nothing"),
    ("eprintln!", "the core prints nothing"),
    ("dbg!", "the core prints nothing"),
    ("unsafe", "the core has no unsafe code"),
    ("static mut", "the core touches no global"),
    ("Mutex", "the core locks nothing"),
    ("unwrap(", "no input may end in a panic"),
    ("expect(", "no input may end in a panic"),
    ("panic!", "no input may end in a panic"),
    ("todo!", "no input may end in a panic"),
    ("unimplemented!", "no input may end in a panic"),
    ("unreachable!", "no input may end in a panic"),
];

/// The only file that spells header fields of MCP.
const FIELDS: &str = "fields.rs";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package is inside the workspace")
}

/// Returns the sources of a package by its folder, which is unique below `core/` and `adapters/`.
pub(crate) fn package_sources(name: &str) -> PathBuf {
    let below_core = root().join("core").join(name).join("src");
    if below_core.is_dir() { below_core } else { root().join("adapters").join(name).join("src") }
}

fn core() -> Vec<SourceFile> {
    let mut sources = source::read(&root().join("core/src"));
    sources.retain(|s| !EXEMPT_MODULES.contains(&s.module()) && !source::is_test_file(&s.path));
    sources
}

fn adapters() -> Vec<SourceFile> {
    let folders =
        ["std", "auth", "extensions", "runtime", "blocking", "threads", "smol", "tokio"].map(package_sources);
    let sources = folders.iter().filter(|f| f.is_dir()).flat_map(|f| source::read(f));
    // The guide is documentation: its aliases are words of the protocol.
    let is_exempt = |path: &str| path == "guide/mod.rs" || source::is_test_file(path);
    sources.filter(|source| !is_exempt(&source.path)).collect()
}

/// Panics with one line per finding, if there is one.
fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Returns the names at the root of the crate and the modules that define them.
fn reexports() -> BTreeMap<String, String> {
    let lib =
        SourceFile::new("lib.rs", &std::fs::read_to_string(root().join("core/src/lib.rs")).expect("lib.rs"));
    let mut names = BTreeMap::new();
    for statement in lib.code.split(';') {
        let Some((_, path)) = statement.rsplit_once("pub use ") else { continue };
        let (module, _) = path.split_once("::").expect("a path");
        for name in path.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            if name.starts_with(char::is_uppercase) {
                names.insert(name.to_owned(), module.trim().to_owned());
            }
        }
    }
    names
}

/// Returns the literals of the table of methods, without its tests.
fn methods() -> Vec<String> {
    let table = core().into_iter().find(|s| s.path == "methods.rs").expect("methods.rs");
    // The file names capabilities too. A method has a slash or is one of the two without.
    let is_method = |text: &str| text.contains('/') || matches!(text, "ping" | "initialize");
    table.strings.into_iter().map(|(_, text)| text).filter(|t| is_method(t)).collect()
}

/// Returns the names of MCP's own header fields in lower case, and the prefix of those for arguments.
fn fields() -> Vec<String> {
    let fields = core().into_iter().find(|s| s.path == FIELDS).expect("the table of fields");
    let names = fields.strings.into_iter().map(|(_, text)| text.to_ascii_lowercase());
    names.filter(|name| name.starts_with("mcp-") && !name.contains([',', ' ']) && name.len() > 4).collect()
}

#[test]
fn table_is_acyclic_and_has_a_row_for_every_module() {
    let rows: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (i, (name, uses)) in ALLOWED.iter().enumerate() {
        for used in uses.split(' ').filter(|u| !u.is_empty()) {
            assert!(rows[..i].contains(&used), "`{name}` may use `{used}`, which has no row above it");
        }
    }
    for source in core() {
        let module = source.module();
        assert!(module == "lib" || rows.contains(&module), "`{module}` ({}) has no row", source.path);
    }
}

#[test]
fn modules_use_only_what_their_row_allows() {
    let reexports = reexports();
    let mut found = Vec::new();
    for source in core().iter().filter(|s| s.path != "lib.rs") {
        let module = source.module();
        let (_, uses) = ALLOWED.iter().find(|(name, _)| *name == module).expect("a row");
        for (line, name) in source.root_paths() {
            let used = reexports.get(&name).map_or(&*name, |m| &**m);
            if used != module && used != POINTER && !uses.split(' ').any(|u| u == used) {
                found.push(format!(
                    "core/src/{}:{line}: `{module}` uses `{used}`: {}",
                    source.path,
                    source.line(line)
                ));
            }
        }
    }
    assert_none("dependencies that no row allows", &found);
}

#[test]
fn core_contains_no_banned_code() {
    let mut found = Vec::new();
    for source in core() {
        for (word, why) in BANNED {
            // An expected lint is no call.
            for line in source.lines_with(word).into_iter().filter(|n| !source.line(*n).contains("#[expect("))
            {
                found.push(format!("core/src/{}:{line}: {why}: {}", source.path, source.line(line)));
            }
        }
    }
    assert_none("banned code in the core", &found);
}

#[test]
fn protocol_names_and_numbers_are_spelled_in_one_file() {
    let methods = methods();
    assert!(methods.len() > 20, "the table of methods was not found");
    let fields = fields();
    assert_eq!(fields.len(), 5, "{fields:?}");
    let mut found = Vec::new();
    for source in core() {
        let mut report = |line: usize, what: &str, file: &str| {
            if source.path != file {
                let text = source.line(line);
                found.push(format!("core/src/{}:{line}: {what} belongs in {file}: {text}", source.path));
            }
        };
        for (line, text) in &source.strings {
            if methods.contains(text) {
                report(*line, "a method name", "methods.rs");
            }
            let lower = text.to_ascii_lowercase();
            if lower == "mcp-" || fields.iter().any(|field| lower.contains(&**field)) {
                report(*line, "a header field", FIELDS);
            }
            if text.contains("io.modelcontextprotocol/")
                || matches!(&**text, "clientCapabilities" | "logLevel")
            {
                report(*line, "a key of `_meta`", "meta.rs");
            }
            if source::has_error_number(text) {
                report(*line, "an error number", "rpc/error.rs");
            }
        }
        for (number, line) in source.code.lines().enumerate() {
            if source::has_error_number(line) {
                report(number + 1, "an error number", "rpc/error.rs");
            }
        }
    }
    assert_none("names or numbers of the protocol outside their file", &found);
}

#[test]
fn only_listed_files_use_the_era() {
    let mut found = Vec::new();
    for source in core() {
        let lines = [source.lines_with("Era::"), source.lines_with(".era(")].concat();
        if !ERA_FILES.contains(&&*source.path) {
            found.extend(lines.iter().map(|n| format!("core/src/{}:{n}: {}", source.path, source.line(*n))));
        }
    }
    assert_none("unlisted files that use the era", &found);
}

#[test]
fn adapters_know_no_words_of_the_protocol() {
    let methods = methods();
    let fields = fields();
    let words = ["jsonrpc", "io.modelcontextprotocol", "protocolVersion", "notifications/", "_meta"];
    let mut found = Vec::new();
    for source in adapters() {
        // The messages of skills are those of an extension, which names its own methods and members.
        let is_message = matches!(&*source.path, "skills/messages.rs" | "cards/mod.rs");
        for (line, text) in &source.strings {
            let lower = text.to_ascii_lowercase();
            if methods.contains(text) && !is_message
                || fields.iter().any(|field| lower.contains(&**field))
                || words.iter().any(|w| text.contains(w) && !is_message)
                || source::has_error_number(text)
            {
                found.push(format!("{}:{line}: {text:?}", source.path));
            }
        }
        for word in ["Era::", "Version::", ".era("] {
            found.extend(
                source.lines_with(word).iter().map(|n| format!("{}:{n}: {}", source.path, source.line(*n))),
            );
        }
        for (number, line) in source.code.lines().enumerate() {
            if source::has_error_number(line) {
                found.push(format!("{}:{}: {}", source.path, number + 1, source.line(number + 1)));
            }
        }
    }
    assert_none("protocol words in adapters", &found);
}
