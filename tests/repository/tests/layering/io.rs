//! What lives below `core/` does no I/O, has no clock and no threads, but in modules that a feature names.

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, package_sources, root};

/// Modules of the standard library that ask the system.
const SYSTEM: [&str; 5] = ["fs", "net", "process", "thread", "time"];

/// Returns the modules that a file declares behind a feature, or for tests: their paths from `src`.
fn gated_modules(source: &SourceFile) -> Vec<String> {
    let is_root = ["lib.rs", "mod.rs"].iter().any(|name| source.path.ends_with(name));
    let own = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let folder = if is_root { own.rsplit_once('/').map_or("", |(folder, _)| folder) } else { own };
    let mut found = Vec::new();
    let mut is_gated = false;
    for line in source.code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some((_, name)) =
            line.strip_suffix(';').and_then(|words| words.rsplit_once("mod ")).filter(|_| is_gated)
        {
            found.push(format!("{folder}/{name}").trim_start_matches('/').to_owned());
        }
        is_gated = line.starts_with("#[cfg(") && ["feature", "test"].iter().any(|what| line.contains(what))
            || is_gated && line.starts_with("#[");
    }
    found
}

/// Returns the uses of the system in files outside of the modules that a feature or a test gates.
fn uses(sources: &[SourceFile]) -> Vec<String> {
    let gated: Vec<String> = sources.iter().flat_map(gated_modules).collect();
    let is_gated = |path: &str| {
        let own = path.strip_suffix(".rs").unwrap_or(path);
        gated
            .iter()
            .any(|module| own.strip_prefix(&**module).is_some_and(|r| r.is_empty() || r.starts_with('/')))
    };
    let open = sources.iter().filter(|source| !source::is_test_file(&source.path) && !is_gated(&source.path));
    let mut found = Vec::new();
    for source in open {
        for (line, path) in source.code_paths("std::").into_iter().filter(|(line, _)| *line <= source.length)
        {
            if path.first().is_some_and(|first| SYSTEM.contains(&&**first)) {
                found.push(format!("{}:{line}: std::{}", source.path, path.join("::")));
            }
        }
    }
    found
}

#[test]
fn packages_below_core_ask_the_system_only_behind_a_feature() {
    let (mut packages, mut found) = (vec![root().join("core/src")], Vec::new());
    for entry in std::fs::read_dir(root().join("core")).expect("a folder") {
        let folder = entry.expect("an entry").path();
        if folder.join("Cargo.toml").is_file() {
            packages.push(folder.join("src"));
        }
    }
    assert!(packages.len() > 5 && packages.contains(&package_sources("events")), "{packages:?}");
    for folder in packages {
        let place = folder.strip_prefix(root()).expect("below the root").display();
        found.extend(uses(&source::read(&folder)).into_iter().map(|used| format!("{place}/{used}")));
    }
    assert_none("I/O, a clock or threads below `core/`, without a feature that says so", &found);
}

#[test]
fn uses_of_the_system_are_found() {
    let file = SourceFile::new;
    let root = file(
        "lib.rs",
        "pub mod open;\n#[cfg(feature = \"post\")]\n#[cfg_attr(docsrs, doc(cfg(feature = \"post\")))]\npub mod post;\nmod more;\n",
    );
    let text =
        "use std::{fmt, fs::File};\nfn f() { std::thread::sleep(d) }\nfn g() { core::time::Duration::ZERO }";
    let sources = |path| [root.clone(), file(path, text)];
    for (path, count) in
        [("open.rs", 2), ("more/at.rs", 2), ("post.rs", 0), ("post/wait.rs", 0), ("postal.rs", 2)]
    {
        assert_eq!(uses(&sources(path)).len(), count, "{path}");
    }
}
