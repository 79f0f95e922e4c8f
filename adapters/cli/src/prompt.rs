//! `prompt`: a prompt, filled in

use mcp_proto::client::Kind;
use mcp_proto::model::{GetPromptParams, GetPromptResult, Prompt, PromptArgument, Request, Role};

use crate::args;
use crate::ask::{self, Question};
use crate::client::Client;
use crate::content;
use crate::escape;
use crate::failure::Failure;
use crate::output::{label, row};
use crate::paint::Paint;

pub(crate) fn run(args: &args::Prompt) -> Result<(), Failure> {
    let mut params = GetPromptParams::new(&*args.name);
    if !args.args.is_empty() {
        params.arguments = Some(args.args.iter().cloned().collect());
    }
    let question = Question::<GetPromptParams<'_>> {
        of: "a prompt",
        show: shown,
        hint: &|client| hint(client, &args.name),
    };
    let start: ask::Start<'_> =
        &|client, options, told| client.request(GetPromptParams::METHOD, &params, options, told);
    ask::run(&args.asking, Some(&args.answering), start, &question).map(drop)
}

/// Which prompts there are; what this one takes, if it is one of them
fn hint(client: &mut Client, name: &str) -> Option<String> {
    if let Some(hint) = ask::alternatives(client, Kind::Prompt, "prompt", "name", name) {
        return Some(hint);
    }
    let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == name)?;
    Some(takes(&prompt))
}

/// `plan takes from, to, days?`
pub(crate) fn takes(prompt: &Prompt) -> String {
    let argument = |argument: &PromptArgument| {
        format!("{}{}", argument.name, if argument.required == Some(true) { "" } else { "?" })
    };
    let arguments: Vec<_> = prompt.arguments.iter().map(argument).collect();
    let arguments = if arguments.is_empty() { "no arguments".into() } else { arguments.join(", ") };
    format!("the prompt `{}` takes {arguments}", prompt.name)
}

/// Who says what; what is said cannot pass for another who
fn shown(result: &GetPromptResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    for line in result.description.iter().flat_map(|text| text.lines()) {
        out.push_str(&format!("{}\n", paint.dim(escape::line(line))));
    }
    for message in &result.messages {
        let mut said = String::new();
        content::block(&mut said, &message.content, Paint::PLAIN);
        let who = match &message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            other => other.as_str(),
        };
        row(&mut out, &paint.bold(label(&escape::line(who))), &said);
    }
    if result.messages.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(no messages)")));
    }
    out
}
