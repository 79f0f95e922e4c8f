//! Who a peer says it is, and what it says it can do.

use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{Serializer, append_one_line, object_members, write_str};
pub use crate::model::Implementation;
use crate::raw::RawJson;
use crate::shape;
use crate::version::Version;
use crate::vocab::Capability;

mod needs;

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
    flags: u32,
    /// Further members of the capability object, each with the revision that it came with
    extra: Vec<(String, RawJson, Version)>,
}

/// A capability, and how it is declared
struct Declared {
    capability: Capability,
    member: &'static str,
    /// A member of that member, with its value
    inner: Option<(&'static str, &'static str)>,
    since: Version,
}

const fn row(capability: Capability, member: &'static str, since: Version) -> Declared {
    Declared { capability, member, inner: None, since }
}

impl Declared {
    const fn by(self, inner: &'static str, value: &'static str) -> Self {
        Self { inner: Some((inner, value)), ..self }
    }

    /// Whether a member within the member declares it: a flag that is set, or an object whatever it holds
    fn is_said_by(&self, name: &[u8], value: &[u8]) -> bool {
        let Some((inner, expected)) = self.inner else { return false };
        inner.as_bytes() == name && value.starts_with(if expected == "true" { b"true" } else { b"{" })
    }
}

/// Every capability that gates something; what stands within another comes behind it
static DECLARED: [Declared; 17] = {
    use Capability as C;
    use Version as V;
    [
        row(C::Tools, "tools", V::V2024_11_05),
        row(C::ToolsListChanged, "tools", V::V2024_11_05).by("listChanged", "true"),
        row(C::Resources, "resources", V::V2024_11_05),
        row(C::ResourceSubscriptions, "resources", V::V2024_11_05).by("subscribe", "true"),
        row(C::ResourcesListChanged, "resources", V::V2024_11_05).by("listChanged", "true"),
        row(C::Prompts, "prompts", V::V2024_11_05),
        row(C::PromptsListChanged, "prompts", V::V2024_11_05).by("listChanged", "true"),
        row(C::Completions, "completions", V::V2025_03_26),
        row(C::Logging, "logging", V::V2024_11_05),
        row(C::Roots, "roots", V::V2024_11_05),
        row(C::RootsListChanged, "roots", V::V2024_11_05).by("listChanged", "true"),
        row(C::Sampling, "sampling", V::V2024_11_05),
        row(C::SamplingTools, "sampling", V::V2025_11_25).by("tools", "{}"),
        row(C::SamplingContext, "sampling", V::V2025_11_25).by("context", "{}"),
        row(C::Elicitation, "elicitation", V::V2025_06_18),
        row(C::ElicitationForm, "elicitation", V::V2025_11_25).by("form", "{}"),
        row(C::ElicitationUrl, "elicitation", V::V2025_11_25).by("url", "{}"),
    ]
};

impl Capabilities {
    /// Nothing but the base protocol
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares `capability`, and what it is a part of
    ///
    /// [`Capability::Elicitation`] alone means forms, as it does on the wire (ELIC-003, ELIC-004).
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        let whole = match capability {
            Capability::ToolsListChanged => Capability::Tools,
            Capability::PromptsListChanged => Capability::Prompts,
            Capability::ResourceSubscriptions | Capability::ResourcesListChanged => Capability::Resources,
            Capability::RootsListChanged => Capability::Roots,
            Capability::SamplingTools | Capability::SamplingContext => Capability::Sampling,
            Capability::ElicitationForm | Capability::ElicitationUrl => Capability::Elicitation,
            Capability::Elicitation => Capability::ElicitationForm,
            other => other,
        };
        self.flags |= bit(capability) | bit(whole);
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
        self.flags & bit(capability) != 0
    }

    /// All that are declared and gate something
    pub fn iter(&self) -> impl Iterator<Item = Capability> {
        DECLARED.iter().map(|row| row.capability).filter(|capability| self.has(*capability))
    }

    /// Whether none is declared that gates something
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flags == 0
    }

    /// What of `needed` is not declared here; empty when everything is
    #[must_use]
    pub const fn missing(&self, needed: &Self) -> Self {
        Self { flags: needed.flags & !self.flags, extra: Vec::new() }
    }

    /// Reads a peer's capability object; unknown members are ignored here (LIFE-015), as is what is not of the type that
    /// it must have
    #[must_use]
    pub fn declared(object: &RawJson) -> Self {
        Self::read(object.as_bytes())
    }

    /// The same for text that was checked
    pub(crate) fn read(text: &[u8]) -> Self {
        let mut read = Self::default();
        object_members(text, |member, value| {
            if value.first() != Some(&b'{') {
                return;
            }
            let rows = || DECLARED.iter().filter(|row| row.member.as_bytes() == member);
            for row in rows().filter(|row| row.inner.is_none()) {
                read.flags |= bit(row.capability);
            }
            object_members(value, |name, value| {
                for row in rows().filter(|row| row.is_said_by(name, value)) {
                    read.flags |= bit(row.capability);
                }
            });
        });
        // ELIC-003; also of a client that speaks a revision without modes, and names one nevertheless.
        if read.has(Capability::Elicitation) && !read.has(Capability::ElicitationUrl) {
            read.flags |= bit(Capability::ElicitationForm);
        }
        read
    }

    /// Appends the object as `version` knows it (LIFE-013, LIFE-014)
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        out.push(b'{');
        let start = out.len();
        let known = |row: &&Declared| version >= row.since && self.is_said(row.capability, version);
        for row in DECLARED.iter().filter(|row| row.inner.is_none()).filter(known) {
            comma(out, start);
            write_str(out, row.member);
            out.extend_from_slice(b":{");
            let start = out.len();
            for part in DECLARED.iter().filter(|part| part.member == row.member).filter(known) {
                let Some((inner, value)) = part.inner else { continue };
                comma(out, start);
                write_str(out, inner);
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            }
            out.push(b'}');
        }
        for (name, value, since) in &self.extra {
            if version >= *since {
                comma(out, start);
                write_str(out, name);
                out.push(b':');
                append_one_line(out, value.as_bytes());
            }
        }
        out.push(b'}');
    }

    /// Whether a capability that is declared stands in the object
    fn is_said(&self, capability: Capability, version: Version) -> bool {
        let url = self.has(Capability::ElicitationUrl);
        self.has(capability)
            && match capability {
                // Where there are no modes it would mean forms.
                Capability::Elicitation => {
                    version >= Version::V2025_11_25 || self.has(Capability::ElicitationForm)
                }
                // Forms alone are said as every revision understands it.
                Capability::ElicitationForm => url,
                Capability::RootsListChanged => version < Version::V2026_07_28,
                _ => true,
            }
    }
}

const fn bit(capability: Capability) -> u32 {
    1 << capability as u32
}

/// Before every member but the first
fn comma(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
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

    // covers: ELIC-001, ELIC-003, ELIC-004, SAMP-001, SAMP-007, ROOT-001
    #[test]
    fn modes_and_parts_are_written_where_they_are_known() {
        use Capability::{
            Elicitation, ElicitationForm, ElicitationUrl, Roots, SamplingContext, SamplingTools,
        };
        for (declared, v2025_03, v2025_06, v2025_11) in [
            (&[Elicitation][..], "{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (&[ElicitationForm], "{}", r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (&[ElicitationUrl], "{}", "{}", r#"{"elicitation":{"url":{}}}"#),
            (
                &[ElicitationUrl, ElicitationForm],
                "{}",
                r#"{"elicitation":{}}"#,
                r#"{"elicitation":{"form":{},"url":{}}}"#,
            ),
            (&[SamplingTools], r#"{"sampling":{}}"#, r#"{"sampling":{}}"#, r#"{"sampling":{"tools":{}}}"#),
            (
                &[SamplingContext, SamplingTools, Roots],
                r#"{"roots":{},"sampling":{}}"#,
                r#"{"roots":{},"sampling":{}}"#,
                r#"{"roots":{},"sampling":{"tools":{},"context":{}}}"#,
            ),
        ] {
            let c = declared.iter().fold(Capabilities::new(), |c, capability| c.with(*capability));
            assert_eq!(written(|o| c.write(o, Version::V2025_03_26)), v2025_03, "{declared:?}");
            assert_eq!(written(|o| c.write(o, Version::V2025_06_18)), v2025_06, "{declared:?}");
            assert_eq!(written(|o| c.write(o, Version::V2025_11_25)), v2025_11, "{declared:?}");
            let modern = written(|o| c.write(o, Version::V2026_07_28));
            assert_eq!(modern, v2025_11, "{declared:?}");
            assert_eq!(Capabilities::read(modern.as_bytes()), c, "{declared:?}");
        }
    }

    // covers: ELIC-003
    #[test]
    fn elicitation_is_read_by_its_modes() {
        use Capability::{Elicitation, ElicitationForm, ElicitationUrl};
        for (text, any, form, url) in [
            ("{}", false, false, false),
            (r#"{"elicitation":true}"#, false, false, false),
            (r#"{"elicitation":null}"#, false, false, false),
            (r#"{"elicitation":{}}"#, true, true, false),
            (r#"{"elicitation":{"schemaValidation":true}}"#, true, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, true, false),
            (r#"{"elicitation":{"form":{"x":1},"url":{}}}"#, true, true, true),
            (r#"{"elicitation":{"url":{}}}"#, true, false, true),
            (r#"{"elicitation":{"url":true}}"#, true, true, false),
        ] {
            let read = Capabilities::declared(&RawJson::new(text).expect("JSON"));
            let has = [Elicitation, ElicitationForm, ElicitationUrl].map(|c| read.has(c));
            assert_eq!(has, [any, form, url], "{text}");
        }
        let parts = Capabilities::read(br#"{"sampling":{"tools":{},"context":1},"elicitation":{}}"#);
        let all: Vec<_> = parts.iter().collect();
        let expected = [Capability::Sampling, Capability::SamplingTools, Elicitation, ElicitationForm];
        assert_eq!(all, expected);
    }
}
