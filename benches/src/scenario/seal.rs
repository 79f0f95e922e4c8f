//! Sealing and opening the state of a call.

use core::hint::black_box;

use mcp_proto::seal::{Binding, Keys, Record, digest};

use super::{Scenario, TEXT};

/// Bytes of the record that is sealed
const PAYLOAD: usize = 200;
const EXPIRES: u64 = 1_800_000_000;
const LIMIT: usize = 32 << 10;

/// From a record and the text of the arguments to a sealed text
#[derive(Debug)]
pub struct Seal {
    keys: Keys,
    arguments: String,
    state: String,
}

impl Seal {
    /// With arguments of 100 bytes and a record of 200
    #[must_use]
    pub fn new() -> Self {
        let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(TEXT - 11));
        assert_eq!(arguments.len(), TEXT);
        let mut new = Self { keys: Keys::new([7; 32]).older([3; 32]), arguments, state: String::new() };
        new.state = "s".repeat(PAYLOAD - new.record().encode().len() - 1);
        assert_eq!(new.record().encode().len(), PAYLOAD);
        new
    }

    fn record(&self) -> Record<'_> {
        let answer = r#"{"action":"accept","content":{"name":"Alice","ok":true}}"#;
        Record { attempt: 2, state: self.state.as_bytes(), answers: vec![("who", answer)] }
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

impl Default for Seal {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Seal {
    fn op(&mut self) {
        black_box(self.seal());
    }
}

/// The way back
#[derive(Debug)]
pub struct Open {
    seal: Seal,
    text: String,
}

impl Open {
    /// With the text that [`Seal`] makes
    #[must_use]
    pub fn new() -> Self {
        let seal = Seal::new();
        Self { text: seal.seal(), seal }
    }
}

impl Default for Open {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for Open {
    fn op(&mut self) {
        let binding = self.seal.binding();
        let payload = self.seal.keys.open(&binding, EXPIRES - 1, black_box(&self.text), LIMIT);
        black_box(Record::decode(&payload.expect("a payload"))).expect("a record");
    }
}
