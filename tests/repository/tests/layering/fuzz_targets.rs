//! Fuzz targets: each is built, has seeds, and runs in `.ci/full`.

use alloc::collections::BTreeSet;
use std::fs;

use crate::layering::{assert_none, root};

#[test]
fn every_fuzz_target_is_built_seeded_and_run() {
    let fuzz = root().join("fuzz");
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let files = fs::read_dir(fuzz.join("fuzz_targets")).expect("the targets");
    let names = files.map(|file| file.expect("a file").path().file_stem().expect("a name").to_owned());
    let targets: BTreeSet<String> = names.map(|name| name.into_string().expect("UTF-8")).collect();
    let manifest = read("fuzz/Cargo.toml");
    let mut found = Vec::new();
    for target in &targets {
        let path = format!("fuzz_targets/{target}.rs");
        if !manifest.contains(&format!("name = \"{target}\"\npath = \"{path}\"\n")) {
            found.push(format!("fuzz/Cargo.toml does not build {target}"));
        }
        let text = read(&format!("fuzz/{path}"));
        let bodies = ["mcp_proto_fuzz", "fuzzing"];
        if !bodies.iter().any(|module| text.contains(&format!("{module}::{target}(data)"))) {
            found.push(format!("fuzz/{path} does not call the body of its name"));
        }
        if fs::read_dir(fuzz.join("seeds").join(target)).map_or(0, Iterator::count) == 0 {
            found.push(format!("fuzz/seeds/{target} has no seed"));
        }
    }
    // Without names it runs all.
    if !read(".ci/full").contains("fuzzing) fuzz/run $((${MINUTES:-10} * 60)) ;;") {
        found.push(".ci/full does not run them".to_owned());
    }
    assert_none("fuzz targets", &found);
}
