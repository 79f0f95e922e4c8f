//! The server engine: takes messages, delivers calls, sends answers. It performs no I/O.

mod arguments;
mod audience;
mod authorization;
mod backlog;
mod caller;
mod changes;
mod channel;
mod config;
mod custom_method;
mod deprecations;
#[cfg(feature = "exchanges")]
mod early_cancels;
mod engine;
mod event;
#[cfg(feature = "exchanges")]
mod exchanges;
mod handshake;
pub(crate) mod header_check;
#[cfg(feature = "http")]
mod http_exchanges;
mod http_request;
mod input;
mod input_required;
mod input_tasks;
mod keep_alive;
mod listen_filter;
mod log;
mod notifications;
mod parked;
mod proven_key;
mod question_calls;
mod receive;
mod reply;
mod request_check;
mod retry;
mod room;
mod route;
#[cfg(feature = "crypto")]
mod sealer;
mod sealing;
#[cfg_attr(
    not(feature = "exchanges"),
    allow(dead_code, reason = "a byte stream is no stream of a transport")
)]
mod stream;
mod subscriptions;
#[cfg(all(test, feature = "exchanges"))]
mod sums_tests;
#[cfg_attr(not(feature = "crypto"), allow(dead_code, reason = "task ids need `Entropy`"))]
mod tasks;

pub use crate::scope::Scopes;
pub(crate) use arguments::read_arguments;
pub use audience::{Announcement, Audience};
#[cfg(feature = "http")]
pub(crate) use authorization::ScopePolicy;
pub use authorization::{Authorization, Identity};
pub use caller::Caller;
pub use config::Config;
pub use custom_method::CustomMethod;
#[cfg(feature = "http")]
pub(crate) use deprecations::report_deprecated;
pub use engine::Engine;
pub(crate) use engine::can_answer;
#[cfg(feature = "http")]
pub(crate) use engine::is_out_of_memory;
pub use event::{Call, CancelReason, Event, Notification, Peer, ToolCall};
#[cfg(feature = "http")]
pub(crate) use exchanges::ExchangeBuffers;
#[cfg(feature = "exchanges")]
pub use exchanges::{ExchangeOutput, ExchangeStatus, ExchangeToken, Exchanges, SessionStatus};
pub use http_request::{ConnectionInfo, HttpRequest};
pub use input_required::{InputError, InputRequired};
pub use proven_key::ProvenKey;
#[cfg(feature = "http")]
pub(crate) use proven_key::is_nonce;
pub use reply::PreparedResult;
#[cfg(feature = "crypto")]
pub use tasks::commands::Tasks;
#[cfg(feature = "crypto")]
pub use tasks::limits::TaskLimits;
pub use tasks::offer::TaskOffer;
#[cfg(feature = "crypto")]
pub use tasks::options::TaskOptions;
#[cfg(feature = "crypto")]
pub use tasks::record::TaskRecordError;
#[cfg(feature = "crypto")]
pub use tasks::store_queue::StoreEffect;
#[cfg(feature = "crypto")]
pub use tasks::table::TaskTable;
