//! The `prompt` command: gets a prompt with its arguments filled in.

use clap::Args;
use mcp_proto::model::{GetPromptParams, Map, RequestParams};
use mcp_proto::{CallOptions, RawJson};

use super::kept::KeptResults;
use super::{Answer, ShowResult, Verb};
use crate::answer::AnswerArgs;
use crate::args::values::{JsonSource, assignment, json_source};
use crate::args::{AuthorizationArgs, RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::ordered;
use crate::request;
use crate::results;
use crate::session::{ClientSession, RequestError};
use crate::tool_arguments;

/// Gets a prompt with its arguments filled in and prints its messages.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe prompt [OPTIONS] <NAME> [NAME=VALUE]..."))]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) prompt: Prompt,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

/// A prompt with its arguments.
#[derive(Clone, Debug, Args)]
pub(crate) struct Prompt {
    /// Name of the prompt, as `inspect` shows it.
    #[arg(allow_hyphen_values = true)]
    name: String,
    /// Argument of the prompt.
    ///
    /// Arguments replace members of --args.
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    arguments: Vec<(String, String)>,
    /// Sets the arguments of the prompt: a JSON object of strings, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    args: JsonSource,
}

impl Verb for Prompt {
    type Request = GetPromptParams<'static>;
    const NOUN: &'static str = "a prompt";
    const FORM: &'static str = "NAME [NAME=VALUE]...";
    const SHOW: ShowResult<Self> = results::format_prompt;

    fn from_words(words: &[String], kept: &KeptResults) -> Result<Option<(String, Self)>, CommandFailure> {
        let Some((name, words)) = words.split_first() else { return Ok(None) };
        let (name, args) = (kept.text(name)?, JsonSource::Json(RawJson::empty_object()));
        let arguments = kept.assignments(words)?;
        Ok(Some((format!("prompt {name}"), Self { name, arguments, args })))
    }

    /// Puts the members of `--args` before the words, which replace members with the same name.
    fn prepare(&mut self, authorization: &AuthorizationArgs) -> Result<(), CommandFailure> {
        let object = tool_arguments::read_object(&self.args, authorization)?;
        let members = ordered::members(&object).into_iter().map(|(name, value)| match value.string() {
            Some(text) => Ok((name, text)),
            None => {
                let why = "must be a string, as all arguments of prompts: write \"3\", not 3";
                Err(CommandFailure::usage(format!("--args: `{name}` {why}")))
            }
        });
        let members = members.collect::<Result<Vec<_>, _>>()?;
        tool_arguments::check_unique(self.arguments.iter().map(|(name, _)| name))?;
        self.arguments.splice(..0, members);
        Ok(())
    }

    fn send(&mut self, session: &mut ClientSession, options: &CallOptions) -> Result<Answer, RequestError> {
        let mut params = GetPromptParams::new(&*self.name);
        let arguments: Map<_> = self.arguments.iter().cloned().collect();
        params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        session.request(GetPromptParams::METHOD, &params, options).map(Answer::from)
    }

    fn hint(&self, session: &mut ClientSession) -> Option<String> {
        request::prompt_hint(&mut session.client, &self.name, None)
    }
}

pub(crate) fn run(args: &PromptArgs) -> Result<(), CommandFailure> {
    super::run(&args.prompt, &args.request_args, Some(&args.answer_args))
}

const HELP: &str = "\
Examples:
  mcp-probe prompt travel_plan country=norway days=5 -- \\
      mcp-probe serve --everything";
