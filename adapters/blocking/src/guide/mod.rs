//! Guide: the features of MCP, each with programs that run.

#[cfg_attr(not(doctest), doc = include_str!("stdio.md"))]
#[doc(alias("stdio transport (client)", "stdio transport (server)", "child process", "spawn", "subprocess"))]
#[doc(alias("unix socket", "tcp", "serial port", "SIGTERM", "environment variables"))]
pub mod stdio {}

#[cfg_attr(not(doctest), doc = include_str!("http.md"))]
#[doc(alias("Streamable HTTP transport (client)", "Streamable HTTP transport (server)"))]
#[doc(alias(
    "SSE transport - legacy (client)",
    "SSE transport - legacy (server)",
    "HTTP+SSE",
    "server-sent events"
))]
#[doc(alias(
    "TLS",
    "https",
    "CORS",
    "Origin",
    "Host",
    "proxy",
    "nginx",
    "Mcp-Session-Id",
    "Last-Event-ID",
    "resumption"
))]
pub mod http {}

#[cfg_attr(not(doctest), doc = include_str!("authorization_client.md"))]
#[doc(alias(
    "OAuth",
    "login",
    "access token",
    "bearer",
    "refresh token",
    "PKCE",
    "device code",
    "client credentials"
))]
#[doc(alias("DPoP", "dynamic client registration", "token store", "step-up"))]
pub mod authorization_client {}

#[cfg_attr(not(doctest), doc = include_str!("authorization_server.md"))]
#[doc(alias(
    "OAuth",
    "protected resource metadata",
    "WWW-Authenticate",
    "JWT",
    "introspection",
    "scope",
    "principal"
))]
#[doc(alias("DPoP", "insufficient_scope", "bearer", "401", "403"))]
pub mod authorization_server {}

#[cfg_attr(not(doctest), doc = include_str!("middleware.md"))]
#[doc(alias(
    "layer",
    "interceptor",
    "hook",
    "rate limit",
    "audit log",
    "redaction",
    "visibility",
    "multi-tenant",
    "retry"
))]
pub mod middleware {}

#[cfg_attr(not(doctest), doc = include_str!("testing.md"))]
#[doc(alias("test", "unit test", "virtual time", "mock", "in-memory transport", "testing::pair"))]
pub mod testing {}
