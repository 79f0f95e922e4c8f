//! OpenTelemetry spans and metrics of Model Context Protocol clients and servers.
//!
//! [`Telemetry`] makes an [`Observer`] for the configuration of a client or a server. It reports each request, in both
//! directions, by the [semantic conventions](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md):
//!
//! ```
//! use mcp_telemetry::Telemetry;
//! use mcp_telemetry::mcp_proto::server;
//!
//! let config = server::Config::new("calculator", "1.0.0")
//!     .observer(Telemetry::new().transport("pipe").build());
//! # let _ = config;
//! ```
//!
//! The application chooses how they are exported: spans by a subscriber of [`tracing`] with the layer of
//! [`tracing_opentelemetry`], metrics by the meter provider of [`opentelemetry::global`] (or [`Telemetry::meter`]). Set
//! both up before [`Telemetry::build`]. Without them nothing is recorded. A subscriber without that layer, as
//! `tracing_subscriber::fmt()`, has the spans with their attributes and durations, and no trace context of peers. The
//! [README](https://github.com/mcp-proto/mcp-proto/tree/main/adapters/telemetry#export-by-otlp) shows all of it with exporters of OTLP.
//!
//! Use exporters that work on a thread of their own (`BatchSpanProcessor` and `PeriodicReader` of `opentelemetry_sdk`, which drop
//! what does not fit their queues): then an exporter that hangs holds up no request. It delays the end of the process
//! by the time that their shutdown waits. A client gives the server that it started 5 s to end.
//!
//! # Spans
//!
//! One for each request: `SERVER` if it was received, `CLIENT` if it was sent. Its name is the method, with the name of the tool
//! or prompt once a request for that has succeeded. Its target is [`TARGET`], its level `INFO`: a filter of `tracing` can turn them off.
//!
//! | attribute | value |
//! |---|---|
//! | `mcp.method.name` | method of the specification, or of [`Telemetry::methods`]; otherwise `_OTHER` |
//! | `mcp.protocol.version` | revision, if it is known |
//! | `jsonrpc.request.id` | id of the request, up to 128 bytes |
//! | `gen_ai.operation.name` | `execute_tool` for `tools/call` |
//! | `gen_ai.tool.name`, `gen_ai.prompt.name` | up to 256 bytes |
//! | `mcp.resource.uri` | up to 1024 bytes; see [`Telemetry::without_resource_uris`] |
//! | `network.transport` | if [`Telemetry::transport`] names it |
//! | `mcp.request.size`, `mcp.response.size` | sizes of the messages in bytes, without framing; names of this crate |
//! | `error.type` | if the request failed: `tool_error`, the code of a JSON-RPC error, or a class of [`CallError`] (`timeout`, `cancelled`, `connection_closed`, …) |
//! | `rpc.response.status_code` | the code of a JSON-RPC error |
//!
//! They contain neither arguments nor results, and no session ids. Messages of errors are left out unless
//! [`Telemetry::error_messages`] asks for them. Text of the peer is cut to the lengths above, with `…` at the cut, and has `U+FFFD`
//! for control characters.
//!
//! # Trace context
//!
//! The parent of a span is the W3C trace context in the `_meta` of the request (META-021), with a link to the span that
//! runs at that time. Without a valid one, that span is the parent. A request that is sent carries the context of its own span.
//! Handlers run in the span of their request, so what they do, including the requests of their MCP clients, belongs to it. Baggage
//! of the application is sent as it is; that of a peer is ignored. With [`Telemetry::without_spans`] the context of a received
//! request is handed on to the requests of its handler.
//!
//! # Metrics
//!
//! Histograms in seconds, with the buckets of the conventions:
//!
//! | name | of |
//! |---|---|
//! | `mcp.server.operation.duration` | requests that were received |
//! | `mcp.client.operation.duration` | requests that were sent |
//! | `mcp.server.session.duration`, `mcp.client.session.duration` | sessions: at a server those of legacy clients, at a client each connection |
//!
//! A server that asks its client is the client of that request. Labels are those of the spans that have few values: method,
//! revision, tool or prompt, transport, and `error.type`, `rpc.response.status_code` with the codes that are defined, others as `_OTHER`.
//! Names label metrics up to [`Telemetry::max_names`], others are `_OTHER`: at a server those for which a request has succeeded or a
//! tool has failed, at a client those that the server has not refused as unknown. So a hostile peer adds no time series.
//!
//! Durations of requests are measured by the monotonic clock of `std`, because the clock of an engine stands still while a handler is
//! a function that runs within its step. On `wasm32-unknown-unknown`, which has no clock, it is the clock of the engine. Durations
//! of sessions are always by that.
//!
//! # Sampling
//!
//! By default each request has a span, and the sampler of the tracer provider decides whether it is recorded. It is asked after the
//! span was built, so a span that is not sampled costs nearly as much as one that is. [`Telemetry::parent_based_sampler`] decides
//! before that: as the trace context of the request says, and by a share for requests without one. A request that is not
//! sampled hands its decision on, in the same trace, with a span id of its own.
//!
//! # Cost
//!
//! Beside the smallest call of a server in memory (15,000 instructions), which echoes 100 bytes:
//!
//! | | instructions | of these, by bare calls of OpenTelemetry |
//! |---|---|---|
//! | an observer without metrics, and no subscriber that wants spans | 0.9 % | |
//! | metrics | 28 % | 18 %: the SDK looks five labels up |
//! | the same, and a span that [`Telemetry::parent_based_sampler`] refuses | 35 % | |
//! | metrics with `Telemetry::bind_instruments` (feature `bound-instruments`) | 12 % | 2 % |
//! | the same, and a span that [`Telemetry::parent_based_sampler`] refuses | 18 % | |
//! | metrics and a span that the sampler of the tracer provider refuses | 137 % | 98 % |
//! | metrics and a recorded span | 146 % | 107 % |
//!
//! `benches/measure --only telemetry` measures it. A filter of `tracing` that turns off [`TARGET`] makes a request as cheap as with
//! [`Telemetry::without_spans`].
//!
//! # Notifications and tasks
//!
//! Neither notifications nor the runs of tasks have spans. The request that creates a task has one, and so have the requests
//! about it. See [`Observer`] for what is observed.
//!
//! # Features
//!
//! - `bound-instruments` (off): `Telemetry::bind_instruments`. It turns the experimental feature of `opentelemetry` and of
//!   `opentelemetry_sdk` on, which is therefore a dependency. It may change with any release of them.
//!
//! [`CallError`]: mcp_proto::CallError
//! [`Observer`]: mcp_proto::observe::Observer

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

mod clock;
mod labels;
mod metrics;
mod observer;
mod operation;
mod sampler;
mod targets;
mod telemetry;
mod trace_context;

pub use mcp_proto;
pub use telemetry::{TARGET, Telemetry};
