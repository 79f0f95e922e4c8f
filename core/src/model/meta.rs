//! Typed views of `_meta` (META).
//!
//! Messages carry `_meta` as JSON, because most of it only passes through (META-008). These types read the keys of the
//! protocol from it with [`RawJson::parse`](crate::RawJson::parse), and keep all other keys in `extra`.

use alloc::string::String;

use super::base::{Implementation, ProgressToken};
use super::capabilities::ClientCapabilities;
use super::message::message;
use super::notifications::LoggingLevel;
use crate::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION, SERVER_INFO,
    SUBSCRIPTION_ID,
};
use crate::rpc::RequestId;

message! {
    /// `_meta` of a request.
    ///
    /// The engines write it. An application adds its own keys with
    /// [`CallOptions::with_meta`](crate::CallOptions::with_meta).
    RequestMeta {} {
        /// Token for progress notifications (PROG-001).
        opt progress_token: ProgressToken = PROGRESS_TOKEN,
        /// Revision of the request (since 2026-07-28, required there; META-009).
        opt protocol_version: String = PROTOCOL_VERSION,
        /// Capabilities of the client (since 2026-07-28, required there; META-010).
        opt client_capabilities: ClientCapabilities = CLIENT_CAPABILITIES,
        /// Name and version of the client (since 2026-07-28; META-011).
        opt client_info: Implementation = CLIENT_INFO,
        /// Lowest level of the log messages for this request (since 2026-07-28; META-012, LOG-007).
        opt log_level: LoggingLevel = LOG_LEVEL,
    }

    /// `_meta` of a result.
    ResultMeta {} {
        /// Name and version of the server (since 2026-07-28; META-018).
        opt server_info: Implementation = SERVER_INFO,
        /// Id of the request that opened the subscription which ends here (since 2026-07-28; SUB-014).
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// `_meta` of a notification.
    NotificationMeta {} {
        /// Id of the request that opened the subscription (since 2026-07-28; META-020).
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// Trace context in any `_meta` (since 2026-07-28; META-021, META-022).
    ///
    /// Passed through unchanged; the tracing library checks its syntax.
    TraceContext {} {
        /// Parent span (W3C Trace Context).
        opt traceparent: String = "traceparent",
        /// Vendor-specific trace data (W3C Trace Context).
        opt tracestate: String = "tracestate",
        /// Application-specific trace data (W3C Baggage).
        opt baggage: String = "baggage",
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::assert_round_trip;
    use super::*;
    use crate::raw::RawJson;

    // covers: META-008, META-009, META-010, META-011, META-012, META-018, META-020, META-021
    #[test]
    fn meta_views_read_protocol_keys_and_keep_others() {
        let meta = RawJson::new(
            r#"{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-1",
                "io.modelcontextprotocol/clientCapabilities":{"roots":{}},"x.example/y":1,
                "io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},
                "io.modelcontextprotocol/logLevel":"loud"}"#,
        )
        .expect("JSON");
        let request: RequestMeta = meta.parse().expect("a view");
        assert_eq!(request.protocol_version.as_deref(), Some("2026-07-28"));
        assert!(request.client_capabilities.as_ref().is_some_and(|c| c.roots.is_some()));
        assert_eq!(request.log_level, Some("loud".into()));
        assert_eq!(request.extra.len(), 2);
        assert_round_trip(&request);
        let trace: TraceContext = meta.parse().expect("a view");
        assert_eq!((trace.traceparent.as_deref(), trace.extra.len()), (Some("00-1"), 6));
        assert_round_trip(&TraceContext::new().traceparent("a").tracestate("b").baggage("c"));
        assert_round_trip(&NotificationMeta::new().subscription_id(RequestId::int(1)));
        assert_round_trip(
            &ResultMeta::new().server_info(Implementation::new("n", "1")).subscription_id(RequestId::int(1)),
        );
    }
}
