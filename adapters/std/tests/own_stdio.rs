//! Stdin and stdout of this process: the program starts itself as the helper process that uses them.

mod support;

#[cfg(unix)]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("helper-echo") => unix::helper_echo(),
        Some("helper-guarded") => unix::helper_guarded(),
        Some("helper-end") => unix::helper_end(),
        // Arguments of test runners are ignored; `--list` prints nothing.
        Some("--list") => {}
        _ => unix::all(),
    }
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{ErrorKind, Write};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use mcp_std::io::{Duplex, Interest, Socket, Stdio, guard_stdout};
    use mcp_std::process::{Child, Program, ShutdownStage, ShutdownTimeouts, Stderr};

    use crate::support::{pump, read_until, with_deadline};

    pub(crate) fn all() {
        for (name, test) in [
            ("pipes_both_ways", pipes_both_ways as fn()),
            ("socket_both_ways", socket_both_ways),
            ("file_to_file_echo", file_to_file_echo),
            ("stray_prints_go_to_stderr", stray_prints_go_to_stderr),
            ("end_of_stream_reaches_the_peer", end_of_stream_reaches_the_peer),
        ] {
            with_deadline(test);
            println!("{name} ... ok");
        }
    }

    fn current_exe(mode: &str) -> Program {
        Program::new(std::env::current_exe().unwrap()).arg(mode).stderr(Stderr::Capture)
    }

    fn pipes_both_ways() {
        let mut child = current_exe("helper-echo").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        assert_eq!(pump(&mut io, 10_000_000), 10_000_000);
        assert_eq!(child.shutdown(Some(io), ShutdownTimeouts::default()).stage, ShutdownStage::Exited);
    }

    /// Uses one socket for both handles, as Node does for its servers.
    fn socket_both_ways() {
        let (near, far) = UnixStream::pair().unwrap();
        let far: std::os::fd::OwnedFd = far.into();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("helper-echo")
            .stdin(far.try_clone().unwrap())
            .stdout(far)
            .spawn()
            .unwrap();
        assert_eq!(pump(&mut Socket::unix(near).unwrap(), 10_000_000), 10_000_000);
        assert!(child.wait().unwrap().success());
    }

    fn file_to_file_echo() {
        let dir = std::env::temp_dir().join(format!("mcp-std-own-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let text = "0123456789\n".repeat(100_000);
        std::fs::write(dir.join("in"), &text).unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .arg("helper-echo")
            .stdin(File::open(dir.join("in")).unwrap())
            .stdout(File::create(dir.join("out")).unwrap())
            .status()
            .unwrap();
        assert!(status.success());
        assert!(std::fs::read_to_string(dir.join("out")).unwrap() == text);
        std::fs::remove_dir_all(dir).unwrap();
    }

    fn captured_output(mut child: Child) -> (String, String) {
        let mut io = child.take_io().unwrap();
        io.write(b"for the stream alone\n").unwrap();
        io.shutdown_write().unwrap();
        let out = read_until(&mut io, |_| false);
        let report = child.shutdown(Some(io), ShutdownTimeouts::default());
        assert!(report.status.unwrap().success(), "{}", report.stderr_tail);
        (String::from_utf8(out).unwrap(), report.stderr_tail)
    }

    fn stray_prints_go_to_stderr() {
        let (out, err) = captured_output(current_exe("helper-guarded").spawn().unwrap());
        assert_eq!(out, "before\nframe\nfor the stream alone\nafter\n");
        assert_eq!(err, "stray\nby a child\nunfinished");
    }

    fn end_of_stream_reaches_the_peer() {
        for mode in ["open", "guarded"] {
            let mut child = current_exe("helper-end").arg(mode).spawn().unwrap();
            let mut io = child.take_io().unwrap();
            // The end arrives while the helper is alive: it waits for the end of its own input.
            assert_eq!(read_until(&mut io, |_| false), b"frame\n");
            assert_eq!(child.status(), mcp_std::process::ProcessStatus::Running);
            assert_eq!(child.shutdown(Some(io), ShutdownTimeouts::default()).stage, ShutdownStage::Exited);
        }
    }

    /// Echoes its input, and buffers at most 1 MB.
    pub(crate) fn helper_echo() {
        let mut io = Stdio::open().unwrap();
        let (mut held, mut buf, mut ended) = (Vec::new(), [0; 10_000], false);
        while !(ended && held.is_empty()) {
            let interest = Interest { read: !ended && held.len() < 1_000_000, write: !held.is_empty() };
            let ready = io.wait(interest, None).unwrap();
            if ready.writable {
                match io.write(&held) {
                    Ok(n) => drop(held.drain(..n)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
                }
            }
            if ready.readable {
                match io.read(&mut buf) {
                    Ok(0) => ended = true,
                    Ok(n) => held.extend_from_slice(&buf[..n]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
                }
            }
        }
    }

    pub(crate) fn helper_guarded() {
        println!("before");
        {
            let mut io = Stdio::guarded().unwrap();
            assert_eq!(guard_stdout().unwrap_err().kind(), ErrorKind::AlreadyExists);
            println!("stray");
            // A process that inherits stdin and stdout neither reads from the stream nor writes to it.
            assert!(Command::new("sh").args(["-c", "cat; echo by a child"]).status().unwrap().success());
            print!("unfinished");
            io.write(b"frame\n").unwrap();
            let input = read_until(&mut io, |_| false);
            io.write(&input).unwrap();
        }
        println!("after");
        drop(guard_stdout().unwrap());
    }

    pub(crate) fn helper_end() {
        let guarded = std::env::args().nth(2).as_deref() == Some("guarded");
        let mut io = if guarded { Stdio::guarded() } else { Stdio::open() }.unwrap();
        io.write(b"frame\n").unwrap();
        io.shutdown_write().unwrap();
        assert_eq!(io.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        println!("too late for the stream");
        std::io::stdout().flush().unwrap();
        read_until(&mut io, |_| false);
    }
}
