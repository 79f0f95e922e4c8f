//! The definition of a mocked server: its entries, and which of their answers fits.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use mcp_proto::RpcError;
use mcp_proto::model::{
    CallToolResult, GetPromptResult, Implementation, Prompt, ReadResourceResult, Resource, ResourceTemplate,
    Tool,
};
use serde_json::Value;

use mcp_std::json_file::values::{canonical, includes, is_equal, shown};

/// A server that a file or a trace defines: its identity, and its entries with their answers.
#[derive(Debug)]
pub struct Definition {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<(Tool, Arc<Answers<CallToolResult<'static>>>)>,
    pub(crate) resources: Vec<(Resource, Arc<Answers<ReadResourceResult<'static>>>)>,
    /// The arguments of their answers have the member `uri` alone.
    pub(crate) templates: Vec<(ResourceTemplate, Arc<Answers<ReadResourceResult<'static>>>)>,
    pub(crate) prompts: Vec<(Prompt, Arc<Answers<GetPromptResult<'static>>>)>,
}

impl Definition {
    /// Creates a server without entries.
    pub(super) const fn new(info: Implementation) -> Self {
        Self {
            info,
            instructions: None,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
        }
    }
}

/// The answers of one entry.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    /// Name of the entry for messages: ``the tool `add` ``.
    entry: String,
    groups: Vec<Group<T>>,
    /// Exact conditions in canonical form, with their groups.
    exact: BTreeMap<String, usize>,
}

/// Answers with equal conditions, in the order in which they are given.
#[derive(Debug)]
struct Group<T> {
    condition: Condition,
    replies: Vec<Reply<T>>,
    uses: AtomicUsize,
}

/// The arguments that an answer is for.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Any,
    /// The arguments have these members, and perhaps more.
    Includes(Value),
    /// The arguments are these.
    Exact(Value),
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply<T> {
    pub(crate) outcome: Result<T, RpcError>,
    /// Time before it is given.
    pub(crate) after: Duration,
}

impl<T: Clone> Answers<T> {
    /// Creates the answers of an entry, which are none yet.
    pub(super) const fn new(entry: String) -> Self {
        Self { entry, groups: Vec::new(), exact: BTreeMap::new() }
    }

    /// Adds an answer. It follows those with an equal condition.
    pub(super) fn add(&mut self, condition: Condition, reply: Reply<T>) {
        let place = match &condition {
            Condition::Exact(arguments) => self.exact.get(&canonical(arguments)).copied(),
            Condition::Includes(part) => self.groups.iter().position(
                |group| matches!(&group.condition, Condition::Includes(other) if is_equal(other, part)),
            ),
            Condition::Any => self.groups.iter().position(|group| matches!(group.condition, Condition::Any)),
        };
        if let Some(group) = place.and_then(|place| self.groups.get_mut(place)) {
            group.replies.push(reply);
            return;
        }
        if let Condition::Exact(arguments) = &condition {
            self.exact.insert(canonical(arguments), self.groups.len());
        }
        self.groups.push(Group { condition, replies: vec![reply], uses: AtomicUsize::new(0) });
    }

    /// Adds the answers of another entry.
    pub(super) fn append(&mut self, other: Self) {
        for Group { condition, replies, .. } in other.groups {
            replies.into_iter().for_each(|reply| self.add(condition.clone(), reply));
        }
    }

    /// Returns whether there is a result among the answers.
    pub(super) fn has_result(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.replies).any(|reply| reply.outcome.is_ok())
    }

    /// Returns the next answer for these arguments; an error if there is none.
    pub(crate) fn choose(&self, arguments: &Value) -> Reply<T> {
        let exact = self.exact.get(&canonical(arguments)).and_then(|place| self.groups.get(*place));
        let chosen = exact.or_else(|| {
            self.groups.iter().find(|group| match &group.condition {
                Condition::Any => true,
                Condition::Includes(part) => includes(arguments, part),
                Condition::Exact(_) => false,
            })
        });
        let reply = chosen.and_then(|group| {
            let last = group.replies.len().checked_sub(1)?;
            let used = group
                .uses
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |uses| Some(uses.min(last) + 1));
            group.replies.get(used.unwrap_or(last).min(last))
        });
        reply
            .cloned()
            .unwrap_or_else(|| Reply { outcome: Err(self.missing(arguments)), after: Duration::ZERO })
    }

    fn missing(&self, arguments: &Value) -> RpcError {
        let known = self.groups.iter().take(MAX_COMPARED).filter_map(|group| match &group.condition {
            Condition::Includes(arguments) | Condition::Exact(arguments) => Some(arguments),
            Condition::Any => None,
        });
        let nearest = known.min_by_key(|known| distance(known, arguments));
        let nearest = match nearest {
            Some(nearest) => format!("the nearest that have one are {}", shown(nearest)),
            None => "none have one".to_owned(),
        };
        RpcError::invalid_params(format!("{} has no answer for {}; {nearest}", self.entry, shown(arguments)))
    }
}

/// Returns how many members of two objects differ.
fn distance(one: &Value, other: &Value) -> usize {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return usize::MAX };
    let differs =
        one.iter().filter(|(name, value)| other.get(*name).is_none_or(|other| !is_equal(value, other)));
    differs.count() + other.keys().filter(|name| !one.contains_key(*name)).count()
}

/// Maximum number of conditions that are compared for a message.
const MAX_COMPARED: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(text: &'static str) -> Reply<&'static str> {
        Reply { outcome: Ok(text), after: Duration::ZERO }
    }

    #[test]
    fn answers_of_equal_conditions_are_given_in_order_and_the_last_one_stays() {
        let mut answers = Answers::new("the tool `t`".into());
        answers.add(Condition::Includes(json!({"a": 1})), reply("part"));
        answers.add(Condition::Exact(json!({"a": 1, "b": 2})), reply("first"));
        answers.add(Condition::Exact(json!({"b": 2.0, "a": 1})), reply("second"));
        answers.add(Condition::Includes(json!({"a": 1.0})), reply("again"));
        let said = |arguments: Value| answers.choose(&arguments).outcome.expect("an answer");
        let both = || json!({"b": 2, "a": 1});
        assert_eq!([said(both()), said(both()), said(both())], ["first", "second", "second"]);
        let more = || json!({"a": 1, "c": null});
        assert_eq!([said(more()), said(more()), said(more())], ["part", "again", "again"]);
        let error = answers.choose(&json!({"a": 2, "b": 2})).outcome.expect_err("no answer");
        assert_eq!(
            error.message,
            r#"the tool `t` has no answer for {"a":2,"b":2}; the nearest that have one are {"a":1,"b":2}"#
        );
        answers.add(Condition::Any, reply("any"));
        assert_eq!(answers.choose(&json!({"a": 2})).outcome, Ok("any"));
        let none = Answers::<()>::new("x".into()).choose(&json!({})).outcome.expect_err("no answer");
        assert!(none.message.ends_with("none have one"), "{}", none.message);
    }
}
