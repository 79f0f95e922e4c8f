//! The walls between the modules of the core, and what must not be found in it, read off its source.
//!
//! `ALLOWED` is the architecture: a module may use those in its row, and a row names only modules above it, so that
//! there are no circles. A new edge is a decision: it is made here, in the open.

extern crate alloc;

#[path = "layering/source.rs"]
mod source;

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use source::Source;

/// Each module of the core with those that it may use
const ALLOWED: &[(&str, &str)] = &[
    // Leaves: bytes, numbers, tables.
    ("ascii", ""),
    ("json", ""),
    ("uri", ""),
    ("time", ""),
    ("entropy", ""),
    ("budget", ""),
    ("slab", ""),
    ("limits", "json"),
    ("deadlines", "time"),
    ("outbox", "json"),
    ("raw", "json"),
    ("seal", "json raw"),
    // What a validator has to offer; nothing here is one.
    ("validate", "raw"),
    // Names of the protocol, as data.
    ("version", "json"),
    ("vocab", "version"),
    ("meta", ""),
    ("change", ""),
    // JSON-RPC: what MCP makes of it is known through the tables above alone.
    ("rpc", "ascii json limits meta raw vocab"),
    // A line that is too long to keep is searched for its id.
    ("frame", "json rpc"),
    ("tap", "budget json limits slab time"),
    // What each revision has of the types, by name: as data, too.
    ("shape", "json rpc version vocab"),
    // The types themselves; what shapes them on their way out knows only their names.
    ("model", "ascii json meta raw rpc shape uri version vocab"),
    ("identity", "json model raw shape version vocab"),
    ("diagnostic", "rpc"),
    ("error", "ascii json raw rpc version vocab"),
    ("seal", "json raw"),
    // What both engines share.
    ("calls", SHARED),
    // The engines never know of each other.
    ("server", ENGINES),
    ("client", ENGINES),
    // What applications register by name; it makes answers to calls and runs nothing.
    ("router", "change identity json model raw rpc server shape uri validate vocab version"),
    // Bytes meet engines; nothing below knows of it.
    ("pipe", "client diagnostic error frame server tap time"),
    // HTTP: h1 speaks it and knows nothing of MCP; http binds exchanges, whoever speaks it, to engines.
    ("head", "ascii"),
    ("h1", "ascii head limits outbox time"),
    ("http", HTTP),
];

const SHARED: &str = "budget deadlines diagnostic error frame json limits meta outbox raw rpc shape slab tap time version vocab";
const ENGINES: &str = "budget calls change diagnostic error frame identity json limits meta model outbox raw rpc seal shape slab tap time validate version vocab";
const HTTP: &str = "ascii calls client deadlines diagnostic entropy error frame h1 head json limits meta model outbox raw rpc server slab tap time uri version vocab";

/// Modules for tests and measurements, which may use everything
const OUTSIDE: &[&str] = &["bench", "fuzzing"];

/// The only files that may ask for an era
const ERA_FILES: &[&str] = &[
    "version.rs",
    "client/calls.rs",
    "client/config.rs",
    "client/engine.rs",
    "client/event.rs",
    "client/negotiate.rs",
    "client/receive.rs",
    "http/client/session.rs",
    "http/server/mirror.rs",
    "http/server/post.rs",
    "server/config.rs",
    "server/engine.rs",
    "server/input.rs",
    "server/log.rs",
    "server/receive.rs",
    "server/reply.rs",
];

/// Code that the core must not contain, and why
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

/// The only file that spells header fields of MCP
const FIELDS: &str = "http/fields.rs";

/// Above this a file is worth a look: it may hold two concepts
const LONG: usize = 500;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the project")
}

fn core() -> Vec<Source> {
    let mut sources = source::read(&root().join("core/src"));
    sources.retain(|s| !OUTSIDE.contains(&s.module()) && !s.path.ends_with("tests.rs"));
    sources
}

fn adapters() -> Vec<Source> {
    let folders =
        ["std", "blocking", "threads", "smol"].map(|name| root().join("adapters").join(name).join("src"));
    folders.iter().filter(|f| f.is_dir()).flat_map(|f| source::read(f)).collect()
}

/// Fails with all that was found, one line each
fn refuse(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Names at the root of the crate and the modules that they come from
fn reexports() -> BTreeMap<String, String> {
    let lib =
        Source::new("lib.rs", &std::fs::read_to_string(root().join("core/src/lib.rs")).expect("lib.rs"));
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

/// The literals of the table of methods, tests left out
fn methods() -> Vec<String> {
    let vocab = core().into_iter().find(|s| s.path == "vocab.rs").expect("vocab.rs");
    // Capabilities stand in the same file; a method has a slash or is one of the two without.
    let is_method = |text: &str| text.contains('/') || matches!(text, "ping" | "initialize");
    vocab.strings.into_iter().map(|(_, text)| text).filter(|t| is_method(t)).collect()
}

/// The names of header fields that are MCP's own, in lower case, and what those of arguments begin with
fn fields() -> Vec<String> {
    let fields = core().into_iter().find(|s| s.path == FIELDS).expect("the table of fields");
    let names = fields.strings.into_iter().map(|(_, text)| text.to_ascii_lowercase());
    names.filter(|name| name.starts_with("mcp-") && !name.contains([',', ' ']) && name.len() > 4).collect()
}

#[test]
fn the_table_has_no_circles_and_names_every_module() {
    let rows: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (i, (name, uses)) in ALLOWED.iter().enumerate() {
        for used in uses.split(' ').filter(|u| !u.is_empty()) {
            assert!(rows[..i].contains(&used), "`{name}` may use `{used}`, which is not above it");
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
            if used != module && !uses.split(' ').any(|u| u == used) {
                found.push(format!(
                    "core/src/{}:{line}: `{module}` uses `{used}`: {}",
                    source.path,
                    source.line(line)
                ));
            }
        }
    }
    refuse("dependencies that no row allows", &found);
}

#[test]
fn the_core_has_nothing_that_its_contract_rules_out() {
    let mut found = Vec::new();
    for source in core() {
        for (word, why) in BANNED {
            for line in source.lines_with(word) {
                found.push(format!("core/src/{}:{line}: {why}: {}", source.path, source.line(line)));
            }
        }
    }
    refuse("banned code in the core", &found);
}

#[test]
fn names_and_numbers_of_the_protocol_have_one_place() {
    let methods = methods();
    assert!(methods.len() > 20, "the table of methods was not found");
    let fields = fields();
    assert_eq!(fields.len(), 5, "{fields:?}");
    let mut found = Vec::new();
    for source in core() {
        let mut report = |line: usize, what: &str, place: &str| {
            if source.path != place {
                let text = source.line(line);
                found.push(format!("core/src/{}:{line}: {what} belongs to {place}: {text}", source.path));
            }
        };
        for (line, text) in &source.strings {
            if methods.contains(text) {
                report(*line, "a method name", "vocab.rs");
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
    refuse("names or numbers out of place", &found);
}

#[test]
fn only_listed_files_ask_for_the_era() {
    let mut found = Vec::new();
    for source in core() {
        let lines = [source.lines_with("Era::"), source.lines_with(".era(")].concat();
        if !ERA_FILES.contains(&&*source.path) {
            found.extend(lines.iter().map(|n| format!("core/src/{}:{n}: {}", source.path, source.line(*n))));
        }
    }
    refuse("files that ask for the era and are not listed", &found);
}

#[test]
fn adapters_know_no_words_of_the_protocol() {
    let methods = methods();
    let fields = fields();
    let words = ["jsonrpc", "io.modelcontextprotocol", "protocolVersion", "notifications/", "_meta"];
    let mut found = Vec::new();
    for source in adapters() {
        for (line, text) in &source.strings {
            let lower = text.to_ascii_lowercase();
            if methods.contains(text)
                || fields.iter().any(|field| lower.contains(&**field))
                || words.iter().any(|w| text.contains(w))
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
    refuse("words of the protocol in adapters", &found);
}

/// Tells of long files and fails for none: a number is no judgement.
#[test]
fn long_files_are_listed() {
    let mut text = String::new();
    for (folder, sources) in [("core/src", core()), ("adapters/*/src", adapters())] {
        for source in sources.iter().filter(|s| s.length > LONG) {
            let _ = writeln!(
                text,
                "note: {folder}/{} has {} lines without its tests",
                source.path, source.length
            );
        }
    }
    // Past the capture of the test harness: it is meant to be seen.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
