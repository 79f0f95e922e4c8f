//! The `read` command: reads a resource.

use clap::Args;
use mcp_proto::model::{ReadResourceParams, RequestParams};

use crate::answer::AnswerArgs;
use crate::args::{RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::request::{self, RequestCommand};
use crate::results;

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
        show: results::format_resource,
        hint: &|client| request::resource_hint(client, &args.uri),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(ReadResourceParams::METHOD, &params, options, on_progress)?)
    };
    request::run(&args.request_args, Some(&args.answer_args), start, &command)
}

const HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read --json file:///etc/hostname -- my-server | \\
      jq -r .contents[0].blob | base64 -d";
