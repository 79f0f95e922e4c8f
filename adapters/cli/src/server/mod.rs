//! The server that the command line names, and how to reach it.

#[cfg(feature = "auth")]
mod authorized;
mod config_file;
mod variables;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;
use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use mcp_std::sync::lock;
use std::thread;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_check::Target;
use mcp_check::hints::{self, find_program};
use mcp_proto::http::client::{Config, Credential, Url};
use mcp_proto::http::fields::AUTHORIZATION;
use mcp_proto_trace::Mask;
use mcp_runtime::client::{Connector, Options};
use mcp_std::io::StreamAddress;
use mcp_std::process::{Program, Stderr};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args::{self, ServerArgs, ServerPlaceArgs, StderrChoice};
use crate::authorizer::{self, Authorizer};
use crate::era_cache::{self, EraMemory};
use crate::failure::{CommandFailure, Exit, FailureContext};
use crate::features::Feature;
use crate::notes::print_stderr;
use crate::output::{count, read_text};
use crate::paint::Paint;
use crate::{connections, escape, handed_over};
pub(crate) use mcp_std::json_file::Location;

/// A server to start or to connect to.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Server {
    Program(ServerProgram),
    Remote(RemoteServer),
    #[serde(with = "stream_address")]
    Stream(StreamAddress),
}

/// A server on stdio.
#[derive(PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ServerProgram {
    program: OsString,
    args: Vec<OsString>,
    /// Variables in order. One without a value is passed on.
    env: Vec<(String, Option<String>)>,
    /// Working directory, unless it is that of this process.
    directory: Option<PathBuf>,
    /// Name in a configuration file. It stands for the command, whose arguments may contain secrets from variables.
    name: Option<String>,
    /// Whether the variables are all that the program gets.
    is_resolved: bool,
    #[serde(skip)]
    unshown: UnshownStderr,
}

/// A server over HTTP.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteServer {
    url: String,
    fields: Vec<HeaderField>,
    /// Hosts to which a credential may be sent without TLS.
    http_hosts: Vec<String>,
}

/// A header field that each request carries. Its value is secret.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct HeaderField {
    name: String,
    value: String,
    /// Origin of the field, for error messages.
    source: String,
}

/// A server of a configuration file, with the members of its entry.
pub(crate) struct NamedServer {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) members: Map<String, Value>,
    pub(crate) at: Location,
}

impl Server {
    /// Returns the server that the options name.
    ///
    /// # Errors
    ///
    /// Fails if no server is named, if an option does not apply to it, or if a header field is invalid.
    pub(crate) fn from_args(args: &ServerArgs) -> Result<Self, CommandFailure> {
        let mut server = Self::from_place(&args.place)?;
        match &mut server {
            Self::Program(_) | Self::Stream(_) if args.bearer.is_some() => {
                return Err(CommandFailure::usage("--bearer needs a server over HTTP: give its URL"));
            }
            Self::Program(_) | Self::Stream(_) if !args.header.is_empty() => {
                return Err(CommandFailure::usage("--header needs a server over HTTP: give its URL"));
            }
            Self::Stream(_) if !args.env.is_empty() => {
                return Err(CommandFailure::usage("--env is for a server that is started: give its command"));
            }
            Self::Stream(_) => {}
            Self::Program(program) => {
                program.env.extend(args.env.iter().map(|variable| match variable.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (variable.clone(), None),
                }))
            }
            Self::Remote(remote) => remote.add_options(args)?,
        }
        server.check_remote()?;
        Ok(server)
    }

    /// Returns what the server is sent and no text may show: the variables of a program; the header fields and the query of a URL.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Program(program) => program.variables().map(|(_, value)| value).collect(),
            Self::Remote(remote) => {
                let query = remote.url.split_once('?').map(|(_, query)| query.to_owned());
                remote.to_fields().into_iter().map(|(_, value)| value).chain(query).collect()
            }
            Self::Stream(_) => Vec::new(),
        }
    }

    /// Returns those of the [secrets](Self::secrets) that are told from other values by their names or their form: what a program gets
    /// besides, a level of its log for example, may be a word of any text.
    pub(crate) fn named_secrets(&self) -> Vec<String> {
        let Self::Program(program) = self else { return self.secrets() };
        let mask = Mask::default();
        let is_secret = |name: &str, value: &str| mask.is_secret_name(name) || mask.words(value) != value;
        let secrets = program.variables().filter(|(name, value)| is_secret(name, value));
        secrets.map(|(_, value)| value).collect()
    }

    /// Returns the server that a URL, a command or a configuration file names, without further options.
    ///
    /// # Errors
    ///
    /// Fails if no server is named, or if the configuration file is wrong.
    fn from_place(place: &ServerPlaceArgs) -> Result<Self, CommandFailure> {
        if let Some(serial) = &place.serial {
            return Ok(Self::Stream(StreamAddress::Serial(serial.clone())));
        }
        if let (None, Some(socket)) = (&place.config, args::socket(&place.command)) {
            let address = socket.parse().map_err(|why| {
                CommandFailure::usage(format!("cannot connect to {}: {why}", escape::line(socket)))
            });
            return address.map(Self::Stream);
        }
        if let (None, Some(name)) = (&place.config, args::connection(&place.command)) {
            let address = connections::address(name).map_err(CommandFailure::usage)?;
            return match &address {
                StreamAddress::Unix(path) if !path.exists() => Err(CommandFailure::missing_connection(name)),
                _ => Ok(Self::Stream(address)),
            };
        }
        Ok(match (&place.config, args::url(&place.command)) {
            (Some(_), _) if !place.command.is_empty() => {
                let why = "--config names the server: leave the URL or the command out";
                return Err(CommandFailure::usage(why));
            }
            (Some(path), _) => config_file::load(path, place.server_name.as_deref())?,
            (None, _) if place.server_name.is_some() => {
                return Err(CommandFailure::usage("--server names an entry of a file: add --config FILE"));
            }
            (None, Some(url)) => Self::Remote(RemoteServer::new(url.to_owned(), Vec::new())),
            (None, None) if place.command.is_empty() => {
                let handed = handed_over::server().unwrap_or_else(|| Err(NO_SERVER.to_owned()));
                return handed.map_err(CommandFailure::usage);
            }
            (None, None) => Self::from_command(place.command.iter().cloned()),
        })
    }

    /// Returns all servers of a configuration file.
    ///
    /// # Errors
    ///
    /// Fails if the file is wrong, or if a server needs a feature that is missing.
    pub(crate) fn all_from_config(path: &Path) -> Result<Vec<NamedServer>, CommandFailure> {
        let all = config_file::load_all(path)?;
        all.iter().try_for_each(|named| named.server.check_remote())?;
        Ok(all)
    }

    /// Checks the URL and the header fields, and that `https` is possible.
    fn check_remote(&self) -> Result<(), CommandFailure> {
        let Self::Remote(remote) = self else { return Ok(()) };
        let is_secure = remote.config()?.endpoint().origin().secure;
        if is_secure && !Feature::Tls.is_enabled() {
            return Err(Feature::Tls.missing(&remote.display_name()));
        }
        Ok(())
    }

    /// Returns the server as a check or a diagnosis takes it.
    ///
    /// # Errors
    ///
    /// Fails if the URL or a header field is invalid.
    pub(crate) fn target(&self, stderr: StderrChoice) -> Result<Target, CommandFailure> {
        Ok(match self {
            Self::Program(program) => program.program(stderr).into(),
            Self::Stream(address) => address.clone().into(),
            Self::Remote(remote) => {
                Target::Http { url: remote.config()?.endpoint().clone(), fields: remote.to_fields() }
            }
        })
    }

    /// Creates a server on stdio from a command, which must not be empty.
    pub(crate) fn from_command(words: impl Iterator<Item = OsString>) -> Self {
        let mut args: Vec<_> = words.collect();
        let program = if args.is_empty() { OsString::new() } else { args.remove(0) };
        Self::Program(ServerProgram { program, args, ..ServerProgram::default() })
    }

    /// Names the source of lines that are no messages.
    pub(crate) const fn noise_source(&self) -> &'static str {
        match self {
            Self::Program(_) => "a line on the server's stdout",
            Self::Remote(_) => "what the server sent",
            Self::Stream(_) => "a line of the server",
        }
    }

    /// Returns whether the server is reached over HTTP.
    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Returns the name of the server for what is kept: without the arguments of its command, which may have secrets.
    pub(crate) fn report_name(&self) -> String {
        match self {
            Self::Program(program) => program.report_name(),
            Self::Remote(_) | Self::Stream(_) => self.display_name(),
        }
    }

    /// Returns the name of the server for display: its command or its URL, escaped and shortened.
    pub(crate) fn display_name(&self) -> String {
        let name = match self {
            Self::Remote(remote) => remote.display_name(),
            Self::Stream(address) => {
                connections::name_at(address).map_or_else(|| address.to_string(), |name| format!("@{name}"))
            }
            Self::Program(ServerProgram { name: Some(name), .. }) => name.clone(),
            Self::Program(program) => {
                let words: Vec<_> = program.words().map(OsStr::to_string_lossy).collect();
                words.join(" ")
            }
        };
        escape::line(&escape::shortened(&name, MAX_NAME_CHARS)).into_owned()
    }

    /// Creates a failure from an error of a client of this server.
    pub(crate) fn failure(&self, error: &Error, context: &FailureContext) -> CommandFailure {
        if let (Self::Stream(address), Error::Io(error)) = (self, error) {
            let is_gone = matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
            if let Some(name) = connections::name_at(address).filter(|_| is_gone) {
                return CommandFailure::missing_connection(&name);
            }
            // Its text names the address.
            let failure = CommandFailure::new(Exit::Connection, error.to_string());
            return match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut => {
                    failure.with_hint(hints::UNREACHABLE)
                }
                _ => failure,
            };
        }
        let unauthorized = match self {
            Self::Remote(remote) => CommandFailure::from_refused_authorization(error, &remote.display_name()),
            Self::Program(_) | Self::Stream(_) => None,
        };
        let failure = unauthorized.unwrap_or_else(|| CommandFailure::from_client_error(error, context));
        match self {
            Self::Stream(address) if connections::name_at(address).is_some() => {
                failure.renamed(&address.to_string(), &self.display_name())
            }
            Self::Program(program) if matches!(error, Error::Closed(closed) if closed.was_ready) => {
                match program.unshown.take() {
                    Some(lines) => failure.with_stderr_tail(&lines),
                    None => failure,
                }
            }
            _ => failure,
        }
    }

    /// Returns the hash of the command and its place, or of the URL; `None` for a stream. Values of variables do not count.
    pub(crate) fn place_hash(&self) -> Option<String> {
        match self {
            Self::Program(ServerProgram { program, args, env, directory, .. }) => {
                let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
                let here = env::current_dir().ok();
                let program = resolve_program(program);
                // Another file of the same name is another server.
                let file = find_program(&program).and_then(|path| Some((fs::metadata(&path).ok()?, path)));
                let file = file.map(|(found, path)| (path, found.modified().ok(), found.len()));
                Some(era_cache::hash_text(&(program, file, args, names, directory, here)))
            }
            Self::Remote(remote) => Some(era_cache::hash_text(&remote.url)),
            Self::Stream(_) => None,
        }
    }

    /// Replaces what depends on the environment and the working directory of this process, so that another one can start the server.
    #[cfg(unix)]
    pub(crate) fn resolve(&mut self, here: &Path) {
        match self {
            Self::Program(program) => program.resolve(here),
            Self::Stream(StreamAddress::Unix(path)) => *path = here.join(&path),
            Self::Stream(StreamAddress::Serial(line)) => line.device = here.join(&line.device),
            Self::Remote(_) | Self::Stream(_) => {}
        }
    }

    /// Returns the names of the header fields that each request carries.
    pub(crate) fn field_names(&self) -> Vec<String> {
        match self {
            Self::Program(_) | Self::Stream(_) => Vec::new(),
            Self::Remote(remote) => remote.fields.iter().map(|field| field.name.clone()).collect(),
        }
    }
}

impl ServerProgram {
    /// Returns the program to start.
    pub(crate) fn program(&self, stderr: StderrChoice) -> Program {
        self.program_with(stderr, EarlyStderr::default())
    }

    fn program_with(&self, stderr: StderrChoice, early: EarlyStderr) -> Program {
        let stderr = match stderr {
            StderrChoice::Show => {
                let label = format!("{}:", escape::line(self.name.as_deref().unwrap_or("server")));
                lock(&early.0).label = Paint::for_stderr().dim(label).to_string();
                Stderr::lines(move |line| early.print(line.to_owned()))
            }
            StderrChoice::Inherit => Stderr::Inherit,
            StderrChoice::Capture => Stderr::Capture,
            StderrChoice::Null => Stderr::Null,
        };
        let mut program = Program::new(resolve_program(&self.program)).args(&self.args).stderr(stderr);
        if self.is_resolved {
            program = program.clear_env();
        }
        if let Some(directory) = &self.directory {
            program = program.current_dir(directory);
        }
        for (name, value) in &self.env {
            program = match value {
                Some(value) => program.env(name, value),
                None => program.inherit_env([name]),
            };
        }
        program
    }

    /// Takes the values of all variables, and makes paths absolute. Variables that are not UTF-8 are left out.
    #[cfg(unix)]
    fn resolve(&mut self, here: &Path) {
        let environment = self.program(StderrChoice::Null).environment().into_iter();
        let texts = environment
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        self.env = texts.map(|(name, value)| (name, Some(value))).collect();
        self.is_resolved = true;
        self.directory =
            Some(self.directory.as_ref().map_or_else(|| here.to_owned(), |path| here.join(path)));
        self.program = resolve_program(&self.program);
        if self.program.as_encoded_bytes().contains(&b'/') {
            self.program = here.join(&self.program).into();
        }
    }

    /// Returns the variables that are set or passed on, with their values.
    fn variables(&self) -> impl Iterator<Item = (&str, String)> {
        self.env
            .iter()
            .filter_map(|(name, value)| Some((&**name, value.clone().or_else(|| env::var(name).ok())?)))
    }

    /// Returns the name in a configuration file, or the file name of the program.
    fn report_name(&self) -> String {
        let program = || Path::new(&self.program).file_name().unwrap_or(&self.program).to_string_lossy();
        escape::line(&self.name.clone().unwrap_or_else(|| program().into_owned())).into_owned()
    }

    /// Returns the words of the command.
    pub(crate) fn words(&self) -> impl Iterator<Item = &OsStr> {
        core::iter::once(&*self.program).chain(self.args.iter().map(|arg| &**arg))
    }
}

impl RemoteServer {
    const fn new(url: String, fields: Vec<HeaderField>) -> Self {
        Self { url, fields, http_hosts: Vec::new() }
    }

    /// Returns the URL without secrets, for messages.
    pub(crate) fn display_name(&self) -> String {
        Url::redacted(&self.url)
    }

    /// Returns the configuration of a client, with all header fields.
    ///
    /// # Errors
    ///
    /// Fails if the URL or a header field is invalid. The message contains no value (SEC-019).
    pub(crate) fn config(&self) -> Result<Config, CommandFailure> {
        let shown = self.display_name();
        let mut config = Config::new(&self.url)
            .map_err(|why| CommandFailure::usage(format!("cannot connect to {shown}: {why}")))?;
        for HeaderField { name, value, source } in &self.fields {
            let added = config.field(name, value.as_bytes());
            config = added.map_err(|why| CommandFailure::usage(format!("{source}: {why}")))?;
        }
        if self.http_hosts.iter().any(|host| **host == *config.endpoint().origin().host) {
            config = config.dangerously_allow_cleartext_credential();
        }
        Ok(handed_over::confine(config))
    }

    /// Adds a bearer token to each request.
    #[cfg(feature = "check")]
    pub(crate) fn set_bearer(&mut self, token: &str) {
        let (name, source) = (AUTHORIZATION.to_owned(), "the token".to_owned());
        self.fields.push(HeaderField { name, value: format!("Bearer {token}"), source });
    }

    /// Returns the header fields: name and value.
    pub(crate) fn to_fields(&self) -> Vec<(String, String)> {
        self.fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect()
    }

    /// Adds the header fields of the command line. They replace others with the same name.
    fn add_options(&mut self, args: &ServerArgs) -> Result<(), CommandFailure> {
        let mut fields =
            args.header.iter().map(|text| HeaderField::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(bearer) = &args.bearer {
            if fields.iter().any(|field| field.name.eq_ignore_ascii_case(AUTHORIZATION)) {
                return Err(CommandFailure::usage("--bearer and --header Authorization exclude each other"));
            }
            fields.push(HeaderField::bearer(bearer)?);
        }
        self.fields.retain(|old| !fields.iter().any(|new| new.name.eq_ignore_ascii_case(&old.name)));
        self.fields.append(&mut fields);
        Ok(())
    }
}

impl HeaderField {
    /// Parses the value of `--header`. No error message contains it (SEC-019).
    fn parse(text: &str) -> Result<Self, CommandFailure> {
        let Some((name, value)) = text.split_once(':').filter(|(name, _)| !name.trim().is_empty()) else {
            let why = "--header: must be NAME:VALUE: write \"X-Api-Key: env:API_KEY\"";
            return Err(CommandFailure::usage(why));
        };
        let name = name.trim();
        let source = format!("--header {name}");
        let value = read_secret(value.trim(), &source)?;
        Ok(Self { name: name.to_owned(), value, source })
    }

    /// Creates the field for the value of `--bearer`.
    fn bearer(text: &str) -> Result<Self, CommandFailure> {
        let source = "--bearer".to_owned();
        let token = read_secret(text, &source)?;
        Credential::bearer(&token).map_err(|why| CommandFailure::usage(format!("{source}: {why}")))?;
        Ok(Self { name: AUTHORIZATION.to_owned(), value: format!("Bearer {token}"), source })
    }
}

/// What a program prints on stderr before a revision is agreed on.
///
/// It is kept back: an old server complains there about a question that it does not know. It is shown if none is agreed on, or if that
/// takes [`HOLD_TIME`] more, for it may name a page to open. Otherwise it is in the failure of a program that ends soon.
#[derive(Clone, Default)]
struct EarlyStderr(Arc<Mutex<EarlyLines>>);

#[derive(Default)]
struct EarlyLines {
    label: String,
    is_held: bool,
    lines: VecDeque<String>,
    /// Number of lines that were dropped before them.
    left_out: usize,
    starts: u32,
}

impl EarlyLines {
    fn show(&mut self) {
        for line in self.take() {
            print_stderr(&format!("{} {}", self.label, escape::line(&line)));
        }
    }

    fn take(&mut self) -> VecDeque<String> {
        if let left_out @ 1.. = core::mem::take(&mut self.left_out) {
            self.lines.push_front(format!("… {} before that left out", count(left_out, "line")));
        }
        core::mem::take(&mut self.lines)
    }
}

/// The stderr of a program from before a revision was agreed on, with the time of the agreement. It is no part of a comparison of servers.
#[derive(Default)]
struct UnshownStderr(Mutex<Option<(Instant, String)>>);

impl PartialEq for UnshownStderr {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UnshownStderr {}

impl UnshownStderr {
    fn set(&self, lines: VecDeque<String>) {
        let lines = (!lines.is_empty()).then(|| (Instant::now(), Vec::from(lines).join("\n")));
        *lock(&self.0) = lines;
    }

    /// Takes the lines, if they may say why the program has ended now.
    fn take(&self) -> Option<String> {
        let (at, lines) = lock(&self.0).take()?;
        (at.elapsed() < CAUSE_TIME).then_some(lines)
    }
}

impl EarlyStderr {
    /// Notes a start. What was kept back of the start before is dropped.
    fn begin(&self, is_held: bool) {
        let mut early = lock(&self.0);
        early.is_held = is_held;
        early.starts += 1;
        early.take();
    }

    fn print(&self, line: String) {
        let mut early = lock(&self.0);
        early.lines.push_back(line);
        if !early.is_held {
            early.show();
        } else if early.lines.len() > MAX_HELD_LINES {
            early.lines.pop_front();
            early.left_out += 1;
        } else if early.lines.len() == 1 {
            let late = self.clone();
            let show = move || {
                thread::sleep(HOLD_TIME);
                lock(&late.0).show();
            };
            // Without a thread it is shown at the end.
            let _ = thread::Builder::new().spawn(show);
        }
    }

    /// Shows what was kept back, unless a revision is agreed on: the program gets it then. Returns the number of starts.
    fn end(&self, agreed: Option<&UnshownStderr>) -> u32 {
        let mut early = lock(&self.0);
        match agreed {
            Some(unshown) => unshown.set(early.take()),
            None => early.show(),
        }
        early.is_held = false;
        early.starts
    }
}

/// A server and how a command uses it.
pub(crate) struct ServerSpec<'a> {
    pub(crate) server: &'a Server,
    pub(crate) stderr: StderrChoice,
    /// Whether heads of HTTP messages are recorded.
    pub(crate) tap_heads: bool,
    /// Answers the challenges of a server over HTTP.
    pub(crate) authorizer: Option<&'a Authorizer>,
    /// Hears of a program that is started twice.
    pub(crate) memory: Option<&'a EraMemory>,
}

impl ServerSpec<'_> {
    /// Starts the server or connects to it.
    ///
    /// # Errors
    ///
    /// The outer error reports a mistake on the command line, the inner one a failed connection.
    pub(crate) fn connect<C>(&self, options: Options<C>) -> Result<Result<C, Error>, CommandFailure>
    where
        C: for<'a> Connector<Connecting<'a> = Result<C, Error>>,
    {
        self.connect_by(options, |opened| opened)
    }

    /// Does the same as [`Self::connect()`], for clients that open as futures too, which `wait` waits for.
    ///
    /// # Errors
    ///
    /// As [`Self::connect()`].
    pub(crate) fn connect_by<C: Connector>(
        &self,
        options: Options<C>,
        wait: impl FnOnce(C::Connecting<'static>) -> Result<C, Error>,
    ) -> Result<Result<C, Error>, CommandFailure> {
        let early = EarlyStderr::default();
        let opened = wait(self.open(options, &early)?);
        let agreed = match self.server {
            Server::Program(program) if opened.is_ok() => Some(&program.unshown),
            _ => None,
        };
        if let (2.., Some(memory)) = (early.end(agreed), self.memory) {
            memory.note_restart();
        }
        Ok(opened)
    }

    fn open<C: Connector>(
        &self,
        mut options: Options<C>,
        early: &EarlyStderr,
    ) -> Result<C::Connecting<'static>, CommandFailure> {
        let remote = match self.server {
            Server::Program(program) => {
                let (begun, is_held) = (early.clone(), !self.tap_heads);
                let program = program.program_with(self.stderr, early.clone());
                return Ok(options.spawn(program.before_spawn(move |_| {
                    begun.begin(is_held);
                    Ok(())
                })));
            }
            Server::Stream(address) => return Ok(options.connect_to(address.clone())),
            Server::Remote(remote) => remote,
        };
        if self.tap_heads {
            options = options.tap_heads();
        }
        if let Some(authorizer) = self.authorizer {
            options = authorizer::add_to(options, authorizer);
        }
        Ok(options.connect_http(remote.config()?))
    }
}

/// The address of a socket or a line for another process of this program: its text.
mod stream_address {
    use mcp_std::io::StreamAddress;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(address: &StreamAddress, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(address)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StreamAddress, D::Error> {
        let text = String::deserialize(from)?;
        match text.strip_prefix("serial:") {
            Some(line) => Ok(StreamAddress::Serial(line.parse().map_err(D::Error::custom)?)),
            None => text.parse().map_err(D::Error::custom),
        }
    }
}

/// Returns the secret that a value contains or refers to: `env:NAME`, `@PATH`, or itself.
///
/// # Errors
///
/// Fails if the variable or the file cannot be read. No error message contains the secret (SEC-019).
pub(crate) fn read_secret(text: &str, source: &str) -> Result<String, CommandFailure> {
    let found = if let Some(name) = text.strip_prefix("env:") {
        env::var(name).map_err(|error| format!("the variable {name}: {}", var_error_text(&error)))
    } else if let Some(path) = text.strip_prefix('@') {
        read_text(Path::new(path), MAX_SECRET_BYTES).map_err(|error| format!("the file {path}: {error}"))
    } else {
        return Ok(text.to_owned());
    };
    let secret = found.map_err(|why| CommandFailure::usage(format!("{source}: {why}")))?;
    Ok(secret.trim().to_owned())
}

/// Describes why a variable cannot be read, without its value.
pub(crate) const fn var_error_text(error: &VarError) -> &'static str {
    match error {
        VarError::NotPresent => "it is not set",
        VarError::NotUnicode(_) => "its value is not UTF-8",
    }
}

/// Replaces `mcp-probe` by the path of this executable, so that it need not be installed.
fn resolve_program(program: &OsStr) -> OsString {
    let this = (program == "mcp-probe").then(env::current_exe);
    this.and_then(Result::ok).map_or_else(|| program.to_owned(), OsString::from)
}

/// Error text for a command line without a server.
const NO_SERVER: &str = "no server is given: write its URL, tcp://HOST:PORT, unix:PATH, --serial DEVICE, -- CMD with its arguments, or --config FILE --server NAME";
/// Time after which a line on stderr is shown although no revision is agreed on yet.
const HOLD_TIME: Duration = Duration::from_secs(2);
/// Time after the agreement in which what was printed before may be why a program ends.
const CAUSE_TIME: Duration = Duration::from_secs(60);
/// Maximum number of lines that are kept back. The oldest ones are dropped, which is said.
const MAX_HELD_LINES: usize = 500;
/// Maximum number of bytes read from a file with a secret. The rest is ignored.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Maximum number of characters shown of a server's command.
const MAX_NAME_CHARS: usize = 60;
