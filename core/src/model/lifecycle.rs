//! The handshake of legacy revisions and its successor (LIFE, VER).

use alloc::string::String;
use alloc::vec::Vec;

use super::base::{CacheScope, Implementation, ResultType};
use super::capabilities::{ClientCapabilities, ServerCapabilities};
use super::message::message;
use crate::raw::RawJson;

message! {
    /// The parameters of `initialize` (until 2025-11-25; LIFE-002)
    InitializeParams {
        /// The revision that the client wants: the newest that it speaks (VER-001)
        protocol_version: String = "protocolVersion",
        /// What the client can do
        capabilities: ClientCapabilities = "capabilities",
        /// Who the client is
        client_info: Implementation = "clientInfo",
    } {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `initialize` (until 2025-11-25; LIFE-003)
    InitializeResult {
        /// The revision that is in force: the client's, or another that the server offers (VER-004, VER-005)
        protocol_version: String = "protocolVersion",
        /// What the server can do
        capabilities: ServerCapabilities = "capabilities",
        /// Who the server is
        server_info: Implementation = "serverInfo",
    } {
        /// How to use the server, for a model to read: untrusted text (LIFE-016)
        opt instructions: String = "instructions",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The result of `server/discover` (since 2026-07-28; VER-013)
    DiscoverResult {
        /// The revisions that the server speaks
        supported_versions: Vec<String> = "supportedVersions",
        /// What the server can do
        capabilities: ServerCapabilities = "capabilities",
    } {
        /// How to use the server, for a model to read: untrusted text (LIFE-016)
        opt instructions: String = "instructions",
        /// How long it may be kept, in milliseconds; negative counts as 0 (CACHE-002, CACHE-006)
        opt ttl_ms: i64 as Millis = "ttlMs",
        /// Who may be given it while it is kept
        opt cache_scope: CacheScope = "cacheScope",
        /// What kind of result it is; a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata; says who the server is ([`ResultMeta`](super::ResultMeta); META-018)
        opt meta: RawJson as Object = "_meta",
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::for_tests::{missing, same};
    use super::*;

    // covers: LIFE-002, LIFE-003
    #[test]
    fn handshakes() {
        let (client, server) = (Implementation::new("c", "1"), Implementation::new("s", "2"));
        let meta = RawJson::new("{}").expect("JSON");
        same(&InitializeParams::new("2099-01-01", ClientCapabilities::new(), client).meta(meta.clone()));
        same(
            &InitializeResult::new("2025-11-25", ServerCapabilities::new(), server)
                .instructions("i")
                .meta(meta.clone()),
        );
        missing::<InitializeParams>(r#"{"protocolVersion":"","capabilities":{}}"#, "clientInfo");
        missing::<InitializeResult>(
            r#"{"protocolVersion":"","serverInfo":{"name":"","version":""}}"#,
            "capabilities",
        );
        let wrong =
            serde_json::from_str::<InitializeParams>(r#"{"clientInfo":{"name":1}}"#).expect_err("wrong");
        assert!(wrong.to_string().starts_with("`clientInfo.name`: invalid type: integer"), "{wrong}");
    }

    // covers: VER-013, CACHE-002, CACHE-003
    #[test]
    fn discoveries() {
        same(
            &DiscoverResult::new(["2026-07-28".into()], ServerCapabilities::new())
                .instructions("i")
                .ttl_ms(3_600_000)
                .cache_scope(CacheScope::Public)
                .result_type(ResultType::Complete)
                .meta(RawJson::new("{}").expect("JSON")),
        );
        missing::<DiscoverResult>(r#"{"capabilities":{}}"#, "supportedVersions");
    }
}
