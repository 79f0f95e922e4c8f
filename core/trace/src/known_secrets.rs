//! Secrets in texts: those of a server, which a program knows, also where they are quoted or cut off; others by their names and forms.

use serde_json::Value;

use crate::Mask;

/// Masks what is a secret in a text by its name or its form, as [`Mask::words`] does.
#[must_use]
pub fn masked(text: &str) -> String {
    Mask::default().words(text)
}

/// Rewrites the texts of a value, but not the names of members. Returns whether that has changed one.
pub fn rewrite_texts(value: &mut Value, rewrite: &dyn Fn(&str) -> String) -> bool {
    match value {
        Value::String(text) => {
            let before = core::mem::replace(text, rewrite(text));
            before != *text
        }
        Value::Array(all) => all.iter_mut().fold(false, |any, one| rewrite_texts(one, rewrite) | any),
        Value::Object(members) => {
            members.values_mut().fold(false, |any, one| rewrite_texts(one, rewrite) | any)
        }
        _ => false,
    }
}

/// Values that no text may show: a program knows them, and a server may repeat them. Those of less than 6 bytes are not told from other
/// texts, and left.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Adds a value, and what follows the scheme of a credential.
    pub fn add(&mut self, value: &str) {
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

    /// Replaces each secret in a text, and the beginning of one where it was cut off.
    #[must_use]
    pub fn redact(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, "…");
            }
            if !text.contains('…') {
                continue;
            }
            let parts = (MIN_SECRET..secret.len()).rev().filter_map(|length| secret.get(..length));
            if let Some(part) = { parts }.map(|part| format!("{part}…")).find(|part| text.contains(part)) {
                text = text.replace(&part, "…");
            }
        }
        text
    }

    /// Returns whether a text may have a secret, or the beginning of one that was cut off.
    #[must_use]
    pub fn may_be_in(&self, text: &str) -> bool {
        !self.0.is_empty() && (text.contains('…') || self.0.iter().any(|secret| text.contains(secret)))
    }

    /// Replaces each secret in the texts of a value, but not in names of members. Returns whether one was there.
    pub fn redact_texts(&self, value: &mut Value) -> bool {
        rewrite_texts(value, &|text| self.redact(text.to_owned()))
    }
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

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
    fn texts_of_a_value_are_redacted_and_its_names_are_not() {
        let mut secrets = Secrets::default();
        secrets.add("content");
        let mut value = serde_json::json!({"content": [{"text": "my content"}], "n": 1});
        assert!(secrets.redact_texts(&mut value));
        assert_eq!(value, serde_json::json!({"content": [{"text": "my …"}], "n": 1}));
        assert!(!secrets.redact_texts(&mut value));
    }
}
