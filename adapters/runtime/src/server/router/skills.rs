//! Skills of a router: folders and bytes, served as resources (SEP-2640).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::path::Path;

use mcp_extensions::skills::{Content, SkillError, SkillFolder, read_skills};
use mcp_proto::model::{ReadResourceResult, ResourceContents};
use mcp_proto::router::{CallTarget, RegisterError};

use super::answer::{EntryResult, misrouted_error};
use super::flavor::{EntryCall, SharedFunction};
use super::{Flavor, Router};

impl<F: Flavor> Router<F> {
    /// Adds a skill: each of its files as a resource, and its entry (SKILL-002, SKILL-005).
    ///
    /// The bytes are kept in memory, so they agree with the digests of the entry. Text is sent as text, and other content in
    /// Base64. A skill whose content is made when it is read has resources of its own:
    /// [`router::Router::skill`](mcp_proto::router::Router::skill) lists it.
    ///
    /// ```
    /// # use mcp_runtime::server::router::{Functions, Local, Router};
    /// use mcp_extensions::skills::SkillFolder;
    ///
    /// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
    /// let text = "---\nname: tides\ndescription: Reads tide tables\n---\nSee `references/ports.md`.\n";
    /// let tides = SkillFolder::new("skill://tides").file("SKILL.md", text).file("references/ports.md", "Brest, Cork\n");
    /// router.skill(tides);
    /// router.check().unwrap();
    /// ```
    pub fn skill(&mut self, skill: SkillFolder) -> &mut Self {
        let added = self.add_skills(&[skill]);
        self.record(added)
    }

    /// Adds all skills below a folder: each folder with a file `SKILL.md`, itself included.
    ///
    /// The URI of a skill is `skill://` and its path below the folder; if the folder itself is a skill, its name comes first.
    /// The name in the front matter has to equal the name of the folder of the skill (SKILL-007). A skill in the folder of
    /// another one has an entry of its own, and its files are files of both (SKILL-016).
    ///
    /// The files are read now, once: later changes on the disk have no effect, so what is served always agrees with its
    /// digest. Files and folders whose names begin with a dot are left out. On Unix a link that another process puts into the folder
    /// meanwhile is not followed; on other systems no other user may be able to write to it.
    ///
    /// Everything is refused if one file cannot be served: a link that leads out of the folder, or to a folder above it; a
    /// name that is not UTF-8; something that is neither a file nor a folder; a skill beyond the limits
    /// ([`MAX_FILES`](mcp_extensions::skills::MAX_FILES), [`MAX_TOTAL_SIZE`](mcp_extensions::skills::MAX_TOTAL_SIZE)); more than 32
    /// folders below each other; a folder without a skill. [`check`](Self::check) reports the path and the reason.
    pub fn skills_from(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        let folders = read_skills(folder.as_ref()).map_err(|error| RegisterError::Folder {
            path: error.path.display().to_string(),
            reason: error.reason,
        });
        let added = folders.and_then(|folders| self.add_skills(&folders));
        self.record(added)
    }

    /// Adds skills, of which some may be in the folders of others.
    fn add_skills(&mut self, folders: &[SkillFolder]) -> Result<(), RegisterError> {
        let mut files = Vec::new();
        let mut entries = Vec::new();
        for folder in folders {
            let refused = |error: SkillError| RegisterError::Skill {
                uri: folder.root().to_owned(),
                reason: error.to_string(),
            };
            let entry = folder.entry().map_err(refused)?;
            files.push((folder.root().len(), folder.resources(&entry).map_err(refused)?));
            entries.push(entry);
        }
        // The inner ones first: a file of two skills is described as a file of the inner one.
        files.sort_by_key(|(depth, _)| core::cmp::Reverse(*depth));
        let mut added = BTreeSet::new();
        for file in files.into_iter().flat_map(|(_, files)| files) {
            if added.insert(file.resource.uri.clone()) {
                let handler = F::from_function(file_handler(file.content));
                self.state_mut().core.resource(file.resource, handler)?;
            }
        }
        entries.iter().try_for_each(|entry| self.state_mut().core.skill(entry).map(drop))
    }
}

/// Returns the handler of a resource with fixed content.
fn file_handler(content: Content) -> SharedFunction<EntryCall> {
    Arc::new(move |_, target| {
        let CallTarget::Resource(target) = target else { return Err(misrouted_error().into()) };
        let uri = target.uri.clone();
        let mut contents = match core::str::from_utf8(&content) {
            // Some clients and stores cut a text at a NUL.
            Ok(text) if !text.contains('\0') => ResourceContents::text(uri, text),
            _ => ResourceContents::blob_bytes(uri, &content),
        };
        let media_type = target.mime_type.map(|media_type| String::from(media_type).into());
        match &mut contents {
            ResourceContents::Text(text) => text.mime_type = media_type,
            ResourceContents::Blob(blob) => blob.mime_type = media_type,
            _ => {}
        }
        Ok(EntryResult::Resource(ReadResourceResult::new([contents]).into_owned()))
    })
}
