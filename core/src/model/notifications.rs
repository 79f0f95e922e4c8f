//! Log messages, progress, cancellation, and the subscriptions of 2026-07-28 (LOG, PROG, CANC, SUB).

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::base::{ProgressToken, ResultType};
use super::message::message;
use super::words::words;
use crate::raw::RawJson;
use crate::rpc::RequestId;

words! {
    /// How serious a log message is (RFC 5424; LOG-002)
    ///
    /// Levels compare by seriousness; one that is not known compares with nothing but itself.
    LoggingLevel {
        /// Details for whoever looks for a fault
        Debug = "debug",
        /// What goes as it should
        Info = "info",
        /// Something that seldom happens
        Notice = "notice",
        /// Something that may become a fault
        Warning = "warning",
        /// A fault
        Error = "error",
        /// A part of the system has failed
        Critical = "critical",
        /// Something must be done at once
        Alert = "alert",
        /// Nothing works
        Emergency = "emergency",
    }
}

impl LoggingLevel {
    /// From 0 (`debug`) to 7 (`emergency`); none for a level that is not known
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
    /// The parameters of `logging/setLevel` (until 2025-11-25; LOG-004)
    SetLevelParams {
        /// The least serious level that is wanted
        level: LoggingLevel = "level",
    } {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `notifications/message` (LOG-003)
    LoggingMessageParams {
        /// How serious it is
        level: LoggingLevel = "level",
        /// The message: any JSON value; no secrets (LOG-013)
        data: RawJson = "data",
    } {
        /// What part of the server speaks
        opt logger: String = "logger",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `notifications/progress` (PROG-006)
    ProgressParams {
        /// The token that the request gave
        progress_token: ProgressToken = "progressToken",
        /// How much is done; grows from one report to the next (PROG-007)
        progress: f64 as Number = "progress",
    } {
        /// How much there is in all, when that is known
        opt total: f64 as Number = "total",
        /// A sentence for people (since 2025-03-26; PROG-009)
        opt message: String = "message",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `notifications/cancelled` (CANC-005)
    CancelledParams {} {
        /// Which request; only 2025-11-25 lets it be absent, and then it says nothing (DEC-015)
        opt request_id: RequestId = "requestId",
        /// Why, for people
        opt reason: String = "reason",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of `subscriptions/listen` (since 2026-07-28; SUB-001)
    SubscriptionsListenParams {
        /// What is wanted
        notifications: SubscriptionFilter = "notifications",
    } {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// What a subscription is about (since 2026-07-28; SUB-002)
    SubscriptionFilter {} {
        /// `notifications/tools/list_changed`; absent means no
        opt tools_list_changed: bool = "toolsListChanged",
        /// `notifications/prompts/list_changed`; absent means no
        opt prompts_list_changed: bool = "promptsListChanged",
        /// `notifications/resources/list_changed`; absent means no
        opt resources_list_changed: bool = "resourcesListChanged",
        /// `notifications/resources/updated` for these URIs
        opt resource_subscriptions: Vec<String> = "resourceSubscriptions",
    }

    /// The parameters of `notifications/subscriptions/acknowledged` (since 2026-07-28; SUB-004)
    SubscriptionsAcknowledgedParams {
        /// The part of the filter that is honoured (SUB-006)
        notifications: SubscriptionFilter = "notifications",
    } {
        /// Metadata; names the subscription ([`NotificationMeta`](super::NotificationMeta))
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `subscriptions/listen`, with which the server ends it (since 2026-07-28; SUB-013)
    SubscriptionsListenResult {
        /// Metadata; names the subscription ([`ResultMeta`](super::ResultMeta); SUB-014)
        meta: RawJson as Object = "_meta",
    } {
        /// What kind of result it is; a server's engine adds it
        opt result_type: ResultType = "resultType",
    }
}

#[cfg(test)]
mod tests {
    use super::super::for_tests::{missing, same};
    use super::*;

    fn raw(text: &'static str) -> RawJson {
        RawJson::new(text).expect("JSON")
    }

    // covers: LOG-002, LOG-003, LOG-004
    #[test]
    fn levels_compare_by_seriousness() {
        let names = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels = names.map(LoggingLevel::from);
        assert!(levels.windows(2).all(|w| w[0] < w[1]) && LoggingLevel::Error >= LoggingLevel::Error);
        for (level, name) in levels.iter().zip(names) {
            assert_eq!((level.as_str(), level.severity().is_some()), (name, true));
        }
        let odd = LoggingLevel::from("loud");
        assert!(odd == odd.clone() && odd.partial_cmp(&LoggingLevel::Emergency).is_none());
        same(&SetLevelParams::new("warning").meta(raw("{}")));
        same(&LoggingMessageParams::new("loud", raw("null")).logger("db").meta(raw("{}")));
        missing::<SetLevelParams>("{}", "level");
        missing::<LoggingMessageParams>(r#"{"level":"info"}"#, "data");
    }

    // covers: PROG-003, PROG-006, PROG-008
    #[test]
    fn progress_may_be_fractional() {
        let token = |text: &'static str| raw(text).parse::<ProgressToken>().expect("a token");
        let text = same(&ProgressParams::new(token("\"t\""), 2.5).total(3).message("half").meta(raw("{}")));
        assert!(text.starts_with(r#"{"progressToken":"t","progress":2.5,"total":3,"#), "{text}");
        same(&ProgressParams::new(token("7"), 123_456_789.5));
        missing::<ProgressParams>(r#"{"progressToken":1}"#, "progress");
        for wrong in ["null", "1.5", "true", "{}"] {
            assert!(raw(wrong).parse::<ProgressToken>().is_err(), "{wrong}");
        }
        assert_eq!(token("1.0"), token("1"));
    }

    // covers: CANC-005
    #[test]
    fn a_cancellation_may_name_nothing() {
        same(&CancelledParams::new().request_id(RequestId::int(4)).reason("r").meta(raw("{}")));
        same(&CancelledParams::new());
    }

    // covers: SUB-001, SUB-002, SUB-004, SUB-006, SUB-013
    #[test]
    fn subscriptions() {
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(false)
            .resources_list_changed(true)
            .resource_subscriptions(["a:b".into()]);
        same(&filter);
        same(&SubscriptionsListenParams::new(filter.clone()).meta(raw("{}")));
        same(&SubscriptionsAcknowledgedParams::new(filter).meta(raw("{}")));
        same(&SubscriptionsListenResult::new(raw("{}")).result_type(ResultType::Complete));
        missing::<SubscriptionsListenParams>("{}", "notifications");
        missing::<SubscriptionsAcknowledgedParams>("{}", "notifications");
        missing::<SubscriptionsListenResult>("{}", "_meta");
    }
}
