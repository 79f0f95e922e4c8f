//! Results that later lines use by name.

use mcp_proto::RawJson;

use crate::args::values::{ArgumentValue, NamedArgument, assignment, named_argument};
use crate::failure::CommandFailure;

/// The results of a shell: at most [`MAX_UNNAMED`] without a name, and [`MAX_BYTES`] in all.
#[derive(Default)]
pub(crate) struct KeptResults {
    /// In the order in which they came.
    all: Vec<KeptResult>,
    /// Number of results so far.
    count: u64,
}

pub(crate) struct KeptResult {
    number: u64,
    name: Option<String>,
    /// The line that it is of.
    pub(crate) of: String,
    pub(crate) value: RawJson,
}

impl KeptResult {
    /// Returns the name, with its `$`.
    pub(crate) fn label(&self) -> String {
        format!("${}", self.name.clone().unwrap_or_else(|| self.number.to_string()))
    }
}

impl KeptResults {
    /// Keeps a result, under a name if there is one, which another result loses. Returns its label, or `None` if there is no room.
    pub(crate) fn keep(&mut self, name: Option<&str>, of: &str, value: RawJson) -> Option<String> {
        self.count += 1;
        // Those with other names stay, so they must leave room. Otherwise nothing is dropped.
        let others = self.all.iter().filter(|kept| kept.name.is_some() && kept.name.as_deref() != name);
        let bytes: usize = others.map(|kept| kept.value.as_str().len()).sum();
        if bytes.saturating_add(value.as_str().len()) > MAX_BYTES {
            return None;
        }
        if let Some(name) = name {
            self.all.retain(|kept| kept.name.as_deref() != Some(name));
        }
        let of = of.to_owned();
        self.all.push(KeptResult { number: self.count, name: name.map(str::to_owned), of, value });
        while self.unnamed().count() > MAX_UNNAMED || self.bytes() > MAX_BYTES {
            let Some(oldest) = self.all.iter().position(|kept| kept.name.is_none()) else { break };
            self.all.remove(oldest);
        }
        self.all.last().map(KeptResult::label)
    }

    pub(crate) fn all(&self) -> &[KeptResult] {
        &self.all
    }

    fn unnamed(&self) -> impl Iterator<Item = &KeptResult> {
        self.all.iter().filter(|kept| kept.name.is_none())
    }

    fn bytes(&self) -> usize {
        self.all.iter().map(|kept| kept.value.as_str().len()).sum()
    }

    /// Returns the value that a word names: `$NAME`, or `$NAME/POINTER`. Returns `None` for any other word.
    ///
    /// # Errors
    ///
    /// Fails if there is no such result, or nothing at the pointer.
    pub(crate) fn lookup(&self, word: &str) -> Result<Option<RawJson>, CommandFailure> {
        let Some(reference) = word.strip_prefix('$').filter(|rest| !rest.starts_with('$')) else {
            return Ok(None);
        };
        let (name, pointer) = match reference.split_once('/') {
            Some((name, pointer)) => (name, Some(pointer)),
            None => (reference, None),
        };
        let number = name.parse::<u64>().ok();
        let found = match name {
            "_" => self.all.last(),
            _ => {
                self.all.iter().find(|kept| kept.name.as_deref() == Some(name) || number == Some(kept.number))
            }
        };
        let kept = found.ok_or_else(|| {
            let known = is_name(name) || number.is_some() || name == "_";
            let hint = if known {
                "`results` lists those that are kept"
            } else {
                "write $$ for a $ at the beginning"
            };
            CommandFailure::usage(format!("there is no result `${name}`")).with_hint(hint)
        })?;
        let mut value = kept.value.clone();
        for part in pointer.into_iter().flat_map(|pointer| pointer.split('/')) {
            let key = part.replace("~1", "/").replace("~0", "~");
            let inner = value.member(&key).or_else(|| {
                // An index has no leading zeros (RFC 6901).
                let index = key.parse::<usize>().ok().filter(|index| index.to_string() == key)?;
                value.elements()?.into_iter().nth(index)
            });
            value = inner.ok_or_else(|| {
                let pointer = pointer.unwrap_or_default();
                CommandFailure::usage(format!(
                    "the result `${name}` has nothing at /{pointer}: there is no `{key}`"
                ))
                .with_hint(format!("`show ${name}` prints it"))
            })?;
        }
        Ok(Some(value))
    }

    /// Returns the text that a word stands for. A value that is no string is its JSON.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup).
    pub(crate) fn text(&self, word: &str) -> Result<String, CommandFailure> {
        match self.lookup(word)? {
            Some(value) => Ok(value.string().unwrap_or_else(|| value.as_str().to_owned())),
            None => Ok(unescaped(word).to_owned()),
        }
    }

    /// Parses an argument of a tool. The value of a result keeps its type.
    ///
    /// # Errors
    ///
    /// Fails if the word is no argument; otherwise as [`lookup`](Self::lookup).
    pub(crate) fn argument(&self, word: &str) -> Result<NamedArgument, CommandFailure> {
        if let Some((name, value)) = word.split_once('=') {
            if let Some(json) = self.lookup(value)? {
                let name = name.strip_suffix(':').unwrap_or(name).to_owned();
                return Ok(NamedArgument { name, value: ArgumentValue::Json(json) });
            }
        }
        let mut argument = parsed(word, named_argument)?;
        if let ArgumentValue::Text(text) = &mut argument.value {
            *text = unescaped(text).to_owned();
        }
        Ok(argument)
    }

    /// Parses `NAME=VALUE`, whose values are texts or those of results.
    ///
    /// # Errors
    ///
    /// Fails if a word has another form; otherwise as [`lookup`](Self::lookup).
    pub(crate) fn assignments(&self, words: &[String]) -> Result<Vec<(String, String)>, CommandFailure> {
        let assigned = words.iter().map(|word| {
            let (name, value) = parsed(word, assignment)?;
            Ok((name, self.text(&value)?))
        });
        assigned.collect()
    }
}

/// Parses a word of a line.
///
/// # Errors
///
/// Fails if `parse` does, with the word in the message.
pub(crate) fn parsed<T>(
    word: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, CommandFailure> {
    parse(word).map_err(|why| CommandFailure::usage(format!("`{word}` {why}")))
}

/// Returns whether a text can name a result: letters, digits, `_` and `-`, and no digit at the beginning.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fits)
}

/// Writes a text so that it is no result.
pub(crate) fn escaped(text: String) -> String {
    if text.starts_with('$') { format!("${text}") } else { text }
}

/// Returns a text without the `$` before another one.
fn unescaped(text: &str) -> &str {
    if text.starts_with("$$") { text.get(1..).unwrap_or_default() } else { text }
}

/// Maximum number of results without a name. The oldest one is dropped.
const MAX_UNNAMED: usize = 100;
/// Maximum size of all results. The oldest ones without a name are dropped, or the new one if all others have names.
const MAX_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::new(text.to_owned()).expect("JSON")
    }

    #[test]
    fn value_of_a_result_is_found_by_name_and_pointer() {
        let mut kept = KeptResults::default();
        let value = r#"{"n":12345678901234567890123,"a/b":{"~":["x",true]},"text":"t"}"#;
        assert_eq!(kept.keep(Some("x"), "call", json(value)).as_deref(), Some("$x"));
        assert_eq!(kept.keep(None, "call", json("7")).as_deref(), Some("$2"));
        for (word, want) in [
            ("$x/n", "12345678901234567890123"),
            ("$1/a~1b/~0/0", "\"x\""),
            ("$x/a~1b/~0/1", "true"),
            ("$2", "7"),
            ("$_", "7"),
        ] {
            assert_eq!(kept.lookup(word).expect("a value").expect("a value").as_str(), want, "{word}");
        }
        assert!(kept.lookup("$$x").expect("a text").is_none() && kept.lookup("x").expect("a text").is_none());
        assert_eq!(kept.text("$x/text").expect("a text"), "t");
        assert_eq!(kept.text("$$5").expect("a text"), "$5");
        for (word, wanted) in [
            ("$y", "no result `$y`"),
            ("$x/text/0", "nothing at /text/0: there is no `0`"),
            ("$x/a~1b/~0/01", "nothing at /a~1b/~0/01"),
            ("$9", "no result `$9`"),
        ] {
            let failure = kept.lookup(word).expect_err("a failure");
            assert!(failure.message().contains(wanted), "{}", failure.message());
        }
    }

    #[test]
    fn argument_from_a_result_keeps_its_type() {
        let mut kept = KeptResults::default();
        kept.keep(Some("x"), "call", json(r#"{"n":5}"#));
        let value = |word: &str| match kept.argument(word).expect("an argument").value {
            ArgumentValue::Json(json) => format!("json {}", json.as_str()),
            ArgumentValue::Text(text) => format!("text {text}"),
        };
        assert_eq!(value("a=$x/n"), "json 5");
        assert_eq!(value("a:=$x/n"), "json 5");
        assert_eq!(value("a=$$x"), "text $x");
        assert_eq!(value("a=5"), "text 5");
        assert!(kept.argument("a").is_err());
    }

    #[test]
    fn oldest_results_without_a_name_are_dropped() {
        let mut kept = KeptResults::default();
        kept.keep(Some("first"), "call", json("0"));
        for _ in 0..MAX_UNNAMED + 10 {
            kept.keep(None, "call", json("1"));
        }
        assert_eq!(kept.all().len(), MAX_UNNAMED + 1);
        assert!(kept.lookup("$first").is_ok() && kept.lookup("$2").is_err() && kept.lookup("$111").is_ok());
        let large = json(&format!("\"{}\"", "x".repeat(MAX_BYTES - 20)));
        assert!(kept.keep(Some("large"), "call", large.clone()).is_some());
        assert!(kept.bytes() <= MAX_BYTES);
        // Two of them have no room, and the one that has a name stays.
        assert_eq!(kept.keep(Some("larger"), "call", large), None);
        assert!(kept.lookup("$large").is_ok() && kept.lookup("$larger").is_err());
        // What has no room takes the place of nothing.
        let huge = json(&format!("\"{}\"", "x".repeat(MAX_BYTES)));
        assert_eq!(
            (kept.keep(Some("first"), "call", huge.clone()), kept.keep(None, "call", huge)),
            (None, None)
        );
        assert_eq!(kept.text("$first").expect("a value"), "0");
    }
}
