//! Addresses at which the programs of pages, examples and documentation listen.

use std::fs;
use std::path::Path;

use super::{assert_none, read, root};

/// Calls whose first argument is the address of a listening socket.
const BINDS: [&str; 3] = ["serve_http(\"", "HttpServer::bind(\"", "TcpListener::bind(\""];

/// Returns the addresses of `text` that other machines reach, unless the same program has TLS.
fn open_addresses(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for bind in BINDS {
        for (at, _) in text.match_indices(bind) {
            let rest = &text[at + bind.len()..];
            let address = rest.split('"').next().unwrap_or_default();
            let is_local =
                ["127.0.0.1:", "[::1]:", "localhost:"].iter().any(|host| address.starts_with(host));
            let program = rest.split("```").next().unwrap_or_default();
            if !is_local && !program.contains(".tls(") {
                found.push(address.to_owned());
            }
        }
    }
    found
}

/// Collects files with programs for readers: pages, examples, and sources for their documentation.
fn collect(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !matches!(name, "tests" | "target" | "suites") {
            collect(&path, found);
        } else if name.ends_with(".md") || name.ends_with(".rs") && !name.contains("test") {
            let path = path.strip_prefix(root()).expect("below the root");
            found.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
}

// covers: HTTP-006, HTTPSSE-006
#[test]
fn programs_of_pages_listen_at_loopback_or_with_tls() {
    let mut files = vec!["README.md".to_owned()];
    for folder in ["core", "adapters", "tests/programs"] {
        collect(&root().join(folder), &mut files);
    }
    let (mut wrong, mut binds) = (Vec::new(), 0);
    for file in files {
        let text = read(&file);
        binds += BINDS.iter().map(|bind| text.matches(bind).count()).sum::<usize>();
        wrong.extend(open_addresses(&text).into_iter().map(|address| format!("{file}: {address}")));
    }
    assert_none("programs that other machines can reach, without TLS", &wrong);
    assert!(binds > 30, "{binds} programs listen");
}

#[test]
fn open_addresses_are_found() {
    for (text, count) in [
        ("```\nrouter.serve_http(\"127.0.0.1:80\", x)\n```", 0),
        ("HttpServer::bind(\"[::1]:0\", x)", 0),
        ("HttpServer::bind(\"0.0.0.0:80\", x)", 1),
        ("HttpServer::bind(\"[::]:8443\", x)?\n    .tls(tls)", 0),
        ("```\nHttpServer::bind(\"[::]:8443\", x)?\n```\n```\nserver.tls(tls)\n```", 1),
    ] {
        assert_eq!(open_addresses(text).len(), count, "{text}");
    }
}
