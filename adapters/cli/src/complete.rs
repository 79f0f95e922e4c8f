//! The `complete` command: completes an argument of a prompt or a variable of a resource template.

mod typed;

use clap::Args;
use mcp_proto::EntryKind;
use mcp_proto::model::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionContext, CompletionReference, Map,
    PromptReference, RequestParams, ResourceTemplateReference,
};

use crate::args::values::assignment;
use crate::args::{RequestArgs, usage};
use crate::client::Client;
use crate::escape;
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::request::{self, RequestCommand};

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

/// Target of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompletionTarget {
    /// An argument of this prompt.
    Prompt(String),
    /// A variable of this resource template.
    Template(String),
}

/// Parses the target of a completion: `prompt:NAME` or a resource template.
fn reference(text: &str) -> Result<CompletionTarget, String> {
    match text.split_once(':') {
        None | Some(("", _) | ("prompt", "")) => {
            Err("must be prompt:NAME or a template: write prompt:plan or file:///{path}, not plan".into())
        }
        Some(("prompt", name)) if !name.starts_with("//") => Ok(CompletionTarget::Prompt(name.into())),
        Some(_) => Ok(CompletionTarget::Template(text.into())),
    }
}

pub(crate) fn run(args: &CompleteArgs) -> Result<(), CommandFailure> {
    if args.typed {
        return typed::run(args);
    }
    let params = params(args, &args.value);
    let command = RequestCommand::<CompleteParams<'_>> {
        noun: "a completion",
        show: format_result,
        hint: &|client| hint(client, &args.reference, &args.argument),
    };
    let start: request::StartRequest<'_> = &|session, options, on_progress| {
        Ok(session.client.request(CompleteParams::METHOD, &params, options, on_progress)?)
    };
    request::run(&args.request_args, None, start, &command).map(drop)
}

/// Returns the parameters of the request for a text.
fn params<'a>(args: &'a CompleteArgs, value: &'a str) -> CompleteParams<'a> {
    let reference: CompletionReference<'_> = match &args.reference {
        CompletionTarget::Prompt(name) => PromptReference::new(&**name).into(),
        CompletionTarget::Template(template) => ResourceTemplateReference::new(&**template).into(),
    };
    let argument = CompletionArgument::new(&*args.argument, value);
    let mut params = CompleteParams::new(reference, argument);
    if !args.with.is_empty() {
        params =
            params.context(CompletionContext::new().arguments(args.with.iter().cloned().collect::<Map<_>>()));
    }
    params
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

/// Formats one value per line, then the number of further values.
fn format_result(result: &CompleteResult, paint: Paint) -> String {
    let completion = &result.completion;
    let mut out = String::new();
    for value in &completion.values {
        out.push_str(&format!("{}\n", escape::line(value)));
    }
    let given = completion.values.len() as u64;
    let more = match completion.total {
        Some(total) if total > given => format!("(these are {given} of {total})"),
        _ if completion.has_more == Some(true) => "(there are more)".into(),
        _ if given == 0 => "(no suggestions)".into(),
        _ => return out,
    };
    out.push_str(&format!("{}\n", paint.dim(more)));
    out
}

const HELP: &str = "\
Examples:
  mcp-probe complete prompt:travel_plan country n -- \\
      mcp-probe serve --everything
  mcp-probe complete prompt:travel_plan country --typed -- \\
      mcp-probe serve --everything   (texts from stdin, as they are typed)
  mcp-probe complete 'atlas://{country}/{city}' city --with country=norway -- \\
      mcp-probe serve --everything";

#[cfg(test)]
mod tests {
    use mcp_proto::RawJson;

    use super::*;

    // covers: COMP-004
    #[test]
    fn completion_values_are_printed_one_per_line() {
        let cases = [
            (r#"{"completion":{"values":["a","b\nc"]}}"#, "a\nb\\nc\n"),
            (r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#, "(no suggestions)\n"),
            (r#"{"completion":{"values":["a"],"total":1}}"#, "a\n"),
            (r#"{"completion":{"values":["a"],"total":7,"hasMore":true}}"#, "a\n(these are 1 of 7)\n"),
            (r#"{"completion":{"values":["a"],"hasMore":true}}"#, "a\n(there are more)\n"),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(format_result(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }

    #[test]
    fn completion_reference_is_recognised_by_its_form() {
        let prompt = |name: &str| Ok(CompletionTarget::Prompt(name.into()));
        let template = |text: &str| Ok(CompletionTarget::Template(text.into()));
        for (text, want) in [
            ("prompt:plan", prompt("plan")),
            ("prompt:a:b", prompt("a:b")),
            ("file:///{path}", template("file:///{path}")),
            ("prompt://{id}", template("prompt://{id}")),
        ] {
            assert_eq!(reference(text), want, "{text}");
        }
        for text in ["plan", "", ":x", "prompt:"] {
            assert!(reference(text).is_err_and(|error| error.contains("prompt:NAME")), "{text}");
        }
    }
}
