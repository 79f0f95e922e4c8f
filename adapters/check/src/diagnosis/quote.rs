//! How texts of others are quoted: masked and short.

use mcp_proto::http::client::Url;

/// Replaces what is a secret by its form or by its place in a URL.
pub(super) fn masked(text: &str) -> String {
    mcp_proto_trace::masked(&Url::redacted_in(text))
}

/// Shortens a text of a server to 160 characters, without secrets: those that are known by their form, or by their place in a URL.
#[must_use]
pub fn clip(text: &str) -> String {
    // A secret that is cut off is not known by its form any more.
    let text = masked(text);
    let short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Maximum number of characters shown of a text of the server.
const MAX_SHOWN: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipped_texts_hold_no_secrets_by_form_or_place() {
        let key = format!("sk-{}", "a1b2c3d4".repeat(4));
        let text = format!("{} key {key}", "word ".repeat(30));
        assert!(!clip(&text).contains("sk-a"), "{}", clip(&text));
        assert_eq!(clip("at http://h/?MCP_PROXY_AUTH_TOKEN=deadbeef now"), "at http://h/?… now");
    }
}
