//! Extensions of a peer: `capabilities.extensions`, in every revision (EXT-001, EXT-009, SEP-2133).

use alloc::string::String;
use alloc::vec::Vec;

use super::{Capabilities, capability_bit, push_comma};
use crate::json::{append_one_line, object_members, write_str};
use crate::meta;
use crate::methods::Capability;
use crate::raw::RawJson;
use crate::version::Version;

/// The member of the capability object.
pub(super) const MEMBER: &str = "extensions";

/// The reason why an extension cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionError {
    /// The identifier is not a vendor prefix, a slash and a name (EXT-002).
    #[error("`{0}` is not an extension identifier: expected `vendor-prefix/name`")]
    Identifier(String),
    /// The settings are not a JSON object (EXT-003).
    #[error("the settings of the extension `{0}` are not a JSON object")]
    Settings(String),
}

/// The revision of a declaration that is for all of them.
const FIRST: Version = Version::V2024_11_05;

/// The revision whose declarations are those of the application, which looks at them without a revision.
const LAST: Version = Version::V2026_07_28;

/// Number of extensions that are read of one object: each is searched for among the others.
const MAX_EXTENSIONS: usize = 256;

/// Names with their values, each from a revision on.
///
/// Invariant: of entries with the same name, the later one is of a later revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declarations(Vec<(String, RawJson, Version)>);

impl Declarations {
    /// Adds a value for a revision and those after it, or replaces what these had.
    pub(super) fn insert(&mut self, name: String, value: RawJson, since: Version) {
        self.0.retain(|(known, _, of)| *known != name || *of <= since);
        match self.0.iter_mut().find(|(known, _, of)| *known == name && *of == since) {
            Some((_, known, _)) => *known = value,
            None => self.0.push((name, value, since)),
        }
    }

    /// Returns the names and values of a revision.
    pub(super) fn of(&self, version: Version) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0
            .iter()
            .filter(move |(name, _, since)| {
                // Revisions first: the entries of a peer, which may be many, are all of the oldest.
                let replaces = |(other, _, of): &(String, RawJson, Version)| {
                    of > since && *of <= version && other == name
                };
                *since <= version && !self.0.iter().any(replaces)
            })
            .map(|(name, value, _)| (&**name, value))
    }
}

/// Extensions with their settings, by identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions(Declarations);

impl Extensions {
    /// Adds an extension for a revision and those after it, or replaces its settings for these.
    fn insert(&mut self, id: &str, settings: RawJson, since: Version) -> Result<(), ExtensionError> {
        if !meta::is_extension_id(id) {
            return Err(ExtensionError::Identifier(id.into()));
        }
        if !settings.is_object() {
            return Err(ExtensionError::Settings(id.into()));
        }
        self.0.insert(id.into(), settings, since);
        Ok(())
    }

    /// Adds an extension with a valid identifier and valid settings, unless it is declared.
    pub(super) fn insert_if_absent(&mut self, id: &str, settings: RawJson) {
        if self.iter().all(|(known, _)| known != id) {
            self.0.insert(id.into(), settings, FIRST);
        }
    }

    /// Adds the extensions of a member `extensions`, up to [`MAX_EXTENSIONS`]. Entries that are not valid are left out.
    pub(super) fn merge(&mut self, member: &[u8]) {
        object_members(member, |id, settings| {
            if self.0.0.len() < MAX_EXTENSIONS {
                // Copied, because a part of the frame would keep the whole frame alive for the whole session.
                let settings = RawJson::trusted(bytes::Bytes::copy_from_slice(settings));
                let _ = core::str::from_utf8(id).map(|id| self.insert(id, settings, FIRST));
            }
        });
    }

    /// Returns the flags of the capabilities that the extensions stand for.
    pub(super) fn flags(&self) -> u32 {
        self.iter().fold(0, |all, (id, text)| all | flags(id.as_bytes(), text.as_bytes()))
    }

    /// Returns the extensions of the newest revision by identifier.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.of(LAST)
    }

    /// Appends the member `extensions` with what `version` has, unless that is nothing.
    pub(super) fn write(&self, out: &mut Vec<u8>, version: Version, object_start: usize) {
        let mut start = None;
        for (id, settings) in self.0.of(version).filter(|(id, _)| meta::extension_exists_in(id, version)) {
            let start = *start.get_or_insert_with(|| {
                push_comma(out, object_start);
                write_str(out, MEMBER);
                out.extend_from_slice(b":{");
                out.len()
            });
            push_comma(out, start);
            write_str(out, id);
            out.push(b':');
            append_one_line(out, settings.as_bytes());
        }
        if start.is_some() {
            out.push(b'}');
        }
    }
}

/// The capabilities that are extensions, or settings of them.
pub(super) const CAPABILITIES: [Capability; 3] =
    [Capability::Skills, Capability::DirectoryRead, Capability::TasksExtension];

const SKILLS: u32 = capability_bit(Capability::Skills);
const DIRECTORY_READ: u32 = capability_bit(Capability::DirectoryRead);
const TASKS: u32 = capability_bit(Capability::TasksExtension);
pub(super) const ALL_FLAGS: u32 = SKILLS | DIRECTORY_READ | TASKS;

/// Returns the flags of the capabilities that an extension with these settings stands for (SKILL-001, SKILL-003, TASK-101).
pub(super) fn flags(id: &[u8], settings: &[u8]) -> u32 {
    // A value that is no object declares nothing (EXT-003).
    if settings.first() != Some(&b'{') {
        return 0;
    }
    if id == meta::TASKS_EXTENSION.as_bytes() {
        return TASKS;
    }
    if id != meta::SKILLS_EXTENSION.as_bytes() {
        return 0;
    }
    let mut flags = SKILLS;
    object_members(settings, |name, value| {
        if name == meta::SKILLS_DIRECTORY_READ.as_bytes() && value == b"true" {
            flags |= DIRECTORY_READ;
        }
    });
    flags
}

impl Capabilities {
    /// Declares an extension with its settings, `{}` for none (EXT-001, EXT-003, EXT-006).
    ///
    /// The declaration is sent in every revision, except that of `io.modelcontextprotocol/tasks`, which exists since
    /// 2026-07-28 (TASK-130). The settings of an extension that is declared already are replaced.
    ///
    /// ```
    /// use mcp_proto::{Capabilities, RawJson};
    ///
    /// let settings = RawJson::new(r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#)?;
    /// let capabilities = Capabilities::new().extension("io.modelcontextprotocol/ui", settings)?;
    /// assert!(capabilities.has_extension("io.modelcontextprotocol/ui"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ExtensionError`] if the identifier is not valid ([`is_extension_id`](crate::meta::is_extension_id)) or the
    /// settings are not an object.
    pub fn extension(self, id: &str, settings: RawJson) -> Result<Self, ExtensionError> {
        self.extension_since(id, settings, FIRST)
    }

    /// Declares an extension as [`extension`](Self::extension) does, for a revision and those after it. Revisions before keep the
    /// declaration that was made for them, or have none: one with other settings, or none, for clients of an older era.
    ///
    /// # Errors
    ///
    /// As [`extension`](Self::extension).
    pub fn extension_since(
        mut self,
        id: &str,
        settings: RawJson,
        since: Version,
    ) -> Result<Self, ExtensionError> {
        self.change_named(|named| named.extensions.insert(id, settings, since))?;
        Ok(self)
    }

    /// Withdraws the declaration of an extension.
    #[must_use]
    pub fn without_extension(mut self, id: &str) -> Self {
        self.change_named(|named| named.extensions.0.0.retain(|(known, ..)| known != id));
        self
    }

    /// Declares the extensions of `other` that are not declared here.
    pub(crate) fn adopt_extensions(&mut self, other: &Self) {
        let known: Vec<String> = self.extensions().map(|(id, _)| id.into()).collect();
        for (id, settings, since) in other.named.iter().flat_map(|named| &named.extensions.0.0) {
            if !known.contains(id) {
                self.change_named(|named| named.extensions.0.insert(id.clone(), settings.clone(), *since));
            }
        }
    }

    /// Declares the extension for skills, with directories if `capability` is that one.
    pub(super) fn with_skills(mut self, capability: Capability) -> Self {
        let settings: &'static [u8] = match capability {
            Capability::DirectoryRead => b"{\"directoryRead\":true}",
            _ if self.has(Capability::Skills) => return self,
            _ => b"{}",
        };
        let settings = RawJson::trusted(bytes::Bytes::from_static(settings));
        // Cannot fail: both arguments are valid.
        let _ = self.change_named(|named| named.extensions.insert(meta::SKILLS_EXTENSION, settings, FIRST));
        self
    }

    /// Returns whether an extension is declared.
    #[must_use]
    pub fn has_extension(&self, id: &str) -> bool {
        self.extensions().any(|(known, _)| known == id)
    }

    /// Returns whether an extension is declared to clients of a revision.
    pub(crate) fn declares_extension(&self, id: &str, version: Version) -> bool {
        let mut declared = self.named.iter().flat_map(|named| named.extensions.0.of(version));
        meta::extension_exists_in(id, version) && declared.any(|(known, _)| known == id)
    }

    /// Iterates over the declared extensions and their settings, as they are in the newest revision.
    pub fn extensions(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.named.iter().flat_map(|named| named.extensions.iter())
    }
}

/// Returns the settings of an extension in the capability object of a peer.
///
/// `None` if the peer did not declare it in a valid form, or if `version` lacks it (TASK-130).
pub(crate) fn declared_extension(capabilities: &RawJson, id: &str, version: Version) -> Option<RawJson> {
    // Checked for the revision first: a legacy client may send the member, which then means nothing (TASK-130).
    if !meta::is_extension_id(id) || !meta::extension_exists_in(id, version) {
        return None;
    }
    capabilities.member(MEMBER)?.member(id).filter(RawJson::is_object)
}
