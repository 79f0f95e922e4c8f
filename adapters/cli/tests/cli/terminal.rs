//! The server of somebody who has started it by hand, in a terminal

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::support::PROBE;

#[test]
fn who_starts_a_server_in_a_terminal_is_told_what_it_expects() {
    for runtime in ["blocking", "threads", "smol"] {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let mut server = Command::new(PROBE)
            .args(["serve", "--runtime", runtime])
            .stdin(File::options().read(true).write(true).open(theirs).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap());
        let mut hint = String::new();
        said.read_line(&mut hint).unwrap();
        for words in ["mcp-probe serve", "from stdin", "JSON-RPC", "Ctrl-D", "--help"] {
            assert!(hint.contains(words), "{hint}");
        }
        // It serves all the same, line by line.
        let mut typed = File::from(ours);
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
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(server.wait().unwrap().success());
    }
}
