//! Runs commands: some at a time, each within its time limit.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use mcp_tokio::{Cx, Progress, RpcError, schemars};
use tokio::sync::Semaphore;
use tokio::time::{self, Instant};

use crate::config::Config;
use crate::logs::{Logs, RunId};
use crate::process_group::ProcessGroup;

/// Lines of the log in a result.
const TAIL: usize = 20;
/// Time between two reports about a silent command. It keeps clients from giving up the call.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time for the rest of the output after the end of a command.
const DRAIN: Duration = Duration::from_secs(1);

/// The end of a command.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Report {
    pub success: bool,
    /// Missing if a signal ended the command
    pub exit_code: Option<i32>,
    /// The signal that ended the command
    pub signal: Option<i32>,
    pub seconds: f64,
    /// Resource with the output
    pub log: String,
    pub last_lines: Vec<String>,
}

/// Errors of a run. Their texts are for the model that called the tool.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0} builds run or wait already; try again later")]
    Busy(usize),
    #[error("cannot start `{program}`: {error}")]
    Start { program: String, error: io::Error },
    #[error("stopped after {seconds} s, the time limit; the output is in {log} and ends with:\n{tail}")]
    TimeLimit { seconds: u64, log: String, tail: String },
    #[error("the output cannot be read: {0}")]
    Output(io::Error),
    /// The call has ended; nothing is sent.
    #[error(transparent)]
    Ended(#[from] RpcError),
}

/// Returns the URI of a log.
pub fn log_uri(run: RunId) -> String {
    format!("build://runs/{run}/log")
}

pub struct Runner {
    config: Config,
    /// Permits of calls that run or wait.
    admitted: Semaphore,
    /// Permits of calls that run, in order of arrival.
    running: Semaphore,
    pub logs: Logs,
}

impl Runner {
    pub fn new(config: Config) -> Self {
        let (jobs, waiting) = (config.jobs, config.waiting);
        Self {
            config,
            admitted: Semaphore::new(jobs + waiting),
            running: Semaphore::new(jobs),
            logs: Logs::default(),
        }
    }

    /// Runs a command as soon as it is its turn. Dropping the future stops waiting or kills the command.
    pub async fn run(&self, cx: &mut Cx, command: &[String]) -> Result<Report, RunError> {
        let full = || RunError::Busy(self.config.jobs + self.config.waiting);
        let _admitted = self.admitted.try_acquire().map_err(|_| full())?;
        let called = Instant::now();
        let mut heartbeat = time::interval(HEARTBEAT);
        let mut turn = pin!(self.running.acquire());
        let _running = loop {
            tokio::select! {
                biased;
                permit = &mut turn => break permit.map_err(|_| full())?,
                _ = heartbeat.tick() => tell(cx, called, "waiting for another build")?,
            }
        };
        let run = self.logs.begin();
        let mut end = EndLine { logs: &self.logs, run, text: "[cancelled]".into() };
        let limit = Duration::from_secs(self.config.seconds);
        let (started, log) = (Instant::now(), log_uri(run));
        match time::timeout(limit, self.follow(cx, called, command, run)).await {
            Ok(Ok(status)) => {
                end.text = format!("[{status}]");
                Ok(Report {
                    success: status.success(),
                    exit_code: status.code(),
                    signal: status.signal(),
                    seconds: started.elapsed().as_secs_f64(),
                    log,
                    last_lines: self.logs.tail(run, TAIL),
                })
            }
            Ok(Err(error)) => {
                end.text = format!("[{error}]");
                Err(error)
            }
            Err(_) => {
                end.text = "[stopped by the time limit]".into();
                let tail = self.logs.tail(run, TAIL).join("\n");
                Err(RunError::TimeLimit { seconds: limit.as_secs(), log, tail })
            }
        }
    }

    /// Starts a command and reports its output until it ends.
    async fn follow(
        &self,
        cx: &mut Cx,
        called: Instant,
        command: &[String],
        run: RunId,
    ) -> Result<ExitStatus, RunError> {
        let (mut group, mut lines) = ProcessGroup::spawn(command, &self.config.directory)
            .map_err(|error| RunError::Start { program: command[0].clone(), error })?;
        let mut heartbeat = time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let status = loop {
            tokio::select! {
                biased;
                line = lines.next() => match line.map_err(RunError::Output)? {
                    Some(line) => {
                        tell(cx, called, &line)?;
                        self.logs.add(run, line);
                        heartbeat.reset();
                    }
                    None => return group.wait().await.map_err(RunError::Output),
                },
                status = group.wait() => break status.map_err(RunError::Output)?,
                _ = heartbeat.tick() => tell(cx, called, "no new output")?,
            }
        };
        // A process that has left the group may keep the pipe open.
        let rest = async {
            while let Ok(Some(line)) = lines.next().await {
                self.logs.add(run, line);
            }
        };
        let _ = time::timeout(DRAIN, rest).await;
        Ok(status)
    }
}

/// Tells the client of the call, or of the task that the call runs as. The core limits the rate.
fn tell(cx: &mut Cx, called: Instant, message: &str) -> Result<(), RpcError> {
    cx.working(message)?;
    cx.progress(Progress::new(called.elapsed().as_secs_f64()).with_message(message))
}

/// Adds the last line of a log, also if the future of the run is dropped.
struct EndLine<'a> {
    logs: &'a Logs,
    run: RunId,
    text: String,
}

impl Drop for EndLine<'_> {
    fn drop(&mut self) {
        self.logs.add(self.run, std::mem::take(&mut self.text));
    }
}
