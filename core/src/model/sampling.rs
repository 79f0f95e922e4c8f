//! `sampling/createMessage`: a server uses the client's model (SAMP).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::base::Role;
use super::content::{AudioContent, Content, ContentBlocks, ImageContent, TextContent};
use super::into_static::IntoStatic;
use super::message::message;
use super::string_enum::string_enum;
use super::tasks::TaskMetadata;
use super::tools::Tool;
use super::union::union;
use crate::raw::RawJson;

mod check;

string_enum! {
    /// Context that the model receives besides the messages (SAMP-010).
    IncludeContext {
        /// None; the meaning of a missing value.
        None = "none",
        /// Context of the requesting server; needs `sampling.context`.
        ThisServer = "thisServer",
        /// Context of all servers of the client; needs `sampling.context`.
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

impl<'a> From<&'a str> for SamplingContent<'a> {
    fn from(text: &'a str) -> Self {
        Self::text(text)
    }
}

impl From<String> for SamplingContent<'_> {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

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

impl Serialize for SamplingBlocks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(one) => one.serialize(serializer),
            Self::Many(many) => many.serialize(serializer),
        }
    }
}

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

#[cfg(test)]
pub(super) mod tests;
