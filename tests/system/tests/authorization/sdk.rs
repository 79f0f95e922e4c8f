//! The protected servers and the authorizing clients of the official SDKs.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::hosted_server::HostedServer;
use crate::peers::{
    is_node_ready, is_python_ready, is_rmcp_ready, node, python, python_program, rmcp_program,
};
use crate::run::{DEADLINE, ProcessOutput, command, run};

/// An official SDK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sdk {
    TypeScript,
    Python,
    Rmcp,
}

impl Sdk {
    pub(crate) const ALL: [Self; 3] = [Self::TypeScript, Self::Python, Self::Rmcp];

    /// Returns whether the peers of the SDK can run. If not, prints a warning, and fails if `CI` is `true`.
    pub(crate) fn is_ready(self) -> bool {
        match self {
            Self::TypeScript => is_node_ready(),
            Self::Python => is_python_ready(),
            Self::Rmcp => is_rmcp_ready(),
        }
    }

    fn command(self, program: &str) -> Command {
        match self {
            Self::TypeScript => {
                let mut words = command(["node".to_owned(), format!("auth-{program}.mjs")]);
                words.current_dir(node());
                words
            }
            Self::Python => {
                let mut words = Command::new(python_program());
                words.current_dir(python()).arg(format!("auth_{program}.py"));
                words
            }
            Self::Rmcp => {
                let mut words = Command::new(rmcp_program());
                words.arg(format!("auth-{program}"));
                words
            }
        }
    }

    /// Starts the protected server of the SDK, which accepts access tokens of an issuer.
    pub(crate) fn start_server(self, issuer: &str) -> HostedServer {
        self.start_server_with(issuer, &[])
    }

    /// Starts the protected server of the SDK with further options.
    pub(crate) fn start_server_with(self, issuer: &str, options: &[&str]) -> HostedServer {
        let mut words = self.command("server");
        words.args(["--issuer", issuer]).args(options);
        HostedServer::start(words)
    }

    /// Runs the client of the SDK with a server.
    pub(crate) fn run_client(self, era: &str, options: &[&str], url: &str) -> ProcessOutput {
        let mut words = self.command("client");
        words.args(["--era", era]).args(options).args(["--", url]);
        run(words, DEADLINE).expect("it starts")
    }

    /// Runs the client of the SDK with the scripted browser and returns its steps. It must succeed.
    pub(crate) fn authorize(self, era: &str, options: &[&str], url: &str) -> Vec<Value> {
        let browser = browser_command();
        let mut all = vec!["--browser", &browser];
        all.extend_from_slice(options);
        steps(&self.run_client(era, &all, url).assert_success())
    }
}

/// Returns the scripted browser as a command line, in quotes: its path may have spaces.
pub(crate) fn browser_command() -> String {
    format!("'{}'", browser_program())
}

/// Returns the program of the scripted browser.
pub(crate) fn browser_program() -> &'static str {
    let program = env!("CARGO_BIN_EXE_scripted-browser");
    assert!(Path::new(program).exists(), "{program}");
    program
}

/// Returns the steps that a client has printed.
pub(crate) fn steps(output: &ProcessOutput) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    output.stdout.lines().map(parse).collect()
}

/// Returns the steps of one kind.
pub(crate) fn of_kind<'a>(steps: &'a [Value], kind: &str) -> Vec<&'a Value> {
    steps.iter().filter(|step| step["step"] == kind).collect()
}

/// Returns what `whoami` has answered, for each of its calls.
pub(crate) fn identities(steps: &[Value]) -> Vec<Value> {
    let calls = of_kind(steps, "call").into_iter().filter(|call| call["tool"] == "whoami");
    calls.map(|call| serde_json::from_str(call["text"].as_str().expect("a text")).expect("JSON")).collect()
}
