//! The line that the user edits, on a thread of its own: the session goes on meanwhile.

use alloc::sync::Arc;
use core::time::Duration;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;

use console::{Term, measure_text_width};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::{History as _, MemHistory};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Helper};

use super::history::{self, History};
use super::line::is_complete;
use crate::escape;
use crate::screen;

/// What the user does.
pub(super) enum EditorEvent {
    Line(String),
    /// TAB, behind this part of the line.
    Complete {
        line: String,
        reply: SyncSender<Completion>,
    },
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// What the end of a line may become.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// Where the part of the line begins that is replaced.
    pub(super) start: usize,
    pub(super) candidates: Vec<Candidate>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The text that is listed; it is escaped for that.
    pub(super) shown: String,
    pub(super) replacement: String,
}

/// The editor. It edits one line for each call of [`prompt`](Self::prompt).
pub(super) struct Editor {
    permits: Sender<()>,
    events: Receiver<EditorEvent>,
}

impl Editor {
    /// Starts the thread of the editor.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be used.
    pub(super) fn start() -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .max_history_size(history::MAX_ENTRIES)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let (permits, receiver) = mpsc::channel();
        let (sender, events) = mpsc::channel();
        let mut editor = LineEditor::with_history(config, MemHistory::new())?;
        editor.history_mut().set_max_len(history::MAX_ENTRIES)?;
        editor.history_mut().ignore_space(true);
        let edited = Arc::<Mutex<EditedLine>>::default();
        editor.set_helper(Some(LineHelper { events: sender.clone(), edited: Arc::clone(&edited) }));
        if Term::stdout().features().is_attended() && !is_dumb() {
            thread::Builder::new().name("shell-printer".into()).spawn(move || print_lines(&edited))?;
        }
        let edit = move || edit_lines(editor, &receiver, &sender);
        thread::Builder::new().name("shell-editor".into()).spawn(edit)?;
        Ok(Self { permits, events })
    }

    /// Lets the user edit the next line.
    pub(super) fn prompt(&self) {
        // Without its thread, the next event is the end.
        let _ = self.permits.send(());
    }

    /// Waits for an event, at most for `timeout`, and without end if there is none.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Option<EditorEvent> {
        receive(&self.events, timeout, EditorEvent::End)
    }
}

/// Receives from a thread, at most for `timeout`, and without end if there is none. Without the thread there is `end`.
pub(super) fn receive<E>(events: &Receiver<E>, timeout: Option<Duration>, end: E) -> Option<E> {
    match timeout {
        None => Some(events.recv().unwrap_or(end)),
        Some(timeout) => match events.recv_timeout(timeout) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(end),
        },
    }
}

type LineEditor = rustyline::Editor<LineHelper, MemHistory>;

/// Edits a line for each permit.
fn edit_lines(mut editor: LineEditor, permits: &Receiver<()>, events: &Sender<EditorEvent>) {
    let history = History::of_user();
    for entry in history.read() {
        let _ = editor.add_history_entry(entry);
    }
    while permits.recv().is_ok() {
        let editing = screen::Editing::begin();
        let read = editor.readline(PROMPT);
        drop(editing);
        let event = match read {
            Ok(line) => {
                // Secrets stay in reach of the arrow keys of this shell.
                let _ = editor.add_history_entry(&*line);
                history.add(&line);
                EditorEvent::Line(line)
            }
            Err(ReadlineError::Interrupted) => EditorEvent::Line(String::new()),
            Err(_) => EditorEvent::End,
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// The line as it stands on the terminal.
#[derive(Default)]
struct EditedLine {
    text: String,
    /// Where the cursor is, in bytes.
    at: usize,
}

/// Prints lines above the one that is edited, which is drawn again.
// The external printer of rustyline 18 stalls the input: of bytes that come at once it handles the first (its issue 976).
fn print_lines(edited: &Mutex<EditedLine>) {
    let terminal = Term::stdout();
    let line = || mcp_std::sync::lock(edited);
    let has_room = || {
        let line = line();
        let width = PROMPT.len() + measure_text_width(&line.text);
        !line.text.contains(['\n', '\t']) && width < usize::from(terminal.size().1)
    };
    let draw = |text: &str| -> io::Result<()> {
        let line = line();
        terminal.clear_line()?;
        terminal.write_str(text)?;
        terminal.write_str(&format!("{PROMPT}{}", line.text))?;
        terminal.move_cursor_left(measure_text_width(line.text.get(line.at..).unwrap_or_default()))
    };
    // A terminal that is gone ends the editor, too.
    screen::print_above(has_room, |text| _ = draw(text));
}

/// Returns whether the terminal has no cursor movements.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Completes by asking the thread of the session, and notes what stands on the terminal.
struct LineHelper {
    events: Sender<EditorEvent>,
    edited: Arc<Mutex<EditedLine>>,
}

impl LineHelper {
    fn note(&self, line: &str, at: usize) {
        let mut edited = mcp_std::sync::lock(&self.edited);
        line.clone_into(&mut edited.text);
        edited.at = at;
    }
}

impl Helper for LineHelper {}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (reply, completion) = mpsc::sync_channel(1);
        let line = line.get(..at).unwrap_or(line).to_owned();
        let _ = self.events.send(EditorEvent::Complete { line, reply });
        // The session may be busy with a list, which is there at the next time.
        let Completion { start, candidates } =
            completion.recv_timeout(COMPLETION_TIMEOUT).unwrap_or_default();
        let pair = |candidate: Candidate| Pair {
            display: escape::line(&candidate.shown).into_owned(),
            replacement: candidate.replacement,
        };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl Hinter for LineHelper {
    type Hint = String;

    /// Notes the line, which is called after each change of it, and has no hint.
    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        self.note(line, at);
        None
    }
}

impl Highlighter for LineHelper {
    /// Notes where the cursor goes, and highlights nothing.
    fn highlight_char(&self, line: &str, at: usize, _: CmdKind) -> bool {
        self.note(line, at);
        false
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

const PROMPT: &str = "mcp> ";
/// Time that a completion may take.
pub(super) const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);
