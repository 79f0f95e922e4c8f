//! The keys of `_meta` that the protocol owns, and the rules for all others.

/// Prefix of the keys that the protocol defines
pub(crate) const PREFIX: &str = "io.modelcontextprotocol/";
pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
pub(crate) const PROGRESS_TOKEN: &str = "progressToken";

/// What follows the prefix in the keys that requests have
pub(crate) mod after_prefix {
    pub(crate) const PROTOCOL_VERSION: &[u8] = b"protocolVersion";
    pub(crate) const CLIENT_CAPABILITIES: &[u8] = b"clientCapabilities";
    pub(crate) const CLIENT_INFO: &[u8] = b"clientInfo";
    pub(crate) const LOG_LEVEL: &[u8] = b"logLevel";
    /// Those of tasks in 2025-11-25
    pub(crate) const OLDER: [&[u8]; 2] = [b"related-task", b"model-immediate-response"];
}

/// Whether an application may put a value under `key`
///
/// False for malformed keys (META-003, META-004), for `progressToken`, which belongs to the engine, and for keys
/// whose prefix is reserved by either wording of the rule (META-006, META-007, DEC-009). Trace context
/// (`traceparent`, `tracestate`, `baggage`) is the application's (META-021, META-022).
#[must_use]
pub fn is_free_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if key == PROGRESS_TOKEN || !is_name(name) || (prefix.is_none() && name.is_empty()) {
        return false;
    }
    let Some(prefix) = prefix else { return true };
    let reserved = |label: &str| matches!(label, "modelcontextprotocol" | "mcp");
    let (mut second, mut before_last, mut last) = (false, false, false);
    for (i, label) in prefix.split('.').enumerate() {
        if !is_label(label) {
            return false;
        }
        before_last = last;
        last = reserved(label);
        second |= i == 1 && last;
    }
    !second && !before_last
}

/// Whether the application may put a value under `key` of a result: under a free one, and under those by which it says
/// itself what the result belongs to (SUB-013, META-023)
pub(crate) fn is_free_in_result(key: &str) -> bool {
    is_free_key(key) || matches!(key, SUBSCRIPTION_ID | RELATED_TASK)
}

/// Whether `identifier` can name an extension in `capabilities.extensions`: spelt as a key of `_meta` that has a prefix
/// (EXT-002)
///
/// Whether the prefix is yours is for you to know: official extensions are under `io.modelcontextprotocol/` (EXT-008).
#[must_use]
pub fn is_extension_id(identifier: &str) -> bool {
    let Some((prefix, name)) = identifier.split_once('/') else { return false };
    !name.is_empty() && is_name(name) && prefix.split('.').all(is_label)
}

fn is_name(name: &str) -> bool {
    let b = name.as_bytes();
    let ends = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    ends(b.first())
        && ends(b.last())
        && b.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

fn is_label(label: &str) -> bool {
    let b = label.as_bytes();
    b.first().is_some_and(u8::is_ascii_alphabetic)
        && b.last().is_some_and(u8::is_ascii_alphanumeric)
        && b.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: META-003, META-004, META-006, META-007, META-021
    #[test]
    fn keys_are_free_reserved_or_malformed() {
        for free in
            ["a", "traceparent", "baggage", "com.example/x", "com.example/", "com.example.mcp/y", "a-1/b_c.d"]
        {
            assert!(is_free_key(free), "{free}");
        }
        for taken in [
            "progressToken",
            "io.modelcontextprotocol/x",
            "dev.mcp/",
            "mcp.dev/x",
            "com.example.mcp.x/y",
            "modelcontextprotocol.io/x",
            "tools.mcp.com/x",
            "",
            "-a",
            "a_",
            "1com/x",
            "com..x/y",
            "com.x-/y",
            "a b",
            "a/b/c",
        ] {
            assert!(!is_free_key(taken), "{taken}");
        }
    }

    // covers: EXT-002, EXT-008
    #[test]
    fn extensions_are_named_with_a_prefix() {
        for official in ["tasks", "ui", "oauth-client-credentials", "enterprise-managed-authorization"] {
            assert!(is_extension_id(&alloc::format!("{PREFIX}{official}")), "{official}");
        }
        assert!(is_extension_id("com.example/a_b.c-1"));
        for bad in [
            "",
            "tasks",
            "/x",
            "com.example/",
            "com.example/-x",
            "com..example/x",
            "1.example/x",
            "a/b/c",
            "a b/c",
        ] {
            assert!(!is_extension_id(bad), "{bad}");
        }
    }
}
