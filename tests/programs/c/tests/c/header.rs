//! The header and the source say the same.

use std::{env, fs};

use crate::adapter;

#[test]
fn header_is_that_of_the_source() {
    let file = adapter().join("include/mcp.h");
    let config = cbindgen::Config::from_file(adapter().join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new().with_crate(adapter()).with_config(config).generate();
    let mut made = Vec::new();
    bindings.expect("cbindgen reads the source").write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&file, &made).expect("include can be written");
    }
    let committed = fs::read_to_string(&file).expect("include/mcp.h");
    assert!(
        committed == made,
        "include/mcp.h is not that of the source; to write it: UPDATE_HEADER=1 cargo test --manifest-path \
         tests/programs/c/Cargo.toml header"
    );
}

#[test]
fn every_function_is_in_the_header() {
    let header = fs::read_to_string(adapter().join("include/mcp.h")).expect("include/mcp.h");
    let mut functions = 0;
    for file in fs::read_dir(adapter().join("src")).expect("src") {
        let source = fs::read_to_string(file.expect("a file").path()).expect("UTF-8");
        for (_, rest) in
            source.match_indices("extern \"C\" fn ").map(|(at, found)| (at, &source[at + found.len()..]))
        {
            let name = rest.split('(').next().expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            functions += 1;
        }
    }
    assert!(functions > 50, "only {functions} functions were found");
}
