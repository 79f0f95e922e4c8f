//! Command lines that cannot be parsed.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns whether an invalid command line asks for one JSON object. See [`super::Command::prints_json_object()`].
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    matches!(
        command(words),
        "inspect" | "call" | "read" | "prompt" | "complete" | "skills" | "ping" | "login" | "whoami"
    ) && words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Adds tips about the two forms of a server to an error about a word that is neither a URL nor behind `--`.
pub(crate) fn add_server_tips(error: &mut clap::Error, words: &[OsString]) {
    let command = command(words);
    let takes_server = !matches!(command, "" | "serve" | "demo" | "completions" | "help");
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return };
    if !takes_server || word.starts_with('-') || error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let tips = [
        format!("a server over HTTP is given by its URL: mcp-probe {command} http://HOST:PORT/PATH"),
        format!("a server on a socket is given by its address: mcp-probe {command} tcp://HOST:PORT"),
        format!("a server on stdio is given by its command behind --: mcp-probe {command} -- {word}"),
    ];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.map(StyledStr::from).into()));
}

/// Returns the name of the command.
fn command(words: &[OsString]) -> &str {
    words.get(1).and_then(|word| word.to_str()).unwrap_or_default()
}
