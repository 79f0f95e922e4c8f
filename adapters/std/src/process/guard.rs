//! A guard beside this process, on Unix. It ends the servers that are left when this process is gone, however that ended.
//!
//! Nothing of this process runs after `SIGKILL` or an abort, and a server need not heed the end of its input. The guard is a shell
//! that is told the groups of servers through a pipe. The end of the pipe is the end of this process, because only this process
//! has its other end. Then the groups that are left go through the steps of a shutdown. Linux can signal a process at the end of the
//! thread that started it, which is too early in a pool of threads, and does not reach what the server has started.
//!
//! The guard is a child of this process that no [`Program`](super::Program) started: it runs from the first server to the end of this
//! process, in a group of its own, and waits for nothing but the pipe. A program that waits for any of its children may see it end
//! only if somebody else ended it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::Pid;

/// The guard; `None` before the first server is started, and while there is none: it could not be started, or was ended.
pub(super) struct Guard(pub(super) Option<(Child, ChildStdin)>);

impl Guard {
    /// Tells the guard of a group that was started, the last of all that are left. A guard that is gone is replaced.
    pub(super) fn enter(&mut self, leaders: &[Pid]) {
        let Some(newest) = leaders.last() else { return };
        if !self.tell('+', *newest) {
            self.0 = Self::start();
            // The new one knows of none.
            let _ = leaders.iter().all(|leader| self.tell('+', *leader));
        }
    }

    /// Tells the guard that a group is gone. From then on its id may be that of another one.
    pub(super) fn leave(&mut self, leader: Pid) {
        self.tell('-', leader);
    }

    fn start() -> Option<(Child, ChildStdin)> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "mcp-std guard"]).current_dir("/");
        // `sleep` may be elsewhere.
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":/usr/bin:/bin");
        command.env_clear().env("PATH", path);
        // A signal to the group of this process, as by Ctrl-C, does not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().ok()?;
        let pipe = shell.stdin.take()?;
        rustix::io::ioctl_fionbio(&pipe, true).ok()?;
        Some((shell, pipe))
    }

    /// Returns whether there is a guard that was told.
    fn tell(&mut self, what: char, leader: Pid) -> bool {
        let Some((shell, pipe)) = &mut self.0 else { return false };
        let line = format!("{what} {}\n", leader.as_raw_nonzero());
        if pipe.write(line.as_bytes()).is_ok_and(|written| written == line.len()) {
            return true;
        }
        // It is stopped or gone. With a wrong list it might end the group of somebody else later.
        let _ = shell.kill();
        let _ = shell.wait();
        self.0 = None;
        false
    }
}

/// Reads `+ ID` and `- ID` to the end. Then it gives the groups that are left two seconds, `SIGTERM`, two more, and `SIGKILL`.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while read -r what id; do
    case $what$groups in
    +*) groups="$groups$id " ;;
    *" $id "*) groups="${groups%% $id *} ${groups#* $id }" ;;
    esac
done
for signal in TERM KILL; do
    tries=20
    while [ $tries -gt 0 ]; do
        left=' '
        for id in $groups; do
            if kill -s 0 -- "-$id"; then left="$left$id "; fi
        done
        groups=$left
        if [ "$groups" = ' ' ]; then exit; fi
        if ! sleep 0.1 && ! sleep 1; then
            # Without a clock nothing is killed.
            for id in $groups; do kill -s TERM -- "-$id"; done
            exit
        fi
        tries=$((tries - 1))
    done
    for id in $groups; do kill -s $signal -- "-$id"; done
done
"#;
