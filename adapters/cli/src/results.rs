//! Readable rendering of results: of tools, resources, prompts and completions.

use mcp_proto::RawJson;
use mcp_proto::model::{
    CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::Value;

use crate::content;
use crate::escape;
use crate::output::{pad_label, push_row};
use crate::paint::Paint;

/// Formats a result: text as it is, one line for each other block.
pub(crate) fn format_tool_result(result: &CallToolResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    for block in result.content.iter() {
        content::push_block(&mut out, block, paint);
    }
    let is_repeated = |value: &RawJson| {
        result.content.iter().filter_map(|block| block.as_text()).any(|text| is_json_of(text, value))
    };
    if let Some(value) = result.structured_content.as_ref().filter(|value| !is_repeated(value)) {
        out.push_str(&format!("{} {}\n", paint.dim("structured:"), escape::line(value.as_str())));
    }
    if out.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(an empty result)")));
    }
    out
}

/// Returns whether a text block repeats the structured content, as servers do for old clients (TOOL-014).
fn is_json_of(text: &str, value: &RawJson) -> bool {
    let text = serde_json::from_str::<Value>(text).ok();
    text.is_some() && text == value.parse().ok()
}

/// Formats the contents. A single text is shown alone; anything else has a line that names it.
pub(crate) fn format_resource(result: &ReadResourceResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    match &*result.contents {
        [] => out.push_str(&format!("{}\n", paint.dim("(nothing in it)"))),
        [ResourceContents::Text(only)] => content::push_text(&mut out, &only.text),
        several => several.iter().for_each(|contents| content::push_resource(&mut out, contents, paint)),
    }
    out
}

/// Formats each message with its role. Text cannot imitate the row of another role.
pub(crate) fn format_prompt(result: &GetPromptResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    for line in result.description.iter().flat_map(|text| text.lines()) {
        out.push_str(&format!("{}\n", paint.dim(escape::line(line))));
    }
    for message in &result.messages {
        let mut rendered = String::new();
        content::push_block(&mut rendered, &message.content, Paint::PLAIN);
        let role = match &message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            other => other.as_str(),
        };
        push_row(&mut out, &paint.bold(pad_label(&escape::line(role))), &rendered);
    }
    if result.messages.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(no messages)")));
    }
    out
}

/// Formats one value per line, then the number of further values.
pub(crate) fn format_completion(result: &CompleteResult, paint: Paint) -> String {
    let completion = &result.completion;
    let mut out = String::new();
    for value in &completion.values {
        out.push_str(&format!("{}\n", escape::line(value)));
    }
    let given = completion.values.len() as u64;
    let more = match completion.total {
        Some(total) if total > given => format!("(these are {given} of {total})"),
        _ if completion.has_more == Some(true) => "(there are more)".into(),
        _ if given == 0 => "(no suggestions)".into(),
        _ => return out,
    };
    out.push_str(&format!("{}\n", paint.dim(more)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_result_is_formatted_by_block() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"a\nb"},{"type":"text","text":"c\n"}]}"#, "a\nb\nc\n"),
            (r#"{"content":[]}"#, "(an empty result)\n"),
            (r#"{"content":[],"structuredContent":{"x":1}}"#, "structured: {\"x\":1}\n"),
            // Sent twice, shown once.
            (
                r#"{"content":[{"type":"text","text":"{ \"x\": 1 }"}],"structuredContent":{"x":1}}"#,
                "{ \"x\": 1 }\n",
            ),
            (
                r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
                "[image, image/png, 3 bytes]\n",
            ),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(format_tool_result(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }

    // covers: RES-006, RES-020
    #[test]
    fn resource_contents_are_formatted_by_type() {
        let cases = [
            (r#"{"contents":[{"uri":"a:b","text":"x\u202ey"}]}"#, "x\\u202ey\n"),
            (
                r#"{"contents":[{"uri":"a:b","mimeType":"a/b","blob":"AAAA"}]}"#,
                "[resource a:b, a/b, 3 bytes]\n",
            ),
            (
                r#"{"contents":[{"uri":"a:b","text":"x"},{"uri":"a:c","text":"y\n"}]}"#,
                "[resource a:b]\nx\n[resource a:c]\ny\n",
            ),
            (r#"{"contents":[]}"#, "(nothing in it)\n"),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(format_resource(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }

    // covers: COMP-004
    #[test]
    fn completion_values_are_printed_one_per_line() {
        let cases = [
            (r#"{"completion":{"values":["a","b\nc"]}}"#, "a\nb\\nc\n"),
            (r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#, "(no suggestions)\n"),
            (r#"{"completion":{"values":["a"],"total":1}}"#, "a\n"),
            (r#"{"completion":{"values":["a"],"total":7,"hasMore":true}}"#, "a\n(these are 1 of 7)\n"),
            (r#"{"completion":{"values":["a"],"hasMore":true}}"#, "a\n(there are more)\n"),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(format_completion(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
