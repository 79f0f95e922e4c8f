//! Sealing and opening the state of a call.

use core::hint::black_box;

use mcp_proto::seal::{Binding, Keys, RequestState, digest};

use super::{Scenario, TEXT};

/// Bytes of the sealed record.
const PAYLOAD: usize = 200;
const EXPIRES: u64 = 1_800_000_000;
const LIMIT: usize = 32 << 10;

/// From a record and the text of the arguments to a sealed text.
#[derive(Debug)]
pub struct SealState {
    keys: Keys,
    arguments: String,
    state: String,
}

impl SealState {
    /// Returns the scenario with arguments of 100 bytes and a record of 200.
    #[must_use]
    pub fn new() -> Self {
        let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(TEXT - 11));
        assert_eq!(arguments.len(), TEXT);
        let mut new = Self { keys: Keys::new([7; 32]).with_older([3; 32]), arguments, state: String::new() };
        new.state = "s".repeat(PAYLOAD - new.record().encode().len() - 1);
        assert_eq!(new.record().encode().len(), PAYLOAD);
        new
    }

    fn record(&self) -> RequestState<'_> {
        let answer = r#"{"action":"accept","content":{"name":"Alice","ok":true}}"#;
        RequestState { attempt: 2, state: self.state.as_bytes(), answers: vec![("who", answer)] }
    }

    fn binding(&self) -> Binding<'_> {
        let arguments = digest(Some(black_box(self.arguments.as_bytes()))).expect("JSON");
        Binding { principal: Some("alice"), method: "tools/call", target: "echo", arguments }
    }

    fn seal(&self) -> String {
        let payload = black_box(self.record()).encode();
        self.keys.seal(&self.binding(), EXPIRES, &payload, LIMIT).expect("a text")
    }
}

impl Default for SealState {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for SealState {
    fn run_once(&mut self) {
        black_box(self.seal());
    }
}

/// From a sealed text to its record.
#[derive(Debug)]
pub struct OpenState {
    seal: SealState,
    text: String,
}

impl OpenState {
    /// Returns the scenario with the text of [`SealState`].
    #[must_use]
    pub fn new() -> Self {
        let seal = SealState::new();
        Self { text: seal.seal(), seal }
    }
}

impl Default for OpenState {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for OpenState {
    fn run_once(&mut self) {
        let binding = self.seal.binding();
        let payload = self.seal.keys.open(&binding, EXPIRES - 1, black_box(&self.text), LIMIT);
        black_box(RequestState::decode(&payload.expect("a payload"))).expect("a record");
    }
}
