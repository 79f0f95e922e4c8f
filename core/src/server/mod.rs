//! The server engine: takes messages, delivers calls, sends answers. It performs no I/O.

mod arguments;
mod audience;
mod authorization;
mod backlog;
mod changes;
mod channel;
mod config;
mod custom_method;
mod early_cancels;
mod engine;
mod event;
mod exchanges;
#[cfg(test)]
#[path = "../exhaustive/tables/server.rs"]
mod exhaustive_tables;
mod handshake;
mod http_request;
mod input;
#[cfg_attr(not(feature = "tasks"), allow(dead_code, unused_imports, reason = "nothing makes tasks"))]
mod input_tasks;
mod log;
#[cfg(all(test, feature = "tasks"))]
mod memory_tests;
mod notifications;
mod parked;
mod receive;
mod reply;
pub(crate) mod request_check;
mod sealer;
mod sealing;
#[cfg(feature = "http")]
mod session_state;
mod stream;
mod subscriptions;
#[cfg(test)]
mod sums_tests;
#[cfg_attr(not(feature = "tasks"), allow(dead_code, unused_imports, reason = "nothing makes tasks"))]
mod tasks;

pub use crate::scope::Scopes;
pub use arguments::parse_arguments;
pub(crate) use arguments::read_arguments;
pub use audience::{Announcement, Audience};
#[cfg(feature = "http")]
pub(crate) use authorization::ScopePolicy;
#[cfg(feature = "http")]
pub(crate) use authorization::is_nonce;
pub use authorization::{Authorization, Identity};
pub use authorization::{Caller, ProvenKey};
pub use config::Config;
pub use custom_method::CustomMethod;
pub use engine::{Engine, set_instructions};
pub(crate) use engine::{can_answer, has_event, take_event};
#[cfg(feature = "http")]
pub(crate) use engine::{is_blocked, is_out_of_memory, memory};
pub use event::{Call, CancelReason, Event, Notification, Peer, ToolCall};
#[cfg(feature = "http")]
pub(crate) use exchanges::{BatchContents, ExchangeBuffers};
pub use exchanges::{EarlyEnd, ExchangeOutput, ExchangeStatus, ExchangeToken, Exchanges, SessionStatus};
pub use http_request::{ConnectionInfo, HttpRequest};
pub use input::{InputError, InputRequired};
#[cfg(feature = "http")]
pub(crate) use notifications::report_deprecated;
pub use reply::{BufferedResult, PreparedResult};
#[cfg(feature = "http")]
pub(crate) use session_state::SessionState;
pub use tasks::TaskOffer;
pub use tasks::record::TaskRecordError;
pub use tasks::requests::TaskOptions;
pub use tasks::requests::Tasks;
pub use tasks::store::StoreEffect;
pub use tasks::table::TaskLimits;
pub use tasks::table::TaskTable;
