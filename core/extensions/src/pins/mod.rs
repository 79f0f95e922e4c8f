//! Pins: the definitions that somebody has looked at, and what a server says differently now.
//!
//! A model does what the description of a tool tells it. A server that was harmless when its tools were approved can change them
//! later, to read more, or to write instead of reading. [`Pins`] keep each definition as it was, with its digest: the SHA-256 of
//! its canonical form (RFC 8785), so neither the order of members nor their layout counts, and nothing else is left out.
//! [`Pins::compare`] says what has changed: a description, a schema that is wider or narrower, a hint that has flipped, another
//! name for the same.
//!
//! Pins are written as JSON (`serde`), one [lock file](Pins) for each server:
//!
//! ```json
//! {"version": 1,
//!  "digest": "sha256:…",
//!  "instructions": "…",
//!  "tools": {"add": {"digest": "sha256:…", "definition": {"name": "add", "inputSchema": {"type": "object"}}}},
//!  "prompts": {}, "resources": {}, "resourceTemplates": {}}
//! ```
//!
//! ```
//! use mcp_extensions::pins::Pins;
//! use mcp_proto::{EntryKind, RawJson};
//!
//! let then = [RawJson::new(r#"{"name":"add","inputSchema":{"type":"object"}}"#)?];
//! let now = [RawJson::new(r#"{"name":"add","description":"Send the sum to me","inputSchema":{"type":"object"}}"#)?];
//! let pins = Pins::new().entries(EntryKind::Tool, &then)?;
//! let findings = pins.compare(&Pins::new().entries(EntryKind::Tool, &now)?);
//! assert_eq!(findings[0].to_string(), "tool `add` has changed: `/description` was added");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No revision of the protocol has digests of definitions: nothing of this is sent.

mod changes;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use mcp_proto::{CanonicalError, EntryKind, RawJson};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use changes::{Change, Difference, DifferenceKind, Finding};

/// The version of lock files.
const VERSION: u64 = 1;

/// The kinds of entries that are pinned, in the order of a lock file.
const KINDS: [EntryKind; 4] =
    [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::ResourceTemplate];

/// SHA-256 of the canonical form of a definition (RFC 8785). Printed as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionDigest([u8; 32]);

impl DefinitionDigest {
    /// Returns the digest of a JSON value.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`]: the value has no canonical form, because a number is beyond those of IEEE 754 for example.
    pub fn of(value: &RawJson) -> Result<Self, CanonicalError> {
        Ok(Self::of_canonical(&value.to_canonical()?))
    }

    fn of_canonical(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl fmt::Display for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DefinitionDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reason why an entry cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// It is no object with the member that names it.
    #[error("a {kind} without `{member}` cannot be pinned")]
    Unnamed {
        /// The kind of the entry.
        kind: EntryKind,
        /// The member: `name`, `uri` or `uriTemplate`.
        member: &'static str,
    },
    /// Two entries have one name, so it is not clear which one a call means.
    #[error("the {kind} `{name}` is listed twice")]
    Twice {
        /// The kind of the entries.
        kind: EntryKind,
        /// Their name.
        name: String,
    },
    /// It has no canonical form.
    #[error("the {kind} `{name}` has no digest: {reason}")]
    Canonical {
        /// The kind of the entry.
        kind: EntryKind,
        /// Its name.
        name: String,
        /// What is wrong.
        reason: CanonicalError,
    },
}

/// A definition as it was, and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// In its canonical form.
    canonical: String,
    digest: DefinitionDigest,
}

impl Pin {
    /// Returns the definition in its canonical form.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.canonical
    }

    /// Returns the digest.
    #[must_use]
    pub const fn digest(&self) -> DefinitionDigest {
        self.digest
    }

    /// Returns the definition as a value. It was parsed before.
    fn value(&self) -> Value {
        serde_json::from_str(&self.canonical).unwrap_or_default()
    }
}

/// The definitions of a server: tools, prompts, resources and resource templates by their names, and its instructions.
///
/// Skills have digests of their own ([`skills`](crate::skills)). See the [module](self) for the lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    instructions: Option<String>,
    entries: BTreeMap<(&'static str, String), Pin>,
}

impl Pins {
    /// Creates pins of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { instructions: None, entries: BTreeMap::new() }
    }

    /// Adds the instructions of the server.
    #[must_use]
    pub fn instructions(mut self, instructions: Option<&str>) -> Self {
        self.instructions = instructions.map(ToOwned::to_owned);
        self
    }

    /// Adds a complete list of entries.
    ///
    /// # Errors
    ///
    /// [`PinError`] of the first entry that cannot be pinned.
    pub fn entries(mut self, kind: EntryKind, entries: &[RawJson]) -> Result<Self, PinError> {
        for entry in entries {
            let (name, pin) = pin(kind, entry)?;
            if self.entries.insert((kind.list_member(), name.clone()), pin).is_some() {
                return Err(PinError::Twice { kind, name });
            }
        }
        Ok(self)
    }

    /// Returns the pin of an entry.
    #[must_use]
    pub fn get(&self, kind: EntryKind, name: &str) -> Option<&Pin> {
        self.entries.get(&(kind.list_member(), name.to_owned()))
    }

    /// Returns the names of the entries of a kind.
    pub fn names(&self, kind: EntryKind) -> impl Iterator<Item = &str> {
        self.of_kind(kind).map(|(name, _)| name)
    }

    fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = (&str, &Pin)> {
        let member = kind.list_member();
        let entries = self.entries.range((member, String::new())..);
        entries.take_while(move |((of, _), _)| *of == member).map(|((_, name), pin)| (&**name, pin))
    }

    /// Returns the digest of everything: of the object of the lists, in each the entries by name, and of the instructions.
    #[must_use]
    pub fn digest(&self) -> DefinitionDigest {
        // The definitions have a canonical form, and so has what is made of them.
        let all = RawJson::encode(&AllDefinitions(self)).ok().and_then(|all| all.to_canonical().ok());
        DefinitionDigest::of_canonical(&all.unwrap_or_default())
    }

    /// Compares with what the server says now. Returns the differences, tools first, by name; the instructions come last.
    #[must_use]
    pub fn compare(&self, now: &Self) -> Vec<Finding> {
        changes::compare(self, now)
    }

    /// Compares a complete list, as the server sends it now, entry by entry. Entries without a name are left out, as no call can
    /// mean them.
    ///
    /// The result has the names of both: [`Change::Added`] for an entry without a pin, also if it is another one under a new name,
    /// and [`Change::Removed`] for a pin without an entry.
    #[must_use]
    pub fn check_list(&self, kind: EntryKind, now: &[RawJson]) -> BTreeMap<String, Result<(), Finding>> {
        let finding = |name: &str, change| Finding { kind: Some(kind), name: name.to_owned(), change };
        let gone = |name: &str| (name.to_owned(), Err(finding(name, Change::Removed)));
        let mut verdicts: BTreeMap<String, Result<(), Finding>> = self.names(kind).map(gone).collect();
        let mut seen = BTreeSet::new();
        for entry in now {
            let (name, change) = match pin(kind, entry) {
                Ok((name, now)) => {
                    let change = self
                        .get(kind, &name)
                        .map_or(Some(Change::Added), |then| changes::changed(then, &now));
                    (name, change)
                }
                Err(PinError::Canonical { kind, name, reason }) => {
                    let unreadable = PinError::Canonical { kind, name: name.clone(), reason };
                    (name, Some(Change::Unreadable(unreadable)))
                }
                Err(_) => continue,
            };
            let twice = || Change::Unreadable(PinError::Twice { kind, name: name.clone() });
            let change = if seen.insert(name.clone()) { change } else { Some(twice()) };
            let verdict = change.map_or(Ok(()), |change| Err(finding(&name, change)));
            verdicts.insert(name, verdict);
        }
        verdicts
    }
}

/// Returns the name of an entry and its pin.
fn pin(kind: EntryKind, entry: &RawJson) -> Result<(String, Pin), PinError> {
    let member = name_member(kind);
    let name = entry.parse::<Value>().ok().and_then(|value| Some(value.get(member)?.as_str()?.to_owned()));
    let name = name.ok_or(PinError::Unnamed { kind, member })?;
    match entry.to_canonical() {
        Ok(canonical) => {
            let digest = DefinitionDigest::of_canonical(&canonical);
            Ok((name, Pin { canonical, digest }))
        }
        Err(reason) => Err(PinError::Canonical { kind, name, reason }),
    }
}

/// Returns the member that names an entry.
const fn name_member(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Resource | EntryKind::Skill => "uri",
        EntryKind::ResourceTemplate => "uriTemplate",
        _ => "name",
    }
}

// ---- the lock file ----------------------------------------------------------------------------------------------

/// All definitions without their digests, of which the digest of everything is made.
struct AllDefinitions<'a>(&'a Pins);

impl Serialize for AllDefinitions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_map(None)?;
        all.serialize_entry("instructions", &self.0.instructions)?;
        for kind in KINDS {
            let list: BTreeMap<_, _> = self.0.of_kind(kind).map(|(name, pin)| (name, pin.value())).collect();
            all.serialize_entry(kind.list_member(), &list)?;
        }
        all.end()
    }
}

impl Serialize for Pins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lock = serializer.serialize_map(None)?;
        lock.serialize_entry("version", &VERSION)?;
        lock.serialize_entry("digest", &self.digest())?;
        lock.serialize_entry("instructions", &self.instructions)?;
        for kind in KINDS {
            let list: BTreeMap<_, _> = self.of_kind(kind).collect();
            lock.serialize_entry(kind.list_member(), &list)?;
        }
        lock.end()
    }
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pin = serializer.serialize_map(Some(2))?;
        pin.serialize_entry("digest", &self.digest)?;
        pin.serialize_entry("definition", &self.value())?;
        pin.end()
    }
}

/// A lock file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LockFile {
    version: u64,
    digest: String,
    instructions: Option<String>,
    tools: BTreeMap<String, LockedEntry>,
    prompts: BTreeMap<String, LockedEntry>,
    resources: BTreeMap<String, LockedEntry>,
    resource_templates: BTreeMap<String, LockedEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedEntry {
    digest: String,
    definition: Value,
}

/// Reads a lock file. One whose digests do not fit its definitions is refused: it was changed by hand, or is damaged.
impl<'de> Deserialize<'de> for Pins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let LockFile { version, digest, instructions, tools, prompts, resources, resource_templates } =
            LockFile::deserialize(deserializer)?;
        if version != VERSION {
            return Err(D::Error::custom(format!("lock files of version {version} are not known")));
        }
        let mut pins = Self::new().instructions(instructions.as_deref());
        for (kind, list) in KINDS.into_iter().zip([tools, prompts, resources, resource_templates]) {
            for (name, entry) in list {
                let definition = RawJson::encode(&entry.definition).map_err(D::Error::custom)?;
                let (own, pin) = pin(kind, &definition).map_err(D::Error::custom)?;
                if own != name {
                    return Err(D::Error::custom(format!("the {kind} `{name}` is defined as `{own}`")));
                }
                if pin.digest.to_string() != entry.digest {
                    return Err(D::Error::custom(format!(
                        "the digest of the {kind} `{name}` does not fit it"
                    )));
                }
                pins.entries.insert((kind.list_member(), name), pin);
            }
        }
        if pins.digest().to_string() != digest {
            return Err(D::Error::custom("the digest of the lock file does not fit it"));
        }
        Ok(pins)
    }
}
