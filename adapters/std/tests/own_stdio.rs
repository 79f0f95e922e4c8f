//! This process' own stdin and stdout: the program starts itself as the helper whose handles are tried

mod support;

#[cfg(unix)]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("helper-echo") => unix::helper_echo(),
        Some("helper-guarded") => unix::helper_guarded(),
        Some("helper-end") => unix::helper_end(),
        // What test runners pass on is not for us, but for `--list` there is nothing to list.
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

    use mcp_std::child::{Child, How, Patience, Program, Stderr};
    use mcp_std::{Duplex, Interest, Socket, Stdio, guard_stdout};

    use crate::support::{in_time, pump, read_until};

    pub(crate) fn all() {
        for (name, test) in [
            ("pipes_both_ways", pipes_both_ways as fn()),
            ("socket_both_ways", socket_both_ways),
            ("file_to_file", file_to_file),
            ("prints_go_to_stderr", prints_go_to_stderr),
            ("end_reaches_the_peer", end_reaches_the_peer),
        ] {
            in_time(test);
            println!("{name} ... ok");
        }
    }

    fn myself(mode: &str) -> Program {
        Program::new(std::env::current_exe().unwrap()).arg(mode).stderr(Stderr::Capture)
    }

    fn pipes_both_ways() {
        let mut child = myself("helper-echo").spawn().unwrap();
        let mut io = child.take_io().unwrap();
        assert_eq!(pump(&mut io, 10_000_000), 10_000_000);
        assert_eq!(child.shutdown(Some(io), Patience::default()).how, How::Exited);
    }

    /// As Node starts servers: one socket for each handle
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

    fn file_to_file() {
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

    fn said(mut child: Child) -> (String, String) {
        let mut io = child.take_io().unwrap();
        io.write(b"for the stream alone\n").unwrap();
        io.shutdown_write().unwrap();
        let out = read_until(&mut io, |_| false);
        let ended = child.shutdown(Some(io), Patience::default());
        assert!(ended.status.unwrap().success(), "{}", ended.last_words);
        (String::from_utf8(out).unwrap(), ended.last_words)
    }

    fn prints_go_to_stderr() {
        let (out, err) = said(myself("helper-guarded").spawn().unwrap());
        assert_eq!(out, "before\nframe\nfor the stream alone\nafter\n");
        assert_eq!(err, "stray\nby a child\nunfinished");
    }

    fn end_reaches_the_peer() {
        for how in ["open", "guarded"] {
            let mut child = myself("helper-end").arg(how).spawn().unwrap();
            let mut io = child.take_io().unwrap();
            // The end comes while the helper lives: it waits for the end of its own input.
            assert_eq!(read_until(&mut io, |_| false), b"frame\n");
            assert_eq!(child.life(), mcp_std::child::Life::Running);
            assert_eq!(child.shutdown(Some(io), Patience::default()).how, How::Exited);
        }
    }

    /// Sends everything back, never holding more than 1 MB
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
            // Starting a process with our stdin and stdout neither eats the stream nor writes into it.
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
