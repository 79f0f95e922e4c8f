//! Answers to what a server asks for: given on the command line, or by a person at a terminal

mod dialogue;
mod field;
mod given;
mod page;
mod roots;
mod terminal;

use alloc::sync::Arc;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use mcp_proto::client::Input;
use mcp_proto::http::client::Url;
use mcp_proto::model::{InputRequest, InputResponse, ListRootsResult};
use mcp_proto::rpc::code;
use mcp_proto::{Capabilities, Capability, RpcError};

use crate::args::{self, Answering};
use crate::escape;
use crate::failure::{Exit, Failure};
use dialogue::Dialogue;
pub(crate) use given::Given;
use given::{Choice, Store};
use terminal::{Console, Terminal};

/// What a server can ask for
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something of the user
    Elicit,
    /// Something of the model
    Sample,
    /// Which directories there are
    Roots,
}

impl Kind {
    /// As `--answer` says it
    const fn word(self) -> &'static str {
        match self {
            Self::Elicit => "elicit",
            Self::Sample => "sample",
            Self::Roots => "roots",
        }
    }

    fn named(word: &str) -> Option<Self> {
        [Self::Elicit, Self::Sample, Self::Roots].into_iter().find(|kind| kind.word() == word)
    }

    fn of(request: &InputRequest<'_>) -> Option<Self> {
        match request {
            InputRequest::Elicit(_) => Some(Self::Elicit),
            InputRequest::CreateMessage(_) => Some(Self::Sample),
            InputRequest::ListRoots(_) => Some(Self::Roots),
            _ => None,
        }
    }
}

/// What was asked and got no answer; shared with the one who reports it
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<Mutex<Vec<String>>>);

impl Unanswered {
    fn note(&self, what: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&what) {
            all.push(what);
        }
    }

    /// The failure that this is, if anything went without an answer
    pub(crate) fn failure(&self) -> Option<Failure> {
        let all = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!all.is_empty()).then(|| Failure::new(Exit::Unanswered, all.join("\n")).hint(HINT))
    }
}

/// What to do when there is no answer
pub(crate) const HINT: &str =
    "answer with --answer KEY=JSON (`mcp-probe call --help` says how), or run this on a terminal";

/// Answers as long as there are any
pub(crate) struct Answers {
    given: Store,
    roots: Option<ListRootsResult>,
    dialogue: Option<Dialogue<Box<dyn Terminal>>>,
    unanswered: Unanswered,
    /// How many questions there were
    asked: u32,
}

impl Answers {
    /// As the command line says, for questions of this server; at a terminal a person is asked for what it does not say
    pub(crate) fn new(answering: &Answering, server: &[OsString]) -> Result<Self, Failure> {
        let terminal = Console::open().map(|console| Box::new(console) as Box<dyn Terminal>);
        Ok(Self {
            given: Store::new(answering.answer.clone()),
            roots: roots::of(&answering.root).map_err(Failure::usage)?,
            dialogue: terminal.map(|terminal| Dialogue::new(terminal, &name(server))),
            unanswered: Unanswered::default(),
            asked: 0,
        })
    }

    pub(crate) fn unanswered(&self) -> Unanswered {
        self.unanswered.clone()
    }

    /// What can be answered, which is all that is declared
    pub(crate) fn capabilities(&self) -> Capabilities {
        let person = self.dialogue.is_some();
        let mut all = Capabilities::new();
        if person || self.given.has(Kind::Elicit) {
            all = all.with(Capability::ElicitationForm).with(Capability::ElicitationUrl);
        }
        if person || self.given.has(Kind::Sample) {
            all = all.with(Capability::Sampling);
        }
        // A person types texts; an object can use a tool.
        if self.given.has_messages() {
            all = all.with(Capability::SamplingTools);
        }
        if self.roots.is_some() || self.given.has(Kind::Roots) {
            all = all.with(Capability::Roots);
        }
        all
    }

    /// The answer; the error refuses it
    pub(crate) fn answer(&mut self, input: &Input) -> Result<InputResponse<'static>, RpcError> {
        let request = &*input.request;
        self.asked += 1;
        if self.asked > QUESTIONS {
            self.unanswered
                .note(format!("the server asks for more and more: that was {QUESTIONS} questions"));
            return Err(nobody());
        }
        if let (InputRequest::ListRoots(_), Some(roots)) = (request, &self.roots) {
            return Ok(roots.clone().into());
        }
        match self.given.choose(input.key.as_deref(), request) {
            Choice::Answer(answer) => return answer.map(|answer| *answer).ok_or_else(rejected),
            Choice::Misfit(why) => {
                self.unanswered.note(format!("{}; {why}", question(input)));
                return Err(nobody());
            }
            Choice::None => {}
        }
        let asked = self.dialogue.as_mut().and_then(|dialogue| dialogue.ask(input.key.as_deref(), request));
        match asked {
            Some(answer) => answer.ok_or_else(rejected),
            None => {
                self.unanswered.note(format!("{}; there is no answer to that", question(input)));
                Err(nobody())
            }
        }
    }
}

/// What was asked, in a few words
fn question(input: &Input) -> String {
    let kind = Kind::of(&input.request).map_or("something", Kind::word);
    match &input.key {
        Some(key) => format!("the server asks for `{key}` ({kind})"),
        None => format!("the server asks for something ({kind})"),
    }
}

/// What a server is called by who started it
fn name(server: &[OsString]) -> String {
    let words: Vec<_> = server.iter().map(|word| word.to_string_lossy()).collect();
    let name = args::url(server).map_or_else(|| words.join(" "), Url::shown);
    let short: String = name.chars().take(NAME).collect();
    let more = if short.len() < name.len() { " …" } else { "" };
    format!("{}{more}", escape::line(&short))
}

fn nobody() -> RpcError {
    RpcError::internal("nobody is here to answer")
}

/// SAMP-015
fn rejected() -> RpcError {
    RpcError::new(code::USER_REJECTED, "the user rejected the request")
}

/// Questions that are answered; beyond that it is no conversation any more
const QUESTIONS: u32 = 100;
/// Characters of a server's command that are shown
const NAME: usize = 60;
