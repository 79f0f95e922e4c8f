//! `completion/complete` (COMP).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::base::ResultType;
use super::map::Map;
use super::message::message;
use super::union::union;
use crate::raw::RawJson;

message! {
    /// Parameters of `completion/complete` (COMP-002).
    CompleteParams<'a> {
        /// Prompt or template that is being filled in (COMP-003).
        reference: CompletionReference<'a> = "ref",
        /// Argument that is being filled in, with the text typed so far.
        argument: CompletionArgument<'a> = "argument",
    } {
        /// Arguments that are filled in already (since 2025-06-18; COMP-006).
        opt context: CompletionContext = "context",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// A prompt, by its name (COMP-003).
    PromptReference<'a> ("type" = "ref/prompt") {
        /// Name of the prompt.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: Cow<'a, str> as CowStr = "title",
    }

    /// A resource or a resource template (COMP-003).
    ResourceTemplateReference<'a> ("type" = "ref/resource") {
        /// URI, or URI template (RFC 6570).
        uri: Cow<'a, str> as CowStr = "uri",
    } {}

    /// The argument that is being filled in (COMP-002).
    CompletionArgument<'a> {
        /// Name of the prompt's argument, or of the template's variable.
        name: Cow<'a, str> as CowStr = "name",
        /// Text typed so far.
        value: Cow<'a, str> as CowStr = "value",
    } {}

    /// Context of a completion (since 2025-06-18; COMP-006).
    CompletionContext {} {
        /// Arguments that are filled in already, by name.
        opt arguments: Map<String> = "arguments",
    }

    /// Result of `completion/complete` (COMP-004).
    CompleteResult {
        /// The suggestions.
        completion: Completion = "completion",
    } {
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Suggestions for an argument (COMP-004).
    Completion {
        /// Values, the most likely first (COMP-005); at most [`Completion::MAX`] are ever sent.
        values: Vec<String> as CompletionValues = "values",
    } {
        /// Total number of matching values.
        opt total: u64 as Integer = "total",
        /// Whether more values exist; absent means unknown.
        opt has_more: bool = "hasMore",
    }
}

union! {
    /// Prompt or template that is being filled in (COMP-003).
    CompletionReference<'a> by "type" {
        /// A prompt.
        Prompt(PromptReference<'a>) = "ref/prompt",
        /// A resource or a resource template.
        Resource(ResourceTemplateReference<'a>) = "ref/resource",
    }
}

impl Completion {
    /// Maximum number of values of a result (COMP-004).
    pub const MAX: usize = super::codec::MAX_VALUES;

    /// Creates a completion of the first [`MAX`](Self::MAX) values of `all`, and sets `total` and `has_more`.
    #[must_use]
    pub fn from_suggestions(all: Vec<String>) -> Self {
        let total = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let mut first = Self::new(all).total(total).has_more(false);
        first.truncate();
        first
    }

    /// Removes the values beyond [`MAX`](Self::MAX); then `has_more` is true and `total` at least the former number.
    #[inline(never)]
    pub fn truncate(&mut self) {
        if self.values.len() > Self::MAX {
            let all = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
            self.total = self.total.max(Some(all));
            self.has_more = Some(true);
            self.values.truncate(Self::MAX);
        }
    }
}

impl CompleteResult {
    /// Creates a result of the first [`Completion::MAX`] values of `all`, and sets `total` and `has_more`.
    #[must_use]
    pub fn from_suggestions(all: Vec<String>) -> Self {
        Self::new(Completion::from_suggestions(all))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
    use super::*;
    use alloc::format;

    // covers: COMP-002, COMP-003, COMP-006
    #[test]
    fn completion_params_round_trip() {
        let prompt =
            CompleteParams::new(PromptReference::new("p").title("P"), CompletionArgument::new("a", "v"))
                .context(CompletionContext::new().arguments([("b", "w".into())]));
        let read = |text: &str| serde_json::from_str::<CompleteParams<'_>>(text).map(|p| p.into_owned());
        assert_borrowed_round_trip(&prompt, read);
        let template = ResourceTemplateReference::new("chart://{sea}");
        assert_borrowed_round_trip(&CompleteParams::new(template, CompletionArgument::new("sea", "")), read);
        assert_round_trip(&CompletionContext::new());
        assert_missing::<CompleteParams<'_>>(r#"{"ref":{"type":"ref/prompt","name":"p"}}"#, "argument");
        assert_missing::<CompleteParams<'_>>(
            r#"{"ref":{"name":"p"},"argument":{"name":"","value":""}}"#,
            "type",
        );
        assert_missing::<CompletionArgument<'_>>(r#"{"name":""}"#, "value");
        assert_missing::<PromptReference<'_>>(r#"{"type":"ref/prompt"}"#, "name");
        assert_missing::<ResourceTemplateReference<'_>>(r#"{"type":"ref/resource"}"#, "uri");
        let other: CompletionReference<'_> =
            serde_json::from_str(r#"{"name":1,"type":"ref/tool"}"#).expect("kept");
        assert!(
            matches!(other, CompletionReference::Other(raw) if raw.as_str() == r#"{"type":"ref/tool","name":1}"#)
        );
    }

    // covers: COMP-004
    #[test]
    fn completion_is_truncated_to_a_hundred_values() {
        let all: Vec<String> = (0..101).map(|n| format!("{n}")).collect();
        let result = CompleteResult::from_suggestions(all.clone());
        assert_eq!((result.completion.values.len(), result.completion.total), (100, Some(101)));
        assert_eq!(result.completion.has_more, Some(true));
        assert_eq!(Completion::from_suggestions(all[..3].into()).has_more, Some(false));
        assert_round_trip(&result);
        assert_round_trip(&result.completion);
        assert_missing::<CompleteResult>("{}", "completion");
        assert_missing::<Completion>("{}", "values");
        let float: Completion = serde_json::from_str(r#"{"values":[],"total":3.0}"#).expect("an integer");
        assert_eq!(float.total, Some(3));
        for wrong in ["-1", "1.5", "\"1\"", "1e30"] {
            let error = serde_json::from_str::<Completion>(&format!("{{\"values\":[],\"total\":{wrong}}}"));
            assert!(error.expect_err("no count").to_string().starts_with("`total"), "{wrong}");
        }
    }
}
