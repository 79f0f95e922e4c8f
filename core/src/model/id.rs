//! Request ids and progress tokens as members of messages.

use alloc::string::ToString;

use serde::{Deserialize, Serialize, de};
use serde_json::value::RawValue;

use crate::raw::RawJson;
use crate::rpc::RequestId;

/// Writes the id as it was received, in the peer's spelling (BASE-008).
impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        match text.parse() {
            Ok(int) => serializer.serialize_i64(int),
            // A string with its quotes, or an integer in another spelling.
            Err(_) => RawJson::trusted(text.into()).serialize(serializer),
        }
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::int(id)
    }
}

/// Works with JSON text only, like [`RawJson`].
impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &RawValue = Deserialize::deserialize(deserializer)?;
        Self::from_json(raw.get().as_bytes(), usize::MAX)
            .ok_or_else(|| de::Error::custom("expected a string or a 64-bit integer"))
    }
}
