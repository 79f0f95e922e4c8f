//! Body of the fuzz target `front_matter`: the `SKILL.md` of a stranger.

use super::{SkillError, split_front_matter};

/// Reads the front matter, and checks what was read.
///
/// # Panics
///
/// Panics if the outcome is not a JSON object without duplicate members, or if reading it again differs.
pub fn front_matter(data: &[u8]) {
    let uri = "skill://fuzz/SKILL.md";
    match super::read_front_matter(uri, data) {
        Ok(read) => {
            assert!(read.is_object(), "{read:?}");
            let text = core::str::from_utf8(data).expect("it was read as text");
            let (yaml, _) = split_front_matter(text).expect("it was split before");
            // Escapes of YAML are at most as long as what they become in JSON, and `null` stands for nothing.
            assert!(read.as_bytes().len() <= 8 * yaml.len() + 8, "a short text became a long one");
            // Refuses duplicate members.
            let members = read.parse::<mcp_proto::model::Map<mcp_proto::RawJson>>().expect("an object");
            for (name, value) in members.iter() {
                assert_eq!(read.member(name).as_ref(), Some(value), "{name}");
            }
            let again = super::read_front_matter(uri, data).expect("it was read before");
            assert_eq!(again, read);
        }
        Err(SkillError::FrontMatter { reason, .. }) => assert!(!reason.is_empty()),
        Err(error) => panic!("{error:?}"),
    }
}
