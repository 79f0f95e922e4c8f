//! What each side can do, as the other reads it (LIFE-013, LIFE-014, EXT).
//!
//! Objects of which the protocol fixes no member are a [`Map`]: `Map::new()` declares the feature without settings.
//! Members that this version does not know are kept (LIFE-015).

use super::map::Map;
use super::message::message;
use crate::raw::RawJson;

message! {
    /// What a client can do for a server (LIFE-013)
    ClientCapabilities by form {} {
        /// What client and server have agreed on outside the protocol, by name
        opt experimental: Map<RawJson> = "experimental",
        /// It tells its roots (ROOT-001)
        opt roots: RootsCapability = "roots",
        /// It lets its model be used (SAMP-001)
        opt sampling: SamplingCapability = "sampling",
        /// It asks its user (since 2025-06-18; ELIC-001)
        opt elicitation: ElicitationCapability = "elicitation",
        /// It knows tasks (2025-11-25 only)
        opt tasks: RawJson as Object = "tasks",
        /// Extensions with their settings, by identifier (since 2026-07-28; EXT-001)
        opt extensions: Map<RawJson> = "extensions",
    }

    /// A client that tells its roots
    RootsCapability {} {
        /// It says when they change (until 2025-11-25; ROOT-004); absent means no
        opt list_changed: bool = "listChanged",
    }

    /// A client that lets its model be used
    SamplingCapability {} {
        /// With context of other servers (since 2025-11-25; SAMP-010)
        opt context: Map<RawJson> = "context",
        /// With tools (since 2025-11-25; SAMP-007)
        opt tools: Map<RawJson> = "tools",
    }

    /// A client that asks its user
    ///
    /// Neither member means the same as `form` alone (ELIC-003).
    ElicitationCapability {} {
        /// With a form (since 2025-11-25)
        opt form: Map<RawJson> = "form",
        /// By sending the user to a web page (since 2025-11-25)
        opt url: Map<RawJson> = "url",
    }

    /// What a server can do (LIFE-014)
    ServerCapabilities {} {
        /// What client and server have agreed on outside the protocol, by name
        opt experimental: Map<RawJson> = "experimental",
        /// It sends log messages (LOG-001)
        opt logging: Map<RawJson> = "logging",
        /// It completes what is typed (since 2025-03-26; COMP-001)
        opt completions: Map<RawJson> = "completions",
        /// It has prompts (PROMPT-001)
        opt prompts: ListCapability = "prompts",
        /// It has resources (RES-001)
        opt resources: ResourcesCapability = "resources",
        /// It has tools (TOOL-001)
        opt tools: ListCapability = "tools",
        /// It knows tasks (2025-11-25 only)
        opt tasks: RawJson as Object = "tasks",
        /// Extensions with their settings, by identifier (since 2026-07-28; EXT-001)
        opt extensions: Map<RawJson> = "extensions",
    }

    /// A server that has tools or prompts
    ListCapability {} {
        /// It says when the list changes; absent means no
        opt list_changed: bool = "listChanged",
    }

    /// A server that has resources
    ResourcesCapability {} {
        /// It says when one changes (RES-010; since 2026-07-28 in `subscriptions/listen`, RES-014); absent means no
        opt subscribe: bool = "subscribe",
        /// It says when the list changes; absent means no
        opt list_changed: bool = "listChanged",
    }
}

impl ClientCapabilities {
    fn form(&self) -> &'static str {
        // To 2025-06-18 any `elicitation` means forms: a client of web pages alone must not say it there.
        if self.elicitation.as_ref().is_some_and(|e| !e.has_form()) {
            "$mcp::ClientCapabilities+url"
        } else {
            "$mcp::ClientCapabilities"
        }
    }
}

impl ElicitationCapability {
    /// Whether the client fills in forms (ELIC-003)
    #[must_use]
    pub const fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::for_tests::same;
    use super::*;

    fn settings() -> Map<RawJson> {
        [("a.example/b", RawJson::new(r#"{"x":[null,0.5]}"#).expect("JSON"))].into()
    }

    // covers: LIFE-013, LIFE-015, EXT-001, EXT-003
    #[test]
    fn of_a_client() {
        let all = ClientCapabilities::new()
            .experimental(settings())
            .roots(RootsCapability::new().list_changed(true))
            .sampling(SamplingCapability::new().context(Map::new()).tools(Map::new()))
            .elicitation(ElicitationCapability::new().form(Map::new()).url(Map::new()))
            .tasks(RawJson::new("{}").expect("JSON"))
            .extensions(settings());
        same(&all);
        assert_eq!(same(&ClientCapabilities::new()), "{}");
        same(&all.roots.expect("roots"));
        same(&all.sampling.expect("sampling"));
        same(&all.elicitation.expect("elicitation"));
        let wrong =
            serde_json::from_str::<ClientCapabilities>(r#"{"sampling":{"tools":true}}"#).expect_err("wrong");
        assert!(wrong.to_string().starts_with("`sampling.tools`: invalid type: boolean"), "{wrong}");
    }

    // covers: LIFE-014, LIFE-015
    #[test]
    fn of_a_server() {
        let all = ServerCapabilities::new()
            .experimental(settings())
            .logging(Map::new())
            .completions(Map::new())
            .prompts(ListCapability::new().list_changed(false))
            .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
            .tools(ListCapability::new())
            .tasks(RawJson::new("{}").expect("JSON"))
            .extensions(settings());
        same(&all);
        same(&all.prompts.expect("prompts"));
        same(&all.resources.expect("resources"));
    }

    // covers: ELIC-003
    #[test]
    fn elicitation_without_members_means_forms() {
        assert!(ElicitationCapability::new().has_form());
        assert!(!ElicitationCapability::new().url(Map::new()).has_form());
    }
}
