//! JSON objects whose members keep their order.

use core::fmt;

use mcp_proto::{EncodeError, RawJson};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Returns the members of an object in their order. Other values have none.
pub(crate) fn members(object: &RawJson) -> Vec<(String, RawJson)> {
    object.parse::<OrderedMembers>().map(|members| members.0).unwrap_or_default()
}

/// Creates an object with these members in this order.
///
/// # Errors
///
/// Fails if a name cannot be encoded.
pub(crate) fn object(members: &[(String, RawJson)]) -> Result<RawJson, EncodeError> {
    RawJson::encode(&MembersInOrder(members))
}

struct MembersInOrder<'a>(&'a [(String, RawJson)]);

impl Serialize for MembersInOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

struct OrderedMembers(Vec<(String, RawJson)>);

impl<'de> Deserialize<'de> for OrderedMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = OrderedMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
