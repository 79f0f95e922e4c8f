//! The parameters of requests, taken apart by name.

use alloc::format;
use alloc::string::String;

use crate::model::{
    CompleteParams, CompletionArgument, CompletionContext, CompletionReference, Map, Prompt, PromptReference,
    ResourceTemplateReference,
};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::server::Call;

/// What was asked for, taken apart by hand: the reader of the typed message would be in a small server for this alone
pub(super) fn completion_params(call: &Call) -> Result<CompleteParams<'static>, RpcError> {
    let (reference, argument) = (object(call, "ref")?, object(call, "argument")?);
    let kind = text_in(&reference, "ref.", "type")?;
    let reference: CompletionReference<'_> = match &*kind {
        "ref/prompt" => {
            let prompt = PromptReference::new(text_in(&reference, "ref.", "name")?);
            match reference.member("title").and_then(|title| title.string()) {
                Some(title) => prompt.title(title).into(),
                None => prompt.into(),
            }
        }
        "ref/resource" => ResourceTemplateReference::new(text_in(&reference, "ref.", "uri")?).into(),
        _ => CompletionReference::Other(reference),
    };
    let (name, value) = (text_in(&argument, "argument.", "name")?, text_in(&argument, "argument.", "value")?);
    let mut params = CompleteParams::new(reference, CompletionArgument::new(name, value));
    if let Some(context) = member(call, "context").filter(|c| c.as_bytes() != b"null") {
        let mut known = CompletionContext::new();
        known.arguments = texts(context.member("arguments"), "context.arguments")?;
        params.context = Some(known);
    }
    params.meta = call.meta();
    Ok(params)
}

pub(super) fn member(call: &Call, name: &str) -> Option<RawJson> {
    call.params()?.member(name)
}

fn object(call: &Call, name: &str) -> Result<RawJson, RpcError> {
    let Some(value) = member(call, name) else { return Err(wrong("", name, "missing")) };
    if value.is_object() { Ok(value) } else { Err(wrong("", name, "not an object")) }
}

pub(super) fn text(call: &Call, name: &str) -> Result<String, RpcError> {
    match call.params() {
        Some(params) => text_in(&params, "", name),
        None => Err(wrong("", name, "missing")),
    }
}

fn text_in(object: &RawJson, path: &str, name: &str) -> Result<String, RpcError> {
    let Some(value) = object.member(name) else { return Err(wrong(path, name, "missing")) };
    value.string().ok_or_else(|| wrong(path, name, "not a string"))
}

/// Texts by name; none when nothing or `null` is given
fn texts(given: Option<RawJson>, name: &str) -> Result<Option<Map<String>>, RpcError> {
    let Some(given) = given.filter(|g| g.as_bytes() != b"null") else { return Ok(None) };
    let read = given.parse().map(Some);
    read.map_err(|e| RpcError::invalid_params(format!("`params.{name}`: {e}")))
}

fn wrong(path: &str, name: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("`params.{path}{name}` is {what}"))
}

pub(super) fn prompt_arguments(call: &Call, prompt: &Prompt) -> Result<Map<String>, RpcError> {
    let arguments = texts(member(call, "arguments"), "arguments")?.unwrap_or_default();
    let missing =
        |a: &&crate::model::PromptArgument| a.required == Some(true) && arguments.get(&a.name).is_none();
    match prompt.arguments.iter().find(missing) {
        Some(a) => Err(RpcError::invalid_params(format!("the argument `{}` is missing", a.name))),
        None => Ok(arguments),
    }
}
