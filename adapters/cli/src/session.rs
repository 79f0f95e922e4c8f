//! From the command line to a connection

use core::time::Duration;
use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, Input, Kind, Log, SubscriptionKey};
use mcp_proto::http::{self, HeadRecord};
use mcp_proto::model::{InputResponse, LoggingLevel};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, Change, Diagnostic, Era, Limits, RawJson, RpcError, UseError, VersionSet};
use mcp_std::child::{Ended, How, Patience, Program, Stderr};
use mcp_std::client::{Opens, Options};

use crate::answer::{Answers, Unanswered};
use crate::args::{self, Answering, NO_BEARER, StderrChoice, Target};
use crate::client::Client;
use crate::escape;
use crate::failure::{Asked, Failure};
use crate::news::{Item, News};
use crate::paint::Paint;
use crate::stop;
use crate::trace;

/// A connection to the server that the command line names
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) asked: Asked,
    /// What the server asked for and did not get
    pub(crate) unanswered: Unanswered,
    /// What has changed at the server
    pub(crate) news: News,
}

impl Session {
    /// Starts the server and agrees with it on a revision; without `answering` nothing that it asks for is answered
    pub(crate) fn open(target: &Target, answering: Option<&Answering>) -> Result<Self, Failure> {
        let versions = target.revisions.set().map_err(Failure::usage)?;
        let asked = Asked {
            timeout: target.timeout,
            connect_timeout: target.connect_timeout,
            total: None,
            stderr_shown: matches!(target.stderr, StderrChoice::Show | StderrChoice::Inherit),
        };
        let mut config = config(versions, target.timeout, target.connect_timeout, target.trace);
        if target.url().is_some() {
            // Silence is no reason to ask anything else over HTTP.
            let mut limits = config.get_limits().clone();
            (limits.probe_timeout, limits.init_timeout) = (target.connect_timeout, target.connect_timeout);
            config = config.limits(limits);
        }
        for member in &target.hide {
            config = config.hide_in_tap(member);
        }
        let answers = answering.map(|answering| Answers::new(answering, &target.server)).transpose()?;
        let mut unanswered = Unanswered::default();
        if let Some(answers) = &answers {
            config = config.capabilities(answers.capabilities());
            unanswered = answers.unanswered();
        }
        let news = News::default();
        let notes = Notes {
            trace: target.trace,
            remote: target.url().is_some(),
            hides: !target.hide.is_empty(),
            paint: Paint::for_stderr(),
            noise: Few(NOISE),
            level: target.log.clone(),
            answers,
            news: news.clone(),
        };
        let way = Way {
            server: &target.server,
            bearer: target.bearer.as_deref(),
            stderr: target.stderr,
            env: &target.env,
            heads: target.trace,
        };
        let client = Client::open(target.runtime, &way, config, notes, PATIENCE)?;
        let mut client = client.map_err(|error| Failure::of(&error, &asked))?;
        if let Some(level) = &target.log {
            match client.set_log_level(level.clone()) {
                Ok(()) => {}
                Err(Error::Use(UseError::PeerLacks(_))) => note("the server does not log"),
                Err(error) => return Err(Failure::of(&error, &asked)),
            }
        }
        Ok(Self { client, asked, unanswered, news })
    }

    /// Makes what went wrong a failure
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        Failure::of(error, &self.asked)
    }

    /// Ends the server; how it went is worth a word when it did not end by itself
    pub(crate) fn close(self) {
        match self.client.close() {
            Ok(Some(ended)) => {
                if let Some(complaint) = complaint(&ended) {
                    note(&complaint);
                }
            }
            Ok(None) => {}
            Err(error) => note(&error.to_string()),
        }
    }
}

/// Where a server is, and how it is reached
pub(crate) struct Way<'a> {
    /// Its command, or its URL
    pub(crate) server: &'a [OsString],
    pub(crate) bearer: Option<&'a str>,
    pub(crate) stderr: StderrChoice,
    pub(crate) env: &'a [String],
    /// Heads of HTTP are kept
    pub(crate) heads: bool,
}

impl Way<'_> {
    /// Starts the server or connects to it; what is wrong with the command line is said first
    pub(crate) fn connect<C>(&self, options: Options<C>) -> Result<Result<C, Error>, Failure>
    where
        C: for<'a> Opens<Opening<'a> = Result<C, Error>>,
    {
        self.open(options)
    }

    /// The same for clients that open as futures
    pub(crate) fn open<C: Opens>(&self, mut options: Options<C>) -> Result<C::Opening<'static>, Failure> {
        let Some(url) = args::url(self.server) else {
            if self.bearer.is_some() {
                return Err(Failure::usage(NO_BEARER));
            }
            return Ok(options.spawn(program(self.server, self.stderr, self.env)?));
        };
        let http = http::client::Config::new(url);
        let shown = http::client::Url::shown(url);
        let mut http =
            http.map_err(|why| Failure::usage(format!("{shown} cannot be connected to: {why}")))?;
        if let Some(bearer) = self.bearer {
            let credential = http::client::Credential::bearer(&token(bearer)?);
            http = http.credential(credential.map_err(|why| Failure::usage(format!("--bearer: {why}")))?);
        }
        if self.heads {
            options = options.tap_heads();
        }
        Ok(options.connect_http(http))
    }
}

/// The token that `--bearer` says, or says where to find; no message holds it (SEC-019)
pub(crate) fn token(bearer: &str) -> Result<String, Failure> {
    let found = if let Some(name) = bearer.strip_prefix("env:") {
        env::var(name).map_err(|error| format!("the variable {name}: {}", absent(&error)))
    } else if let Some(path) = bearer.strip_prefix('@') {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_TOKEN).read_to_string(&mut text));
        read.map(|_| text).map_err(|error| format!("the file {path}: {error}"))
    } else {
        return Ok(bearer.to_owned());
    };
    let token = found.map_err(|why| Failure::usage(format!("--bearer: {why}")))?;
    Ok(token.trim().to_owned())
}

/// Why a variable has no text; what it holds instead is not told
const fn absent(error: &VarError) -> &'static str {
    match error {
        VarError::NotPresent => "there is none of that name",
        VarError::NotUnicode(_) => "it holds no text",
    }
}

/// What a client of ours is
pub(crate) fn config(
    versions: VersionSet,
    timeout: Duration,
    connect_timeout: Duration,
    tap: bool,
) -> Config {
    let mut limits = Limits::default();
    limits.call_timeout = timeout;
    limits.call_total = limits.call_total.max(timeout);
    // With both eras one wait may follow upon the other.
    let dual = !versions.era(Era::Legacy).is_empty() && !versions.era(Era::Modern).is_empty();
    limits.probe_timeout = limits.probe_timeout.min(connect_timeout / 2);
    limits.init_timeout = if dual { connect_timeout - limits.probe_timeout } else { connect_timeout };
    if tap {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    Config::new("mcp-probe", env!("CARGO_PKG_VERSION")).versions(versions).limits(limits)
}

/// How a server's end differs from an orderly one
pub(crate) fn complaint(ended: &Ended) -> Option<String> {
    let forced = match ended.how {
        How::Exited if !ended.stragglers => return None,
        How::Exited => "left processes behind, which were ended with a signal",
        How::Terminated => "did not end when its input was closed; SIGTERM ended it",
        How::Killed => "ended neither when its input was closed nor on SIGTERM; SIGKILL ended it",
    };
    Some(format!("the server {forced}"))
}

/// Something to know, on stderr
pub(crate) fn note(text: &str) {
    stop::hush();
    let paint = Paint::for_stderr();
    say(&format!("{} {}", paint.note("note:"), escape::indented(text)));
}

/// Says what a program expects that speaks on stdin, when a person sits there
pub(crate) fn hint_at_terminal(command: &str) {
    if io::stdin().is_terminal() {
        note(&format!(
            "`mcp-probe {command}` is for MCP clients: it reads their messages from stdin, one JSON-RPC message a line, and \
             answers on stdout. Ctrl-D ends it; `mcp-probe {command} --help` shows how clients start it"
        ));
    }
}

/// A line on stderr; when that is closed there is nobody to tell
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// What to start
pub(crate) fn program(server: &[OsString], stderr: StderrChoice, env: &[String]) -> Result<Program, Failure> {
    let (program, args) = server.split_first().ok_or_else(|| Failure::usage("no server was named"))?;
    let stderr = match stderr {
        StderrChoice::Show => {
            let paint = Paint::for_stderr();
            Stderr::lines(move |line| say(&format!("{} {}", paint.dim("server:"), escape::line(line))))
        }
        StderrChoice::Inherit => Stderr::Inherit,
        StderrChoice::Capture => Stderr::Capture,
        StderrChoice::Null => Stderr::Null,
    };
    let mut program = Program::new(own(program)).args(args).stderr(stderr);
    for variable in env {
        program = match variable.split_once('=') {
            Some((name, value)) => program.env(name, value),
            None => program.inherit_env([variable]),
        };
    }
    Ok(program)
}

/// `mcp-probe` as a server means this very one, installed or not
fn own(program: &OsStr) -> OsString {
    let this = (program == "mcp-probe").then(env::current_exe);
    this.and_then(Result::ok).map_or_else(|| program.to_owned(), OsString::from)
}

/// Tells a person what the server does beside answering
struct Notes {
    trace: bool,
    /// The server is reached over HTTP
    remote: bool,
    /// Members of messages are hidden
    hides: bool,
    paint: Paint,
    noise: Few,
    /// Which log messages are shown
    level: Option<LoggingLevel>,
    answers: Option<Answers>,
    news: News,
}

impl ClientHandler for Notes {
    fn input(&mut self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        Some(match &mut self.answers {
            Some(answers) => answers.answer(input),
            None => Err(RpcError::internal("nobody is here to answer")),
        })
    }

    fn changed(&mut self, change: &Change) {
        self.news.add(Item::Changed(change.clone()));
    }

    fn subscription_ended(&mut self, _: SubscriptionKey, error: Option<&CallError>) {
        self.news.add(Item::Ended(error.cloned()));
    }

    fn elicitation_complete(&mut self, id: &str) {
        note(&format!("the server says that the matter of the web page is done (`{id}`)"));
    }

    fn log(&mut self, log: &Log) {
        // Legacy servers send what they like; an unknown level is as serious as can be.
        if self
            .level
            .as_ref()
            .is_some_and(|least| log.level.severity() >= least.severity() || log.level.severity().is_none())
        {
            say(&log_line(log, self.paint));
        }
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        match diagnostic {
            Diagnostic::Noise { line, length } => {
                let more = if line.len() < *length { " …" } else { "" };
                let what = if self.remote { "what the server sent" } else { "a line on the server's stdout" };
                self.noise.note(&format!("{what} is no message: {}{more}", escape::line(line)));
            }
            // Whoever misses it has to know (XHDR-012).
            Diagnostic::InvalidTool { .. } => self.noise.note(&diagnostic.to_string()),
            other if self.trace => note(&format!("the server did something odd: {other}")),
            _ => {}
        }
    }

    fn unreadable(&mut self, kind: Kind, _: &RawJson, why: &str) {
        self.noise.note(&format!("an entry of the server's {} cannot be read: {why}", kind.member()));
    }

    fn tap(&mut self, record: &TapRecord) {
        say(&trace::line(record, self.paint));
    }

    fn head(&mut self, record: &HeadRecord) {
        say(&trace::head(record, self.hides, self.paint));
    }
}

/// `log: warning (disk) "almost full"`
fn log_line(log: &Log, paint: Paint) -> String {
    let logger = log.logger.as_ref().map(|logger| format!(" ({})", escape::line(logger))).unwrap_or_default();
    // A text alone needs no quotes.
    let data = log.data.string().unwrap_or_else(|| log.data.as_str().to_owned());
    format!("{} {}{logger} {}", paint.dim("log:"), escape::line(log.level.as_str()), escape::line(&data))
}

/// Only so many notes of a kind
pub(crate) struct Few(pub(crate) u32);

impl Few {
    pub(crate) fn note(&mut self, text: &str) {
        if let Some(left) = self.0.checked_sub(1) {
            note(text);
            self.0 = left;
            if left == 0 {
                note("more of that kind is not shown");
            }
        }
    }
}

/// Bytes of a file with a token that are read
const MAX_TOKEN: u64 = 64 << 10;
/// Lines of noise that are shown
const NOISE: u32 = 3;
/// Enough for a server that ends as it should, short enough for a person who waits
pub(crate) const PATIENCE: Patience = Patience {
    exit: Duration::from_secs(2),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_secs(1),
};
