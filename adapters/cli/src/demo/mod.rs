//! The `demo` command: a tour of a session in each era, with every step checked.

mod interaction;
mod steps;
mod wire;

use core::iter;
use core::time::Duration;
use std::env;
use std::time::Instant;

use clap::Args;
use mcp_proto::draft::Draft;
use mcp_proto::{Capabilities, Capability, Version, VersionSet};

use crate::args::values::name_of;
use crate::args::{EraChoice, Runtime, StderrChoice};
use crate::client::{self, Client};
use crate::failure::CommandFailure;
use crate::output::print;
use crate::paint::Paint;
use crate::server::{Server, ServerSpec};
use crate::tour::{self, TourStep};
use steps::StepError;
use wire::WireLog;

/// Demonstrates a session in both eras and shows its messages.
///
/// Starts `mcp-probe serve` as a child process and walks through a session, first in the modern era, then in a
/// legacy one. Every step is checked. The exit code is 0 when all steps succeed.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Selects the adapter that client and server run on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t, hide_short_help = true, hide = !cfg!(feature = "runtimes"))]
    pub(crate) runtime: Runtime,
    /// Makes the server perform this step wrongly.
    #[arg(long = "break", value_name = "STEP", hide = true, value_parser = tour::parser())]
    pub(crate) broken: Option<TourStep>,
    /// Runs the tour in one era only.
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub(crate) era: EraChoice,
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), CommandFailure> {
    let begun = Instant::now();
    let paint = Paint::for_stdout();
    print(
        "The client starts the server as a child process, on stdin and stdout.\n\
           → marks messages of the client, ← messages of the server, … parts left out.\n",
    )?;
    let mut eras = 0;
    for version in [Version::V2026_07_28, Version::V2025_11_25] {
        if args.era.version_set().contains(version) {
            Tour { version, runtime: args.runtime, broken: args.broken, paint }.run_session()?;
            eras += 1;
        }
    }
    let eras = if eras == 1 { "one era".to_owned() } else { format!("{eras} eras") };
    print(&format!(
        "\n{} every step succeeded, in {eras}, in {:.1} s.\nNext: mcp-probe inspect -- YOUR-SERVER\n",
        paint.good("✓"),
        begun.elapsed().as_secs_f64()
    ))
}

/// The tour of one session.
struct Tour {
    version: Version,
    runtime: Runtime,
    broken: Option<TourStep>,
    paint: Paint,
}

impl Tour {
    fn run_session(&self) -> Result<(), CommandFailure> {
        let about = match self.version.era() {
            mcp_proto::Era::Modern => "no handshake, every request carries all metadata",
            mcp_proto::Era::Legacy => "a handshake, then a session",
        };
        let title = format!("The {} era ({}): {about}", self.version.era(), self.version);
        let serve = self.server_args();
        print(&format!("\n{}\n  $ mcp-probe {}\n", self.paint.bold(title), serve.join(" ")))?;

        let wire = WireLog::new(self.paint);
        let mut client = self.run_step(TourStep::Negotiate, "they agree on a revision", || {
            let mut client = self.connect(&wire, serve)?;
            let found = steps::check_negotiated(&mut client, &wire, self.version)?;
            Ok((client, found))
        })?;
        let client_steps: [(TourStep, &str, steps::StepFn); 9] = [
            (TourStep::List, "the client lists the tools", steps::list),
            (TourStep::Call, "text arrives unchanged, and a sum arrives as a structured value", steps::call),
            (TourStep::Error, "a tool that fails, and a tool that does not exist", steps::error),
            (TourStep::Progress, "a slow call that reports progress", steps::progress),
            (TourStep::Ask, "a call that requests input of the user", interaction::run_ask),
            (TourStep::Change, "a resource that is followed, and changes", interaction::run_change),
            (TourStep::Task, "a tool that runs as a task, and asks in the middle", interaction::run_task),
            (TourStep::Cancel, "a call that is cancelled", steps::cancel),
            (TourStep::Timeout, "a call that times out", steps::timeout),
        ];
        for (step, about, run) in client_steps {
            self.run_step(step, about, || Ok(((), run(&mut client, &wire)?)))?;
        }
        self.run_step(TourStep::End, "the client closes the server's stdin and waits for it to end", || {
            Ok(((), steps::end(client)?))
        })
    }

    /// Announces a step, runs it, and prints its outcome.
    fn run_step<T>(
        &self,
        step: TourStep,
        about: &str,
        run: impl FnOnce() -> Result<(T, String), StepError>,
    ) -> Result<T, CommandFailure> {
        let paint = self.paint;
        print(&format!("\n{}. {}: {about}\n", step as u32 + 1, paint.bold(step)))?;
        match run() {
            Ok((value, found)) => {
                print(&format!("   {} {}\n", paint.good("✓"), crate::escape::line(&found)))?;
                Ok(value)
            }
            Err(why) => {
                print(&format!("   {} failed\n", paint.bad("✗")))?;
                Err(CommandFailure::failed(format!(
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
            Version::V2026_07_28 => ["--era".to_owned(), name_of(&EraChoice::Modern)],
            version => ["--protocol-version".to_owned(), version.to_string()],
        });
        if self.runtime != Runtime::default() {
            args.extend(["--runtime".into(), name_of(&self.runtime)]);
        }
        if let Some(step) = self.broken {
            args.extend(["--break".into(), step.to_string()]);
        }
        args
    }

    fn connect(&self, wire: &WireLog, serve: Vec<String>) -> Result<Client, StepError> {
        let this = env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
        let config = client::client_config(
            (VersionSet::only(self.version), Draft::NONE),
            CALL_TIMEOUT,
            CONNECT_TIMEOUT,
            true,
        );
        let config = config.capabilities(Capabilities::new().with(Capability::ElicitationForm)).tasks();
        let server = Server::from_command(iter::once(this.into()).chain(serve.into_iter().map(Into::into)));
        let spec = ServerSpec {
            server: &server,
            stderr: StderrChoice::default(),
            tap_heads: false,
            authorizer: None,
            memory: None,
        };
        let opened = Client::open(self.runtime, &spec, config, wire.clone(), client::SHUTDOWN_TIMEOUTS);
        // This program is not a URL, and no variable that could be missing is passed on.
        Ok(opened.map_err(|_| "this executable cannot be started")??)
    }
}

/// Far more than any call of the tour takes, even on a busy machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
