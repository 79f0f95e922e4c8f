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
    /// A prompt that a server offers (PROMPT-005)
    Prompt {
        /// Name for programs
        name: String = "name",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What it is for
        opt description: String = "description",
        /// What can be filled in
        list arguments: Vec<PromptArgument> = "arguments",
        /// Pictures for it (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
        /// Metadata (since 2025-06-18)
        opt meta: RawJson as Object = "_meta",
    }

    /// Something that a prompt lets fill in (PROMPT-005)
    PromptArgument {
        /// Name for programs
        name: String = "name",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What it is
        opt description: String = "description",
        /// Whether it must be given; absent means no
        opt required: bool = "required",
    }

    /// The result of `prompts/list`: one page (PROMPT-003)
    ListPromptsResult {
        /// The prompts
        prompts: Vec<Prompt> as List = "prompts",
    } {
        /// Where the next page begins; absent on the last (PAGE-003, PAGE-004)
        opt next_cursor: Cursor = "nextCursor",
        /// How long it may be kept, in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept (since 2026-07-28)
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `prompts/get` (PROMPT-004)
    GetPromptParams<'a> {
        /// Which prompt
        name: Cow<'a, str> as Text = "name",
    } {
        /// What is filled in, by name
        opt arguments: Map<String> = "arguments",
        /// Answers to what the server asked for (since 2026-07-28; MRTR-014); a client's engine adds them
        opt input_responses: InputResponses<'a> = "inputResponses",
        /// The state that the server gave along with its questions (since 2026-07-28; MRTR-014)
        opt request_state: Cow<'a, str> as Text = "requestState",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `prompts/get` (PROMPT-004)
    GetPromptResult<'a> {
        /// What to put before the model
        messages: Vec<PromptMessage<'a>> = "messages",
    } {
        /// What it is for
        opt description: Cow<'a, str> as Text = "description",
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// A message of a prompt (PROMPT-006)
    PromptMessage<'a> {
        /// Who speaks
        role: Role = "role",
        /// What they say: one block, never several
        content: Content<'a> = "content",
    } {}
}

impl<'a> PromptMessage<'a> {
    /// The person says something
    #[must_use]
    pub fn user(content: impl Into<Content<'a>>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model says something
    #[must_use]
    pub fn assistant(content: impl Into<Content<'a>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::for_tests::{borrowed, missing, same};
    use super::super::{EmbeddedResource, ResourceContents};
    use super::*;

    // covers: PROMPT-003, PROMPT-005
    #[test]
    fn prompts_and_their_arguments() {
        let raw = |text: &'static str| RawJson::new(text).expect("JSON");
        let argument = PromptArgument::new("from").title("From").description("d").required(false);
        let prompt = Prompt::new("plan")
            .title("Plan")
            .description("d")
            .arguments([argument.clone(), PromptArgument::new("to")])
            .icons([Icon::new("data:,")])
            .meta(raw("{}"));
        same(&argument);
        same(&prompt);
        same(
            &ListPromptsResult::new(alloc::vec![prompt, Prompt::new("x")])
                .next_cursor("")
                .ttl_ms(5)
                .cache_scope(CacheScope::Public)
                .result_type(ResultType::Complete)
                .meta(raw("{}")),
        );
        missing::<Prompt>("{}", "name");
        missing::<PromptArgument>("{}", "name");
        missing::<ListPromptsResult>("{}", "prompts");
    }

    // covers: PROMPT-004, PROMPT-006, PROMPT-008, CONT-005
    #[test]
    fn a_message_has_one_block() {
        let params = GetPromptParams::new("plan").arguments([("from", "Brest".into())]);
        borrowed(&params, |text| serde_json::from_str::<GetPromptParams<'_>>(text).map(|p| p.into_owned()));
        let result = GetPromptResult::new([
            PromptMessage::user("hello"),
            PromptMessage::assistant(EmbeddedResource::new(ResourceContents::text("a:b", "x"))),
        ])
        .description("d");
        borrowed(&result, |text| serde_json::from_str::<GetPromptResult<'_>>(text).map(|r| r.into_owned()));
        borrowed(&result.messages[0], |text| {
            serde_json::from_str::<PromptMessage<'_>>(text).map(|m| m.into_owned())
        });
        missing::<GetPromptParams<'_>>("{}", "name");
        missing::<GetPromptResult<'_>>("{}", "messages");
        missing::<PromptMessage<'_>>(r#"{"role":"user"}"#, "content");
        let several =
            serde_json::from_str::<PromptMessage<'_>>(r#"{"role":"user","content":[]}"#).expect_err("one");
        assert!(several.to_string().starts_with("`content`: invalid type: sequence"), "{several}");
        let odd: PromptMessage<'_> =
            serde_json::from_str(r#"{"role":"system","content":{"type":"text","text":""}}"#).expect("kept");
        assert_eq!(odd.role, Role::Other("system".into()));
    }
}
