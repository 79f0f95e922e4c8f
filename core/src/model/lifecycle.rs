//! Handshake of legacy revisions, and `server/discover` of modern ones (LIFE, VER).

use alloc::string::String;
use alloc::vec::Vec;

use super::base::{CacheScope, Implementation, ResultType};
use super::capabilities::{ClientCapabilities, ServerCapabilities};
use super::message::message;
use crate::raw::RawJson;

message! {
    /// Parameters of `initialize` (up to and including 2025-11-25; LIFE-002).
    InitializeParams {
        /// Requested revision, which is the newest that the client supports (VER-001).
        protocol_version: String = "protocolVersion",
        /// Capabilities of the client.
        capabilities: ClientCapabilities = "capabilities",
        /// Name and version of the client.
        client_info: Implementation = "clientInfo",
    } {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `initialize` (up to and including 2025-11-25; LIFE-003).
    InitializeResult {
        /// Negotiated revision: the requested one, or another that the server offers (VER-004, VER-005).
        protocol_version: String = "protocolVersion",
        /// Capabilities of the server.
        capabilities: ServerCapabilities = "capabilities",
        /// Name and version of the server.
        server_info: Implementation = "serverInfo",
    } {
        /// Instructions that tell a model how to use the server. They are untrusted text (LIFE-016).
        opt instructions: String = "instructions",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Result of `server/discover` (since 2026-07-28; VER-013).
    DiscoverResult {
        /// Revisions that the server supports.
        supported_versions: Vec<String> = "supportedVersions",
        /// Capabilities of the server.
        capabilities: ServerCapabilities = "capabilities",
    } {
        /// Instructions that tell a model how to use the server. They are untrusted text (LIFE-016).
        opt instructions: String = "instructions",
        /// Cache lifetime in milliseconds; negative counts as 0 (CACHE-002, CACHE-006).
        opt ttl_ms: i64 as TtlMillis = "ttlMs",
        /// Parties that may share the cached result.
        opt cache_scope: CacheScope = "cacheScope",
        /// Kind of the result; the server's engine sets it to `complete`.
        opt result_type: ResultType = "resultType",
        /// Metadata with name and version of the server ([`ResultMeta`](super::ResultMeta); META-018).
        opt meta: RawJson as Object = "_meta",
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: LIFE-002, LIFE-003
    #[test]
    fn initialize_messages_round_trip() {
        let (client, server) = (Implementation::new("c", "1"), Implementation::new("s", "2"));
        let meta = RawJson::new("{}").expect("JSON");
        assert_round_trip(
            &InitializeParams::new("2099-01-01", ClientCapabilities::new(), client).meta(meta.clone()),
        );
        assert_round_trip(
            &InitializeResult::new("2025-11-25", ServerCapabilities::new(), server)
                .instructions("i")
                .meta(meta.clone()),
        );
        assert_missing::<InitializeParams>(r#"{"protocolVersion":"","capabilities":{}}"#, "clientInfo");
        assert_missing::<InitializeResult>(
            r#"{"protocolVersion":"","serverInfo":{"name":"","version":""}}"#,
            "capabilities",
        );
        let wrong =
            serde_json::from_str::<InitializeParams>(r#"{"clientInfo":{"name":1}}"#).expect_err("wrong");
        assert!(wrong.to_string().starts_with("`clientInfo.name`: invalid type: integer"), "{wrong}");
    }

    // covers: VER-013, CACHE-002, CACHE-003
    #[test]
    fn discover_result_round_trips() {
        assert_round_trip(
            &DiscoverResult::new(["2026-07-28".into()], ServerCapabilities::new())
                .instructions("i")
                .ttl_ms(3_600_000)
                .cache_scope(CacheScope::Public)
                .result_type(ResultType::Complete)
                .meta(RawJson::new("{}").expect("JSON")),
        );
        assert_missing::<DiscoverResult>(r#"{"capabilities":{}}"#, "supportedVersions");
    }
}
