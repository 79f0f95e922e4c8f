//! The `read` command: reads a resource.

use std::io::{self, IsTerminal as _};

use base64::Engine as _;
use clap::Args;
use mcp_proto::model::{ReadResourceParams, ReadResourceResult, RequestParams, ResourceContents};

use crate::answer::AnswerArgs;
use crate::args::{RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::output;
use crate::request::{self, RequestCommand};
use crate::results;

/// Reads a resource and prints its contents.
///
/// Text is printed with control characters escaped. Binary contents are described by type and size; a single blob that goes to a
/// file or a pipe is written as its bytes. --json prints both unchanged.
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
        show: |result, paint| match blob(result) {
            Some(_) => String::new(),
            None => results::format_resource(result, paint),
        },
        hint: &|client| request::resource_hint(client, &args.uri),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(ReadResourceParams::METHOD, &params, options, on_progress)?)
    };
    let result = request::run(&args.request_args, Some(&args.answer_args), start, &command)?;
    match result.as_ref().filter(|_| !args.request_args.json).and_then(blob) {
        Some(bytes) => output::print_bytes(&bytes),
        None => Ok(()),
    }
}

/// Returns the bytes of a single blob, if they do not go to a terminal.
fn blob(result: &ReadResourceResult<'_>) -> Option<Vec<u8>> {
    match &*result.contents {
        [ResourceContents::Blob(only)] if !io::stdout().is_terminal() => {
            // Some encoders break lines.
            let text: String = only.blob.split_ascii_whitespace().collect();
            base64::engine::general_purpose::STANDARD.decode(text).ok()
        }
        _ => None,
    }
}

const HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read test://static-binary -- mcp-probe serve --everything > dot.png
  mcp-probe read --json file:///etc/hostname -- my-server | \\
      jq -r .contents[0].text";
