//! Writes all mutants of a file into it, each behind a switch, so that one build tries them all (`.ci/mutants`).
//!
//! Reads a [`Plan`] from standard input, writes the files of the plan into the folder that is its argument, and prints
//! what it has written where, as JSON. The mutants are those of `cargo mutants --list --json`.

mod rewrite;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::{env, fs, io, process};

use rewrite::{Mutant, Rewritten};

/// What to write: for each file its source and its mutants.
#[derive(serde::Deserialize)]
struct Plan {
    files: BTreeMap<String, File>,
    /// Names of functions that have to stay `const`, because a constant calls them.
    constant: BTreeSet<String>,
}

#[derive(serde::Deserialize)]
struct File {
    source: String,
    mutants: Vec<Mutant>,
}

fn main() {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("usage: mcp-mutants FOLDER < PLAN");
        process::exit(2);
    };
    let mut plan = String::new();
    io::stdin().read_to_string(&mut plan).expect("a plan in UTF-8");
    let plan: Plan = serde_json::from_str(&plan).expect("a plan");
    let mut written = BTreeMap::new();
    for (path, file) in &plan.files {
        let Rewritten { text, regions, matches, not_tried } =
            match rewrite::rewrite(&file.source, &file.mutants, &plan.constant) {
                Ok(rewritten) => rewritten,
                Err(error) => panic!("{path}: {error}"),
            };
        let target = std::path::Path::new(&folder).join(path);
        // Cargo compares times: a file that stays as it was is not built again.
        if fs::read_to_string(&target).ok().as_ref() != Some(&text) {
            fs::write(&target, &text).expect("the folder has the folders of the files");
        }
        written.insert(
            path,
            serde_json::json!({ "regions": regions, "matches": matches, "not_tried": not_tried }),
        );
    }
    println!("{}", serde_json::to_string(&written).expect("JSON"));
}
