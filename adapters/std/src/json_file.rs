//! JSON files that people write: with comments and trailing commas, and errors that name the line (feature `json-files`).
//!
//! ```no_run
//! use std::path::Path;
//! use mcp_std::json_file::{Object, read};
//!
//! let (at, root) = read(Path::new("harbour.json"), 1 << 20, "see the manual")?;
//! at.check_members()?;
//! let harbour = Object::new(&root, at, &["name", "berths"])?;
//! let name = harbour.text("name")?.unwrap_or("Cobh");
//! # let _ = name;
//! # Ok::<(), mcp_std::json_file::JsonFileError>(())
//! ```

mod jsonc;
pub mod values;

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use self::jsonc::Step;

/// The longest time that a file or an option may name: far longer than any real wait, and added to a clock without overflow.
const MAX_DURATION: Duration = Duration::from_secs(30 * 86_400);

/// A file is not what it has to be. The message names the place; of values, which may be secret, it has what a parser of types says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct JsonFileError {
    /// The place and what is wrong there.
    pub message: String,
    /// What helps, if it is known.
    pub hint: Option<&'static str>,
}

impl JsonFileError {
    /// Sets the hint.
    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// Reads a file of at most `max_bytes` bytes. Returns its place and its content. The hint is for one that is not JSON.
///
/// # Errors
///
/// Fails if the file cannot be read, is too large, or is not JSON.
pub fn read(path: &Path, max_bytes: u64, hint: &'static str) -> Result<(Location, Value), JsonFileError> {
    let file = File::open(path).map_err(|error| Location::top(path).failure(&error.to_string()))?;
    read_from(file, path, max_bytes, hint)
}

/// Does the same with the content of the file.
///
/// # Errors
///
/// As [`read`].
pub fn read_from(
    content: impl Read,
    path: &Path,
    max_bytes: u64,
    hint: &'static str,
) -> Result<(Location, Value), JsonFileError> {
    let top = Location::top(path);
    let mut bytes = Vec::new();
    let read = content.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| top.failure(&error.to_string()))?;
    if bytes.len() as u64 > max_bytes {
        return Err(top.failure(&format!("is larger than {max_bytes} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| top.failure("is not UTF-8"))?;
    let format = other_format(&text);
    let text = jsonc::to_json(&text);
    let root = serde_json::from_str(&text).map_err(|error| match format {
        Some(format) => top.failure(&format!("is {format}, and has to be JSON")).with_hint(hint),
        None => top.failure(&format!("is not valid JSON: {error}")).with_hint(hint),
    })?;
    Ok((Location { text: text.into(), ..top }, root))
}

/// Returns the format of a text that is no JSON, by its first line that is no comment.
fn other_format(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next()?;
    let name = first.trim_start_matches('[').split([']', '=', ':']).next()?.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.\"".contains(c));
    match first.get(name.len()..)?.trim_start().chars().next() {
        _ if !is_name => None,
        Some('=') => Some("TOML"),
        _ if first.starts_with('[') && first.ends_with(']') && !first.contains(',') => Some("TOML"),
        Some(':') if !first.starts_with('"') => Some("YAML"),
        _ => None,
    }
}

/// Position in a file, for error messages: the path of the file, then the members down to a value.
#[derive(Clone)]
pub struct Location {
    file: String,
    /// The file as JSON, to find lines in.
    text: Arc<str>,
    path: Vec<Step>,
}

impl Location {
    /// Returns the location of a file whose content is not known yet.
    pub fn top(path: &Path) -> Self {
        Self { file: path.display().to_string(), text: "".into(), path: Vec::new() }
    }

    /// Returns the location of a member of this value.
    pub fn member(&self, name: &str) -> Self {
        self.step(Step::Member(name.to_owned()))
    }

    /// Returns the location of an element of this value.
    pub fn element(&self, index: usize) -> Self {
        self.step(Step::Element(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut below = self.clone();
        below.path.push(step);
        below
    }

    /// Formats the location: `mcp.json: mcpServers.files.command`.
    pub fn describe(&self) -> String {
        let mut text = self.file.clone();
        for (depth, step) in self.path.iter().enumerate() {
            let before = if depth == 0 { ": " } else { "." };
            match step {
                Step::Member(name) => text.extend([before, name]),
                Step::Element(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    /// Creates the failure for an invalid value here, which names its line. `why` must not contain the value, which may be secret.
    pub fn failure(&self, why: &str) -> JsonFileError {
        let line = jsonc::line_of(&self.text, &self.path).filter(|_| !self.path.is_empty());
        let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        JsonFileError { message: format!("{}: {why}{line}", self.describe()), hint: None }
    }

    /// Checks that no object of the file has a member twice.
    ///
    /// # Errors
    ///
    /// Fails if one has. The message names the member and its line.
    pub fn check_members(&self) -> Result<(), JsonFileError> {
        jsonc::check_members(&self.text).map_err(|why| self.failure(&why))
    }

    /// Checks that no integer of the file is too large to be kept as it is.
    ///
    /// # Errors
    ///
    /// Fails if one is. The message names its line.
    pub fn check_integers(&self) -> Result<(), JsonFileError> {
        let (mut is_text, mut is_escaped, mut begin) = (false, false, None);
        for (at, c) in self.text.char_indices().chain([(self.text.len(), ' ')]) {
            if is_text {
                (is_text, is_escaped) = (c != '"' || is_escaped, c == '\\' && !is_escaped);
                continue;
            }
            is_text = c == '"';
            if matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E') {
                begin.get_or_insert(at);
                continue;
            }
            let number = begin.take().and_then(|begin| self.text.get(begin..at)).unwrap_or_default();
            let is_integer = number.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
                && !number.contains(['.', 'e', 'E']);
            if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                let line = self.text.get(..at).unwrap_or_default().matches('\n').count() + 1;
                let why = "an integer has more than 64 bits, and would be changed: write a text or 1e30";
                return Err(self.failure(&format!("{why} (line {line})")));
            }
        }
        Ok(())
    }
}

/// An object of a file whose members are all known.
pub struct Object<'v> {
    members: &'v Map<String, Value>,
    at: Location,
}

impl<'v> Object<'v> {
    /// Takes a value that has to be an object with some of the `known` members.
    ///
    /// # Errors
    ///
    /// Fails if it is no object, or has another member. The message names those that are known.
    pub fn new(value: &'v Value, at: Location, known: &[&str]) -> Result<Self, JsonFileError> {
        let members = value.as_object().ok_or_else(|| at.failure("must be an object"))?;
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            let why = format!("is not known; the members here are {}", known.join(", "));
            return Err(at.member(name).failure(&why));
        }
        Ok(Self { members, at })
    }

    /// Returns the place of the object.
    pub const fn at(&self) -> &Location {
        &self.at
    }

    /// Returns a member and its place, if it is there.
    pub fn get(&self, name: &str) -> Option<(&'v Value, Location)> {
        self.members.get(name).map(|value| (value, self.at.member(name)))
    }

    /// Returns whether a member is there.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Returns a member that has to be a text, if it is there.
    ///
    /// # Errors
    ///
    /// Fails if it is something else.
    pub fn text(&self, name: &str) -> Result<Option<&'v str>, JsonFileError> {
        let read = |(value, at): (&'v Value, Location)| {
            value.as_str().ok_or_else(|| at.failure("must be a text: write \"…\""))
        };
        self.get(name).map(read).transpose()
    }

    /// Returns a member that has to be `true` or `false`; `false` if it is not there.
    ///
    /// # Errors
    ///
    /// Fails if it is something else.
    pub fn flag(&self, name: &str) -> Result<bool, JsonFileError> {
        let read = |(value, at): (&'v Value, Location)| {
            value.as_bool().ok_or_else(|| at.failure("must be true or false"))
        };
        self.get(name).map_or(Ok(false), read)
    }

    /// Returns the elements of a member that has to be an array, with their places; none if it is not there.
    ///
    /// # Errors
    ///
    /// Fails if it is something else.
    pub fn elements(&self, name: &str) -> Result<Vec<(&'v Value, Location)>, JsonFileError> {
        let Some((value, at)) = self.get(name) else { return Ok(Vec::new()) };
        let elements = value.as_array().ok_or_else(|| at.failure("must be an array: write […]"))?;
        Ok(elements.iter().enumerate().map(|(index, value)| (value, at.element(index))).collect())
    }

    /// Returns the members of a member that has to be an object, with their places; none if it is not there.
    ///
    /// # Errors
    ///
    /// Fails if it is something else.
    pub fn members(&self, name: &str) -> Result<Vec<(&'v String, &'v Value, Location)>, JsonFileError> {
        let Some((value, at)) = self.get(name) else { return Ok(Vec::new()) };
        let members = value.as_object().ok_or_else(|| at.failure("must be an object: write {…}"))?;
        Ok(members.iter().map(|(name, value)| (name, value, at.member(name))).collect())
    }

    /// Returns a member that has to be a time, if it is there.
    ///
    /// # Errors
    ///
    /// Fails if it is something else.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, JsonFileError> {
        let Some((_, at)) = self.get(name) else { return Ok(None) };
        let text = self.text(name)?.unwrap_or_default();
        duration(text).map(Some).map_err(|why| at.failure(&why))
    }
}

/// Parses a duration above zero: `2s`, `500ms`, `1m`, or seconds as a bare number.
///
/// # Errors
///
/// What it has to be, in English.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = duration_or_zero(text)?;
    if time.is_zero() { Err("must be longer than 0: write 500ms, not 0".into()) } else { Ok(time) }
}

/// Parses a duration as [`duration`] does, and also accepts zero. At most 30 days.
///
/// # Errors
///
/// What it has to be, in English.
pub fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    let number: f64 =
        number.trim().parse().map_err(|_| "must be a duration: write 2s, 500ms or 1.5, not 2h".to_owned())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(time) if time <= MAX_DURATION => Ok(time),
        _ => Err(format!(
            "must be between 0 and {} days: write 30m, not -30m",
            MAX_DURATION.as_secs() / 86_400
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_values_are_parsed() {
        let cases = [
            ("0.5", Ok(500)),
            ("2s", Ok(2_000)),
            ("500ms", Ok(500)),
            ("1.5m", Ok(90_000)),
            ("3 s", Ok(3_000)),
            ("0", Err("longer than 0")),
            ("-1", Err("between 0 and")),
            ("1e300", Err("between 0 and")),
            ("NaN", Err("between 0 and")),
            ("", Err("must be a duration")),
            ("soon", Err("must be a duration")),
            ("2h", Err("must be a duration")),
        ];
        for (text, want) in cases {
            match (duration(text), want) {
                (Ok(time), Ok(millis)) => assert_eq!(time.as_millis(), millis, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
