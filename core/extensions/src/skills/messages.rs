//! Skills: entries, lists, directories (SEP-2640, extension `io.modelcontextprotocol/skills`).

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::clip;
use mcp_proto::model::message::IntoStatic;
use mcp_proto::model::{CacheScope, Cursor, ListItem, RequestParams, Resource, ResultType};
use mcp_proto::router::FolderEntry;
use mcp_proto::{EntryKind, RawJson, message};

message! {
    /// Entry of one skill: its front matter, and a manifest of its files (SKILL-010).
    Skill {
        /// URI of the `SKILL.md`, by which the skill is known within its server.
        uri: String = "uri",
        /// Front matter of the `SKILL.md`, all of it, as a JSON object (SKILL-011).
        frontmatter: RawJson as Object = "frontmatter",
        /// Files of the skill (SKILL-013).
        resources: SkillResources = "resources",
    } {
    }

    /// A file of a skill (SKILL-014).
    SkillResource {
        /// URI by which the file is read.
        uri: String = "uri",
        /// SHA-256 of the bytes of the file: `sha256:` and 64 hexadecimal digits in lower case.
        digest: String = "digest",
        /// Size in bytes, before any encoding.
        size: u64 as Integer = "size",
    } {
    }

    /// Result of `skills/list`: one page (SKILL-020).
    ListSkillsResult {
        /// The entries.
        skills: Vec<Skill> as List = "skills",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `skills/get` (SKILL-024).
    GetSkillParams<'a> {
        /// URI of the `SKILL.md`.
        uri: Cow<'a, str> as CowStr = "uri",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `skills/get` (SKILL-024).
    GetSkillResult {
        /// The entry.
        skill: Skill = "skill",
    } {
        /// Cache lifetime in milliseconds; negative counts as 0 (since 2026-07-28; CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result (since 2026-07-28).
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `resources/directory/read` (SKILL-040).
    ReadDirectoryParams<'a> {
        /// URI of the directory, without a slash at its end.
        uri: Cow<'a, str> as CowStr = "uri",
    } {
        /// Cursor from the previous page; `None` for the first page.
        opt cursor: Cursor = "cursor",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `resources/directory/read`: one page of the files and directories in it, not of what is below those
    /// (SKILL-042).
    ReadDirectoryResult {
        /// Files, and directories with the media type [`DIRECTORY`](Resource::DIRECTORY).
        resources: Vec<Resource> as List = "resources",
    } {
        /// Cursor of the next page; absent on the last page (PAGE-003, PAGE-004).
        opt next_cursor: Cursor = "nextCursor",
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

/// The files of a [`Skill`] (SKILL-013, SKILL-017).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SkillResources {
    /// All files, the `SKILL.md` among them, each once.
    Files(Vec<SkillResource>),
    /// The content is made when it is read, so there are no digests: nothing can be verified.
    Dynamic,
}

/// Word on the wire for [`SkillResources::Dynamic`].
const DYNAMIC: &str = "dynamic";

impl Skill {
    /// Returns the `name` in the front matter; `None` if it is absent or not a string.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.frontmatter.member("name")?.string()
    }

    /// Returns the `description` in the front matter; `None` if it is absent or not a string.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        self.frontmatter.member("description")?.string()
    }

    /// Returns the files, or `None` if the content is dynamic.
    #[must_use]
    pub fn files(&self) -> Option<&[SkillResource]> {
        match &self.resources {
            SkillResources::Files(files) => Some(files),
            SkillResources::Dynamic => None,
        }
    }
}

impl ListItem for Skill {
    const KIND: EntryKind = EntryKind::Skill;
}

impl FolderEntry for Skill {
    fn check_entry(&self) -> Result<(), String> {
        self.check().map_err(|error| error.to_string())
    }

    fn uri(&self) -> &str {
        &self.uri
    }

    fn file_uris(&self) -> impl Iterator<Item = &str> {
        self.files().unwrap_or_default().iter().map(|file| &*file.uri)
    }
}

impl RequestParams for GetSkillParams<'_> {
    const METHOD: &'static str = "skills/get";
    type Result = GetSkillResult;

    fn read(result: &RawJson) -> Result<GetSkillResult, serde_json::Error> {
        result.parse()
    }
}

impl RequestParams for ReadDirectoryParams<'_> {
    const METHOD: &'static str = "resources/directory/read";
    type Result = ReadDirectoryResult;

    fn read(result: &RawJson) -> Result<ReadDirectoryResult, serde_json::Error> {
        result.parse()
    }
}

impl From<Vec<SkillResource>> for SkillResources {
    fn from(files: Vec<SkillResource>) -> Self {
        Self::Files(files)
    }
}

impl IntoStatic for SkillResources {
    type Owned = Self;
    fn into_static(self) -> Self {
        self
    }
}

impl Serialize for SkillResources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Files(files) => files.serialize(serializer),
            Self::Dynamic => serializer.serialize_str(DYNAMIC),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ResourcesVisitor;
        impl<'de> Visitor<'de> for ResourcesVisitor {
            type Value = SkillResources;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of files or the string `dynamic`")
            }
            // SKILL-017: an entry with another value must not be used.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == DYNAMIC {
                    Ok(SkillResources::Dynamic)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(&clip(text, 64)), &self))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut files = Vec::new();
                while let Some(file) = list.next_element()? {
                    files.push(file);
                }
                Ok(SkillResources::Files(files))
            }
        }
        deserializer.deserialize_any(ResourcesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::message_tests::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
    use super::*;

    fn raw(text: &'static str) -> RawJson {
        RawJson::new(text).expect("JSON")
    }

    fn skill() -> Skill {
        let files = alloc::vec![SkillResource::new("skill://a/SKILL.md", "sha256:00", 5u64)];
        Skill::new("skill://a/SKILL.md", raw(r#"{"name":"a","description":"d","x":[null]}"#), files)
    }

    // covers: SKILL-010, SKILL-011, SKILL-014, SKILL-020, SKILL-024, SKILL-042
    #[test]
    fn skill_messages_round_trip() {
        let meta = raw("{}");
        assert_round_trip(&skill());
        assert_eq!((skill().name().as_deref(), skill().description().as_deref()), (Some("a"), Some("d")));
        let dynamic = Skill::new("skill://b/SKILL.md", raw("{}"), SkillResources::Dynamic);
        let text = assert_round_trip(&dynamic);
        assert_eq!(text, r#"{"uri":"skill://b/SKILL.md","frontmatter":{},"resources":"dynamic"}"#);
        assert!(dynamic.files().is_none() && dynamic.name().is_none());
        let list = ListSkillsResult::new(alloc::vec![skill(), dynamic]).next_cursor("n").ttl_ms(5);
        assert_round_trip(
            &list.cache_scope(CacheScope::Public).result_type(ResultType::Complete).meta(meta.clone()),
        );
        let params = GetSkillParams::new("skill://a/SKILL.md").meta(meta.clone());
        assert_borrowed_round_trip(&params, |text| {
            serde_json::from_str::<GetSkillParams<'_>>(text).map(|params| params.into_owned())
        });
        assert_round_trip(&GetSkillResult::new(skill()).ttl_ms(0).cache_scope(CacheScope::Private));
        let params = ReadDirectoryParams::new("skill://a").cursor("c").meta(meta);
        assert_borrowed_round_trip(&params, |text| {
            serde_json::from_str::<ReadDirectoryParams<'_>>(text).map(|params| params.into_owned())
        });
        let folder = Resource::new("skill://a/b", "b").mime_type(Resource::DIRECTORY);
        assert!(folder.is_directory() && !Resource::new("skill://a/c", "c").is_directory());
        assert_round_trip(&ReadDirectoryResult::new(alloc::vec![folder]).next_cursor("n"));
        assert_missing::<Skill>(r#"{"uri":"a:b","frontmatter":{}}"#, "resources");
        assert_missing::<Skill>(r#"{"uri":"a:b","resources":[]}"#, "frontmatter");
        assert_missing::<SkillResource>(r#"{"uri":"a:b","digest":"x"}"#, "size");
    }

    // covers: SKILL-017
    #[test]
    fn entry_with_other_resources_is_refused() {
        for (resources, path) in [
            ("null", "`resources`: invalid type: null"),
            ("\"static\"", "`resources`: invalid value: string \"static\", expected an array of files or"),
            ("{}", "`resources`: invalid type: map"),
            (r#"[{"uri":"a:b","digest":"x","size":-1}]"#, "`resources.size`: "),
            (r#"[{"uri":"a:b","digest":"x","size":1.5}]"#, "`resources.size`: "),
        ] {
            let text = alloc::format!(r#"{{"uri":"a:b","frontmatter":{{}},"resources":{resources}}}"#);
            let error = serde_json::from_str::<Skill>(&text).expect_err("refused").to_string();
            assert!(error.starts_with(path), "{resources}: {error}");
        }
    }
}
