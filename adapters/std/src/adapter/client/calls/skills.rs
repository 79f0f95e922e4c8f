//! Skills of a server: entries, verified files, directories (SEP-2640).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use mcp_proto::CallOptions;
use mcp_proto::EntryKind;
use mcp_proto::client::{Paginator, TypedEntries};
use mcp_proto::model::{GetSkillParams, ReadDirectoryParams, RequestParams, Resource, Skill};

use super::{AsyncCalls, ClientBackend};
use crate::adapter::client::callback::Callback;
use crate::error::Error;

/// # Skills
impl<B: ClientBackend> AsyncCalls<B> {
    /// Returns the entries of the skills that the server lists, from all pages (SKILL-020).
    ///
    /// No file is read (SKILL-033). A server may have more skills than it lists: [`get_skill`](Self::get_skill) returns those,
    /// too. An entry that cannot be read is left out and reported, and the list is bounded, as for
    /// [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list). `Use(MissingPeerCapability)` if the server did not declare the extension.
    pub async fn list_skills(&self) -> Result<Vec<Skill>, Error> {
        self.entries().await
    }

    /// Returns the current entry of a skill, by the URI of its `SKILL.md` (SKILL-024).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::UnexpectedResult`] if the entry is that of another skill, and
    /// `Use(MissingPeerCapability)` if the server did not declare the extension.
    pub async fn get_skill(&self, uri: &str) -> Result<Skill, Error> {
        let skill = self.send(&GetSkillParams::new(uri)).await?.skill;
        if skill.uri != uri {
            let other = format!("the result of `{}` is the entry of another skill", GetSkillParams::METHOD);
            return Err(Error::UnexpectedResult(other));
        }
        Ok(skill)
    }

    /// Returns the files and directories directly in a directory of the server, from all pages (SKILL-040).
    ///
    /// The bounds are those of [`list`](Self::list). The result does not extend the list of files of a skill: a file that its
    /// entry does not list must not be used (SKILL-045).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list). `Use(MissingPeerCapability)` if the server did not declare that it can do this
    /// ([`Capability::DirectoryRead`](mcp_proto::Capability::DirectoryRead)).
    pub async fn read_directory(&self, uri: &str) -> Result<Vec<Resource>, Error> {
        let mut pages = Paginator::new(EntryKind::Resource, self.backend.max_list_bytes());
        loop {
            let mut params = ReadDirectoryParams::new(uri);
            params.cursor = pages.cursor().map(ToOwned::to_owned);
            let result = self.request(ReadDirectoryParams::METHOD, &params, &CallOptions::new()).await?;
            if !pages.take(&result).map_err(|error| Error::UnexpectedResult(error.to_string()))? {
                break;
            }
        }
        let ending = pages.diagnostic();
        let read = TypedEntries::<Resource>::read(&pages.into_entries());
        for diagnostic in ending.into_iter().chain(read.diagnostics) {
            self.backend.dispatch(Callback::Diagnostic(diagnostic));
        }
        Ok(read.entries)
    }
}
