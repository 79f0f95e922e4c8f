//! Who a peer says it is, and what it says it can do.

use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{Serializer, append_one_line, object_members, write_str};
pub use crate::model::Implementation;
use crate::raw::RawJson;
use crate::shape;
use crate::version::Version;
use crate::vocab::Capability;

impl Implementation {
    /// Appends the object with the members that `version` knows (LIFE-022)
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        // Strings and lists of strings can always be written.
        let _ = Serializer::shaped(out, self, shape::table(version));
    }
}

/// What one side can do: flags for what the engines act on, text for what they pass on
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    flags: u32,
    /// Further members of the capability object, each with the revision that it came with
    extra: Vec<(String, RawJson, Version)>,
}

/// A capability and how it is declared
struct Path {
    capability: Capability,
    member: &'static str,
    /// The member within that, which is `true` or an object; empty for the object itself
    inner: &'static str,
    /// What declares it
    value: &'static [u8],
    since: Version,
    until: Version,
}

const fn object(capability: Capability, member: &'static str, since: Version) -> Path {
    Path { capability, member, inner: "", value: b"{}", since, until: Version::V2026_07_28 }
}

const fn flag(capability: Capability, member: &'static str, inner: &'static str, until: Version) -> Path {
    Path { capability, member, inner, value: b"true", since: Version::V2024_11_05, until }
}

const fn part(capability: Capability, member: &'static str, inner: &'static str) -> Path {
    let (since, until) = (Version::V2025_11_25, Version::V2026_07_28);
    Path { capability, member, inner, value: b"{}", since, until }
}

/// Every gating capability with the path that declares it; those within an object follow the object
const PATHS: [Path; 16] = {
    use Capability as C;
    const NEWEST: Version = Version::V2026_07_28;
    [
        object(C::Tools, "tools", Version::V2024_11_05),
        flag(C::ToolsListChanged, "tools", "listChanged", NEWEST),
        object(C::Resources, "resources", Version::V2024_11_05),
        flag(C::ResourceSubscriptions, "resources", "subscribe", NEWEST),
        flag(C::ResourcesListChanged, "resources", "listChanged", NEWEST),
        object(C::Prompts, "prompts", Version::V2024_11_05),
        flag(C::PromptsListChanged, "prompts", "listChanged", NEWEST),
        object(C::Completions, "completions", Version::V2025_03_26),
        object(C::Logging, "logging", Version::V2024_11_05),
        object(C::Roots, "roots", Version::V2024_11_05),
        flag(C::RootsListChanged, "roots", "listChanged", Version::V2025_11_25),
        object(C::Sampling, "sampling", Version::V2024_11_05),
        part(C::SamplingTools, "sampling", "tools"),
        part(C::SamplingContext, "sampling", "context"),
        object(C::Elicitation, "elicitation", Version::V2025_06_18),
        part(C::ElicitationUrl, "elicitation", "url"),
    ]
};

impl Capabilities {
    /// Nothing but the base protocol
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares `capability`
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        self.flags |= 1 << capability as u32;
        if let Some(inner) = PATHS.iter().find(|p| p.capability == capability && !p.inner.is_empty()) {
            let whole = PATHS.iter().find(|p| p.member == inner.member && p.inner.is_empty());
            self.flags |= whole.map_or(0, |p| 1 << p.capability as u32);
        }
        self
    }

    /// Declares extensions: identifier and settings (since 2026-07-28), or anything else that an application and
    /// its peers have agreed on (`experimental`); `since` is the first revision that the member is sent to
    #[must_use]
    pub fn with_member(mut self, name: impl Into<String>, value: RawJson, since: Version) -> Self {
        self.extra.push((name.into(), value, since));
        self
    }

    /// Whether `capability` is declared
    #[must_use]
    pub const fn has(&self, capability: Capability) -> bool {
        self.flags & 1 << capability as u32 != 0
    }

    /// Reads a peer's capability object; unknown members are ignored here (LIFE-015)
    pub(crate) fn read(text: &[u8]) -> Self {
        let mut read = Self::default();
        object_members(text, |name, value| {
            for path in PATHS.iter().filter(|p| p.member.as_bytes() == name) {
                if value.first() != Some(&b'{') {
                    continue;
                }
                let flag = 1 << path.capability as u32;
                if path.inner.is_empty() {
                    read.flags |= flag;
                } else {
                    object_members(value, |name, value| {
                        // `true`, or any object: what it holds is for others to know.
                        if name == path.inner.as_bytes() && value.first() == path.value.first() {
                            read.flags |= flag;
                        }
                    });
                }
            }
        });
        read
    }

    /// Appends the object as `version` knows it (LIFE-013, LIFE-014)
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        out.push(b'{');
        let start = out.len();
        let comma = |out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b',');
            }
        };
        let known = |p: &&Path| self.has(p.capability) && (p.since..=p.until).contains(&version);
        for whole in PATHS.iter().filter(|p| p.inner.is_empty()).filter(known) {
            comma(out);
            write_str(out, whole.member);
            out.extend_from_slice(b":{");
            let start = out.len();
            let inner = PATHS.iter().filter(|p| p.member == whole.member && !p.inner.is_empty());
            for part in inner.filter(known) {
                if out.len() > start {
                    out.push(b',');
                } else if part.capability == Capability::ElicitationUrl {
                    out.extend_from_slice(b"\"form\":{},"); // ELIC-003: alone it would mean pages only
                }
                write_str(out, part.inner);
                out.push(b':');
                out.extend_from_slice(part.value);
            }
            out.push(b'}');
        }
        for (name, value, since) in &self.extra {
            if version >= *since {
                comma(out);
                write_str(out, name);
                out.push(b':');
                append_one_line(out, value.as_bytes());
            }
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn written(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    // covers: LIFE-022
    #[test]
    fn an_identity_says_what_the_revision_knows() {
        let mut i = Implementation::new("n", "1");
        i.title = Some("T".into());
        i.website_url = Some("https://x.example".into());
        assert_eq!(written(|o| i.write(o, Version::V2025_03_26)), r#"{"name":"n","version":"1"}"#);
        assert_eq!(
            written(|o| i.write(o, Version::V2025_06_18)),
            r#"{"name":"n","version":"1","title":"T"}"#
        );
        assert!(written(|o| i.write(o, Version::V2026_07_28)).contains("websiteUrl"));
    }

    // covers: LIFE-013, LIFE-014, LIFE-015
    #[test]
    fn capabilities_are_written_per_revision_and_read_back() {
        let ext = RawJson::new("{\"a/b\":{}}").expect("JSON");
        let c = Capabilities::new()
            .with(Capability::ResourceSubscriptions)
            .with(Capability::Completions)
            .with_member("extensions", ext, Version::V2026_07_28);
        assert_eq!(written(|o| c.write(o, Version::V2024_11_05)), r#"{"resources":{"subscribe":true}}"#);
        assert_eq!(
            written(|o| c.write(o, Version::V2026_07_28)),
            r#"{"resources":{"subscribe":true},"completions":{},"extensions":{"a/b":{}}}"#
        );
        let back =
            Capabilities::read(br#"{"resources":{"subscribe":true,"x":1},"completions":{},"unknown":[]}"#);
        assert!(back.has(Capability::ResourceSubscriptions) && back.has(Capability::Resources));
        assert!(back.has(Capability::Completions) && !back.has(Capability::Tools));
        assert!(!Capabilities::read(b"{\"tools\":true}").has(Capability::Tools));
        let c = Capabilities::new()
            .with(Capability::ToolsListChanged)
            .with(Capability::RootsListChanged)
            .with(Capability::SamplingTools)
            .with(Capability::ElicitationUrl);
        let old = r#"{"tools":{"listChanged":true},"roots":{"listChanged":true},"sampling":{}"#;
        assert_eq!(written(|o| c.write(o, Version::V2025_03_26)), format!("{old}}}"));
        assert_eq!(written(|o| c.write(o, Version::V2025_06_18)), format!("{old},\"elicitation\":{{}}}}"));
        let new = r#"{"tools":{"listChanged":true},"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}"#;
        assert_eq!(written(|o| c.write(o, Version::V2026_07_28)), new);
        let back = Capabilities::read(new.as_bytes());
        assert!(back.has(Capability::ElicitationUrl) && back.has(Capability::ToolsListChanged));
        assert!(!back.has(Capability::RootsListChanged) && back.has(Capability::SamplingTools));
    }
}
