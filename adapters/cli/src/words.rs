//! The words of the command line: before they are parsed, and what is said of those that cannot be.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory as _, Parser as _};
use mcp_proto_trace::is_secret_name;
use mcp_std::io::StreamAddress;

use crate::args::is_url;
use crate::command::Cli;
use crate::connections;
use crate::escape;

/// Moves a URL, the address of a socket or @NAME to the position of the server command, behind `--`.
///
/// It needs no `--` before it and may stand among the options. The commands `serve`, `gateway`, `trace`, `schema`, `mcp` and `demo`, and those of `events`
/// without a server take none. Values of [`URL_OPTIONS`] are skipped.
pub(crate) fn with_server(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let is =
        |at: usize, names: &[&str]| words.get(at).is_some_and(|word| names.iter().any(|name| word == name));
    let takes_none = is(1, &["serve", "gateway", "demo", "shrink", "trace", "schema", "mcp"])
        || (is(1, &["events"]) && is(2, &["receive", "send", "verify"]));
    if takes_none || words.iter().any(|word| word == "--") {
        return words;
    }
    let is_value = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).and_then(|word| word.to_str());
        before.is_some_and(|word| URL_OPTIONS.contains(&word))
    };
    let is_address = |word: &str| is_url(word) || StreamAddress::is_socket(word);
    let mut of_connections = words.iter().enumerate().filter(|(at, word)| {
        word.to_str()
            .is_some_and(|word| word.strip_prefix('@').is_some_and(|name| connections::name(name).is_ok()))
            && !takes_value(&words, at.wrapping_sub(1))
    });
    let connection = of_connections.next().map(|(at, _)| at);
    let mut urls = words.iter().enumerate().filter(|(_, word)| word.to_str().is_some_and(is_address));
    let url = urls.rfind(|(at, _)| !is_value(*at)).map(|(at, _)| at);
    // The other one may be a word of the command: a resource with a URL, or a value with an @. A server is the first word or the last.
    let connection = connection.filter(|at| url.is_none_or(|url| url < *at) || is_first(&words, *at));
    if let Some(at) = connection.or(url) {
        let url = words.remove(at);
        words.extend(["--".into(), url]);
    }
    words
}

/// Returns what a command is called now that had a word of its own before.
pub(crate) fn changed(words: &[OsString]) -> Option<String> {
    let old = if command(words) == "help" { words.get(2)?.to_str()? } else { command(words) };
    let (_, new) = CHANGED.iter().find(|(word, _)| *word == old)?;
    Some(format!("`{old}` is `mcp-probe {new}` now"))
}

/// Words that were commands, and what stands in their place.
const CHANGED: [(&str, &str); 5] = [
    ("connections", "connect --list"),
    ("disconnect", "connect --end NAME"),
    ("logout", "login --forget URL"),
    ("verify", "pin --check LOCKFILE"),
    ("whoami", "login --show URL"),
];

/// Returns whether only options and the name of the command are before this place.
fn is_first(words: &[OsString], at: usize) -> bool {
    let is_option = |at: usize| words.get(at).is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let is_nested =
        Cli::command().find_subcommand(command(words)).is_some_and(clap::Command::has_subcommands);
    let begin = if is_nested { 3 } else { 2 };
    (begin..at).all(|at| is_option(at) || takes_value(words, at - 1))
}

/// Returns whether the word at this place is an option whose value is the next word.
fn takes_value(words: &[OsString], at: usize) -> bool {
    let Some(option) = words.get(at).and_then(|word| word.to_str()).filter(|_| at > 1) else { return false };
    let cli = Cli::command();
    let mut definition = cli.find_subcommand(command(words));
    // Commands of a command.
    if let Some(inner) = words.get(2).and_then(|word| definition?.find_subcommand(word)) {
        definition = Some(inner);
    }
    let is_named = |arg: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            option.strip_prefix('-').is_some_and(|short| arg.get_short().is_some_and(|c| short.ends_with(c)))
        }
    };
    let mut arguments = definition.into_iter().flat_map(clap::Command::get_arguments);
    arguments.any(|arg| is_named(arg) && arg.get_action().takes_values())
}

/// Returns whether a command line asks for JSON, so that a failure is printed as JSON, too.
pub(crate) fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => asks_for_json(below),
        None => {
            let is_given = |option| matches!(matches.try_get_one::<bool>(option), Ok(Some(true)));
            ["json", "sarif"].into_iter().any(is_given)
        }
    }
}

/// Returns whether an invalid command line asks for JSON: its command has `--json`, and so has the line.
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    let mut command = &Cli::command();
    for word in words.iter().skip(1) {
        match command.find_subcommand(word) {
            Some(below) => command = below,
            None => break,
        }
    }
    command.get_arguments().any(|arg| arg.get_long() == Some("json"))
        && words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Adds tips about the forms of a server to an error about a word that is neither a URL nor behind `--`: the same line with each form
/// that the command takes.
pub(crate) fn add_server_tips(error: &mut clap::Error, words: &[OsString]) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return };
    let at = words.iter().position(|other| *other == **word).filter(|at| *at > 1);
    let Some(at) = at.filter(|_| !word.starts_with('-') && error.kind() == ErrorKind::UnknownArgument) else {
        return;
    };
    let (before, behind) = words.split_at(at);
    let line = |words: &[OsString]| {
        // A value may be a secret, which no message repeats (SEC-019).
        let is_value = |at: usize| {
            let before = at.checked_sub(1).and_then(|before| words.get(before)?.to_str()).unwrap_or_default();
            before.starts_with("--") && (["--header", "--env"].contains(&before) || is_secret_name(before))
        };
        let hidden = |(at, word): (usize, &OsString)| match word.to_string_lossy() {
            text if text.starts_with("--") && text.contains('=') => {
                format!("{}=…", text.split('=').next().unwrap_or_default())
            }
            _ if is_value(at) => "…".into(),
            text => escape::shell_word(&text),
        };
        let words = words.iter().enumerate().map(hidden);
        format!("mcp-probe {}", words.skip(1).collect::<Vec<_>>().join(" "))
    };
    let forms = [
        ("over HTTP is given by its URL", vec!["http://HOST:PORT/PATH".into()]),
        ("on a socket is given by its address", vec!["tcp://HOST:PORT".into()]),
        ("on stdio is given by its command behind --", [&["--".into()], behind].concat()),
    ];
    let tips = forms.into_iter().filter_map(|(what, form)| {
        let line_words = [before, &form].concat();
        Cli::try_parse_from(with_server(line_words.iter().cloned())).ok()?;
        Some(StyledStr::from(format!("a server {what}: {}", line(&line_words))))
    });
    let tips: Vec<_> = tips.collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// Adds a tip if an option that does not exist was taken for the name of a tool or a prompt, which may begin with `-`.
pub(crate) fn add_name_tip(error: &mut clap::Error, words: &[OsString]) {
    let command = command(words);
    if !matches!(command, "call" | "prompt") || error.kind() != ErrorKind::ValueValidation {
        return;
    }
    let cli = Cli::command();
    let Some(definition) = cli.find_subcommand(command) else { return };
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
    fn connection_is_found_among_the_words_of_its_command() {
        let cases = [
            ("call @lab echo", "call echo -- @lab"),
            ("call --json @lab echo text=x", "call --json echo text=x -- @lab"),
            ("call echo @lab text=@x", "call echo text=@x -- @lab"),
            ("call echo --args @file @lab", "call echo --args @file -- @lab"),
            ("read @lab http://h/resource", "read http://h/resource -- @lab"),
            ("read http://h/resource @lab", "read http://h/resource -- @lab"),
            ("complete prompt:p name http://v @lab", "complete prompt:p name http://v -- @lab"),
            ("events list @lab", "events list -- @lab"),
            ("complete prompt:p name @a http://h/mcp", "complete prompt:p name @a -- http://h/mcp"),
            ("call echo @../up", "call echo @../up"),
            ("call @tool -- server", "call @tool -- server"),
            ("connect --end @lab", "connect --end @lab"),
        ];
        for (line, wanted) in cases {
            let words = ["mcp-probe"].into_iter().chain(line.split(' ')).map(OsString::from);
            let moved: Vec<_> =
                with_server(words).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(moved[1..].join(" "), wanted, "{line}");
        }
    }

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
