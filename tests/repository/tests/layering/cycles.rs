//! Cycles between the files of one module of the core, and of the folders of `mcp-std`: there may be no new ones.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::layering::source::SourceFile;
use crate::layering::{assert_none, core, root, source};

/// Files of each module that are part of a cycle today; a number may only go down.
const CYCLIC_FILES: &[(&str, usize)] = &[("calls", 5), ("frame", 2), ("json", 4), ("model", 5)];

/// The same for the folders of `mcp-std`.
const CYCLIC_STD_FILES: &[(&str, usize)] = &[
    ("adapter/client", 4),
    ("adapter/server", 5),
    ("adapter/server/cx", 1),
    ("adapter/server/http", 3),
    ("adapter/server/router", 3),
];

/// The module path of a file, without `mod`.
fn module_path(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Edges from each file to the files of the same top-level module that it names.
fn edges(sources: &[SourceFile]) -> BTreeMap<String, BTreeSet<String>> {
    let files: BTreeMap<Vec<String>, &str> =
        sources.iter().map(|s| (module_path(&s.path), &*s.path)).collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let own = module_path(&source.path);
        let targets = edges.entry(source.path.clone()).or_default();
        let mut absolute: Vec<Vec<String>> =
            source.code_paths("crate::").into_iter().map(|(_, path)| path).collect();
        for (_, path) in source.code_paths("super::") {
            let ups = 1 + path.iter().take_while(|part| *part == "super").count();
            if let Some(base) = own.len().checked_sub(ups) {
                let rest = path.iter().skip(ups - 1).cloned();
                absolute.push(own.iter().take(base).cloned().chain(rest).collect());
            }
        }
        for path in absolute.iter().filter(|p| p.first() == own.first()) {
            // The longest prefix that is a file; the module's own root gathers re-exports and is left out.
            let file = (2..=path.len()).rev().find_map(|n| files.get(path.get(..n)?));
            if let Some(file) = file.filter(|file| **file != source.path) {
                targets.insert((*file).to_owned());
            }
        }
    }
    edges
}

fn reaches(edges: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(next) = open.pop() {
        for to in edges.get(&next).into_iter().flatten() {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

/// Checks the number of files in cycles, by the group that a file belongs to.
fn check(sources: &[SourceFile], allowed: &[(&str, usize)], group: impl Fn(&SourceFile) -> String) {
    let edges = edges(sources);
    assert!(edges.values().map(BTreeSet::len).sum::<usize>() > 100, "the imports were not found");
    let mut cyclic: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        if reaches(&edges, &source.path).contains(&source.path) {
            cyclic.entry(group(source)).or_default().push(source.path.clone());
        }
    }
    let mut wrong = Vec::new();
    for (name, files) in &cyclic {
        let allowed = allowed.iter().find(|(other, _)| other == name).map_or(0, |(_, n)| *n);
        if files.len() > allowed {
            wrong.push(format!("`{name}`: {} files, at most {allowed}: {}", files.len(), files.join(" ")));
        }
    }
    assert_none("files in cycles", &wrong);
}

#[test]
fn cycles_between_files_of_a_module_do_not_grow() {
    check(&core(), CYCLIC_FILES, |source| source.module().to_owned());
}

#[test]
fn cycles_between_files_of_the_adapters_base_do_not_grow() {
    let sources = source::read(&root().join("adapters/std/src"));
    check(&sources, CYCLIC_STD_FILES, |source| {
        source.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
    });
}
