//! The table of methods: revisions, sender, required capability.
//!
//! A revision gains or loses a method only by a row of this table.

use crate::version::Version;

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const PING: &str = "ping";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const PROGRESS: &str = "notifications/progress";
pub(crate) const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
pub(crate) const TOOLS_LIST: &str = "tools/list";
pub(crate) const TOOLS_CALL: &str = "tools/call";
pub(crate) const RESOURCES_LIST: &str = "resources/list";
pub(crate) const TEMPLATES_LIST: &str = "resources/templates/list";
pub(crate) const RESOURCES_READ: &str = "resources/read";
pub(crate) const PROMPTS_LIST: &str = "prompts/list";
pub(crate) const PROMPTS_GET: &str = "prompts/get";
pub(crate) const COMPLETE: &str = "completion/complete";
pub(crate) const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
pub(crate) const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
pub(crate) const SKILLS_LIST: &str = "skills/list";
pub(crate) const SKILLS_GET: &str = "skills/get";
pub(crate) const DIRECTORY_READ: &str = "resources/directory/read";
pub(crate) const SET_LEVEL: &str = "logging/setLevel";
pub(crate) const LIST_ROOTS: &str = "roots/list";
pub(crate) const CREATE_MESSAGE: &str = "sampling/createMessage";
pub(crate) const ELICIT: &str = "elicitation/create";
pub(crate) const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
pub(crate) const MESSAGE: &str = "notifications/message";
pub(crate) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
pub(crate) const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
pub(crate) const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub(crate) const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
pub(crate) const TASKS_GET: &str = "tasks/get";
pub(crate) const TASKS_RESULT: &str = "tasks/result";
pub(crate) const TASKS_LIST: &str = "tasks/list";
pub(crate) const TASKS_CANCEL: &str = "tasks/cancel";
pub(crate) const TASKS_UPDATE: &str = "tasks/update";
/// Notification of 2025-11-25 (TASK-025).
pub(crate) const TASK_STATUS: &str = "notifications/tasks/status";
/// Notification of the extension (TASK-126).
pub(crate) const TASK_CHANGED: &str = "notifications/tasks";
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The roles that may send a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MethodSender {
    Client,
    Server,
    Both,
}

/// A capability, declared by the role that receives the methods it allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Capability {
    /// Server: `tools`.
    Tools,
    /// Server: `resources`.
    Resources,
    /// Server: `resources.subscribe`.
    ResourceSubscriptions,
    /// Server: `prompts`.
    Prompts,
    /// Server: `completions` (not required in 2024-11-05).
    Completions,
    /// Server: `logging`.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    Logging,
    /// Client: `roots`.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    Roots,
    /// Client: `sampling`.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    Sampling,
    /// Client: `sampling.tools` (since 2025-11-25).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    SamplingTools,
    /// Client: `sampling.context` (since 2025-11-25; earlier, `sampling` includes context).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    SamplingContext,
    /// Client: `elicitation` in at least one mode.
    Elicitation,
    /// Client: `elicitation` by form. An `elicitation` capability that names no mode means this one (ELIC-003).
    ElicitationForm,
    /// Client: `elicitation.url` (since 2025-11-25).
    ElicitationUrl,
    /// Server: `tools.listChanged`.
    ToolsListChanged,
    /// Server: `prompts.listChanged`.
    PromptsListChanged,
    /// Server: `resources.listChanged`.
    ResourcesListChanged,
    /// Client: `roots.listChanged` (up to and including 2025-11-25).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    RootsListChanged,
    /// Server: the extension `io.modelcontextprotocol/skills` (SKILL-001).
    Skills,
    /// Server: the setting `directoryRead` of the extension `io.modelcontextprotocol/skills` (SKILL-003).
    DirectoryRead,
    /// `tasks` (2025-11-25 only; TASK-001).
    Tasks,
    /// `tasks.list` (2025-11-25 only).
    TaskList,
    /// `tasks.cancel` (2025-11-25 only).
    TaskCancellation,
    /// Server: `tasks.requests.tools.call` (2025-11-25 only).
    ToolTasks,
    /// Client: `tasks.requests.sampling.createMessage` (2025-11-25 only).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    SamplingTasks,
    /// Client: `tasks.requests.elicitation.create` (2025-11-25 only).
    ElicitationTasks,
    /// The extension `io.modelcontextprotocol/tasks` (since 2026-07-28).
    TasksExtension,
}

impl Capability {
    /// Returns whether the capability is an extension, or a setting of one.
    pub(crate) const fn is_extension(self) -> bool {
        matches!(self, Self::Skills | Self::DirectoryRead | Self::TasksExtension)
    }
}

impl core::fmt::Display for Capability {
    #[expect(deprecated, reason = "supported until its removal")]
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceSubscriptions => "resources.subscribe",
            Self::Prompts => "prompts",
            Self::Completions => "completions",
            Self::Logging => "logging",
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::Elicitation => "elicitation",
            Self::ElicitationForm => "elicitation.form",
            Self::ToolsListChanged => "tools.listChanged",
            Self::PromptsListChanged => "prompts.listChanged",
            Self::ResourcesListChanged => "resources.listChanged",
            Self::RootsListChanged => "roots.listChanged",
            Self::ElicitationUrl => "elicitation.url",
            Self::Skills => "skills",
            Self::DirectoryRead => "skills.directoryRead",
            Self::Tasks => "tasks",
            Self::TaskList => "tasks.list",
            Self::TaskCancellation => "tasks.cancel",
            Self::ToolTasks => "tasks.requests.tools.call",
            Self::SamplingTasks => "tasks.requests.sampling.createMessage",
            Self::ElicitationTasks => "tasks.requests.elicitation.create",
            Self::TasksExtension => crate::meta::TASKS_EXTENSION,
        })
    }
}

/// A kind of entry that a server lists (PAGE-001).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum EntryKind {
    /// A tool, by name.
    Tool,
    /// A resource, by URI.
    Resource,
    /// A resource template, by URI template.
    ResourceTemplate,
    /// A prompt, by name.
    Prompt,
    /// A skill, by the URI of its `SKILL.md`.
    Skill,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Tool, Self::Resource, Self::ResourceTemplate, Self::Prompt, Self::Skill];

    /// Returns the method that lists the entries.
    pub const fn list_method(self) -> &'static str {
        match self {
            Self::Tool => TOOLS_LIST,
            Self::Resource => RESOURCES_LIST,
            Self::ResourceTemplate => TEMPLATES_LIST,
            Self::Prompt => PROMPTS_LIST,
            Self::Skill => SKILLS_LIST,
        }
    }

    /// Returns the capability that a server with such a list declares.
    #[must_use]
    pub const fn capability(self) -> Capability {
        match self {
            Self::Tool => Capability::Tools,
            Self::Resource | Self::ResourceTemplate => Capability::Resources,
            Self::Prompt => Capability::Prompts,
            Self::Skill => Capability::Skills,
        }
    }

    /// Returns the member of a list result that holds the entries.
    #[must_use]
    pub const fn list_member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Resource => "resources",
            Self::ResourceTemplate => "resourceTemplates",
            Self::Prompt => "prompts",
            Self::Skill => "skills",
        }
    }
}

impl core::fmt::Display for EntryKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
            Self::Prompt => "prompt",
            Self::Skill => "skill",
        })
    }
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct MethodRule {
    pub(crate) name: &'static str,
    pub(crate) sender: MethodSender,
    pub(crate) since: Version,
    pub(crate) until: Version,
    pub(crate) required_capability: Option<Capability>,
    /// Modern results carry cache hints (CACHE-001).
    pub(crate) cacheable: bool,
    /// The server engine answers the method.
    pub(crate) handled_by_engine: bool,
}

impl MethodRule {
    const fn handled_by_engine(mut self) -> Self {
        self.handled_by_engine = true;
        self
    }
}

const OLDEST: Version = Version::V2024_11_05;
const LAST_LEGACY: Version = Version::V2025_11_25;
const NEWEST: Version = Version::V2026_07_28;

const fn client_request(
    name: &'static str,
    since: Version,
    until: Version,
    required_capability: Option<Capability>,
    cacheable: bool,
) -> MethodRule {
    MethodRule {
        name,
        sender: MethodSender::Client,
        since,
        until,
        required_capability,
        cacheable,
        handled_by_engine: false,
    }
}

const fn server_request(
    name: &'static str,
    since: Version,
    required_capability: Option<Capability>,
) -> MethodRule {
    MethodRule {
        sender: MethodSender::Server,
        ..client_request(name, since, LAST_LEGACY, required_capability, false)
    }
}

/// Returns the row of a request about tasks. In 2025-11-25 servers send it as well, for tasks of the client.
const fn task_request(name: &'static str, until: Version, required_capability: Capability) -> MethodRule {
    MethodRule {
        sender: MethodSender::Both,
        ..client_request(name, LAST_LEGACY, until, Some(required_capability), false).handled_by_engine()
    }
}

/// Requests of all revisions, the most frequent first: the table is searched in order.
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) const REQUESTS: &[MethodRule] = &[
    client_request(TOOLS_CALL, OLDEST, NEWEST, Some(Capability::Tools), false),
    client_request(TOOLS_LIST, OLDEST, NEWEST, Some(Capability::Tools), true),
    MethodRule {
        sender: MethodSender::Both,
        ..client_request(PING, OLDEST, LAST_LEGACY, None, false).handled_by_engine()
    },
    client_request(RESOURCES_READ, OLDEST, NEWEST, Some(Capability::Resources), true),
    client_request(RESOURCES_LIST, OLDEST, NEWEST, Some(Capability::Resources), true),
    client_request(TEMPLATES_LIST, OLDEST, NEWEST, Some(Capability::Resources), true),
    client_request(PROMPTS_GET, OLDEST, NEWEST, Some(Capability::Prompts), false),
    client_request(PROMPTS_LIST, OLDEST, NEWEST, Some(Capability::Prompts), true),
    client_request(COMPLETE, OLDEST, NEWEST, Some(Capability::Completions), false),
    client_request(SKILLS_LIST, OLDEST, NEWEST, Some(Capability::Skills), true),
    client_request(SKILLS_GET, OLDEST, NEWEST, Some(Capability::Skills), true),
    client_request(DIRECTORY_READ, OLDEST, NEWEST, Some(Capability::DirectoryRead), false),
    client_request(DISCOVER, NEWEST, NEWEST, None, true).handled_by_engine(),
    client_request(SUBSCRIPTIONS_LISTEN, NEWEST, NEWEST, None, false).handled_by_engine(),
    client_request(INITIALIZE, OLDEST, LAST_LEGACY, None, false).handled_by_engine(),
    client_request(RESOURCES_SUBSCRIBE, OLDEST, LAST_LEGACY, Some(Capability::ResourceSubscriptions), false)
        .handled_by_engine(),
    client_request(
        RESOURCES_UNSUBSCRIBE,
        OLDEST,
        LAST_LEGACY,
        Some(Capability::ResourceSubscriptions),
        false,
    )
    .handled_by_engine(),
    client_request(SET_LEVEL, OLDEST, LAST_LEGACY, Some(Capability::Logging), false).handled_by_engine(),
    task_request(TASKS_GET, NEWEST, Capability::Tasks),
    client_request(TASKS_UPDATE, NEWEST, NEWEST, Some(Capability::Tasks), false).handled_by_engine(),
    task_request(TASKS_CANCEL, NEWEST, Capability::TaskCancellation),
    task_request(TASKS_RESULT, LAST_LEGACY, Capability::Tasks),
    task_request(TASKS_LIST, LAST_LEGACY, Capability::TaskList),
    server_request(LIST_ROOTS, OLDEST, Some(Capability::Roots)),
    server_request(CREATE_MESSAGE, OLDEST, Some(Capability::Sampling)),
    server_request(ELICIT, Version::V2025_06_18, Some(Capability::Elicitation)),
];

/// Notifications that only the engines send.
const NOTIFICATIONS: &[&str] = &[
    CANCELLED,
    PROGRESS,
    INITIALIZED,
    MESSAGE,
    TOOLS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    RESOURCE_UPDATED,
    ROOTS_CHANGED,
    ELICITATION_COMPLETE,
    TASK_STATUS,
    TASK_CHANGED,
    ACKNOWLEDGED,
];

/// Returns whether a notification belongs to the protocol.
pub(crate) fn is_spec_notification(name: &str) -> bool {
    NOTIFICATIONS.contains(&name)
}

/// Returns whether a message changes what is known of a legacy session.
pub(crate) fn changes_session(method: &str) -> bool {
    matches!(method, INITIALIZE | INITIALIZED | SET_LEVEL | RESOURCES_SUBSCRIBE | RESOURCES_UNSUBSCRIBE)
}

/// Returns whether a call of this method may be answered by `input_required` (MRTR-002, DEC-018).
pub(crate) fn may_need_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// The parameter that names a task.
pub(crate) const TASK_SUBJECT: &str = "taskId";

/// Returns the parameter that `Mcp-Name` repeats (HTTP-033, XHDR-036).
pub(crate) fn subject_member(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some("name"),
        RESOURCES_READ => Some("uri"),
        TASKS_GET | TASKS_UPDATE | TASKS_CANCEL => Some(TASK_SUBJECT),
        _ => None,
    }
}

/// Returns the row of a request, or `None` if no revision has the method.
#[inline]
pub(crate) fn request_rule(name: &str) -> Option<&'static MethodRule> {
    REQUESTS.iter().find(|r| r.name == name)
}

impl MethodRule {
    /// Returns whether the method exists in `version`.
    pub(crate) fn exists_in(&self, version: Version) -> bool {
        (self.since..=self.until).contains(&version)
    }

    /// Returns the capability that the receiver must have declared in `version`.
    pub(crate) fn required_capability_in(&self, version: Version) -> Option<Capability> {
        match self.required_capability {
            // 2024-11-05 has no capability for completions.
            Some(Capability::Completions) if version == OLDEST => None,
            // Tasks are an extension there, without parts.
            Some(Capability::Tasks | Capability::TaskCancellation) if version == NEWEST => {
                Some(Capability::TasksExtension)
            }
            required => required,
        }
    }

    pub(crate) const fn is_sent_by_client(&self) -> bool {
        matches!(self.sender, MethodSender::Client | MethodSender::Both)
    }

    pub(crate) const fn is_sent_by_server(&self) -> bool {
        matches!(self.sender, MethodSender::Server | MethodSender::Both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LIFE-024, PING-006, VER-011
    #[test]
    fn methods_exist_only_in_their_revisions() {
        let exists = |name, v| request_rule(name).is_some_and(|r| r.exists_in(v));
        for legacy_only in
            ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
        {
            assert!(exists(legacy_only, LAST_LEGACY) && !exists(legacy_only, NEWEST), "{legacy_only}");
        }
        assert!(exists(DISCOVER, NEWEST) && !exists(DISCOVER, LAST_LEGACY));
        assert!(!exists("elicitation/create", Version::V2025_03_26));
        assert!(request_rule("tools/cal").is_none());
    }

    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn each_capability_is_named_by_its_path() {
        use Capability as C;
        for (capability, path) in [
            (C::Tools, "tools"),
            (C::Resources, "resources"),
            (C::ResourceSubscriptions, "resources.subscribe"),
            (C::Prompts, "prompts"),
            (C::Completions, "completions"),
            (C::Logging, "logging"),
            (C::Roots, "roots"),
            (C::Sampling, "sampling"),
            (C::SamplingTools, "sampling.tools"),
            (C::SamplingContext, "sampling.context"),
            (C::Elicitation, "elicitation"),
            (C::ElicitationForm, "elicitation.form"),
            (C::ElicitationUrl, "elicitation.url"),
            (C::ToolsListChanged, "tools.listChanged"),
            (C::PromptsListChanged, "prompts.listChanged"),
            (C::ResourcesListChanged, "resources.listChanged"),
            (C::RootsListChanged, "roots.listChanged"),
            (C::Skills, "skills"),
            (C::DirectoryRead, "skills.directoryRead"),
            (C::Tasks, "tasks"),
            (C::TaskList, "tasks.list"),
            (C::TaskCancellation, "tasks.cancel"),
            (C::ToolTasks, "tasks.requests.tools.call"),
            (C::SamplingTasks, "tasks.requests.sampling.createMessage"),
            (C::ElicitationTasks, "tasks.requests.elicitation.create"),
            (C::TasksExtension, "io.modelcontextprotocol/tasks"),
        ] {
            assert_eq!(alloc::format!("{capability}"), path);
        }
    }

    // covers: PAGE-001
    #[test]
    fn each_kind_of_entry_has_its_list() {
        let of = |kind: EntryKind| {
            (alloc::format!("{kind}"), kind.list_method(), kind.list_member(), kind.capability())
        };
        let expected = [
            ("tool", "tools/list", "tools", Capability::Tools),
            ("resource", "resources/list", "resources", Capability::Resources),
            ("resource template", "resources/templates/list", "resourceTemplates", Capability::Resources),
            ("prompt", "prompts/list", "prompts", Capability::Prompts),
            ("skill", "skills/list", "skills", Capability::Skills),
        ];
        assert_eq!(
            EntryKind::ALL.map(of),
            expected.map(|(name, method, member, c)| (name.into(), method, member, c))
        );
    }

    // covers: BASE-019, BASE-020
    #[test]
    fn each_method_has_its_sender_and_capability() {
        let rule = |name| request_rule(name).expect("a method");
        for (name, by_client, by_server) in [
            (TOOLS_CALL, true, false),
            (PING, true, true),
            (CREATE_MESSAGE, false, true),
            (ELICIT, false, true),
            (TASKS_GET, true, true),
        ] {
            assert_eq!(
                (rule(name).is_sent_by_client(), rule(name).is_sent_by_server()),
                (by_client, by_server),
                "{name}"
            );
        }
        let required = |name, version| rule(name).required_capability_in(version);
        assert_eq!(required(COMPLETE, OLDEST), None);
        assert_eq!(required(COMPLETE, Version::V2025_03_26), Some(Capability::Completions));
        assert_eq!(required(TASKS_CANCEL, LAST_LEGACY), Some(Capability::TaskCancellation));
        assert_eq!(required(TASKS_CANCEL, NEWEST), Some(Capability::TasksExtension));
        assert_eq!(required(TASKS_GET, NEWEST), Some(Capability::TasksExtension));
    }
}
