//! What a [`ClientHandler`] is told, to be told now or somewhere else, and what comes back

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::Waker;

use mcp_proto::client::{Input, InputId, Kind, Log, Notification, Request, SchemaError, SubscriptionKey};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential, ExchangeId};
use mcp_proto::model::InputResponse;
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, CallId, CallKey, Change, Diagnostic, Progress, RawJson, RpcError};

use super::handler::ClientHandler;
use crate::catch;

/// One call of a method of [`ClientHandler`], yet to be made
#[derive(Debug)]
pub enum Heard {
    /// [`ClientHandler::request`]
    Request(Request),
    /// [`ClientHandler::input`]
    Input(Input),
    /// [`ClientHandler::input_gone`]
    InputGone(InputId),
    /// Nobody wants the answer to a [`Request`](Self::Request) any more: for [`Later`]
    RequestGone(CallId),
    /// [`ClientHandler::notification`]
    Notification(Notification),
    /// [`ClientHandler::subscription_ended`]
    SubscriptionEnded(SubscriptionKey, Option<CallError>),
    /// [`ClientHandler::elicitation_complete`]
    ElicitationComplete(String),
    /// [`ClientHandler::changed`]
    Changed(Change),
    /// [`ClientHandler::log`]
    Log(Log),
    /// [`ClientHandler::diagnostic`]
    Diagnostic(Diagnostic),
    /// [`ClientHandler::progress`]
    Progress(CallKey, Progress),
    /// [`ClientHandler::unreadable`]
    Unreadable(Kind, RawJson, String),
    /// [`ClientHandler::unusable_schema`]
    UnusableSchema(String, SchemaError),
    /// [`ClientHandler::tap`]
    Tap(TapRecord),
    /// [`ClientHandler::head`]
    #[cfg(feature = "http")]
    Head(HeadRecord),
    /// [`ClientHandler::challenge`]
    #[cfg(feature = "http")]
    Challenge(Challenge),
}

/// What a handler says to what it heard, for [`Connection::reply`](super::Connection::reply)
#[derive(Debug)]
pub enum Reply {
    /// To a request
    Request(CallId, Result<RawJson, RpcError>),
    /// To what the server needs
    Input(InputId, Result<Box<InputResponse<'static>>, RpcError>),
    /// To who asks for credentials
    #[cfg(feature = "http")]
    Challenge(ExchangeId, Option<Credential>),
}

impl Heard {
    /// Tells it; a panic ends nothing else, and is answered where an answer is due
    pub fn tell(self, handler: &mut dyn ClientHandler) -> Option<Reply> {
        // The panic hook has said it.
        let _ = match self {
            Self::Request(request) => {
                let outcome = catch(|| handler.request(&request))
                    .unwrap_or_else(|_| Err(RpcError::internal("the handler of the request panicked")));
                return Some(Reply::Request(request.id, outcome));
            }
            Self::Input(input) => {
                let outcome = catch(|| handler.input(&input))
                    .unwrap_or_else(|_| Some(Err(RpcError::internal("the handler of the input panicked"))));
                // None: it comes later, by `Client::answer`.
                return outcome.map(|outcome| Reply::input(&input, outcome));
            }
            #[cfg(feature = "http")]
            Self::Challenge(challenge) => {
                // Nobody answers if it panics.
                let credential = catch(|| handler.challenge(&challenge)).unwrap_or_default();
                return Some(Reply::Challenge(challenge.exchange, credential));
            }
            Self::InputGone(input) => catch(|| handler.input_gone(input)),
            Self::RequestGone(_) => Ok(()),
            Self::Notification(notification) => catch(|| handler.notification(&notification)),
            Self::SubscriptionEnded(key, error) => catch(|| handler.subscription_ended(key, error.as_ref())),
            Self::ElicitationComplete(id) => catch(|| handler.elicitation_complete(&id)),
            Self::Changed(change) => catch(|| handler.changed(&change)),
            Self::Log(log) => catch(|| handler.log(&log)),
            Self::Diagnostic(diagnostic) => catch(|| handler.diagnostic(&diagnostic)),
            Self::Progress(call, progress) => catch(|| handler.progress(call, &progress)),
            Self::Unreadable(kind, entry, why) => catch(|| handler.unreadable(kind, &entry, &why)),
            Self::UnusableSchema(tool, why) => catch(|| handler.unusable_schema(&tool, &why)),
            Self::Tap(record) => catch(|| handler.tap(&record)),
            #[cfg(feature = "http")]
            Self::Head(record) => catch(|| handler.head(&record)),
        };
        None
    }

    /// Tells it as [`tell`](Self::tell) does, unless the handler takes it over to answer it [later](ClientHandler::later);
    /// of those, `most` may be open
    pub fn tell_or_leave(self, handler: &mut dyn ClientHandler, most: usize) -> Option<Reply> {
        match handler.later() {
            None => self.tell(handler),
            Some(later) if self.is_question() && later.open() >= most => {
                self.refuse(RpcError::internal("too many questions are open"))
            }
            Some(later) => later.hear(self)?.tell(handler),
        }
    }

    /// Says to a question that nobody answers it, because of `error`; none to what is no question
    #[must_use]
    pub fn refuse(self, error: RpcError) -> Option<Reply> {
        match self {
            Self::Request(request) => Some(Reply::Request(request.id, Err(error))),
            Self::Input(input) => Some(Reply::Input(input.id, Err(error))),
            #[cfg(feature = "http")]
            Self::Challenge(challenge) => Some(Reply::Challenge(challenge.exchange, None)),
            _ => None,
        }
    }

    /// Whether somebody waits for a reply
    #[must_use]
    pub const fn is_question(&self) -> bool {
        match self {
            Self::Request(_) | Self::Input(_) => true,
            #[cfg(feature = "http")]
            Self::Challenge(_) => true,
            _ => false,
        }
    }

    /// About how many bytes it keeps
    #[must_use]
    pub fn cost(&self) -> usize {
        let raw = |raw: &Option<RawJson>| raw.as_ref().map_or(0, |raw| raw.as_bytes().len());
        size_of::<Self>()
            + match self {
                Self::Request(request) => raw(&request.params),
                Self::Notification(notification) => raw(&notification.params),
                Self::Log(log) => log.data.as_bytes().len(),
                Self::Unreadable(_, entry, _) => entry.as_bytes().len(),
                Self::Tap(record) => record.bytes.len(),
                _ => 0,
            }
    }
}

impl Reply {
    /// The answer to what the server needs, if it fits
    #[must_use]
    pub fn input(input: &Input, outcome: Result<InputResponse<'static>, RpcError>) -> Self {
        let outcome = outcome.and_then(|answer| match input.request.check(&answer) {
            Ok(()) => Ok(Box::new(answer)),
            // ELIC-020; what is wrong is for the one who wrote the handler
            Err(misfit) => Err(RpcError::internal(alloc::format!("the answer does not fit: {misfit}"))),
        });
        Self::Input(input.id, outcome)
    }
}

/// Who calls the handler
pub enum Ears {
    /// The loop
    Here(Box<dyn ClientHandler + Send>),
    /// Somebody else, who brings the replies
    Away(Box<dyn Listener + Send>),
}

/// What a handler whose answers take their time does with questions: its loop polls it for the answers
///
/// What [`ClientHandler::later`] gives, of handlers that adapters with futures make; a program need not know it.
pub trait Later {
    /// Takes a question over, and learns which ones are gone; gives back everything else
    fn hear(&mut self, heard: Heard) -> Option<Heard>;

    /// The next answer, or `waker` woken when there is more to be done
    fn poll(&mut self, waker: &Waker) -> Option<Reply>;

    /// Questions that are open
    fn open(&self) -> usize;

    /// Lets go of what is open; what to say to that instead of an answer
    fn stop(&mut self) -> Vec<Reply>;
}

/// Somebody who calls a handler elsewhere
pub trait Listener {
    /// Takes it over, even when it [is full](Self::is_full): what follows from deadlines is not held back
    fn hear(&mut self, heard: Heard);

    /// Whether nothing more should be read for now
    fn is_full(&self) -> bool;
}

impl Ears {
    /// Tells it, or has it told; a handler whose answers take their time may have so many questions open
    pub fn hear(&mut self, heard: Heard, most: usize) -> Option<Reply> {
        match self {
            Self::Here(handler) => heard.tell_or_leave(&mut **handler, most),
            Self::Away(listener) => {
                listener.hear(heard);
                None
            }
        }
    }

    /// The next answer of a handler whose answers take their time, or `waker` woken when there is more to be done
    pub fn poll(&mut self, waker: &Waker) -> Option<Reply> {
        match self {
            Self::Here(handler) => handler.later()?.poll(waker),
            Self::Away(_) => None,
        }
    }

    /// Has a handler whose answers take their time let go of what is open; what to say to that instead
    pub fn stop(&mut self) -> Vec<Reply> {
        match self {
            Self::Here(handler) => handler.later().map(Later::stop).unwrap_or_default(),
            Self::Away(_) => Vec::new(),
        }
    }

    /// Whether nothing more should be read for now
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Away(listener) => listener.is_full(),
        }
    }
}
