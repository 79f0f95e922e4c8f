//! Requests for completions: their target, and their parameters.

use mcp_proto::model::{
    CompleteParams, CompletionArgument, CompletionContext, CompletionReference, Map, PromptReference,
    ResourceTemplateReference,
};

/// Target of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompletionTarget {
    /// An argument of this prompt.
    Prompt(String),
    /// A variable of this resource template.
    Template(String),
}

impl CompletionTarget {
    pub(crate) fn new(text: &str) -> Self {
        match text.strip_prefix("prompt:").filter(|name| !name.starts_with("//")) {
            Some(name) => Self::Prompt(name.into()),
            None => Self::Template(text.into()),
        }
    }
}

/// Parses the target of a completion: `prompt:NAME` or a resource template.
pub(crate) fn reference(text: &str) -> Result<CompletionTarget, String> {
    match text.split_once(':') {
        None | Some(("", _) | ("prompt", "")) => {
            Err("must be prompt:NAME or a template: write prompt:plan or file:///{path}, not plan".into())
        }
        Some(_) => Ok(CompletionTarget::new(text)),
    }
}

/// Returns the parameters of the request for a text. `with` has what is known of other arguments or variables.
pub(crate) fn params<'a>(
    target: &'a CompletionTarget,
    argument: &'a str,
    value: &'a str,
    with: &[(String, String)],
) -> CompleteParams<'a> {
    let reference: CompletionReference<'_> = match target {
        CompletionTarget::Prompt(name) => PromptReference::new(&**name).into(),
        CompletionTarget::Template(template) => ResourceTemplateReference::new(&**template).into(),
    };
    let mut params = CompleteParams::new(reference, CompletionArgument::new(argument, value));
    if !with.is_empty() {
        params = params.context(CompletionContext::new().arguments(with.iter().cloned().collect::<Map<_>>()));
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

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
