//! `complete`: how an argument of a prompt, or a variable of a template, could go on

use mcp_proto::client::Kind;
use mcp_proto::model::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionContext, CompletionReference, Map,
    PromptReference, Request, ResourceTemplateReference,
};

use crate::args::{self, Reference};
use crate::ask::{self, Question};
use crate::client::Client;
use crate::escape;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::prompt;

pub(crate) fn run(args: &args::Complete) -> Result<(), Failure> {
    let reference: CompletionReference<'_> = match &args.reference {
        Reference::Prompt(name) => PromptReference::new(&**name).into(),
        Reference::Template(template) => ResourceTemplateReference::new(&**template).into(),
    };
    let argument = CompletionArgument::new(&*args.argument, &*args.value);
    let mut params = CompleteParams::new(reference, argument);
    if !args.with.is_empty() {
        params =
            params.context(CompletionContext::new().arguments(args.with.iter().cloned().collect::<Map<_>>()));
    }
    let question = Question::<CompleteParams<'_>> {
        of: "a completion",
        show: shown,
        hint: &|client| hint(client, &args.reference, &args.argument),
    };
    let start: ask::Start<'_> =
        &|client, options, told| client.request(CompleteParams::METHOD, &params, options, told);
    ask::run(&args.asking, None, start, &question).map(drop)
}

/// Which prompts or templates there are; for a prompt that is one of them, what it takes
fn hint(client: &mut Client, reference: &Reference, argument: &str) -> Option<String> {
    match reference {
        Reference::Template(template) => {
            ask::alternatives(client, Kind::ResourceTemplate, "template", "uriTemplate", template)
        }
        Reference::Prompt(name) => {
            if let Some(hint) = ask::alternatives(client, Kind::Prompt, "prompt", "name", name) {
                return Some(hint);
            }
            let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == *name)?;
            let known = prompt.arguments.iter().any(|known| known.name == argument);
            (!known).then(|| prompt::takes(&prompt))
        }
    }
}

/// One value a line, and how many more there are
fn shown(result: &CompleteResult, paint: Paint) -> String {
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
    fn values_are_put_on_lines() {
        let cases = [
            (r#"{"completion":{"values":["a","b\nc"]}}"#, "a\nb\\nc\n"),
            (r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#, "(no suggestions)\n"),
            (r#"{"completion":{"values":["a"],"total":1}}"#, "a\n"),
            (r#"{"completion":{"values":["a"],"total":7,"hasMore":true}}"#, "a\n(these are 1 of 7)\n"),
            (r#"{"completion":{"values":["a"],"hasMore":true}}"#, "a\n(there are more)\n"),
        ];
        for (result, want) in cases {
            let result = RawJson::new(result).expect("JSON");
            assert_eq!(shown(&result.parse().expect("a result"), Paint::PLAIN), want);
        }
    }
}
