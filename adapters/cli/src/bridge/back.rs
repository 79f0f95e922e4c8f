//! The side that faces the server

use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::client::{Event, Input, Log, Peer};
use mcp_proto::http::HeadRecord;
use mcp_proto::model::{Implementation, InputResponse};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Capabilities, Change, Diagnostic, Fault, RpcError};
use mcp_std::client::{ClientHandler, Connection, Opened, Options, Wire};

use super::relay::client_limits;
use crate::args::{self, StderrChoice};
use crate::failure::{Asked, Exit, Failure};
use crate::paint::Paint;
use crate::session::{self, Few, PATIENCE, Way};
use crate::{escape, trace};

/// A connection to a server
pub(super) struct Back {
    connection: Connection,
    pub(super) peer: Peer,
    early: Arc<Mutex<Early>>,
}

/// What was heard before anybody was there to pass it on to, and who tells a person
struct Early {
    events: Vec<Event>,
    noise: Few,
    trace: bool,
    hides: bool,
    remote: bool,
    paint: Paint,
}

impl Back {
    /// Connects to the server, as who is given here
    pub(super) fn open(
        args: &args::Bridge,
        info: Option<Implementation>,
        capabilities: Capabilities,
    ) -> Result<Self, Failure> {
        let versions = args.revisions.set().map_err(Failure::usage)?;
        let remote = args::url(&args.server).is_some();
        let mut config = session::config(versions, args.timeout, args.connect_timeout, args.trace);
        let mut limits = client_limits(config.get_limits().clone());
        if remote {
            // Silence is no reason to ask anything else over HTTP.
            (limits.probe_timeout, limits.init_timeout) = (args.connect_timeout, args.connect_timeout);
        }
        config = config.limits(limits).capabilities(capabilities).any_custom_method();
        if let Some(info) = info {
            config = config.info(info);
        }
        for member in &args.hide {
            config = config.hide_in_tap(member);
        }
        let early = Arc::new(Mutex::new(Early {
            events: Vec::new(),
            noise: Few(3),
            trace: args.trace,
            hides: !args.hide.is_empty(),
            remote,
            paint: Paint::for_stderr(),
        }));
        let options = Options::<Opened>::new(config);
        let options = options.handler(Ear(Arc::clone(&early))).patience(PATIENCE).no_cache().no_validator();
        let way = Way {
            server: &args.server,
            bearer: args.bearer.as_deref(),
            stderr: args.stderr,
            env: &args.env,
            heads: args.trace,
        };
        let opened = way.connect(options)?;
        let Opened { connection, peer } = opened.map_err(|error| Failure::of(&error, &asked(args)))?;
        Ok(Self { connection, peer, early })
    }

    pub(super) fn wire(&mut self) -> &mut dyn Wire {
        &mut *self.connection.wire
    }

    /// What was heard while it was being connected to
    pub(super) fn take_early(&self) -> Vec<Event> {
        core::mem::take(&mut self.ear().events)
    }

    fn ear(&self) -> MutexGuard<'_, Early> {
        lock(&self.early)
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let event = self.connection.wire.poll_event()?;
        if let Event::Diagnostic(diagnostic) = &event {
            self.ear().diagnostic(diagnostic);
        }
        Some(event)
    }

    /// Reads what is there, without waiting, and lets deadlines pass
    pub(super) fn look(&mut self) {
        let now = self.connection.wire.tick();
        self.connection.wire.wait(Some(now));
    }

    pub(super) fn show_tap(&mut self) {
        while let Some(record) = self.connection.wire.poll_head() {
            self.ear().head(&record);
        }
        while let Some(record) = self.connection.wire.engine().poll_tap() {
            self.ear().tap(&record);
        }
    }

    /// Ends the server in good order
    pub(super) fn close(&mut self) {
        match self.connection.finish() {
            Ok(Some(ended)) => {
                if let Some(complaint) = session::complaint(&ended) {
                    session::note(&complaint);
                }
            }
            Ok(None) => {}
            Err(error) => session::note(&error.to_string()),
        }
    }

    /// What is known of a server that has gone
    pub(super) fn failure(&mut self, fault: &Fault) -> Failure {
        let known = self.connection.wire.obituary(LAST_BREATH);
        let who = match (known.program, known.url) {
            (Some(program), _) => format!("{program:?}"),
            (None, Some(url)) => url,
            (None, None) => "the server".to_owned(),
        };
        let how = known.ended.map(|status| format!(" ({status})")).unwrap_or_default();
        let what = match fault {
            Fault::Eof | Fault::Truncated { .. } => format!("{who} ended in the middle of the session{how}"),
            fault => format!("no connection to {who} any more{how}: {fault}"),
        };
        Failure::new(Exit::Connection, what).last_words(&known.last_words)
    }
}

fn asked(args: &args::Bridge) -> Asked {
    Asked {
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        total: None,
        stderr_shown: matches!(args.stderr, StderrChoice::Show | StderrChoice::Inherit),
    }
}

fn lock(early: &Mutex<Early>) -> MutexGuard<'_, Early> {
    early.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Early {
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        match diagnostic {
            Diagnostic::Noise { line, length } => {
                let more = if line.len() < *length { " …" } else { "" };
                let what = if self.remote { "what the server sent" } else { "a line on the server's stdout" };
                self.noise.note(&format!("{what} is no message: {}{more}", escape::line(line)));
            }
            Diagnostic::LateResponse(_) | Diagnostic::UnknownCancel(_) => {}
            other if self.trace => session::note(&format!("the server did something odd: {other}")),
            _ => {}
        }
    }

    fn tap(&self, record: &TapRecord) {
        session::say(&format!("{} {}", self.paint.dim("server"), trace::line(record, self.paint)));
    }

    fn head(&self, record: &HeadRecord) {
        session::say(&format!(
            "{} {}",
            self.paint.dim("server"),
            trace::head(record, self.hides, self.paint)
        ));
    }
}

/// Hears what comes until the bridge stands
struct Ear(Arc<Mutex<Early>>);

impl Ear {
    fn hear(&self, event: Event) {
        let mut early = lock(&self.0);
        if early.events.len() < MAX_EARLY {
            early.events.push(event);
        }
    }
}

impl ClientHandler for Ear {
    fn input(&mut self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.hear(Event::Input(input.clone()));
        None
    }

    fn changed(&mut self, change: &Change) {
        self.hear(Event::Changed { key: None, change: change.clone() });
    }

    fn log(&mut self, log: &Log) {
        self.hear(Event::Log(log.clone()));
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        lock(&self.0).diagnostic(diagnostic);
    }

    fn tap(&mut self, record: &TapRecord) {
        lock(&self.0).tap(record);
    }

    fn head(&mut self, record: &HeadRecord) {
        lock(&self.0).head(record);
    }
}

/// Events that are kept until the bridge stands
const MAX_EARLY: usize = 256;
/// How long the exit status of a server is waited for that has closed its output
const LAST_BREATH: core::time::Duration = core::time::Duration::from_secs(1);
