//! Branches of the protocol outside of the core, counted.
//!
//! `adapters_know_no_words_of_the_protocol` finds words in literals. An adapter can also branch on what the core has named
//! already: an era, a revision, a method, a code of an error, a status. Each such line is counted here, in every adapter,
//! and each file with some has a row with their number and the reason. `mcp-probe` is an application, and `mcp-proto-proxy` translates
//! between the eras: they have none.

use crate::layering::source::{self, SourceFile};
use crate::layering::{assert_none, package_sources};

const ADAPTERS: [&str; 13] = [
    "std",
    "auth",
    "extensions",
    "events",
    "runtime",
    "blocking",
    "threads",
    "smol",
    "tokio",
    "tower",
    "telemetry",
    "c",
    "embedded",
];

/// Files with lines that name an era or a revision, or compare a method, a code or a status: their number, and the reason.
const ROWS: &[(&str, usize, &str)] = &[
    ("c/src/client.rs", 1, "C has a number for what is an enum here"),
    ("c/src/config.rs", 4, "C has a number for what is an enum here"),
    ("c/src/server.rs", 1, "C has a number for what is an enum here"),
    ("events/src/client.rs", 1, "streams of the extension exist in one era"),
    ("events/src/follow.rs", 1, "a method of the extension that the server does not know"),
    ("events/src/subscription.rs", 1, "a method of the extension that the server does not know"),
    ("events/src/receive.rs", 1, "an endpoint for webhooks, which is no endpoint of MCP"),
    ("tower/src/webhook.rs", 1, "an endpoint for webhooks, which is no endpoint of MCP"),
    ("events/src/delivery/values.rs", 1, "the status of a subscription, which is no status of HTTP"),
    ("events/src/receiver.rs", 1, "an endpoint for webhooks, which is no endpoint of MCP"),
    (
        "events/src/server/shared.rs",
        2,
        "the extension is served in the eras that its profile says, and streams in one",
    ),
    ("events/src/wire/profile.rs", 1, "the revisions in which a capability of the extension is declared"),
    ("runtime/src/client/layers/call_port.rs", 1, "an application asks whether a request calls its tool"),
    ("runtime/src/client/layers/mod.rs", 1, "the code is that of the layer for limits, and of no document"),
    (
        "auth/src/client/redirect.rs",
        1,
        "the page that a browser is redirected to, which is no endpoint of MCP",
    ),
    ("std/src/testing/adapter.rs", 6, "its checks run in each era"),
    ("auth/src/token/issuer.rs", 1, "a document of an authorization server, which the core does not load"),
    ("telemetry/src/targets.rs", 3, "a place for the measurements of each revision"),
];

/// Names of the protocol that code can branch on.
const NAMES: [&str; 5] = ["Era::", "KnownEra::", "Version::", "VersionSet::", ".era()"];

/// Words that are compared with a constant. The exit status of a process is none of them.
const COMPARED: [&str; 3] = ["method", "code", "status"];

/// Returns whether the line names an era or a revision, or compares what only the core should.
fn is_branch(line: &str) -> bool {
    let names = || {
        NAMES.iter().any(|name| {
            line.match_indices(name).any(|(at, _)| {
                name.starts_with('.') || !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    };
    let compares = || {
        COMPARED.iter().any(|what| {
            let field = [format!(".{what}"), format!(".{what}()")];
            field.iter().any(|field| {
                ["==", "!=", "<", ">=", "<="].iter().any(|by| line.contains(&format!("{field} {by} ")))
                    || line.contains("match ") && line.contains(&format!("{field} {{"))
            })
        })
    };
    !line.trim_start().starts_with("use ") && (names() || compares())
}

fn count(source: &SourceFile) -> Vec<usize> {
    let lines = source.code.lines().take(source.length).enumerate();
    lines.filter(|(_, line)| is_branch(line)).map(|(index, _)| index + 1).collect()
}

#[test]
fn branches_of_the_protocol_in_adapters_are_those_of_the_table() {
    let mut found = Vec::new();
    let mut rows: Vec<&str> = ROWS.iter().map(|(file, ..)| *file).collect();
    for adapter in ADAPTERS {
        for source in source::read(&package_sources(adapter)) {
            let file = format!("{adapter}/src/{}", source.path);
            let is_other = ["guide/", "process/"].iter().any(|other| source.path.starts_with(other));
            if source::is_test_file(&source.path) || is_other {
                continue;
            }
            let lines = count(&source);
            let allowed = ROWS.iter().find(|(row, ..)| *row == file).map_or(0, |(_, count, _)| *count);
            rows.retain(|row| *row != file || lines.is_empty());
            if lines.len() != allowed {
                found.push(format!("{file}: {} branches, {allowed} in the table:", lines.len()));
                found.extend(lines.iter().map(|n| format!("  {n}: {}", source.line(*n).trim())));
            }
        }
    }
    found.extend(rows.iter().map(|row| format!("{row} has no branch any more")));
    assert_none("branches of the protocol outside of the core", &found);
}

#[test]
fn branch_is_found_in_each_form() {
    for line in [
        "if peer.era() == other {",
        "if era != Some(KnownEra::Legacy) {",
        "Version::V2025_11_25 => x,",
        "if call.method() == NAME {",
        "match call.method() {",
        "if error.code == CODE {",
        "if response.status >= 400 {",
        "if head.status() != OK {",
    ] {
        assert!(is_branch(line), "{line}");
    }
    for line in [
        "use mcp_proto::{Era, Version::V};",
        "let known: Option<KnownEra> = era;",
        "MyVersion::new()",
        "self.status = status;",
        "let code = error.code;",
    ] {
        assert!(!is_branch(line), "{line}");
    }
}
