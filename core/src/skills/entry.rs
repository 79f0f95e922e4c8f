//! Checks of an entry: its URIs, its front matter, the list of its files.

use alloc::vec::Vec;

use super::SkillError;
use super::uri::SkillUri;
use crate::model::{Skill, SkillResource, SkillResources};

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
    use crate::raw::RawJson;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;

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
