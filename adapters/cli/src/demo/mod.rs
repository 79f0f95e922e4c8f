//! `demo`: a tour of a session in each era, every step of it checked

mod steps;
mod talk;
mod wire;

use core::time::Duration;
use core::{fmt, iter};
use std::env;
use std::ffi::OsString;
use std::time::Instant;

use clap::ValueEnum;
use mcp_proto::{Capabilities, Capability, Version, VersionSet};

use crate::args::{self, EraChoice, Runtime, StderrChoice};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::print;
use crate::paint::Paint;
use crate::session;
use steps::Wrong;
use wire::Wire;

/// A step of the tour, in its order; also what a server can be told to do wrong
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    Negotiate,
    List,
    Call,
    Error,
    Progress,
    Ask,
    Change,
    Cancel,
    Timeout,
    End,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negotiate => "negotiate",
            Self::List => "list",
            Self::Call => "call",
            Self::Error => "error",
            Self::Progress => "progress",
            Self::Ask => "ask",
            Self::Change => "change",
            Self::Cancel => "cancel",
            Self::Timeout => "timeout",
            Self::End => "end",
        })
    }
}

pub(crate) fn run(args: &args::Demo) -> Result<(), Failure> {
    let begun = Instant::now();
    let paint = Paint::for_stdout();
    print(
        "Our client starts our server as a child process and talks to it over its stdin and stdout.\n\
           → is what the client says, ← what the server says; … stands for what is left out here.\n",
    )?;
    let mut eras = 0;
    for version in [Version::V2026_07_28, Version::V2025_11_25] {
        if args.era.set().contains(version) {
            Tour { version, runtime: args.runtime, broken: args.broken, paint }.walk()?;
            eras += 1;
        }
    }
    let eras = if eras == 1 { "one era".to_owned() } else { format!("{eras} eras") };
    print(&format!(
        "\n{} every step went as it should, in {eras}, in {:.1} s.\nNext: mcp-probe inspect -- YOUR-SERVER\n",
        paint.good("✓"),
        begun.elapsed().as_secs_f64()
    ))
}

/// A walk through one session
struct Tour {
    version: Version,
    runtime: Runtime,
    broken: Option<Step>,
    paint: Paint,
}

impl Tour {
    fn walk(&self) -> Result<(), Failure> {
        let about = match self.version.era() {
            mcp_proto::Era::Modern => "no handshake, every request says all that there is to know",
            mcp_proto::Era::Legacy => "a handshake, then a session",
        };
        let title = format!("The {} era ({}): {about}", self.version.era(), self.version);
        let serve = self.server_args();
        print(&format!("\n{}\n  $ mcp-probe {}\n", self.paint.bold(title), serve.join(" ")))?;

        let wire = Wire::new(self.paint);
        let mut client = self.step(Step::Negotiate, "they agree on a revision", || {
            let mut client = self.connect(&wire, serve)?;
            let found = steps::negotiated(&mut client, &wire, self.version)?;
            Ok((client, found))
        })?;
        let client_steps: [(Step, &str, steps::Run); 8] = [
            (Step::List, "what tools are there?", steps::list),
            (Step::Call, "text goes through unharmed, and a sum comes as a value", steps::call),
            (Step::Error, "a tool that fails, and a tool that does not exist", steps::error),
            (Step::Progress, "a call that takes its time and says how far it is", steps::progress),
            (Step::Ask, "a call that asks the user something before it goes on", talk::ask),
            (Step::Change, "a resource that is followed, and changes", talk::change),
            (Step::Cancel, "a call that nobody wants any more", steps::cancel),
            (Step::Timeout, "a call that takes too long", steps::timeout),
        ];
        for (step, about, run) in client_steps {
            self.step(step, about, || Ok(((), run(&mut client, &wire)?)))?;
        }
        self.step(Step::End, "the client closes the server's stdin and waits for it to end", || {
            Ok(((), steps::end(client)?))
        })
    }

    /// Announces a step, does it, and says what came of it
    fn step<T>(
        &self,
        step: Step,
        about: &str,
        run: impl FnOnce() -> Result<(T, String), Wrong>,
    ) -> Result<T, Failure> {
        let paint = self.paint;
        print(&format!("\n{}. {}: {about}\n", step as u32 + 1, paint.bold(step)))?;
        match run() {
            Ok((value, found)) => {
                print(&format!("   {} {}\n", paint.good("✓"), crate::escape::line(&found)))?;
                Ok(value)
            }
            Err(Wrong(why)) => {
                print(&format!("   {} failed\n", paint.bad("✗")))?;
                Err(Failure::failed(format!(
                    "step \"{step}\" failed: {why} ({} era, revision {})",
                    self.version.era(),
                    self.version
                )))
            }
        }
    }

    fn server_args(&self) -> Vec<String> {
        let mut args = vec!["serve".to_owned(), "--everything".into()];
        args.extend(match self.version {
            Version::V2026_07_28 => ["--era".to_owned(), EraChoice::Modern.to_string()],
            version => ["--protocol-version".to_owned(), version.to_string()],
        });
        if self.runtime != Runtime::default() {
            let name = self.runtime.to_possible_value();
            args.extend([
                "--runtime".into(),
                name.map_or_else(String::new, |name| name.get_name().to_owned()),
            ]);
        }
        if let Some(step) = self.broken {
            args.extend(["--break".into(), step.to_string()]);
        }
        args
    }

    fn connect(&self, wire: &Wire, serve: Vec<String>) -> Result<Client, Wrong> {
        let this = env::current_exe().map_err(|error| format!("cannot find our own program: {error}"))?;
        let config = session::config(VersionSet::only(self.version), CALL_TIMEOUT, CONNECT_TIMEOUT, true);
        let config = config.capabilities(Capabilities::new().with(Capability::ElicitationForm));
        let server: Vec<OsString> =
            iter::once(this.into()).chain(serve.into_iter().map(Into::into)).collect();
        let way = session::Way {
            server: &server,
            bearer: None,
            stderr: StderrChoice::default(),
            env: &[],
            heads: false,
        };
        let opened = Client::open(self.runtime, &way, config, wire.clone(), session::PATIENCE);
        // Our own program is no URL, and nothing is passed on that could be missing.
        Ok(opened.map_err(|_| "our own program cannot be named")??)
    }
}

/// Far more than any call of the tour takes, also on a busy machine
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
