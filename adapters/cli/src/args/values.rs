//! Values of the command line, and their parsers.

use std::path::PathBuf;

use clap::ValueEnum;
use mcp_proto::model::LoggingLevel;
use mcp_proto::{RawJson, Version, VersionSet};

/// Source of a JSON object.
#[derive(Clone, Debug)]
pub(crate) enum JsonSource {
    Json(RawJson),
    File(PathBuf),
    Stdin,
}

/// An argument of a tool.
#[derive(Clone, Debug)]
pub(crate) struct NamedArgument {
    pub(crate) name: String,
    pub(crate) value: ArgumentValue,
}

/// Value of an argument of a tool.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentValue {
    /// A text whose type the tool's schema tells.
    Text(String),
    Json(RawJson),
}

pub(crate) use mcp_std::json_file::{duration, duration_or_zero};

/// Returns the name of a choice on the command line.
pub(crate) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Parses the path of a URL, without a query.
pub(crate) fn path(text: &str) -> Result<String, String> {
    let fits =
        text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#'));
    if fits {
        Ok(text.to_owned())
    } else {
        Err("must be a path: write /mcp, not http://localhost/mcp or mcp".into())
    }
}

/// Parses the name of a known revision.
pub(crate) fn revision(text: &str) -> Result<Version, String> {
    Version::from_name(text).ok_or_else(|| {
        let known: Vec<_> = VersionSet::ALL.iter().map(Version::as_str).collect();
        format!("must be a known revision: write one of {}", known.join(", "))
    })
}

/// A revision for another process of this program: its name.
pub(crate) mod optional_revision {
    use mcp_proto::Version;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "serde asks for it")]
    pub(crate) fn serialize<S: Serializer>(version: &Option<Version>, to: S) -> Result<S::Ok, S::Error> {
        version.map(Version::as_str).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Version>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        name.map(|name| super::revision(&name).map_err(D::Error::custom)).transpose()
    }
}

/// Parses a JSON object.
pub(crate) fn json_object(text: &str) -> Result<RawJson, String> {
    // serde_json goes first because its errors say what was expected and where.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| format!("must be JSON: {error}"))?;
    let value = RawJson::new(text.to_owned()).map_err(|error| error.to_string())?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("must be an object: write {\"text\": \"hello\"}, not \"hello\"".into())
    }
}

/// Parses `--args`: a JSON object, `@FILE` or `-`.
pub(crate) fn json_source(text: &str) -> Result<JsonSource, String> {
    match text.strip_prefix('@') {
        Some("") => Err("must name a file: write @args.json, not @".into()),
        Some(path) => Ok(JsonSource::File(path.into())),
        None if text == "-" => Ok(JsonSource::Stdin),
        None => json_object(text).map(JsonSource::Json),
    }
}

/// Parses an argument of a tool: `NAME=VALUE` or `NAME:=JSON`.
pub(crate) fn named_argument(text: &str) -> Result<NamedArgument, String> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| !matches!(*name, "" | ":")) else {
        let also = if text.starts_with('{') {
            "; a JSON object is given with --args"
        } else {
            "; a server is given by its URL, or by its command behind --"
        };
        return Err(format!("must be NAME=VALUE or NAME:=JSON: write text=hello{also}"));
    };
    Ok(match name.strip_suffix(':') {
        None => NamedArgument { name: name.into(), value: ArgumentValue::Text(value.into()) },
        Some(name) => {
            serde_json::from_str::<serde::de::IgnoredAny>(value)
                .map_err(|error| format!("the value behind := must be JSON: {error}"))?;
            let value = RawJson::new(value.to_owned()).map_err(|error| error.to_string())?;
            NamedArgument { name: name.into(), value: ArgumentValue::Json(value) }
        }
    })
}

/// Parses a log level.
pub(crate) fn level(text: &str) -> Result<LoggingLevel, String> {
    let level = RawJson::encode(text).ok().and_then(|word| word.parse::<LoggingLevel>().ok());
    let known = level.filter(|level| level.severity().is_some());
    known.ok_or_else(|| {
        "must be a log level: write one of debug, info, notice, warning, error, critical, alert, emergency".to_owned()
    })
}

/// Parses `NAME=VALUE`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("must be NAME=VALUE: write country=Peru, not country".into()),
    }
}
