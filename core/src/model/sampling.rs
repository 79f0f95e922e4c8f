//! `sampling/createMessage`: a server uses the client's model (SAMP).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::ValidationError;
use super::base::{IntoStatic, Role, TaskMetadata};
use super::content::{AudioContent, Content, ContentBlocks, ImageContent, TextContent};
use super::message::message;
use super::string_enum::string_enum;
use super::tools::Tool;
use super::union::{from, serialize_variants, union};
use crate::json::find_duplicate;
use crate::raw::RawJson;

string_enum! {
    /// Context that the model receives besides the messages (SAMP-010).
    IncludeContext expects deprecated {
        /// None; the meaning of a missing value.
        None = "none",
        /// Context of the requesting server; needs `sampling.context`.
        #[deprecated(note = "MCP SEP-2596; earliest removal: follows sampling (SEP-2577)")]
        ThisServer = "thisServer",
        /// Context of all servers of the client; needs `sampling.context`.
        #[deprecated(note = "MCP SEP-2596; earliest removal: follows sampling (SEP-2577)")]
        AllServers = "allServers",
    }

    /// Use of tools by the model (since 2025-11-25; SAMP-016).
    ToolChoiceMode {
        /// The model decides; the meaning of a missing value.
        Auto = "auto",
        /// At least one tool.
        Required = "required",
        /// No tools.
        None = "none",
    }

    /// Reason why the model stopped: an open set (SAMP-005).
    StopReason {
        /// The answer is complete.
        EndTurn = "endTurn",
        /// One of the `stopSequences` occurred.
        StopSequence = "stopSequence",
        /// `maxTokens` was reached.
        MaxTokens = "maxTokens",
        /// The model calls tools (since 2025-11-25).
        ToolUse = "toolUse",
    }
}

message! {
    /// Parameters of `sampling/createMessage` (SAMP-004).
    ///
    /// A client of a revision before 2025-11-25 gets a message of several blocks as several messages. `tools` and
    /// `toolChoice` cannot be sent to it.
    CreateMessageParams<'a> by shape_name {
        /// The conversation so far.
        messages: Vec<SamplingMessage<'a>> = "messages",
        /// Maximum number of tokens of the answer (SAMP-017).
        max_tokens: u64 as Integer = "maxTokens",
    } {
        /// Preferred models.
        opt model_preferences: ModelPreferences = "modelPreferences",
        /// System prompt; the client may change it (SAMP-018).
        opt system_prompt: Cow<'a, str> as CowStr = "systemPrompt",
        /// Further context for the model.
        opt include_context: IncludeContext = "includeContext",
        /// Sampling temperature.
        opt temperature: f64 as Number = "temperature",
        /// Texts at which the model stops.
        opt stop_sequences: Vec<String> = "stopSequences",
        /// Settings for the model's provider: a JSON object.
        opt metadata: RawJson as Object = "metadata",
        /// Tools that the model may use (since 2025-11-25; SAMP-008).
        opt tools: Vec<Tool> = "tools",
        /// Use of the tools (since 2025-11-25).
        opt tool_choice: ToolChoice = "toolChoice",
        /// Request to run it as a task (2025-11-25 only; TASK-008).
        opt task: TaskMetadata = "task",
        /// Metadata (up to and including 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// A message to or from the model (SAMP-006).
    SamplingMessage<'a> {
        /// Sender of the message.
        role: Role = "role",
        /// One content block, or several (since 2025-11-25).
        content: SamplingBlocks<'a> = "content",
    } {
        /// Metadata (since 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `sampling/createMessage` (SAMP-005).
    ///
    /// A server of a revision before 2025-11-25 gets several blocks as one text.
    CreateMessageResult<'a> by shape_name {
        /// Sender of the message: the assistant.
        role: Role = "role",
        /// One content block, or several (since 2025-11-25).
        content: SamplingBlocks<'a> = "content",
        /// Name of the model that was used.
        model: Cow<'a, str> as CowStr = "model",
    } {
        /// Reason why the model stopped.
        opt stop_reason: StopReason = "stopReason",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Preferences for the choice of a model: advisory (SAMP-019).
    ModelPreferences {} {
        /// Names, the most preferred first; the first match counts (SAMP-020).
        list hints: Vec<ModelHint> = "hints",
        /// Importance of a low price, from 0 to 1.
        opt cost_priority: f64 as PriorityValue = "costPriority",
        /// Importance of speed, from 0 to 1.
        opt speed_priority: f64 as PriorityValue = "speedPriority",
        /// Importance of ability, from 0 to 1.
        opt intelligence_priority: f64 as PriorityValue = "intelligencePriority",
    }

    /// A suggested model.
    ModelHint {} {
        /// Part of the model's name (SAMP-020).
        opt name: String = "name",
    }

    /// Use of tools by the model (since 2025-11-25; SAMP-016).
    ToolChoice {} {
        /// The mode.
        opt mode: ToolChoiceMode = "mode",
    }

    /// A tool call by the model (since 2025-11-25; SAMP-012).
    ///
    /// A peer of an older revision gets a text block that describes it (CONT-008).
    ToolUseContent<'a> ("type" = "tool_use") {
        /// Id that the result refers to.
        id: Cow<'a, str> as CowStr = "id",
        /// Name of the tool.
        name: Cow<'a, str> as CowStr = "name",
        /// Arguments: a JSON object.
        input: RawJson as Object = "input",
    } {
        /// Metadata, to be kept in later requests (SAMP-025).
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of a tool call by the model (since 2025-11-25; SAMP-012).
    ///
    /// It stands in a message of the user, and only together with other tool results (SAMP-011). A peer of an older
    /// revision gets a text block.
    ToolResultContent<'a> ("type" = "tool_result") by shape_name {
        /// The `id` of the [`ToolUseContent`].
        tool_use_id: Cow<'a, str> as CowStr = "toolUseId",
        /// Content blocks of the result.
        content: ContentBlocks<'a> = "content",
    } {
        /// The result as a value: an object in 2025-11-25, any JSON value since 2026-07-28.
        any structured_content: RawJson = "structuredContent",
        /// Whether the tool failed; absent means no.
        opt is_error: bool = "isError",
        /// Metadata, to be kept in later requests (SAMP-025).
        opt meta: RawJson as Object = "_meta",
    }
}

union! {
    /// One content block of a message to or from the model (`SamplingMessageContentBlock`; SAMP-006).
    SamplingContent<'a> by "type" {
        /// Plain text.
        Text(TextContent<'a>) = "text",
        /// An image.
        Image(ImageContent<'a>) = "image",
        /// Audio (since 2025-03-26).
        Audio(AudioContent<'a>) = "audio",
        /// A tool call by the model (since 2025-11-25).
        ToolUse(ToolUseContent<'a>) = "tool_use",
        /// Result of a tool call (since 2025-11-25).
        ToolResult(Box<ToolResultContent<'a>>) = "tool_result",
    }
}

impl<'a> SamplingContent<'a> {
    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns the text of a text block, or `None` for any other block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

from!(<'a> SamplingContent<'a>, text: &'a str => Self::text(text));
from!(<'a> SamplingContent<'a>, text: String => Self::text(text));

/// Content of a message: a single block on the wire, or an array of blocks (since 2025-11-25).
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingBlocks<'a> {
    /// One block.
    One(SamplingContent<'a>),
    /// An array of blocks.
    Many(Vec<SamplingContent<'a>>),
}

impl<'a> core::ops::Deref for SamplingBlocks<'a> {
    type Target = [SamplingContent<'a>];

    fn deref(&self) -> &[SamplingContent<'a>] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<'a, T: Into<SamplingContent<'a>>> From<T> for SamplingBlocks<'a> {
    fn from(block: T) -> Self {
        Self::One(block.into())
    }
}

impl<'a> From<Vec<SamplingContent<'a>>> for SamplingBlocks<'a> {
    fn from(blocks: Vec<SamplingContent<'a>>) -> Self {
        Self::Many(blocks)
    }
}

impl IntoStatic for SamplingBlocks<'_> {
    type Owned = SamplingBlocks<'static>;
    fn into_static(self) -> SamplingBlocks<'static> {
        match self {
            Self::One(one) => SamplingBlocks::One(one.into_static()),
            Self::Many(many) => SamplingBlocks::Many(many.into_static()),
        }
    }
}

serialize_variants! { SamplingBlocks<'_>: One Many }

impl<'de: 'a, 'a> Deserialize<'de> for SamplingBlocks<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
        struct SamplingBlocksVisitor;
        impl<'de> serde::de::Visitor<'de> for SamplingBlocksVisitor {
            type Value = SamplingBlocks<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("content or an array of content")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<SamplingBlocks<'de>, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(SamplingBlocks::One)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                seq: A,
            ) -> Result<SamplingBlocks<'de>, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(SamplingBlocks::Many)
            }
        }
        deserializer.deserialize_any(SamplingBlocksVisitor)
    }
}

impl CreateMessageParams<'_> {
    fn shape_name(&self) -> &'static str {
        if self.tools.is_some() || self.tool_choice.is_some() {
            "$mcp::CreateMessageParams+tools"
        } else if self.messages.iter().any(|m| matches!(m.content, SamplingBlocks::Many(_))) {
            "$mcp::CreateMessageParams+many"
        } else {
            "$mcp::CreateMessageParams"
        }
    }
}

impl CreateMessageResult<'_> {
    fn shape_name(&self) -> &'static str {
        match self.content {
            SamplingBlocks::One(_) => "$mcp::CreateMessageResult",
            SamplingBlocks::Many(_) => "$mcp::CreateMessageResult+many",
        }
    }
}

impl<'a> SamplingMessage<'a> {
    /// Creates a message of the user.
    #[must_use]
    pub fn user(content: impl Into<SamplingBlocks<'a>>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<SamplingBlocks<'a>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

impl<'a> ToolResultContent<'a> {
    /// Creates a result with one text block.
    #[must_use]
    pub fn text(id: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(id, Content::text(text))
    }

    fn shape_name(&self) -> &'static str {
        match &self.structured_content {
            Some(value) if !value.is_object() => "$mcp::ToolResultContent+value",
            _ => "$mcp::ToolResultContent",
        }
    }
}

// Validation of conversations for a model, and of its answers (SAMP-011 to SAMP-014, SAMP-022).

impl CreateMessageParams<'_> {
    /// Validates the conversation and its settings.
    ///
    /// - A message with a `tool_result` holds nothing else and is the user's (SAMP-011).
    /// - A message with `tool_use` is the assistant's. The next message holds one `tool_result` for each `tool_use` and
    ///   no other (SAMP-012, SAMP-013). A `tool_result` occurs nowhere else.
    /// - `toolChoice` is one of three words, and `required` only with tools (SAMP-016).
    /// - Preferences lie between 0 and 1 (SAMP-019). `metadata` and arguments of tools are objects.
    ///
    /// A client answers an invalid request with -32602 (SAMP-014), the code that the error converts to.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first wrong member.
    pub fn validate(&self) -> Result<(), ValidationError> {
        let mut open: Vec<&str> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            open = message
                .validate_after(&open)
                .map_err(|m| m.prefixed("content").at_index(at).prefixed("messages"))?;
        }
        if !open.is_empty() {
            return Err(ValidationError::at_member(
                "messages",
                "must continue with a `tool_result` for every `tool_use`",
            ));
        }
        self.validate_settings()
    }

    fn validate_settings(&self) -> Result<(), ValidationError> {
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return Err(ValidationError::at_member("metadata", "must be an object"));
        }
        if self.temperature.is_some_and(|t| !t.is_finite()) {
            return Err(ValidationError::at_member("temperature", "must be a number"));
        }
        if let Some(preferences) = &self.model_preferences {
            for (name, share) in [
                ("costPriority", preferences.cost_priority),
                ("speedPriority", preferences.speed_priority),
                ("intelligencePriority", preferences.intelligence_priority),
            ] {
                if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                    return Err(ValidationError::at_member(name, "must lie between 0 and 1")
                        .prefixed("modelPreferences"));
                }
            }
        }
        let mode = self.tool_choice.as_ref().and_then(|choice| choice.mode.as_ref());
        let wrong = match mode {
            Some(ToolChoiceMode::Other(_)) => "must be `auto`, `required` or `none`",
            Some(ToolChoiceMode::Required) if !self.has_tools() => "cannot be `required` without tools",
            _ => return Ok(()),
        };
        Err(ValidationError::at_member("mode", wrong).prefixed("toolChoice"))
    }

    fn has_tools(&self) -> bool {
        self.tools.as_ref().is_some_and(|tools| !tools.is_empty())
    }

    /// Checks a result that is valid in itself against this request.
    pub(super) fn check_result(&self, result: &CreateMessageResult<'_>) -> Result<(), ValidationError> {
        match result.content.iter().any(|block| matches!(block, SamplingContent::ToolUse(_))) {
            true if !self.has_tools() => {
                Err(ValidationError::at_member("content", "calls a tool, but the request has none"))
            }
            _ => Ok(()),
        }
    }
}

impl SamplingMessage<'_> {
    /// Returns the ids of the tool calls in this message, if it may follow a message with the calls in `open`.
    fn validate_after(&self, open: &[&str]) -> Result<Vec<&str>, ValidationError> {
        let (mut uses, mut results) = (Vec::new(), Vec::new());
        for (at, block) in self.content.iter().enumerate() {
            match block {
                SamplingContent::ToolUse(call) => {
                    check_tool_input(block).map_err(|m| m.at_index(at))?;
                    uses.push(&*call.id);
                }
                SamplingContent::ToolResult(result) => results.push(&*result.tool_use_id),
                _ => {}
            }
        }
        let wrong = if !results.is_empty() && results.len() != self.content.len() {
            "must hold only `tool_result` blocks"
        } else if !results.is_empty() && self.role != Role::User {
            "must not hold a `tool_result`: its role must be `user`"
        } else if !uses.is_empty() && self.role != Role::Assistant {
            "must not hold a `tool_use`: its role must be `assistant`"
        } else if !is_permutation(&mut results, open) {
            "must hold one `tool_result` for each `tool_use` of the message before, and no other"
        } else if find_duplicate(uses.iter().map(|id| id.as_bytes())).is_some() {
            "must not have two `tool_use`s with the same `id`"
        } else {
            return Ok(uses);
        };
        Err(ValidationError::new(wrong))
    }
}

/// Returns whether two lists hold the same ids; n log n, because a peer may decide their length.
fn is_permutation(results: &mut [&str], open: &[&str]) -> bool {
    let mut open = Vec::from(open);
    open.sort_unstable();
    results.sort_unstable();
    *results == *open
}

impl CreateMessageResult<'_> {
    pub(super) fn validate(&self) -> Result<(), ValidationError> {
        let mut uses = false;
        for (at, block) in self.content.iter().enumerate() {
            uses |= matches!(block, SamplingContent::ToolUse(_));
            check_tool_input(block).map_err(|m| m.at_index(at).prefixed("content"))?;
        }
        // Results for the calls must follow, so there must be a call (SAMP-013).
        match &self.stop_reason {
            Some(StopReason::ToolUse) if !uses => {
                Err(ValidationError::at_member("stopReason", "is `toolUse`, but no tool is called"))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the arguments of a tool call are an object.
fn check_tool_input(block: &SamplingContent<'_>) -> Result<(), ValidationError> {
    match block {
        SamplingContent::ToolUse(call) if !call.input.is_object() => {
            Err(ValidationError::at_member("input", "must be an object"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod check_tests;

#[cfg(test)]
pub(super) mod tests;
