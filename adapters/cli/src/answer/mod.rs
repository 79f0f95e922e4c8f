//! Answers to input requests of a server, from the command line or from the user at a terminal.

mod dialogue;
mod field;
mod preset;
mod roots;
pub(crate) use roots::uri_reference;
mod terminal;
mod url;

use alloc::sync::Arc;
use core::time::Duration;
use std::ffi::OsString;
use std::sync::Mutex;
use std::time::Instant;

use clap::Args;
use mcp_proto::client::Input;
use mcp_proto::model::{ElicitParams, ElicitUrlParams, InputRequest, InputResponse, ListRootsResult};
use mcp_proto::rpc::code;
use mcp_proto::{Capabilities, Capability, RpcError};

use crate::failure::{CommandFailure, Exit};
use crate::notes::print_note;
use crate::screen;
use dialogue::{Dialogue, DialogueOutcome};
use mcp_std::sync::lock;
use preset::{PresetAnswer, PresetAnswers, PresetLookup};
use terminal::Console;

/// Answers to input requests of the server.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Answers an input request of the server (may be repeated).
    ///
    /// `mcp-probe call --help` explains KEY and JSON. On a terminal you are asked for every answer that is missing.
    #[arg(long, value_name = "KEY=JSON", value_parser = PresetAnswer::parse)]
    pub(crate) answer: Vec<PresetAnswer>,
    /// Offers this directory as a root (may be repeated).
    ///
    /// The directory is a path or a file:// URI.
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Vec<OsString>,
}

/// Kind of an input request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// Elicitation: input of the user.
    Elicit,
    /// Sampling: a message of the model.
    Sample,
    /// List of roots.
    Roots,
}

impl InputKind {
    /// Returns the name that `--answer` uses.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Elicit => "elicit",
            Self::Sample => "sample",
            Self::Roots => "roots",
        }
    }

    fn from_name(word: &str) -> Option<Self> {
        [Self::Elicit, Self::Sample, Self::Roots].into_iter().find(|kind| kind.as_str() == word)
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn from_request(request: &InputRequest<'_>) -> Option<Self> {
        match request {
            InputRequest::Elicit(_) => Some(Self::Elicit),
            InputRequest::CreateMessage(_) => Some(Self::Sample),
            InputRequest::ListRoots(_) => Some(Self::Roots),
            _ => None,
        }
    }
}

/// Input requests that got no answer, shared between the handler and the command that reports them.
#[derive(Clone, Default)]
pub(crate) struct UnansweredInputs(Arc<Mutex<Vec<String>>>);

impl UnansweredInputs {
    fn record(&self, what: String) {
        let mut all = lock(&self.0);
        if !all.contains(&what) {
            all.push(what);
        }
    }

    /// Returns a failure that lists the unanswered requests, if there are any.
    pub(crate) fn failure(&self) -> Option<CommandFailure> {
        let all = core::mem::take(&mut *lock(&self.0));
        (!all.is_empty())
            .then(|| CommandFailure::new(Exit::Unanswered, all.join("\n")).with_hint(UNANSWERED_HINT))
    }
}

/// Roots that are offered, shared between the handler and the command that waits until the server has them: when the server
/// got them, or was last heard of after that.
#[derive(Clone, Default)]
pub(crate) struct OfferedRoots(Arc<Mutex<Option<Instant>>>);

impl OfferedRoots {
    /// Returns how long the server has been silent since it got the roots; `None` if it has not asked for them.
    pub(crate) fn silence(&self) -> Option<Duration> {
        lock(&self.0).map(|heard| heard.elapsed())
    }

    /// Notes that the server was heard of, `is_sent` being whether it gets the roots now.
    pub(crate) fn heard(&self, is_sent: bool) {
        let mut last = lock(&self.0);
        *last = (is_sent || last.is_some()).then(Instant::now);
    }
}

/// Hint for an input request without an answer.
pub(crate) const UNANSWERED_HINT: &str =
    "answer with --answer KEY=JSON (see `mcp-probe call --help`), or run this on a terminal";

/// Answers input requests, up to [`MAX_INPUT_REQUESTS`].
pub(crate) struct InputResponder {
    presets: PresetAnswers,
    roots: Option<ListRootsResult>,
    dialogue: Option<Dialogue<Console>>,
    pub(crate) unanswered: UnansweredInputs,
    offered_roots: OfferedRoots,
    /// Number of input requests so far.
    request_count: u32,
}

impl InputResponder {
    /// Creates a responder from the options, for a server with this display name.
    ///
    /// At a terminal, the user answers what the options do not.
    ///
    /// # Errors
    ///
    /// Fails if a path of `--root` is invalid.
    pub(crate) fn new(options: &AnswerArgs, server: &str) -> Result<Self, CommandFailure> {
        Ok(Self {
            presets: PresetAnswers::new(options.answer.clone()),
            roots: roots::from_paths(&options.root).map_err(CommandFailure::usage)?,
            dialogue: Console::open().map(|console| Dialogue::new(console, server)),
            unanswered: UnansweredInputs::default(),
            offered_roots: OfferedRoots::default(),
            request_count: 0,
        })
    }

    /// Returns the roots, if the options offer any.
    pub(crate) fn roots(&self) -> Option<OfferedRoots> {
        self.has_roots().then(|| self.offered_roots.clone())
    }

    fn has_roots(&self) -> bool {
        self.roots.is_some() || self.presets.has(InputKind::Roots)
    }

    /// Returns the capabilities to declare: exactly the kinds that can be answered.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(crate) fn capabilities(&self) -> Capabilities {
        let person = self.dialogue.is_some();
        let mut all = Capabilities::new();
        if person || self.presets.has(InputKind::Elicit) {
            all = all.with(Capability::ElicitationForm).with(Capability::ElicitationUrl);
        }
        if person || self.presets.has(InputKind::Sample) {
            all = all.with(Capability::Sampling);
        }
        // The user types plain text; a preset message object may use tools.
        if self.presets.has_messages() {
            all = all.with(Capability::SamplingTools);
        }
        if self.has_roots() {
            all = all.with(Capability::Roots);
        }
        all
    }

    /// Answers an input request.
    ///
    /// # Errors
    ///
    /// Returns the error to refuse the request with.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(crate) fn answer(&mut self, input: &Input) -> Result<InputResponse<'static>, RpcError> {
        let request = &*input.request;
        // Whatever the answer is: the server need not ask again.
        self.offered_roots.heard(matches!(request, InputRequest::ListRoots(_)));
        self.request_count += 1;
        if self.request_count > MAX_INPUT_REQUESTS {
            self.unanswered.record(format!("the server sent more than {MAX_INPUT_REQUESTS} input requests"));
            return Err(unanswered_error());
        }
        if let (InputRequest::ListRoots(_), Some(roots)) = (request, &self.roots) {
            return Ok(roots.clone().into());
        }
        match self.presets.choose(input.key.as_deref(), request) {
            PresetLookup::Answer(answer) => {
                if let InputRequest::Elicit(ElicitParams::Url(page)) = request {
                    show_page(page);
                }
                return answer.map(|answer| *answer).ok_or_else(rejected_error);
            }
            PresetLookup::Mismatch(why) => {
                self.unanswered.record(format!("{}; {why}", describe_input(input)));
                return Err(unanswered_error());
            }
            PresetLookup::None => {}
        }
        let outcome = match &mut self.dialogue {
            Some(dialogue) => {
                let _terminal =
                    screen::Dialogue::begin("the server asks for input: press Enter to answer it");
                dialogue.ask(input.key.as_deref(), request)
            }
            None => DialogueOutcome::NotAsked,
        };
        let why = match outcome {
            DialogueOutcome::Answered(answer) => return Ok(*answer),
            DialogueOutcome::Refused => return Err(rejected_error()),
            DialogueOutcome::Failed(why) => why,
            DialogueOutcome::NotAsked => "no answer is available".to_owned(),
        };
        self.unanswered.record(format!("{}; {why}", describe_input(input)));
        Err(unanswered_error())
    }
}

/// Shows the page that a preset answer agrees to, before the server has the answer (ELIC-024, ELIC-038).
fn show_page(page: &ElicitUrlParams) {
    print_note(&format!("the server asks you to open {} ({})", page.url, page.message));
    for warning in url::warnings(&page.url) {
        print_note(warning);
    }
}

/// Describes an input request in a few words.
fn describe_input(input: &Input) -> String {
    let kind = InputKind::from_request(&input.request).map_or("unknown", InputKind::as_str);
    match &input.key {
        Some(key) => format!("the server requests input `{key}` ({kind})"),
        None => format!("the server requests input ({kind})"),
    }
}

fn unanswered_error() -> RpcError {
    RpcError::internal("the client has no handler for this request")
}

/// Returns the error for a request that the user rejected (SAMP-015).
fn rejected_error() -> RpcError {
    RpcError::new(code::USER_REJECTED, "the user rejected the request")
}

/// Maximum number of input requests that are answered, against servers that never stop asking.
const MAX_INPUT_REQUESTS: u32 = 100;
