//! How a server process ends.

use core::time::Duration;

use mcp_std::process::{Child, ProcessStatus, ShutdownReport, ShutdownStage};

use super::report::{CheckReport, clip};
use super::rules::rules_of;
use crate::text::seconds;

rules_of! {
    RULES
    STAYS "stays" Warning [Spec] ["STDIO-021" "LIFE-017"]
        "a server ends soon after its stdin was closed"
        "end when stdin reports the end of input"
    LEFTOVERS "leftovers" Note [Spec] ["STDIO-020"]
        "no processes are left behind"
        "end the processes that the server has started before it ends"
}

/// Describes how a process ended that did not answer, or that it closed its stdout.
pub(super) fn describe_end(child: &mut Child) -> String {
    let (fate, status) = match child.wait_timeout(Duration::from_millis(300)) {
        ProcessStatus::Exited(status) => ("it ended", status.map(|status| status.to_string())),
        ProcessStatus::Running => ("it closed its stdout", None),
    };
    let last_line = child.stderr_tail().lines().next_back().map(|line| clip(line, 160));
    let last_line = last_line.map(|line| format!("stderr: {line:?}"));
    let details: Vec<String> = status.into_iter().chain(last_line).collect();
    if details.is_empty() { fate.to_owned() } else { format!("{fate} ({})", details.join("; ")) }
}

/// Checks how a process ended that had this time to do so after its stdin was closed.
pub(super) fn check_end(report: &CheckReport, ended: &ShutdownReport, timeout: Duration) {
    if ended.stage != ShutdownStage::Exited {
        let what = format!("it was still running {} after its stdin was closed", seconds(timeout));
        report.add(STAYS, "the server", what);
    } else if ended.had_stragglers {
        report.add(LEFTOVERS, "the server", "processes were still running after it had ended");
    }
}
