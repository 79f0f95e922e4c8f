//! Validation of conversations for a model, and of its answers (SAMP-011 to SAMP-014, SAMP-022).

use alloc::vec::Vec;

use super::{
    CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage, StopReason, ToolChoiceMode,
};
use crate::json::find_duplicate;
use crate::model::ValidationError;
use crate::model::base::Role;

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
    pub(in crate::model) fn check_result(
        &self,
        result: &CreateMessageResult<'_>,
    ) -> Result<(), ValidationError> {
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
    pub(in crate::model) fn validate(&self) -> Result<(), ValidationError> {
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
#[path = "check_tests.rs"]
mod tests;
