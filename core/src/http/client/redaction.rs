//! Removal of the secrets of a client from what a server sends back.

use alloc::borrow::Cow;
use alloc::string::String;

use super::binding::Client;
use super::config::Credential;
use crate::error::HttpResponse;
use crate::fields::is_secret;

/// Length of the shortest value that is removed, in bytes; a shorter one may be a part of any text.
const MIN_SECRET: usize = 6;

impl Client {
    /// Removes the credentials and the values of the configured secret fields from a response that fails an exchange: it is
    /// shown and logged, and some servers quote the request in it (SEC-019).
    pub(super) fn redact(&self, answer: &mut HttpResponse) {
        for secret in self.secrets() {
            redact(&mut answer.body, secret);
            answer.content_type.as_mut().into_iter().for_each(|text| redact(text, secret));
            // The others are acted upon.
            let texts = |(name, _): &&mut (String, String)| name == "error_description";
            for challenge in &mut answer.challenges {
                challenge.params.iter_mut().filter(texts).for_each(|(_, value)| redact(value, secret));
            }
            if let Some(error) = &mut answer.error {
                if let Cow::Owned(message) = &mut error.message {
                    redact(message, secret);
                }
                error.data.take_if(|data| data.as_str().contains(secret));
            }
        }
    }

    /// Removes the same from a text of the server.
    pub(super) fn redact_text(&self, text: &mut String) {
        self.secrets().for_each(|secret| redact(text, secret));
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        let credentials = self.credentials.sent().map(Credential::value);
        let fields = self.config.fields.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value);
        let values = credentials.map(without_scheme).chain(fields);
        let texts = values.filter_map(|value| core::str::from_utf8(value).ok());
        texts.filter(|secret| secret.len() >= MIN_SECRET)
    }
}

/// Returns a credential without the name of its scheme, which is no secret.
fn without_scheme(value: &[u8]) -> &[u8] {
    let scheme = value.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    value.get(scheme..).unwrap_or(value)
}

/// Replaces a secret in a text. The beginning of one is cut off at the end of the text, because the text itself may have
/// been cut off in the middle of the secret.
fn redact(text: &mut String, secret: &str) {
    if text.contains(secret) {
        *text = text.replace(secret, "…");
    }
    let parts = (MIN_SECRET..secret.len()).rev().filter_map(|length| secret.get(..length));
    if let Some(part) = { parts }.find(|part| text.ends_with(part)) {
        text.truncate(text.len() - part.len());
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut text = String::from(text);
        redact(&mut text, "t0ps3cret");
        text
    }

    // covers: SEC-019
    #[test]
    fn secrets_are_replaced_wherever_they_stand() {
        assert_eq!(redacted("no"), "no");
        assert_eq!(redacted("t0ps3cret, Bearer t0ps3cret."), "…, Bearer ….");
        for at in 6..9 {
            assert_eq!(redacted(&alloc::format!("cut off: {}", &"t0ps3cret"[..at])), "cut off: …");
        }
        assert_eq!(redacted("t0ps3"), "t0ps3", "too short to be told from other texts");
    }

    #[test]
    fn schemes_are_no_secret() {
        assert_eq!(without_scheme(b"Bearer abc"), b"abc");
        assert_eq!(without_scheme(b"abc"), b"abc");
    }
}
