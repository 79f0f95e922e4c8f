//! The `shell` command: one session with a server, and a line for each request.

mod commands;
mod completion;
mod editor;
mod history;
mod line;
mod lists;
mod script;

use std::io::{self, IsTerminal as _};

use clap::Args;

use crate::answer::AnswerArgs;
use crate::args::{RequestArgs, usage};
use crate::failure::CommandFailure;
use commands::{Flow, Shell};
use editor::{Editor, EditorEvent};
use line::PendingLine;

/// Opens a session with a server, and reads commands from the terminal.
///
/// TAB completes commands, names, arguments and values. Input that is no terminal is a script: it ends at the first line
/// that fails.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe shell [OPTIONS]"))]
pub(crate) struct ShellArgs {
    /// Goes on after a line of a script that fails.
    ///
    /// The exit code is that of the first failure.
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

pub(crate) fn run(args: &ShellArgs) -> Result<(), CommandFailure> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut shell = Shell::open(args, is_terminal)?;
    let outcome =
        if is_terminal { run_on_terminal(&mut shell) } else { script::run(&mut shell, args.keep_going) };
    shell.close();
    outcome
}

/// Runs the lines that the user types. Failures are printed.
fn run_on_terminal(shell: &mut Shell<'_>) -> Result<(), CommandFailure> {
    shell.follow_lists();
    let editor = Editor::start()
        .map_err(|error| CommandFailure::failed(format!("the terminal cannot be used: {error}")))?;
    loop {
        editor.prompt();
        let text = loop {
            match shell.wait_for(|timeout| editor.next(timeout)) {
                EditorEvent::Line(text) => break text,
                EditorEvent::End => return Ok(()),
                EditorEvent::Complete { line, reply } => {
                    // The editor may have given up.
                    let _ = reply.send(shell.complete(&line));
                }
            }
        };
        let mut pending = PendingLine::default();
        for part in text.lines() {
            let Some(line) = pending.push(part) else { continue };
            match shell.run_line(&line) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Quit) => return Ok(()),
                // Further lines of a pasted text may need this one.
                Err(failure) => {
                    shell.report(&failure);
                    break;
                }
            }
        }
    }
}

const HELP: &str = "\
Commands:
  tools, resources, prompts   list what the server offers
  describe NAME               shows one of them in full
  call TOOL NAME=VALUE...     calls a tool; NAME:=JSON and --args as for
                              `mcp-probe call`
  read URI                    reads a resource
  prompt NAME NAME=VALUE...   gets a prompt
  complete OF ARGUMENT [TEXT] completes an argument of prompt:NAME or a
                              variable of a resource template
  ping                        measures a round trip
  log LEVEL                   shows log messages from this level on
  subscribe URI               reports changes of a resource (unsubscribe URI)
  results                     lists the results that are kept
  show $NAME                  prints one as JSON
  reconnect                   opens the session anew
  help, quit                  (so does Ctrl-D)

Words are split and quoted as in a POSIX shell; a quote that is open goes on in
the next line, and # begins a comment. Ctrl-C cancels the running request (of
call, read, prompt, complete, ping, describe and the lists) and its form; a
second one ends the shell, as one during any other line does.

Results are kept as $1, $2 and so on, the last one also as $_, and under a name
that a line begins with:
  sum = call add a=1 b=2
  call add a=$sum/structuredContent/sum b=$1/content/0/text
Behind the name stands a JSON pointer. Such a value keeps its type; $$ stands
for a $ at the beginning of a value. Of results without a name the last 100 are
kept, of all 32 MiB; the oldest ones without a name are dropped.

The history is in the state folder of the user ($XDG_STATE_HOME/mcp-probe, mode
0600), 1000 lines. A line that begins with a blank is not kept, nor is one in
which a word anywhere is the name of a secret (as `password`) or looks like one.

With --json each result is printed as one line of JSON: that of call, read,
prompt, complete and describe as the server sent it; {\"tools\": [...]}, and
likewise resources, resourceTemplates and prompts, for lists;
{\"milliseconds\": N} for ping; {\"results\": [{name, of, bytes}]};
{\"value\": ...} for show; {\"commands\": [{name, words}]} for help; a failure
as {\"error\": ...}.

Examples:
  mcp-probe shell -- mcp-probe serve --everything
  mcp-probe shell http://127.0.0.1:8080/mcp
  printf 'sum = call add a=1 b=2\\ncall echo text=$sum/content/0/text\\n' | \\
      mcp-probe shell -- mcp-probe serve";
