//! What the words of a command line stand for

use core::time::Duration;

use mcp_proto::model::LoggingLevel;
use mcp_proto::{RawJson, Version, VersionSet};

use super::Reference;
use crate::ordered;

/// `2s`, `500ms`, `1m`, or seconds as a bare number; more than nothing
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time = pause(text)?;
    if time.is_zero() { Err("has to be longer than nothing".into()) } else { Ok(time) }
}

pub(super) fn pause(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| "is no time; write 2s, 500ms or 1.5".to_owned())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("has to lie between 0 and {} days", LONGEST.as_secs() / 86_400)),
    }
}

pub(super) fn path(text: &str) -> Result<String, String> {
    let fits =
        text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#'));
    if fits { Ok(text.to_owned()) } else { Err("has to begin with / and to be a path alone".into()) }
}

pub(super) fn revision(text: &str) -> Result<Version, String> {
    Version::from_name(text).ok_or_else(|| {
        let known: Vec<_> = VersionSet::ALL.iter().map(Version::as_str).collect();
        format!("is no revision that we know; there are {}", known.join(", "))
    })
}

pub(super) fn json_object(text: &str) -> Result<RawJson, String> {
    // Read once by serde_json for the sake of its messages, which say what was expected and where.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| format!("not JSON: {error}"))?;
    let value = RawJson::new(text.to_owned()).map_err(|error| error.to_string())?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("has to be an object, such as {\"text\": \"hello\"}".into())
    }
}

pub(super) fn json_texts(text: &str) -> Result<Vec<(String, String)>, String> {
    let members =
        ordered::members(&json_object(text)?).into_iter().map(|(name, value)| match value.string() {
            Some(text) => Ok((name, text)),
            None => Err(format!("`{name}` has to be a string: prompts take texts only, \"3\" rather than 3")),
        });
    members.collect()
}

pub(super) fn reference(text: &str) -> Result<Reference, String> {
    match text.split_once(':') {
        None | Some(("", _) | ("prompt", "")) => {
            Err("is neither prompt:NAME nor a template such as file:///{path}".into())
        }
        Some(("prompt", name)) if !name.starts_with("//") => Ok(Reference::Prompt(name.into())),
        Some(_) => Ok(Reference::Template(text.into())),
    }
}

pub(super) fn level(text: &str) -> Result<LoggingLevel, String> {
    let level = RawJson::encode(text).ok().and_then(|word| word.parse::<LoggingLevel>().ok());
    let known = level.filter(|level| level.severity().is_some());
    known.ok_or_else(|| {
        "is no level; there are debug, info, notice, warning, error, critical, alert, emergency".to_owned()
    })
}

pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("has to be NAME=VALUE".into()),
    }
}

pub(super) fn frame_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size >= SMALLEST_FRAME => Ok(size),
        Ok(_) => Err(format!("has to be at least {SMALLEST_FRAME}")),
        Err(_) => Err("is no number of bytes".into()),
    }
}

/// Longer than anybody waits, short enough to add to any clock
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Below this not even a handshake fits
const SMALLEST_FRAME: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let cases = [
            ("0.5", Ok(500)),
            ("2s", Ok(2_000)),
            ("500ms", Ok(500)),
            ("1.5m", Ok(90_000)),
            ("3 s", Ok(3_000)),
            ("0", Err("longer than nothing")),
            ("-1", Err("between 0 and")),
            ("1e300", Err("between 0 and")),
            ("NaN", Err("between 0 and")),
            ("", Err("is no time")),
            ("soon", Err("is no time")),
            ("2h", Err("is no time")),
        ];
        for (text, want) in cases {
            match (duration(text), want) {
                (Ok(time), Ok(millis)) => assert_eq!(time.as_millis(), millis, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn what_is_completed_is_told_by_its_form() {
        let prompt = |name: &str| Ok(Reference::Prompt(name.into()));
        let template = |text: &str| Ok(Reference::Template(text.into()));
        for (text, want) in [
            ("prompt:plan", prompt("plan")),
            ("prompt:a:b", prompt("a:b")),
            ("file:///{path}", template("file:///{path}")),
            ("prompt://{id}", template("prompt://{id}")),
        ] {
            assert_eq!(reference(text), want, "{text}");
        }
        for text in ["plan", "", ":x", "prompt:"] {
            assert!(reference(text).is_err_and(|error| error.contains("prompt:NAME")), "{text}");
        }
    }
}
