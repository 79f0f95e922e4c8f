//! Admission of a request by its head: access, pages of other origins (CORS), path and format (first half of HTTP-029).

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;

use super::config::Config;
use super::exchange_table::{ExchangeId, HeadRejection, Kind, RequestPhase, ResponseForm};
use super::http_sse::HttpSse;
use super::post::waits_for_session;
use super::principals::admit_as;
use super::protected::Protected;
use super::refusal::{HeadDecision, Refusal, overloaded, shutting_down, unknown_session};
use super::request_headers::RequestHeaders;
use super::session::{SessionLookup, drop_session};
use super::token::{Credentials, RecentToken, SingleValue};
use super::{Event, Server, shared, split_target};
use crate::ascii::AsciiCaseExt as _;
use crate::built::Sessions;
use crate::diagnostic::Diagnostic;
use crate::head::{FieldLine, Fields, RequestHead};
use crate::http::fields::{self, KnownField};
use crate::rpc::RpcError;
use crate::server::{self, Authorization, HttpRequest, Identity};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::ChannelId;
use crate::time::Instant;

impl Server {
    /// Opens an exchange with the head of its request.
    ///
    /// `length` is the length of its body, if known. A request that is refused for its head has its response
    /// immediately; its body need not be read.
    pub fn open(&mut self, now: Instant, head: &RequestHead<'_>, length: Option<u64>) -> ExchangeId {
        self.open_unless(now, head, length, false, None, None)
    }

    /// [Opens](Self::open) an exchange for a principal whom code in front of the server has authenticated: a login layer, a
    /// gateway.
    ///
    /// It is as if the identity came from a token. A session serves the principal that began it and no other (SEC-005), and the
    /// limits of a principal hold. A [protected](super::Config::protected) server decides by tokens alone, and
    /// ignores it.
    #[cfg(feature = "auth")]
    pub fn open_as(
        &mut self,
        now: Instant,
        head: &RequestHead<'_>,
        length: Option<u64>,
        identity: impl Into<Arc<Identity>>,
    ) -> ExchangeId {
        self.exchanges.count_principals();
        self.sessions.count_principals();
        self.open_unless(now, head, length, false, None, Some(identity.into()))
    }

    /// Returns the request of an exchange, to attach what the handlers of its call may know: its connection, and values of
    /// the application.
    ///
    /// Call it before the body is complete: from then on it may be `None`, because the handlers have the request. It is `None`
    /// for a request that is no POST, too. A [`Connection`](super::Connection) describes itself.
    pub fn request_mut(&mut self, exchange: ExchangeId) -> Option<&mut HttpRequest> {
        let x = self.exchanges.get_mut(exchange.0)?;
        if x.kind == Kind::Post && x.phase != RequestPhase::Active {
            x.request.get_or_insert_with(|| call_request(&self.path));
        }
        Arc::get_mut(x.request.as_mut()?)
    }

    /// Opens an exchange that answers with 503, because its connection exceeds a limit of the caller.
    pub fn refuse_connection(&mut self, now: Instant, head: &RequestHead<'_>) -> ExchangeId {
        self.open_unless(now, head, None, true, None, None)
    }

    /// Opens an exchange. It is refused if its connection is, or by its head.
    ///
    /// `recent` is the token that the connection brought before, `identity` that of a principal who needs none.
    pub(super) fn open_unless(
        &mut self,
        now: Instant,
        head: &RequestHead<'_>,
        length: Option<u64>,
        is_refused: bool,
        recent: Option<&mut RecentToken>,
        identity: Option<Arc<Identity>>,
    ) -> ExchangeId {
        self.tick(now);
        let (path, query) = split_target(head.target);
        let kind = self.config.exchange_kind(head.method, path);
        let (key, request) =
            (self.exchanges.open(kind, self.now), shown_request(self, kind, path, head.fields));
        let Some(x) = self.exchanges.get_mut(key) else { return ExchangeId(key) };
        x.out.charge_to(server::memory(&self.engine));
        // This precedes every decision: a page that is let in may read its refusal, too.
        x.cors = self.config.cors;
        let headers = AdmissionHeaders::new(head.fields);
        // Without CORS no response repeats the origin, so it is not kept.
        x.headers.record(&headers, x.cors.is_some());
        x.request = request;
        let (described, document) = (self.config.resource_described_at(path), self.config.document_at(path));
        let is_public = described.is_some() || document.is_some();
        if is_public {
            // The same for pages of every origin.
            x.headers.clear_origin();
            x.cors = None;
        }
        let host_refusal = self.config.check_host(&headers, is_public).err();
        if host_refusal.is_some() {
            // A refused page must not read the refusal either.
            x.headers.clear_origin();
        }
        let decision = match (host_refusal, document, described) {
            (Some(diagnostic), ..) => HeadDecision::Refused(report_refusal(&mut self.events, diagnostic)),
            // Not counted as a call: it needs no token, and the engine never sees it.
            (None, Some(document), _) => {
                self.exchanges.serve_document(key, head.method, head.fields, document);
                HeadDecision::Answered
            }
            (None, None, Some(protected)) => {
                self.exchanges.serve_metadata(key, head.method, protected);
                HeadDecision::Answered
            }
            (None, None, None) if is_refused => {
                HeadDecision::Refused(overloaded("too many connections are open"))
            }
            (None, None, None) => match (self.admit(key, kind, head, &headers, path, recent), identity) {
                (HeadDecision::Admitted, Some(identity)) if self.config.protected_resource().is_none() => {
                    admit_as(self, key, Authorization::new(identity))
                }
                (decision, _) => decision,
            },
        };
        match decision {
            HeadDecision::Admitted => self.begin_request(key, &headers, query, length),
            HeadDecision::Refused(refusal) => self.exchanges.refuse(key, &refusal),
            HeadDecision::Answered => {}
        }
        super::charge_tables(self);
        ExchangeId(key)
    }

    /// Decides whether the request is admitted.
    fn admit(
        &mut self,
        key: Key,
        kind: Kind,
        head: &RequestHead<'_>,
        headers: &AdmissionHeaders<'_>,
        path: &str,
        recent: Option<&mut RecentToken>,
    ) -> HeadDecision {
        // The endpoint has POST in any case.
        if kind != Kind::Post {
            if let Some(decision) = check_method(self, key, head, path) {
                return decision;
            }
        }
        // The exchange of this request is in the table already, so a full table is one above the limit.
        if self.exchanges.len() > self.config.max_exchanges {
            return HeadDecision::Refused(overloaded("too many exchanges are under way"));
        }
        if self.engine.is_shutting_down() && head.method != "DELETE" {
            return HeadDecision::Refused(shutting_down());
        }
        match self.config.protected_resource() {
            Some(_) => {
                let (token, proof) =
                    (headers.single(KnownField::Authorization), headers.single(KnownField::Dpop));
                self.check_token(key, &Credentials { method: head.method, path, token, proof }, recent)
            }
            None if self.validator.is_none() => HeadDecision::Admitted,
            // A validator without a protected resource is a mistake of the program: every request is refused.
            None => {
                HeadDecision::Refused(Refusal::new(500, "tokens are validated, but no resource is protected"))
            }
        }
    }

    // ---- admitted requests -----------------------------------------------------------------------------------

    /// Checks the rest of the head; then streams begin, and POSTs wait for their bodies.
    fn begin_request(&mut self, key: Key, headers: &AdmissionHeaders<'_>, query: &str, length: Option<u64>) {
        let limit = self.engine.config().effective_limits().effective_max_frame() as u64;
        let Some(x) = self.exchanges.get_mut(key) else { return };
        // The fault is only stored: while the token is undecided, the client must not learn of it (HTTP-029).
        // `proceed` applies it.
        let mut accepted = AcceptedTypes::default();
        headers.visit(KnownField::Accept, |value| accepted.add_accept(value));
        x.only_form = accepted.only_form();
        x.rejection = check_head(x.kind, headers, &accepted, length.filter(|length| *length > limit));
        if x.kind == Kind::HttpSsePost {
            // The target names the session.
            x.set_session(HttpSse::session_id(query).and_then(|id| self.sessions.find(id)));
        }
        // A POST without a fault goes on with its body, of which there is nothing yet.
        if x.rejection.is_some() || !matches!(x.kind, Kind::Post | Kind::HttpSsePost) {
            self.proceed(key);
        }
    }

    /// Continues an admitted exchange.
    pub(super) fn proceed(&mut self, key: Key) {
        let Some(x) = self
            .exchanges
            .get_mut(key)
            .filter(|x| x.phase == RequestPhase::ReceivingBody && x.response.is_none())
        else {
            return;
        };
        if let Some(rejection) = x.rejection {
            let limit = self.engine.config().effective_limits().effective_max_frame() as u64;
            return self.exchanges.refuse(key, &rejection.to_refusal(limit));
        }
        match x.kind {
            // Another HTTP stack may pass the whole body in while the token is still undecided.
            Kind::Post | Kind::HttpSsePost if x.body_complete => self.process_post(key),
            Kind::Post | Kind::HttpSsePost => {}
            Kind::Get => self.process_get(key),
            Kind::HttpSse => {
                if let Some(open) = self.config.http_sse.as_ref().map(HttpSse::open) {
                    open(self, key);
                }
            }
            Kind::Other => process_delete(self, key),
        }
    }
}

/// Returns the request as handlers see it, unless it is [made with the call](call_request).
#[inline]
fn shown_request(
    server: &Server,
    kind: Kind,
    path: &str,
    fields: &[FieldLine<'_>],
) -> Option<Arc<HttpRequest>> {
    let path = match kind {
        // Most requests show no fields, and one that is refused is shown to nobody.
        Kind::Post if server.config.visible_fields.is_empty() => return None,
        Kind::Post => server.path.clone(),
        Kind::HttpSsePost => path.into(),
        _ => return None,
    };
    Some(Arc::new(HttpRequest::new(path, server.config.visible_fields_of(fields))))
}

/// Checks the path and its methods, and answers preflight requests. Returns `None` if the request may go on.
fn check_method(server: &mut Server, key: Key, head: &RequestHead<'_>, path: &str) -> Option<HeadDecision> {
    let serves_legacy = !server.engine.config().legacy_versions().is_empty();
    let allowed = server.config.allowed_methods(path, serves_legacy);
    // Browsers send no token with a preflight, so it is answered before authorization.
    if let Some(cors) = server.config.cors.filter(|_| head.method == "OPTIONS" && allowed.is_some()) {
        let fields = cors.preflight_fields(server);
        server.exchanges.answer_empty(key, 204, fields);
        return Some(HeadDecision::Answered);
    }
    let Some(allowed) = allowed else {
        let message = format!("nothing is served here; the endpoint is {}", server.config.path);
        return Some(HeadDecision::Refused(Refusal::with_error(404, RpcError::invalid_request(message))));
    };
    if !allowed.methods.contains(&head.method) {
        let reason = if serves_legacy && Sessions::IS_BUILT {
            "the method is none that is served here"
        } else {
            "this server has POST alone"
        };
        let mut fields = Fields::new();
        fields.push(fields::ALLOW, allowed.list.as_bytes()); // HTTP-039, HTTP-080
        server.exchanges.refuse_with(key, &Refusal::new(405, reason), fields);
        return Some(HeadDecision::Answered);
    }
    None
}

/// Returns the request of a call to the endpoint, which shows no fields.
pub(super) fn call_request(endpoint: &Arc<str>) -> Arc<HttpRequest> {
    Arc::new(HttpRequest::new(endpoint.clone(), Fields::new()))
}

/// Handles DELETE: the client ends its session (HTTP-073, HTTP-075).
fn process_delete(server: &mut Server, key: Key) {
    if waits_for_session(server, key) {
        return;
    }
    match server.find_session(key) {
        SessionLookup::Session(session) => match server.check_version(key, session) {
            Ok(()) => {
                if let Some(sharing) = shared::functions(server) {
                    (sharing.end)(server, session, Some(key));
                }
                drop_session(server, session);
                server.exchanges.answer_empty(key, 204, Fields::new());
            }
            Err(refusal) => server.exchanges.refuse(key, &refusal),
        },
        SessionLookup::Missing => server.exchanges.refuse_sessionless(key),
        SessionLookup::Unknown => server.exchanges.refuse(key, &unknown_session()),
    }
}

impl Config {
    /// Returns the purpose of an exchange.
    fn exchange_kind(&self, method: &str, path: &str) -> Kind {
        let is_stream_path = |path: &str| self.http_sse.as_ref().is_some_and(|sse| sse.stream == path);
        let is_message_path = |path: &str| self.http_sse.as_ref().is_some_and(|sse| sse.messages == path);
        match method {
            "POST" if path == self.path => Kind::Post,
            "GET" if path == self.path => Kind::Get,
            "GET" if is_stream_path(path) => Kind::HttpSse,
            "POST" if is_message_path(path) => Kind::HttpSsePost,
            _ => Kind::Other,
        }
    }

    /// Returns the resource whose metadata document is served at a path.
    fn resource_described_at(&self, path: &str) -> Option<&Protected> {
        self.protected_resource().filter(|protected| protected.is_metadata_path(path, &self.path))
    }

    /// Checks `Host` and `Origin` (HTTP-003, HTTP-004, HTTP-008); first, so that a foreign page learns nothing.
    ///
    /// A public document is for pages of every origin.
    fn check_host(&self, headers: &AdmissionHeaders<'_>, is_public: bool) -> Result<(), Diagnostic> {
        if self.any_origin_and_host {
            return Ok(());
        }
        // A missing or repeated `Host` names no single host, so neither passes the check.
        match headers.single(KnownField::Host) {
            SingleValue::One(host) if self.allows_host(host) => {}
            SingleValue::One(host) => return Err(Diagnostic::RefusedHost { host: shown(host) }),
            _ => return Err(Diagnostic::RefusedHost { host: String::new() }),
        }
        let mut denied = None;
        // One refused origin decides, whatever other `Origin` fields say.
        headers.visit(KnownField::Origin, |origin| {
            if !self.allows_origin(origin) {
                denied = Some(origin);
            }
        });
        match denied.filter(|_| !is_public) {
            Some(origin) => Err(Diagnostic::RefusedOrigin { origin: shown(origin) }),
            None => Ok(()),
        }
    }

    /// Returns the methods of a path, or `None` if the path is not served.
    fn allowed_methods(&self, path: &str, serves_legacy: bool) -> Option<AllowedMethods> {
        const GET: AllowedMethods = AllowedMethods { methods: &["GET"], list: "GET" };
        const POST: AllowedMethods = AllowedMethods { methods: &["POST"], list: "POST" };
        const ALL: AllowedMethods =
            AllowedMethods { methods: &["POST", "GET", "DELETE"], list: "POST, GET, DELETE" };
        if path == self.path {
            return Some(if serves_legacy && self.has_sessions() { ALL } else { POST });
        }
        match &self.http_sse {
            Some(sse) if sse.stream == path => Some(GET),
            Some(sse) if sse.messages == path => Some(POST),
            _ => None,
        }
    }
}

/// Reports a refused `Host` or `Origin`, and returns the refusal.
///
/// While [`MAX_REFUSALS`] events wait to be polled, further ones are not reported.
#[cold]
fn report_refusal(events: &mut VecDeque<Event>, diagnostic: Diagnostic) -> Refusal {
    let message = match diagnostic {
        Diagnostic::RefusedOrigin { .. } => "pages of this origin are not let in",
        _ => "the host is not one that this server answers to",
    };
    if events.len() < MAX_REFUSALS {
        let channel = ChannelId(Key::NONE);
        events.push_back(Event::Server(server::Event::Diagnostic { channel, diagnostic }));
    }
    Refusal::new(403, message)
}

/// Returns the beginning of a field for a diagnostic.
#[cold]
fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value.get(..MAX_SHOWN).unwrap_or(value)).into_owned()
}

/// Maximum number of bytes of a field in a diagnostic.
const MAX_SHOWN: usize = 256;
/// Maximum number of events that wait while refusals are reported.
const MAX_REFUSALS: usize = 16;

/// The methods of a path.
#[derive(Clone, Copy)]
struct AllowedMethods {
    methods: &'static [&'static str],
    /// The same as the value of an `Allow` field.
    list: &'static str,
}

/// Returns the first fault in an admitted head, in the order of HTTP-029; `too_long` is the length if it is too large.
fn check_head(
    kind: Kind,
    headers: &AdmissionHeaders<'_>,
    accepted: &AcceptedTypes,
    too_long: Option<u64>,
) -> Option<HeadRejection> {
    let posts = matches!(kind, Kind::Post | Kind::HttpSsePost);
    let mut is_encoded = false;
    headers.visit(KnownField::ContentEncoding, |value| {
        is_encoded |= !value.trim_ascii().eq_ignore_case(b"identity");
    });
    match () {
        () if posts && !is_json(headers.single(KnownField::ContentType)) => Some(HeadRejection::ContentType),
        () if posts && is_encoded => Some(HeadRejection::ContentEncoding),
        () if kind == Kind::Post && !(accepted.json.1 || accepted.events.1) => Some(HeadRejection::Accept),
        // 2024-11-05 asks for no `Accept`, and its absence accepts every type (RFC 9110, 12.5.1).
        () if kind == Kind::HttpSse && !accepted.is_present => None,
        () if matches!(kind, Kind::Get | Kind::HttpSse) && !accepted.events.1 => {
            Some(HeadRejection::AcceptEvents)
        }
        () if posts && too_long.is_some() => Some(HeadRejection::BodyTooLong),
        () => None,
    }
}

/// The fields of a request that a server evaluates.
pub(super) struct AdmissionHeaders<'a> {
    all: &'a [FieldLine<'a>],
    /// What is known of each field; [`visit`](Self::visit) has the values of one that occurs several times.
    values: [SingleValue<'a>; KnownField::COUNT],
}

impl<'a> AdmissionHeaders<'a> {
    /// Looks at the name of each field once.
    ///
    /// This is not inlined: the values would then be copied from the table to places of their own.
    #[inline(never)]
    pub(super) fn new(all: &'a [FieldLine<'a>]) -> Self {
        let mut headers = Self { all, values: [SingleValue::Absent; KnownField::COUNT] };
        for (name, value) in all {
            let known = KnownField::from_name(name);
            if let Some(found) = known.and_then(|known| headers.values.get_mut(known as usize)) {
                found.add(value);
            }
        }
        headers
    }

    /// Returns the value of a field that must occur at most once.
    #[inline(always)]
    pub(super) fn single(&self, known: KnownField) -> SingleValue<'a> {
        self.values.get(known as usize).copied().unwrap_or_default()
    }

    /// Passes all values of a field, in order.
    #[inline]
    fn visit(&self, known: KnownField, mut visitor: impl FnMut(&'a [u8])) {
        match self.single(known) {
            SingleValue::Absent => {}
            SingleValue::One(value) => visitor(value),
            SingleValue::Repeated => {
                let all = self.all.iter().filter(|(name, _)| is_known(name, known));
                all.for_each(|(_, value)| visitor(value));
            }
        }
    }

    /// Returns the fields that repeat arguments.
    #[inline]
    pub(super) fn params(&self) -> impl Iterator<Item = &'a FieldLine<'a>> {
        let all = match self.single(KnownField::Param) {
            SingleValue::Absent => &[],
            _ => self.all,
        };
        all.iter().filter(|(name, _)| is_known(name, KnownField::Param))
    }
}

/// Returns whether a name is that of a field. This is not inlined, because it is rarely needed.
#[cold]
#[inline(never)]
fn is_known(name: &str, known: KnownField) -> bool {
    KnownField::from_name(name) == Some(known)
}

/// Returns whether the content type is JSON (HTTP-013).
fn is_json(content_type: SingleValue<'_>) -> bool {
    let is_json = |value: &[u8]| {
        let kind = value.split(|b| *b == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_case(fields::JSON.as_bytes())
    };
    matches!(content_type, SingleValue::One(value) if value == fields::JSON.as_bytes() || is_json(value))
}

/// For each media type: the specificity of the best matching entry, and whether the entry accepts it.
#[derive(Default)]
struct AcceptedTypes {
    json: (u8, bool),
    events: (u8, bool),
    is_present: bool,
}

impl AcceptedTypes {
    /// Returns the form of the response to a POST, if one of the two is accepted alone (HTTP-011).
    const fn only_form(&self) -> Option<ResponseForm> {
        match (self.json.1, self.events.1) {
            (true, false) => Some(ResponseForm::Json),
            (false, true) => Some(ResponseForm::EventStream),
            _ => None,
        }
    }

    /// Adds the entries of an `Accept` field (HTTP-010, HTTP-011; RFC 9110, 12.5.1).
    ///
    /// Wildcards count, a weight of zero refuses, and the most specific entry decides.
    fn add_accept(&mut self, value: &[u8]) {
        self.is_present = true;
        if value == fields::JSON_AND_EVENT_STREAM.as_bytes() {
            // The most frequent value needs no parsing.
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
            let is = |name: &str| kind.eq_ignore_case(name.as_bytes());
            let note = |best: &mut (u8, bool), specificity: u8| {
                if specificity > best.0 {
                    *best = (specificity, !refused);
                // Of two entries that name the type equally well, one that accepts it is enough.
                } else if specificity == best.0 {
                    best.1 |= !refused;
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

// Pages of other origins (CORS): preflight requests, and the fields of responses.
//
// The server calls them through the function pointers of `Cors`, which `Config::cors` installs, so a
// program without it links none of the functions.

/// The functions of a server that allows pages of other origins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cors {
    preflight_fields: fn(&Server) -> Fields,
    append_fields: fn(&RequestHeaders, &mut Fields),
}

impl Cors {
    pub(super) const fn new() -> Self {
        Self { preflight_fields, append_fields }
    }

    /// Returns the fields of the response to a preflight request, with those of the arguments of tools.
    pub(super) fn preflight_fields(self, server: &Server) -> Fields {
        (self.preflight_fields)(server)
    }

    /// Appends the fields of the response to a request.
    pub(super) fn append_fields(self, request: &RequestHeaders, fields: &mut Fields) {
        (self.append_fields)(request, fields);
    }
}

fn preflight_fields(server: &Server) -> Fields {
    let mut fields = Fields::new();
    fields.push(fields::ALLOW_METHODS, b"POST, GET, DELETE");
    let mut names = String::from(fields::CORS_REQUEST_HEADERS);
    match &server.tool_fields {
        // A preflight has no token, and the names would tell about tools (AUTH-070).
        _ if server.config.protected_resource().is_some() => names.push_str(", *"),
        Some(tools) => tools.append_names(&mut names),
        None => {}
    }
    fields.push(fields::ALLOW_HEADERS, names.as_bytes());
    fields.push(fields::MAX_AGE, b"600");
    fields
}

fn append_fields(request: &RequestHeaders, fields: &mut Fields) {
    // Also without an origin: a cached response must not be shown to a page.
    fields.push(fields::VARY, b"Origin");
    if let Some(origin) = request.cors_origin() {
        fields.push(fields::ALLOW_ORIGIN, origin);
        fields.push(fields::EXPOSE_HEADERS, fields::CORS_EXPOSED_HEADERS.as_bytes());
    }
}
