//! Doctests of the guide of `mcp-blocking`, which has programs for every adapter, and of other pages that need several packages.

/// The programs of the pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../core/src/guide/bridging.md")]
    struct Bridging;

    #[doc = include_str!("../../../core/src/guide/faq.md")]
    struct Faq;

    #[doc = include_str!("../../../core/src/guide/from_typescript.md")]
    struct FromTypeScript;

    #[doc = include_str!("../../../core/src/guide/layers.md")]
    struct Layers;

    #[doc = include_str!("../../../core/src/guide/wire.md")]
    struct Wire;

    #[doc = include_str!("../../../core/events/src/guide/following.md")]
    struct FollowingEvents;

    #[doc = include_str!("../../../core/events/src/guide/serving.md")]
    struct ServingEvents;

    #[doc = include_str!("../../../core/events/src/guide/webhooks.md")]
    struct Webhooks;

    #[doc = include_str!("../../../adapters/blocking/src/guide/authorization_client.md")]
    struct AuthorizationClient;

    #[doc = include_str!("../../../adapters/blocking/src/guide/authorization_server.md")]
    struct AuthorizationServer;

    #[doc = include_str!("../../../adapters/blocking/src/guide/cargo_features.md")]
    struct CargoFeatures;

    #[doc = include_str!("../../../adapters/blocking/src/guide/completion.md")]
    struct Completion;

    #[doc = include_str!("../../../adapters/blocking/src/guide/drafts.md")]
    struct Drafts;

    #[doc = include_str!("../../../adapters/blocking/src/guide/elicitation.md")]
    struct Elicitation;

    #[doc = include_str!("../../../adapters/blocking/src/guide/extensions.md")]
    struct Extensions;

    #[doc = include_str!("../../../adapters/blocking/src/guide/first_client.md")]
    struct FirstClient;

    #[doc = include_str!("../../../adapters/blocking/src/guide/first_server.md")]
    struct FirstServer;

    #[doc = include_str!("../../../adapters/blocking/src/guide/http.md")]
    struct Http;

    #[doc = include_str!("../../../adapters/blocking/src/guide/index.md")]
    struct Index;

    #[doc = include_str!("../../../adapters/blocking/src/guide/logging.md")]
    struct Logging;

    #[doc = include_str!("../../../adapters/blocking/src/guide/middleware.md")]
    struct Middleware;

    #[doc = include_str!("../../../adapters/blocking/src/guide/pages_and_caching.md")]
    struct PagesAndCaching;

    #[doc = include_str!("../../../adapters/blocking/src/guide/progress_and_cancellation.md")]
    struct ProgressAndCancellation;

    #[doc = include_str!("../../../adapters/blocking/src/guide/prompts.md")]
    struct Prompts;

    #[doc = include_str!("../../../adapters/blocking/src/guide/resources.md")]
    struct Resources;

    #[doc = include_str!("../../../adapters/blocking/src/guide/sampling_and_roots.md")]
    struct SamplingAndRoots;

    #[doc = include_str!("../../../adapters/blocking/src/guide/skills_and_apps.md")]
    struct SkillsAndApps;

    #[doc = include_str!("../../../adapters/blocking/src/guide/several_processes.md")]
    struct SeveralProcesses;

    #[doc = include_str!("../../../adapters/blocking/src/guide/stdio.md")]
    struct Stdio;

    #[doc = include_str!("../../../adapters/blocking/src/guide/subscriptions.md")]
    struct Subscriptions;

    #[doc = include_str!("../../../adapters/blocking/src/guide/tasks.md")]
    struct Tasks;

    #[doc = include_str!("../../../adapters/blocking/src/guide/testing.md")]
    struct Testing;

    #[doc = include_str!("../../../adapters/blocking/src/guide/tools.md")]
    struct Tools;

    #[doc = include_str!("../../../adapters/threads/src/guide/first_server.md")]
    struct ThreadsFirstServer;

    #[doc = include_str!("../../../adapters/threads/src/guide/deployment.md")]
    struct Deployment;

    #[doc = include_str!("../../../adapters/smol/src/guide/first_server.md")]
    struct SmolFirstServer;

    #[doc = include_str!("../../../adapters/tokio/src/guide/first_server.md")]
    struct TokioFirstServer;

    #[doc = include_str!("../../../adapters/tokio/src/guide/first_client.md")]
    struct TokioFirstClient;

    #[doc = include_str!("../../../adapters/tokio/src/guide/from_rmcp.md")]
    struct FromRmcp;
}

#[cfg(test)]
mod tests {
    /// The interop tests build the program, so the guide shows what compiles.
    #[test]
    fn guide_shows_rmcp_program_as_it_is_built() {
        let program = include_str!("../../peers/rmcp/src/bin/calculator.rs");
        let (_, program) = program.split_once("\n\n").expect("a line after the documentation");
        let page = include_str!("../../../adapters/tokio/src/guide/from_rmcp.md");
        assert!(page.contains(&format!("```rs\n{program}```\n")), "from_rmcp.md differs from calculator.rs");
    }
}
