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
    /// The parameters of `completion/complete` (COMP-002)
    CompleteParams<'a> {
        /// What is being filled in (COMP-003)
        reference: CompletionReference<'a> = "ref",
        /// Which part of it, and what was typed so far
        argument: CompletionArgument<'a> = "argument",
    } {
        /// What else is known (since 2025-06-18; COMP-006)
        opt context: CompletionContext = "context",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// A prompt, by its name (COMP-003)
    PromptReference<'a> ("type" = "ref/prompt") {
        /// Its name
        name: Cow<'a, str> as Text = "name",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: Cow<'a, str> as Text = "title",
    }

    /// A resource, or a family of them (COMP-003)
    ResourceTemplateReference<'a> ("type" = "ref/resource") {
        /// A URI, or a template of RFC 6570
        uri: Cow<'a, str> as Text = "uri",
    } {}

    /// The part that is being filled in (COMP-002)
    CompletionArgument<'a> {
        /// The name of an argument of the prompt, or of a variable of the template
        name: Cow<'a, str> as Text = "name",
        /// What was typed so far
        value: Cow<'a, str> as Text = "value",
    } {}

    /// What else is known when something is filled in (since 2025-06-18; COMP-006)
    CompletionContext {} {
        /// The parts that are filled in already, by name
        opt arguments: Map<String> = "arguments",
    }

    /// The result of `completion/complete` (COMP-004)
    CompleteResult {
        /// What could be meant
        completion: Completion = "completion",
    } {
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// What could be meant (COMP-004)
    Completion {
        /// The likeliest first (COMP-005), at most [`Completion::MAX`]: more are never sent
        values: Vec<String> as Hundred = "values",
    } {
        /// How many there are in all
        opt total: u64 as Integer = "total",
        /// Whether there are more than these; absent means that it is not known
        opt has_more: bool = "hasMore",
    }
}

union! {
    /// What is being filled in (COMP-003)
    CompletionReference<'a> by "type" {
        /// A prompt
        Prompt(PromptReference<'a>) = "ref/prompt",
        /// A resource, or a family of them
        Resource(ResourceTemplateReference<'a>) = "ref/resource",
    }
}

impl Completion {
    /// The most values that a result may have (COMP-004)
    pub const MAX: usize = super::codec::MAX_VALUES;

    /// As many of `all` as a result may have, and how many there are
    #[must_use]
    pub fn first(all: Vec<String>) -> Self {
        let total = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let mut first = Self::new(all).total(total).has_more(false);
        first.cut();
        first
    }

    /// Takes off the values that a result may not have: then there are more, and at least as many as there were
    #[inline(never)]
    pub fn cut(&mut self) {
        if self.values.len() > Self::MAX {
            let all = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
            self.total = self.total.max(Some(all));
            self.has_more = Some(true);
            self.values.truncate(Self::MAX);
        }
    }
}

impl CompleteResult {
    /// As many of `all` as a result may have, and how many there are
    #[must_use]
    pub fn first(all: Vec<String>) -> Self {
        Self::new(Completion::first(all))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::for_tests::{borrowed, missing, same};
    use super::*;
    use alloc::format;

    // covers: COMP-002, COMP-003, COMP-006
    #[test]
    fn what_is_asked() {
        let prompt =
            CompleteParams::new(PromptReference::new("p").title("P"), CompletionArgument::new("a", "v"))
                .context(CompletionContext::new().arguments([("b", "w".into())]));
        let read = |text: &str| serde_json::from_str::<CompleteParams<'_>>(text).map(|p| p.into_owned());
        borrowed(&prompt, read);
        let template = ResourceTemplateReference::new("chart://{sea}");
        borrowed(&CompleteParams::new(template, CompletionArgument::new("sea", "")), read);
        same(&CompletionContext::new());
        missing::<CompleteParams<'_>>(r#"{"ref":{"type":"ref/prompt","name":"p"}}"#, "argument");
        missing::<CompleteParams<'_>>(r#"{"ref":{"name":"p"},"argument":{"name":"","value":""}}"#, "type");
        missing::<CompletionArgument<'_>>(r#"{"name":""}"#, "value");
        missing::<PromptReference<'_>>(r#"{"type":"ref/prompt"}"#, "name");
        missing::<ResourceTemplateReference<'_>>(r#"{"type":"ref/resource"}"#, "uri");
        let other: CompletionReference<'_> =
            serde_json::from_str(r#"{"name":1,"type":"ref/tool"}"#).expect("kept");
        assert!(
            matches!(other, CompletionReference::Other(raw) if raw.as_str() == r#"{"type":"ref/tool","name":1}"#)
        );
    }

    // covers: COMP-004
    #[test]
    fn at_most_a_hundred_values_are_given() {
        let all: Vec<String> = (0..101).map(|n| format!("{n}")).collect();
        let result = CompleteResult::first(all.clone());
        assert_eq!((result.completion.values.len(), result.completion.total), (100, Some(101)));
        assert_eq!(result.completion.has_more, Some(true));
        assert_eq!(Completion::first(all[..3].into()).has_more, Some(false));
        same(&result);
        same(&result.completion);
        missing::<CompleteResult>("{}", "completion");
        missing::<Completion>("{}", "values");
        let float: Completion = serde_json::from_str(r#"{"values":[],"total":3.0}"#).expect("an integer");
        assert_eq!(float.total, Some(3));
        for wrong in ["-1", "1.5", "\"1\"", "1e30"] {
            let error = serde_json::from_str::<Completion>(&format!("{{\"values\":[],\"total\":{wrong}}}"));
            assert!(error.expect_err("no count").to_string().starts_with("`total"), "{wrong}");
        }
    }
}
