//! A gate: a server that breaks a rule, or does not work, does not get through.

#![forbid(unsafe_code)]

use core::ops::ControlFlow;

use mcp_check::diagnosis::{Diagnosis, Fault, Steps};
use mcp_check::{Check, Report, Severity, Target};

/// Why a server does not get through.
#[derive(Debug)]
pub enum Refusal {
    /// It does not work: the step that failed, and why.
    Broken(&'static str, Fault),
    /// It works, and breaks rules.
    Wrong(Box<Report>),
}

/// Lets a server through that works, and breaks no rule of the specification. `server` is started or connected to more than once.
pub fn admit(server: impl Fn() -> Target) -> Result<Report, Refusal> {
    let mut failed = None;
    let target = server();
    let mut steps = Steps::new(|step| {
        failed = step.outcome.err().map(|fault| Refusal::Broken(step.name, fault));
        ControlFlow::Continue(())
    });
    let outcome = Diagnosis::new(&target).run(&mut steps);
    drop(steps);
    if let (Err(_), Some(refusal)) = (outcome, failed) {
        return Err(refusal);
    }
    match Check::new(server()).run() {
        Ok(report) if report.failures(Severity::Error).is_none() => Ok(report),
        Ok(report) => Err(Refusal::Wrong(Box::new(report))),
        Err(error) => {
            Err(Refusal::Broken("check", Fault::new("it is gone", error.to_string(), "start it again")))
        }
    }
}
