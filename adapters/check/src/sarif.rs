//! Reports in SARIF 2.1.0, for code scanning.

use serde_json::{Value, json};

use mcp_proto_trace::{masked, rewrite_texts};

/// Returns the location of a result: the file or place that has it, if there is a reference to it, and the name of the entry.
#[must_use]
pub fn location(artifact: Option<&str>, name: &str) -> Value {
    let artifact = artifact.map_or_else(|| json!({}), |uri| json!({ "uri": uri }));
    json!({ "physicalLocation": { "artifactLocation": artifact }, "logicalLocations": [{ "name": name }] })
}

/// Returns a report of one run: the rules that it has looked at, and its results without secrets.
#[must_use]
pub fn report(rules: &[Value], results: &[Value]) -> Value {
    let mut results = json!(results);
    rewrite_texts(&mut results, &masked);
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mcp-probe", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}
