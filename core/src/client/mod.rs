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
mod deprecated_inputs;
mod engine;
mod event;
mod event_queue;
#[cfg(feature = "exchanges")]
mod exchanges;
mod input;
mod input_support;
mod input_task_calls;
mod input_tasks;
mod legacy_inputs;
mod list;
mod log;
mod negotiate;
mod receive;
mod request_info;
mod rounds;
mod schemas;
mod secondary_map;
mod subscription_filter;
mod subscription_table;
mod subscriptions;
mod task_calls;
mod task_commands;
mod task_config;
mod task_use;
mod tasks;
mod tool_call;
mod url_elicitations;
mod waiting_calls;

#[cfg(feature = "http")]
pub(crate) use negotiate::{decides_handshake, is_modern_error};

pub use app_tools::AppTools;
pub use cache::{Cache, CacheKey, CacheScope, CacheTicket};
pub use completer::{Completer, Keystroke, KeystrokeKey};
pub use config::Config;
pub use engine::Engine;
pub use event::{Event, Notification, Peer, ServerRequest, SubscriptionKey};
#[cfg(feature = "exchanges")]
pub use exchanges::{Exchanges, OutgoingMessage};
pub use input::{Input, InputId, RefuseTarget};
#[cfg(feature = "crypto")]
pub use input_tasks::hosted::InputTasks;
#[cfg(feature = "crypto")]
pub use input_tasks::limits::InputTaskLimits;
pub use list::{MissingListError, Paginator, ResultPage, TypedEntries};
pub use log::LogMessage;

pub use request_info::{is_safe_method, request_name};
pub use schemas::{OutputMismatch, OutputSchemas};
pub use tasks::{ParseTaskHandleError, StartedTask, TaskHandle, TaskPolling, ToolTasks};

pub use crate::calls::task_request::TaskRequest;

pub use crate::validate::{SchemaError, SchemaValidator, Validate, Violations};
pub use crate::version::{KnownEra, ParseKnownEraError};
