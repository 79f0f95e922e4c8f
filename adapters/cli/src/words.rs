//! The words of the command line: before they are parsed, and what is said of those that cannot be.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use mcp_std::io::StreamAddress;

use crate::args::is_url;
use crate::command::Cli;

/// Moves a URL or the address of a socket to the position of the server command, behind `--`.
///
/// It needs no `--` before it and may stand among the options. The commands `serve`, `gateway`, `trace` and `demo`, and those of `events`
/// without a server take none. Values of [`URL_OPTIONS`] are skipped.
pub(crate) fn with_server(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let is =
        |at: usize, names: &[&str]| words.get(at).is_some_and(|word| names.iter().any(|name| word == name));
    let takes_none = is(1, &["serve", "gateway", "demo", "shrink", "trace"])
        || (is(1, &["events"]) && is(2, &["receive", "send", "verify"]));
    if takes_none || words.iter().any(|word| word == "--") {
        return words;
    }
    let is_value = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).and_then(|word| word.to_str());
        before.is_some_and(|word| URL_OPTIONS.contains(&word))
    };
    let is_address = |word: &str| is_url(word) || StreamAddress::is_socket(word);
    let mut urls = words.iter().enumerate().filter(|(_, word)| word.to_str().is_some_and(is_address));
    if let Some((at, _)) = urls.rfind(|(at, _)| !is_value(*at)) {
        let url = words.remove(at);
        words.extend(["--".into(), url]);
    }
    words
}

/// Returns whether an invalid command line asks for one JSON object. See [`crate::command::Command::prints_json_object()`].
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    let is_events = |word: &OsString| word == "list" || word == "poll";
    let prints_object = match command(words) {
        "events" => words.get(2).is_some_and(is_events),
        "trace" => words.get(2).is_some_and(|word| word == "show"),
        other => matches!(
            other,
            "inspect"
                | "doctor"
                | "call"
                | "shell"
                | "read"
                | "prompt"
                | "complete"
                | "skills"
                | "verify"
                | "ping"
                | "login"
                | "whoami"
        ),
    };
    prints_object && words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Adds tips about the two forms of a server to an error about a word that is neither a URL nor behind `--`.
pub(crate) fn add_server_tips(error: &mut clap::Error, words: &[OsString]) {
    let command = command(words);
    let takes_server =
        !matches!(command, "" | "serve" | "demo" | "shrink" | "trace" | "completions" | "help");
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

/// Adds a tip if an option that does not exist was taken for the name of a tool or a prompt, which may begin with `-`.
pub(crate) fn add_name_tip(error: &mut clap::Error, words: &[OsString]) {
    let command = command(words);
    let cli = Cli::command();
    let takes_name = matches!(command, "call" | "prompt") && error.kind() == ErrorKind::ValueValidation;
    let Some(definition) = cli.find_subcommand(command).filter(|_| takes_name) else { return };
    let is_unknown = |word: &&str| {
        let name = word.strip_prefix("--").and_then(|name| name.split('=').next());
        name.is_some_and(|name| !definition.get_arguments().any(|arg| arg.get_long() == Some(name)))
    };
    let mut before_server = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    if let Some(word) = before_server.find(is_unknown) {
        let tip = format!(
            "`{word}` is no option of {command}, and was taken for the name of the {}",
            match command {
                "call" => "tool",
                _ => "prompt",
            }
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Returns the name of the command.
fn command(words: &[OsString]) -> &str {
    words.get(1).and_then(|word| word.to_str()).unwrap_or_default()
}

/// Options whose value may start like a URL or like the address of a socket. A client id and a scope may be URLs, too.
const URL_OPTIONS: &[&str] = &[
    "--allow-origin",
    "--client-id",
    "--client-metadata",
    "--client-secret",
    "--idp",
    "--listen",
    "--scope",
    "--url",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_are_not_taken_for_the_server() {
        for (option, server) in URL_OPTIONS
            .iter()
            .flat_map(|option| [(option, "http://h/mcp"), (option, "unix:/s"), (option, "tcp://h:1")])
        {
            let line = ["mcp-probe", "ping", server, option, "https://other/x"];
            let words = with_server(line.into_iter().map(OsString::from));
            assert_eq!(words, ["mcp-probe", "ping", option, "https://other/x", "--", server]);
        }
    }
}
