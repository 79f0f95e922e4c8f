//! The words of a command line, without a shell.

use alloc::string::String;
use alloc::vec::Vec;

/// Splits a line by the quoting rules of POSIX (2.2), without any expansion; `None` if a quote is not closed.
///
/// If `escapes` is false, a backslash is an ordinary character.
pub(super) fn split_words(line: &str, escapes: bool) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => read_quoted(&mut rest, escapes, word.get_or_insert_default())?,
            '\\' if escapes => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// Reads the text after a double quote, up to the next one.
fn read_quoted(rest: &mut core::str::Chars<'_>, escapes: bool, word: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '\\' if escapes => {
                let c = rest.next()?;
                if !matches!(c, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(c);
            }
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell_without_expansion() {
        for (line, expected) in [
            ("", &[][..]),
            (" \t\n", &[]),
            ("a  b\tc", &["a", "b", "c"]),
            ("'a b' \"c d\"e", &["a b", "c de"]),
            ("a'' '' \"\"", &["a", "", ""]),
            (r#"a\ b \" '\' "\"\\\$\x""#, &["a b", "\"", "\\", "\"\\$\\x"]),
            ("$HOME * ~ `id` $(id); a&b|c>d #e", &["$HOME", "*", "~", "`id`", "$(id);", "a&b|c>d", "#e"]),
        ] {
            assert_eq!(split_words(line, true).unwrap(), expected, "{line}");
        }
        for line in ["'", "a \"b", "a 'b\"", "\\", "\"\\\""] {
            assert_eq!(split_words(line, true), None, "{line}");
        }
        let windows = split_words(r#""C:\Program Files\b.exe" C:\x\"#, false).unwrap();
        assert_eq!(windows, ["C:\\Program Files\\b.exe", "C:\\x\\"]);
    }
}
