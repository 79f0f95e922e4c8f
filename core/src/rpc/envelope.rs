//! Decoder for the envelope of a message: its kind, the positions of its parts, and its errors, in one pass.
//!
//! The structure is checked strictly: duplicate, wrongly capitalized and contradictory members are refused. Two readers
//! that disagree on `method` would be a security hole. Unknown members pass (DESIGN-26). All of the text is checked, so
//! every part that is cut out of it later is valid JSON.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use bytes::Bytes;

use super::error::RpcError;
use super::id::RequestId;
use crate::ascii::AsciiCaseExt as _;
use crate::json::{KnownMember, ScanError, Scanner, Span, StringToken, check_utf8};
use crate::limits::Limits;
use crate::meta::{PREFIX, PROGRESS_TOKEN, TRACE_MEMBERS, unprefixed};
use crate::raw::RawJson;

/// Kind of a message (BASE-017).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Request,
    Notification,
    /// A result or an error.
    Response,
}

/// Positions of `params` and of the members that the engines read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ParamsSpans {
    pub(crate) whole: Span,
    pub(crate) name: Span,
    pub(crate) arguments: Span,
    /// `inputResponses` (MRTR-014).
    pub(crate) input_responses: Span,
    /// `requestState`.
    pub(crate) request_state: Span,
    pub(crate) meta: MetaSpans,
    /// Whether there may be other members.
    pub(crate) has_others: bool,
}

/// Positions of `params._meta` and of the members that the protocol owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MetaSpans {
    pub(crate) whole: Span,
    pub(crate) version: Span,
    pub(crate) capabilities: Span,
    pub(crate) info: Span,
    pub(crate) log_level: Span,
    pub(crate) token: Span,
    /// Whether a member begins with `io.modelcontextprotocol/` and is not one of those that legacy revisions have too.
    pub(crate) has_reserved: bool,
    /// Whether there is trace context (META-021).
    pub(crate) has_trace: bool,
    /// Whether there may be keys of the application, trace context included.
    pub(crate) has_application_keys: bool,
}

impl MetaSpans {
    pub(crate) const fn shifted(self, by: u32) -> Self {
        Self {
            whole: self.whole.shifted(by),
            version: self.version.shifted(by),
            capabilities: self.capabilities.shifted(by),
            info: self.info.shifted(by),
            log_level: self.log_level.shifted(by),
            token: self.token.shifted(by),
            has_reserved: self.has_reserved,
            has_trace: self.has_trace,
            has_application_keys: self.has_application_keys,
        }
    }
}

/// The error object of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ErrorSpans {
    pub(crate) code: i64,
    pub(crate) message: Span,
    pub(crate) data: Span,
}

/// A well-formed message.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: Kind,
    /// Absent in notifications, and in error responses without an id (DEC-004).
    pub(crate) id: Option<RequestId>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: ParamsSpans,
    pub(crate) result: Span,
    pub(crate) result_type: Span,
    pub(crate) error: Option<ErrorSpans>,
    /// Whether `_meta` is equal to the text that the caller passed as known.
    pub(crate) has_known_meta: bool,
}

/// Reason why a message was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedMessage {
    /// The bytes are not UTF-8 (BASE-002).
    #[error("invalid UTF-8 at byte {at}")]
    Utf8 {
        /// Position of the first invalid byte.
        at: usize,
    },
    /// The text is not JSON (ERR-023).
    #[error("invalid JSON at byte {at}")]
    Json {
        /// Position of the first invalid byte.
        at: usize,
    },
    /// The nesting exceeds [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("nested too deep at byte {at}")]
    Depth {
        /// Position of the first bracket beyond the limit.
        at: usize,
    },
    /// An object has two members with the same name.
    #[error("a member is named twice, at byte {at}")]
    DuplicateMember {
        /// Position of the second name, or of the object.
        at: usize,
    },
    /// An object has more members than [`Limits::max_members`](crate::Limits::max_members).
    #[error("too many members at byte {at}")]
    Members {
        /// Position of the first name beyond the limit.
        at: usize,
    },
    /// The message is longer than [`Limits::max_frame`](crate::Limits::max_frame).
    #[error("longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// There is no memory for the message ([`Limits::memory_reserve`](crate::Limits::memory_reserve)).
    #[error("not enough memory for the message")]
    OutOfMemory,
    /// The message is not an object, nor an array in a revision with batches.
    #[error("not a JSON object")]
    NotAnObject,
    /// The message is an array in a revision without batches (BATCH-004, BATCH-005), or a batch that is empty or too
    /// long.
    #[error("batches are not allowed here, or this one is empty or too long")]
    Batch,
    /// A member of the envelope has a wrong capitalization.
    #[error("a member of the envelope is mis-cased")]
    WrongCase,
    /// `jsonrpc` is missing or not `"2.0"` (BASE-001).
    #[error("`jsonrpc` is not \"2.0\"")]
    Version,
    /// `id` is neither a string nor an integer, or is too long (BASE-003, BASE-004).
    #[error("`id` is neither a string nor an integer")]
    Id,
    /// `method` is not a string (BASE-007).
    #[error("`method` is not a string")]
    Method,
    /// `params` is not an object (BASE-007).
    #[error("`params` is not an object")]
    Params,
    /// Members exclude each other, or none determines the kind of the message (BASE-009, BASE-017).
    #[error("neither a request, a notification nor a response")]
    Contradictory,
    /// `result` is not an object (BASE-010).
    #[error("`result` is not an object")]
    Result,
    /// The message answers a request, but `id` is not that of the request (BASE-005).
    #[error("`id` is not that of the request")]
    WrongId,
    /// `error` has no integer `code` or no string `message` (BASE-011).
    #[error("`error` is not an error object")]
    Error,
}

impl MalformedMessage {
    /// Returns the error code of the answer, if one is due.
    pub(crate) const fn code(self) -> i64 {
        use super::error::code;
        match self {
            Self::Utf8 { .. } | Self::Json { .. } | Self::Depth { .. } => code::PARSE_ERROR,
            Self::Params => code::INVALID_PARAMS,
            Self::OutOfMemory => code::INTERNAL_ERROR,
            _ => code::INVALID_REQUEST,
        }
    }

    /// Returns the error that answers the message, if one is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn to_error(self) -> RpcError {
        RpcError::new(self.code(), alloc::format!("{self}"))
    }

    pub(crate) const fn from_scan(error: ScanError) -> Self {
        match error {
            ScanError::Syntax(at) => Self::Json { at },
            ScanError::Depth(at) => Self::Depth { at },
            ScanError::Duplicate(at) => Self::DuplicateMember { at },
            ScanError::Members(at) => Self::Members { at },
        }
    }
}

/// A refused message and the parts that could be read.
#[derive(Debug)]
pub(crate) struct RejectedMessage {
    pub(crate) reason: MalformedMessage,
    pub(crate) id: Option<RequestId>,
    /// Whether it has a `method`; if it has an id too, the peer expects an answer.
    pub(crate) has_method: bool,
    /// Whether it has a result or an error; an outbound call may wait for it.
    pub(crate) is_response: bool,
    /// Whether it is a notification, which is never answered (BASE-016).
    pub(crate) is_notification: bool,
    /// Ids of the requests in a batch. Their sender waits for an answer to each.
    pub(crate) batched: Vec<RequestId>,
}

impl RejectedMessage {
    /// Creates a rejection of a message of which nothing could be read.
    pub(crate) const fn unreadable(reason: MalformedMessage) -> Self {
        let batched = Vec::new();
        Self { reason, id: None, has_method: false, is_response: false, is_notification: false, batched }
    }

    /// Creates a rejection of a notification that there is no memory for.
    pub(crate) fn notification_without_memory() -> Self {
        let unreadable = Self::unreadable(MalformedMessage::OutOfMemory);
        Self { has_method: true, is_notification: true, ..unreadable }
    }
}

/// The envelope while it is being read.
#[derive(Default)]
struct EnvelopeParts<'a> {
    version: bool,
    id: Option<Span>,
    method: Option<Result<Cow<'a, str>, ()>>,
    params: Option<ParamsSpans>,
    result: Option<Span>,
    result_type: Span,
    error: Option<Option<ErrorSpans>>,
    /// Whether the result, or the error, is `null`.
    is_null: (bool, bool),
    has_wrong_case: bool,
    has_known_meta: bool,
}

/// A member of the envelope.
#[derive(Clone, Copy)]
enum Member {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

const MEMBER_NAMES: [&[u8]; 6] = [b"jsonrpc", b"id", b"method", b"params", b"result", b"error"];

impl KnownMember for Member {
    #[inline]
    fn by_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"jsonrpc" => Self::Version,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }

    #[inline]
    fn index(self) -> u32 {
        self as u32
    }
}

/// A member of `params` that the engines read.
#[derive(Clone, Copy)]
enum Param {
    Name,
    Arguments,
    Meta,
    InputResponses,
    RequestState,
}

impl KnownMember for Param {
    #[inline]
    fn by_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"name" => Self::Name,
            b"arguments" => Self::Arguments,
            b"_meta" => Self::Meta,
            b"inputResponses" => Self::InputResponses,
            b"requestState" => Self::RequestState,
            _ => return None,
        })
    }

    #[inline]
    fn index(self) -> u32 {
        self as u32
    }
}

/// Decodes one message that is not a batch.
///
/// `known` is the text of an earlier `_meta` object and its positions, relative to its start.
///
/// # Errors
///
/// [`RejectedMessage`] with the reason, and the id if it is known.
pub(crate) fn parse<'a>(
    frame: &'a [u8],
    limits: &Limits,
    known: Option<(&[u8], &MetaSpans)>,
) -> Result<Envelope<'a>, RejectedMessage> {
    let text = match check_utf8(frame) {
        Ok(text) => text,
        Err(at) => return Err(reject_unreadable(frame, limits, MalformedMessage::Utf8 { at })),
    };
    // Names with escapes are copied.
    if limits.memory_reserve > 0 && frame.contains(&b'\\') && limits.is_out_of_memory(frame.len()) {
        return Err(reject_unreadable(frame, limits, MalformedMessage::OutOfMemory));
    }
    let mut s = Scanner::new(frame, limits.effective_max_depth(), limits.max_members);
    if s.peek() != b'{' {
        let reason = match s.value() {
            Err(e) => MalformedMessage::from_scan(e),
            Ok(_) if !s.is_at_end() => MalformedMessage::Json { at: s.pos() },
            Ok(_) => MalformedMessage::NotAnObject,
        };
        return Err(RejectedMessage::unreadable(reason));
    }
    let mut parts = EnvelopeParts::default();
    let read = s.object_of(|s, member, name| read_member(s, member, name, &mut parts, text, known));
    match read {
        Err(e) => Err(reject_unreadable(frame, limits, MalformedMessage::from_scan(e))),
        Ok(_) if !s.is_at_end() => {
            Err(reject_unreadable(frame, limits, MalformedMessage::Json { at: s.pos() }))
        }
        Ok(_) => parts.classify(frame, limits),
    }
}

/// Reads one member of the envelope.
#[inline]
fn read_member<'a>(
    s: &mut Scanner<'a>,
    member: Option<Member>,
    name: StringToken<'a>,
    parts: &mut EnvelopeParts<'a>,
    text: &'a str,
    known: Option<(&[u8], &MetaSpans)>,
) -> Result<(), ScanError> {
    match member {
        Some(Member::Version) => {
            parts.version = if let first @ b'"' = s.peek() {
                let text = s.string_from(first)?;
                *text.unescaped() == *b"2.0"
            } else {
                s.value().map(|_| false)?
            };
        }
        Some(Member::Id) => parts.id = Some(s.value()?),
        Some(Member::Method) => {
            parts.method =
                Some(if s.peek() == b'"' { Ok(read_text(s, text)?) } else { s.value().map(|_| Err(()))? });
        }
        Some(Member::Params) => match s.peek() {
            b'{' => {
                read_params(s, parts.params.insert(ParamsSpans::default()), known, &mut parts.has_known_meta)?
            }
            // `null` is absent: some peers write a member for nothing.
            b'n' => _ = s.value()?,
            _ => {
                s.value()?;
                parts.params = Some(ParamsSpans::default());
            }
        },
        Some(Member::Result) => {
            parts.result = Some(if s.peek() == b'{' {
                s.object(|s, name| {
                    let span = s.value()?;
                    if *name.unescaped() == *b"resultType" {
                        parts.result_type = span;
                    }
                    Ok(())
                })?
            } else {
                parts.is_null.0 = s.peek() == b'n';
                s.value()?;
                Span::default()
            });
        }
        Some(Member::Error) => {
            parts.is_null.1 = s.peek() == b'n';
            parts.error = Some(if s.peek() == b'{' {
                read_error(s, text.as_bytes())?
            } else {
                s.value().map(|_| None)?
            })
        }
        None => {
            // `Method` is unknown here, and a peer that ignores case would act on it (DESIGN-26).
            let name = name.unescaped();
            parts.has_wrong_case |= MEMBER_NAMES.iter().any(|n| n.eq_ignore_case(&name));
            s.value()?;
        }
    }
    Ok(())
}

/// Reads a string of the text that `s` scans.
#[inline]
fn read_text<'a>(s: &mut Scanner<'a>, text: &'a str) -> Result<Cow<'a, str>, ScanError> {
    Ok(match s.string()? {
        token @ StringToken { escaped: true, .. } => token.into_str().unwrap_or_default(),
        // Cut out of text that is known to be UTF-8, instead of checking its bytes again.
        StringToken { raw, .. } => {
            let end = s.pos() - 1;
            Cow::Borrowed(text.get(end - raw.len()..end).unwrap_or_default())
        }
    })
}

#[inline]
fn read_params(
    s: &mut Scanner<'_>,
    params: &mut ParamsSpans,
    known: Option<(&[u8], &MetaSpans)>,
    has_known_meta: &mut bool,
) -> Result<(), ScanError> {
    params.whole = s.object_of(|s, param, _| {
        match param {
            Some(Param::Name) => params.name = s.value()?,
            Some(Param::Arguments) => {
                // Not by `value`, which does not find a member that is named twice.
                params.arguments =
                    if s.peek() == b'{' { s.members(&mut |s, _| s.value().map(|_| ()))? } else { s.value()? };
            }
            Some(Param::Meta) => {
                s.peek();
                // An object ends with its closing brace, so an equal prefix is an equal value.
                if let Some((text, meta)) = known.filter(|(text, _)| s.rest().starts_with(text)) {
                    let at = Span::new(s.pos(), 0).start;
                    params.meta = meta.shifted(at);
                    s.advance(text.len());
                    *has_known_meta = true;
                } else if s.peek() == b'{' {
                    params.meta = read_meta(s)?;
                } else {
                    // Not an object: kept, so that the reader of `_meta` can report the error.
                    params.meta.whole = s.value()?;
                }
            }
            Some(Param::InputResponses) => params.input_responses = s.value()?,
            Some(Param::RequestState) => params.request_state = s.value()?,
            None => {
                s.value()?;
                params.has_others = true;
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn read_meta(s: &mut Scanner<'_>) -> Result<MetaSpans, ScanError> {
    let mut meta = MetaSpans::default();
    meta.whole = s.members(&mut |s, name| {
        let value = s.value()?;
        let name = name.unescaped();
        if let Some(key) = name.strip_prefix(PREFIX.as_bytes()) {
            match key {
                unprefixed::PROTOCOL_VERSION => meta.version = value,
                unprefixed::CLIENT_CAPABILITIES => meta.capabilities = value,
                unprefixed::CLIENT_INFO => meta.info = value,
                unprefixed::LOG_LEVEL => meta.log_level = value,
                _ => {}
            }
            meta.has_reserved |= !unprefixed::LEGACY_TASK_KEYS.contains(&key);
        } else if &*name == PROGRESS_TOKEN.as_bytes() {
            meta.token = value;
        } else {
            meta.has_trace |= TRACE_MEMBERS.contains(&&*name);
            meta.has_application_keys = true;
        }
        Ok(())
    })?;
    Ok(meta)
}

fn read_error(s: &mut Scanner<'_>, frame: &[u8]) -> Result<Option<ErrorSpans>, ScanError> {
    let mut parts = ErrorSpans::default();
    let mut code = None;
    s.members(&mut |s, name| {
        let value = s.value()?;
        match &*name.unescaped() {
            b"code" => {
                code = value.slice(frame).and_then(|t| RequestId::from_json(t, 32)).and_then(|i| i.as_int())
            }
            b"message" if value.slice(frame).is_some_and(|t| t.starts_with(b"\"")) => parts.message = value,
            b"data" => parts.data = value,
            _ => {}
        }
        Ok(())
    })?;
    Ok(code.filter(|_| !parts.message.is_empty()).map(|code| ErrorSpans { code, ..parts }))
}

impl Envelope<'_> {
    /// Returns the outcome of a response: its result object, or its error.
    pub(crate) fn outcome(&self, frame: &Bytes) -> Result<RawJson, RpcError> {
        let cut = |span: Span| span.slice(frame).map(|part| RawJson::trusted(frame.slice_ref(part)));
        match self.error {
            None => Ok(cut(self.result).unwrap_or_else(|| RawJson::trusted(Bytes::from_static(b"{}")))),
            Some(parts) => {
                let message = cut(parts.message).and_then(|m| m.string()).unwrap_or_default();
                let mut error = RpcError::new(parts.code, message);
                error.data = cut(parts.data);
                Err(error)
            }
        }
    }
}

impl<'a> EnvelopeParts<'a> {
    /// Determines the kind of the message after all members were read, so that every rejection can carry a late `id`.
    fn classify(mut self, frame: &'a [u8], limits: &Limits) -> Result<Envelope<'a>, RejectedMessage> {
        // Some peers write both, and `null` for the one that there is not.
        match self.is_null {
            (false, true) if self.result.is_some() => self.error = None,
            (true, false) if self.error.is_some() => self.result = None,
            _ => {}
        }
        let text = self.id.and_then(|span| span.slice(frame));
        let id = text.and_then(|t| RequestId::from_json(t, limits.max_id));
        let has_method = self.method.is_some();
        let has_outcome = self.result.is_some() || self.error.is_some();
        let is_error = self.error.is_some() && self.result.is_none();
        let reject = |reason| {
            let id = id.clone();
            // `params` is the last check for a message without an id, so all checks before it have passed.
            let is_notification = has_method && text.is_none() && reason == MalformedMessage::Params;
            Err(RejectedMessage {
                id,
                has_method,
                is_response: has_outcome && !has_method,
                is_notification,
                ..RejectedMessage::unreadable(reason)
            })
        };
        if self.has_wrong_case {
            return reject(MalformedMessage::WrongCase);
        }
        if !self.version {
            return reject(MalformedMessage::Version);
        }
        // An error has no id when the request could not be read (DEC-004), or one that is none, as some peers write it.
        let absent = text.is_none() || (is_error && !has_method);
        if id.is_none() && !absent {
            return reject(MalformedMessage::Id);
        }
        let kind = match (has_method, has_outcome, id.is_some()) {
            (true, false, true) => Kind::Request,
            (true, false, false) => Kind::Notification,
            (false, true, known) if known || is_error => Kind::Response,
            _ => return reject(MalformedMessage::Contradictory),
        };
        if self.result.is_some() && self.error.is_some() {
            return reject(MalformedMessage::Contradictory);
        }
        let method = match self.method {
            None => Cow::Borrowed(""),
            Some(Err(())) => return reject(MalformedMessage::Method),
            Some(Ok(method)) => method,
        };
        if has_method && self.params.is_some_and(|p| p.whole.is_empty()) {
            return reject(MalformedMessage::Params);
        }
        if self.result.is_some_and(Span::is_empty) {
            return reject(MalformedMessage::Result);
        }
        let error = match self.error {
            Some(None) => return reject(MalformedMessage::Error),
            Some(Some(parts)) => Some(parts),
            None => None,
        };
        Ok(Envelope {
            kind,
            id,
            method,
            params: self.params.unwrap_or_default(),
            result: self.result.unwrap_or_default(),
            result_type: self.result_type,
            error,
            has_known_meta: self.has_known_meta,
        })
    }
}

/// Recovers the id of a message that cannot be parsed, so that its caller does not wait forever.
#[cold]
fn reject_unreadable(frame: &[u8], limits: &Limits, reason: MalformedMessage) -> RejectedMessage {
    let mut finder = super::recover::IdFinder::new();
    finder.feed(frame);
    let found = finder.finish();
    let id = found.id.and_then(|text| RequestId::from_json(&text, limits.max_id));
    RejectedMessage {
        id,
        has_method: found.has_method,
        is_response: found.is_response && !found.has_method,
        is_notification: found.is_notification,
        ..RejectedMessage::unreadable(reason)
    }
}

#[cfg(test)]
mod tests;
