//! `call`: one tool, once

use mcp_proto::RawJson;
use mcp_proto::client::Kind;
use mcp_proto::model::{CallToolParams, CallToolResult};
use serde_json::Value;

use crate::args;
use crate::ask::{self, Question};
use crate::content;
use crate::escape;
use crate::failure::Failure;
use crate::paint::Paint;

pub(crate) fn run(args: &args::Call) -> Result<(), Failure> {
    let tool = &args.tool;
    let question = Question::<CallToolParams<'_>> {
        of: "a tool",
        show: shown,
        hint: &|client| ask::alternatives(client, Kind::Tool, "tool", "name", tool),
    };
    let result = ask::run(
        &args.asking,
        Some(&args.answering),
        &|client, options, told| client.tool(tool, &args.args, options, told),
        &question,
    )?;
    // A tool that says that it failed is a failure of ours, too.
    if result.failed() { Err(Failure::failed("the tool reports an error")) } else { Ok(()) }
}

/// A result for people: text as it is, the rest in a line each
fn shown(result: &CallToolResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    for block in result.content.iter() {
        content::block(&mut out, block, paint);
    }
    let said = |value: &RawJson| {
        result.content.iter().filter_map(|block| block.as_text()).any(|text| is_json_of(text, value))
    };
    if let Some(value) = result.structured_content.as_ref().filter(|value| !said(value)) {
        out.push_str(&format!("{} {}\n", paint.dim("structured:"), escape::line(value.as_str())));
    }
    if out.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(an empty result)")));
    }
    out
}

/// Whether a text block says the same as the structured content, as servers do for old clients (TOOL-014)
fn is_json_of(text: &str, value: &RawJson) -> bool {
    let text = serde_json::from_str::<Value>(text).ok();
    text.is_some() && text == value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_put_on_lines() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"a\nb"},{"type":"text","text":"c\n"}]}"#, "a\nb\nc\n"),
            (r#"{"content":[]}"#, "(an empty result)\n"),
            (r#"{"content":[],"structuredContent":{"x":1}}"#, "structured: {\"x\":1}\n"),
            // Said twice on the wire, shown once.
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
            assert_eq!(shown(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
