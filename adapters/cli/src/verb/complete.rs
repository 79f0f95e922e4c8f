//! The `complete` command: completes an argument of a prompt or a variable of a resource template.

mod typed;

use clap::Args;
use mcp_proto::model::{CompleteParams, RequestParams};
use mcp_proto::{CallOptions, EntryKind};

use super::kept::{KeptResults, parsed};
use super::{Answer, ShowResult, Verb};
use crate::args::values::assignment;
use crate::args::{RequestArgs, usage};
use crate::completion_request::{CompletionTarget, params, reference};
use crate::failure::CommandFailure;
use crate::request;
use crate::results;
use crate::session::{ClientSession, RequestError};

/// Completes an argument of a prompt or a variable of a template.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe complete [OPTIONS] <OF> <ARGUMENT> [VALUE]"))]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) complete: Complete,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

/// What is completed, and what is known for it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Complete {
    /// Target of the completion: `prompt:NAME` or a resource template.
    ///
    /// The template is written as `inspect` shows it.
    #[arg(value_name = "OF", value_parser = reference)]
    reference: CompletionTarget,
    /// Name of the argument or variable.
    #[arg(allow_hyphen_values = true)]
    argument: String,
    /// Text typed so far.
    #[arg(default_value = "", allow_hyphen_values = true)]
    value: String,
    /// Reads texts from stdin as they are typed, one per line, instead of VALUE.
    ///
    /// A text is completed when no other one follows within 150 ms, and one that was completed within a minute is not asked
    /// for again. Each completion is printed with its text; with --json, one object per line (text, result). Ends with the
    /// input.
    #[arg(long, conflicts_with = "value")]
    typed: bool,
    /// Sets an argument or variable that is already known (may be repeated).
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    with: Vec<(String, String)>,
}

impl Verb for Complete {
    type Request = CompleteParams<'static>;
    const NOUN: &'static str = "a completion";
    const FORM: &'static str = "prompt:NAME|TEMPLATE ARGUMENT [TEXT] [NAME=VALUE]...";
    const SHOW: ShowResult<Self> = results::format_completion;

    fn from_words(words: &[String], kept: &KeptResults) -> Result<Option<(String, Self)>, CommandFailure> {
        let [of, argument, words @ ..] = words else { return Ok(None) };
        let (reference, line) = (parsed(of, reference)?, format!("complete {of} {argument}"));
        let (value, with) = match words.split_first() {
            Some((value, with)) => (kept.text(value)?, kept.assignments(with)?),
            None => Default::default(),
        };
        Ok(Some((line, Self { reference, argument: argument.clone(), value, typed: false, with })))
    }

    fn send(&mut self, session: &mut ClientSession, options: &CallOptions) -> Result<Answer, RequestError> {
        let params = params(&self.reference, &self.argument, &self.value, &self.with);
        session.request(CompleteParams::METHOD, &params, options).map(Answer::from)
    }

    /// Returns the prompts or templates that exist, or the arguments of a prompt that does exist.
    fn hint(&self, session: &mut ClientSession) -> Option<String> {
        // TAB completes them there.
        if session.interrupts.is_some() {
            return None;
        }
        let client = &mut session.client;
        match &self.reference {
            CompletionTarget::Template(template) => request::alternatives(
                client,
                EntryKind::ResourceTemplate,
                "template",
                "uriTemplate",
                template,
            ),
            CompletionTarget::Prompt(name) => request::prompt_hint(client, name, Some(&self.argument)),
        }
    }
}

pub(crate) fn run(args: &CompleteArgs) -> Result<(), CommandFailure> {
    if args.complete.typed {
        return typed::run(args);
    }
    super::run(&args.complete, &args.request_args, None)
}

const HELP: &str = "\
Examples:
  mcp-probe complete prompt:travel_plan country n -- \\
      mcp-probe serve --everything
  mcp-probe complete prompt:travel_plan country --typed -- \\
      mcp-probe serve --everything   (texts from stdin, as they are typed)
  mcp-probe complete 'atlas://{country}/{city}' city --with country=norway -- \\
      mcp-probe serve --everything";
