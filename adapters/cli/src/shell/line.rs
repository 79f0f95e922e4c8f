//! A line of the shell: words as in a POSIX shell, with the name that its result gets.

use crate::failure::CommandFailure;
use crate::verb::kept::is_name;

/// A line that may go on in the next one, because a quote is open.
#[derive(Default)]
pub(super) struct PendingLine {
    text: String,
    /// Where `text` ends. All of it is read once, however many parts it has.
    scanner: Scanner,
    is_open: bool,
}

impl PendingLine {
    /// Adds a part. Returns the line once it is complete.
    pub(super) fn push(&mut self, part: &str) -> Option<String> {
        if self.is_open {
            self.scanner.take("\n");
            self.text.push('\n');
        }
        self.scanner.take(part);
        self.text.push_str(part);
        self.is_open = self.scanner.is_open();
        if self.is_open {
            return None;
        }
        self.scanner = Scanner::default();
        Some(core::mem::take(&mut self.text))
    }

    /// Returns whether the end of a line is missing.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }
}

/// Finds out whether a text ends within a quote or behind a backslash, as `shlex` reads it.
#[derive(Default)]
struct Scanner {
    place: Place,
    is_escaped: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BetweenWords,
    Word,
    Quote(char),
    Comment,
}

impl Scanner {
    fn take(&mut self, text: &str) {
        for c in text.chars() {
            if core::mem::take(&mut self.is_escaped) {
                continue;
            }
            self.place = match (self.place, c) {
                (Place::Comment, '\n') => Place::BetweenWords,
                (Place::Comment, _) | (Place::BetweenWords, '#') => Place::Comment,
                (Place::Quote(open), _) if c == open => Place::Word,
                (Place::Quote('"') | Place::Word | Place::BetweenWords, '\\') => {
                    self.is_escaped = true;
                    if self.place == Place::BetweenWords { Place::Word } else { self.place }
                }
                (quote @ Place::Quote(_), _) => quote,
                (_, '"' | '\'') => Place::Quote(c),
                (_, ' ' | '\t' | '\n') => Place::BetweenWords,
                _ => Place::Word,
            };
        }
    }

    const fn is_open(&self) -> bool {
        self.is_escaped || matches!(self.place, Place::Quote(_))
    }
}

/// Returns whether no quote of a line is open.
pub(super) fn is_complete(line: &str) -> bool {
    shlex::split(line).is_some()
}

/// A command with its words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Name of the result.
    pub(super) name: Option<String>,
    pub(super) command: String,
    pub(super) words: Vec<String>,
}

/// Parses a complete line. Returns `None` if there is nothing in it.
///
/// # Errors
///
/// Fails if a quote is open, or if there is a name and no command.
pub(super) fn parse(line: &str) -> Result<Option<Statement>, CommandFailure> {
    let words = shlex::split(line).ok_or_else(|| CommandFailure::usage("a quote is not closed"))?;
    let (name, command) = split_name(&words);
    let mut words = words.get(command..).unwrap_or_default().iter().cloned();
    match (words.next(), name) {
        (Some(command), name) => {
            Ok(Some(Statement { name: name.map(str::to_owned), command, words: words.collect() }))
        }
        (None, Some(name)) => Err(CommandFailure::usage(format!(
            "a command is missing behind `{name} =`: write {name} = call add a=1"
        ))),
        (None, None) => Ok(None),
    }
}

/// Returns the name that words begin with, if they do, and the index of the command.
pub(super) fn split_name(words: &[String]) -> (Option<&str>, usize) {
    match words {
        [name, equals, ..] if equals == "=" && is_name(name) => (Some(name), 2),
        _ => (None, 0),
    }
}

/// The word at the end of an unfinished line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LastWord {
    /// Words before it.
    pub(super) before: Vec<String>,
    /// Where it begins.
    pub(super) start: usize,
    /// The word without its quotes.
    pub(super) text: String,
}

/// Finds the word at the end of a line that is being typed.
pub(super) fn last_word(line: &str) -> LastWord {
    let (mut start, mut quote, mut is_escaped) = (0, None, false);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ' ' | '\t' | '\n') => start = at + 1,
            _ => {}
        }
    }
    let before = shlex::split(line.get(..start).unwrap_or_default()).unwrap_or_default();
    let raw = line.get(start..).unwrap_or_default();
    // The end of the word is missing: a quote, or what an escape applies to.
    let closed = match (quote, is_escaped) {
        (_, true) => {
            raw.strip_suffix('\\').unwrap_or(raw).to_owned()
                + quote.map(String::from).as_deref().unwrap_or("")
        }
        (Some(quote), false) => format!("{raw}{quote}"),
        (None, false) => raw.to_owned(),
    };
    let text = shlex::split(&closed).and_then(|words| words.into_iter().next()).unwrap_or_default();
    LastWord { before, start, text }
}

/// Writes a word so that it is read as one.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| {
        c.is_alphanumeric()
            || matches!(
                c,
                '_' | '-' | '.' | ',' | '/' | ':' | '=' | '@' | '+' | '%' | '{' | '}' | '$' | '?' | '&'
            )
    };
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_into_a_name_a_command_and_words() {
        let parsed = |line: &str| {
            parse(line).expect("a line").map(|s| (s.name.unwrap_or_default(), s.command, s.words.join("|")))
        };
        let want = |name: &str, command: &str, words: &str| Some((name.into(), command.into(), words.into()));
        assert_eq!(parsed("call add a=1 'b=x y'"), want("", "call", "add|a=1|b=x y"));
        assert_eq!(parsed("x = call add # sum"), want("x", "call", "add"));
        assert_eq!(parsed("x=call add"), want("", "x=call", "add"));
        assert_eq!(parsed("1 = call"), want("", "1", "=|call"));
        assert_eq!((parsed("  "), parsed("# nothing")), (None, None));
        assert!(parse("x =").is_err() && parse("a 'b").is_err());
    }

    #[test]
    fn line_with_an_open_quote_goes_on() {
        let mut pending = PendingLine::default();
        assert_eq!(pending.push("call echo 'text=a"), None);
        assert!(pending.is_open());
        assert_eq!(pending.push("b'").as_deref(), Some("call echo 'text=a\nb'"));
        assert!(!pending.is_open());
    }

    #[test]
    fn line_is_open_exactly_if_it_cannot_be_split() {
        let chars = ['a', ' ', '#', '\'', '"', '\\', '\n'];
        for number in 0..chars.len().pow(5) {
            let digits = (0..5).scan(number, |rest, _| {
                let digit = *rest % chars.len();
                *rest /= chars.len();
                Some(digit)
            });
            let text: String = digits.map(|digit| chars[digit]).collect();
            let mut scanner = Scanner::default();
            scanner.take(&text);
            assert_eq!(scanner.is_open(), !is_complete(&text), "{text:?}");
        }
    }

    #[test]
    fn last_word_is_found_in_an_unfinished_line() {
        for (line, before, start, text) in [
            ("", 0, 0, ""),
            ("ca", 0, 0, "ca"),
            ("call ", 1, 5, ""),
            ("call 'a b", 1, 5, "a b"),
            ("call a\\ b", 1, 5, "a b"),
            ("x = call add a=\"1 ", 4, 13, "a=1 "),
            ("call é", 1, 5, "é"),
            ("call a\\", 1, 5, "a"),
        ] {
            let word = last_word(line);
            assert_eq!((word.before.len(), word.start, &*word.text), (before, start, text), "{line}");
        }
    }

    #[test]
    fn quoted_word_is_read_as_one() {
        for word in ["a", "mode=fast", "a b", "it's", "x#y", "", "q\"\\", "file:///{path}?x=1&y=2"] {
            assert_eq!(shlex::split(&quoted(word)), Some(vec![word.to_owned()]), "{word}");
        }
    }
}
