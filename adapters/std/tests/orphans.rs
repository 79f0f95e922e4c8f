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
    /// One that needs a second after the end of its input.
    const SLOW: &str = "cat; sleep 1; : > \"$0.input\"";
    /// One that needs a second after `SIGTERM`, and ignores the end of its input.
    const BUSY: &str = "trap 'sleep 1; : > \"$0.signal\"; exit' TERM; while :; do sleep 0.1; done";
    /// One that ends on `SIGTERM`, and one that does not. Neither needs `sleep`.
    const PLAIN: [&str; 2] = ["exec tail -f /dev/null", "trap '' TERM; exec tail -f /dev/null"];
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
            let others: [(&str, fn()); 4] = [
                ("guard_that_was_killed_is_no_failure", guard_that_was_killed_is_no_failure),
                ("guard_that_was_killed_is_replaced", guard_that_was_killed_is_replaced),
                ("servers_have_time_to_end", servers_have_time_to_end),
                ("guard_without_clock_kills_nothing", guard_without_clock_kills_nothing),
            ];
            for (name, test) in others {
                scope.spawn(move || {
                    test();
                    println!("{name} ... ok");
                });
            }
        });
    }

    /// Starts servers, prints the ids of their groups, and ends as the first argument says. The second is a path for the servers.
    pub(crate) fn host() {
        let (how, path) = (env::args().nth(2).unwrap_or_default(), env::args().nth(3).unwrap_or_default());
        let start = |script: &str| {
            Program::new("sh").args(["-c", script, &path]).stderr(Stderr::Null).spawn().expect("sh")
        };
        drop(start(GONE));
        let scripts = match &*how {
            "slow" => [SLOW, BUSY],
            "plain" => PLAIN,
            _ => [OBEDIENT, DEAF],
        };
        let children = scripts.map(start);
        println!("{} {}", children[0].id(), children[1].id());
        // The test has read the line, and seen that they run.
        let mut go = [0];
        std::io::stdin().read_exact(&mut go).expect("a byte");
        match &*how {
            "panic" => panic!("as the test wants"),
            "panic-thread" => {
                let thread = thread::spawn(move || {
                    let _children = children;
                    panic!("as the test wants");
                });
                thread.join().expect_err("a panic");
            }
            "abort" => std::process::abort(),
            "exit" => std::process::exit(0),
            "forget" => core::mem::forget(children),
            "another" | "another-kill" => {
                let child = start(DEAF);
                println!("{}", child.id());
                if how == "another-kill" {
                    thread::sleep(PATIENCE * 2);
                }
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
            Self::spawn(Command::new(env::current_exe().expect("this program")).args(["host", end]))
        }

        fn spawn(command: &mut Command) -> Self {
            let mut process = command
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

        /// Returns the guard: the child that is none of the servers. `None` where the system does not tell.
        fn guard(&self, servers: &[Pid]) -> Option<Pid> {
            let children = children_of(self.process.id());
            let guards: Vec<Pid> = children.into_iter().filter(|child| !servers.contains(child)).collect();
            #[cfg(target_os = "linux")]
            assert_eq!(guards.len(), 1, "one guard beside {servers:?}");
            guards.first().copied()
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

    /// Kills a guard, and waits until it is gone: before, it still takes what it is told.
    fn kill_guard(guard: Pid) {
        kill_process(guard, Signal::KILL).expect("it runs");
        let deadline = Instant::now() + PATIENCE;
        while !is_zombie(guard) {
            assert!(Instant::now() < deadline, "it is gone");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_zombie(process: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.is_err()
            || stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
    }

    /// Whoever ends the guard takes nothing from the host but the guard.
    fn guard_that_was_killed_is_no_failure() {
        let mut host = Host::new("another");
        let groups = host.groups();
        if let Some(guard) = host.guard(&groups) {
            kill_guard(guard);
        }
        host.go();
        let another = host.groups();
        assert!(host.process.wait().expect("it ends").success());
        assert_end(&[groups, another].concat(), "another");
    }

    /// The next server has another guard, which knows of the servers before it.
    fn guard_that_was_killed_is_replaced() {
        let mut host = Host::new("another-kill");
        let mut groups = host.groups();
        let first = host.guard(&groups);
        if let Some(guard) = first {
            kill_guard(guard);
        }
        host.go();
        groups.extend(host.groups());
        let second = host.guard(&groups);
        assert!(first.is_none() || first != second, "{first:?}");
        host.process.kill().expect("it runs");
        host.process.wait().expect("it ends");
        assert_end(&groups, "another-kill");
    }

    /// Each step of the end leaves servers the time that it says.
    fn servers_have_time_to_end() {
        let folder = Folder::new("slow");
        let file = folder.0.join("done");
        let mut command = Command::new(env::current_exe().expect("this program"));
        let mut host = Host::spawn(command.args(["host", "slow"]).arg(&file));
        let groups = host.groups();
        host.process.kill().expect("it runs");
        host.process.wait().expect("it ends");
        assert_end(&groups, "slow");
        for step in ["input", "signal"] {
            assert!(file.with_extension(step).exists(), "the server was killed after the {step}");
        }
    }

    /// A guard that cannot wait signals its servers, and leaves those that do not heed that.
    fn guard_without_clock_kills_nothing() {
        let folder = Folder::new("clock");
        let sleep = folder.0.join("sleep");
        std::fs::write(&sleep, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&sleep, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a file");
        let path = format!("{}:{}", folder.0.display(), env::var("PATH").unwrap_or_default());
        let mut command = Command::new(env::current_exe().expect("this program"));
        let mut host = Host::spawn(command.args(["host", "plain"]).env("PATH", path));
        let groups = host.groups();
        // The shell of the second one has to ignore the signal first.
        thread::sleep(Duration::from_millis(500));
        host.process.kill().expect("it runs");
        host.process.wait().expect("it ends");
        assert_end(&groups[..1], "plain");
        thread::sleep(Duration::from_millis(200));
        let is_left = is_running(groups[1]);
        let _ = kill_process_group(groups[1], Signal::KILL);
        assert!(is_left, "it was killed at once");
    }

    /// A folder that is removed at the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("mcp-orphans-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns the children of a process, where the system tells.
    fn children_of(parent: u32) -> Vec<Pid> {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }
}
