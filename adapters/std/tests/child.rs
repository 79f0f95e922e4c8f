//! Server processes that behave well or badly; afterwards no process of their group is left.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::support::{assert_no_group, eventually, group_members, pump, read_until, with_deadline};
use mcp_std::Clock;
use mcp_std::io::{Duplex, Interest, is_peer_gone};
use mcp_std::process::{
    Child, ProcessStatus, Program, ShutdownStage, ShutdownStep, ShutdownTimeouts, SpawnErrorKind, Stderr,
    terminate_all,
};

/// Describes a misbehaving server; only tests use a shell.
fn sh(script: &str) -> Program {
    Program::new("sh").args(["-c", script]).stderr(Stderr::Capture)
}

/// Short timeouts, so that stubborn servers do not slow the tests down. A busy machine ends others in them.
fn short_timeouts() -> ShutdownTimeouts {
    ShutdownTimeouts {
        stragglers: Duration::from_millis(50),
        ..ShutdownTimeouts::uniform(Duration::from_secs(2))
    }
}

fn ends_with_newline(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n")
}

#[test]
fn obedient_server_exits_when_stdin_closes() {
    with_deadline(|| {
        let mut child = sh("cat").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        assert_eq!(io.write(b"hello\n").unwrap(), 6);
        assert_eq!(read_until(&mut io, ends_with_newline), b"hello\n");
        assert_eq!(child.status(), ProcessStatus::Running);
        // Longer than the deadline: nothing is waited for after the server has exited.
        let report = child.shutdown(Some(io), ShutdownTimeouts::uniform(Duration::from_secs(1000)));
        assert_eq!((report.stage, report.had_stragglers), (ShutdownStage::Exited, false));
        assert!(report.status.unwrap().success());
        assert_no_group(id);
    });
}

#[test]
fn server_may_finish_writing_after_the_end_of_input() {
    with_deadline(|| {
        let path = std::env::temp_dir().join(format!("mcp-std-finish-{}", std::process::id()));
        // 1 MB each to stdout and stderr, more than a pipe holds, and then a proof of having finished.
        let script = "cat; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo end > \"$PROOF\"";
        let child = sh(script).env("PROOF", &path).spawn().unwrap();
        let report = child.shutdown(None, ShutdownTimeouts::default());
        assert_eq!(report.stage, ShutdownStage::Exited);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "end\n");
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn server_that_ignores_the_end_of_input_is_terminated() {
    with_deadline(|| {
        let child = sh("sleep 1000").spawn().unwrap();
        let id = child.id();
        let report = child.shutdown(None, short_timeouts());
        assert_eq!(report.stage, ShutdownStage::Terminated);
        assert_no_group(id);
    });
}

#[test]
fn server_that_ignores_sigterm_is_killed() {
    with_deadline(|| {
        let mut child = sh("trap '' TERM; echo ready; while :; do sleep 1000; done").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        let report = child.shutdown(Some(io), short_timeouts());
        assert_eq!(report.stage, ShutdownStage::Killed);
        assert_eq!(report.to_string(), "had to be killed (signal: 9 (SIGKILL))");
        assert_no_group(id);
    });
}

#[test]
fn stubborn_grandchild_is_signalled_after_the_server_exits() {
    with_deadline(|| {
        let mut child = sh("(trap '' TERM; echo ready; sleep 1000) & read x; exit 3").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        let report = child.shutdown(Some(io), short_timeouts());
        assert_eq!((report.stage, report.had_stragglers), (ShutdownStage::Exited, true));
        assert_eq!(report.status.unwrap().code(), Some(3));
        assert_no_group(id);
    });
}

#[test]
fn dropping_an_exited_server_kills_its_grandchild() {
    with_deadline(|| {
        let mut child = sh("sleep 1000 & echo ready; exit 0").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        assert!(
            matches!(child.wait_timeout(crate::support::DEADLINE), ProcessStatus::Exited(Some(status)) if status.success())
        );
        // The exit was seen without reaping: the process id stays in use.
        assert!(group_members(id).contains(&id));
        drop(child);
        assert_no_group(id);
    });
}

#[test]
fn grandchild_that_finishes_in_time_is_not_signalled() {
    with_deadline(|| {
        let script = "exec 3<&0; (cat <&3 >/dev/null; sleep 0.1; echo done >&2) & echo ready; exit 0";
        let mut child = sh(script).spawn().unwrap();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        let report = child.shutdown(
            Some(io),
            ShutdownTimeouts {
                stragglers: Duration::from_secs(60),
                ..ShutdownTimeouts::uniform(crate::support::DEADLINE)
            },
        );
        assert_eq!((report.stage, report.had_stragglers), (ShutdownStage::Exited, false));
        assert_eq!(report.stderr_tail, "done");
    });
}

#[test]
fn dropping_a_child_kills_its_group() {
    with_deadline(|| {
        let mut child = sh("trap '' TERM; sleep 1000 & echo ready; sleep 1000").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        drop(child);
        // Immediately: the drop itself reaps the server.
        assert!(!group_members(id).contains(&id));
        assert_no_group(id);
        assert_eq!(read_until(&mut io, |_| false), b"");
        assert!(is_peer_gone(&io.write(b"x").unwrap_err()));
    });
}

#[test]
fn stderr_flood_does_not_block_stdout() {
    with_deadline(|| {
        let script = "yes 0123456789 | head -c 5000000 >&2; echo last words >&2; echo done; cat";
        let mut child = sh(script).spawn().unwrap();
        let mut io = child.take_io().unwrap();
        // Waiting for stdout alone is enough.
        assert_eq!(read_until(&mut io, ends_with_newline), b"done\n");
        let words = child.stderr_tail();
        assert!(words.len() <= 8 * 1024 && words.ends_with("last words"), "{words}");
        assert_eq!(child.shutdown(Some(io), ShutdownTimeouts::default()).stage, ShutdownStage::Exited);
    });
}

#[test]
fn endless_stderr_flood_does_not_extend_a_timeout() {
    with_deadline(|| {
        let mut child = sh("trap '' TERM; yes >&2").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        let started = Instant::now();
        // The timeout holds despite the flood.
        assert!(io.wait(Interest::READ, Some(Duration::from_millis(50))).unwrap().is_empty());
        assert!(started.elapsed() >= Duration::from_millis(50));
        assert!(child.shutdown(Some(io), short_timeouts()).stage >= ShutdownStage::Terminated);
        assert_no_group(id);
    });
}

#[test]
fn waker_ends_a_wait_despite_stderr_output() {
    with_deadline(|| {
        for script in ["cat", "yes flood >&2"] {
            let mut child = sh(script).spawn().unwrap();
            let mut io = child.take_io().unwrap();
            let waker = io.waker().unwrap();
            for turn in 0..20 {
                let waker = waker.clone();
                let other = thread::spawn(move || {
                    if turn % 2 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                    waker.wake();
                });
                assert!(io.wait(Interest::READ, None).unwrap().is_empty());
                other.join().unwrap();
            }
            child.shutdown(Some(io), short_timeouts());
        }
    });
}

#[test]
fn external_loop_can_drain_stderr() {
    with_deadline(|| {
        let mut child = sh("echo oops >&2; exec 2>&-; cat").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        assert!(io.descriptors().read.is_some() && io.descriptors().write.is_some());
        // Repeat until the end of stderr was seen; readable or not, this does not wait.
        while io.descriptors().auxiliary.is_some() {
            assert!(io.wait(Interest::default(), Some(Duration::ZERO)).unwrap().is_empty());
        }
        assert_eq!(child.stderr_tail(), "oops");
        io.shutdown_write().unwrap();
        assert!(io.descriptors().write.is_none());
        child.shutdown(Some(io), short_timeouts());
    });
}

#[test]
fn killed_server_leaves_its_partial_line_and_status() {
    with_deadline(|| {
        let mut child = sh("printf '{\"half'; echo 'cannot go on' >&2; kill -9 $$").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        assert_eq!(read_until(&mut io, |_| false), b"{\"half");
        let ProcessStatus::Exited(Some(status)) = child.wait_timeout(crate::support::DEADLINE) else {
            panic!("the server is still running")
        };
        assert_eq!(status.to_string(), "signal: 9 (SIGKILL)");
        assert_eq!(child.stderr_tail(), "cannot go on");
        let report = child.shutdown(Some(io), ShutdownTimeouts::default());
        assert_eq!((report.stage, report.status), (ShutdownStage::Exited, Some(status)));
    });
}

#[test]
fn shutdown_can_be_polled_step_by_step() {
    with_deadline(|| {
        let clock = Clock::start();
        let mut child = sh("echo ready; while read x; do :; done; echo late; sleep 1000").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        assert_eq!(read_until(&mut io, ends_with_newline), b"ready\n");
        let started_at = clock.now();
        let mut shutdown =
            child.begin_shutdown(Some(io), ShutdownTimeouts::uniform(Duration::from_secs(1000)), started_at);
        // Output of a server after the end of its input can still be read.
        assert_eq!(read_until(shutdown.io_mut().unwrap(), ends_with_newline), b"late\n");
        let now = clock.now();
        let ShutdownStep::Wait(until) = shutdown.poll(now) else { panic!("done too early") };
        assert!(until > now && until <= now + Duration::from_millis(32));
        // Time is an argument: a thousand seconds pass at once.
        let later = started_at + Duration::from_secs(1000);
        let mut report = None;
        eventually("terminated", || match shutdown.poll(later) {
            ShutdownStep::Done(done) => {
                report = Some(done);
                true
            }
            ShutdownStep::Wait(_) => false,
        });
        let report = report.unwrap();
        assert_eq!(report.stage, ShutdownStage::Terminated);
        assert_eq!(shutdown.poll(later), ShutdownStep::Done(report));
        assert_no_group(id);
    });
}

#[test]
fn dropping_a_shutdown_kills_the_group() {
    with_deadline(|| {
        let mut child = sh("echo ready; sleep 1000").spawn().unwrap();
        let id = child.id();
        let mut io = child.take_io().unwrap();
        read_until(&mut io, ends_with_newline);
        drop(child.begin_shutdown(Some(io), ShutdownTimeouts::default(), Clock::start().now()));
        assert_no_group(id);
    });
}

#[test]
fn child_io_carries_ten_megabytes_both_ways() {
    with_deadline(|| {
        let mut child = sh("cat").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        assert_eq!(pump(&mut io, 10_000_000), 10_000_000);
        assert_eq!(io.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        assert_eq!(child.shutdown(Some(io), ShutdownTimeouts::default()).stage, ShutdownStage::Exited);
    });
}

#[test]
fn write_to_a_server_that_never_reads_would_block() {
    with_deadline(|| {
        let mut child = sh("sleep 1000").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        let mut total = 0;
        let error = loop {
            match io.write(&[b'x'; 10_000]) {
                Ok(n) => total += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(total > 0);
        assert!(io.wait(Interest::BOTH, Some(Duration::from_millis(5))).unwrap().is_empty());
        assert!(child.shutdown(Some(io), ShutdownTimeouts::IMMEDIATE).stage >= ShutdownStage::Terminated);
    });
}

fn output(mut child: Child) -> String {
    let mut io = child.take_io().unwrap();
    io.shutdown_write().unwrap();
    String::from_utf8(read_until(&mut io, |_| false)).unwrap()
}

#[test]
fn server_gets_its_environment_and_directory() {
    with_deadline(|| {
        let names = |program: Program| -> Vec<String> {
            let env = output(program.spawn().unwrap());
            env.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
        };
        let by_default = names(Program::new("env"));
        assert!(by_default.iter().any(|name| name == "PATH"));
        assert!(!by_default.iter().any(|name| name.starts_with("CARGO")), "{by_default:?}");
        // Cargo sets many variables for a test; there may be none if the test runs without cargo.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut variables = variables.filter(|(_, value)| !value.is_empty() && !value.starts_with("()"));
        let secret = variables.find(|(name, _)| !by_default.contains(name)).map(|(name, _)| name);
        let named = names(Program::new("env").inherit_env(&secret).env("MINE", "1"));
        assert!(secret.is_none_or(|secret| named.contains(&secret)));
        assert!(named.iter().any(|name| name == "MINE"));
        assert_eq!(names(Program::new("env").env("GONE", "1").clear_env().env("MINE", "1")), ["MINE"]);
        assert_eq!(output(Program::new("pwd").current_dir("/").spawn().unwrap()), "/\n");
    });
}

#[test]
fn arguments_are_passed_without_a_shell() {
    with_deadline(|| {
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        let program = Program::new("printf").args(["%s|", "$HOME", "a b", "`id`\u{1b}", ";"]).before_spawn(
            move |launch| {
                *shown.lock().unwrap() = launch.to_string();
                assert_eq!(launch.argv().count(), 6);
                assert!(launch.environment().any(|(key, _)| key == "PATH"));
                Ok(())
            },
        );
        assert_eq!(output(program.spawn().unwrap()), "$HOME|a b|`id`\u{1b}|;|");
        assert_eq!(*seen.lock().unwrap(), r#""printf" "%s|" "$HOME" "a b" "`id`\u{1b}" ";""#);
    });
}

#[test]
fn stderr_goes_to_a_given_handle() {
    with_deadline(|| {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let program = sh("echo one >&2").stderr(Stderr::handle(writer));
        // More than once: a server may be started again.
        for _ in 0..2 {
            let child = program.spawn().unwrap();
            assert!(child.captured_stderr().is_none());
            assert_eq!(child.shutdown(None, ShutdownTimeouts::default()).stderr_tail, "");
        }
        drop(program);
        let mut all = String::new();
        File::from(reader).read_to_string(&mut all).unwrap();
        assert_eq!(all, "one\none\n");
    });
}

#[test]
fn bare_pipes_can_be_taken() {
    with_deadline(|| {
        let mut child = sh("cat; echo end >&2").spawn().unwrap();
        let (stdin, mut stdout) = child.take_pipes().unwrap();
        assert_eq!(child.take_io().unwrap_err().kind(), ErrorKind::InvalidInput);
        std::io::Write::write_all(&mut &stdin, b"hi").unwrap();
        drop(stdin);
        let mut all = String::new();
        stdout.read_to_string(&mut all).unwrap();
        assert_eq!(all, "hi");
        assert_eq!(child.shutdown(None, ShutdownTimeouts::default()).stderr_tail, "end");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn input_that_a_program_leaves_unread_is_known() {
    // The last one has ended before anything is written to it.
    for (script, pause, is_unread) in
        [("exit 3", 0, true), ("read l; exit 3", 0, false), ("exit 3", 300, true)]
    {
        let mut child = sh(script).spawn().unwrap();
        let mut io = child.take_io().unwrap();
        thread::sleep(Duration::from_millis(pause));
        let _ = io.write(b"hello\n");
        assert!(matches!(child.wait_timeout(Duration::from_secs(10)), ProcessStatus::Exited(_)));
        assert_eq!(io.has_unread_input(), is_unread, "{script}");
    }
}

#[test]
fn spawn_error_names_kind_and_remedy() {
    let dir = std::env::temp_dir().join(format!("mcp-std-spawn-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let cases = [
        (Program::new("mcp-no-such-program"), SpawnErrorKind::NotFound, "on PATH"),
        (Program::new("/no/such/program"), SpawnErrorKind::NotFound, "no such program"),
        (Program::new("cat").current_dir("/no/such/dir"), SpawnErrorKind::Directory, "/no/such/dir"),
        (Program::new(file("plain", "text", 0o644)), SpawnErrorKind::NotPermitted, "chmod +x"),
        (Program::new(&dir), SpawnErrorKind::NotPermitted, "directory"),
        (
            Program::new(file("script", "#!/no/such/sh\n", 0o755)),
            SpawnErrorKind::NotExecutable,
            "interpreter",
        ),
        (
            Program::new(file("junk", "\u{1}\u{2}\u{3}\0", 0o755)),
            SpawnErrorKind::NotExecutable,
            "this kind of machine",
        ),
        (Program::new("cat").arg("a\0b"), SpawnErrorKind::Other, "nul byte"),
        (
            Program::new("cat").before_spawn(|_| Err(std::io::Error::other("the user said no"))),
            SpawnErrorKind::Refused,
            "the user said no",
        ),
    ];
    for (program, kind, hint) in cases {
        let error = program.spawn().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(hint) && text.contains(error.program()), "{text}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Helper process of the next test: starts servers, calls `terminate_all`, and exits without dropping them.
#[test]
#[ignore = "helper process of the next test"]
fn helper_exits_without_dropping() {
    let mut children: Vec<Child> = [
        "echo on >&2; exec sleep 1000",
        "trap '' TERM; echo on >&2; while :; do sleep 1000; done",
        "trap 'exit 0' TERM; sleep 1000 & echo on >&2; wait",
    ]
    .map(|script| sh(script).spawn().unwrap())
    .into();
    for child in &mut children {
        eventually("it runs", || {
            child.captured_stderr().unwrap().drain();
            !child.stderr_tail().is_empty()
        });
        println!("started {}", child.id());
    }
    // One that was shut down, and one whose exit was not collected.
    sh("exit 0").spawn().unwrap().shutdown(None, short_timeouts());
    children.push(sh("exit 0").spawn().unwrap());
    terminate_all(Duration::from_millis(200));
    let refused = sh("exit 0").spawn().unwrap_err();
    assert!(refused.to_string().contains("terminate_all"), "{refused}");
    // Exits without drops.
    std::process::exit(0);
}

#[test]
fn terminate_all_leaves_no_process_behind() {
    with_deadline(|| {
        let started_at = Instant::now();
        let report = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["child::helper_exits_without_dropping", "--exact", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        assert!(started_at.elapsed() < Duration::from_secs(60), "waited for servers that do not exit");
        let output = String::from_utf8(report.stdout).unwrap();
        let started: Vec<u32> = output
            .lines()
            .filter_map(|line| line.rsplit_once("started ").map(|(_, id)| id.parse().unwrap()))
            .collect();
        assert!(report.status.success() && started.len() == 3, "{output}");
        started.into_iter().for_each(assert_no_group);
    });
}
