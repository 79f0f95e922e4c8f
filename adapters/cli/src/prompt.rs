//! The `prompt` command: gets a prompt with its arguments filled in.

use clap::Args;
use mcp_proto::model::{GetPromptParams, Map, RequestParams};

use crate::answer::AnswerArgs;
use crate::args::values::{JsonSource, assignment, json_source};
use crate::args::{RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::ordered;
use crate::request::{self, RequestCommand};
use crate::results;
use crate::tool_arguments;

/// Gets a prompt with its arguments filled in and prints its messages.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe prompt [OPTIONS] <NAME> [NAME=VALUE]..."))]
pub(crate) struct PromptArgs {
    /// Name of the prompt, as `inspect` shows it.
    #[arg(allow_hyphen_values = true)]
    pub(crate) name: String,
    /// Argument of the prompt.
    ///
    /// Arguments replace members of --args.
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) arguments: Vec<(String, String)>,
    /// Sets the arguments of the prompt: a JSON object of strings, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    pub(crate) args: JsonSource,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

pub(crate) fn run(args: &PromptArgs) -> Result<(), CommandFailure> {
    let mut params = GetPromptParams::new(&*args.name);
    let arguments = collect_arguments(args)?;
    if !arguments.is_empty() {
        params.arguments = Some(arguments);
    }
    let command = RequestCommand::<GetPromptParams<'_>> {
        noun: "a prompt",
        show: results::format_prompt,
        hint: &|client| request::prompt_hint(client, &args.name),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(GetPromptParams::METHOD, &params, options, on_progress)?)
    };
    request::run(&args.request_args, Some(&args.answer_args), start, &command).map(drop)
}

/// Returns the arguments: members of `--args`, then words, which replace members with the same name.
///
/// # Errors
///
/// Fails if the source of `--args` is invalid, a member is not a string, or an argument is given twice.
fn collect_arguments(args: &PromptArgs) -> Result<Map<String>, CommandFailure> {
    let mut all = Map::new();
    let object = tool_arguments::read_object(&args.args, &args.request_args.target.authorization)?;
    for (name, value) in ordered::members(&object) {
        let text = value.string().ok_or_else(|| {
            let why = "must be a string, as all arguments of prompts: write \"3\", not 3";
            CommandFailure::usage(format!("--args: `{name}` {why}"))
        })?;
        all.insert(name, text);
    }
    tool_arguments::check_unique(args.arguments.iter().map(|(name, _)| name))?;
    for (name, value) in &args.arguments {
        all.insert(name.clone(), value.clone());
    }
    Ok(all)
}

const HELP: &str = "\
Examples:
  mcp-probe prompt travel_plan country=norway days=5 -- \\
      mcp-probe serve --everything";
