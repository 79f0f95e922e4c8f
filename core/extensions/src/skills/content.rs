//! Skills as bytes: the files of a skill, its entry and its front matter.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use mcp_proto::RawJson;
use mcp_proto::model::Resource;

use super::{SKILL_FILE, Skill, SkillError, SkillResource, SkillUri, split_front_matter, yaml};

/// The bytes of a file, which several skills may share.
pub type Content = Arc<[u8]>;

/// A skill that a server offers: its URI, and the bytes of its files.
///
/// ```
/// use mcp_extensions::skills::SkillFolder;
///
/// let tides = SkillFolder::new("skill://harbour/tides")
///     .file("SKILL.md", "---\nname: tides\ndescription: Reads tide tables\n---\nSee `references/ports.md`.\n")
///     .file("references/ports.md", "Brest, Cork\n");
/// assert_eq!(tides.entry()?.name().as_deref(), Some("tides"));
/// # Ok::<(), mcp_extensions::skills::SkillError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFolder {
    root: String,
    /// Files by their path, with `/` between the segments.
    pub(super) files: BTreeMap<String, Content>,
}

/// Content of a file of a skill that a client read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillContent {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// Media type, as the server says.
    pub media_type: Option<String>,
    /// True if size and digest were compared with the entry; false if the content of the skill is dynamic.
    pub is_verified: bool,
}

impl SkillContent {
    /// Creates the content of a file from what the server sent.
    #[must_use]
    pub const fn new(bytes: Vec<u8>, media_type: Option<String>, is_verified: bool) -> Self {
        Self { bytes, media_type, is_verified }
    }

    /// Returns the content as text, or `None` if it is not UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        core::str::from_utf8(&self.bytes).ok()
    }
}

/// A file of a skill, as a resource.
#[derive(Clone, Debug)]
pub struct SkillFile {
    /// URI, name, media type and size.
    pub resource: Resource,
    /// The bytes.
    pub content: Content,
}

impl SkillFolder {
    /// Creates a skill without files at the URI of its folder: `skill://`, an optional prefix, and its name.
    #[must_use]
    pub fn new(root: impl Into<String>) -> Self {
        Self { root: root.into(), files: BTreeMap::new() }
    }

    /// Adds a file by its path relative to the folder, with `/` between its segments, or replaces its content.
    ///
    /// Every skill has a file `SKILL.md`, which begins with front matter.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into().into());
        self
    }

    /// Returns the URI of the folder.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the entry of the skill, with the sizes and digests of its files.
    ///
    /// # Errors
    ///
    /// [`SkillError`]: there is no `SKILL.md`, its front matter cannot be read, or the entry breaks a rule
    /// ([`Skill::check`]).
    pub fn entry(&self) -> Result<Skill, SkillError> {
        let uri = self.uri();
        let parsed = SkillUri::parse(&uri)?;
        let missing = || SkillError::FrontMatter { uri: uri.clone(), reason: "the file is missing".into() };
        let front_matter = read_front_matter(&uri, self.files.get(SKILL_FILE).ok_or_else(missing)?)?;
        let files =
            self.files.iter().map(|(path, content)| Ok(SkillResource::of(parsed.resolve(path)?, content)));
        let skill = Skill::new(&*uri, front_matter, files.collect::<Result<Vec<_>, SkillError>>()?);
        skill.check()?;
        Ok(skill)
    }

    /// Returns the files as resources; `skill` is the [entry](Self::entry), whose description that of `SKILL.md` is.
    ///
    /// # Errors
    ///
    /// [`SkillError`] if a path is not one of a file in the folder.
    pub fn resources(&self, skill: &Skill) -> Result<Vec<SkillFile>, SkillError> {
        let uri = self.uri();
        let parsed = SkillUri::parse(&uri)?;
        let resource = |(path, content): (&String, &Content)| {
            let uri = parsed.resolve(path)?;
            let mut resource = if path == SKILL_FILE {
                let mut resource = Resource::new(uri, parsed.name());
                resource.description = skill.description();
                resource
            } else {
                Resource::new(uri, path.rsplit('/').next().unwrap_or(path))
            };
            resource.mime_type = Some(media_type(path, content).to_owned());
            resource.size = Some(content.len() as u64);
            Ok(SkillFile { resource, content: content.clone() })
        };
        self.files.iter().map(resource).collect()
    }

    fn uri(&self) -> String {
        alloc::format!("{}/{SKILL_FILE}", self.root)
    }
}

/// Reads the front matter of a `SKILL.md` as a JSON object (SKILL-009, SKILL-011).
///
/// Scalars have the types of the core schema of YAML 1.2: `yes` and dates are strings, `1.0` is a number. Refused are
/// aliases, anchors, tags other than `!!str`, keys that are not strings or appear twice, and more than 32 levels: JSON
/// cannot express them, or they make a short text a long one.
///
/// # Errors
///
/// [`SkillError::FrontMatter`] with `uri`, the reason, and the line.
pub fn read_front_matter(uri: &str, content: &[u8]) -> Result<RawJson, SkillError> {
    let refused = |reason: String| SkillError::FrontMatter { uri: uri.into(), reason };
    let text = core::str::from_utf8(content).map_err(|_| refused("the file is not UTF-8".into()))?;
    let (yaml, _) = split_front_matter(text).map_err(|error| refused(error.to_string()))?;
    let json = yaml::to_json(yaml).map_err(refused)?;
    RawJson::new(json).map_err(|error| refused(error.to_string()))
}

// Media types of files, by the ending of their names.

/// Media types by ending, in lower case.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("md", "text/markdown"),
    ("txt", "text/plain"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("ts", "text/x-typescript"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "text/x-shellscript"),
    ("toml", "application/toml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Returns the media type of a file: by its ending, else text if its content is UTF-8 without a NUL.
pub(super) fn media_type(path: &str, content: &[u8]) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let known = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    match known {
        Some((_, media_type)) => media_type,
        None if matches!(core::str::from_utf8(content), Ok(text) if !text.contains('\0')) => "text/plain",
        None => "application/octet-stream",
    }
}
