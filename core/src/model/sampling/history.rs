//! Whether calls of tools and their results hang together in what a model is given (SAMP-011, SAMP-012).

use alloc::vec::Vec;

use super::{CreateMessageParams, SamplingContent, SamplingMessage};
use crate::model::Role;

impl CreateMessageParams<'_> {
    /// Checks that every call of a tool has its result in the next message, and that results stand by themselves
    /// (since 2025-11-25; SAMP-011, SAMP-012, SAMP-013); the error says what is wrong
    pub fn check_tool_results(&self) -> Result<(), &'static str> {
        let mut asked = Vec::new();
        for message in &self.messages {
            let results = results(message)?;
            if !asked.is_empty() && results.is_empty() {
                return Err(MISSING);
            }
            if results.len() < asked.len() {
                return Err(MISSING);
            }
            if results != asked {
                return Err("Tool result matches no tool use in request");
            }
            asked = uses(message);
        }
        if asked.is_empty() { Ok(()) } else { Err(MISSING) }
    }
}

const MISSING: &str = "Tool result missing in request";

/// The calls of tools that a message holds, by id, in order of the ids
fn uses<'m>(message: &'m SamplingMessage<'_>) -> Vec<&'m str> {
    let ids = message.content.iter().filter_map(|block| match block {
        SamplingContent::ToolUse(call) if message.role == Role::Assistant => Some(&*call.id),
        _ => None,
    });
    sorted(ids)
}

/// The results of tools that a message holds, likewise; they stand beside nothing else
fn results<'m>(message: &'m SamplingMessage<'_>) -> Result<Vec<&'m str>, &'static str> {
    if message.role != Role::User {
        return Ok(Vec::new());
    }
    let ids = sorted(message.content.iter().filter_map(|block| match block {
        SamplingContent::ToolResult(result) => Some(&*result.tool_use_id),
        _ => None,
    }));
    if ids.is_empty() || ids.len() == message.content.len() {
        Ok(ids)
    } else {
        Err("Tool results mixed with other content")
    }
}

fn sorted<'m>(ids: impl Iterator<Item = &'m str>) -> Vec<&'m str> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn check(messages: &str) -> Result<(), &'static str> {
        let text = format!(r#"{{"messages":[{messages}],"maxTokens":9}}"#);
        let params: CreateMessageParams<'_> = serde_json::from_str(&text).expect("parameters");
        params.check_tool_results()
    }

    const TEXT: &str = r#"{"role":"user","content":{"type":"text","text":"x"}}"#;
    const CALLS: &str = r#"{"role":"assistant","content":[{"type":"text","text":"well"},
        {"type":"tool_use","id":"b","name":"t","input":{}},{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;

    fn answer(ids: &[&str], more: &str) -> alloc::string::String {
        let results: Vec<_> = ids
            .iter()
            .map(|id| format!(r#"{{"type":"tool_result","toolUseId":"{id}","content":[]}}"#))
            .collect();
        format!(r#"{{"role":"user","content":[{more}{}]}}"#, results.join(","))
    }

    // covers: SAMP-011, SAMP-012
    #[test]
    fn every_call_of_a_tool_is_answered_and_answers_stand_alone() {
        let whole = answer(&["a", "b"], "");
        assert_eq!(check(TEXT), Ok(()));
        assert_eq!(check(&format!("{TEXT},{CALLS},{whole},{TEXT}")), Ok(()));
        for broken in [CALLS.into(), format!("{CALLS},{TEXT}"), format!("{CALLS},{}", answer(&["a"], ""))] {
            assert_eq!(check(&broken), Err("Tool result missing in request"), "{broken}");
        }
        let mixed = answer(&["a", "b"], r#"{"type":"text","text":"see"},"#);
        assert_eq!(check(&format!("{CALLS},{mixed}")), Err("Tool results mixed with other content"));
        for foreign in [whole.clone(), format!("{CALLS},{}", answer(&["a", "c"], ""))] {
            assert_eq!(check(&foreign), Err("Tool result matches no tool use in request"), "{foreign}");
        }
        let surplus = answer(&["a", "b", "c"], "");
        assert_eq!(check(&format!("{CALLS},{surplus}")), Err("Tool result matches no tool use in request"));
    }
}
