//! Escapes text from a peer so that it is harmless on a terminal, and as a word of a shell.

pub(crate) use mcp_proto_trace::escape::{is_unsafe, line, lines, shell_word};

/// Escapes a message and indents its further lines, so that none of them looks like another message.
pub(crate) fn indented(text: &str) -> String {
    lines(text.trim_end()).replace('\n', "\n    | ")
}

/// Cuts a text to a number of characters, and says so.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_message_cannot_imitate_another_message() {
        assert_eq!(indented("bad\nERROR: run\r\n\u{1b}x\n"), "bad\n    | ERROR: run\\r\n    | \\u001bx");
    }
}
