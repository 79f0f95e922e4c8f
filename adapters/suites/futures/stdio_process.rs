//! Suite: a server as a process, with each kind of stdin and stdout.
//!
//! `crate::adapter` names the adapter under test.

use core::time::Duration;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::adapter::EXAMPLE;
use crate::support::{INITIALIZE, call_line, example, response_ids, with_timeout};

fn echo(id: u32, text: &str) -> String {
    call_line(id, "echo").replace("\"_meta\"", &format!("\"arguments\":{{\"text\":\"{text}\"}},\"_meta\""))
}

fn temporary_path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("{}-{}-{name}", env!("CARGO_PKG_NAME"), std::process::id()))
}

// covers: STDIO-001, STDIO-020, STDIO-021
#[test]
fn server_serves_pipes_files_sockets_and_null() {
    with_timeout(|| {
        let input = format!("{INITIALIZE}{}{}", echo(1, "one"), echo(2, "two"));
        // Pipes.
        let mut server =
            Command::new(example(EXAMPLE)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        server.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = server.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(response_ids(&String::from_utf8(output.stdout).unwrap()), [0, 1, 2]);

        // Files, which the reactor does not support.
        let (requests, answers) = (temporary_path("requests"), temporary_path("answers"));
        std::fs::write(&requests, &input).unwrap();
        let status = Command::new(example(EXAMPLE))
            .stdin(File::open(&requests).unwrap())
            .stdout(File::create(&answers).unwrap())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(response_ids(&std::fs::read_to_string(&answers).unwrap()), [0, 1, 2]);
        let _ = std::fs::remove_file(answers);

        // More output to a file than fits between the server and the thread that writes it.
        let answers = temporary_path("large");
        let large = "0123456789".repeat(200_000);
        std::fs::write(&requests, format!("{INITIALIZE}{}{}", echo(1, &large), echo(2, &large))).unwrap();
        let status = Command::new(example(EXAMPLE))
            .stdin(File::open(&requests).unwrap())
            .stdout(File::create(&answers).unwrap())
            .status()
            .unwrap();
        assert!(status.success());
        let output = std::fs::read_to_string(&answers).unwrap();
        assert_eq!(response_ids(&output), [0, 1, 2]);
        assert!(output.len() > 2 * large.len());

        // A file, and a reader that closes early: the server ends without an error.
        let mut server = Command::new(example(EXAMPLE))
            .stdin(File::open(&requests).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        server.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let output = server.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");

        // A device that takes nothing.
        #[cfg(target_os = "linux")]
        {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = Command::new(example(EXAMPLE))
                .stdin(File::open(&requests).unwrap())
                .stdout(full)
                .stderr(Stdio::piped())
                .output()
                .unwrap();
            assert!(!output.status.success());
            assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
        }
        let _ = (std::fs::remove_file(requests), std::fs::remove_file(answers));

        // One socket for both directions.
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let handles = [far.try_clone().unwrap(), far].map(std::os::fd::OwnedFd::from);
        let [stdin, stdout] = handles;
        let mut server = Command::new(example(EXAMPLE)).stdin(stdin).stdout(stdout).spawn().unwrap();
        near.write_all(input.as_bytes()).unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let mut output = String::new();
        near.read_to_string(&mut output).unwrap();
        assert_eq!(response_ids(&output), [0, 1, 2]);
        assert!(server.wait().unwrap().success());

        // The null device.
        let status =
            Command::new(example(EXAMPLE)).stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
    });
}

// covers: STDIO-021
#[test]
fn server_ends_without_error_when_stdout_closes() {
    with_timeout(|| {
        let mut server = Command::new(example(EXAMPLE))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = server.stdin.take().unwrap();
        drop(server.stdout.take());
        // No signal ends the server, and it reports nothing. A process that another test is starting may hold our end
        // of the pipe for a moment: then the first responses are still written.
        let _ = stdin.write_all(INITIALIZE.as_bytes());
        for n in 1.. {
            let _ = stdin.write_all(echo(n, "one").as_bytes());
            if server.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = server.wait_with_output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        drop(stdin);
    });
}

#[test]
fn large_messages_pass_through_pipes() {
    with_timeout(|| {
        let large = "0123456789".repeat(1_000_000);
        let mut server =
            Command::new(example(EXAMPLE)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = server.stdin.take().unwrap();
        let input = format!("{INITIALIZE}{}{}", echo(1, &large), echo(2, &large));
        let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
        let mut output = String::new();
        server.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        writing.join().unwrap();
        assert_eq!(response_ids(&output), [0, 1, 2]);
        assert!(output.len() > 2 * large.len());
        assert!(server.wait().unwrap().success());
    });
}
