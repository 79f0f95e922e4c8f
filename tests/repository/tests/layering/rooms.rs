//! The second floor: rooms inside the modules of the core that do not know each other.
//!
//! Between the files of one room there is no rule: they are read together. The modules of the shared packages have rows in
//! [`adapters`](super::adapters).

use crate::layering::source::SourceFile;
use crate::layering::{assert_none, core};

/// A folder of the core, and what its files must not name.
const CORE: &[(&str, &[&str])] = &[
    ("http/client", &["http/server"]),
    ("http/server", &["http/client"]),
    // A template knows no entry.
    ("router/template", &["router/entries", "router/registry", "router/route", "router/visibility"]),
    ("client/tasks", &["client/input_tasks", "client/rounds"]),
    ("client/input_tasks", &["client/rounds"]),
];

/// The path of a module from the root of the crate, with slashes.
fn module_of(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').filter(|part| *part != "mod").collect()
}

/// The paths that a file names, from the root of the crate, with their lines.
fn named(source: &SourceFile) -> Vec<(usize, String)> {
    let own = module_of(&source.path);
    let mut found: Vec<(usize, String)> =
        source.code_paths("crate::").into_iter().map(|(line, path)| (line, path.join("/"))).collect();
    for (line, path) in source.code_paths("super::") {
        let ups = 1 + path.iter().take_while(|part| *part == "super").count();
        let Some(base) = own.len().checked_sub(ups).and_then(|n| own.get(..n)) else { continue };
        let rest = path.iter().skip(ups - 1).map(String::as_str);
        found.push((line, base.iter().copied().chain(rest).collect::<Vec<_>>().join("/")));
    }
    found
}

fn is_in(path: &str, room: &str) -> bool {
    path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check(sources: &[SourceFile], rooms: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (room, closed) in rooms {
        let inside = |s: &&SourceFile| {
            let module = module_of(&s.path).join("/");
            is_in(&module, room) && !closed.iter().any(|other| is_in(&module, other))
        };
        let files: Vec<&SourceFile> = sources.iter().filter(inside).collect();
        assert!(!files.is_empty(), "`{room}` has no files");
        for source in files {
            for (line, path) in named(source) {
                if let Some(other) = closed.iter().find(|other| is_in(&path, other)) {
                    wrong.push(format!("{}:{line}: `{room}` names `{other}`: {path}", source.path));
                }
            }
        }
    }
    assert_none("doors between rooms that do not know each other", &wrong);
}

#[test]
fn rooms_of_the_core_keep_their_doors_closed() {
    check(&core(), CORE);
}

#[test]
fn an_open_door_is_found() {
    let sources =
        [SourceFile::new("http/client/x.rs", "use super::super::server::Y;\nuse crate::http::server::Z;\n")];
    let found = std::panic::catch_unwind(|| check(&sources, &CORE[..1]));
    assert!(found.is_err_and(|text| {
        text.downcast_ref::<String>().is_some_and(|text| text.contains(":1:") && text.contains(":2:"))
    }));
}
