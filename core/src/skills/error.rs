//! Errors of skills.

use alloc::string::String;

use crate::rpc::clip_to;

/// Characters of a URI or of a value that an error repeats.
const MAX_SHOWN: usize = 256;

fn shown(text: &str) -> alloc::borrow::Cow<'_, str> {
    clip_to(text, MAX_SHOWN)
}

/// Reason why a skill, or a file of it, is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The URI does not name the `SKILL.md` of a skill, or a file in its folder (SKILL-005, SKILL-006).
    #[error("`{}` cannot be used as the URI of a skill: {reason}", shown(.uri))]
    Uri {
        /// The refused URI.
        uri: String,
        /// Rule that it breaks.
        reason: &'static str,
    },
    /// The name breaks a rule of the Agent Skills specification (SKILL-008).
    #[error("`{}` cannot be used as the name of a skill: {reason}", shown(.name))]
    Name {
        /// The refused name.
        name: String,
        /// Rule that it breaks.
        reason: &'static str,
    },
    /// The name in the front matter is not the last segment of the path of the skill (SKILL-007, SKILL-012).
    #[error("`{}`: the front matter has the name `{}`, which has to equal the folder of the skill", shown(.uri), shown(.name))]
    NameDiffers {
        /// URI of the `SKILL.md`.
        uri: String,
        /// Name in the front matter.
        name: String,
    },
    /// A member of the front matter is missing, or its value is not permitted (SKILL-009).
    #[error("`{}`: `{member}` in the front matter {reason}", shown(.uri))]
    Member {
        /// URI of the `SKILL.md`.
        uri: String,
        /// Name of the member.
        member: &'static str,
        /// Rule that it breaks.
        reason: &'static str,
    },
    /// The front matter cannot be read (SKILL-009).
    #[error("`{}`: the front matter cannot be read: {reason}", shown(.uri))]
    FrontMatter {
        /// URI of the `SKILL.md`, or the path of the file.
        uri: String,
        /// Reason with its line, if it has one.
        reason: String,
    },
    /// The list of files is wrong (SKILL-013).
    #[error("`{}`: the file `{}` {reason}", shown(.uri), shown(.file))]
    File {
        /// URI of the `SKILL.md`.
        uri: String,
        /// URI of the file.
        file: String,
        /// Rule that its entry breaks.
        reason: &'static str,
    },
    /// There are more files than every host has to accept (SKILL-018).
    #[error("`{}`: {count} files, and a skill may have at most {}", shown(.uri), super::MAX_FILES)]
    TooManyFiles {
        /// URI of the `SKILL.md`.
        uri: String,
        /// Number of files.
        count: usize,
    },
    /// The files are larger than every host has to accept (SKILL-018).
    #[error("`{}`: {size} bytes in all files, and a skill may have at most {}", shown(.uri), super::MAX_TOTAL_SIZE)]
    TooLarge {
        /// URI of the `SKILL.md`.
        uri: String,
        /// Sum of the sizes in bytes.
        size: u64,
    },
    /// The size of a file is not the listed one: the content must not be used (SKILL-030).
    #[error("`{}`: expected {expected} bytes, found {found}", shown(.file))]
    Size {
        /// URI of the file.
        file: String,
        /// Listed size in bytes.
        expected: u64,
        /// Size of the content in bytes.
        found: u64,
    },
    /// The digest of a file is not the listed one: the content must not be used (SKILL-030).
    #[error("`{}`: expected the digest {}, found {}", shown(.file), shown(.expected), shown(.found))]
    Digest {
        /// URI of the file.
        file: String,
        /// Listed digest.
        expected: String,
        /// Digest of the content.
        found: String,
    },
    /// The front matter of the `SKILL.md` is not the listed one: the skill must not be loaded (SKILL-032).
    #[error("`{}`: {}", shown(.uri), front_matter_differs(.member, .expected.as_deref(), .found.as_deref()))]
    FrontMatterDiffers {
        /// URI of the `SKILL.md`.
        uri: String,
        /// First member that differs.
        member: String,
        /// Its listed value as JSON, if there is one.
        expected: Option<String>,
        /// Its value in the file as JSON, if there is one.
        found: Option<String>,
    },
}

fn front_matter_differs(member: &str, expected: Option<&str>, found: Option<&str>) -> String {
    let value = |value: Option<&str>| value.map_or_else(|| "nothing".into(), shown).into_owned();
    let (expected, found) = (value(expected), value(found));
    alloc::format!("expected `{}` in the front matter to be {expected}, found {found}", shown(member))
}
