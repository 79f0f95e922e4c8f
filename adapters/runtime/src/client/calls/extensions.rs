//! Calls of extensions: tasks, skills (SEP-2640) with their verified files, and apps.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_extensions::pins::Pins;
use mcp_extensions::skills::{GetSkillParams, ReadDirectoryParams, Skill};
#[cfg(feature = "skills")]
use mcp_extensions::skills::{MAX_TOTAL_SIZE, SkillContent, SkillError, SkillUri, read_front_matter};
use mcp_proto::client::{AppTools, Paginator, Peer, StartedTask, TaskHandle, TaskRequest};
use mcp_proto::model::{
    CallToolParams, CallToolResult, CancelTaskParams, GetTaskParams, InputResponses, RequestParams, Resource,
    Task, Tool, UiToolVisibility,
};
#[cfg(feature = "skills")]
use mcp_proto::model::{ReadResourceParams, ResourceContents};
use mcp_proto::{CallOptions, Capability, Diagnostic, EntryKind, RawJson, UseError};
use serde::Serialize;

#[cfg(feature = "skills")]
use super::async_calls::read;
use super::commands::{Request, TaskUpdate, TaskWait, ToolCall};
use super::{AsyncCalls, ClientBackend};
use crate::client::handler::Callback;
use crate::client::layers::Layers;
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
        self.report(pages.diagnostic());
        Ok(self.read_entries(&pages.into_entries()))
    }
}

// Calls of a host of apps: the tools for its model, and the tools that pages may call.

/// Number of lists that are fetched for a call of an app, each after the one before has changed while it was read.
const MAX_LISTS: usize = 2;

/// # Apps
impl<B: ClientBackend> AsyncCalls<B> {
    /// Returns the tools for the model, without those that only apps may call (APP-007); otherwise as
    /// [`list_tools`](Self::list_tools).
    ///
    /// A tool whose `_meta.ui.visibility` cannot be read is left out and reported like one that cannot be read at all.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_model_tools(&self) -> Result<Vec<Tool>, Error> {
        let mut tools = self.list_tools().await?;
        let mut index = 0;
        tools.retain(|tool| {
            index += 1;
            tool.is_visible_to(&UiToolVisibility::Model).unwrap_or_else(|error| {
                let reason = std::format!("`{}`: {error}", tool.name).chars().take(256).collect();
                self.backend.dispatch(Callback::Diagnostic(Diagnostic::UnreadableEntry {
                    list: EntryKind::Tool,
                    index: index - 1,
                    reason,
                }));
                false
            })
        });
        Ok(tools)
    }

    /// Calls a tool for the page of an app of this server, if the tool permits it (APP-008).
    ///
    /// Whether it does is known from the list of tools, which is fetched when an app calls a tool for the first time, after
    /// it has changed, and for a tool that it lacks. A list that changes while it is fetched is fetched once more. Use the
    /// client of the server that the page came from: apps never call the tools of another server.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), as [`list`](Self::list), and
    /// [`UseError::NotForApps`](mcp_proto::UseError::NotForApps) if apps may not call the tool, or the list of tools has
    /// changed both times.
    pub async fn call_tool_for_app<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        // A change notification that hides the tool may have arrived unread.
        self.backend.catch_up().await?;
        let access = match self.backend.result_cache().check_app_tool(name) {
            Some(access) => access,
            None => self.fetch_app_access(name).await?,
        };
        access.map_err(Error::Use)?;
        self.call_tool(name, arguments).await
    }

    /// Fetches the list of tools, and checks whether an app may call one of them.
    async fn fetch_app_access(&self, name: &str) -> Result<Result<(), UseError>, Error> {
        let cache = self.backend.result_cache();
        cache.keep_app_tools();
        for _ in 0..MAX_LISTS {
            let generation = cache.tools_generation();
            let tools = self.list(EntryKind::Tool).await?;
            // A list that has changed meanwhile may be older than the change that hides the tool.
            if cache.tools_generation() == generation {
                return Ok(AppTools::new(&tools).check(name));
            }
        }
        let reason = "the list of tools changes while it is read".into();
        Ok(Err(UseError::NotForApps { tool: name.into(), reason }))
    }
}

// Definitions of a server, compared with those that somebody has looked at.

/// # Pins
impl<B: ClientBackend> AsyncCalls<B> {
    /// Refuses calls of tools that are not as they were when `pins` were made, from now on, before anything is sent.
    ///
    /// Whether a tool is as it was is known from the list of tools. [`call_tool`](Self::call_tool) reads it, never from a cache, if it
    /// was not read before, has changed, or was read more than a minute ago; calls that do not wait
    /// ([`start_tool`](Self::start_tool)), and those that are made as any [`request`](Self::request), are refused then. A tool without
    /// a pin is refused as well. A call whose session an HTTP server has lost ends with
    /// [`HttpError::SessionLost`](mcp_proto::HttpError::SessionLost), and is never sent again in the next one: make it again, which
    /// reads the list of that. One that was checked in the lost session, and still waited for its first sending when that was lost, is
    /// sent in the next one.
    ///
    /// Names and definitions are those of the server, below the [layers](crate::client::Options::layer) of this client: what a layer
    /// renames or describes anew is compared as it is sent, and the list is read without layers.
    pub fn pin(&self, pins: Pins) {
        self.backend.result_cache().pin_tools(pins);
    }

    /// Reads the definitions of the server: all lists that it has, and its instructions. `peer` is that of the client.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list), and [`Error::UnexpectedResult`] if an entry cannot be pinned, or a list has more pages than are read.
    pub async fn read_pins(&self, peer: &Peer) -> Result<Pins, Error> {
        let mut pins = Pins::new().instructions(peer.instructions.as_deref());
        for kind in EntryKind::ALL {
            // Skills have digests of their own.
            if kind != EntryKind::Skill && peer.has(kind.capability()) {
                let listed = self.list_below(kind).await?;
                if listed.is_cut {
                    // What was not read would count as removed, or pass unseen.
                    let why =
                        format!("the list of {kind}s has no end that was reached, so it cannot be pinned");
                    return Err(Error::UnexpectedResult(why));
                }
                pins = pins
                    .entries(kind, &listed.entries)
                    .map_err(|why| Error::UnexpectedResult(why.to_string()))?;
            }
        }
        Ok(pins)
    }

    /// Checks the pin of a tool that is called through the layers. They may choose another one, which is checked inside of them.
    pub(super) async fn learn_called(&self, name: &str) -> Result<(), Error> {
        match self.backend.layers() {
            Layers::None => self.learn_pinned(name).await,
            _ => Ok(()),
        }
    }

    /// Fetches the list of tools if it is needed for the pin of a tool, and checks that.
    pub(super) async fn learn_pinned(&self, name: &str) -> Result<(), Error> {
        let cache = self.backend.result_cache();
        if !cache.has_pinned_tools() {
            return Ok(());
        }
        // A change notification may have arrived unread.
        self.backend.catch_up().await?;
        for _ in 0..MAX_LISTS {
            if cache.check_pinned_tool(name).is_some() {
                break;
            }
            self.list_pinned().await?;
        }
        self.check_pin(name)
    }

    /// Reads the list of tools and compares it with the pins.
    pub(super) async fn list_pinned(&self) -> Result<(), Error> {
        let cache = self.backend.result_cache();
        let generation = cache.tools_generation();
        let listed = self.list_below(EntryKind::Tool).await?;
        cache.set_pinned_tools(generation, &listed.entries);
        Ok(())
    }

    /// Returns the options of a call of a tool: with pins it is meant for this session, whose list was read.
    pub(super) fn tool_options<'o>(&self, options: &'o CallOptions) -> Cow<'o, CallOptions> {
        match self.backend.result_cache().has_pinned_tools() {
            true => Cow::Owned(options.clone().same_session()),
            false => Cow::Borrowed(options),
        }
    }

    /// Returns the options of a request, which are those of a call of a tool if it is one.
    pub(super) fn request_options<'o>(&self, method: &str, options: &'o CallOptions) -> Cow<'o, CallOptions> {
        match method == CallToolParams::METHOD {
            true => self.tool_options(options),
            false => Cow::Borrowed(options),
        }
    }

    /// Checks a request before the layers, as [`check_request`](Self::check_request) does, unless there are some: they may change it.
    pub(super) fn check_outside<T: Serialize + ?Sized>(&self, method: &str, params: &T) -> Result<(), Error> {
        match self.backend.layers() {
            Layers::None => self.check_request(method, params),
            _ => Ok(()),
        }
    }

    /// Checks the pin of the tool that a request calls, if it calls one.
    pub(super) fn check_request<T: Serialize + ?Sized>(&self, method: &str, params: &T) -> Result<(), Error> {
        if method != CallToolParams::METHOD || !self.backend.result_cache().has_pinned_tools() {
            return Ok(());
        }
        let params = RawJson::encode(params).map_err(|error| Error::Use(error.into()))?;
        match params.parse::<CallToolParams<'_>>() {
            Ok(tool) => self.check_pin(&tool.name),
            Err(error) => Err(Error::Pinned(format!("its tool cannot be read: {error}"))),
        }
    }

    /// Checks the pin of a tool, if there are pins.
    pub(super) fn check_pin(&self, name: &str) -> Result<(), Error> {
        let verdict = self.backend.result_cache().check_pinned_tool(name);
        let unknown = || Err("the list of tools has changed, or was not read lately".into());
        verdict.unwrap_or_else(unknown).map_err(Error::Pinned)
    }
}

// Files of skills, verified against the entry of their skill.

/// Decodes Base64 with the standard alphabet.
#[cfg(feature = "skills")]
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).ok()
}

/// # Files of skills
#[cfg(feature = "skills")]
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
        let unreadable = |why: &str| {
            Error::UnexpectedResult(format!("the result of `{}` {why}", ReadResourceParams::METHOD))
        };
        let mut contents = read::<ReadResourceParams<'_>>(&result)?.contents;
        let (Some(content), true) = (contents.pop(), contents.is_empty()) else {
            return Err(unreadable("does not have one content"));
        };
        let media_type = content.mime_type().map(ToOwned::to_owned);
        let bytes = match content {
            ResourceContents::Text(text) => text.text.into_owned().into_bytes(),
            ResourceContents::Blob(blob) => {
                decode_base64(&blob.blob).ok_or_else(|| unreadable("has a blob that is not Base64"))?
            }
            _ => return Err(unreadable("has an unknown kind of content")),
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
        Ok(SkillContent::new(bytes, media_type, listed.is_some()))
    }
}

// Tasks of a server: tools that run as tasks, and handles that another process can take up.

/// # Tasks
///
/// They need [`Config::tasks`](mcp_proto::client::Config::tasks).
impl<B: ClientBackend> AsyncCalls<B> {
    /// Calls a tool and returns as soon as it runs as a task.
    ///
    /// The handle can be written down ([`TaskHandle::to_text`]) and taken up by another process
    /// ([`resume_task`](Self::resume_task)). `ttl` asks a server of 2025-11-25 to keep the task for this time.
    ///
    /// A server without tasks, or one that makes no task of this call, runs the tool as usual: the call waits for the
    /// result, which is [`StartedTask::Done`]. In 2025-11-25 the list of tools tells whether a tool may run as a task; it
    /// is requested if it is not known.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::Use`] with [`UseError::NotDeclared`] without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub async fn start_task<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        ttl: Option<Duration>,
    ) -> Result<StartedTask, Error> {
        let peer = self.task_peer()?;
        let cache = self.backend.result_cache();
        self.learn_tool_tasks().await?;
        self.learn_called(name).await?;
        let wanted = ttl.map_or(TaskRequest::detached(), |ttl| TaskRequest::detached().ttl(ttl));
        let task = cache.task_request(name, Some(wanted));
        let plain = CallOptions::new();
        let options = &*self.tool_options(&plain);
        let result = self.perform(ToolCall { name, arguments, task, options }, false, |_| {}).await?;
        match StartedTask::from_result(&peer, name, &result) {
            Ok(StartedTask::Done(_)) => {
                self.read_tool_result(name, &result).map(|result| StartedTask::Done(result.into()))
            }
            Ok(task) => Ok(task),
            Err(reason) => Err(Error::UnexpectedResult(format!(
                "the answer to the call of `{name}` cannot be read: {reason}"
            ))),
        }
    }

    /// Reads the handle of a task that [`TaskHandle::to_text`] has written, and checks that it is one of this server.
    ///
    /// Nothing is sent: [`get_task`](Self::get_task) tells whether the server still has the task.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] with [`UseError::ForeignTask`], or [`UseError::NotDeclared`] without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn resume_task(&self, text: &str) -> Result<TaskHandle, Error> {
        let peer = self.task_peer()?;
        let task = TaskHandle::parse(text)
            .map_err(|error| Error::Use(UseError::ForeignTask { reason: error.to_string() }))?;
        task.check(&peer).map_err(Error::Use)?;
        Ok(task)
    }

    /// Waits for the result of a task; otherwise as [`call_tool`](Self::call_tool).
    ///
    /// A wait that times out or is dropped does not cancel the task: it can be waited for again, and its result can be
    /// read again while the server keeps it. The longest wait is
    /// [`TaskPolling::max_wait`](mcp_proto::client::TaskPolling::max_wait).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Call`] with [`CallError::TaskLost`](mcp_proto::CallError::TaskLost) if
    /// the server does not know the task any more, [`TaskCancelled`](mcp_proto::CallError::TaskCancelled) if it was
    /// cancelled, [`TaskExpired`](mcp_proto::CallError::TaskExpired) if its time has passed.
    pub async fn wait_task(&self, task: &TaskHandle) -> Result<CallToolResult<'static>, Error> {
        self.wait_task_with(task, &CallOptions::new()).await
    }

    /// Waits for the result of a task as [`wait_task`](Self::wait_task) does, with options: `total_timeout` bounds the
    /// wait, `timeout` each request.
    ///
    /// # Errors
    ///
    /// As [`wait_task`](Self::wait_task).
    pub async fn wait_task_with(
        &self,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallToolResult<'static>, Error> {
        let result = self.perform(TaskWait { task, options }, false, |_| {}).await?;
        self.read_tool_result(task.tool(), &result)
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Use`] with [`UseError::ForeignTask`] for a task of another server.
    pub async fn get_task(&self, task: &TaskHandle) -> Result<Task<'static>, Error> {
        let result = self.request_task(task, &GetTaskParams::new(task.id().as_str())).await?;
        let state = GetTaskParams::read(&result)
            .map_err(|why| Error::UnexpectedResult(format!("the state of the task cannot be read: {why}")))?;
        if state.task_id != *task.id() {
            return Err(Error::UnexpectedResult("the state is that of another task".into()));
        }
        Ok(state)
    }

    /// Answers some or all input requests of a task (2026-07-28).
    ///
    /// Only for tasks that no call follows: [`call_tool`](Self::call_tool) and [`wait_task`](Self::wait_task) pass the
    /// questions to the handler.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task), and [`Error::Use`] in 2025-11-25, where questions are requests of the server.
    pub async fn update_task(&self, task: &TaskHandle, responses: &InputResponses<'_>) -> Result<(), Error> {
        self.check_task(task)?;
        self.perform(TaskUpdate { task, responses }, false, |_| {}).await.map(drop)
    }

    /// Asks the server to cancel a task.
    ///
    /// A server of 2025-11-25 refuses that for a task that has ended. One of 2026-07-28 confirms the wish only.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub async fn cancel_task(&self, task: &TaskHandle) -> Result<(), Error> {
        self.request_task(task, &CancelTaskParams::new(task.id().as_str())).await.map(drop)
    }

    /// Makes a request about a task of this server.
    async fn request_task<R: RequestParams>(&self, task: &TaskHandle, params: &R) -> Result<RawJson, Error> {
        self.check_task(task)?;
        self.perform(Request { method: R::METHOD, params, options: &CallOptions::new() }, false, |_| {}).await
    }

    /// Requests the list of tools if it is needed to know which of them run as tasks: once more if it changes meanwhile.
    pub(super) async fn learn_tool_tasks(&self) -> Result<(), Error> {
        for _ in 0..2 {
            if self.backend.result_cache().needs_tools() {
                self.list(EntryKind::Tool).await?;
            }
        }
        Ok(())
    }

    /// Checks that a task is one of this server.
    fn check_task(&self, task: &TaskHandle) -> Result<(), Error> {
        task.check(&*self.task_peer()?).map_err(Error::Use)
    }

    fn task_peer(&self) -> Result<Arc<Peer>, Error> {
        let peer = self.backend.result_cache().task_peer();
        peer.ok_or(Error::Use(UseError::NotDeclared(Capability::TasksExtension)))
    }
}
