//! The guide: the state machines, the two eras, the places where they meet the world, errors and security.
//!
//! Each page about a feature begins with a program, says what happens in the other era, lists the limits, and ends with links. Pages about
//! servers and clients in an application are in the guides of the adapters:
//! [`mcp_blocking::guide`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/),
//! [`mcp_threads::guide`](https://docs.rs/mcp-threads/latest/mcp_threads/guide/),
//! [`mcp_tokio::guide`](https://docs.rs/mcp-tokio/latest/mcp_tokio/guide/),
//! [`mcp_smol::guide`](https://docs.rs/mcp-smol/latest/mcp_smol/guide/) and
//! [`mcp_tower::guide`](https://docs.rs/mcp-tower/latest/mcp_tower/guide/).
//!
//! | page | read it to |
//! |---|---|
//! | [`contract`] | drive a state machine from your own loop |
//! | [`layers`] | see one tool on each layer, from an engine to a runtime |
//! | [`eras`] | learn what the two eras of the protocol share, and what not |
//! | [`transport`] | carry messages over something that is neither a byte stream nor HTTP |
//! | [`devices`] | run on a microcontroller, as WebAssembly, or from C |
//! | [`wire`] | see messages: tap, `mcp-probe --trace`, telemetry |
//! | [`bridging`] | connect a client and servers of different transports or eras |
//! | [`from_typescript`] | move a server or a client from the TypeScript SDK |
//! | [`faq`] | get short answers |
//! | [`troubleshooting`] | find the cause of a message of a connection or a call |
//! | [`troubleshooting_http`], [`troubleshooting_entries`], [`troubleshooting_authorization`] | the same of HTTP, of tools and other entries, of authorization |
//! | [`security`] | see what went wrong elsewhere, and what prevents it here |
//! | [`security_deployment`] | know the bounds, and the duties of a deployer |
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Pages that need the features of this package alone are tested here, the others by `tests/system/src/guide.rs`.

#[doc = include_str!("../../docs/contract.md")]
#[doc(alias(
    "sans-io",
    "state machine",
    "event loop",
    "poll_event",
    "poll_timeout",
    "transmit",
    "ping",
    "cancellation"
))]
pub mod contract {}

#[cfg_attr(not(doctest), doc = include_str!("layers.md"))]
#[doc(alias("adapters", "engine", "runtime", "async", "blocking", "threads"))]
pub mod layers {}

#[doc = include_str!("eras.md")]
#[doc(alias(
    "capability negotiation",
    "protocol version negotiation",
    "initialize",
    "notifications/initialized",
    "server/discover",
    "protocolVersion",
    "handshake",
    "sessions",
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28"
))]
pub mod eras {}

#[cfg_attr(any(not(doctest), feature = "http"), doc = include_str!("transport.md"))]
#[doc(alias("custom transport", "websocket", "mqtt", "message queue", "exchanges"))]
pub mod transport {}

#[doc = include_str!("devices.md")]
#[doc(alias("no_std", "embedded", "microcontroller", "wasm", "webassembly", "ffi", "serial", "uart"))]
pub mod devices {}

#[cfg_attr(not(doctest), doc = include_str!("wire.md"))]
#[doc(alias("tap", "trace", "debugging", "telemetry", "opentelemetry", "tracing", "metrics", "traceparent"))]
pub mod wire {}

#[cfg_attr(not(doctest), doc = include_str!("bridging.md"))]
#[doc(alias("bridge", "proxy", "gateway", "mcp-probe", "stdio to http", "http to stdio"))]
pub mod bridging {}

#[cfg_attr(not(doctest), doc = include_str!("from_typescript.md"))]
#[doc(alias(
    "typescript",
    "javascript",
    "McpServer",
    "registerTool",
    "@modelcontextprotocol/sdk",
    "migration"
))]
pub mod from_typescript {}

#[cfg_attr(not(doctest), doc = include_str!("faq.md"))]
#[doc(alias("questions", "frequently asked questions", "help"))]
pub mod faq {}

#[doc = include_str!("security.md")]
#[doc(alias("advisories", "attacks", "dns rebinding", "injection", "vulnerability"))]
pub mod security {}

#[doc = include_str!("security_deployment.md")]
#[doc(alias("limits", "bounds", "memory", "hardening", "deployment"))]
pub mod security_deployment {}

#[doc = include_str!("troubleshooting.md")]
#[doc(alias("errors", "messages", "error codes"))]
pub mod troubleshooting {}

#[doc = include_str!("troubleshooting_http.md")]
#[doc(alias("400", "401", "403", "404", "413", "503"))]
pub mod troubleshooting_http {}

#[doc = include_str!("troubleshooting_entries.md")]
#[doc(alias("invalid params", "validation"))]
pub mod troubleshooting_entries {}

#[doc = include_str!("troubleshooting_authorization.md")]
#[doc(alias("oauth errors", "login"))]
pub mod troubleshooting_authorization {}
