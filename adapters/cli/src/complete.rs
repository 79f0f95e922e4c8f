//! The `complete` command: completes an argument of a prompt or a variable of a resource template.

mod typed;

use clap::Args;
use mcp_proto::EntryKind;
use mcp_proto::model::{CompleteParams, RequestParams};

use crate::args::values::assignment;
use crate::args::{RequestArgs, usage};
use crate::client::Client;
use crate::completion_request::{CompletionTarget, params, reference};
use crate::failure::CommandFailure;
use crate::request::{self, RequestCommand};
use crate::results;

/// Completes an argument of a prompt or a variable of a template.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe complete [OPTIONS] <OF> <ARGUMENT> [VALUE]"))]
pub(crate) struct CompleteArgs {
    /// Target of the completion: `prompt:NAME` or a resource template.
    ///
    /// The template is written as `inspect` shows it.
    #[arg(value_name = "OF", value_parser = reference)]
    pub(crate) reference: CompletionTarget,
    /// Name of the argument or variable.
    #[arg(allow_hyphen_values = true)]
    pub(crate) argument: String,
    /// Text typed so far.
    #[arg(default_value = "", allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Reads texts from stdin as they are typed, one per line, instead of VALUE.
    ///
    /// A text is completed when no other one follows within 150 ms, and one that was completed within a minute is not asked
    /// for again. Each completion is printed with its text; with --json, one object per line (text, result). Ends with the
    /// input.
    #[arg(long, conflicts_with = "value")]
    pub(crate) typed: bool,
    /// Sets an argument or variable that is already known (may be repeated).
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) with: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

pub(crate) fn run(args: &CompleteArgs) -> Result<(), CommandFailure> {
    if args.typed {
        return typed::run(args);
    }
    let params = params(&args.reference, &args.argument, &args.value, &args.with);
    let command = RequestCommand::<CompleteParams<'_>> {
        noun: "a completion",
        show: results::format_completion,
        hint: &|client| hint(client, &args.reference, &args.argument),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(CompleteParams::METHOD, &params, options, on_progress)?)
    };
    request::run(&args.request_args, None, start, &command).map(drop)
}

/// Returns a hint: the prompts or templates that exist, or the arguments of a prompt that does exist.
fn hint(client: &mut Client, reference: &CompletionTarget, argument: &str) -> Option<String> {
    match reference {
        CompletionTarget::Template(template) => {
            request::alternatives(client, EntryKind::ResourceTemplate, "template", "uriTemplate", template)
        }
        CompletionTarget::Prompt(name) => {
            if let Some(hint) = request::alternatives(client, EntryKind::Prompt, "prompt", "name", name) {
                return Some(hint);
            }
            let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == *name)?;
            let known = prompt.arguments.iter().any(|known| known.name == argument);
            (!known).then(|| request::prompt_signature(&prompt))
        }
    }
}

const HELP: &str = "\
Examples:
  mcp-probe complete prompt:travel_plan country n -- \\
      mcp-probe serve --everything
  mcp-probe complete prompt:travel_plan country --typed -- \\
      mcp-probe serve --everything   (texts from stdin, as they are typed)
  mcp-probe complete 'atlas://{country}/{city}' city --with country=norway -- \\
      mcp-probe serve --everything";
