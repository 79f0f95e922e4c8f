//! The `read` command: reads a resource.

use clap::Args;
use mcp_proto::EntryKind;
use mcp_proto::model::{ReadResourceParams, ReadResourceResult, RequestParams, ResourceContents};

use crate::answer::AnswerArgs;
use crate::args::{RequestArgs, usage};
use crate::client::Client;
use crate::content;
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::request::{self, RequestCommand};

/// Reads a resource and prints its contents.
///
/// Text is printed with control characters escaped. Binary contents are described by type and size. --json prints
/// both unchanged.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe read [OPTIONS] <URI>"))]
pub(crate) struct ReadArgs {
    /// URI of the resource, from `inspect` or from an expanded template.
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

pub(crate) fn run(args: &ReadArgs) -> Result<(), CommandFailure> {
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

const HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read --json file:///etc/hostname -- my-server | \\
      jq -r .contents[0].blob | base64 -d";

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
