//! Handshake of legacy revisions, and `server/discover` of modern ones (LIFE, VER).

use alloc::string::String;
use alloc::vec::Vec;

use super::base::{CacheScope, Implementation, ResultType};
use super::map::Map;
use super::message::message;
use super::tasks::TasksCapability;
use crate::raw::RawJson;

message! {
    /// Parameters of `initialize` (up to and including 2025-11-25; LIFE-002).
    InitializeParams {
        /// Requested revision, which is the newest that the client supports (VER-001).
        protocol_version: String = "protocolVersion",
        /// Capabilities of the client.
        capabilities: ClientCapabilities = "capabilities",
        /// Name and version of the client.
        client_info: Implementation = "clientInfo",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `initialize` (up to and including 2025-11-25; LIFE-003).
    InitializeResult {
        /// Negotiated revision: the requested one, or another that the server offers (VER-004, VER-005).
        protocol_version: String = "protocolVersion",
        /// Capabilities of the server.
        capabilities: ServerCapabilities = "capabilities",
        /// Name and version of the server.
        server_info: Implementation = "serverInfo",
    } {
        /// Instructions that tell a model how to use the server. They are untrusted text (LIFE-016).
        opt instructions: String = "instructions",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `server/discover` (since 2026-07-28; VER-013).
    DiscoverResult {
        /// Revisions that the server supports.
        supported_versions: Vec<String> = "supportedVersions",
        /// Capabilities of the server.
        capabilities: ServerCapabilities = "capabilities",
    } {
        /// Instructions that tell a model how to use the server. They are untrusted text (LIFE-016).
        opt instructions: String = "instructions",
        /// Cache lifetime in milliseconds; negative counts as 0 (CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result.
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result; the server's engine sets it to `complete`.
        opt result_type: ResultType = "resultType",
        /// Metadata with name and version of the server ([`ResultMeta`](super::ResultMeta); META-018).
        opt meta: RawJson as Object = "_meta",
    }
}

// Capabilities of both sides as the peer reads them (LIFE-013, LIFE-014, EXT).
//
// An object without specified members is a `Map`: `Map::new()` declares the feature without settings. Unknown
// members are kept (LIFE-015).

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
mod capabilities_tests {
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

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: LIFE-002, LIFE-003
    #[test]
    fn initialize_messages_round_trip() {
        let (client, server) = (Implementation::new("c", "1"), Implementation::new("s", "2"));
        let meta = RawJson::new("{}").expect("JSON");
        assert_round_trip(
            &InitializeParams::new("2099-01-01", ClientCapabilities::new(), client).meta(meta.clone()),
        );
        assert_round_trip(
            &InitializeResult::new("2025-11-25", ServerCapabilities::new(), server)
                .instructions("i")
                .meta(meta.clone()),
        );
        assert_missing::<InitializeParams>(r#"{"protocolVersion":"","capabilities":{}}"#, "clientInfo");
        assert_missing::<InitializeResult>(
            r#"{"protocolVersion":"","serverInfo":{"name":"","version":""}}"#,
            "capabilities",
        );
        let wrong =
            serde_json::from_str::<InitializeParams>(r#"{"clientInfo":{"name":1}}"#).expect_err("wrong");
        assert!(wrong.to_string().starts_with("`clientInfo.name`: invalid type: integer"), "{wrong}");
    }

    // covers: VER-013, CACHE-002, CACHE-003
    #[test]
    fn discover_result_round_trips() {
        assert_round_trip(
            &DiscoverResult::new(["2026-07-28".into()], ServerCapabilities::new())
                .instructions("i")
                .ttl_ms(3_600_000)
                .cache_scope(CacheScope::Public)
                .result_type(ResultType::Complete)
                .meta(RawJson::new("{}").expect("JSON")),
        );
        assert_missing::<DiscoverResult>(r#"{"capabilities":{}}"#, "supportedVersions");
    }
}
