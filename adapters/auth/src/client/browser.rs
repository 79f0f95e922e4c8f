//! Opening an address in the browser of the user, without a shell (SEC-015).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;
use std::{io, thread};

use mcp_proto::http::client::Url;

#[cfg(test)]
mod tests;

/// A program that shows a page to the user.
///
/// It is started without a shell, with the address as its last argument, and without stdin, stdout and stderr. On Unix
/// it gets a process group of its own, so that Ctrl-C in a terminal does not end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    /// The commands to try in turn, each with its arguments.
    commands: Box<[Words]>,
}

/// The name of a program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    program: String,
    arguments: Vec<String>,
}

/// The reason why no page was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrowserError {
    /// The command is empty, or has a quote that is not closed.
    Command(String),
    /// The program could not be started.
    Start {
        /// The program.
        program: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The program ended at once and reported a failure.
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
    },
}

impl Browser {
    /// Returns the program of the system that opens addresses: `xdg-open`; on macOS `open`; on Windows
    /// `rundll32 url.dll,FileProtocolHandler`.
    #[must_use]
    pub fn system() -> Self {
        let words: &[&str] = if cfg!(windows) {
            &["rundll32", "url.dll,FileProtocolHandler"]
        } else if cfg!(target_vendor = "apple") {
            &["open"]
        } else {
            &["xdg-open"]
        };
        Self { commands: Words::new(words.iter().map(|word| String::from(*word))).into_iter().collect() }
    }

    /// Returns the program of a command line, which is split into words as a shell does.
    ///
    /// Quotes (`'…'`, `"…"`) and a backslash keep spaces in a word; on Windows a backslash is an ordinary character.
    /// Nothing is expanded: `$HOME`, `*` and `;` are ordinary text. The address is appended as one word.
    ///
    /// ```
    /// # use mcp_auth::client::Browser;
    /// Browser::command("'/opt/my browser' --new-window")?;
    /// # Ok::<_, mcp_auth::client::BrowserError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BrowserError::Command`] if the line is empty or a quote is not closed.
    pub fn command(line: &str) -> Result<Self, BrowserError> {
        Ok(Self { commands: [parse(line)?].into() })
    }

    /// Returns the program that the variable `BROWSER` names, or the one of the [system](Self::system).
    ///
    /// The variable is a [command line](Self::command). Outside of Windows it may be several, separated by colons:
    /// the first one that can be started is used. A variable that is empty counts as unset.
    ///
    /// # Errors
    ///
    /// The same as [`command`](Self::command).
    pub fn from_env() -> Result<Self, BrowserError> {
        match std::env::var_os("BROWSER") {
            Some(text) => Self::from_variable(&text.to_string_lossy()),
            None => Ok(Self::system()),
        }
    }

    fn from_variable(text: &str) -> Result<Self, BrowserError> {
        let lines: Vec<&str> = if cfg!(windows) { [text].into() } else { text.split(':').collect() };
        let lines = lines.into_iter().filter(|line| !line.trim().is_empty());
        let commands: Box<[Words]> = lines.map(parse).collect::<Result<_, _>>()?;
        Ok(if commands.is_empty() { Self::system() } else { Self { commands } })
    }

    /// Opens an address, and returns once the program has ended or has run for a second.
    ///
    /// # Errors
    ///
    /// [`BrowserError`] of the last program, if none could be started, or if the one that was ended with a failure
    /// within that second.
    pub fn open(&self, url: &Url) -> Result<(), BrowserError> {
        // SEC-014, SEC-015: a URL of this type begins with `http`, and has no spaces and control characters.
        let address = format!("{}{}", url.origin(), url.target());
        let mut outcome = Err(BrowserError::Command(String::new()));
        for words in &self.commands {
            outcome = words.start(&address).map(|child| (words, child));
            if outcome.is_ok() {
                break;
            }
        }
        let (words, child) = outcome?;
        match watch(child) {
            Some(status) if !status.success() => {
                Err(BrowserError::Failed { program: words.program.clone(), status })
            }
            _ => Ok(()),
        }
    }
}

impl Words {
    fn new(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }

    fn start(&self, address: &str) -> Result<Child, BrowserError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(address);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().map_err(|error| BrowserError::Start { program: self.program.clone(), error })
    }
}

fn parse(line: &str) -> Result<Words, BrowserError> {
    let words = split_words(line, !cfg!(windows)).and_then(|words| Words::new(words.into_iter()));
    words.ok_or_else(|| BrowserError::Command(line.into()))
}

/// Returns the exit status of a program that ends soon. One that goes on is waited for by a thread, so that it does not
/// remain as a zombie.
fn watch(mut child: Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < STARTING {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
    // Without a thread the program still runs; it is then reaped when this process ends.
    let _ = thread::Builder::new().name("mcp-browser".into()).spawn(move || drop(child.wait()));
    None
}

impl fmt::Display for BrowserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(line) => {
                write!(f, "the browser command {line:?} is empty or has a quote that is not closed")
            }
            Self::Start { program, error } => write!(f, "cannot start the browser {program:?}: {error}"),
            Self::Failed { program, status } => {
                write!(f, "the browser {program:?} could not open the address ({status})")
            }
        }
    }
}

impl core::error::Error for BrowserError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Start { error, .. } => Some(error),
            Self::Command(_) | Self::Failed { .. } => None,
        }
    }
}

/// Time in which a program that fails is expected to end.
const STARTING: Duration = Duration::from_secs(1);

// The words of a command line, without a shell.

/// Splits a line by the quoting rules of POSIX (2.2), without any expansion; `None` if a quote is not closed.
///
/// If `escapes` is false, a backslash is an ordinary character.
fn split_words(line: &str, escapes: bool) -> Option<Vec<String>> {
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
mod words_tests {
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
        let windows = split_words(r#""C:\Program Files\b.exe" C:\x\ "\\server\$share""#, false).unwrap();
        assert_eq!(windows, [r"C:\Program Files\b.exe", r"C:\x\", r"\\server\$share"]);
    }
}
