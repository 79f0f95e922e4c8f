//! Typed views of `_meta` (META).
//!
//! Messages carry `_meta` as JSON, since most of it only passes through (META-008). These types read the keys that the
//! protocol owns out of it, with [`RawJson::parse`](crate::RawJson::parse), and keep all others in `extra`.

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
    /// `_meta` of a request
    ///
    /// The engines write it; what an application adds goes into
    /// [`CallOptions::with_meta`](crate::CallOptions::with_meta).
    RequestMeta {} {
        /// By which the client wants to be told of progress (PROG-001)
        opt progress_token: ProgressToken = PROGRESS_TOKEN,
        /// The revision of the request (since 2026-07-28, where it must be there; META-009)
        opt protocol_version: String = PROTOCOL_VERSION,
        /// What the client can do (since 2026-07-28, where it must be there; META-010)
        opt client_capabilities: ClientCapabilities = CLIENT_CAPABILITIES,
        /// Who the client is (since 2026-07-28; META-011)
        opt client_info: Implementation = CLIENT_INFO,
        /// The least serious log messages that are wanted for this request (since 2026-07-28; META-012, LOG-007)
        opt log_level: LoggingLevel = LOG_LEVEL,
    }

    /// `_meta` of a result
    ResultMeta {} {
        /// Who the server is (since 2026-07-28; META-018)
        opt server_info: Implementation = SERVER_INFO,
        /// The request that opened the subscription which ends here (since 2026-07-28; SUB-014)
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// `_meta` of a notification
    NotificationMeta {} {
        /// The request that opened the subscription (since 2026-07-28; META-020)
        opt subscription_id: RequestId = SUBSCRIPTION_ID,
    }

    /// The trace that something belongs to, in any `_meta` (since 2026-07-28; META-021, META-022)
    ///
    /// Passed through as it is; whether it is well-formed is for the tracing library to say.
    TraceContext {} {
        /// The span that this belongs to (W3C Trace Context)
        opt traceparent: String = "traceparent",
        /// What vendors add to it (W3C Trace Context)
        opt tracestate: String = "tracestate",
        /// What the application adds to it (W3C Baggage)
        opt baggage: String = "baggage",
    }
}

#[cfg(test)]
mod tests {
    use super::super::for_tests::same;
    use super::*;
    use crate::raw::RawJson;

    // covers: META-008, META-009, META-010, META-011, META-012, META-018, META-020, META-021
    #[test]
    fn views_read_the_keys_of_the_protocol_and_keep_the_others() {
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
        same(&request);
        let trace: TraceContext = meta.parse().expect("a view");
        assert_eq!((trace.traceparent.as_deref(), trace.extra.len()), (Some("00-1"), 6));
        same(&TraceContext::new().traceparent("a").tracestate("b").baggage("c"));
        same(&NotificationMeta::new().subscription_id(RequestId::int(1)));
        same(
            &ResultMeta::new().server_info(Implementation::new("n", "1")).subscription_id(RequestId::int(1)),
        );
    }
}
