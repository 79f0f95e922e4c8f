//! Files of skills, verified against the entry of their skill.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use mcp_proto::CallOptions;
use mcp_proto::model::{ReadResourceParams, RequestParams, ResourceContents, Skill};
use mcp_proto::skills::{MAX_TOTAL_SIZE, SkillError, SkillUri};

use super::{AsyncCalls, ClientBackend};
use crate::error::Error;
use crate::skills::{SkillContent, decode_base64, read_front_matter};

/// # Files of skills
impl<B: ClientBackend> AsyncCalls<B> {
    /// Reads a file of a skill, and verifies it against the entry of the skill (SKILL-030, SKILL-031, SKILL-032).
    ///
    /// `skill` is an entry of [`list_skills`](AsyncCalls::list_skills) or [`get_skill`](AsyncCalls::get_skill), and `file`
    /// the URI of the file; [`SkillUri::resolve`] makes one of a relative path. Compared are the size, the digest, and for
    /// the `SKILL.md` also the front matter, by value. If the content of the skill is dynamic, only the front matter can be
    /// compared ([`SkillContent::is_verified`]).
    ///
    /// Nothing is cached, and nothing is requested if the entry shows already that the file must not be used. After a
    /// mismatch, get the entry again: the skill may have changed. A match says nothing about trust: treat the content as
    /// that of a stranger (SKILL-034, SKILL-050).
    ///
    /// A file of more than [`Limits::max_frame`](mcp_proto::Limits) bytes, as it is encoded in its message, cannot be
    /// received: raise that limit to read files close to the permitted 16 MiB.
    ///
    /// # Errors
    ///
    /// [`Error::Skill`] if the file is not listed, or is not what is listed: it names the file, what was expected and what
    /// was found. Otherwise as [`read_resource`](AsyncCalls::read_resource).
    pub async fn read_skill_file(&self, skill: &Skill, file: &str) -> Result<SkillContent, Error> {
        let uri = SkillUri::parse(&skill.uri)?;
        skill.check_limits()?;
        let listed = skill.resource(file)?;
        if uri.path_of(file).is_none() {
            let (uri, file) = (skill.uri.clone(), file.to_owned());
            return Err(SkillError::File { uri, file, reason: "is not in the folder of the skill" }.into());
        }
        // Not from the cache, which may hold what the file was before.
        let params = ReadResourceParams::new(file);
        let result = self.request(ReadResourceParams::METHOD, &params, &CallOptions::new()).await?;
        let unreadable = |why: String| {
            Error::UnexpectedResult(format!("the result of `{}` {why}", ReadResourceParams::METHOD))
        };
        let read = ReadResourceParams::read(&result);
        let mut contents = read.map_err(|error| unreadable(format!("cannot be read: {error}")))?.contents;
        let (Some(content), true) = (contents.pop(), contents.is_empty()) else {
            return Err(unreadable("does not have one content".into()));
        };
        let media_type = content.mime_type().map(ToOwned::to_owned);
        let bytes = match content {
            ResourceContents::Text(text) => text.text.into_owned().into_bytes(),
            ResourceContents::Blob(blob) => {
                decode_base64(&blob.blob).ok_or_else(|| unreadable("has a blob that is not Base64".into()))?
            }
            _ => return Err(unreadable("has an unknown kind of content".into())),
        };
        match listed {
            Some(listed) => listed.verify(&bytes)?,
            None if bytes.len() as u64 > MAX_TOTAL_SIZE => {
                return Err(SkillError::TooLarge { uri: skill.uri.clone(), size: bytes.len() as u64 }.into());
            }
            None => {}
        }
        if file == skill.uri {
            skill.verify_front_matter(&read_front_matter(file, &bytes)?)?;
        }
        // Last: a mismatch says more than a rule that its entry breaks.
        skill.check()?;
        Ok(SkillContent { bytes, media_type, is_verified: listed.is_some() })
    }
}
