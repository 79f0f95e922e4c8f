//! `prompts/list` and `prompts/get` (PROMPT).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::base::{CacheScope, Cursor, Icon, ResultType, Role};
use super::content::Content;
use super::input::InputResponses;
use super::map::Map;
use super::message::message;
use crate::raw::RawJson;

message! {
    /// A prompt of a server (PROMPT-005).
    Prompt {
        /// Name for programs.
        name: String = "name",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Arguments of the prompt.
        list arguments: Vec<PromptArgument> = "arguments",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }

    /// An argument of a prompt (PROMPT-005).
    PromptArgument {
        /// Name for programs.
        name: String = "name",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description.
        opt description: String = "description",
        /// Whether it is required; absent means no.
        opt required: bool = "required",
    }

    /// Result of `prompts/list`: one page (PROMPT-003).
    ListPromptsResult {
        /// The prompts.
        prompts: Vec<Prompt> as List = "prompts",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `prompts/get` (PROMPT-004).
    GetPromptParams<'a> {
        /// Name of the prompt.
        name: Cow<'a, str> as CowStr = "name",
    } {
        /// Arguments by name.
        opt arguments: Map<String> = "arguments",
        /// Input responses (since 2026-07-28; MRTR-014); a client's engine adds them.
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// `requestState` that came with the input requests (since 2026-07-28; MRTR-014).
        opt request_state: Cow<'a, str> as CowStr = "requestState",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `prompts/get` (PROMPT-004).
    GetPromptResult<'a> {
        /// Messages for the model.
        messages: Vec<PromptMessage<'a>> = "messages",
    } {
        /// Description.
        opt description: Cow<'a, str> as CowStr = "description",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// A message of a prompt (PROMPT-006).
    PromptMessage<'a> {
        /// Sender of the message.
        role: Role = "role",
        /// One content block, never several.
        content: Content<'a> = "content",
    } {}
}

impl<'a> PromptMessage<'a> {
    /// Creates a message of the user.
    #[must_use]
    pub fn user(content: impl Into<Content<'a>>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<Content<'a>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
    use super::super::{EmbeddedResource, ResourceContents};
    use super::*;

    // covers: PROMPT-003, PROMPT-005
    #[test]
    fn prompt_list_round_trips() {
        let raw = |text: &'static str| RawJson::new(text).expect("JSON");
        let argument = PromptArgument::new("from").title("From").description("d").required(false);
        let prompt = Prompt::new("plan")
            .title("Plan")
            .description("d")
            .arguments([argument.clone(), PromptArgument::new("to")])
            .icons([Icon::new("data:,")])
            .meta(raw("{}"));
        assert_round_trip(&argument);
        assert_round_trip(&prompt);
        assert_round_trip(
            &ListPromptsResult::new(alloc::vec![prompt, Prompt::new("x")])
                .next_cursor("")
                .ttl_ms(5)
                .cache_scope(CacheScope::Public)
                .result_type(ResultType::Complete)
                .meta(raw("{}")),
        );
        assert_missing::<Prompt>("{}", "name");
        assert_missing::<PromptArgument>("{}", "name");
        assert_missing::<ListPromptsResult>("{}", "prompts");
    }

    // covers: PROMPT-004, PROMPT-006, PROMPT-008, CONT-005
    #[test]
    fn prompt_message_with_several_blocks_is_refused() {
        let params = GetPromptParams::new("plan").arguments([("from", "Brest".into())]);
        assert_borrowed_round_trip(&params, |text| {
            serde_json::from_str::<GetPromptParams<'_>>(text).map(|p| p.into_owned())
        });
        let result = GetPromptResult::new([
            PromptMessage::user("hello"),
            PromptMessage::assistant(EmbeddedResource::new(ResourceContents::text("a:b", "x"))),
        ])
        .description("d");
        assert_borrowed_round_trip(&result, |text| {
            serde_json::from_str::<GetPromptResult<'_>>(text).map(|r| r.into_owned())
        });
        assert_borrowed_round_trip(&result.messages[0], |text| {
            serde_json::from_str::<PromptMessage<'_>>(text).map(|m| m.into_owned())
        });
        assert_missing::<GetPromptParams<'_>>("{}", "name");
        assert_missing::<GetPromptResult<'_>>("{}", "messages");
        assert_missing::<PromptMessage<'_>>(r#"{"role":"user"}"#, "content");
        let several =
            serde_json::from_str::<PromptMessage<'_>>(r#"{"role":"user","content":[]}"#).expect_err("one");
        assert!(several.to_string().starts_with("`content`: invalid type: sequence"), "{several}");
        let odd: PromptMessage<'_> =
            serde_json::from_str(r#"{"role":"system","content":{"type":"text","text":""}}"#).expect("kept");
        assert_eq!(odd.role, Role::Other("system".into()));
    }
}
