//! Diagnosis of a server that does not work: the steps from a program or a URL to the first answer, each of which needs those before it.
//!
//! At the first step that fails, a [`Fault`] says what failed, why, and what to do. Nobody is asked to log in, and no tool is called. The
//! advice names commands and options of `mcp-probe`, which do what it says.

#[cfg(feature = "auth")]
mod authorization;
mod clock;
mod http;
mod network;
mod output;
mod program;
mod quote;
mod status;

use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;

#[cfg(feature = "auth")]
pub use authorization::Tokens;
use mcp_proto_trace::{Secrets, masked};
pub use quote::clip;

use crate::Target;
use crate::hints::StartFault;

/// A diagnosis of a server.
///
/// Its steps, in order:
///
/// | server | steps |
/// |---|---|
/// | a program | `directory`, `program`, `start`, `output` |
/// | a socket or a serial line | `connect`, `output` |
/// | a URL | `proxy`, `dns`, `tcp`, `tls`, `http`, `redirect`, `path`, `host`, `clock`, `resource`, `issuer`, `token`, `scopes`, `content`, `buffering` |
///
/// What comes after them is of a client: to agree on a revision, and to read lists. Its steps can follow in the same [`Steps`].
pub struct Diagnosis<'t> {
    target: &'t Target,
    program_name: Option<String>,
    timeout: Duration,
    connect_timeout: Duration,
    #[cfg(feature = "auth")]
    tokens: Option<&'t mut dyn Tokens>,
}

impl<'t> Diagnosis<'t> {
    /// Creates a diagnosis. Of a program, let stderr be captured: it often has the reason.
    #[must_use]
    pub const fn new(target: &'t Target) -> Self {
        Self {
            target,
            program_name: None,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            #[cfg(feature = "auth")]
            tokens: None,
        }
    }

    /// Sets the time to wait for one answer over HTTP: 10 s, unless it is set.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the time to connect, or to start a program and read its first answer: 30 s, unless it is set.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Sets the name of the program in texts, in place of the word that is started.
    #[must_use]
    pub fn program_name(self, name: impl Into<String>) -> Self {
        Self { program_name: Some(name.into()), ..self }
    }

    /// Sets where tokens come from for a server that asks for one. Without, and without a field `Authorization`, that ends the diagnosis.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn tokens(self, tokens: &'t mut dyn Tokens) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Goes through the steps of the server. A program is started once, and ended.
    ///
    /// # Errors
    ///
    /// [`Ended`] if a step has failed, or if `steps` are not wanted any more.
    pub fn run(mut self, steps: &mut Steps<'_>) -> Result<(), Ended> {
        match self.target {
            Target::Program(program) => program::diagnose(steps, &self, program),
            Target::Stream(address) => program::diagnose_stream(steps, address, self.connect_timeout),
            Target::Http { url, fields } => http::diagnose(steps, &mut self, url, fields),
        }
    }
}

impl fmt::Debug for Diagnosis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnosis").field("target", self.target).finish_non_exhaustive()
    }
}

/// A step of a diagnosis, with its outcome.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name. It is stable.
    pub name: &'static str,
    /// The outcome.
    pub outcome: Result<Passed, Fault>,
}

/// The outcome of a step that did not fail, with its detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It works.
    Ok(String),
    /// It works, but may not for other clients or at another time.
    Warning(String),
    /// There is nothing to look at.
    Skipped(String),
}

/// Why a step failed, in three sentences.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// What failed.
    pub what: String,
    /// The reason.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// A kind of [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// No connection, or not to a server of MCP.
    Connection,
    /// No answer in time.
    TimedOut,
    /// A token or another credential is missing, or refused.
    Unauthorized,
    /// An option or a file of the caller is wrong.
    Usage,
    /// The server answers otherwise than the protocol says.
    Failed,
}

/// The end of a diagnosis before its last step: a step has failed, or the receiver of the steps wants no more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the diagnosis ended before its last step")]
pub struct Ended;

impl From<StartFault> for Fault {
    fn from(StartFault { what, why, fix, .. }: StartFault) -> Self {
        Self::new(what, masked(&why), fix)
    }
}

impl Fault {
    /// Creates a fault of the kind [`Connection`](FaultKind::Connection).
    pub fn new(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { kind: FaultKind::Connection, what: what.into(), why: why.into(), fix: fix.into() }
    }

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }
}

/// The receiver of steps, with the secrets that no text of theirs may show.
pub struct Steps<'s> {
    secrets: Secrets,
    receive: Box<dyn FnMut(Step) -> ControlFlow<()> + 's>,
}

impl<'s> Steps<'s> {
    /// Creates a receiver: a function that gets each step once it is done, and says whether the diagnosis goes on.
    pub fn new(receive: impl FnMut(Step) -> ControlFlow<()> + 's) -> Self {
        Self { secrets: Secrets::default(), receive: Box::new(receive) }
    }

    /// Hides a value in the texts of all later steps, for a server may send back what it is sent.
    pub fn hide(&mut self, secret: &str) {
        self.secrets.add(secret);
    }

    /// Gives the outcome of a step to the receiver. Returns the value of a step that passed.
    ///
    /// # Errors
    ///
    /// [`Ended`] if the step has failed, or if the receiver wants no more.
    pub fn record<T>(&mut self, name: &'static str, outcome: Result<(Passed, T), Fault>) -> Result<T, Ended> {
        let redact = |text| self.secrets.redact(text);
        let (outcome, value) = match outcome {
            Ok((passed, value)) => (
                Ok(match passed {
                    Passed::Ok(detail) => Passed::Ok(redact(detail)),
                    Passed::Warning(detail) => Passed::Warning(redact(detail)),
                    Passed::Skipped(detail) => Passed::Skipped(redact(detail)),
                }),
                Ok(value),
            ),
            Err(Fault { kind, what, why, fix }) => {
                let [what, why, fix] = [what, why, fix].map(redact);
                (Err(Fault { kind, what, why, fix }), Err(Ended))
            }
        };
        match (self.receive)(Step { name, outcome }) {
            ControlFlow::Continue(()) => value,
            ControlFlow::Break(()) => Err(Ended),
        }
    }

    /// Does the same for a step without a value.
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record).
    pub fn check(&mut self, name: &'static str, outcome: Result<Passed, Fault>) -> Result<(), Ended> {
        self.record(name, outcome.map(|passed| (passed, ())))
    }
}

impl fmt::Debug for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_in_no_text_of_a_step() {
        let mut texts = Vec::new();
        let mut steps = Steps::new(|step| {
            match step.outcome {
                Ok(Passed::Ok(text) | Passed::Warning(text) | Passed::Skipped(text)) => texts.push(text),
                Err(Fault { what, why, fix, .. }) => texts.extend([what, why, fix]),
            }
            ControlFlow::Continue(())
        });
        steps.hide("Bearer s3cr3ttoken-abcdef");
        let text = || "no such key: s3cr3ttoken-abcdef".to_owned();
        assert!(steps.check("a", Ok(Passed::Warning(text()))).is_ok());
        assert!(steps.check("b", Err(Fault::new(text(), text(), text()))).is_err());
        drop(steps);
        assert_eq!(texts, ["no such key: …"; 4]);
    }
}
