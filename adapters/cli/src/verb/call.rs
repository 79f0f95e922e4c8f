//! The `call` command: calls one tool.

use clap::Args;
use mcp_proto::model::CallToolParams;
use mcp_proto::{CallOptions, RawJson};

use super::kept::KeptResults;
use super::{Answer, ShowResult, Verb};
use crate::answer::AnswerArgs;
use crate::args::values::{JsonSource, NamedArgument, json_source, named_argument};
use crate::args::{AuthorizationArgs, RequestArgs, usage};
use crate::failure::CommandFailure;
use crate::notes;
use crate::results;
use crate::session::{ClientSession, RequestError};
use crate::tool_arguments::{self, ToolSchemas};

/// Calls a tool and prints its result.
///
/// The result goes to stdout. Progress and everything else goes to stderr.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe call [OPTIONS] <TOOL> [NAME=VALUE]..."))]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) call: Call,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

/// The call of a tool.
#[derive(Clone, Debug, Args)]
pub(crate) struct Call {
    /// Name of the tool, as `inspect` shows it.
    // Servers choose names, and some begin with `-`.
    #[arg(allow_hyphen_values = true)]
    tool: String,
    /// Argument of the tool: `NAME=VALUE`, or `NAME:=JSON` for a value of any type.
    ///
    /// The tool's schema tells whether VALUE is a string, a number, true or false, or JSON. Arguments replace members of
    /// --args.
    #[arg(value_name = "NAME=VALUE", value_parser = named_argument)]
    arguments: Vec<NamedArgument>,
    /// Sets the arguments of the tool: a JSON object, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    args: JsonSource,
    /// The arguments as one object, as far as they are known.
    #[arg(skip)]
    object: Option<RawJson>,
}

impl Verb for Call {
    type Request = CallToolParams<'static>;
    const NOUN: &'static str = "a tool";
    const FORM: &'static str = "TOOL [NAME=VALUE]...";
    const SHOW: ShowResult<Self> = results::format_tool_result;

    fn from_words(words: &[String], kept: &KeptResults) -> Result<Option<(String, Self)>, CommandFailure> {
        let Some((tool, words)) = words.split_first() else { return Ok(None) };
        let tool = kept.text(tool)?;
        let (mut arguments, mut args) = (Vec::new(), JsonSource::Json(RawJson::empty_object()));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word != "--args" {
                arguments.push(kept.argument(word)?);
                continue;
            }
            let source = words.next().filter(|word| *word != "-");
            let word =
                source.ok_or_else(|| CommandFailure::usage("--args takes a JSON object or @FILE here"))?;
            let object = match kept.lookup(word)? {
                Some(value) if value.is_object() => Ok(JsonSource::Json(value)),
                Some(_) => Err("must be a JSON object: the value of the result is none".into()),
                None => json_source(word),
            };
            args = object.map_err(|why| CommandFailure::usage(format!("--args {why}")))?;
        }
        Ok(Some((format!("call {tool}"), Self { tool, arguments, args, object: None })))
    }

    fn prepare(&mut self, authorization: &AuthorizationArgs) -> Result<(), CommandFailure> {
        tool_arguments::check_unique(self.arguments.iter().map(|argument| &argument.name))?;
        self.object = Some(tool_arguments::read_object(&self.args, authorization)?);
        Ok(())
    }

    fn send(&mut self, session: &mut ClientSession, options: &CallOptions) -> Result<Answer, RequestError> {
        let Self { tool, arguments, object, .. } = self;
        let mut schemas = session.interruptible(|session| ToolSchemas::fetch(tool, arguments, session))?;
        let (of, given) = (format!("tool `{tool}`"), object.take().unwrap_or_else(RawJson::empty_object));
        let sent = tool_arguments::merge(&of, arguments, &given, schemas.input.as_ref());
        let sent = object.insert(sent.map_err(RequestError::Command)?);
        let result = session.call_tool(tool, sent, options).map_err(|error| match error {
            RequestError::Client(error) => RequestError::Client(schemas.explain(error)),
            RequestError::Command(_) => error,
        })?;
        let mut answer = Answer::from(result);
        answer.note = schemas.describe_mismatch(tool, &answer.result);
        if answer.result.member("isError").as_ref().map(RawJson::as_str) == Some("true") {
            let failure = CommandFailure::failed("the tool reports an error").after_result();
            let advice = tool_arguments::advice(&mut session.client, tool, sent);
            answer.outcome = Err(advice.into_iter().fold(failure, CommandFailure::with_hint));
        } else if let Some(schema) = schemas.input.filter(|_| session.interrupts.is_none()) {
            // Many servers ignore arguments that they do not know.
            let note = tool_arguments::argument_advice(tool, &schema, sent);
            note.iter().for_each(|note| notes::print_note(note));
        }
        Ok(answer)
    }

    fn hint(&self, session: &mut ClientSession) -> Option<String> {
        tool_arguments::advice(&mut session.client, &self.tool, self.object.as_ref()?)
    }
}

pub(crate) fn run(args: &CallArgs) -> Result<(), CommandFailure> {
    let outcome = super::run(&args.call, &args.request_args, Some(&args.answer_args));
    outcome.map_err(|failure| match misplaced_hint(args) {
        Some(hint) => failure.add_hint(&hint),
        None => failure,
    })
}

/// Returns a hint if words behind `--` look like arguments of the tool.
fn misplaced_hint(args: &CallArgs) -> Option<String> {
    let Call { arguments, args: object, .. } = &args.call;
    let is_empty = arguments.is_empty() && matches!(object, JsonSource::Json(json) if json.as_str() == "{}");
    let words: Vec<_> = args
        .request_args
        .target
        .server
        .place
        .command
        .iter()
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    // `env NAME=VALUE PROGRAM` and `docker run -e NAME=VALUE` are commands.
    let is_value = |at: usize| at.checked_sub(1).is_some_and(|at| words[at].starts_with('-'));
    let found = words
        .iter()
        .enumerate()
        .find(|(at, word)| **word == "--args" || (is_assignment(word) && !is_value(*at)));
    let word = found.map(|(_, word)| *word).filter(|_| is_empty && words.first() != Some(&"env"))?;
    let variable = if word == "--args" { "" } else { ", and a variable of the server as --env NAME=VALUE" };
    Some(format!(
        "`{word}` behind -- is for the server's command: write arguments of the tool before --{variable}"
    ))
}

/// Returns whether a word has the form `NAME=VALUE` or `NAME:=JSON`.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name.strip_suffix(':').unwrap_or(name));
    let fits = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    name.is_some_and(|name| !name.is_empty() && fits(name))
}

const HELP: &str = "\
NAME=VALUE takes its type from the tool's schema: a=5 is a number if the schema
says so, and the string 5 otherwise. Arrays and objects are written as JSON.
NAME:=JSON sends any value whatever the schema says. The words come before the
server: behind -- they belong to its command.

A server may send input requests before it answers. On a terminal you answer
them: a form is filled in field by field (five wrong values for a field end the
call), a web page is shown (nothing is opened automatically), and a request to a
model is answered by you. Everything else waits while you answer. Programs use
--answer KEY=JSON:
  KEY   The key of the request, chosen by the server (2026-07-28), or its kind:
        elicit, sample, roots. Answers with the same KEY are used in order, and
        the last one repeats. Requests of legacy servers have no key: each gets
        the first answer that fits.
  JSON  The values of a form, with its defaults for fields left out; a string,
        as the text of a model; a list of roots, as paths or objects; or a
        complete result of the protocol. decline and cancel are written without
        quotes, as is accept for a web page or for a form with its defaults.
The client declares only the kinds of input that it can answer.

Examples:
  mcp-probe call add a=20 b=22 -- mcp-probe serve
  mcp-probe call add --args '{\"a\": 20, \"b\": 22}' -- mcp-probe serve
  mcp-probe call add --args @numbers.json b:=22 -- mcp-probe serve
  mcp-probe call count to=100 --timeout 500ms --trace -- mcp-probe serve
  mcp-probe call count to=100 --total 2s -- mcp-probe serve
  mcp-probe call login password=x --trace --hide password -- my-server
  mcp-probe call sign --answer 'guest={\"name\": \"Ada\"}' -- \\
      mcp-probe serve --everything
  mcp-probe call test_input_required_result_list_roots --root . -- \\
      mcp-probe serve --everything
  mcp-probe call test_logging_tool --log info -- mcp-probe serve --everything";
