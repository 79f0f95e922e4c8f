//! The JSON Schemas of what commands print with `--json`. They are files of the folder `schemas`, and parts of the program.

use serde_json::{Map, Value};

/// The schema of the values that a command prints with `--json`.
#[derive(Debug)]
pub(crate) struct OutputSchema {
    pub(crate) name: &'static str,
    /// Words of the command, and the options that select this output.
    pub(crate) command: &'static [&'static str],
    /// Whether the command prints one value per line instead of one.
    pub(crate) has_lines: bool,
    text: &'static str,
}

macro_rules! schemas {
    ($($form:ident $name:literal $($word:literal)+;)+) => {
        &[$(OutputSchema {
            name: $name,
            command: &[$($word),+],
            has_lines: schemas!($form),
            text: include_str!(concat!("../schemas/", $name, ".json")),
        }),+]
    };
    (one) => { false };
    (lines) => { true };
}

/// Schemas by their names.
///
/// Commands without one have no `--json`: `serve` but for its list, `bridge`, `gateway`, `tap` and `mcp` speak a protocol until they are
/// ended; `generate`, `shrink`, `completions`, `trace html`, `har` and `otlp` write a document of another format, and `pin` one that
/// is JSON anyway; `demo` is a tour for people, whose outcome is its exit code.
pub(crate) const SCHEMAS: &[OutputSchema] = schemas! {
    one "inspect" "inspect";
    one "call" "call";
    one "check" "check";
    one "check-rules" "check" "--rules";
    one "doctor" "doctor";
    one "read" "read";
    one "prompt" "prompt";
    one "complete" "complete";
    lines "complete-typed" "complete" "--typed";
    lines "listen" "listen";
    one "events-list" "events" "list";
    one "events-poll" "events" "poll";
    lines "events-follow" "events" "follow";
    lines "events-subscribe" "events" "subscribe";
    lines "events-receive" "events" "receive";
    one "events-verify" "events" "verify";
    one "events-send" "events" "send";
    one "skills-list" "skills" "list";
    one "skills-show" "skills" "show";
    one "skills-verify" "skills" "verify";
    one "pin-check" "pin" "--check";
    one "ping" "ping";
    one "login" "login";
    one "login-show" "login" "--show";
    one "login-forget" "login" "--forget";
    one "replay" "replay";
    one "trace-show" "trace" "show";
    one "trace-diff" "trace" "diff";
    one "schema" "schema";
    lines "shell" "shell";
    one "test" "test";
    one "bench" "bench";
    one "connect" "connect";
    one "connect-list" "connect" "--list";
    one "connect-end" "connect" "--end";
    one "serve-list" "serve" "--list";
};

/// Schemas that others refer to by the name of their file. They refer to none themselves.
const SHARED: [(&str, &str); 4] = [
    ("authorization", include_str!("../schemas/authorization.json")),
    ("connection", include_str!("../schemas/connection.json")),
    ("error", include_str!("../schemas/error.json")),
    ("event", include_str!("../schemas/event.json")),
];

impl OutputSchema {
    /// Returns the schema with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        SCHEMAS.iter().find(|schema| schema.name == name)
    }

    /// Returns what the values are, in words.
    pub(crate) fn description(&self) -> String {
        let schema = parse(self.text);
        schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Returns the schema with all that it refers to, so that it stands alone.
    pub(crate) fn bundled(&self) -> Map<String, Value> {
        let mut schema = Value::Object(parse(self.text));
        let mut found = Map::new();
        bundle(&mut schema, &mut found);
        let Value::Object(mut schema) = schema else { return Map::new() };
        if !found.is_empty() {
            schema.insert("$defs".into(), Value::Object(found));
        }
        schema
    }
}

/// Parses a file of the folder. The tests do so with each: none fails.
fn parse(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Replaces references to files by references within the schema, and collects what is referred to.
fn bundle(schema: &mut Value, found: &mut Map<String, Value>) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|one| bundle(one, found)),
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                let file = reference.strip_suffix(".json");
                if let Some((name, text)) = SHARED.iter().find(|(name, _)| Some(*name) == file) {
                    let mut shared = parse(text);
                    // The dialect is that of the whole.
                    shared.remove("$schema");
                    found.insert((*name).into(), Value::Object(shared));
                    *reference = format!("#/$defs/{name}");
                }
            }
            members.values_mut().for_each(|below| bundle(below, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects all references of a schema.
    fn references(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Array(all) => all.iter().for_each(|one| references(one, found)),
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|below| references(below, found));
            }
            _ => {}
        }
    }

    #[test]
    fn bundled_schemas_refer_to_themselves_alone() {
        let mut count = 0;
        for schema in SCHEMAS {
            let bundled = schema.bundled();
            assert!(bundled.contains_key("$schema") && !bundled.contains_key("$id"), "{}", schema.name);
            assert!(schema.description().contains("mcp-probe "), "{}", schema.name);
            let mut found = Vec::new();
            references(&Value::Object(bundled.clone()), &mut found);
            for reference in &found {
                let name = reference.strip_prefix("#/$defs/").expect("within the schema");
                assert!(bundled["$defs"].get(name).is_some(), "{}: {reference}", schema.name);
            }
            count += found.len();
            // A failure is one shape of every output.
            assert!(found.iter().any(|reference| reference == "#/$defs/error"), "{}", schema.name);
        }
        assert!(count >= SCHEMAS.len(), "{count}");
    }

    #[test]
    fn every_file_of_the_folder_is_a_schema_of_the_program() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let files = std::fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path());
        let mut files: Vec<_> =
            files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        files.sort();
        let mut names: Vec<_> =
            SCHEMAS.iter().map(|schema| schema.name).chain(SHARED.map(|(name, _)| name)).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }
}
