//! What a handler asks for, written as if the answers came at once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::engine::Engine;
use super::event::Call;
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
#[cfg(feature = "schemars")]
use crate::model::Elicited;
use crate::model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult,
    ElicitSchema, ElicitUrlParams, InputRequest, InputRequests, InputResponse, ListRootsResult, Misfit,
};
use crate::rpc::RpcError;
use crate::time::Instant;

/// The questions that one delivery of a call has led to
///
/// A handler asks for an answer where it needs it. When the answer is there, it goes on; when it is not, the question is
/// noted and the handler leaves, with `?`. What was noted goes to [`Engine::ask`], and the call is delivered again with
/// the answers: the same handler runs from its beginning, and comes further. So what it does before its last question
/// must do no harm when it is done again.
///
/// ```
/// use mcp_proto::RpcError;
/// use mcp_proto::model::{ElicitSchema, InputRequest, ElicitParams, InputResponse};
/// use mcp_proto::server::{Asking, Call, NoAnswer};
///
/// fn greet(call: &Call, asking: &mut Asking) -> Result<String, RpcError> {
///     let form = ElicitParams::form("What is your name?", ElicitSchema::default());
///     let answer = asking.ask(call, "name", InputRequest::Elicit(form))?;
///     Ok(format!("{answer:?}"))
/// }
/// # let _ = greet;
/// ```
#[derive(Debug, Default)]
pub struct Asking {
    noted: Option<Box<dyn Noted>>,
}

/// What was noted, behind a table of functions: a server that never asks is linked without all that asking takes
trait Noted: fmt::Debug + Send + Sync {
    fn question(&mut self, key: &str, question: InputRequest<'static>);
    fn state(&mut self, state: Vec<u8>);
    fn is_empty(&self) -> bool;
    fn ask(&self, engine: &mut Engine, now: Instant, call: &Call) -> Result<(), UseError>;
}

#[derive(Debug, Default)]
struct Questions {
    questions: InputRequests<'static>,
    state: Vec<u8>,
}

impl Noted for Questions {
    fn question(&mut self, key: &str, question: InputRequest<'static>) {
        self.questions.insert(key, question);
    }

    fn state(&mut self, state: Vec<u8>) {
        self.state = state;
    }

    fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    fn ask(&self, engine: &mut Engine, now: Instant, call: &Call) -> Result<(), UseError> {
        let outcome = engine.need_input(now, call, &self.questions, &self.state);
        if let Err(refused) = &outcome {
            // Stale when it has ended meanwhile: then nobody waits for this.
            let _ = engine.fail(now, call.id(), &told(refused));
        }
        outcome
    }
}

/// Why there is no answer to a question
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// Not yet: the question was noted, and the handler is to leave
    #[error("the answer has to be asked for first")]
    Asked,
    /// The client refused, or did not answer in time (legacy; a modern client does not come again then)
    #[error("the client gives no answer: {0}")]
    Refused(CallError),
    /// The type is none that a form can hold: a mistake in the handler
    #[error("this cannot be asked by a form: {0}")]
    NoForm(Misfit),
}

/// So that `?` leaves a handler; the error is sent only when there was a refusal
impl From<NoAnswer> for RpcError {
    fn from(none: NoAnswer) -> Self {
        Self::internal(alloc::format!("{none}"))
    }
}

impl Asking {
    /// Nothing asked yet
    #[must_use]
    pub const fn new() -> Self {
        Self { noted: None }
    }

    /// The answer to `question`, under a key that is the question's own within this call
    ///
    /// An answer that does not fit the question counts as none: it is asked again (MRTR-027, MRTR-029, ELIC-020). Several
    /// questions can be asked at once by asking all of them before leaving.
    pub fn ask<'c>(
        &mut self,
        call: &'c Call,
        key: &str,
        question: InputRequest<'static>,
    ) -> Result<InputResponse<'c>, NoAnswer> {
        self.answered(call, key, question, Some)
    }

    /// The answer as `read` takes it, which may find that it is none
    fn answered<'c, T>(
        &mut self,
        call: &'c Call,
        key: &str,
        question: InputRequest<'static>,
        read: impl FnOnce(InputResponse<'c>) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        let answer = match call.answer(key) {
            Some(Ok(answer)) => question.read(answer).ok().and_then(read),
            Some(Err(error)) => return Err(NoAnswer::Refused(error.clone())),
            None => None,
        };
        answer.ok_or_else(|| {
            self.noted().question(key, question);
            NoAnswer::Asked
        })
    }

    /// Asks the user by a form: [`ask`](Self::ask) for elicitation
    ///
    /// Declining is an answer too: see [`ElicitResult::action`].
    pub fn elicit(
        &mut self,
        call: &Call,
        key: &str,
        message: impl Into<String>,
        form: ElicitSchema,
    ) -> Result<ElicitResult, NoAnswer> {
        let question = InputRequest::Elicit(ElicitParams::form(message, form));
        self.answered(call, key, question, elicited)
    }

    /// Asks the user by the form that `T` is ([`ElicitSchema::of`])
    ///
    /// An answer that is no `T`, for a reason that a form cannot state, is asked again.
    #[cfg(feature = "schemars")]
    pub fn elicit_as<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        call: &Call,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Elicited<T>, NoAnswer> {
        let form = ElicitSchema::of::<T>().map_err(NoAnswer::NoForm)?;
        let question = InputRequest::Elicit(ElicitParams::form(message, form));
        self.answered(call, key, question, |answer| Elicited::read(&elicited(answer)?).ok())
    }

    /// Has the user visit a web page (since 2025-11-25): [`ask`](Self::ask) for elicitation by URL
    ///
    /// Accepting means that the page will be opened, not that anything was done there (ELIC-034). In 2025-11-25 the page
    /// needs an `elicitation_id`; later revisions have none, and it is left out there.
    pub fn elicit_url(
        &mut self,
        call: &Call,
        key: &str,
        page: ElicitUrlParams,
    ) -> Result<ElicitAction, NoAnswer> {
        let question = InputRequest::Elicit(page.into());
        self.answered(call, key, question, elicited).map(|result| result.action)
    }

    /// Asks the client's model: [`ask`](Self::ask) for sampling
    pub fn sample<'c>(
        &mut self,
        call: &'c Call,
        key: &str,
        params: CreateMessageParams<'static>,
    ) -> Result<CreateMessageResult<'c>, NoAnswer> {
        self.answered(call, key, InputRequest::CreateMessage(params), |answer| match answer {
            InputResponse::CreateMessage(result) => Some(result),
            _ => None,
        })
    }

    /// Asks which directories the client lets the server see: [`ask`](Self::ask) for roots
    pub fn roots(&mut self, call: &Call, key: &str) -> Result<ListRootsResult, NoAnswer> {
        self.answered(call, key, InputRequest::ListRoots(None), |answer| match answer {
            InputResponse::ListRoots(result) => Some(result),
            _ => None,
        })
    }

    /// What [`Call::state`] is to be at the next delivery, if anything is asked in this one
    pub fn keep(&mut self, state: impl Into<Vec<u8>>) {
        self.noted().state(state.into());
    }

    /// Whether nothing has to be asked
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.noted.as_ref().is_none_or(|noted| noted.is_empty())
    }

    fn noted(&mut self) -> &mut dyn Noted {
        &mut **self.noted.get_or_insert_with(|| Box::new(Questions::default()))
    }
}

fn elicited(answer: InputResponse<'_>) -> Option<ElicitResult> {
    match answer {
        InputResponse::Elicit(result) => Some(result),
        _ => None,
    }
}

impl Engine {
    /// Asks what a handler has noted, or fails the call if that cannot be asked
    ///
    /// As [`need_input`](Self::need_input). When that is refused the call is answered with an error: a client that lacks
    /// a capability is told which (ERR-007), others that it cannot be done. The reason is for the handler's author.
    pub fn ask(&mut self, now: Instant, call: &Call, asking: &Asking) -> Result<(), UseError> {
        match &asking.noted {
            Some(noted) => noted.ask(self, now, call),
            None => {
                self.fail(now, call.id(), &cannot())?;
                Err(UseError::NotYours(call.method().into()))
            }
        }
    }
}

/// What the client is told when its side cannot be asked
fn told(refused: &UseError) -> RpcError {
    match refused {
        UseError::PeerLacks(capability) => {
            let required = ClientCapabilities::from(&Capabilities::new().with(*capability));
            RpcError::missing_client_capability(required).unwrap_or_else(|_| cannot())
        }
        UseError::NotInVersion { what, version } => {
            RpcError::invalid_request(alloc::format!("this needs `{what}`, which {version} does not have"))
        }
        UseError::Full("max_input_rounds") => RpcError::internal(String::from("asked too often")),
        _ => cannot(),
    }
}

fn cannot() -> RpcError {
    RpcError::internal("what this needs cannot be asked for")
}
