//! Names and URIs of skills.

use alloc::string::String;

use mcp_proto::uri::{decode, is_uri, push_segment, scheme};

use super::SkillError;

/// Name of the file that every skill has.
pub const SKILL_FILE: &str = "SKILL.md";

/// Maximum length of the name of a skill, in characters (SKILL-008).
pub const MAX_NAME: usize = 64;

/// Maximum length of a URI in bytes, as for all resources.
const MAX_URI: usize = 8 << 10;

/// Checks the name of a skill: 1 to 64 lower-case ASCII letters and digits, with single hyphens between them (SKILL-008).
///
/// # Errors
///
/// [`SkillError::Name`], with the rule that `name` breaks.
pub fn check_name(name: &str) -> Result<(), SkillError> {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let reason = if name.is_empty() {
        "it must not be empty"
    } else if name.len() > MAX_NAME {
        "it may have at most 64 characters"
    } else if !name.bytes().all(is_allowed) {
        "it may contain only lower-case letters, digits and hyphens"
    } else if name.starts_with('-') || name.ends_with('-') {
        "it must not begin or end with a hyphen"
    } else if name.contains("--") {
        "it must not contain two hyphens in a row"
    } else {
        return Ok(());
    };
    Err(SkillError::Name { name: name.into(), reason })
}

/// URI of the `SKILL.md` of a skill: `skill://harbour/tides/SKILL.md`, for example (SKILL-005).
///
/// The scheme may be any; `skill` is the usual one. The text is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillUri<'a> {
    uri: &'a str,
    root: &'a str,
    name: String,
}

impl<'a> SkillUri<'a> {
    /// Checks a URI.
    ///
    /// # Errors
    ///
    /// - [`SkillError::Uri`]: the text is not a URI with a scheme and `//`, is longer than 8 KiB, has a query, a fragment,
    ///   or a segment that is empty, `.` or `..` (encoded or not), or does not end in `/SKILL.md`.
    /// - [`SkillError::Name`]: the segment before, which is the name of the skill, breaks a rule.
    pub fn parse(uri: &'a str) -> Result<Self, SkillError> {
        let refused = |reason| SkillError::Uri { uri: uri.into(), reason };
        check_file_uri(uri).map_err(refused)?;
        let split = uri.rsplit_once('/').filter(|(_, file)| *file == SKILL_FILE);
        let (root, _) = split.ok_or_else(|| refused("it has to end in `/SKILL.md`"))?;
        let name = root.rsplit_once('/').map_or(root, |(_, name)| name);
        if root.ends_with("//") || name.is_empty() {
            return Err(refused("there has to be a folder before `/SKILL.md`"));
        }
        // `%61` is `a` (RFC 3986, 2.3).
        let name = decode(name).unwrap_or_default();
        check_name(&name)?;
        Ok(Self { uri, root, name })
    }

    /// Returns the URI.
    #[must_use]
    pub const fn as_str(&self) -> &'a str {
        self.uri
    }

    /// Returns the URI of the folder of the skill, without a slash at its end.
    #[must_use]
    pub const fn root(&self) -> &'a str {
        self.root
    }

    /// Returns the name of the skill, the last segment of [`root`](Self::root), decoded.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of a file relative to the folder of the skill, still encoded, or `None` if the URI does not name a
    /// file in it (SKILL-013).
    #[must_use]
    pub fn path_of<'u>(&self, file: &'u str) -> Option<&'u str> {
        let path = file.strip_prefix(self.root)?.strip_prefix('/')?;
        check_file_uri(file).ok().map(|()| path)
    }

    /// Returns the URI of the file at a path relative to the folder of the skill, which is how files refer to each other
    /// (SKILL-036).
    ///
    /// The path is not encoded; its segments are separated by `/`. Segments `.` are left out.
    ///
    /// # Errors
    ///
    /// [`SkillError::Uri`] if the path is empty, absolute, leads out of the folder, or has an empty segment or a segment with
    /// a backslash or a control character.
    pub fn resolve(&self, path: &str) -> Result<String, SkillError> {
        let refused = |reason| SkillError::Uri { uri: path.into(), reason };
        let mut uri = String::from(self.root);
        for segment in path.split('/').filter(|segment| *segment != ".") {
            check_segment(segment).map_err(refused)?;
            uri.push('/');
            push_segment(&mut uri, segment);
        }
        if uri.len() == self.root.len() {
            return Err(refused("it names no file"));
        }
        if uri.len() > MAX_URI {
            return Err(refused("it is longer than 8 KiB"));
        }
        Ok(uri)
    }
}

/// Checks the URI of a file of a skill, apart from where it is.
///
/// # Errors
///
/// The rule that it breaks.
pub(super) fn check_file_uri(uri: &str) -> Result<(), &'static str> {
    if uri.len() > MAX_URI {
        return Err("it is longer than 8 KiB");
    }
    let path = scheme(uri).and_then(|end| uri.get(end..)?.strip_prefix("://"));
    let path = path.ok_or("it does not begin with a scheme and `//`")?;
    if uri.contains(['?', '#']) {
        return Err("it has a query or a fragment");
    }
    if !is_uri(uri) {
        return Err("it has a character that a URI cannot have");
    }
    path.split('/').try_for_each(|segment| {
        let decoded = decode(segment).ok_or("it has a segment that is not UTF-8")?;
        check_segment(&decoded)
    })
}

/// Checks one decoded segment of a path: it has to name one file or folder in every file system.
fn check_segment(segment: &str) -> Result<(), &'static str> {
    match segment {
        "" => Err("it has an empty segment"),
        "." => Err("it has the segment `.`"),
        ".." => Err("it has the segment `..`, which could lead out of the folder"),
        _ if segment.contains(['/', '\\']) => Err("it has a segment with a slash or a backslash"),
        _ if segment.chars().any(char::is_control) => Err("it has a segment with a control character"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    // covers: SKILL-008
    #[test]
    fn names_follow_the_rules_of_agent_skills() {
        let long = "x".repeat(MAX_NAME);
        for name in ["a", "0", "pdf-processing", "a-b-c", &long] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let longer = "x".repeat(MAX_NAME + 1);
        for name in ["", "A", "a_b", "a b", "é", "-a", "a-", "a--b", "a/b", "..", &longer] {
            assert!(matches!(check_name(name), Err(SkillError::Name { .. })), "{name}");
        }
    }

    // covers: SKILL-005, SKILL-006, SKILL-007
    #[test]
    fn skill_uri_is_split_into_folder_and_name() {
        for (uri, root, name) in [
            ("skill://git-workflow/SKILL.md", "skill://git-workflow", "git-workflow"),
            ("skill://acme/billing/refunds/SKILL.md", "skill://acme/billing/refunds", "refunds"),
            ("github://owner/repo/skills/x/SKILL.md", "github://owner/repo/skills/x", "x"),
            ("skill://Acme%20Inc/a/SKILL.md", "skill://Acme%20Inc/a", "a"),
            ("skill://acme/r%65funds%2Dall/SKILL.md", "skill://acme/r%65funds%2Dall", "refunds-all"),
        ] {
            let parsed = SkillUri::parse(uri).expect(uri);
            assert_eq!((parsed.as_str(), parsed.root(), parsed.name()), (uri, root, name));
        }
        for (uri, part) in [
            ("SKILL.md", "a scheme and `//`"),
            ("skill:a/SKILL.md", "a scheme and `//`"),
            ("skill://SKILL.md", "a folder before"),
            ("skill:///SKILL.md", "an empty segment"),
            ("skill://a", "end in `/SKILL.md`"),
            ("skill://a/skill.md", "end in `/SKILL.md`"),
            ("skill://a/SKILL.md/", "an empty segment"),
            ("skill://a/SKILL.md?x", "a query"),
            ("skill://a/SKILL.md#x", "a query or a fragment"),
            ("skill://a/../b/SKILL.md", "`..`"),
            ("skill://a/%2e%2E/b/SKILL.md", "`..`"),
            ("skill://a/./SKILL.md", "`.`"),
            ("skill://a%2fb/c/SKILL.md", "slash"),
            ("skill://a%5Cb/c/SKILL.md", "backslash"),
            ("skill://a%00/c/SKILL.md", "control character"),
            ("skill://a%ff/c/SKILL.md", "UTF-8"),
            ("skill://a b/c/SKILL.md", "a character"),
            ("skill://A/SKILL.md", "lower-case"),
            ("skill://%41/SKILL.md", "lower-case"),
            ("skill://a%2D/SKILL.md", "hyphen"),
        ] {
            let error = SkillUri::parse(uri).expect_err(uri).to_string();
            assert!(error.contains(part), "{uri}: {error}");
        }
        assert!(SkillUri::parse(&alloc::format!("skill://{}/SKILL.md", "a/".repeat(5_000))).is_err());
    }

    // covers: SKILL-013, SKILL-036
    #[test]
    fn relative_paths_stay_within_the_skill() {
        let skill = SkillUri::parse("skill://acme/refunds/SKILL.md").expect("a URI");
        for (path, uri) in [
            ("SKILL.md", "skill://acme/refunds/SKILL.md"),
            ("examples/e mail.md", "skill://acme/refunds/examples/e%20mail.md"),
            ("./a/./ü%.md", "skill://acme/refunds/a/%C3%BC%25.md"),
            ("a?b#c", "skill://acme/refunds/a%3Fb%23c"),
        ] {
            let resolved = skill.resolve(path).expect(path);
            assert_eq!(resolved, uri);
            assert!(skill.path_of(&resolved).is_some(), "{path}");
        }
        for path in ["", ".", "./", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a\\b", "a\nb", "a/.."]
        {
            assert!(skill.resolve(path).is_err(), "{path:?}");
        }
        assert_eq!(skill.path_of("skill://acme/refunds/a%20b/c"), Some("a%20b/c"));
        for outside in [
            "skill://acme/refunds",
            "skill://acme/refunds/",
            "skill://acme/refunds2/a",
            "skill://acme/refunds/../x",
            "skill://acme/refunds/%2e%2e/x",
            "skill://acme/other/a",
            "skill://acme/refunds/a?b",
        ] {
            assert_eq!(skill.path_of(outside), None, "{outside}");
        }
    }
}
