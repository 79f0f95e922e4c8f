//! Skills: their entries, folders of a server, and the verification of what a server serves (SEP-2640).
//!
//! [`Skill`] is an entry of `skills/list`: a promise about the files of a skill. [`Skill::check`] says whether it is
//! well-formed, [`Skill::resource`] finds the entry of a file, [`SkillResource::verify`] compares the bytes of a file with it,
//! and [`Skill::verify_front_matter`] the front matter. [`SkillUri`] names a skill and its files, and [`split_front_matter`]
//! finds the YAML text at the beginning of a `SKILL.md`.
//!
//! A router of the core lists an entry by [`Router::skill`](mcp_proto::router::Router::skill). Those of the adapters serve
//! bytes with `Router::skill` and a folder with `Router::skills_from`, and a client reads a file with `read_skill_file`, which
//! verifies it.
//!
//! ```
//! use mcp_extensions::skills::{Skill, SkillResource, SkillUri, split_front_matter};
//! use mcp_proto::RawJson;
//!
//! let text = "---\nname: tides\ndescription: Reads tide tables\n---\nLook at `references/ports.md`.\n";
//! let (yaml, body) = split_front_matter(text)?;
//! assert_eq!(yaml, "name: tides\ndescription: Reads tide tables\n");
//!
//! let uri = SkillUri::parse("skill://harbour/tides/SKILL.md")?;
//! assert_eq!((uri.name(), uri.root()), ("tides", "skill://harbour/tides"));
//! let front_matter = RawJson::new(r#"{"name":"tides","description":"Reads tide tables"}"#)?;
//! let file = SkillResource::of(uri.as_str(), text.as_bytes());
//! let skill = Skill::new(uri.as_str(), front_matter, vec![file]);
//! skill.check()?;
//! skill.resource(uri.as_str())?.expect("listed").verify(text.as_bytes())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "yaml")]
mod content;
#[cfg(feature = "std")]
mod folder;
#[cfg(all(test, feature = "std"))]
mod folder_tests;
#[cfg(all(any(fuzzing, test), feature = "yaml"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod message_tests;
mod messages;
mod uri;
#[cfg(feature = "yaml")]
mod yaml;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::RawJson;
use mcp_proto::model::Map;
use sha2::{Digest as _, Sha256};

#[cfg(feature = "yaml")]
pub use content::{Content, SkillContent, SkillFile, SkillFolder, read_front_matter};
#[cfg(feature = "std")]
pub use folder::{FolderError, read_skills};
pub use messages::{
    GetSkillParams, GetSkillResult, ListSkillsResult, ReadDirectoryParams, ReadDirectoryResult, Skill,
    SkillResource, SkillResources,
};
pub use uri::{MAX_NAME, SKILL_FILE, SkillUri, check_name};

/// Returns at most the first `chars` characters of a text that a peer may have sent.
fn clip(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(alloc::format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Returns as much of a URI or of a value as an error repeats.
fn shown(text: &str) -> Cow<'_, str> {
    clip(text, 256)
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
    #[error("`{}`: {count} files, and a skill may have at most {}", shown(.uri), MAX_FILES)]
    TooManyFiles {
        /// URI of the `SKILL.md`.
        uri: String,
        /// Number of files.
        count: usize,
    },
    /// The files are larger than every host has to accept (SKILL-018).
    #[error("`{}`: {size} bytes in all files, and a skill may have at most {}", shown(.uri), MAX_TOTAL_SIZE)]
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

// Checks of an entry: its URIs, its front matter, the list of its files.

/// Maximum number of files of a skill that every host accepts, its `SKILL.md` included (SKILL-018).
pub const MAX_FILES: usize = 512;

/// Maximum size in bytes of all files of a skill together that every host accepts (SKILL-018).
pub const MAX_TOTAL_SIZE: u64 = 16 << 20;

/// Maximum number of characters of a description (Agent Skills).
pub const MAX_DESCRIPTION: usize = 1_024;

impl Skill {
    /// Checks everything that the entry alone shows: URI, name, description, files, and the limits.
    ///
    /// # Errors
    ///
    /// The first [`SkillError`].
    pub fn check(&self) -> Result<(), SkillError> {
        let uri = SkillUri::parse(&self.uri)?;
        self.check_front_matter(&uri)?;
        self.check_limits()?;
        match &self.resources {
            SkillResources::Files(files) => self.check_files(&uri, files),
            SkillResources::Dynamic => Ok(()),
        }
    }

    /// Checks the number of files and the sum of their sizes (SKILL-018).
    ///
    /// # Errors
    ///
    /// [`SkillError::TooManyFiles`] or [`SkillError::TooLarge`].
    pub fn check_limits(&self) -> Result<(), SkillError> {
        let files = self.files().unwrap_or_default();
        if files.len() > MAX_FILES {
            return Err(SkillError::TooManyFiles { uri: self.uri.clone(), count: files.len() });
        }
        let size = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
        if size > MAX_TOTAL_SIZE {
            return Err(SkillError::TooLarge { uri: self.uri.clone(), size });
        }
        Ok(())
    }

    /// Returns the listed file with this URI; `None` if the content is dynamic, so that nothing can be verified.
    ///
    /// # Errors
    ///
    /// [`SkillError::File`] if the file is not listed: it must not be used (SKILL-031).
    pub fn resource(&self, file: &str) -> Result<Option<&SkillResource>, SkillError> {
        let found = |files: &'_ [SkillResource]| files.iter().position(|listed| listed.uri == file);
        let Some(files) = self.files() else { return Ok(None) };
        let listed = found(files).and_then(|at| files.get(at));
        listed.map(Some).ok_or_else(|| self.file_error(file, "is not listed"))
    }

    fn check_front_matter(&self, uri: &SkillUri<'_>) -> Result<(), SkillError> {
        let refused = |member, reason| SkillError::Member { uri: self.uri.clone(), member, reason };
        if !self.frontmatter.is_object() {
            return Err(refused("name", "is missing"));
        }
        let member = |name: &'static str| match self.frontmatter.member(name) {
            None => Err(refused(name, "is missing")),
            Some(value) => value.string().ok_or_else(|| refused(name, "is not a string")),
        };
        let name = member("name")?;
        if name != uri.name() {
            return Err(SkillError::NameDiffers { uri: self.uri.clone(), name });
        }
        match member("description")? {
            text if text.trim().is_empty() => Err(refused("description", "is empty")),
            text if text.chars().count() > MAX_DESCRIPTION => {
                Err(refused("description", "has more than 1024 characters"))
            }
            _ => Ok(()),
        }
    }

    fn check_files(&self, uri: &SkillUri<'_>, files: &[SkillResource]) -> Result<(), SkillError> {
        for file in files {
            if uri.path_of(&file.uri).is_none() {
                return Err(self.file_error(&file.uri, "is not in the folder of the skill"));
            }
            if !is_digest(&file.digest) {
                let reason = "has a digest that is not `sha256:` and 64 lower-case hexadecimal digits";
                return Err(self.file_error(&file.uri, reason));
            }
        }
        let mut uris: Vec<&str> = files.iter().map(|file| &*file.uri).collect();
        uris.sort_unstable();
        if let Some(twice) = uris.windows(2).find_map(|two| match two {
            [a, b] if a == b => Some(*a),
            _ => None,
        }) {
            return Err(self.file_error(twice, "is listed twice"));
        }
        if uris.binary_search(&&*self.uri).is_err() {
            return Err(self.file_error(&self.uri, "is not listed"));
        }
        Ok(())
    }

    fn file_error(&self, file: &str, reason: &'static str) -> SkillError {
        SkillError::File { uri: self.uri.clone(), file: file.into(), reason }
    }
}

/// Returns whether a text is `sha256:` and 64 lower-case hexadecimal digits (SKILL-015).
fn is_digest(text: &str) -> bool {
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;
    use mcp_proto::RawJson;

    const ROOT: &str = "skill://acme/refunds";

    fn file(path: &str, size: u64) -> SkillResource {
        SkillResource::new(format!("{ROOT}/{path}"), format!("sha256:{}", "0a".repeat(32)), size)
    }

    fn skill(front_matter: &str, files: impl Into<SkillResources>) -> Skill {
        let front_matter = RawJson::new(String::from(front_matter)).expect("JSON");
        Skill::new(format!("{ROOT}/SKILL.md"), front_matter, files)
    }

    const GOOD: &str = r#"{"name":"refunds","description":"Processes refunds","x":{}}"#;

    // covers: SKILL-007, SKILL-009, SKILL-012
    #[test]
    fn entry_needs_name_and_description() {
        assert_eq!(skill(GOOD, SkillResources::Dynamic).check(), Ok(()));
        let long = format!(r#"{{"name":"refunds","description":"{}"}}"#, "é".repeat(1_025));
        for (front_matter, part) in [
            ("[]", "`name` in the front matter is missing"),
            ("{}", "`name` in the front matter is missing"),
            (r#"{"name":1}"#, "`name` in the front matter is not a string"),
            (r#"{"name":"other","description":"d"}"#, "the name `other`"),
            (r#"{"name":"refunds"}"#, "`description` in the front matter is missing"),
            (
                r#"{"name":"refunds","description":["d"]}"#,
                "`description` in the front matter is not a string",
            ),
            (r#"{"name":"refunds","description":" \n"}"#, "`description` in the front matter is empty"),
            (&long, "more than 1024 characters"),
        ] {
            let error =
                skill(front_matter, SkillResources::Dynamic).check().expect_err("refused").to_string();
            assert!(error.contains(part) && error.contains(ROOT), "{front_matter}: {error}");
        }
        let mut elsewhere = skill(GOOD, SkillResources::Dynamic);
        elsewhere.uri = "skill://../refunds/SKILL.md".into();
        assert!(matches!(elsewhere.check(), Err(SkillError::Uri { .. })));
    }

    // covers: SKILL-013, SKILL-015, SKILL-031
    #[test]
    fn list_of_files_is_complete_and_within_the_skill() {
        let good = skill(GOOD, vec![file("SKILL.md", 1), file("a/b.md", 0), file("nested/SKILL.md", 2)]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(good.resource("skill://acme/refunds/a/b.md"), Ok(Some(&file("a/b.md", 0))));
        for unlisted in ["skill://acme/refunds/c", "skill://acme/refunds", "", "skill://acme/refunds/a/b.md "]
        {
            assert!(matches!(good.resource(unlisted), Err(SkillError::File { .. })), "{unlisted}");
        }
        assert_eq!(skill(GOOD, SkillResources::Dynamic).resource("skill://acme/refunds/c"), Ok(None));

        let other = |uri: &str| SkillResource::new(uri, file("x", 0).digest, 0u64);
        let digest = |digest: &str| SkillResource::new(format!("{ROOT}/SKILL.md"), digest, 0u64);
        for (files, part) in [
            (vec![], "`skill://acme/refunds/SKILL.md` is not listed"),
            (vec![file("a", 0)], "`skill://acme/refunds/SKILL.md` is not listed"),
            (
                vec![file("SKILL.md", 0), file("a", 0), file("a", 1)],
                "`skill://acme/refunds/a` is listed twice",
            ),
            (vec![other("skill://acme/a")], "`skill://acme/a` is not in the folder"),
            (vec![other("skill://acme/refunds/../x")], "is not in the folder"),
            (vec![other("skill://acme/refunds")], "is not in the folder"),
            (vec![digest(&"0a".repeat(32))], "has a digest that is not"),
            (vec![digest(&format!("sha256:{}", "0A".repeat(32)))], "has a digest that is not"),
            (vec![digest(&format!("sha256:{}", "0a".repeat(31)))], "has a digest that is not"),
            (vec![digest(&format!("sha512:{}", "0a".repeat(64)))], "has a digest that is not"),
        ] {
            let error = skill(GOOD, files).check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    // covers: SKILL-018
    #[test]
    fn limits_are_accepted_and_one_more_is_not() {
        let files = |count: usize| -> Vec<SkillResource> {
            (1..count).map(|n| file(&format!("f{n}"), 1)).chain([file("SKILL.md", 1)]).collect()
        };
        assert_eq!(skill(GOOD, files(MAX_FILES)).check(), Ok(()));
        let many = skill(GOOD, files(MAX_FILES + 1)).check().expect_err("too many").to_string();
        assert!(many.contains("513 files") && many.contains("at most 512"), "{many}");
        let sized = |size| skill(GOOD, vec![file("SKILL.md", 1), file("a", size)]).check();
        assert_eq!(sized(MAX_TOTAL_SIZE - 1), Ok(()));
        let large = sized(MAX_TOTAL_SIZE).expect_err("too large").to_string();
        assert!(large.contains("16777217 bytes") && large.contains("at most 16777216"), "{large}");
        assert!(matches!(sized(u64::MAX), Err(SkillError::TooLarge { size: u64::MAX, .. })), "no overflow");
    }
}

// The front matter of a `SKILL.md`: the YAML text between two lines `---`.

/// Maximum size of the front matter in bytes: a `SKILL.md` with more is refused before anything is parsed.
pub const MAX_FRONT_MATTER: usize = 64 << 10;

/// Splits the text of a `SKILL.md` into its front matter, which is YAML, and what follows (SKILL-009).
///
/// The text begins with a line `---`, and the next such line ends the front matter. White space at the end of these lines
/// and CRLF are accepted.
///
/// # Errors
///
/// [`FrontMatterError`]: there is no such line at the beginning or at the end, or the front matter is larger than
/// [`MAX_FRONT_MATTER`].
pub fn split_front_matter(text: &str) -> Result<(&str, &str), FrontMatterError> {
    let is_marker = |line: &str| line.trim_end_matches([' ', '\t', '\r']) == "---";
    let (first, rest) = text.split_once('\n').ok_or(FrontMatterError::Missing)?;
    if !is_marker(first) {
        return Err(FrontMatterError::Missing);
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if is_marker(line.strip_suffix('\n').unwrap_or(line)) {
            let (yaml, end) = rest.split_at_checked(at).unwrap_or((rest, ""));
            return Ok((yaml, end.get(line.len()..).unwrap_or("")));
        }
        at += line.len();
        if at > MAX_FRONT_MATTER {
            return Err(FrontMatterError::TooLong);
        }
    }
    Err(FrontMatterError::Unterminated)
}

/// Reason why the front matter was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontMatterError {
    /// The text does not begin with a line `---`.
    #[error("the file does not begin with a line `---`")]
    Missing,
    /// No second line `---` follows.
    #[error("there is no line `---` that ends it")]
    Unterminated,
    /// It is larger than [`MAX_FRONT_MATTER`].
    #[error("it is larger than {MAX_FRONT_MATTER} bytes")]
    TooLong,
}

#[cfg(test)]
mod front_matter_tests {
    use super::*;
    use alloc::format;

    // covers: SKILL-009
    #[test]
    fn front_matter_is_between_two_lines() {
        for (text, yaml, body) in [
            ("---\na: 1\n---\nbody\n", "a: 1\n", "body\n"),
            ("---\r\na: 1\r\n---\r\nbody", "a: 1\r\n", "body"),
            ("--- \t\na: |\n  x\n  ---\n---", "a: |\n  x\n  ---\n", ""),
            ("---\n---\n---\n", "", "---\n"),
            ("---\na: ü\n---  \n", "a: ü\n", ""),
        ] {
            assert_eq!(split_front_matter(text), Ok((yaml, body)), "{text:?}");
        }
        for text in
            ["", "---", "# Title\n", "\n---\na: 1\n---\n", "\u{feff}---\na: 1\n---\n", "----\na\n---\n"]
        {
            assert_eq!(split_front_matter(text), Err(FrontMatterError::Missing), "{text:?}");
        }
        for text in ["---\n", "---\na: 1\n", "---\na: 1\n --- \n", "---\na: 1\n----\n"] {
            assert_eq!(split_front_matter(text), Err(FrontMatterError::Unterminated), "{text:?}");
        }
    }

    // covers: SEC-018
    #[test]
    fn large_front_matter_is_refused() {
        let of_size = |size: usize| format!("---\n{}\n---\nbody", "x".repeat(size - 1));
        assert!(split_front_matter(&of_size(MAX_FRONT_MATTER)).is_ok());
        for size in [MAX_FRONT_MATTER + 1, 1 << 20] {
            assert_eq!(split_front_matter(&of_size(size)), Err(FrontMatterError::TooLong), "{size}");
        }
    }
}

// Verification: size and digest of a file, and the front matter of a `SKILL.md`.

impl SkillResource {
    /// Creates the entry of a file with this content (SKILL-014, SKILL-015).
    #[must_use]
    pub fn of(uri: impl Into<String>, content: &[u8]) -> Self {
        Self::new(uri, digest(content), content.len() as u64)
    }

    /// Checks that the content of the file is what the entry promises (SKILL-030).
    ///
    /// A match says that entry and content agree; both come from the server, so it says nothing about trust (SKILL-034).
    ///
    /// # Errors
    ///
    /// [`SkillError::Size`] or [`SkillError::Digest`], with both values. The content must not be used.
    pub fn verify(&self, content: &[u8]) -> Result<(), SkillError> {
        let found = content.len() as u64;
        if found != self.size {
            return Err(SkillError::Size { file: self.uri.clone(), expected: self.size, found });
        }
        let found = digest(content);
        if found != self.digest {
            return Err(SkillError::Digest { file: self.uri.clone(), expected: self.digest.clone(), found });
        }
        Ok(())
    }
}

impl Skill {
    /// Checks that the front matter of the `SKILL.md` has the content that the entry promises (SKILL-032).
    ///
    /// The order of members and the spelling of strings and numbers do not count. `found` is the front matter of the file
    /// as JSON.
    ///
    /// # Errors
    ///
    /// [`SkillError::FrontMatterDiffers`] with the first member that differs. The skill must not be loaded.
    pub fn verify_front_matter(&self, found: &RawJson) -> Result<(), SkillError> {
        if self.frontmatter.has_value_of(found) {
            return Ok(());
        }
        let value = |object: &RawJson, name: &str| object.member(name);
        let differs = |name: &String| match (value(&self.frontmatter, name), value(found, name)) {
            (Some(a), Some(b)) => !a.has_value_of(&b),
            (a, b) => a.is_some() != b.is_some(),
        };
        let members = |object: &RawJson| object.parse::<Map<RawJson>>().unwrap_or_default();
        let all = [members(&self.frontmatter), members(found)];
        let mut names = all.iter().flat_map(Map::iter).map(|(name, _)| String::from(name));
        let member = names.find(differs).unwrap_or_default();
        let text = |object: &RawJson| value(object, &member).map(|value| value.as_str().into());
        let (expected, found) = (text(&self.frontmatter), text(found));
        Err(SkillError::FrontMatterDiffers { uri: self.uri.clone(), member, expected, found })
    }
}

/// Returns the SHA-256 of bytes as `sha256:` and 64 lower-case hexadecimal digits (SKILL-015).
fn digest(content: &[u8]) -> String {
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in Sha256::digest(content) {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

#[cfg(test)]
mod verification_tests {
    use super::*;
    use alloc::string::ToString;

    // covers: SKILL-014, SKILL-015, SKILL-030
    #[test]
    fn content_that_differs_in_size_or_bytes_is_refused() {
        let file = SkillResource::of("skill://a/SKILL.md", b"abc");
        assert_eq!(
            (&*file.digest, file.size),
            ("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 3)
        );
        assert_eq!(file.verify(b"abc"), Ok(()));
        let size = file.verify(b"abcd").expect_err("longer").to_string();
        assert_eq!(size, "`skill://a/SKILL.md`: expected 3 bytes, found 4");
        let digest = file.verify(b"abd").expect_err("other bytes").to_string();
        assert!(
            digest.contains("skill://a/SKILL.md") && digest.contains("expected the digest sha256:ba78"),
            "{digest}"
        );
        assert!(digest.contains("found sha256:a52d159f"), "{digest}");
        let upper = SkillResource::new("a:b", file.digest.to_uppercase(), 3u64);
        assert!(upper.verify(b"abc").is_err(), "upper case is another digest");
    }

    // covers: SKILL-032
    #[test]
    fn front_matter_is_compared_by_value() {
        let json = |text: &str| RawJson::new(String::from(text)).expect("JSON");
        let listed = r#"{"name":"a","description":"d","n":1.50,"list":[1,{"b":null}]}"#;
        let skill = Skill::new("skill://a/SKILL.md", json(listed), SkillResources::Dynamic);
        for same in [listed, r#"{"list":[1.0,{"b":null}],"description":"\u0064","n":15e-1, "name":"a"}"#] {
            assert_eq!(skill.verify_front_matter(&json(same)), Ok(()), "{same}");
        }
        for (other, member) in [
            (r#"{"name":"a","description":"e","n":1.5,"list":[1,{"b":null}]}"#, "description"),
            (r#"{"name":"a","description":"d","n":"1.5","list":[1,{"b":null}]}"#, "n"),
            (r#"{"name":"a","description":"d","n":1.5,"list":[1,{}]}"#, "list"),
            (r#"{"name":"a","description":"d","n":1.5}"#, "list"),
            (
                r#"{"name":"a","description":"d","n":1.5,"list":[1,{"b":null}],"allowed-tools":"x"}"#,
                "allowed-tools",
            ),
            ("{}", "name"),
        ] {
            match skill.verify_front_matter(&json(other)) {
                Err(SkillError::FrontMatterDiffers { member: found, .. }) => assert_eq!(found, member),
                result => panic!("{other}: {result:?}"),
            }
        }
        let error = skill.verify_front_matter(&json(r#"{"name":"b"}"#)).expect_err("differs").to_string();
        assert_eq!(
            error,
            r#"`skill://a/SKILL.md`: expected `name` in the front matter to be "a", found "b""#
        );
    }
}
