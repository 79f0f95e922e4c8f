//! Output on stdout, and files of the user, those among them that others cannot read.

use core::sync::atomic::{AtomicBool, Ordering};
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcp_proto::RawJson;
use serde::Serialize;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};
use terminal_size::{Width, terminal_size};

use crate::escape;
use crate::failure::CommandFailure;
use crate::screen;
use crate::stop;

/// Whether nobody reads the output of this program any more.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);
/// Status with which the program ends then; it goes on without one.
static UNREAD_STATUS: OnceLock<i32> = OnceLock::new();

/// Notices within a second that nobody reads the output of this program any more, also while nothing is printed. It ends with
/// this status then; without one the command looks at `is_unread` itself.
pub(crate) fn watch_reader(status: Option<i32>) {
    if let Some(status) = status {
        let _ = UNREAD_STATUS.set(status);
    }
    // Without the thread, the next line that is printed tells.
    #[cfg(unix)]
    let _ = std::thread::Builder::new().name("mcp-reader".into()).spawn(|| {
        use rustix::event::{PollFd, PollFlags, poll};
        // Errors and hang-ups are reported without being asked for.
        let mut stdout = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::empty())];
        while let Err(rustix::io::Errno::INTR) = poll(&mut stdout, None) {}
        if stdout[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            handle_unread();
        }
    });
}

/// Returns whether nobody reads the output of this program any more, so that what was printed may be lost.
#[cfg(feature = "events")]
pub(crate) fn is_unread() -> bool {
    IS_UNREAD.load(Ordering::SeqCst)
}

fn handle_unread() {
    IS_UNREAD.store(true, Ordering::SeqCst);
    if let Some(status) = UNREAD_STATUS.get() {
        stop::end(*status);
    }
}

/// Prints text unchanged. Text from a peer must be escaped already.
///
/// A closed pipe is not an error (`| head`), but the end of a command that does not end otherwise: see [`watch_reader`].
///
/// # Errors
///
/// Fails if stdout cannot be written to.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    print_bytes(text.as_bytes())
}

/// Prints bytes, as [`print()`] does. Those that are no text are not for a terminal.
///
/// # Errors
///
/// See [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), CommandFailure> {
    stop::park_if_ending();
    let mut written = Ok(());
    let mut write = || {
        let mut stdout = io::stdout().lock();
        written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    };
    match io::stdout().is_terminal() {
        true => screen::print(write, &String::from_utf8_lossy(bytes)),
        false => write(),
    }
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            handle_unread();
            Ok(())
        }
        Err(error) => Err(CommandFailure::failed(format!("cannot write to stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints one JSON value on a line. Characters unsafe on a terminal are escaped, which keeps the value the same.
///
/// # Errors
///
/// See [`print()`].
pub(crate) fn print_json(value: &RawJson) -> Result<(), CommandFailure> {
    print(&format!("{}\n", escape::lines(value.as_str())))
}

/// Prints a value as JSON on a line, as [`print_json`] does.
///
/// # Errors
///
/// See [`print()`]. Fails if the value cannot be written as JSON.
pub(crate) fn print_value<T: Serialize + ?Sized>(value: &T) -> Result<(), CommandFailure> {
    print_json(&RawJson::encode(value).map_err(|error| CommandFailure::failed(error.to_string()))?)
}

/// Appends a row of a label and a text. Further lines of the text are aligned below the first one.
pub(crate) fn push_row(out: &mut String, label: &impl core::fmt::Display, text: &str) {
    let text = escape::lines(text);
    let mut lines = text.lines();
    out.push_str(&format!("{label} {}\n", lines.next().unwrap_or_default()));
    for line in lines {
        out.push_str(&format!("{:LABEL_WIDTH$} {line}\n", ""));
    }
}

/// Pads a label to the common width.
pub(crate) fn pad_label(text: &str) -> String {
    format!("{text:LABEL_WIDTH$}")
}

pub(crate) const LABEL_WIDTH: usize = 13;

/// Breaks lines that are too long for the terminal, if they go to one (or if `COLUMNS` says how long they may be). Each has `indent`
/// columns before it.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    if !io::stdout().is_terminal() && env::var_os("COLUMNS").is_none() {
        return text.to_owned();
    }
    let width = terminal_width().saturating_sub(indent).max(MIN_TEXT_WIDTH);
    let lines = text.lines().map(|line| wrapped_line(line, width));
    lines.collect::<Vec<_>>().join("\n")
}

/// Breaks a line at spaces. A word that is longer than that stays whole, so that it can be copied.
pub(crate) fn wrapped_line(line: &str, width: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        let breaks = column > 0 && column + 1 + length > width;
        if index > 0 {
            out.push(if breaks { '\n' } else { ' ' });
            column = if breaks { 0 } else { column + 1 };
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Fewest columns of a text, on however narrow a terminal.
const MIN_TEXT_WIDTH: usize = 30;

/// Formats a number of things: `1 file`, `2 files`.
pub(crate) fn count(n: impl ToString + Copy, thing: &str) -> String {
    let n = n.to_string();
    format!("{n} {thing}{}", if n == "1" { "" } else { "s" })
}

/// Lists names, up to [`MAX_NAMES_SHOWN`].
pub(crate) fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.take(MAX_NAMES_SHOWN + 1).collect();
    if let Some(last) = names.get_mut(MAX_NAMES_SHOWN) {
        *last = "…";
    }
    names.join(", ")
}

/// Returns the name that is most like a text, if one is like it.
pub(crate) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // As numbers: the program compares numbers in any case.
    let letters =
        |text: &str| text.to_lowercase().chars().take(MAX_COMPARED).map(|c| c as usize).collect::<Vec<_>>();
    let text = letters(text);
    let likeness = |name: &str| {
        let name = letters(name);
        let changes = capture_diff_slices(Algorithm::Myers, &text, &name);
        let equal = |op: &DiffOp| if op.tag() == DiffTag::Equal { op.new_range().len() } else { 0 };
        200 * changes.iter().map(equal).sum::<usize>() / (text.len() + name.len()).max(1)
    };
    let rated = names.take(MAX_RATED).map(|name| (likeness(name), name));
    let near = rated.filter(|(likeness, _)| *likeness >= MIN_LIKENESS);
    near.max_by_key(|(likeness, _)| *likeness).map(|(_, name)| name)
}

/// Maximum number of names that are compared with a wrong one, and of their letters.
const MAX_RATED: usize = 1_000;
const MAX_COMPARED: usize = 64;
/// Percentage of letters that two names have to have in common, in the same order.
const MIN_LIKENESS: usize = 60;

/// Maximum number of names in a message. Further ones are left out.
pub(crate) const MAX_NAMES_SHOWN: usize = 20;

/// Returns the number of columns of the terminal, or a number for output that goes elsewhere.
pub(crate) fn terminal_width() -> usize {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| terminal_size().map(|(Width(width), _)| usize::from(width))).unwrap_or(100)
}

/// Reads the text of a file, up to a number of bytes.
///
/// # Errors
///
/// Fails as the system does, or if it is not UTF-8.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(max_bytes).read_to_string(&mut text)?;
    Ok(text)
}

/// Creates a file that other users cannot read, as traces are. It must not exist.
///
/// # Errors
///
/// Fails as the system does.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    private_options().create_new(true).open(path)
}

/// Writes a file that other users cannot read unless it was there and they could.
///
/// # Errors
///
/// Fails as the system does.
pub(crate) fn write_private_file(path: &Path, text: &str) -> io::Result<()> {
    private_options().create(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// Returns the options to write a file that other users cannot read once it is created.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder that other users cannot read, with those above it, unless they exist.
///
/// # Errors
///
/// Fails as the system does.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the folder of this program for state of the user, if the system has one.
pub(crate) fn state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state")
}

/// Returns the folder of this program in the one that a variable names, or that is at home. Relative paths are ignored, as XDG demands.
pub(crate) fn user_folder(xdg: &str, at_home: &str) -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else {
        variable(xdg).or_else(|| Some(variable("HOME")?.join(at_home)))
    };
    Some(base?.join("mcp-probe"))
}
