//! Conversations that a model can be given, and what it says (SAMP-011 to SAMP-014, SAMP-022).

use alloc::vec::Vec;

use super::{
    CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage, StopReason, ToolChoiceMode,
};
use crate::model::Misfit;
use crate::model::base::Role;
use crate::model::map::twice;

impl CreateMessageParams<'_> {
    /// Whether a model can be given this
    ///
    /// - A message with a `tool_result` holds nothing else and is the user's (SAMP-011).
    /// - After a message with `tool_use`, which is the assistant's, comes one with a `tool_result` for each of them and
    ///   no other, and such a message comes nowhere else (SAMP-012, SAMP-013).
    /// - `toolChoice` is one of the three, and `required` only where there are tools (SAMP-016); preferences lie between
    ///   0 and 1 (SAMP-019); what must be an object is one.
    ///
    /// A client that is asked answers a misfit with -32602 (SAMP-014), which is what one turns into.
    pub fn validate(&self) -> Result<(), Misfit> {
        let mut open: Vec<&str> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            open = message.follows(&open).map_err(|m| m.within("content").element(at).within("messages"))?;
        }
        if !open.is_empty() {
            return Err(Misfit::at("messages", "must go on with a `tool_result` for every `tool_use`"));
        }
        self.settings()
    }

    fn settings(&self) -> Result<(), Misfit> {
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return Err(Misfit::at("metadata", "must be an object"));
        }
        if self.temperature.is_some_and(|t| !t.is_finite()) {
            return Err(Misfit::at("temperature", "must be a number"));
        }
        if let Some(preferences) = &self.model_preferences {
            for (name, share) in [
                ("costPriority", preferences.cost_priority),
                ("speedPriority", preferences.speed_priority),
                ("intelligencePriority", preferences.intelligence_priority),
            ] {
                if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                    return Err(Misfit::at(name, "must lie between 0 and 1").within("modelPreferences"));
                }
            }
        }
        let mode = self.tool_choice.as_ref().and_then(|choice| choice.mode.as_ref());
        let wrong = match mode {
            Some(ToolChoiceMode::Other(_)) => "must be `auto`, `required` or `none`",
            Some(ToolChoiceMode::Required) if !self.has_tools() => "cannot be `required` without tools",
            _ => return Ok(()),
        };
        Err(Misfit::at("mode", wrong).within("toolChoice"))
    }

    fn has_tools(&self) -> bool {
        self.tools.as_ref().is_some_and(|tools| !tools.is_empty())
    }

    /// Whether an answer that is right in itself fits this question
    pub(in crate::model) fn suits(&self, result: &CreateMessageResult<'_>) -> Result<(), Misfit> {
        match result.content.iter().any(|block| matches!(block, SamplingContent::ToolUse(_))) {
            true if !self.has_tools() => Err(Misfit::at("content", "uses a tool, and there is none")),
            _ => Ok(()),
        }
    }
}

impl SamplingMessage<'_> {
    /// The tools that this message wants to be called, if it can stand behind one that wanted those in `open`
    fn follows(&self, open: &[&str]) -> Result<Vec<&str>, Misfit> {
        let (mut uses, mut results) = (Vec::new(), Vec::new());
        for (at, block) in self.content.iter().enumerate() {
            match block {
                SamplingContent::ToolUse(call) => {
                    input(block).map_err(|m| m.element(at))?;
                    uses.push(&*call.id);
                }
                SamplingContent::ToolResult(result) => results.push(&*result.tool_use_id),
                _ => {}
            }
        }
        let wrong = if !results.is_empty() && results.len() != self.content.len() {
            "must hold nothing beside its `tool_result`s"
        } else if !results.is_empty() && self.role != Role::User {
            "must not hold a `tool_result`, which is the user's"
        } else if !uses.is_empty() && self.role != Role::Assistant {
            "must not hold a `tool_use`, which is the assistant's"
        } else if !same(&mut results, open) {
            "must hold one `tool_result` for each `tool_use` of the message before, and no other"
        } else if twice(uses.iter().copied()).is_some() {
            "must not have two `tool_use`s with the same `id`"
        } else {
            return Ok(uses);
        };
        Err(Misfit::new(wrong))
    }
}

/// Whether two lists hold the same; n log n, since a peer may decide how long they are
fn same(results: &mut [&str], open: &[&str]) -> bool {
    let mut open = Vec::from(open);
    open.sort_unstable();
    results.sort_unstable();
    *results == *open
}

impl CreateMessageResult<'_> {
    pub(in crate::model) fn validate(&self) -> Result<(), Misfit> {
        let mut uses = false;
        for (at, block) in self.content.iter().enumerate() {
            uses |= matches!(block, SamplingContent::ToolUse(_));
            input(block).map_err(|m| m.element(at).within("content"))?;
        }
        // What follows is a result for each of them, so there must be one (SAMP-013).
        match &self.stop_reason {
            Some(StopReason::ToolUse) if !uses => {
                Err(Misfit::at("stopReason", "is `toolUse`, and no tool is used"))
            }
            _ => Ok(()),
        }
    }
}

/// Arguments of a tool are an object
fn input(block: &SamplingContent<'_>) -> Result<(), Misfit> {
    match block {
        SamplingContent::ToolUse(call) if !call.input.is_object() => {
            Err(Misfit::at("input", "must be an object"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
