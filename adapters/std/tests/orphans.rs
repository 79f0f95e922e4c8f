//! Servers whose host ends without ending them, on Unix: the program starts itself as the host.

#[cfg(unix)]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("host") => unix::host(),
        // Arguments of test runners are ignored; `--list` prints nothing.
        Some("--list") => {}
        _ => unix::all(),
    }
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod unix {
    use core::time::Duration;
    use std::env;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Instant;

    use mcp_std::process::{Program, Stderr};
    use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

    /// A server that heeds the end of its input.
    const OBEDIENT: &str = "cat";
    /// One that does not, nor `SIGTERM`, and has started a process of its own that does not either.
    const DEAF: &str = "trap '' TERM; (while :; do sleep 1; done) & while :; do sleep 1; done";
    /// One that was gone before its host.
    const GONE: &str = "exit";
    /// How a host ends.
    const ENDS: [&str; 6] = ["kill", "panic", "panic-thread", "abort", "exit", "forget"];
    /// The servers are left for four seconds at most; the rest is for a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    pub(crate) fn all() {
        thread::scope(|scope| {
            for end in ENDS {
                scope.spawn(move || {
                    servers_end_with_their_host(end);
                    println!("servers_end_with_their_host ({end}) ... ok");
                });
            }
            scope.spawn(|| {
                guard_that_was_killed_is_no_failure();
                println!("guard_that_was_killed_is_no_failure ... ok");
            });
        });
    }

    /// Starts servers, prints the ids of their groups, and ends.
    pub(crate) fn host() {
        let start =
            |script: &str| Program::new("sh").args(["-c", script]).stderr(Stderr::Null).spawn().expect("sh");
        drop(start(GONE));
        let children = [OBEDIENT, DEAF].map(start);
        println!("{} {}", children[0].id(), children[1].id());
        // The test has read the line, and seen that they run.
        let mut go = [0];
        std::io::stdin().read_exact(&mut go).expect("a byte");
        match env::args().nth(2).as_deref() {
            Some("panic") => panic!("as the test wants"),
            Some("panic-thread") => {
                let thread = thread::spawn(move || {
                    let _children = children;
                    panic!("as the test wants");
                });
                thread.join().expect_err("a panic");
            }
            Some("abort") => std::process::abort(),
            Some("exit") => std::process::exit(0),
            Some("forget") => core::mem::forget(children),
            Some("another") => {
                let child = start(DEAF);
                println!("{}", child.id());
                drop((child, children));
            }
            _ => thread::sleep(PATIENCE * 2),
        }
    }

    struct Host {
        process: std::process::Child,
        lines: BufReader<std::process::ChildStdout>,
    }

    impl Host {
        fn new(end: &str) -> Self {
            let mut process = Command::new(env::current_exe().expect("this program"))
                .args(["host", end])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("a process");
            let lines = BufReader::new(process.stdout.take().expect("piped"));
            Self { process, lines }
        }

        /// Reads the ids of groups that run.
        fn groups(&mut self) -> Vec<Pid> {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("UTF-8");
            let ids =
                line.split_whitespace().map(|id| id.parse().ok().and_then(Pid::from_raw).expect("an id"));
            let groups: Vec<Pid> = ids.collect();
            assert!(!groups.is_empty());
            groups
        }

        fn go(&mut self) {
            self.process.stdin.as_mut().expect("piped").write_all(b"!").expect("it reads");
        }
    }

    fn is_running(group: Pid) -> bool {
        // An orphan that has ended may be a zombie until process 1 reaps it.
        #[cfg(target_os = "linux")]
        return std::fs::read_dir("/proc").expect("processes").flatten().any(|process| {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let state = fields.next();
            state.is_some_and(|state| state != "Z")
                && fields.nth(1) == Some(&group.as_raw_nonzero().to_string())
        });
        #[cfg(not(target_os = "linux"))]
        test_kill_process_group(group).is_ok()
    }

    fn assert_end(groups: &[Pid], end: &str) {
        let begun = Instant::now();
        while groups.iter().any(|group| is_running(*group)) {
            if begun.elapsed() > PATIENCE {
                for group in groups {
                    let _ = kill_process_group(*group, Signal::KILL);
                }
                panic!("{end}: servers are left: {groups:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn servers_end_with_their_host(end: &str) {
        let mut host = Host::new(end);
        let groups = host.groups();
        assert!(groups.iter().all(|group| test_kill_process_group(*group).is_ok()), "they run");
        if end == "kill" {
            host.process.kill().expect("it runs");
        } else {
            host.go();
        }
        host.process.wait().expect("it ends");
        assert_end(&groups, end);
    }

    /// Whoever ends the guard takes nothing from the host but the guard.
    fn guard_that_was_killed_is_no_failure() {
        let mut host = Host::new("another");
        let groups = host.groups();
        let guards = children_of(host.process.id());
        for guard in guards.iter().filter(|child| !groups.contains(child)) {
            kill_process(*guard, Signal::KILL).expect("it runs");
        }
        host.go();
        let another = host.groups();
        assert!(host.process.wait().expect("it ends").success());
        assert_end(&[groups, another].concat(), "another");
    }

    /// Returns the children of a process, where the system tells.
    fn children_of(parent: u32) -> Vec<Pid> {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }
}
