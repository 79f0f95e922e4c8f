//! Random values, reproducible by their seed.

use mcp_proto::RawJson;
use mcp_proto::model::{Extra, Map};
use mcp_tests::harness::Rng;
use serde_json::{Value, json};

/// A type of which random values can be drawn.
pub(crate) trait Arbitrary: Sized {
    fn any(generator: &mut ValueGenerator) -> Self;
}

/// Source of random values.
pub(crate) struct ValueGenerator {
    rng: Rng,
    /// Number of lists around the current value.
    depth: u8,
}

/// Texts with all characters that need escapes, and texts that look like escapes or JSON.
const TEXTS: [&str; 8] =
    ["", "a", "tide table", "q\"b\\s/", "é\u{1F600}\u{2028}", "\n\r\t\u{1}\u{7f}", "\\u0041", "null"];

impl ValueGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), depth: 0 }
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.rng.percent(percent)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.below(end)
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        self.rng.pick(choices).clone()
    }

    pub(crate) fn draw<T: Arbitrary>(&mut self) -> T {
        T::any(self)
    }

    /// Draws a value or none.
    pub(crate) fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.percent(50).then(|| draw(self))
    }

    pub(crate) fn opt<T: Arbitrary>(&mut self) -> Option<T> {
        self.maybe(T::any)
    }

    /// Returns whether the current value is inside a list.
    pub(crate) fn is_nested(&self) -> bool {
        self.depth > 0
    }

    /// Draws a short list, shorter at greater depth.
    pub(crate) fn list<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        self.depth += 1;
        let max_len = 4usize.saturating_sub(self.depth.into());
        let list = (0..self.below(max_len.max(1))).map(|_| draw(self)).collect();
        self.depth -= 1;
        list
    }

    pub(crate) fn some<T: Arbitrary>(&mut self) -> Vec<T> {
        self.list(T::any)
    }

    pub(crate) fn map<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Map<T> {
        let names = self.list(Self::text);
        names.into_iter().map(|name| (name, draw(self))).collect()
    }

    pub(crate) fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(2) {
            text.push_str(self.pick(&TEXTS));
        }
        text
    }

    pub(crate) fn base64(&mut self) -> String {
        self.pick(&["", "aGVsbG8=", "iVBORw0KGgo=", "AA=="]).into()
    }

    pub(crate) fn uri(&mut self) -> String {
        self.pick(&["file:///a", "https://x.example/i.png", "chart://n/1", "data:,"]).into()
    }

    /// Draws a URI that an icon may have.
    pub(crate) fn icon_source(&mut self) -> String {
        self.pick(&["https://x.example/i.png", "http://x.example/i", "data:,", "DATA:image/png;base64,AA=="])
            .into()
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.percent(50)
    }

    pub(crate) fn count(&mut self) -> u64 {
        self.pick(&[0, 1, 7, 4_294_967_296, 9_007_199_254_740_991])
    }

    /// Draws a number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.pick(&[0.0, 0.25, 0.1, 1.0])
    }

    pub(crate) fn number(&mut self) -> f64 {
        self.pick(&[0.0, 1.0, -3.0, 2.5, 1e-7, 123_456.75])
    }

    fn value(&mut self) -> Value {
        match self.below(if self.depth < 3 { 8 } else { 6 }) {
            0 => Value::Null,
            1 => json!(self.flag()),
            2 => json!(self.count()),
            3 => json!(self.number()),
            4 | 5 => json!(self.text()),
            6 => Value::Array(self.list(Self::value)),
            _ => self.members(),
        }
    }

    fn members(&mut self) -> Value {
        let names = self.list(Self::text);
        Value::Object(names.into_iter().map(|name| (name, self.value())).collect())
    }

    /// Draws any JSON value.
    pub(crate) fn json(&mut self) -> RawJson {
        raw(&self.value())
    }

    /// Draws a JSON object.
    pub(crate) fn object(&mut self) -> RawJson {
        raw(&self.members())
    }

    /// Draws a JSON value other than an object.
    pub(crate) fn non_object(&mut self) -> RawJson {
        let value = match self.value() {
            Value::Object(_) => json!([1, null]),
            other => other,
        };
        raw(&value)
    }

    /// Draws `_meta` of a request, valid in every revision.
    pub(crate) fn request_meta(&mut self) -> RawJson {
        let mut meta = self.members();
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        if self.flag() {
            meta["progressToken"] = self.pick(&[json!("t"), json!(7)]);
        }
        raw(&meta)
    }

    /// Draws the schema of an object.
    pub(crate) fn schema(&mut self) -> RawJson {
        let names = self.list(Self::text);
        let properties: Value =
            names.iter().map(|n| (n.clone(), json!({ "type": "string", "x-y": [1, null] }))).collect();
        let mut schema = json!({ "type": "object", "properties": properties, "required": names });
        if self.flag() {
            schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
            schema["additionalProperties"] = json!(false);
        }
        raw(&schema)
    }

    /// Draws members that no revision has.
    pub(crate) fn extra(&mut self) -> Extra {
        let mut extra = Extra::new();
        for name in ["x-odd", "é\"", "org.example/a"] {
            if self.percent(15) {
                extra.insert(name, self.json());
            }
        }
        extra
    }
}

pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}
