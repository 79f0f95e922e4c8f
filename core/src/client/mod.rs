//! The client engine: finds the era of the server, makes calls, reports their outcomes. It performs no I/O.
//!
//! The [`Engine`] implements the protocol. Four optional helpers are independent of it: a [`Paginator`] follows the
//! pages of a list, a [`Cache`] keeps results, [`OutputSchemas`] checks results against the schemas of their tools, and
//! [`AppTools`] knows the tools that apps may call.
//! [`RequestParams`](crate::model::RequestParams) relates each request to the type of its result.

mod app_tools;
mod cache;
mod calls;
mod commands;
mod common;
mod completer;
mod config;
mod engine;
mod event;
mod exchanges;
#[cfg(test)]
#[path = "../exhaustive/tables/client.rs"]
mod exhaustive_tables;
mod input;
#[cfg_attr(not(feature = "tasks"), allow(dead_code, unused_imports, reason = "nothing makes tasks"))]
mod input_tasks;
mod list;
mod negotiate;
mod receive;
mod rounds;
mod schemas;
mod subscriptions;
mod task_calls;
#[cfg_attr(not(feature = "tasks"), allow(dead_code, unused_imports, reason = "nothing makes tasks"))]
mod tasks;

#[cfg(feature = "http")]
pub(crate) use negotiate::{decides_handshake, is_modern_error};

pub use app_tools::AppTools;
pub use cache::{Cache, CacheKey, CacheScope, CacheTicket};
pub use completer::{Completer, Keystroke, KeystrokeKey};
pub use config::Config;
pub use engine::Engine;
pub(crate) use engine::{has_event, take_event};
pub use event::LogMessage;
pub use event::{Event, Notification, Peer, ServerRequest, SubscriptionKey};
pub use exchanges::{Exchanges, OutgoingMessage};
pub use input::{Input, InputId, RefuseTarget};
pub use input_tasks::hosted::InputTaskLimits;
pub use input_tasks::hosted::InputTasks;
pub use list::{ListPace, MissingListError, Paginator, ResultPage, TypedEntries};

pub use input::{is_safe_method, request_name};
pub use schemas::{OutputMismatch, OutputSchemas};
pub use tasks::{ParseTaskHandleError, StartedTask, TaskHandle, TaskPolling, ToolTasks};

pub use super::calls::outbound::TaskRequest;

pub use crate::validate::{SchemaError, SchemaValidator, Validate, Violations};
pub use crate::version::{KnownEra, ParseKnownEraError};
