//! Log messages, progress, cancellation, and the subscriptions of 2026-07-28 (LOG, PROG, CANC, SUB).

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use bytes::Bytes;

use super::base::{ProgressToken, ResultType};
use super::message::message;
use super::string_enum::string_enum;
use super::tasks::TaskId;
use crate::change::CustomList;
use crate::raw::RawJson;
use crate::rpc::RequestId;

string_enum! {
    /// Level of a log message (RFC 5424; LOG-002).
    ///
    /// Levels are ordered by severity. An unknown level equals itself and is not comparable with others.
    LoggingLevel {
        /// Debugging information.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// Normal but significant event.
        Notice = "notice",
        /// Warning condition.
        Warning = "warning",
        /// Error condition.
        Error = "error",
        /// Failure of a component.
        Critical = "critical",
        /// Condition that needs immediate action.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

impl LoggingLevel {
    /// Returns the severity from 0 (`debug`) to 7 (`emergency`), or `None` for an unknown level.
    #[must_use]
    pub const fn severity(&self) -> Option<u8> {
        Some(match self {
            Self::Debug => 0,
            Self::Info => 1,
            Self::Notice => 2,
            Self::Warning => 3,
            Self::Error => 4,
            Self::Critical => 5,
            Self::Alert => 6,
            Self::Emergency => 7,
            Self::Other(_) => return None,
        })
    }
}

impl PartialOrd for LoggingLevel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.severity(), other.severity()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => (self == other).then_some(Ordering::Equal),
        }
    }
}

message! {
    /// Parameters of `logging/setLevel` (up to and including 2025-11-25; LOG-004).
    SetLevelParams {
        /// Lowest level that the client wants.
        level: LoggingLevel = "level",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/message` (LOG-003).
    LoggingMessageParams {
        /// Level of the message.
        level: LoggingLevel = "level",
        /// The message: any JSON value; no secrets (LOG-013).
        data: RawJson = "data",
    } {
        /// Component of the server that logs.
        opt logger: String = "logger",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/progress` (PROG-006).
    ProgressParams {
        /// Progress token of the request.
        progress_token: ProgressToken = "progressToken",
        /// Progress so far; increases with each notification (PROG-007).
        progress: f64 as Number = "progress",
    } {
        /// Total amount, if known.
        opt total: f64 as Number = "total",
        /// Human-readable message (since 2025-03-26; PROG-009).
        opt message: String = "message",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `notifications/cancelled` (CANC-005).
    CancelledParams {} {
        /// Id of the cancelled request; only 2025-11-25 lets it be absent, and then it has no meaning (DEC-015).
        opt request_id: RequestId = "requestId",
        /// Human-readable reason.
        opt reason: String = "reason",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of `subscriptions/listen` (since 2026-07-28; SUB-001).
    SubscriptionsListenParams {
        /// The requested changes.
        notifications: SubscriptionFilter = "notifications",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Changes that a subscription covers (since 2026-07-28; SUB-002).
    SubscriptionFilter {} {
        /// `notifications/tools/list_changed`; absent means no.
        opt tools_list_changed: bool = "toolsListChanged",
        /// `notifications/prompts/list_changed`; absent means no.
        opt prompts_list_changed: bool = "promptsListChanged",
        /// `notifications/resources/list_changed`; absent means no.
        opt resources_list_changed: bool = "resourcesListChanged",
        /// `notifications/resources/updated` for these URIs.
        opt resource_subscriptions: Vec<String> = "resourceSubscriptions",
        /// `notifications/tasks` for these tasks (extension; TASK-126).
        opt task_ids: Vec<TaskId> = "taskIds",
    }

    /// Parameters of `notifications/subscriptions/acknowledged` (since 2026-07-28; SUB-004).
    SubscriptionsAcknowledgedParams {
        /// Part of the filter that the server honours (SUB-006).
        notifications: SubscriptionFilter = "notifications",
    } {
        /// Metadata that names the subscription ([`NotificationMeta`](super::NotificationMeta)).
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `subscriptions/listen`, with which the server ends it (since 2026-07-28; SUB-013).
    SubscriptionsListenResult {
        /// Metadata that names the subscription ([`ResultMeta`](super::ResultMeta); SUB-014).
        meta: RawJson as Object = "_meta",
    } {
        /// Kind of the result; the server's engine sets it.
        opt result_type: ResultType = "resultType",
    }
}

impl SubscriptionFilter {
    /// Asks for a list of an extension, by its member in [`extra`](#structfield.extra).
    ///
    /// A client reports its changes if it has registered the list
    /// ([`Config::custom_list`](crate::client::Config::custom_list)).
    #[must_use]
    pub fn custom_list(mut self, list: CustomList) -> Self {
        self.extra.insert(list.member(), RawJson::trusted(Bytes::from_static(b"true")));
        self
    }

    /// Returns whether the filter has a list of an extension.
    #[must_use]
    pub fn has_custom_list(&self, list: CustomList) -> bool {
        self.extra.get(list.member()).is_some_and(|wanted| wanted.as_str() == "true")
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    fn raw(text: &'static str) -> RawJson {
        RawJson::new(text).expect("JSON")
    }

    // covers: LOG-002, LOG-003, LOG-004
    #[test]
    fn logging_levels_compare_by_severity() {
        let names = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels = names.map(LoggingLevel::from);
        assert!(levels.windows(2).all(|w| w[0] < w[1]) && LoggingLevel::Error >= LoggingLevel::Error);
        for (level, name) in levels.iter().zip(names) {
            assert_eq!((level.as_str(), level.severity().is_some()), (name, true));
        }
        let odd = LoggingLevel::from("loud");
        assert!(odd == odd.clone() && odd.partial_cmp(&LoggingLevel::Emergency).is_none());
        assert_round_trip(&SetLevelParams::new("warning").meta(raw("{}")));
        assert_round_trip(&LoggingMessageParams::new("loud", raw("null")).logger("db").meta(raw("{}")));
        assert_missing::<SetLevelParams>("{}", "level");
        assert_missing::<LoggingMessageParams>(r#"{"level":"info"}"#, "data");
    }

    // covers: PROG-003, PROG-006, PROG-008
    #[test]
    fn progress_may_be_fractional() {
        let token = |text: &'static str| raw(text).parse::<ProgressToken>().expect("a token");
        let text = assert_round_trip(
            &ProgressParams::new(token("\"t\""), 2.5).total(3).message("half").meta(raw("{}")),
        );
        assert!(text.starts_with(r#"{"progressToken":"t","progress":2.5,"total":3,"#), "{text}");
        assert_round_trip(&ProgressParams::new(token("7"), 123_456_789.5));
        assert_missing::<ProgressParams>(r#"{"progressToken":1}"#, "progress");
        for wrong in ["null", "1.5", "true", "{}"] {
            assert!(raw(wrong).parse::<ProgressToken>().is_err(), "{wrong}");
        }
        assert_eq!(token("1.0"), token("1"));
    }

    // covers: CANC-005
    #[test]
    fn cancellation_without_request_id_round_trips() {
        assert_round_trip(&CancelledParams::new().request_id(RequestId::int(4)).reason("r").meta(raw("{}")));
        assert_round_trip(&CancelledParams::new());
    }

    // covers: SUB-001, SUB-002, SUB-004, SUB-006, SUB-013
    #[test]
    fn subscription_messages_round_trip() {
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(false)
            .resources_list_changed(true)
            .resource_subscriptions(["a:b".into()])
            .task_ids(["t-9".into()]);
        assert_round_trip(&filter);
        assert_round_trip(&SubscriptionsListenParams::new(filter.clone()).meta(raw("{}")));
        assert_round_trip(&SubscriptionsAcknowledgedParams::new(filter).meta(raw("{}")));
        assert_round_trip(&SubscriptionsListenResult::new(raw("{}")).result_type(ResultType::Complete));
        assert_missing::<SubscriptionsListenParams>("{}", "notifications");
        assert_missing::<SubscriptionsAcknowledgedParams>("{}", "notifications");
        assert_missing::<SubscriptionsListenResult>("{}", "_meta");
    }
}
