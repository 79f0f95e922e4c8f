//! `sampling/createMessage`: a server uses the client's model (SAMP).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::base::Role;
use super::content::{AudioContent, Blocks, Content, ImageContent, TextContent};
use super::message::message;
use super::own::Own;
use super::tools::Tool;
use super::union::union;
use super::words::words;
use crate::raw::RawJson;

mod check;

words! {
    /// What the model is given besides the messages (SAMP-010)
    IncludeContext {
        /// Nothing; what a missing one means
        None = "none",
        /// What the server that asks has; needs `sampling.context`
        ThisServer = "thisServer",
        /// What all servers of the client have; needs `sampling.context`
        AllServers = "allServers",
    }

    /// Whether the model uses tools (since 2025-11-25; SAMP-016)
    ToolChoiceMode {
        /// As it likes; what a missing one means
        Auto = "auto",
        /// It uses one at least
        Required = "required",
        /// It uses none
        None = "none",
    }

    /// Why the model stopped: an open set (SAMP-005)
    StopReason {
        /// It was done
        EndTurn = "endTurn",
        /// It came to one of the `stopSequences`
        StopSequence = "stopSequence",
        /// It came to `maxTokens`
        MaxTokens = "maxTokens",
        /// It wants tools to be called (since 2025-11-25)
        ToolUse = "toolUse",
    }
}

message! {
    /// The parameters of `sampling/createMessage` (SAMP-004)
    ///
    /// To a client of a revision before 2025-11-25 a message of several blocks goes out as several messages, and
    /// `tools` and `toolChoice` cannot be sent.
    CreateMessageParams<'a> by form {
        /// What was said so far
        messages: Vec<SamplingMessage<'a>> = "messages",
        /// The most tokens that the answer may have (SAMP-017)
        max_tokens: u64 as Integer = "maxTokens",
    } {
        /// Which model would do
        opt model_preferences: ModelPreferences = "modelPreferences",
        /// What the model is told before the messages; the client may change it (SAMP-018)
        opt system_prompt: Cow<'a, str> as Text = "systemPrompt",
        /// What else the model is given
        opt include_context: IncludeContext = "includeContext",
        /// How freely the model chooses
        opt temperature: f64 as Number = "temperature",
        /// Texts at which the model stops
        opt stop_sequences: Vec<String> = "stopSequences",
        /// Settings for the model's provider: a JSON object
        opt metadata: RawJson as Object = "metadata",
        /// Tools that the model may use (since 2025-11-25; SAMP-008)
        opt tools: Vec<Tool> = "tools",
        /// Whether it uses them (since 2025-11-25)
        opt tool_choice: ToolChoice = "toolChoice",
        /// Metadata (until 2025-11-25)
        opt meta: RawJson as Object = "_meta",
    }

    /// A message for the model, or of it (SAMP-006)
    SamplingMessage<'a> {
        /// Who speaks
        role: Role = "role",
        /// What they say: one block, or several (since 2025-11-25)
        content: SamplingBlocks<'a> = "content",
    } {
        /// Metadata (since 2025-11-25)
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `sampling/createMessage` (SAMP-005)
    ///
    /// To a server of a revision before 2025-11-25 several blocks go out as one text.
    CreateMessageResult<'a> by form {
        /// Who speaks: the assistant
        role: Role = "role",
        /// What they say: one block, or several (since 2025-11-25)
        content: SamplingBlocks<'a> = "content",
        /// The model that was used
        model: Cow<'a, str> as Text = "model",
    } {
        /// Why it stopped
        opt stop_reason: StopReason = "stopReason",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// Which model would do: advice, not an order (SAMP-019)
    ModelPreferences {} {
        /// Names, the likeliest first; the first that fits counts (SAMP-020)
        list hints: Vec<ModelHint> = "hints",
        /// How much a low price matters, from 0 to 1
        opt cost_priority: f64 as Share = "costPriority",
        /// How much speed matters, from 0 to 1
        opt speed_priority: f64 as Share = "speedPriority",
        /// How much ability matters, from 0 to 1
        opt intelligence_priority: f64 as Share = "intelligencePriority",
    }

    /// A model that would do
    ModelHint {} {
        /// A part of its name (SAMP-020)
        opt name: String = "name",
    }

    /// Whether the model uses tools (since 2025-11-25; SAMP-016)
    ToolChoice {} {
        /// Whether it does
        opt mode: ToolChoiceMode = "mode",
    }

    /// The model wants a tool to be called (since 2025-11-25; SAMP-012)
    ///
    /// An older peer gets a text that says so (CONT-008).
    ToolUseContent<'a> ("type" = "tool_use") {
        /// By which its result is known
        id: Cow<'a, str> as Text = "id",
        /// Which tool
        name: Cow<'a, str> as Text = "name",
        /// The arguments: a JSON object
        input: RawJson as Object = "input",
    } {
        /// Metadata, to be kept in later requests (SAMP-025)
        opt meta: RawJson as Object = "_meta",
    }

    /// What a tool said (since 2025-11-25; SAMP-012)
    ///
    /// Stands only beside others of its kind, in a message of the user (SAMP-011). An older peer gets a text.
    ToolResultContent<'a> ("type" = "tool_result") by form {
        /// The `id` of the [`ToolUseContent`]
        tool_use_id: Cow<'a, str> as Text = "toolUseId",
        /// What the tool said
        content: Blocks<'a> = "content",
    } {
        /// The same as a value: an object in 2025-11-25, any JSON value since 2026-07-28
        any structured_content: RawJson = "structuredContent",
        /// The tool failed; absent means that it did not
        opt is_error: bool = "isError",
        /// Metadata, to be kept in later requests (SAMP-025)
        opt meta: RawJson as Object = "_meta",
    }
}

union! {
    /// A piece of what the model is given or says (`SamplingMessageContentBlock`; SAMP-006)
    SamplingContent<'a> by "type" {
        /// Plain text
        Text(TextContent<'a>) = "text",
        /// A picture
        Image(ImageContent<'a>) = "image",
        /// Sound (since 2025-03-26)
        Audio(AudioContent<'a>) = "audio",
        /// The model wants a tool to be called (since 2025-11-25)
        ToolUse(ToolUseContent<'a>) = "tool_use",
        /// What a tool said (since 2025-11-25)
        ToolResult(Box<ToolResultContent<'a>>) = "tool_result",
    }
}

impl<'a> SamplingContent<'a> {
    /// A text block
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text, if this is a text block
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

/// What somebody says: one block stands for itself on the wire, several for an array (since 2025-11-25)
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingBlocks<'a> {
    /// One block
    One(SamplingContent<'a>),
    /// Several, in an array
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

impl Own for SamplingBlocks<'_> {
    type Owned = SamplingBlocks<'static>;
    fn own(self) -> SamplingBlocks<'static> {
        match self {
            Self::One(one) => SamplingBlocks::One(one.own()),
            Self::Many(many) => SamplingBlocks::Many(many.own()),
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
        struct Read;
        impl<'de> serde::de::Visitor<'de> for Read {
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
        deserializer.deserialize_any(Read)
    }
}

impl CreateMessageParams<'_> {
    fn form(&self) -> &'static str {
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
    fn form(&self) -> &'static str {
        match self.content {
            SamplingBlocks::One(_) => "$mcp::CreateMessageResult",
            SamplingBlocks::Many(_) => "$mcp::CreateMessageResult+many",
        }
    }
}

impl<'a> SamplingMessage<'a> {
    /// The person says something
    #[must_use]
    pub fn user(content: impl Into<SamplingBlocks<'a>>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model says something
    #[must_use]
    pub fn assistant(content: impl Into<SamplingBlocks<'a>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

impl<'a> ToolResultContent<'a> {
    /// A result that is one text
    #[must_use]
    pub fn text(id: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(id, Content::text(text))
    }

    fn form(&self) -> &'static str {
        match &self.structured_content {
            Some(value) if !value.is_object() => "$mcp::ToolResultContent+value",
            _ => "$mcp::ToolResultContent",
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
