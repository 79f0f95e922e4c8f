//! One pass over a message: what kind it is, where its parts are, and whether it is well-formed.
//!
//! Strict on structure: equal, mis-cased or contradictory members are refused (lessons of other implementations:
//! two readers that disagree on `method` are a security hole). Lenient on vocabulary: unknown members pass.
//! All of the text is checked, so what is cut out of it later is valid JSON.

use alloc::borrow::Cow;

use bytes::Bytes;

use super::error::RpcError;
use super::id::RequestId;
use crate::ascii::AnyCase as _;
use crate::json::{ScanError, Scanner, Span, Text, check_utf8};
use crate::limits::Limits;
use crate::meta::{PREFIX, PROGRESS_TOKEN, after_prefix};
use crate::raw::RawJson;

/// What a message is (BASE-017)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Request,
    Notification,
    /// A response, with a result or an error
    Response,
}

/// `params` and the members in it that are looked for anyway
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Params {
    pub(crate) whole: Span,
    pub(crate) name: Span,
    pub(crate) arguments: Span,
    /// `inputResponses` (MRTR-014)
    pub(crate) inputs: Span,
    /// `requestState`
    pub(crate) state: Span,
    pub(crate) meta: Meta,
}

/// `params._meta` and the members in it that the protocol owns
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Meta {
    pub(crate) whole: Span,
    pub(crate) version: Span,
    pub(crate) capabilities: Span,
    pub(crate) info: Span,
    pub(crate) log_level: Span,
    pub(crate) token: Span,
    /// Some member starts with `io.modelcontextprotocol/`, and is none that older revisions have too
    pub(crate) reserved: bool,
}

impl Meta {
    pub(crate) const fn shifted(self, by: u32) -> Self {
        Self {
            whole: self.whole.shifted(by),
            version: self.version.shifted(by),
            capabilities: self.capabilities.shifted(by),
            info: self.info.shifted(by),
            log_level: self.log_level.shifted(by),
            token: self.token.shifted(by),
            reserved: self.reserved,
        }
    }
}

/// The error object of a response
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ErrorParts {
    pub(crate) code: i64,
    pub(crate) message: Span,
    pub(crate) data: Span,
}

/// A well-formed message
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: Kind,
    /// Absent on notifications, and on an error response that names none (DEC-004)
    pub(crate) id: Option<RequestId>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Params,
    pub(crate) result: Span,
    pub(crate) result_type: Span,
    pub(crate) error: Option<ErrorParts>,
    /// `_meta` was the text that the caller knew already
    pub(crate) meta_known: bool,
}

/// Why a message was refused
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes are not UTF-8 (BASE-002)
    #[error("invalid UTF-8 at byte {at}")]
    Utf8 {
        /// Offset of the first byte that does not fit
        at: usize,
    },
    /// The text is not JSON (ERR-023)
    #[error("invalid JSON at byte {at}")]
    Json {
        /// Offset of the first byte that does not fit
        at: usize,
    },
    /// The text is nested deeper than [`Limits::max_depth`](crate::Limits::max_depth)
    #[error("nested too deep at byte {at}")]
    Depth {
        /// Offset of the bracket that is one too many
        at: usize,
    },
    /// An object names a member twice
    #[error("a member is named twice, at byte {at}")]
    DuplicateMember {
        /// Offset of the second name, or of the object
        at: usize,
    },
    /// An object has more members than [`Limits::max_members`](crate::Limits::max_members)
    #[error("too many members at byte {at}")]
    Members {
        /// Offset of the name that is one too many
        at: usize,
    },
    /// The message is longer than [`Limits::max_frame`](crate::Limits::max_frame)
    #[error("longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit
        limit: usize,
    },
    /// The message is neither an object nor, where batches exist, an array
    #[error("not a JSON object")]
    NotAnObject,
    /// An array where this revision has no batches (BATCH-004, BATCH-005), or one that is empty or too long
    #[error("batches are not allowed here, or this one is empty or too long")]
    Batch,
    /// A member of the envelope is spelled with other capitals
    #[error("a member of the envelope is mis-cased")]
    MisCased,
    /// `jsonrpc` is missing or not `"2.0"` (BASE-001)
    #[error("`jsonrpc` is not \"2.0\"")]
    Version,
    /// `id` is neither a string nor an integer, or too long (BASE-003, BASE-004)
    #[error("`id` is neither a string nor an integer")]
    Id,
    /// `method` is not a string (BASE-007)
    #[error("`method` is not a string")]
    Method,
    /// `params` is not an object (BASE-007)
    #[error("`params` is not an object")]
    Params,
    /// Members that exclude each other, or none that says what the message is (BASE-009, BASE-017)
    #[error("neither a request, a notification nor a response")]
    Contradictory,
    /// `result` is not an object (BASE-010)
    #[error("`result` is not an object")]
    Result,
    /// `error` has no integer `code` or no string `message` (BASE-011)
    #[error("`error` is not an error object")]
    Error,
}

impl Malformed {
    /// The error code of the answer, where one is due
    pub(crate) const fn code(self) -> i64 {
        use super::error::code;
        match self {
            Self::Utf8 { .. } | Self::Json { .. } | Self::Depth { .. } => code::PARSE_ERROR,
            Self::Params => code::INVALID_PARAMS,
            _ => code::INVALID_REQUEST,
        }
    }

    pub(crate) const fn of(error: ScanError) -> Self {
        match error {
            ScanError::Syntax(at) => Self::Json { at },
            ScanError::Depth(at) => Self::Depth { at },
            ScanError::Duplicate(at) => Self::DuplicateMember { at },
            ScanError::Members(at) => Self::Members { at },
        }
    }
}

/// A refused message, with as much of it as could be made out
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) why: Malformed,
    pub(crate) id: Option<RequestId>,
    /// It named a method: whoever sent it waits for an answer if there is an id
    pub(crate) asks: bool,
    /// It had a result or an error: somebody here may wait for it
    pub(crate) answers: bool,
    /// It was a notification, which is never answered (BASE-016)
    pub(crate) notifies: bool,
}

impl Rejected {
    /// Nothing could be made out
    pub(crate) const fn unknown(why: Malformed) -> Self {
        Self { why, id: None, asks: false, answers: false, notifies: false }
    }
}

/// The envelope as it is being read
#[derive(Default)]
struct Parts<'a> {
    version: bool,
    id: Option<Span>,
    method: Option<Result<Text<'a>, ()>>,
    params: Option<Params>,
    result: Option<Span>,
    result_type: Span,
    error: Option<Option<ErrorParts>>,
    mis_cased: bool,
    meta_known: bool,
}

const NAMES: [&[u8]; 6] = [b"jsonrpc", b"id", b"method", b"params", b"result", b"error"];

/// Reads one message that is no batch. `known` is the text and the parts of a `_meta` that was seen before.
pub(crate) fn parse<'a>(
    frame: &'a [u8],
    limits: &Limits,
    known: Option<(&[u8], &Meta)>,
) -> Result<Envelope<'a>, Rejected> {
    if let Err(at) = check_utf8(frame) {
        return Err(recovered(frame, limits, Malformed::Utf8 { at }));
    }
    let mut s = Scanner::new(frame, limits.depth(), limits.max_members);
    if s.peek() != b'{' {
        let why = match s.value() {
            Err(e) => Malformed::of(e),
            Ok(_) if !s.at_end() => Malformed::Json { at: s.pos() },
            Ok(_) => Malformed::NotAnObject,
        };
        return Err(Rejected::unknown(why));
    }
    let mut parts = Parts::default();
    let read = s.object(|s, name| member(s, name, &mut parts, frame, known));
    match read {
        Err(e) => Err(recovered(frame, limits, Malformed::of(e))),
        Ok(_) if !s.at_end() => Err(recovered(frame, limits, Malformed::Json { at: s.pos() })),
        Ok(_) => parts.judge(frame, limits),
    }
}

/// One member of the envelope
#[inline]
fn member<'a>(
    s: &mut Scanner<'a>,
    name: Text<'a>,
    parts: &mut Parts<'a>,
    frame: &'a [u8],
    known: Option<(&[u8], &Meta)>,
) -> Result<(), ScanError> {
    let unescaped;
    let name = if name.escaped {
        unescaped = name.bytes();
        &*unescaped
    } else {
        name.raw
    };
    match name {
        b"jsonrpc" => {
            parts.version = if s.peek() == b'"' {
                let text = s.string()?;
                text.raw == b"2.0" || (text.escaped && *text.bytes() == *b"2.0")
            } else {
                s.value().map(|_| false)?
            };
        }
        b"id" => parts.id = Some(s.value()?),
        b"method" => {
            parts.method =
                Some(if s.peek() == b'"' { Ok(s.string()?) } else { s.value().map(|_| Err(()))? });
        }
        b"params" => {
            parts.params = Some(if s.peek() == b'{' {
                params(s, frame, known, &mut parts.meta_known)?
            } else {
                s.value()?;
                Params::default()
            });
        }
        b"result" => {
            parts.result = Some(if s.peek() == b'{' {
                s.object(|s, name| {
                    let span = s.value()?;
                    if name.raw == b"resultType" || (name.escaped && *name.bytes() == *b"resultType") {
                        parts.result_type = span;
                    }
                    Ok(())
                })?
            } else {
                s.value()?;
                Span::default()
            });
        }
        b"error" => {
            parts.error = Some(if s.peek() == b'{' { error(s, frame)? } else { s.value().map(|_| None)? })
        }
        other => {
            parts.mis_cased |= NAMES.iter().any(|n| n.eq_any_case(other));
            s.value()?;
        }
    }
    Ok(())
}

#[inline]
fn params<'a>(
    s: &mut Scanner<'a>,
    frame: &'a [u8],
    known: Option<(&[u8], &Meta)>,
    meta_known: &mut bool,
) -> Result<Params, ScanError> {
    let mut params = Params::default();
    params.whole = s.object(|s, name| {
        let unescaped;
        let name = if name.escaped {
            unescaped = name.bytes();
            &*unescaped
        } else {
            name.raw
        };
        match name {
            b"name" => params.name = s.value()?,
            b"arguments" => {
                params.arguments =
                    if s.peek() == b'{' { s.members(&mut |s, _| s.value().map(|_| ()))? } else { s.value()? };
            }
            b"_meta" => {
                s.peek();
                // An object's text ends where it ends, so equal bytes are an equal value.
                if let Some((text, meta)) = known.filter(|(text, _)| s.rest().starts_with(text)) {
                    let at = Span::new(s.pos(), 0).start;
                    params.meta = meta.shifted(at);
                    s.advance(text.len());
                    *meta_known = true;
                } else if s.peek() == b'{' {
                    params.meta = meta(s)?;
                } else {
                    // Not an object: kept, so that whoever needs it says what is wrong.
                    params.meta.whole = s.value()?;
                }
            }
            b"inputResponses" => params.inputs = s.value()?,
            b"requestState" => params.state = s.value()?,
            _ => {
                s.value()?;
            }
        }
        Ok(())
    })?;
    debug_assert!(params.whole.of(frame).is_some());
    Ok(params)
}

fn meta(s: &mut Scanner<'_>) -> Result<Meta, ScanError> {
    let mut meta = Meta::default();
    meta.whole = s.members(&mut |s, name| {
        let value = s.value()?;
        let name = name.bytes();
        if let Some(key) = name.strip_prefix(PREFIX.as_bytes()) {
            match key {
                after_prefix::PROTOCOL_VERSION => meta.version = value,
                after_prefix::CLIENT_CAPABILITIES => meta.capabilities = value,
                after_prefix::CLIENT_INFO => meta.info = value,
                after_prefix::LOG_LEVEL => meta.log_level = value,
                _ => {}
            }
            meta.reserved |= !after_prefix::OLDER.contains(&key);
        } else if &*name == PROGRESS_TOKEN.as_bytes() {
            meta.token = value;
        }
        Ok(())
    })?;
    Ok(meta)
}

fn error(s: &mut Scanner<'_>, frame: &[u8]) -> Result<Option<ErrorParts>, ScanError> {
    let mut parts = ErrorParts::default();
    let mut code = None;
    s.members(&mut |s, name| {
        let value = s.value()?;
        match &*name.bytes() {
            b"code" => {
                code = value.of(frame).and_then(|t| RequestId::from_json(t, 32)).and_then(|i| i.as_int())
            }
            b"message" if value.of(frame).is_some_and(|t| t.starts_with(b"\"")) => parts.message = value,
            b"data" => parts.data = value,
            _ => {}
        }
        Ok(())
    })?;
    Ok(code.filter(|_| !parts.message.is_empty()).map(|code| ErrorParts { code, ..parts }))
}

impl Envelope<'_> {
    /// What a response says: its result object, or its error
    pub(crate) fn outcome(&self, frame: &Bytes) -> Result<RawJson, RpcError> {
        let cut = |span: Span| span.of(frame).map(|part| RawJson::trusted(frame.slice_ref(part)));
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

impl<'a> Parts<'a> {
    /// Decides what the message is once all of it is read, so that a late `id` is known to every refusal
    fn judge(self, frame: &'a [u8], limits: &Limits) -> Result<Envelope<'a>, Rejected> {
        let text = self.id.and_then(|span| span.of(frame));
        let id = text.and_then(|t| RequestId::from_json(t, limits.max_id));
        let asks = self.method.is_some();
        let answers = self.result.is_some() || self.error.is_some();
        let is_error = self.error.is_some() && self.result.is_none();
        let reject = |why| {
            let id = id.clone();
            // All that is judged before `params` is in order, and there is no id.
            let notifies = asks && text.is_none() && why == Malformed::Params;
            Err(Rejected { why, id, asks, answers: answers && !asks, notifies })
        };
        if self.mis_cased {
            return reject(Malformed::MisCased);
        }
        if !self.version {
            return reject(Malformed::Version);
        }
        // An error may name no id when the request could not be read (DEC-004).
        let absent = text.is_none() || (is_error && !asks && text == Some(b"null"));
        if id.is_none() && !absent {
            return reject(Malformed::Id);
        }
        let kind = match (asks, answers, id.is_some()) {
            (true, false, true) => Kind::Request,
            (true, false, false) => Kind::Notification,
            (false, true, known) if known || is_error => Kind::Response,
            _ => return reject(Malformed::Contradictory),
        };
        if self.result.is_some() && self.error.is_some() {
            return reject(Malformed::Contradictory);
        }
        let method = match self.method {
            None => Cow::Borrowed(""),
            Some(Err(())) => return reject(Malformed::Method),
            Some(Ok(text)) => text.into_str().unwrap_or_default(),
        };
        if asks && self.params.is_some_and(|p| p.whole.is_empty()) {
            return reject(Malformed::Params);
        }
        if self.result.is_some_and(Span::is_empty) {
            return reject(Malformed::Result);
        }
        let error = match self.error {
            Some(None) => return reject(Malformed::Error),
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
            meta_known: self.meta_known,
        })
    }
}

/// Finds the id of a message that cannot be read, so that whoever waits for its answer does not wait for ever
#[cold]
fn recovered(frame: &[u8], limits: &Limits, why: Malformed) -> Rejected {
    let mut finder = super::recover::Finder::new();
    finder.feed(frame);
    let found = finder.finish();
    let id = found.id.and_then(|text| RequestId::from_json(&text, limits.max_id));
    Rejected { why, id, asks: found.asks, answers: found.answers && !found.asks, notifies: found.notifies }
}

#[cfg(test)]
mod tests;
