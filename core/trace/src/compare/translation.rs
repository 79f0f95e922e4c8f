//! Ids, progress tokens and states that an engine allots itself differ from those that were recorded: a replay knows both.

use std::collections::HashMap;

use mcp_proto::{MemberEdit, RawJson};

use crate::message::Message;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Pairs of values that mean the same, found by their text.
#[derive(Debug, Default)]
struct Pairs {
    to_engine: HashMap<String, RawJson>,
    to_recorded: HashMap<String, RawJson>,
}

impl Pairs {
    fn insert(&mut self, recorded: &RawJson, engine: &RawJson) {
        self.to_recorded.insert(engine.as_str().to_owned(), recorded.clone());
        self.to_engine.insert(recorded.as_str().to_owned(), engine.clone());
    }
}

/// What an engine calls by other names than the recording.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    ids: Pairs,
    tokens: Pairs,
    states: Pairs,
}

impl Translation {
    /// Learns that a message of the engine stands for a recorded one.
    pub(crate) fn learn(&mut self, recorded: &Message, engine: &Message) {
        if let (true, Some(a), Some(b)) = (recorded.is_request(), &recorded.id, &engine.id) {
            self.ids.insert(a, b);
            let token = |message: &Message| message.param("_meta")?.member("progressToken");
            if let (Some(a), Some(b)) = (token(recorded), token(engine)) {
                self.tokens.insert(&a, &b);
            }
        }
    }

    /// Learns the state of a response that asks for input, which the engine has sealed itself.
    pub(crate) fn learn_state(&mut self, recorded: &Message, engine: &Message) {
        let state = |message: &Message| message.result.as_ref()?.member("requestState");
        if let (true, Some(a), Some(b)) = (recorded.is_counterpart(engine), state(recorded), state(engine)) {
            self.states.insert(&a, &b);
        }
    }

    /// Returns the id by which the engine knows a request that it was made to send.
    pub(crate) fn engine_id(&self, recorded: &RawJson) -> Option<&RawJson> {
        self.ids.to_engine.get(recorded.as_str())
    }

    /// Translates what the peer of the engine says.
    pub(crate) fn input(&self, message: &Message) -> RawJson {
        let Self { ids, tokens, states } = self;
        let json = match message.is_response() {
            true => replace(&message.json, &["id"], &ids.to_engine),
            false => message.json.clone(),
        };
        let json = replace(&json, &["params", "progressToken"], &tokens.to_engine);
        let json = replace(&json, &["params", "_meta", SUBSCRIPTION_ID], &ids.to_engine);
        let json = replace(&json, &["result", "_meta", SUBSCRIPTION_ID], &ids.to_engine);
        replace(&json, &["params", "requestState"], &states.to_engine)
    }

    /// Translates what the engine says.
    pub(crate) fn output(&self, message: &Message) -> Message {
        let Self { ids, tokens, states } = self;
        let mut json = message.json.clone();
        if message.is_request() {
            json = replace(&json, &["id"], &ids.to_recorded);
            json = replace(&json, &["params", "_meta", "progressToken"], &tokens.to_recorded);
        }
        json = replace(&json, &["params", "requestId"], &ids.to_recorded);
        Message::new(replace(&json, &["result", "requestState"], &states.to_recorded))
    }
}

/// Replaces the value at a path, if it is one of these.
fn replace(json: &RawJson, path: &[&str], values: &HashMap<String, RawJson>) -> RawJson {
    let Some((first, rest)) = path.split_first() else {
        return values.get(json.as_str()).unwrap_or(json).clone();
    };
    if values.is_empty() || json.member(first).is_none() {
        return json.clone();
    }
    let edited = json.edit_members(|name, value| match name == *first {
        true => MemberEdit::Replace(replace(&value, rest, values)),
        false => MemberEdit::Keep,
    });
    edited.unwrap_or_else(|| json.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_engine_are_translated_in_both_directions() {
        let message = |text: &str| Message::parse(text.as_bytes()).expect(text);
        let mut translation = Translation::default();
        translation.learn(
            &message(r#"{"id":"a","method":"m","params":{"_meta":{"progressToken":"t"}}}"#),
            &message(r#"{"id":7,"method":"m","params":{"_meta":{"progressToken":7}}}"#),
        );
        let input = |text: &str| translation.input(&message(text)).as_str().to_owned();
        assert_eq!(input(r#"{"id":"a","result":{}}"#), r#"{"id":7,"result":{}}"#);
        assert_eq!(
            input(r#"{"method":"p","params":{"progressToken":"t"}}"#),
            r#"{"method":"p","params":{"progressToken":7}}"#
        );
        // An id that the peer has allotted is its own.
        let request = r#"{"id":"a","method":"ping"}"#;
        assert_eq!(input(request), request);
        let output = |text: &str| translation.output(&message(text)).json.as_str().to_owned();
        let cancellation = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(output(cancellation), cancellation.replace('7', "\"a\""));
    }
}
