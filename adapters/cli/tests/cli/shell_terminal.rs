//! `mcp-probe shell` on a terminal.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::config_file::TemporaryDirectory;
use crate::shell_server::ShellServer;
use crate::support::{PROBE, probe_command, quoted};
use crate::terminal::open_terminal;

/// A user at a terminal. Drop ends the program.
struct User {
    keyboard: File,
    screen: Receiver<String>,
    /// What the terminal has shown since the last text that was waited for.
    shown: String,
    child: Child,
}

impl User {
    /// Starts `mcp-probe ARGS` on a terminal of so many columns, with its state in this folder.
    fn new(args: &[&str], columns: u16, state: &TemporaryDirectory) -> Self {
        Self::of_program(PROBE, args, columns, state)
    }

    fn of_program(program_name: &str, args: &[&str], columns: u16, state: &TemporaryDirectory) -> Self {
        let (keyboard, program) = open_terminal();
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).unwrap();
        // It has the terminal as its own, so that Ctrl-C reaches it.
        let child = Command::new("setsid")
            .args(["-c", program_name])
            .args(args)
            .envs(probe_command().get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm-256color")
            .env("XDG_STATE_HOME", state.path())
            .stdin(program.try_clone().unwrap())
            .stderr(program.try_clone().unwrap())
            .stdout(program)
            .spawn()
            .unwrap();
        let (sender, screen) = mpsc::channel();
        let mut terminal = keyboard.try_clone().unwrap();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = terminal.read(&mut chunk) {
                if sender.send(String::from_utf8_lossy(&chunk[..n]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { keyboard, screen, shown: String::new(), child }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until a text is shown. Returns what was shown up to its end.
    fn sees(&mut self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return core::mem::replace(&mut self.shown, rest);
            }
            match self.screen.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(more) => self.shown += &more,
                Err(_) => panic!("{text:?} is not shown: {:?}", self.shown),
            }
        }
    }

    /// Waits for the prompt, behind which the cursor is, and types a line.
    fn enters(&mut self, line: &str) {
        self.sees("mcp> \r\u{1b}[5C");
        self.types(line);
        self.types("\r");
    }

    fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn serve_everything<'a>() -> Vec<&'a str> {
    vec!["shell", "--", PROBE, "serve", "--everything"]
}

#[test]
fn tab_completes_commands_names_arguments_and_values() {
    let state = TemporaryDirectory::new();
    let mut user = User::new(&serve_everything(), 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    // A command, a tool, its arguments, and again what is left of them.
    user.types("x = ca\t");
    user.sees("x = call ");
    user.types("ad\t");
    user.sees("x = call add ");
    user.types("\t\t");
    user.sees("a=  b=");
    user.types("a=1 \t");
    user.sees("a=1 b=");
    user.types("2\r");
    user.sees("$x");
    // Values that the server knows.
    user.sees("mcp> \r\u{1b}[5C");
    user.types("prompt tra\tco\tnor\t");
    user.sees("prompt travel_plan country=norway ");
    user.types("\r");
    user.sees("in norway");
    user.sees("mcp> \r\u{1b}[5C");
    user.types("read atl\tnor\tos\t");
    user.sees("read atlas://norway/oslo ");
    user.types("\r");
    user.sees("$3");
    // Names of results, and levels.
    user.sees("mcp> \r\u{1b}[5C");
    user.types("call add a=$x/structuredContent/sum b=1\r");
    user.sees("\"sum\":4");
    user.sees("mcp> \r\u{1b}[5C");
    user.types("log deb\t");
    user.sees("log debug ");
    user.types("\r");
    user.sees("mcp> \r\u{1b}[5C");
    user.types("\u{4}");
    assert_eq!(user.ends(), Some(0));
    let history = fs::read_to_string(state.path().join("mcp-probe/history")).unwrap();
    assert!(history.starts_with("x = call add a=1 b=2\nprompt travel_plan country=norway"), "{history}");
}

#[test]
fn value_of_an_enumeration_comes_from_the_schema() {
    let state = TemporaryDirectory::new();
    let mut user = User::new(&serve_everything(), 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    user.types("call annex op\t");
    user.sees("call annex open=");
    user.types("t\t");
    user.sees("call annex open=true ");
    user.types("\u{3}");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn call_is_cancelled_by_an_interrupt_and_the_session_goes_on() {
    let state = TemporaryDirectory::new();
    let mut user = User::new(&["shell", "--trace", "--", PROBE, "serve"], 80, &state);
    user.enters("call count to=1000");
    user.sees("2/1000");
    user.types("\u{3}");
    user.sees("notifications/cancelled");
    user.sees("the call was cancelled");
    user.enters("call echo text=still");
    user.sees("\r\nstill\r\n");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn form_gets_the_terminal_and_gives_it_back() {
    let state = TemporaryDirectory::new();
    let mut user = User::new(&serve_everything(), 80, &state);
    user.enters("call sign");
    user.sees("  > ");
    user.types("Ada\n");
    user.sees("[c]ancel: ");
    user.types("y\n");
    user.sees("Hello, Ada!");
    user.enters("call echo text=after");
    user.sees("\r\nafter\r\n");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn lines_of_the_server_stand_above_the_line_that_is_edited() {
    let state = TemporaryDirectory::new();
    let go = state.path().join("go");
    // Its message sets a title and clears the screen, if a terminal believes it.
    let message = "while [ ! -e GO ]; do sleep 0.05; done; printf 'a\\033]0;t\\007b\\n' >&2";
    let serve = format!("({}) & exec {} serve", message.replace("GO", &quoted(&go)), quoted(PROBE));
    let mut user = User::new(&["shell", "--", "sh", "-c", &serve], 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    user.types("call echo text=half");
    user.sees("text=half");
    fs::write(&go, "").unwrap();
    let shown = user.sees("mcp> call echo text=half");
    assert!(
        shown.contains("a\\u001b]0;t\\u0007b\n") || shown.contains("a\\u001b]0;t\\u0007b\r\n"),
        "{shown:?}"
    );
    user.types("-and-half\r");
    user.sees("\r\nhalf-and-half\r\n");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn secrets_are_not_in_the_history_and_a_second_shell_finds_the_rest() {
    let state = TemporaryDirectory::new();
    let mut user = User::new(&["shell", "--", PROBE, "serve"], 80, &state);
    user.enters("call echo text=one");
    user.sees("$1");
    user.enters("call echo text=x password=hunter2");
    user.enters(" call echo text=blank");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
    let mut user = User::new(&["shell", "--", PROBE, "serve"], 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    // The arrow up: `quit`, and what was before.
    user.types("\u{1b}[A\u{1b}[A");
    user.sees("call echo text=one");
    user.types("\r");
    user.sees("\r\none\r\n");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
    let history = fs::read_to_string(state.path().join("mcp-probe/history")).unwrap();
    assert_eq!(history, "call echo text=one\nquit\ncall echo text=one\nquit\n");
}

#[test]
fn lists_are_as_wide_as_the_terminal() {
    for columns in [80, 200] {
        let state = TemporaryDirectory::new();
        let mut user = User::new(&serve_everything(), columns, &state);
        user.enters("tools");
        let shown = user.sees("mcp> \r\u{1b}[5C");
        let rows = shown.replace("\u{1b}[36m", "").replace("\u{1b}[0m", "");
        let rows: Vec<_> = rows.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(rows.len() > 40, "{shown}");
        let widest = rows.iter().map(|row| row.chars().count()).max().unwrap_or_default();
        assert!(widest <= usize::from(columns), "{columns}: {widest}\n{shown}");
        assert_eq!(rows.iter().any(|row| row.ends_with('…')), columns == 80, "{shown}");
        user.types("quit\r");
        assert_eq!(user.ends(), Some(0));
    }
}

#[test]
fn bar_of_a_call_is_removed_before_its_result() {
    for columns in [80, 200] {
        let state = TemporaryDirectory::new();
        let mut user = User::new(&["call", "count", "to=20", "--", PROBE, "serve"], columns, &state);
        let bar = user.sees("/20 (");
        assert!(bar.contains("0s ["), "{bar:?}");
        let shown = user.sees("counted to 20");
        let behind_bar = shown.rsplit("\u{1b}[2K").next().unwrap_or_default();
        assert_eq!(behind_bar.trim_start_matches('\r'), "counted to 20", "{shown:?}");
        assert_eq!(user.ends(), Some(0));
    }
}

/// A server whose tool and the only value of its argument look like results.
fn dollar_server() -> ShellServer {
    let schema = json!({"type": "object", "properties": {"mode": {"enum": ["$a"]}}});
    ShellServer::legacy()
        .with_result("tools/list", &json!({"tools": [{"name": "$dollar", "inputSchema": schema}]}))
}

#[test]
fn completed_word_that_begins_with_a_dollar_is_no_result() {
    let state = TemporaryDirectory::new();
    let script = dollar_server().script();
    let mut user = User::new(&["shell", "--", "sh", "-c", &script], 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    user.types("call \t");
    user.sees("call $$dollar ");
    user.types("\t");
    user.sees("mode=");
    user.types("\t");
    user.sees("mode=$$a ");
    user.types("\u{3}");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn list_is_cancelled_by_an_interrupt() {
    let state = TemporaryDirectory::new();
    let script = ShellServer::legacy().replace_method("tools/list", ":").script();
    for line in ["tools", "describe echo"] {
        let mut user = User::new(&["shell", "--trace", "--", "sh", "-c", &script], 80, &state);
        user.enters(line);
        user.sees("\"method\":\"tools/list\"");
        // The request is written before it is waited for.
        thread::sleep(Duration::from_millis(300));
        user.types("\u{3}");
        user.sees("the call was cancelled");
        user.enters("quit");
        assert_eq!(user.ends(), Some(0));
    }
}

#[test]
fn interrupt_cancels_the_form() {
    let state = TemporaryDirectory::new();
    let serve = ["shell", "--trace", "--", PROBE, "serve", "--everything"];
    let mut user = User::new(&serve, 200, &state);
    user.enters("call sign");
    user.sees("  > ");
    user.types("\u{3}");
    // The server may answer that before its call is cancelled.
    user.sees("\"action\":\"cancel\"");
    user.enters("call echo text=after");
    user.sees("\r\nafter\r\n");
    user.enters("quit");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn form_of_a_script_that_is_typed_gets_its_lines() {
    let state = TemporaryDirectory::new();
    let piped = format!("{0} shell -- {0} serve --everything | cat", quoted(PROBE));
    let mut user = User::of_program("sh", &["-c", &piped], 80, &state);
    user.types("call sign\n");
    user.sees("  > ");
    user.types("Ada\n");
    user.sees("[c]ancel: ");
    user.types("y\n");
    user.sees("Hello, Ada!");
    user.types("quit\n");
    assert_eq!(user.ends(), Some(0));
}

#[test]
fn terminated_shell_leaves_the_mode_for_what_is_pasted() {
    use rustix::process::{Pid, Signal, kill_process};

    let state = TemporaryDirectory::new();
    let mut user = User::new(&["shell", "--", PROBE, "serve"], 80, &state);
    user.sees("mcp> \r\u{1b}[5C");
    kill_process(Pid::from_child(&user.child), Signal::TERM).unwrap();
    user.sees("\u{1b}[?2004l");
    assert_eq!(user.ends(), None);
}
