//! The `complete` command: completes an argument of a prompt or a variable of a resource template.

mod typed;

use mcp_proto::EntryKind;
use mcp_proto::model::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionContext, CompletionReference, Map,
    PromptReference, RequestParams, ResourceTemplateReference,
};

use crate::args;
use crate::client::Client;
use crate::escape;
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::prompt;
use crate::request::{self, RequestCommand};

pub(crate) fn run(args: &args::CompleteArgs) -> Result<(), CommandFailure> {
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
fn params<'a>(args: &'a args::CompleteArgs, value: &'a str) -> CompleteParams<'a> {
    let reference: CompletionReference<'_> = match &args.reference {
        args::CompletionReference::Prompt(name) => PromptReference::new(&**name).into(),
        args::CompletionReference::Template(template) => ResourceTemplateReference::new(&**template).into(),
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
fn hint(client: &mut Client, reference: &args::CompletionReference, argument: &str) -> Option<String> {
    match reference {
        args::CompletionReference::Template(template) => {
            request::alternatives(client, EntryKind::ResourceTemplate, "template", "uriTemplate", template)
        }
        args::CompletionReference::Prompt(name) => {
            if let Some(hint) = request::alternatives(client, EntryKind::Prompt, "prompt", "name", name) {
                return Some(hint);
            }
            let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == *name)?;
            let known = prompt.arguments.iter().any(|known| known.name == argument);
            (!known).then(|| prompt::prompt_signature(&prompt))
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
}
