#![doc = include_str!("index.md")]

// The modules are empty and exist in documentation alone, so programs pay nothing for them. Their aliases are the names of
// features and methods, for the search of rustdoc. `tests/repository/tests/guide.rs` compares them with `tests/features.tsv`.

#[doc = include_str!("first_server.md")]
#[doc(alias("server", "quick start", "getting started", "tutorial"))]
pub mod first_server {}

#[doc = include_str!("first_client.md")]
#[doc(alias("client", "connect", "initialize", "server/discover"))]
pub mod first_client {}

#[doc = include_str!("tools.md")]
#[doc(alias("tools/list", "tools/call", "notifications/tools/list_changed"))]
#[doc(alias("Tools - listing", "Tools - calling", "Tools - text results", "Tools - image results"))]
#[doc(alias("Tools - audio results", "Tools - embedded resources", "Tools - error handling"))]
#[doc(alias("Tools - change notifications", "JSON Schema 2020-12 support"))]
#[doc(alias("structured output", "outputSchema", "annotations", "resource link"))]
pub mod tools {}

#[doc = include_str!("resources.md")]
#[doc(alias("resources/list", "resources/read", "resources/templates/list"))]
#[doc(alias("resources/subscribe", "resources/unsubscribe", "notifications/resources/list_changed"))]
#[doc(alias("Resources - listing", "Resources - reading text", "Resources - reading binary"))]
#[doc(alias("Resources - templates", "Resources - template reading", "Resources - subscribing"))]
#[doc(alias("Resources - unsubscribing", "Resources - change notifications"))]
pub mod resources {}

#[doc = include_str!("prompts.md")]
#[doc(alias("prompts/list", "prompts/get", "notifications/prompts/list_changed"))]
#[doc(alias("Prompts - listing", "Prompts - getting simple", "Prompts - getting with arguments"))]
#[doc(alias("Prompts - embedded resources", "Prompts - image content", "Prompts - change notifications"))]
pub mod prompts {}

#[doc = include_str!("completion.md")]
#[doc(alias("completion/complete", "autocomplete"))]
#[doc(alias("Completions - resource argument", "Completions - prompt argument"))]
pub mod completion {}

#[doc = include_str!("elicitation.md")]
#[doc(alias("elicitation/create", "notifications/elicitation/complete"))]
#[doc(alias("Elicitation - form mode", "Elicitation - URL mode", "Elicitation - schema validation"))]
#[doc(alias("Elicitation - default values", "Elicitation - enum values"))]
#[doc(alias("Elicitation - complete notification", "user input", "asking the user"))]
pub mod elicitation {}

#[doc = include_str!("sampling_and_roots.md")]
#[doc(alias("sampling/createMessage", "roots/list", "notifications/roots/list_changed"))]
#[doc(alias("Sampling - creating messages", "Roots - listing", "Roots - change notifications"))]
pub mod sampling_and_roots {}

#[doc = include_str!("logging.md")]
#[doc(alias("notifications/message", "logging/setLevel"))]
#[doc(alias("Logging - sending log messages", "Logging - setting level"))]
pub mod logging {}

#[doc = include_str!("progress_and_cancellation.md")]
#[doc(alias("notifications/progress", "notifications/cancelled", "Progress notifications", "Cancellation"))]
#[doc(alias("ping", "timeout", "time-out", "keep-alive"))]
pub mod progress_and_cancellation {}

#[doc = include_str!("subscriptions.md")]
#[doc(alias("subscriptions/listen", "notifications/resources/updated", "change notifications"))]
pub mod subscriptions {}

#[doc = include_str!("pages_and_caching.md")]
#[doc(alias("Pagination", "cursor", "cache", "ttlMs"))]
pub mod pages_and_caching {}

#[doc = include_str!("tasks.md")]
#[doc(alias("tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "notifications/tasks/status"))]
#[doc(alias(
    "Tasks - get",
    "Tasks - result",
    "Tasks - cancel",
    "Tasks - list",
    "Tasks - status notifications"
))]
#[doc(alias("io.modelcontextprotocol/tasks", "long-running"))]
pub mod tasks {}

#[doc = include_str!("skills_and_apps.md")]
#[doc(alias("skills/list", "skills/get", "resources/directory/read"))]
#[doc(alias("io.modelcontextprotocol/skills", "io.modelcontextprotocol/ui", "MCP apps"))]
pub mod skills_and_apps {}

#[doc = include_str!("extensions.md")]
#[doc(alias("io.modelcontextprotocol/oauth-client-credentials"))]
#[doc(alias("io.modelcontextprotocol/enterprise-managed-authorization", "custom methods"))]
pub mod extensions {}

#[doc = include_str!("drafts.md")]
#[doc(alias("drafts of the specification", "draft", "--draft", "Mcp-Param", "header mismatch", "-32001"))]
pub mod drafts {}

#[doc = include_str!("stdio.md")]
#[doc(alias("stdio transport (client)", "stdio transport (server)", "child process", "spawn", "subprocess"))]
#[doc(alias("unix socket", "tcp", "serial port", "SIGTERM", "environment variables"))]
pub mod stdio {}

#[doc = include_str!("http.md")]
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
    "resumption",
    "reconnection",
    "reconnect"
))]
pub mod http {}

#[doc = include_str!("authorization_client.md")]
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

#[doc = include_str!("authorization_server.md")]
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

#[doc = include_str!("several_processes.md")]
#[doc = "\n## Files\n"]
#[doc = "\n### systemd and nginx: files\n"]
#[doc = concat!("\n`mcp@.service`:\n\n```ini\n", include_str!("several_processes/machines/mcp@.service"), "```\n")]
#[doc = concat!("\n`nginx.conf`:\n\n```nginx\n", include_str!("several_processes/machines/nginx.conf"), "```\n")]
#[doc = "\n### containers: files\n"]
#[doc = concat!("\n`compose.yaml`:\n\n```yaml\n", include_str!("several_processes/containers/compose.yaml"), "```\n")]
#[doc = concat!("\n`Dockerfile`:\n\n```dockerfile\n", include_str!("several_processes/containers/Dockerfile"), "```\n")]
#[doc = concat!("\n`nginx.conf`:\n\n```nginx\n", include_str!("several_processes/containers/nginx.conf"), "```\n")]
#[doc = "\n### one machine: files\n"]
#[doc = concat!("\n`mcp@.service`:\n\n```ini\n", include_str!("several_processes/one_machine/mcp@.service"), "```\n")]
#[doc = concat!("\n`nginx.conf`:\n\n```nginx\n", include_str!("several_processes/one_machine/nginx.conf"), "```\n")]
#[doc(alias(
    "cluster",
    "load balancer",
    "horizontal scaling",
    "session store",
    "Redis",
    "Valkey",
    "nginx",
    "rolling deployment",
    "sticky sessions"
))]
pub mod several_processes {}

#[doc = include_str!("middleware.md")]
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

#[doc = include_str!("testing.md")]
#[doc(alias("test", "unit test", "virtual time", "mock", "in-memory transport", "testing::pair"))]
pub mod testing {}

#[doc = include_str!("cargo_features.md")]
#[doc(alias("Cargo.toml", "default features", "feature flags", "dependencies", "no default features"))]
pub mod cargo_features {}
