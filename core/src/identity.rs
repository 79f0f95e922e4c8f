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
        // Strings and lists of strings can always be written, and so can the icons that are left.
        let _ = Serializer::shaped(out, self, shape::table(version));
    }

    /// Without icons that must not be sent (META-027)
    pub(crate) fn checked(mut self) -> Self {
        self.icons.retain(crate::model::Icon::is_allowed);
        self
    }
}

/// What one side can do: flags for what the engines act on, text for what they pass on
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    flags: u16,
    /// Further members of the capability object, each with the revision that it came with
    extra: Vec<(String, RawJson, Version)>,
}

/// Every gating capability with the path that declares it
const PATHS: [(Capability, &str, &str, Version); 9] = [
    (Capability::Tools, "tools", "", Version::V2024_11_05),
    (Capability::Resources, "resources", "", Version::V2024_11_05),
    (Capability::ResourceSubscriptions, "resources", "subscribe", Version::V2024_11_05),
    (Capability::Prompts, "prompts", "", Version::V2024_11_05),
    (Capability::Completions, "completions", "", Version::V2025_03_26),
    (Capability::Logging, "logging", "", Version::V2024_11_05),
    (Capability::Roots, "roots", "", Version::V2024_11_05),
    (Capability::Sampling, "sampling", "", Version::V2024_11_05),
    (Capability::Elicitation, "elicitation", "", Version::V2025_06_18),
];

impl Capabilities {
    /// Nothing but the base protocol
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares `capability`
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        self.flags |= 1 << capability as u16;
        if capability == Capability::ResourceSubscriptions {
            self.flags |= 1 << Capability::Resources as u16;
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
        self.flags & 1 << capability as u16 != 0
    }

    /// Reads a peer's capability object; unknown members are ignored here (LIFE-015)
    pub(crate) fn read(text: &[u8]) -> Self {
        let mut read = Self::default();
        object_members(text, |name, value| {
            for (capability, member, inner, _) in PATHS {
                if member.as_bytes() != name || value.first() != Some(&b'{') {
                    continue;
                }
                if inner.is_empty() {
                    read.flags |= 1 << capability as u16;
                } else {
                    object_members(value, |name, value| {
                        if name == inner.as_bytes() && value == b"true" {
                            read.flags |= 1 << capability as u16;
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
        for (capability, member, inner, since) in PATHS {
            if !inner.is_empty() || !self.has(capability) || version < since {
                continue;
            }
            comma(out);
            write_str(out, member);
            out.push(b':');
            out.extend_from_slice(
                if capability == Capability::Resources && self.has(Capability::ResourceSubscriptions) {
                    b"{\"subscribe\":true}"
                } else {
                    b"{}"
                },
            );
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
    }
}
