//! A server that a user starts in a terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::support::PROBE;

#[test]
fn server_on_terminal_prints_a_usage_hint() {
    for runtime in ["blocking", "threads", "smol"] {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let terminal_path = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let mut server = Command::new(PROBE)
            .args(["serve", "--runtime", runtime])
            .stdin(File::options().read(true).write(true).open(terminal_path).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(server.stderr.take().unwrap());
        let mut hint = String::new();
        stderr.read_line(&mut hint).unwrap();
        for words in ["mcp-probe serve", "from stdin", "JSON-RPC", "Ctrl-D", "--help"] {
            assert!(hint.contains(words), "{hint}");
        }
        // It still serves, line by line.
        let mut typed = File::from(controller);
        let mut output = BufReader::new(server.stdout.take().unwrap());
        for id in 1..3 {
            let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            typed.write_all(format!("{ping}\n").as_bytes()).unwrap();
            let mut answer = String::new();
            output.read_line(&mut answer).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["id"], id);
        }
        // Ctrl-D.
        typed.write_all(b"\x04").unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(server.wait().unwrap().success());
    }
}
