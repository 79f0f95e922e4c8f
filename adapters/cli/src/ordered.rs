//! JSON objects with their members in the order in which they came

use core::fmt;

use mcp_proto::RawJson;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The members of an object; of other values none
pub(crate) fn members(object: &RawJson) -> Vec<(String, RawJson)> {
    object.parse::<Members>().map(|members| members.0).unwrap_or_default()
}

struct Members(Vec<(String, RawJson)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Gather;
        impl<'de> Visitor<'de> for Gather {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Gather)
    }
}
