//! Verification: size and digest of a file, and the front matter of a `SKILL.md`.

use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::SkillError;
use crate::json::{canonical, object_members};
use crate::model::{Skill, SkillResource};
use crate::raw::RawJson;

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
        if equals(&self.frontmatter, found) {
            return Ok(());
        }
        let mut names: Vec<String> = Vec::new();
        for object in [&self.frontmatter, found] {
            object_members(object.as_bytes(), |name, _| {
                names.push(String::from_utf8_lossy(name).into_owned())
            });
        }
        let value = |object: &RawJson, name: &str| object.member(name);
        let differs = |name: &&String| match (value(&self.frontmatter, name), value(found, name)) {
            (Some(a), Some(b)) => !equals(&a, &b),
            (a, b) => a.is_some() != b.is_some(),
        };
        let member = names.iter().find(differs).cloned().unwrap_or_default();
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

/// Returns whether two JSON texts have the same value.
fn equals(a: &RawJson, b: &RawJson) -> bool {
    let stream = |value: &RawJson| {
        let mut stream = Vec::new();
        canonical(value.as_bytes(), &mut |part| stream.extend_from_slice(part)).map(|()| stream)
    };
    matches!((stream(a), stream(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SkillResources;
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
