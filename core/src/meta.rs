//! Rules for the keys of `_meta` and for identifiers of extensions, and the names that the protocol reserves.

use crate::version::Version;

/// Prefix of the keys that the protocol defines.
pub(crate) const PREFIX: &str = "io.modelcontextprotocol/";
pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
pub(crate) const PROGRESS_TOKEN: &str = "progressToken";
/// The parent span (META-021).
pub(crate) const TRACEPARENT: &[u8] = b"traceparent";
pub(crate) const TRACESTATE: &[u8] = b"tracestate";
pub(crate) const BAGGAGE: &[u8] = b"baggage";
/// All keys of trace context, in the order of [`TraceContext`](crate::observe::TraceContext).
pub(crate) const TRACE_MEMBERS: [&[u8]; 3] = [TRACEPARENT, TRACESTATE, BAGGAGE];

/// Keys of requests, without the prefix.
pub(crate) mod unprefixed {
    pub(crate) const PROTOCOL_VERSION: &[u8] = b"protocolVersion";
    pub(crate) const CLIENT_CAPABILITIES: &[u8] = b"clientCapabilities";
    pub(crate) const CLIENT_INFO: &[u8] = b"clientInfo";
    pub(crate) const LOG_LEVEL: &[u8] = b"logLevel";
    /// Keys of tasks in 2025-11-25.
    pub(crate) const LEGACY_TASK_KEYS: [&[u8]; 2] = [b"related-task", b"model-immediate-response"];
}

/// Returns whether an application may use `key` in `_meta`.
///
/// Returns false for malformed keys (META-003, META-004) and for `progressToken`, which belongs to the engine. It also
/// returns false if the prefix is reserved by either wording of the rule (META-006, META-007, DEC-009). The keys of
/// trace context (`traceparent`, `tracestate`, `baggage`) belong to the application (META-021, META-022).
#[must_use]
pub fn is_unreserved_key(key: &str) -> bool {
    // The keys that every modern message has.
    if key.starts_with(PREFIX) {
        return false;
    }
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
    // Reserved by either wording (DEC-009): the second label, or the one before the last.
    !second && !before_last
}

/// Returns whether an application may use `key` in the `_meta` of a result.
///
/// Besides the unreserved keys, these are the two that relate a result to a subscription or a task (SUB-013, META-023).
pub(crate) fn is_unreserved_in_result(key: &str) -> bool {
    is_unreserved_key(key) || matches!(key, SUBSCRIPTION_ID | RELATED_TASK)
}

/// The extension for apps.
pub(crate) const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The extension for tasks.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The extension for skills (SKILL-001).
pub(crate) const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Its setting for [`DIRECTORY_READ`](crate::methods::DIRECTORY_READ) (SKILL-003).
pub(crate) const SKILLS_DIRECTORY_READ: &str = "directoryRead";

/// Returns whether an extension may be declared in `version`: all in every revision, tasks since 2026-07-28 (TASK-130).
pub(crate) fn extension_exists_in(identifier: &str, version: Version) -> bool {
    identifier != TASKS_EXTENSION || version >= Version::V2026_07_28
}

/// Returns whether `identifier` can name an extension in `capabilities.extensions` (EXT-002).
///
/// It has the syntax of a `_meta` key with a prefix. The prefix `io.modelcontextprotocol/` is reserved for official
/// extensions, which is not checked (EXT-008).
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
    fn reserved_and_malformed_meta_keys_are_refused() {
        for unreserved in
            ["a", "traceparent", "baggage", "com.example/x", "com.example/", "com.example.mcp/y", "a-1/b_c.d"]
        {
            assert!(is_unreserved_key(unreserved), "{unreserved}");
        }
        for refused in [
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
            assert!(!is_unreserved_key(refused), "{refused}");
        }
    }

    // covers: EXT-002, EXT-008
    #[test]
    fn extension_ids_require_a_prefix() {
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
