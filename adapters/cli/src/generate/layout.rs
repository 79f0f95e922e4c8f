//! Pieces of Rust source in the layout of `rustfmt`: comments, literals, attributes and long lines.

use core::fmt::Write as _;

use crate::escape;

/// Width of a line.
const WIDTH: usize = 100;
/// Width of the arguments of an attribute on one line.
const ATTRIBUTE_WIDTH: usize = 70;
/// Characters of the longest comment. Longer texts are cut.
const MAX_COMMENT: usize = 4_000;

/// Appends doc comments, one paragraph for each text that is not empty.
pub(super) fn push_docs<'t>(out: &mut String, indent: usize, texts: impl IntoIterator<Item = &'t str>) {
    let mut is_first = true;
    for text in texts.into_iter().filter(|text| !text.trim().is_empty()) {
        if !is_first {
            push_line(out, indent, "///");
        }
        is_first = false;
        let text: String = text.trim().chars().take(MAX_COMMENT).collect();
        for line in markdown(&text).lines() {
            push_wrapped(out, indent, "///", line);
        }
    }
}

/// Appends a line of a comment, broken between words.
pub(super) fn push_wrapped(out: &mut String, indent: usize, marker: &str, text: &str) {
    let mut line = marker.to_owned();
    for word in text.split_whitespace() {
        let width = indent + line.chars().count() + 1 + word.chars().count();
        if width > WIDTH && line != marker {
            push_line(out, indent, &line);
            line = marker.to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    push_line(out, indent, &line);
}

/// Makes a text of a peer harmless in a doc comment: no code (it would be a test), no links, no tags.
fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut is_code = false;
    for c in escape::lines(&text.replace("```", "'''").replace("~~~", "'''")).chars() {
        match c {
            '`' => is_code = !is_code,
            '\n' => is_code = false,
            '[' | ']' | '<' | '>' if !is_code => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Returns a string literal without characters that are not visible.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if escape::is_unsafe(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Appends a line with its indentation.
pub(super) fn push_line(out: &mut String, indent: usize, line: &str) {
    out.extend(core::iter::repeat_n(' ', indent));
    out.push_str(line);
    out.push('\n');
}

/// Appends the attribute that names a member or value as the server does.
pub(super) fn push_rename(out: &mut String, indent: usize, name: &str) {
    let argument = format!("rename = {}", literal(name));
    if argument.chars().count() <= ATTRIBUTE_WIDTH {
        push_line(out, indent, &format!("#[serde({argument})]"));
    } else {
        push_line(out, indent, "#[serde(");
        push_line(out, indent + 4, &argument);
        push_line(out, indent, ")]");
    }
}

/// Appends `begin` and `rest` in one line, or in two if they fit then.
pub(super) fn push_joined(out: &mut String, indent: usize, begin: &str, rest: &str) {
    let width = indent + rest.chars().count();
    if width + begin.chars().count() < WIDTH || width + 4 > WIDTH {
        push_line(out, indent, &format!("{begin} {rest}"));
    } else {
        push_line(out, indent, begin);
        push_line(out, indent + 4, rest);
    }
}

/// Appends the first line of a method of `&self`, or the first lines if it has many parameters.
pub(super) fn push_signature(
    out: &mut String,
    indent: usize,
    name: &str,
    parameters: &[String],
    result: &str,
) {
    let end = format!(" -> {result} {{");
    let all: Vec<_> = core::iter::once("&self").chain(parameters.iter().map(|p| &**p)).collect();
    let line = format!("pub fn {name}({}){end}", all.join(", "));
    if indent + line.chars().count() <= WIDTH {
        return push_line(out, indent, &line);
    }
    push_line(out, indent, &format!("pub fn {name}("));
    for parameter in all {
        push_line(out, indent + 4, &format!("{parameter},"));
    }
    push_line(out, indent, &format!("){end}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_peer_are_harmless_in_comments_and_literals() {
        let mut out = String::new();
        let text = "Adds.\r\n\n    ```\n    panic!()\n    ```\n\u{202e}*/ see [this] or `a[0]` <b>";
        push_docs(&mut out, 4, ["", text, "Default: `1`"]);
        let wanted = "    /// Adds.\\r\n    ///\n    /// '''\n    /// panic!()\n    /// '''\n    \
                      /// \\u202e*/ see \\[this\\] or `a[0]` \\<b\\>\n    ///\n    /// Default: `1`\n";
        assert_eq!(out, wanted);
        assert_eq!(literal("a\"\\\n\u{202e}é\0"), r#""a\"\\\n\u{202e}é\u{0}""#);
    }

    #[test]
    fn long_comments_are_broken_between_words() {
        let mut out = String::new();
        push_docs(&mut out, 4, ["word ".repeat(60).as_str()]);
        assert!(out.lines().count() > 2 && out.lines().all(|line| line.len() <= WIDTH), "{out}");
    }
}
