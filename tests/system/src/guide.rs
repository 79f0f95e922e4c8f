//! Doctests of those pages of the guides that need several packages, or features that their own package is tested without.

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

    #[doc = include_str!("../../../adapters/blocking/src/guide/http.md")]
    struct Http;

    #[doc = include_str!("../../../adapters/blocking/src/guide/authorization_server.md")]
    struct AuthorizationServer;

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
