//! `mcp-notes ADAPTER DATABASE [ADDRESS]`: serves on stdin and stdout, or over HTTP at `ADDRESS`.

#![forbid(unsafe_code)]
// A program that uses no deprecated feature gets no warning: neither from macros nor from generic code.
#![deny(deprecated)]

use std::env;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcp_notes::store::Store;
use mcp_notes::{blocking, smol, threads};

const USAGE: &str = "usage: mcp-notes blocking|threads|smol DATABASE [ADDRESS]";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (adapter, database, address) = match &arguments[..] {
        [adapter, database] => (adapter, database, None),
        [adapter, database, address] => (adapter, database, Some(address)),
        _ => bail!(USAGE),
    };
    let store = Store::open(Path::new(database)).with_context(|| format!("cannot open {database}"))?;
    let store = Arc::new(store);
    match (&**adapter, address) {
        ("blocking", None) => blocking::serve_stdio(&store),
        ("blocking", Some(address)) => blocking::serve_http(&store, address),
        ("threads", None) => threads::serve_stdio(&store),
        ("threads", Some(address)) => threads::serve_http(&store, address),
        ("smol", None) => smol::serve_stdio(&store),
        ("smol", Some(address)) => smol::serve_http(&store, address),
        _ => bail!(USAGE),
    }
}
