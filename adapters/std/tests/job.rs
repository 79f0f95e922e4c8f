//! Servers on Windows that start processes of their own: the program starts itself as both.
//!
//! Each process of a job holds a connection to the test. It ends with the process, so no process ids are needed.

#[cfg(windows)]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("server") => windows::server(),
        Some("grandchild") => windows::grandchild(),
        Some("host") => windows::host(),
        // Arguments of test runners are ignored; `--list` prints nothing.
        Some("--list") => {}
        _ => windows::all(),
    }
}

#[cfg(not(windows))]
fn main() {}

#[cfg(windows)]
mod windows {
    use core::time::Duration;
    use std::env;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::thread;
    use std::time::Instant;

    use mcp_std::process::{Child, ProcessStatus, Program, ShutdownStage, ShutdownTimeouts, Stderr};

    const PATIENCE: Duration = Duration::from_secs(30);
    /// Arguments of a server: what it does after it has started the other process.
    const STAY: &str = "stay";
    const LEAVE: &str = "leave";

    pub(crate) fn all() {
        for (name, test) in [
            ("obedient_server_without_others_is_gone_at_once", obedient_server_is_gone as fn()),
            ("dropped_child_kills_grandchildren", dropped_child_kills_grandchildren),
            ("shutdown_kills_server_and_grandchildren", shutdown_kills_all),
            ("grandchild_that_outlives_its_server_is_a_straggler", outliving_grandchild_is_a_straggler),
            ("killed_host_takes_its_servers_along", killed_host_takes_its_servers_along),
            ("program_that_does_not_exist_is_refused", missing_program_is_refused),
            ("name_is_completed_by_the_extension_of_a_batch_file", name_is_completed),
            ("argument_that_a_shell_could_run_is_refused_or_passed_unchanged", arguments_stay_arguments),
        ] {
            test();
            println!("{name} ... ok");
        }
    }

    /// Connects to the test, says its name, and stays.
    fn report(name: &str) -> TcpStream {
        let mut stream = TcpStream::connect(env::var("JOB_TEST").expect("the address")).expect("the test");
        stream.write_all(name.as_bytes()).expect("the name");
        stream
    }

    #[expect(clippy::zombie_processes, reason = "the test is that others end it")]
    pub(crate) fn server() {
        let _connection = report("s");
        let mut other = Command::new(env::current_exe().expect("this program"));
        other.arg("grandchild").spawn().expect("a process");
        if env::args().nth(2).as_deref() == Some(STAY) {
            thread::sleep(PATIENCE * 2);
        } else {
            // Until the end of the input, as servers do.
            let _ = std::io::stdin().read(&mut [0; 1]);
        }
    }

    pub(crate) fn grandchild() {
        let _connection = report("g");
        thread::sleep(PATIENCE * 2);
    }

    /// Starts a server and stays.
    pub(crate) fn host() {
        let _child = start(STAY, &env::var("JOB_TEST").expect("the address"));
        thread::sleep(PATIENCE * 2);
    }

    fn start(mode: &str, address: &str) -> Child {
        let program = Program::new(env::current_exe().expect("this program"));
        program
            .arg("server")
            .arg(mode)
            .env("JOB_TEST", address)
            .stderr(Stderr::Inherit)
            .spawn()
            .expect("a server")
    }

    fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        (listener, address)
    }

    /// Waits until the server and the process that it starts have connected.
    fn accept_both(listener: &TcpListener) -> [TcpStream; 2] {
        let mut streams = [(); 2].map(|()| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let mut name = [0];
            stream.read_exact(&mut name).expect("a name");
            (name[0], stream)
        });
        streams.sort_by_key(|(name, _)| *name != b's');
        assert_eq!(streams.each_ref().map(|(name, _)| *name), *b"sg");
        streams.map(|(_, stream)| stream)
    }

    /// Waits until the process at the other end has ended.
    fn assert_ends(mut stream: TcpStream) {
        match stream.read(&mut [0; 1]) {
            Ok(0) => {}
            Ok(_) => panic!("the process has written"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the process still runs: {error}")
            }
        }
    }

    fn assert_runs(stream: &mut TcpStream) {
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let error = stream.read(&mut [0; 1]).expect_err("the process has ended");
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    }

    fn obedient_server_is_gone() {
        let child =
            Program::new(env::current_exe().expect("this program")).arg("--list").spawn().expect("a process");
        let begun = Instant::now();
        let report = child.shutdown(None, ShutdownTimeouts::uniform(2 * PATIENCE));
        assert_eq!((report.stage, report.had_stragglers), (ShutdownStage::Exited, false));
        assert!(report.status.expect("a status").success());
        assert!(begun.elapsed() < PATIENCE, "waited although nothing was left");
    }

    fn dropped_child_kills_grandchildren() {
        let (listener, address) = listen();
        let mut child = start(STAY, &address);
        let [server, mut grandchild] = accept_both(&listener);
        assert_runs(&mut grandchild);
        assert_eq!(child.status(), ProcessStatus::Running);
        let begun = Instant::now();
        drop(child);
        assert_ends(server);
        assert_ends(grandchild);
        // They end by themselves after twice this time.
        assert!(begun.elapsed() < PATIENCE, "they were not ended");
    }

    fn shutdown_kills_all() {
        let (listener, address) = listen();
        let child = start(STAY, &address);
        let [server, grandchild] = accept_both(&listener);
        let begun = Instant::now();
        let report = child.shutdown(None, ShutdownTimeouts::uniform(Duration::from_millis(50)));
        assert_eq!(report.stage, ShutdownStage::Killed);
        assert_ends(server);
        assert_ends(grandchild);
        assert!(begun.elapsed() < PATIENCE, "they were not ended");
    }

    fn outliving_grandchild_is_a_straggler() {
        let (listener, address) = listen();
        let child = start(LEAVE, &address);
        let [server, mut grandchild] = accept_both(&listener);
        assert_runs(&mut grandchild);
        let timeouts = ShutdownTimeouts {
            stragglers: Duration::from_millis(200),
            ..ShutdownTimeouts::uniform(PATIENCE)
        };
        let report = child.shutdown(None, timeouts);
        assert_eq!((report.stage, report.had_stragglers), (ShutdownStage::Exited, true));
        assert!(report.status.expect("a status").success());
        assert_ends(server);
        assert_ends(grandchild);
    }

    fn killed_host_takes_its_servers_along() {
        let (listener, address) = listen();
        let mut host = Command::new(env::current_exe().expect("this program"));
        let mut host = host.arg("host").env("JOB_TEST", address).spawn().expect("a process");
        let [server, mut grandchild] = accept_both(&listener);
        assert_runs(&mut grandchild);
        // No destructor runs there: the system closes the job.
        host.kill().expect("a running process");
        host.wait().expect("its end");
        assert_ends(server);
        assert_ends(grandchild);
    }

    /// Makes a folder with a batch file that writes its first argument, and returns the folder.
    fn batch_folder(name: &str) -> std::path::PathBuf {
        let folder = env::temp_dir().join(format!("mcp-batch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("say.cmd"), "@echo off\r\necho said %1\r\n").expect("a batch file");
        // Beside it stands the script for other systems, as for `npx`.
        std::fs::write(folder.join("say"), "#!/bin/sh\n").expect("a script");
        folder
    }

    /// Runs the batch file by its bare name and returns what it writes.
    fn said(folder: &std::path::Path, argument: &str) -> Result<String, mcp_std::process::SpawnError> {
        use mcp_std::io::{Duplex as _, Interest};
        let path = format!("{};{}", folder.display(), env::var("PATH").unwrap_or_default());
        let mut child = Program::new("say").arg(argument).env("PATH", path).stderr(Stderr::Null).spawn()?;
        let mut io = child.take_io().expect("a stream");
        let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
        loop {
            io.wait(Interest::READ, Some(PATIENCE)).expect("input");
            match io.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => text.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        let _ = child.shutdown(Some(io), ShutdownTimeouts::IMMEDIATE);
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn name_is_completed() {
        let folder = batch_folder("name");
        assert_eq!(said(&folder, "plain").expect("it starts"), "said plain");
        std::fs::remove_dir_all(folder).expect("removed");
    }

    fn arguments_stay_arguments() {
        use mcp_std::process::SpawnErrorKind;
        let folder = batch_folder("arguments");
        for argument in ["two words", "a&echo hacked", "\"&echo hacked&\"", "%PATH%", "a\nb", "a|b", "^&calc"]
        {
            match said(&folder, argument) {
                // In quotes, nothing of it is a command of its own line.
                Ok(text) => assert!(
                    text.lines().count() <= 1 && !text.starts_with("hacked"),
                    "{argument:?}: {text:?}"
                ),
                Err(error) => {
                    assert_eq!(error.kind(), SpawnErrorKind::UnsafeArgument, "{argument:?}: {error}");
                    assert!(error.to_string().contains("batch file"), "{error}");
                }
            }
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }

    fn missing_program_is_refused() {
        let error = Program::new("no-such-program-anywhere.exe").spawn().expect_err("no such program");
        assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
    }
}
