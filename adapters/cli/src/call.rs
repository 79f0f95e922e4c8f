//! The `call` command: calls one tool.

use core::cell::RefCell;

use mcp_proto::EntryKind;
use mcp_proto::RawJson;
use mcp_proto::model::{CallToolParams, CallToolResult};
use serde_json::Value;

use crate::args;
use crate::content;
use crate::escape;
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::request::{self, RequestCommand};
use crate::session;
use crate::tool_arguments::{self, ToolSchemas};

pub(crate) fn run(args: &args::CallArgs) -> Result<(), CommandFailure> {
    let tool = &args.tool;
    tool_arguments::check_unique(args.arguments.iter().map(|argument| &argument.name))?;
    let object = tool_arguments::read_object(&args.args, &args.request_args.target.authorization)?;
    let command = RequestCommand::<CallToolParams<'_>> {
        noun: "a tool",
        show: format_result,
        hint: &|client| request::alternatives(client, EntryKind::Tool, "tool", "name", tool),
    };
    let mismatch = RefCell::new(None);
    let result = request::run(
        &args.request_args,
        Some(&args.answer_args),
        &|session, options, on_progress| {
            let mut schemas = ToolSchemas::fetch(args, session)?;
            let arguments = {
                let of = format!("tool `{tool}`");
                tool_arguments::merge(&of, &args.arguments, &object, schemas.input.as_ref())?
            };
            let result = session.client.call_tool_raw(tool, &arguments, options, on_progress);
            let result = result.map_err(|error| schemas.explain(error))?;
            mismatch.replace(schemas.describe_mismatch(tool, &result));
            Ok(result)
        },
        &command,
    );
    if let Some(mismatch) = mismatch.take() {
        session::print_note(&mismatch);
    }
    let outcome = result.and_then(|result| {
        // A tool failure makes the command fail too.
        if result.is_failure() {
            Err(CommandFailure::failed("the tool reports an error").after_result())
        } else {
            Ok(())
        }
    });
    outcome.map_err(|failure| match tool_arguments::misplaced_hint(args) {
        Some(hint) => failure.add_hint(&hint),
        None => failure,
    })
}

/// Formats a result: text as it is, one line for each other block.
fn format_result(result: &CallToolResult<'_>, paint: Paint) -> String {
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
            assert_eq!(format_result(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
