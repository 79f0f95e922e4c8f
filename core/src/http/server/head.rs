//! What the head of a request decides: who may come in, to which path, with what (HTTP-029, first half).

use alloc::format;
use alloc::string::String;

use super::config::Config;
use super::exchange::{Exchange, ExchangeId, Kind, Phase};
use super::mirror::Mirror;
use super::session::Found;
use super::{Event, Server, Token, split_target};
use crate::ascii::AnyCase as _;
use crate::head::{BodySize, Field, Fields, Request};
use crate::http::fields::{self, Known};
use crate::raw::RawJson;
use crate::rpc::{RpcError, encode};
use crate::slab::Key;
use crate::time::Instant;

/// Why a token does not let in (RFC 6750, 3.1)
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Denial {
    /// It is unknown, expired, revoked, or not meant for this server: 401
    InvalidToken,
    /// It is good, but does not allow this; the scopes that would, separated by spaces: 403
    InsufficientScope(String),
}

/// A refusal: its status, and what it says
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) error: RpcError,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<alloc::borrow::Cow<'static, str>>) -> Self {
        Self { status, error: RpcError::invalid_request(message) }
    }
}

impl Server {
    /// Begins an exchange with the head of its request
    ///
    /// `length` is how long its body will be, where that is known. A request that its head rules out has its response at
    /// once; its body need not be read.
    pub fn open(&mut self, now: Instant, head: &Request<'_>, length: Option<u64>) -> ExchangeId {
        self.tick(now);
        let (path, query) = split_target(head.target);
        let kind = self.kind(head.method, path);
        let mut exchange = Exchange::new(kind, self.now, &mut self.spare);
        let said = Said::read(head.fields, &self.config, &mut exchange.mirror);
        let stranger = self.check_host(&said).err();
        if stranger.is_some() {
            // A page that is not let in does not get to read that either.
            exchange.mirror.forget_origin();
        }
        exchange.cors = self.config.cors;
        let key = self.exchanges.insert(exchange);
        self.begin_ticking();
        let admitted = match stranger {
            Some(refusal) => Err(Some(refusal)),
            None => self.admit(key, head, &said, path),
        };
        match admitted {
            Ok(()) => self.enter(key, &said, query, length),
            Err(Some(refusal)) => self.refuse(key, &refusal),
            Err(None) => {}
        }
        ExchangeId(key)
    }

    fn kind(&self, method: &str, path: &str) -> Kind {
        let old = |path: &str| self.config.old_paths.as_ref().is_some_and(|(stream, _)| stream == path);
        let old_post = |path: &str| self.config.old_paths.as_ref().is_some_and(|(_, post)| post == path);
        match method {
            "POST" if path == self.config.path => Kind::Post,
            "GET" if path == self.config.path => Kind::Get,
            "GET" if old(path) => Kind::Old,
            "POST" if old_post(path) => Kind::OldPost,
            _ => Kind::Other,
        }
    }

    /// Whether the request may come in at all; an error without a refusal is one that was answered
    fn admit(
        &mut self,
        key: Key,
        head: &Request<'_>,
        said: &Said<'_>,
        path: &str,
    ) -> Result<(), Option<Refusal>> {
        let allowed = self.methods(path);
        if head.method == "OPTIONS" && self.config.cors && allowed.is_some() {
            self.preflight(key);
            return Err(None);
        }
        let Some(allowed) = allowed else {
            return Err(Some(Refusal::new(
                404,
                format!("nothing is served here; the endpoint is {}", self.config.path),
            )));
        };
        let modern_only = self.engine.config().legacy().is_empty();
        if !allowed.contains(&head.method) {
            let why = if modern_only {
                "this server has POST alone"
            } else {
                "the method is none that is served here"
            };
            let mut fields = Fields::new();
            fields.push(fields::ALLOW, allowed.join(", ").as_bytes()); // HTTP-039, HTTP-080
            self.refuse_with(key, &Refusal::new(405, why), fields);
            return Err(None);
        }
        if let Some(document) = self.metadata(path).cloned() {
            self.answer_whole(key, 200, document.as_bytes(), Fields::new());
            return Err(None);
        }
        if self.exchanges.len() > self.config.max_exchanges {
            return Err(Some(overloaded("too many exchanges are under way")));
        }
        if self.engine.is_shutting_down() && head.method != "DELETE" {
            return Err(Some(shutting_down()));
        }
        self.check_token(key, said.token)
    }

    /// The document that is served at a path
    fn metadata(&self, path: &str) -> Option<&RawJson> {
        let (at, document) = self.config.protected.as_ref()?.metadata.as_ref()?;
        (at == path).then_some(document)
    }

    /// HTTP-003, HTTP-004, HTTP-008: before anything else, so that a page learns nothing
    fn check_host(&self, said: &Said<'_>) -> Result<(), Refusal> {
        if self.config.any_origin_and_host {
            return Ok(());
        }
        if !matches!(said.host, Only::One(host) if self.config.is_host(host)) {
            return Err(Refusal::new(403, "the host is not one that this server answers to"));
        }
        if said.stranger {
            return Err(Refusal::new(403, "pages of this origin are not let in"));
        }
        Ok(())
    }

    /// The methods that a path has; none where nothing is served
    fn methods(&self, path: &str) -> Option<&'static [&'static str]> {
        if path == self.config.path {
            let legacy = !self.engine.config().legacy().is_empty();
            return Some(if legacy && self.config.sessions { &["POST", "GET", "DELETE"] } else { &["POST"] });
        }
        match &self.config.old_paths {
            Some((stream, _)) if stream == path => Some(&["GET"]),
            Some((_, post)) if post == path => Some(&["POST"]),
            _ => self.metadata(path).map(|_| &["GET"][..]),
        }
    }

    fn preflight(&mut self, key: Key) {
        let mut fields = Fields::new();
        fields.push(fields::ALLOW_METHODS, b"POST, GET, DELETE");
        let mut names = String::from(fields::SENT_BY_PAGES);
        for (_, tool) in &self.tools {
            for name in tool.names() {
                names.push_str(", ");
                names.push_str(name);
            }
        }
        fields.push(fields::ALLOW_HEADERS, names.as_bytes());
        fields.push(fields::MAX_AGE, b"600");
        self.answer_empty(key, 204, fields);
    }

    // ---- tokens ----------------------------------------------------------------------------------------------

    fn check_token(&mut self, key: Key, given: Only<'_>) -> Result<(), Option<Refusal>> {
        if self.config.protected.is_none() {
            return Ok(());
        }
        let token = match given {
            Only::Absent => {
                self.challenge(key, 401, None, None);
                return Err(None);
            }
            Only::One(value) => bearer(value),
            Only::Several => None,
        };
        let Some(token) = token else {
            self.challenge(key, 400, Some("invalid_request"), None);
            return Err(None);
        };
        if let Some(x) = self.exchanges.get_mut(key) {
            x.phase = Phase::Held;
        }
        self.events.push_back(Event::Token { exchange: ExchangeId(key), token: Token(token.into()) });
        Ok(())
    }

    /// Lets a request in whose token is good, on behalf of `principal`
    pub fn grant(&mut self, now: Instant, exchange: ExchangeId, principal: &str) {
        self.tick(now);
        let Some(x) = self.exchanges.get_mut(exchange.0).filter(|x| x.phase == Phase::Held) else { return };
        x.phase = Phase::Body;
        x.principal = Some(principal.into());
        self.proceed(exchange.0);
    }

    /// Refuses a request for the sake of its token
    pub fn deny(&mut self, now: Instant, exchange: ExchangeId, denial: &Denial) {
        self.tick(now);
        if self.exchanges.get(exchange.0).is_none_or(|x| x.phase != Phase::Held) {
            return;
        }
        match denial {
            Denial::InvalidToken => self.challenge(exchange.0, 401, Some("invalid_token"), None),
            Denial::InsufficientScope(scope) => {
                self.challenge(exchange.0, 403, Some("insufficient_scope"), Some(scope));
            }
        }
    }

    /// 401, 403 or 400 with a challenge (AUTH; RFC 6750, 3)
    fn challenge(&mut self, key: Key, status: u16, error: Option<&str>, scope: Option<&str>) {
        let Some(protected) = &self.config.protected else { return };
        let mut text = String::from("Bearer");
        let mut comma = " ";
        let mut add = |name: &str, value: &str| {
            let clean: String =
                value.chars().filter(|c| (' '..='~').contains(c) && !matches!(c, '"' | '\\')).collect();
            text.push_str(&format!("{comma}{name}=\"{clean}\""));
            comma = ", ";
        };
        if let Some(error) = error {
            add("error", error);
        }
        if let Some(scope) = scope.or(protected.scope.as_deref()) {
            add("scope", scope);
        }
        add("resource_metadata", &protected.metadata_url);
        let mut fields = Fields::new();
        fields.push(fields::WWW_AUTHENTICATE, text.as_bytes());
        let why = match status {
            401 => "a good token is needed",
            403 => "the token does not allow this",
            _ => "the `Authorization` field is not one bearer token",
        };
        self.refuse_with(key, &Refusal::new(status, why), fields);
    }

    // ---- beyond the door -------------------------------------------------------------------------------------

    /// What is left of the head's part: streams begin, POSTs wait for their bodies
    fn enter(&mut self, key: Key, said: &Said<'_>, query: &str, length: Option<u64>) {
        let limit = self.engine.config().get_limits().frame() as u64;
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.objection = objection(x.kind, said, length.filter(|length| *length > limit));
        if x.kind == Kind::OldPost {
            // The session of these is named by the target.
            let id = super::query(query, fields::OLD_SESSION);
            x.session = id.and_then(|id| self.sessions.find(id));
        }
        self.proceed(key);
    }

    /// Goes on with an exchange that is let in
    fn proceed(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key).filter(|x| x.phase == Phase::Body && x.response.is_none())
        else {
            return;
        };
        if let Some(objection) = x.objection {
            let limit = self.engine.config().get_limits().frame() as u64;
            return self.refuse(key, &objection.refusal(limit));
        }
        match x.kind {
            Kind::Post | Kind::OldPost if x.complete => self.post(key),
            Kind::Post | Kind::OldPost => {}
            Kind::Get => self.open_get(key),
            Kind::Old => {
                if self.stand(key) {
                    self.open_old(key);
                }
            }
            Kind::Other => self.delete(key),
        }
    }

    /// DELETE: the client is done with its session (HTTP-073, HTTP-075)
    fn delete(&mut self, key: Key) {
        match self.find_session(key) {
            Found::Session(session) => match self.check_version(key, session) {
                Ok(()) => {
                    self.end_session(session);
                    self.answer_empty(key, 204, Fields::new());
                }
                Err(refusal) => self.refuse(key, &refusal),
            },
            Found::Missing => self.refuse_sessionless(key),
            Found::Unknown => self.refuse(key, &unknown_session()),
        }
    }

    /// GET and DELETE are about sessions: where none is named one is missing, or the client's revision has none (HTTP-039)
    pub(super) fn refuse_sessionless(&mut self, key: Key) {
        if !self.exchanges.get(key).is_some_and(|x| x.mirror.names_modern()) {
            return self.refuse(key, &no_session());
        }
        let mut fields = Fields::new();
        fields.push(fields::ALLOW, b"POST");
        self.refuse_with(key, &Refusal::new(405, "this revision has POST alone"), fields);
    }

    // ---- the simple responses --------------------------------------------------------------------------------

    pub(super) fn refuse(&mut self, key: Key, refusal: &Refusal) {
        self.refuse_with(key, refusal, Fields::new());
    }

    fn refuse_with(&mut self, key: Key, refusal: &Refusal, mut fields: Fields) {
        if refusal.status == 503 {
            fields.push(fields::RETRY_AFTER, b"1"); // design, 14
        }
        // Some of them may be kept by default (RFC 9110, 15.1), and the path is the same for everybody.
        fields.push(fields::CACHE_CONTROL, b"no-store");
        let mut body = alloc::vec::Vec::new();
        encode::error(&mut body, None, &refusal.error); // HTTP-005, HTTP-020
        body.pop();
        self.answer_whole(key, refusal.status, &body, fields);
    }

    pub(super) fn answer_whole(&mut self, key: Key, status: u16, body: &[u8], mut fields: Fields) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        fields.push(fields::CONTENT_TYPE, fields::JSON.as_bytes());
        x.out.push(body);
        x.done = true;
        x.phase = Phase::Open;
        x.respond(status, fields, BodySize::Exact(body.len() as u64));
        self.mark(key);
    }

    pub(super) fn answer_empty(&mut self, key: Key, status: u16, fields: Fields) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        x.done = true;
        x.phase = Phase::Open;
        let size = if status == 204 { BodySize::None } else { BodySize::Exact(0) };
        x.respond(status, fields, size);
        self.mark(key);
    }
}

pub(super) fn no_session() -> Refusal {
    Refusal::new(400, format!("`{}` is missing", fields::SESSION_ID)) // HTTP-069
}

pub(super) fn unknown_session() -> Refusal {
    Refusal::new(404, "the session is unknown or over") // HTTP-071
}

pub(super) fn overloaded(why: &'static str) -> Refusal {
    Refusal { status: 503, error: RpcError::internal(why) }
}

pub(super) fn shutting_down() -> Refusal {
    overloaded("the server is shutting down")
}

pub(super) fn too_long(limit: u64) -> Refusal {
    Refusal::new(413, format!("the body is longer than {limit} bytes"))
}

/// Something in the head that rules a request out, whoever it is from
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Objection {
    Type,
    Coding,
    Accept,
    AcceptEvents,
    Length,
}

impl Objection {
    fn refusal(self, limit: u64) -> Refusal {
        match self {
            Self::Type => Refusal::new(415, "`Content-Type` must be application/json"), // HTTP-013
            Self::Coding => Refusal::new(415, "`Content-Encoding` must be none"),
            Self::Accept => {
                Refusal::new(406, "`Accept` must list application/json and text/event-stream") // HTTP-011
            }
            Self::AcceptEvents => Refusal::new(406, "`Accept` must list text/event-stream"), // HTTP-048
            Self::Length => too_long(limit),                                                 // HTTP-081
        }
    }
}

/// What is wrong with a head beyond the door, in the order of HTTP-029; `too_long` is there if the body is
fn objection(kind: Kind, said: &Said<'_>, too_long: Option<u64>) -> Option<Objection> {
    let posts = matches!(kind, Kind::Post | Kind::OldPost);
    let accepted = &said.accepted;
    match () {
        () if posts && !is_json(said.content_type) => Some(Objection::Type),
        () if posts && said.coded => Some(Objection::Coding),
        () if kind == Kind::Post && !(accepted.json() && accepted.events()) => Some(Objection::Accept),
        () if matches!(kind, Kind::Get | Kind::Old) && !accepted.events() => Some(Objection::AcceptEvents),
        () if posts && too_long.is_some() => Some(Objection::Length),
        () => None,
    }
}

/// A field that is to be there once
#[derive(Clone, Copy, Default)]
enum Only<'a> {
    #[default]
    Absent,
    One(&'a [u8]),
    Several,
}

impl<'a> Only<'a> {
    fn note(&mut self, value: &'a [u8]) {
        *self = if matches!(self, Self::Absent) { Self::One(value) } else { Self::Several };
    }
}

/// What a head says to the door
#[derive(Default)]
struct Said<'a> {
    host: Only<'a>,
    /// It comes from a page that is not let in
    stranger: bool,
    token: Only<'a>,
    content_type: Only<'a>,
    /// The body is packed
    coded: bool,
    accepted: Accepted,
}

impl<'a> Said<'a> {
    /// Looks at each field once; what the body is held against goes to `mirror`
    fn read(all: &'a [Field<'a>], config: &Config, mirror: &mut Mirror) -> Self {
        let mut said = Self::default();
        for (name, value) in all {
            match Known::of(name) {
                None => {}
                Some(Known::Host) => said.host.note(value),
                Some(Known::Authorization) => said.token.note(value),
                Some(Known::ContentType) => said.content_type.note(value),
                Some(Known::ContentEncoding) => {
                    said.coded |= !value.trim_ascii().eq_any_case(b"identity");
                }
                Some(Known::Accept) => said.accepted.read(value),
                Some(known) => {
                    if known == Known::Origin {
                        said.stranger |= !config.is_origin(value);
                        if !config.cors {
                            continue;
                        }
                    }
                    mirror.note(known, name, value);
                }
            }
        }
        said
    }
}

/// HTTP-013
fn is_json(said: Only<'_>) -> bool {
    let is_json = |value: &[u8]| {
        let kind = value.split(|b| *b == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_any_case(fields::JSON.as_bytes())
    };
    matches!(said, Only::One(value) if value == fields::JSON.as_bytes() || is_json(value))
}

/// For each of our types: how special the entry was that spoke about it last, and whether it wants it
#[derive(Default)]
struct Accepted {
    json: (u8, bool),
    events: (u8, bool),
}

impl Accepted {
    const fn json(&self) -> bool {
        self.json.1
    }

    const fn events(&self) -> bool {
        self.events.1
    }

    /// Reads what `Accept` lists; wildcards count, a weight of nothing does not, and the most special entry decides
    /// (HTTP-010, HTTP-011; RFC 9110, 12.5.1)
    fn read(&mut self, value: &[u8]) {
        if value == fields::JSON_AND_EVENTS.as_bytes() {
            // What most clients say need not be taken apart.
            (self.json, self.events) = ((3, true), (3, true));
            return;
        }
        for entry in value.split(|b| *b == b',') {
            let mut parts = entry.split(|b| *b == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default();
            let refused = parts.any(|p| {
                let weight = p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q="));
                weight.is_some_and(|w| !w.is_empty() && w.iter().all(|b| matches!(b, b'0' | b'.')))
            });
            let is = |name: &str| kind.eq_any_case(name.as_bytes());
            let note = |said: &mut (u8, bool), special: u8| {
                if special > said.0 {
                    *said = (special, !refused);
                } else if special == said.0 {
                    said.1 |= !refused;
                }
            };
            match () {
                () if is(fields::JSON) => note(&mut self.json, 3),
                () if is("application/*") => note(&mut self.json, 2),
                () if is(fields::EVENT_STREAM) => note(&mut self.events, 3),
                () if is("text/*") => note(&mut self.events, 2),
                () if is("*/*") => {
                    note(&mut self.json, 1);
                    note(&mut self.events, 1);
                }
                () => {}
            }
        }
    }
}

/// The token of `Bearer …` (RFC 6750, 2.1)
fn bearer(value: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(value).ok()?;
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim_matches(' ');
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    (scheme.eq_any_case("bearer") && !token.is_empty() && token.bytes().all(fits)).then_some(token)
}
