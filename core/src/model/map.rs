//! JSON objects with free member names.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::message::{MemberKey, prefix_path};
use crate::json::find_duplicate;
use crate::raw::RawJson;
use crate::rpc::clip;

/// A JSON object from names to values that keeps the order of its members.
///
/// Lookup is linear, because such objects are small. Reading refuses an object with two equal names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<V>(Vec<(String, V)>);

/// Members that a type does not know.
///
/// They are written after the known members (BASE-010, META-008).
pub type Extra = Map<RawJson>;

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Map<V> {
    /// Creates an empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Sets a member and returns its previous value.
    pub fn insert(&mut self, name: impl Into<String>, value: V) -> Option<V> {
        let name = name.into();
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => Some(core::mem::replace(old, value)),
            None => {
                push(&mut self.0, (name, value));
                None
            }
        }
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Iterates over all members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the object is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an index for lookup that is logarithmic in many members, for objects whose size a peer decides.
    pub(super) fn index(&self) -> MapIndex<'_, V> {
        let mut sorted = Vec::new();
        if self.0.len() > FEW_MEMBERS {
            sorted.extend(self.iter());
            sorted.sort_by_key(|(name, _)| *name);
        }
        MapIndex { map: self, sorted }
    }

    /// Appends members whose names are not present yet.
    pub(super) fn append_new(&mut self, mut members: Vec<(String, V)>) {
        self.0.append(&mut members);
    }

    pub(super) fn map<W>(self, f: impl Fn(V) -> W) -> Map<W> {
        Map(self.0.into_iter().map(|(name, value)| (name, f(value))).collect())
    }

    /// Refuses duplicate members.
    #[doc(hidden)]
    pub fn reject_duplicates<E: de::Error>(self) -> Result<Self, E> {
        // Nearly all: unknown members are looked through after each object that is read.
        if self.0.len() < 2 {
            return Ok(self);
        }
        match find_duplicate(self.0.iter().map(|(name, _)| name.as_bytes())) {
            Some(name) => Err(E::custom(format_args!(
                "duplicate field `{}`",
                clip(core::str::from_utf8(name).unwrap_or_default())
            ))),
            None => Ok(self),
        }
    }
}

/// Appends a member. The first one gets no room for others: many objects have one, and the values are large.
fn push<M>(members: &mut Vec<M>, member: M) {
    if members.is_empty() {
        members.reserve_exact(1);
    }
    members.push(member);
}

/// Largest number of members that are searched one by one.
const FEW_MEMBERS: usize = 8;

/// An index of the members of a [`Map`].
pub(super) struct MapIndex<'a, V> {
    map: &'a Map<V>,
    /// The members by name, if there are many.
    sorted: Vec<(&'a str, &'a V)>,
}

impl<'a, V> MapIndex<'a, V> {
    pub(super) fn get(&self, name: &str) -> Option<&'a V> {
        if self.sorted.is_empty() {
            return self.map.get(name);
        }
        let at = self.sorted.binary_search_by_key(&name, |(name, _)| *name).ok()?;
        self.sorted.get(at).map(|(_, value)| *value)
    }
}

impl Extra {
    #[doc(hidden)]
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        name: &MemberKey<'_>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        push(&mut self.0, (String::from(&*name.0), map.next_value()?));
        Ok(())
    }

    /// Writes the members, except those whose names are `known`.
    #[doc(hidden)]
    pub fn write<M: SerializeMap>(&self, map: &mut M, known: &[&str]) -> Result<(), M::Error> {
        let unknown = self.0.iter().filter(|(name, _)| !known.contains(&&**name));
        unknown.into_iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Map<V> {
    /// Collects members; of two equal names the later one wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut map = Self::new();
        for (name, value) in members {
            map.insert(name, value);
        }
        map
    }
}

impl<K: Into<String>, V, const N: usize> From<[(K, V); N]> for Map<V> {
    fn from(members: [(K, V); N]) -> Self {
        members.into_iter().collect()
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = alloc::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = Map<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<V>, A::Error> {
                let mut members = Vec::new();
                while let Some(MemberKey(name)) = map.next_key::<MemberKey<'de>>()? {
                    let value = map.next_value().map_err(|e| prefix_path(&name, &e))?;
                    push(&mut members, (name.into_owned(), value));
                }
                Map(members).reject_duplicates()
            }
        }
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    // covers: BASE-010
    #[test]
    fn map_keeps_order_and_refuses_duplicates() {
        let map: Map<u8> = serde_json::from_str(r#"{"b":1,"a":2}"#).expect("a map");
        assert_eq!(serde_json::to_string(&map).expect("JSON"), r#"{"b":1,"a":2}"#);
        let twice = serde_json::from_str::<Map<u8>>(r#"{"b":1,"a":2,"\u0062":3}"#).expect_err("twice");
        assert!(twice.to_string().contains("duplicate field `b`"), "{twice}");
        let wrong = serde_json::from_str::<Map<u8>>(r#"{"b":{}}"#).expect_err("no number");
        assert!(wrong.to_string().starts_with("`b`: invalid type"), "{wrong}");
        let mut map: Map<u8> = [("x", 1), ("y", 2)].into();
        assert_eq!((map.insert("x", 3), map.remove("y"), map.len()), (Some(1), Some(2), 1));
        assert_eq!(map.get("x"), Some(&3));
    }

    #[test]
    fn few_and_many_members_are_found_alike() {
        for len in 0..3 * FEW_MEMBERS {
            let map: Map<usize> = (0..len).map(|n| (alloc::format!("m{}", n * 7 % 31), n)).collect();
            let index = map.index();
            assert!(
                map.iter().all(|(name, value)| index.get(name) == Some(value)) && index.get("x").is_none()
            );
            let text = serde_json::to_string(&map).expect("JSON");
            assert_eq!(serde_json::from_str::<Map<usize>>(&text).expect("a map"), map);
            for repeated in 0..len {
                let name = alloc::format!("m{}", repeated * 7 % 31);
                let twice = alloc::format!("{},\"{name}\":0}}", text.trim_end_matches('}'));
                let error = serde_json::from_str::<Map<usize>>(&twice).expect_err("twice");
                assert!(error.to_string().contains(&alloc::format!("duplicate field `{name}`")), "{error}");
            }
        }
    }

    #[test]
    fn extra_member_with_known_name_is_not_written() {
        let mut tool = super::super::Tool::new("t", RawJson::new("{\"type\":\"object\"}").expect("JSON"));
        tool.extra.insert("name", RawJson::new("1").expect("JSON"));
        tool.extra.insert("x", RawJson::new("1").expect("JSON"));
        let text = serde_json::to_string(&tool).expect("JSON");
        assert_eq!(text, r#"{"name":"t","inputSchema":{"type":"object"},"x":1}"#);
    }
}
