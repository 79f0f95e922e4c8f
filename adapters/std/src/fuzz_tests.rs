//! Replay of the seeds of fuzz targets in unit tests.

use alloc::string::String;
use alloc::vec::Vec;
use std::path::Path;

/// Returns the seeds of a target, or warns that there are none: the repository contains them, a package does not.
fn read(target: &str) -> Option<Vec<Vec<u8>>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    if !fuzz.join("Cargo.toml").exists() {
        std::eprintln!("NOT CHECKED: seeds of the fuzz target {target}, which are in the repository only");
        return None;
    }
    let files = std::fs::read_dir(fuzz.join("seeds").join(target)).expect("seeds of the target");
    Some(files.map(|file| std::fs::read(file.expect("a file").path()).expect("its content")).collect())
}

/// Runs a target over its seeds, each also with one byte left out, with one doubled, and with its lines reversed.
pub(crate) fn for_each_variant(target: &str, body: fn(&[u8])) {
    body(b"");
    for seed in read(target).into_iter().flatten() {
        body(&seed);
        for at in 0..seed.len() {
            body(&[&seed[..at], &seed[at + 1..]].concat());
            body(&[&seed[..=at], &seed[at..]].concat());
        }
        let reversed: String = String::from_utf8_lossy(&seed).lines().rev().collect::<Vec<_>>().join("\n");
        body(reversed.as_bytes());
    }
}
