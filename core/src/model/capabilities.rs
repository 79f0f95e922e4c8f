//! Capabilities of both sides as the peer reads them (LIFE-013, LIFE-014, EXT).
//!
//! An object without specified members is a [`Map`]: `Map::new()` declares the feature without settings. Unknown
//! members are kept (LIFE-015).

use super::map::Map;
use super::message::message;
use super::tasks::TasksCapability;
use crate::raw::RawJson;

message! {
    /// Capabilities of a client (LIFE-013).
    ClientCapabilities by shape_name {} {
        /// Features that client and server have agreed on outside the protocol, by name.
        opt experimental: Map<RawJson> = "experimental",
        /// It has roots (ROOT-001).
        opt roots: RootsCapability = "roots",
        /// It offers sampling (SAMP-001).
        opt sampling: SamplingCapability = "sampling",
        /// It can ask its user (since 2025-06-18; ELIC-001).
        opt elicitation: ElicitationCapability = "elicitation",
        /// It runs requests of the server as tasks (2025-11-25 only; TASK-001).
        opt tasks: TasksCapability = "tasks",
        /// Extensions with their settings, by identifier (EXT-001).
        ///
        /// `io.modelcontextprotocol/tasks` has no meaning before 2026-07-28 (TASK-130).
        opt extensions: Map<RawJson> = "extensions",
    }

    /// Roots capability of a client.
    RootsCapability {} {
        /// It announces changes of its roots (up to and including 2025-11-25; ROOT-004); absent means no.
        opt list_changed: bool = "listChanged",
    }

    /// Sampling capability of a client.
    SamplingCapability {} {
        /// With context of other servers (since 2025-11-25; SAMP-010).
        opt context: Map<RawJson> = "context",
        /// With tools (since 2025-11-25; SAMP-007).
        opt tools: Map<RawJson> = "tools",
    }

    /// Elicitation capability of a client.
    ///
    /// Without any member it means the same as with `form` alone (ELIC-003).
    ElicitationCapability {} {
        /// By a form (since 2025-11-25).
        opt form: Map<RawJson> = "form",
        /// By a web page (since 2025-11-25).
        opt url: Map<RawJson> = "url",
    }

    /// Capabilities of a server (LIFE-014).
    ServerCapabilities {} {
        /// Features that client and server have agreed on outside the protocol, by name.
        opt experimental: Map<RawJson> = "experimental",
        /// It sends log messages (LOG-001).
        opt logging: Map<RawJson> = "logging",
        /// It completes arguments (since 2025-03-26; COMP-001).
        opt completions: Map<RawJson> = "completions",
        /// It has prompts (PROMPT-001).
        opt prompts: ListCapability = "prompts",
        /// It has resources (RES-001).
        opt resources: ResourcesCapability = "resources",
        /// It has tools (TOOL-001).
        opt tools: ListCapability = "tools",
        /// It runs requests of the client as tasks (2025-11-25 only; TASK-001).
        opt tasks: TasksCapability = "tasks",
        /// Extensions with their settings, by identifier (EXT-001).
        ///
        /// `io.modelcontextprotocol/tasks` has no meaning before 2026-07-28 (TASK-130).
        opt extensions: Map<RawJson> = "extensions",
    }

    /// Capability of a server that has tools or prompts.
    ListCapability {} {
        /// It announces changes of the list; absent means no.
        opt list_changed: bool = "listChanged",
    }

    /// Capability of a server that has resources.
    ResourcesCapability {} {
        /// It announces changes of a resource (RES-010; since 2026-07-28 by `subscriptions/listen`, RES-014); absent
        /// means no.
        opt subscribe: bool = "subscribe",
        /// It announces changes of the list; absent means no.
        opt list_changed: bool = "listChanged",
    }
}

impl ClientCapabilities {
    fn shape_name(&self) -> &'static str {
        // Up to 2025-06-18 any `elicitation` means forms, so a client with only web pages must not declare it.
        if self.elicitation.as_ref().is_some_and(|e| !e.has_form()) {
            "$mcp::ClientCapabilities+url"
        } else {
            "$mcp::ClientCapabilities"
        }
    }
}

impl ElicitationCapability {
    /// Returns whether the client supports forms (ELIC-003).
    #[must_use]
    pub const fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::test_support::assert_round_trip;
    use super::*;

    fn settings() -> Map<RawJson> {
        [("a.example/b", RawJson::new(r#"{"x":[null,0.5]}"#).expect("JSON"))].into()
    }

    // covers: LIFE-013, LIFE-015, EXT-001, EXT-003
    #[test]
    fn client_capabilities_round_trip() {
        let all = ClientCapabilities::new()
            .experimental(settings())
            .roots(RootsCapability::new().list_changed(true))
            .sampling(SamplingCapability::new().context(Map::new()).tools(Map::new()))
            .elicitation(ElicitationCapability::new().form(Map::new()).url(Map::new()))
            .tasks(TasksCapability::new())
            .extensions(settings());
        assert_round_trip(&all);
        assert_eq!(assert_round_trip(&ClientCapabilities::new()), "{}");
        assert_round_trip(&all.roots.expect("roots"));
        assert_round_trip(&all.sampling.expect("sampling"));
        assert_round_trip(&all.elicitation.expect("elicitation"));
        let wrong =
            serde_json::from_str::<ClientCapabilities>(r#"{"sampling":{"tools":true}}"#).expect_err("wrong");
        assert!(wrong.to_string().starts_with("`sampling.tools`: invalid type: boolean"), "{wrong}");
    }

    // covers: LIFE-014, LIFE-015
    #[test]
    fn server_capabilities_round_trip() {
        let all = ServerCapabilities::new()
            .experimental(settings())
            .logging(Map::new())
            .completions(Map::new())
            .prompts(ListCapability::new().list_changed(false))
            .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
            .tools(ListCapability::new())
            .tasks(TasksCapability::new())
            .extensions(settings());
        assert_round_trip(&all);
        assert_round_trip(&all.prompts.expect("prompts"));
        assert_round_trip(&all.resources.expect("resources"));
    }

    // covers: ELIC-003
    #[test]
    fn elicitation_without_members_means_forms() {
        assert!(ElicitationCapability::new().has_form());
        assert!(!ElicitationCapability::new().url(Map::new()).has_form());
    }
}
