//! Which method exists in which revision, who may send it, and what it needs: pure data.
//!
//! A method that a revision does not have is deleted by its row: no other code knows.

use crate::version::Version;

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const PING: &str = "ping";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const PROGRESS: &str = "notifications/progress";
pub(crate) const SUBSCRIBE: &str = "subscriptions/listen";
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
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Who may send a method
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    Client,
    Server,
    Both,
}

/// A capability that gates a method, declared by whoever receives it
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Capability {
    /// Server: `tools`
    Tools,
    /// Server: `resources`
    Resources,
    /// Server: `resources.subscribe`
    ResourceSubscriptions,
    /// Server: `prompts`
    Prompts,
    /// Server: `completions` (not gated in 2024-11-05)
    Completions,
    /// Server: `logging`
    Logging,
    /// Client: `roots`
    Roots,
    /// Client: `sampling`
    Sampling,
    /// Client: `sampling.tools` (since 2025-11-25)
    SamplingTools,
    /// Client: `sampling.context` (since 2025-11-25; older clients with `sampling` may be asked for context)
    SamplingContext,
    /// Client: `elicitation`, in one mode at least
    Elicitation,
    /// Client: `elicitation` by a form, which is also what `elicitation` means that names no mode (ELIC-003)
    ElicitationForm,
    /// Client: `elicitation.url` (since 2025-11-25)
    ElicitationUrl,
    /// Server: `tools.listChanged`
    ToolsListChanged,
    /// Server: `prompts.listChanged`
    PromptsListChanged,
    /// Server: `resources.listChanged`
    ResourcesListChanged,
    /// Client: `roots.listChanged` (until 2025-11-25)
    RootsListChanged,
}

impl core::fmt::Display for Capability {
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
        })
    }
}

/// What a server offers by name or URI; each kind is a list of its own (PAGE-001)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A tool, by its name
    Tool,
    /// A resource, by its URI
    Resource,
    /// A family of resources, by its template
    ResourceTemplate,
    /// A prompt, by its name
    Prompt,
}

impl Kind {
    /// All of them
    pub const ALL: [Self; 4] = [Self::Tool, Self::Resource, Self::ResourceTemplate, Self::Prompt];

    /// The method that lists them
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::Tool => TOOLS_LIST,
            Self::Resource => RESOURCES_LIST,
            Self::ResourceTemplate => TEMPLATES_LIST,
            Self::Prompt => PROMPTS_LIST,
        }
    }

    /// The capability that a server with such a list declares
    #[must_use]
    pub const fn capability(self) -> Capability {
        match self {
            Self::Tool => Capability::Tools,
            Self::Resource | Self::ResourceTemplate => Capability::Resources,
            Self::Prompt => Capability::Prompts,
        }
    }

    /// The name under which the result of a list carries the entries
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Resource => "resources",
            Self::ResourceTemplate => "resourceTemplates",
            Self::Prompt => "prompts",
        }
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
            Self::Prompt => "prompt",
        })
    }
}

/// One row
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) sender: Sender,
    pub(crate) since: Version,
    pub(crate) until: Version,
    pub(crate) gate: Option<Capability>,
    /// Modern results say how long they may be kept (CACHE-001)
    pub(crate) cacheable: bool,
    /// The server's engine answers it by itself
    pub(crate) by_engine: bool,
}

impl Rule {
    const fn by_engine(mut self) -> Self {
        self.by_engine = true;
        self
    }
}

const OLDEST: Version = Version::V2024_11_05;
const LAST_LEGACY: Version = Version::V2025_11_25;
const NEWEST: Version = Version::V2026_07_28;

const fn rule(
    name: &'static str,
    since: Version,
    until: Version,
    gate: Option<Capability>,
    cacheable: bool,
) -> Rule {
    Rule { name, sender: Sender::Client, since, until, gate, cacheable, by_engine: false }
}

const fn from_server(name: &'static str, since: Version, gate: Option<Capability>) -> Rule {
    Rule { sender: Sender::Server, ..rule(name, since, LAST_LEGACY, gate, false) }
}

/// Requests; the most frequent ones first, since they are searched in order
pub(crate) const REQUESTS: &[Rule] = &[
    rule(TOOLS_CALL, OLDEST, NEWEST, Some(Capability::Tools), false),
    rule(TOOLS_LIST, OLDEST, NEWEST, Some(Capability::Tools), true),
    Rule { sender: Sender::Both, ..rule(PING, OLDEST, LAST_LEGACY, None, false).by_engine() },
    rule(RESOURCES_READ, OLDEST, NEWEST, Some(Capability::Resources), true),
    rule(RESOURCES_LIST, OLDEST, NEWEST, Some(Capability::Resources), true),
    rule(TEMPLATES_LIST, OLDEST, NEWEST, Some(Capability::Resources), true),
    rule(PROMPTS_GET, OLDEST, NEWEST, Some(Capability::Prompts), false),
    rule(PROMPTS_LIST, OLDEST, NEWEST, Some(Capability::Prompts), true),
    rule(COMPLETE, OLDEST, NEWEST, Some(Capability::Completions), false),
    rule(DISCOVER, NEWEST, NEWEST, None, true).by_engine(),
    rule(SUBSCRIBE, NEWEST, NEWEST, None, false).by_engine(),
    rule(INITIALIZE, OLDEST, LAST_LEGACY, None, false).by_engine(),
    rule(RESOURCES_SUBSCRIBE, OLDEST, LAST_LEGACY, Some(Capability::ResourceSubscriptions), false)
        .by_engine(),
    rule(RESOURCES_UNSUBSCRIBE, OLDEST, LAST_LEGACY, Some(Capability::ResourceSubscriptions), false)
        .by_engine(),
    rule(SET_LEVEL, OLDEST, LAST_LEGACY, Some(Capability::Logging), false).by_engine(),
    from_server(LIST_ROOTS, OLDEST, Some(Capability::Roots)),
    from_server(CREATE_MESSAGE, OLDEST, Some(Capability::Sampling)),
    from_server(ELICIT, Version::V2025_06_18, Some(Capability::Elicitation)),
];

/// Notifications that the engines send by themselves
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
    "notifications/tasks/status",
    ACKNOWLEDGED,
];

/// Whether a notification belongs to the protocol
pub(crate) fn is_spec_notification(name: &str) -> bool {
    NOTIFICATIONS.contains(&name)
}

/// Whether a call of this method may be answered with what is needed first (MRTR-002, DEC-018)
pub(crate) fn may_need_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// The member of the parameters that names what a request is about, which `Mcp-Name` repeats (HTTP-033, XHDR-036)
#[cfg(feature = "http")]
pub(crate) fn subject(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some("name"),
        RESOURCES_READ => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The row of a request; none for a method that no revision has
#[inline]
pub(crate) fn request(name: &str) -> Option<&'static Rule> {
    REQUESTS.iter().find(|r| r.name == name)
}

impl Rule {
    /// Whether the method exists in `version`
    pub(crate) fn exists_in(&self, version: Version) -> bool {
        (self.since..=self.until).contains(&version)
    }

    /// The capability that the receiver must have declared in `version`
    pub(crate) fn gate_in(&self, version: Version) -> Option<Capability> {
        // Completions had no capability of their own in the first revision.
        self.gate.filter(|g| !(*g == Capability::Completions && version == OLDEST))
    }

    pub(crate) const fn client_sends(&self) -> bool {
        matches!(self.sender, Sender::Client | Sender::Both)
    }

    pub(crate) const fn server_sends(&self) -> bool {
        matches!(self.sender, Sender::Server | Sender::Both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LIFE-024, PING-006, VER-011
    #[test]
    fn methods_come_and_go_by_their_rows() {
        let exists = |name, v| request(name).is_some_and(|r| r.exists_in(v));
        for gone in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
        {
            assert!(exists(gone, LAST_LEGACY) && !exists(gone, NEWEST), "{gone}");
        }
        assert!(exists(DISCOVER, NEWEST) && !exists(DISCOVER, LAST_LEGACY));
        assert!(!exists("elicitation/create", Version::V2025_03_26));
        assert!(request("tools/cal").is_none());
    }
}
