//! The `read` command: reads a resource.

use mcp_proto::EntryKind;
use mcp_proto::model::{ReadResourceParams, ReadResourceResult, RequestParams, ResourceContents};

use crate::args;
use crate::client::Client;
use crate::content;
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::request::{self, RequestCommand};

pub(crate) fn run(args: &args::ReadArgs) -> Result<(), CommandFailure> {
    let params = ReadResourceParams::new(&*args.uri);
    let command = RequestCommand::<ReadResourceParams<'_>> {
        noun: "reading a resource",
        show: format_result,
        hint: &|client| hint(client, &args.uri),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(ReadResourceParams::METHOD, &params, options, on_progress)?)
    };
    request::run(&args.request_args, Some(&args.answer_args), start, &command).map(drop)
}

/// Returns a hint: the resources and resource templates that exist.
fn hint(client: &mut Client, uri: &str) -> Option<String> {
    let hint = request::alternatives(client, EntryKind::Resource, "resource", "uri", uri)?;
    let templates = client.list(EntryKind::ResourceTemplate).unwrap_or_default();
    let templates: Vec<_> =
        templates.iter().filter_map(|entry| entry.member("uriTemplate")?.string()).take(20).collect();
    if templates.is_empty() {
        return Some(hint);
    }
    Some(format!("{hint}; and these templates: {}", templates.join(", ")))
}

/// Formats the contents. A single text is shown alone; anything else has a line that names it.
fn format_result(result: &ReadResourceResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    match &*result.contents {
        [] => out.push_str(&format!("{}\n", paint.dim("(nothing in it)"))),
        [ResourceContents::Text(only)] => content::push_text(&mut out, &only.text),
        several => several.iter().for_each(|contents| content::push_resource(&mut out, contents, paint)),
    }
    out
}

#[cfg(test)]
mod tests {
    use mcp_proto::RawJson;

    use super::*;

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
            assert_eq!(format_result(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
