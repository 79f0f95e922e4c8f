//! Replacements of values, built from the words of the table.

use mcp_proto::Version;
use serde_json::{Value, json};

use super::RevisionRow;

/// Returns the entry of the row for a revision that lacks the value.
pub(super) fn replacement_for(row: &RevisionRow, version: Version) -> &str {
    match row.replacement.strip_prefix("in ") {
        Some(rest) => {
            let (current, before) =
                rest.split_once("; before, ").expect("two entries, separated by `; before, `");
            let (revision, current) = current.split_once(' ').expect("a revision");
            if revision == version.as_str() { current } else { before }
        }
        None => &row.replacement,
    }
}

/// Builds the replacement of a value whose parts have the form of the revision.
pub(super) fn build_replacement(words: &str, value: &Value) -> Value {
    match words {
        "a text that names the kind, the media type and the size"
        | "a text: the title (or name), the URI, the description"
        | "a text that says what was called with what"
        | "a text that says what came of which call" => {
            let mut block = json!({ "type": "text", "text": text(value) });
            // The audience does not change.
            if let Some(annotations) = value.get("annotations") {
                block["annotations"] = annotations.clone();
            }
            block
        }
        "the result without it, and with it as a text block if there is none" => {
            let mut value = value.clone();
            let structured = value
                .as_object_mut()
                .and_then(|v| v.remove("structuredContent"))
                .expect("a `structuredContent`");
            let blocks = value["content"].as_array_mut().expect("blocks");
            if !blocks.iter().any(|block| block["type"] == "text") {
                blocks.push(json!({ "type": "text", "text": structured.to_string() }));
            }
            value
        }
        "several messages of one block each" => {
            let mut value = value.clone();
            let several = |message: &Value| -> Vec<Value> {
                let blocks = match &message["content"] {
                    Value::Array(blocks) => blocks.clone(),
                    one => vec![one.clone()],
                };
                let with = |block| {
                    let mut one = message.clone();
                    one["content"] = block;
                    one
                };
                blocks.into_iter().map(with).collect()
            };
            value["messages"] =
                value["messages"].as_array().expect("a list").iter().flat_map(several).collect();
            value
        }
        "the only block, or all of them in one text" => {
            let mut value = value.clone();
            let blocks = value["content"].as_array().expect("several").clone();
            value["content"] = match &*blocks {
                [only] => only.clone(),
                all => {
                    let texts: Vec<_> = all.iter().map(text).collect();
                    json!({ "type": "text", "text": texts.join("\n") })
                }
            };
            value
        }
        "`enum` with `enumNames`" => {
            let mut value = value.clone();
            let options = value.as_object_mut().and_then(|v| v.remove("oneOf")).expect("options");
            let all = |part: &str| -> Value {
                options.as_array().expect("a list").iter().map(|o| o[part].clone()).collect()
            };
            value["enum"] = all("const");
            value["enumNames"] = all("title");
            value
        }
        other => panic!("unknown entry of the table: `{other}`"),
    }
}

/// Returns the text form of a block.
fn text(block: &Value) -> String {
    let part = |name: &str| block[name].as_str().unwrap_or_default();
    match part("type") {
        "text" => part("text").into(),
        kind @ ("audio" | "image") => {
            let size = part("data").bytes().filter(|b| *b != b'=').count() * 6 / 8;
            format!("[{kind} left out: {}, {size} bytes]", part("mimeType"))
        }
        "resource" => {
            let inner = &block["resource"];
            let left_out = || format!("[resource left out: {}]", inner["uri"].as_str().unwrap_or_default());
            inner["text"].as_str().map_or_else(left_out, str::to_owned)
        }
        "resource_link" => {
            let name = block["title"].as_str().unwrap_or_else(|| part("name"));
            let description = block["description"].as_str().map(|d| format!("\n{d}")).unwrap_or_default();
            format!("{name}: {}{description}", part("uri"))
        }
        "tool_use" => format!("[tool call {}: {} {}]", part("id"), part("name"), block["input"]),
        "tool_result" => {
            let failed = block["isError"] == true;
            let what = if failed { "error" } else { "result" };
            let head = format!("[{what} of tool call {}]", part("toolUseId"));
            let inner = block["content"].as_array().expect("blocks").iter().map(text);
            [head].into_iter().chain(inner).collect::<Vec<_>>().join("\n")
        }
        other => format!("[{other} left out]"),
    }
}
