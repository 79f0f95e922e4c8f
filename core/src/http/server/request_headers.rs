//! The request fields that repeat parts of the body, kept until the body is complete (HTTP-030 to HTTP-038).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::admission::AdmissionHeaders;
use super::config::Config;
use super::refusal::{Refusal, unsupported_version};
use super::token::SingleValue;
use crate::ascii::AsciiCaseExt as _;
use crate::draft::{Deviation, Draft};
use crate::head::{FieldLine, Fields, is_token};
use crate::http::fields::{self, KnownField};
use crate::http::params::HeaderParams;
use crate::json::string;
use crate::methods;
use crate::model::is_date;
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{RpcError, code};
use crate::server::request_check::{HeaderCheck, ReceivedRequest};
use crate::version::{Era, Version, VersionSet};

/// Bytes that the copied fields of most requests take.
const USUAL_LENGTH: usize = 64;

/// The value of a field that must occur at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum SingleField {
    #[default]
    Absent,
    /// The position of its value in `buffer`.
    Span(u32, u32),
    /// The field occurs more than once, or is not text.
    Unreadable,
}

/// The fields that are evaluated once the body is complete, copied into one buffer.
#[derive(Default)]
pub(super) struct RequestHeaders {
    buffer: Vec<u8>,
    version: SingleField,
    method: SingleField,
    name: SingleField,
    session: SingleField,
    last_event_id: SingleField,
    origin: SingleField,
    /// `Mcp-Param-*`: the positions of names and values in `buffer`.
    params: Vec<((u32, u32), (u32, u32))>,
}

/// Omits the content, which may hold a session id (SEC-019).
impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHeaders").field("len", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl RequestHeaders {
    /// Creates an empty set; `text` is memory to reuse.
    pub(super) fn new(text: Vec<u8>) -> Self {
        Self { buffer: text, ..Self::default() }
    }

    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.buffer)
    }

    /// Copies the fields that repeat parts of the body, or name a session.
    pub(super) fn record(&mut self, headers: &AdmissionHeaders<'_>, with_origin: bool) {
        self.buffer.reserve(USUAL_LENGTH);
        self.version = self.copy(headers.single(KnownField::ProtocolVersion));
        self.method = self.copy(headers.single(KnownField::Method));
        self.name = self.copy(headers.single(KnownField::Name));
        self.session = self.copy(headers.single(KnownField::SessionId));
        self.last_event_id = self.copy(headers.single(KnownField::LastEventId));
        if with_origin {
            self.origin = self.copy(headers.single(KnownField::Origin));
        }
        // Once for all, because nearly every value is ASCII.
        if !self.buffer.is_ascii() {
            self.check_text();
        }
        headers.params().for_each(|(name, value)| self.record_param(name, value));
    }

    /// Copies the value of a field that must occur at most once (XHDR-027).
    #[inline]
    fn copy(&mut self, value: SingleValue<'_>) -> SingleField {
        match value {
            SingleValue::Absent => SingleField::Absent,
            SingleValue::One(value) => append(&mut self.buffer, value)
                .map_or(SingleField::Unreadable, |(from, to)| SingleField::Span(from, to)),
            SingleValue::Repeated => SingleField::Unreadable,
        }
    }

    /// Marks copied values that are not text.
    #[cold]
    fn check_text(&mut self) {
        for field in [
            &mut self.version,
            &mut self.method,
            &mut self.name,
            &mut self.session,
            &mut self.last_event_id,
            &mut self.origin,
        ] {
            if let SingleField::Span(from, to) = *field {
                let value = self.buffer.get(from as usize..to as usize).unwrap_or_default();
                if core::str::from_utf8(value).is_err() {
                    *field = SingleField::Unreadable;
                }
            }
        }
    }

    /// Removes the origin, so that its page cannot read the response.
    pub(super) const fn clear_origin(&mut self) {
        self.origin = SingleField::Absent;
    }

    fn record_param(&mut self, name: &str, value: &[u8]) {
        if let Some(name) = append_text(&mut self.buffer, name.as_bytes()) {
            // A value that is not text never matches; an invalid position stands for it.
            let value = append_text(&mut self.buffer, value).unwrap_or((u32::MAX, u32::MAX));
            self.params.push((name, value));
        }
    }

    fn slice(&self, (from, to): (u32, u32)) -> Option<&[u8]> {
        self.buffer.get(from as usize..to as usize)
    }

    /// Returns the value of a field; `Err` if the field occurs more than once or is not text.
    fn value(&self, field: SingleField) -> Result<Option<&[u8]>, ()> {
        match field {
            SingleField::Absent => Ok(None),
            SingleField::Span(from, to) => Ok(self.slice((from, to))),
            SingleField::Unreadable => Err(()),
        }
    }

    fn text_value(&self, field: SingleField) -> Result<Option<&str>, ()> {
        Ok(self.value(field)?.and_then(|value| core::str::from_utf8(value).ok()))
    }

    pub(super) fn session(&self) -> Result<Option<&[u8]>, ()> {
        self.value(self.session)
    }

    /// Cuts the id of the session off after `len` bytes, and returns the rest; `None` if there is none, or if the id has more
    /// than `max` bytes.
    pub(super) fn split_session(&mut self, len: usize, max: usize) -> Option<String> {
        let SingleField::Span(from, to) = self.session else { return None };
        let at = from.checked_add(u32::try_from(len).ok()?).filter(|at| *at < to)?;
        let rest = self.slice((at, to)).filter(|rest| rest.len() <= max - len)?;
        let rest = core::str::from_utf8(rest).ok()?.into();
        self.session = SingleField::Span(from, at);
        Some(rest)
    }

    pub(super) fn last_event_id(&self) -> Result<Option<&str>, ()> {
        self.text_value(self.last_event_id)
    }

    pub(super) fn version(&self) -> Result<Option<&str>, ()> {
        self.text_value(self.version)
    }

    /// Returns whether the head names a modern revision.
    pub(super) fn names_modern_revision(&self) -> bool {
        let named = self.version().ok().flatten().and_then(Version::from_name);
        named.is_some_and(|version| version.era() == Era::Modern)
    }

    /// Checks that the version field is a date, as the names of all revisions are (VER-038).
    fn check_version_form(&self) -> Result<(), Refusal> {
        match self.version() {
            Ok(name) if name.is_none_or(is_date) => Ok(()),
            _ => Err(unsupported_version()),
        }
    }

    /// Checks the version field of a request in a session of this revision (HTTP-077); `initialize` counts as one of the first.
    pub(super) fn check_session_version(
        &self,
        session: Version,
        served: VersionSet,
        draft: Draft,
    ) -> Result<(), Refusal> {
        // The field exists since 2025-06-18; earlier sessions, and `initialize`, ignore which revision it names.
        if session < Version::V2025_06_18 && !draft.contains(Deviation::CheckedVersion) {
            return self.check_version_form();
        }
        match self.version() {
            Ok(None) => Ok(()),
            Ok(Some(name)) if Version::from_name(name).is_some_and(|v| served.contains(v)) => Ok(()),
            _ => Err(unsupported_version()),
        }
    }

    /// Returns the revision of a legacy request without a session (HTTP-078).
    pub(super) fn presumed_version(&self, served: VersionSet) -> Result<Version, Refusal> {
        let version = match self.version() {
            Ok(None) => Some(Version::V2025_03_26),
            Ok(Some(name)) => Version::from_name(name),
            Err(()) => None,
        };
        version.filter(|v| served.contains(*v)).ok_or_else(unsupported_version)
    }

    /// Returns the name of an MCP field that occurs more than once or is not text (XHDR-027).
    fn find_repeated(&self) -> Option<&str> {
        let once = [
            (self.version, fields::PROTOCOL_VERSION),
            (self.method, fields::METHOD),
            (self.name, fields::NAME),
        ];
        let once =
            once.into_iter().find(|(field, _)| *field == SingleField::Unreadable).map(|(_, name)| name);
        once.or_else(|| {
            let mut names = self.params.iter().filter_map(|(name, _)| self.slice(*name)).enumerate();
            let twice = names.find(|(n, name)| {
                // This is quadratic, but a head of `h1` has at most 128 fields.
                let mut before = self.params.iter().take(*n).filter_map(|(other, _)| self.slice(*other));
                before.any(|other| other.eq_ignore_case(name))
            });
            twice.and_then(|(_, name)| core::str::from_utf8(name).ok())
        })
    }

    /// Compares a notification with its fields (HTTP-031, HTTP-034, HTTP-036).
    ///
    /// The fields may be absent, unless the draft requires one. A field that is present must match the message.
    pub(super) fn check_notification(
        &self,
        version: Option<&str>,
        method: &str,
        draft: Draft,
    ) -> Result<(), RpcError> {
        if draft.contains(Deviation::NotificationHeaders) && self.method == SingleField::Absent {
            return Err(mismatch(fields::METHOD, "is missing"));
        }
        let fields =
            [(self.version, fields::PROTOCOL_VERSION, version), (self.method, fields::METHOD, Some(method))];
        for (field, name, body_value) in fields {
            let header = self.value(field).map_err(|()| RequestHeaderCheck::repeated_field(name))?;
            if header.zip(body_value).is_some_and(|(header, body_value)| !repeats(header, body_value)) {
                return Err(mismatch(name, "is not what the message says"));
            }
        }
        Ok(())
    }

    /// Returns whether there is a field that repeats a part of the body.
    pub(super) fn has_mirrored_fields(&self) -> bool {
        let is_present = |field: &SingleField| !matches!(field, SingleField::Absent);
        is_present(&self.method) || is_present(&self.name) || !self.params.is_empty()
    }

    /// Returns the origin whose pages may read the response.
    pub(super) fn cors_origin(&self) -> Option<&[u8]> {
        self.value(self.origin).ok().flatten()
    }
}

/// Returns whether a field has a value, as it is or in the form that a value with other characters needs.
///
/// A plain value in another form is refused: a gateway that compares the text would not find it.
fn repeats(header: &[u8], value: &str) -> bool {
    header == value.as_bytes() || header == fields::encode_value(value).as_bytes()
}

/// Appends a value if it is text, and returns its position.
fn append_text(text: &mut Vec<u8>, value: &[u8]) -> Option<(u32, u32)> {
    core::str::from_utf8(value).ok()?;
    append(text, value)
}

/// Appends a value, and returns its position.
fn append(text: &mut Vec<u8>, value: &[u8]) -> Option<(u32, u32)> {
    let from = u32::try_from(text.len()).ok()?;
    text.extend_from_slice(value);
    Some((from, u32::try_from(text.len()).ok()?))
}

/// Compares a message with the fields of its request.
pub(super) struct RequestHeaderCheck<'a> {
    pub(super) headers: &'a RequestHeaders,
    pub(super) tools: Option<&'a dyn ToolFields>,
    pub(super) draft: Draft,
    /// The revisions that are advertised to clients.
    pub(super) served_versions: VersionSet,
}

fn header_mismatch(message: impl Into<alloc::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}

/// Returns the error for a field with this fault.
#[cold]
#[inline(never)]
fn mismatch(field: &str, fault: &str) -> RpcError {
    header_mismatch(format!("`{field}` {fault}"))
}

impl RequestHeaderCheck<'_> {
    fn repeated_field(field: &str) -> RpcError {
        mismatch(field, "is there more than once, or is no text")
    }

    /// Returns the decoded value of a field that repeats part of the body.
    fn decode_field(
        &self,
        name: &'static str,
        field: SingleField,
    ) -> Result<Option<alloc::borrow::Cow<'_, str>>, RpcError> {
        let Some(value) = self.headers.value(field).map_err(|()| Self::repeated_field(name))? else {
            return Ok(None);
        };
        let decoded = fields::decode_value(value);
        decoded.map(Some).map_err(|_| mismatch(name, "is not encoded as it has to be"))
    }
}

impl HeaderCheck for RequestHeaderCheck<'_> {
    fn check_version(&self, version: Option<&str>) -> Result<(), RpcError> {
        let header = self.headers.value(self.headers.version);
        match (header.map_err(|()| Self::repeated_field(fields::PROTOCOL_VERSION))?, version) {
            // HTTP-031
            (Some(header), Some(body)) if header != body.as_bytes() => {
                Err(mismatch(fields::PROTOCOL_VERSION, "is not the revision of the message"))
            }
            // A missing field is left to `require_modern` and `check_request`, whose places in the order differ
            // (DEC-007).
            _ => Ok(()),
        }
    }

    fn indicates_modern(&self) -> bool {
        self.headers.names_modern_revision()
    }

    fn require_modern(&self) -> Result<(), RpcError> {
        // HTTP-029 at a modern-only server; an older client can show the revisions to its user (VER-032).
        if self.headers.version == SingleField::Absent {
            let mut data = b"{\"supported\":".to_vec();
            self.served_versions.write(&mut data);
            data.push(b'}');
            let error = header_mismatch(format!(
                "`{}` is missing; supported: {}",
                fields::PROTOCOL_VERSION,
                self.served_versions
            ));
            return Err(error.with_data(crate::raw::RawJson::trusted(data.into())));
        }
        Ok(())
    }

    fn check_request(&self, version: Version, request: &ReceivedRequest<'_>) -> Result<(), RpcError> {
        let &ReceivedRequest { frame, method, params, .. } = request;
        let is_modern = version.era() == Era::Modern;
        let required = is_modern || self.draft.contains(Deviation::SessionHeaders);
        if let Some(field) = self.headers.find_repeated().filter(|_| required) {
            return Err(Self::repeated_field(field));
        }
        if is_modern && self.headers.version == SingleField::Absent {
            return Err(mismatch(fields::PROTOCOL_VERSION, "is missing")); // HTTP-036
        }
        // HTTP-032
        let header =
            self.headers.value(self.headers.method).map_err(|()| Self::repeated_field(fields::METHOD))?;
        match header {
            None if required => return Err(mismatch(fields::METHOD, "is missing")),
            Some(header) if !repeats(header, method) => {
                return Err(mismatch(fields::METHOD, "is not the method of the message"));
            }
            _ => {}
        }
        // HTTP-033
        let Some(member) = methods::subject_member(method) else { return Ok(()) };
        let named = match member {
            "name" => params.name.slice(frame).and_then(string),
            member => string_member(frame, params, member),
        };
        let header = self.decode_field(fields::NAME, self.headers.name)?;
        match (header, named) {
            // A missing member of the message is reported by a later check.
            (None, None) => Ok(()),
            (None, Some(_)) if !required => Ok(()),
            // The draft asks for it with tools, prompts and resources alone.
            (None, Some(_)) if !is_modern && member == methods::TASK_SUBJECT => Ok(()),
            (None, Some(_)) => Err(mismatch(fields::NAME, "is missing")),
            (Some(header), Some(named)) if header == named => Ok(()),
            (Some(_), _) => Err(mismatch(fields::NAME, "is not what the message names")),
        }
    }

    fn check_params(&self, version: Version, request: &ReceivedRequest<'_>) -> Result<(), RpcError> {
        let &ReceivedRequest { frame, method, params, .. } = request;
        let Some(tools) = self.tools.filter(|_| method == methods::TOOLS_CALL) else { return Ok(()) };
        let required = version.era() == Era::Modern || self.draft.contains(Deviation::SessionParamHeaders);
        if !required && self.headers.params.is_empty() {
            return Ok(());
        }
        let Some(tool) = params.name.slice(frame).and_then(string) else { return Ok(()) };
        // UTF-8 never has this byte, so the value differs from every argument.
        let unreadable = b"\xff".as_slice();
        let mut fields = self.headers.params.iter().filter_map(|(name, value)| {
            let name = core::str::from_utf8(self.headers.slice(*name)?).ok()?;
            Some((name, self.headers.slice(*value).unwrap_or(unreadable)))
        });
        tools.check(&tool, params.arguments.slice(frame).unwrap_or(b"{}"), &mut fields, required)
    }
}

/// Returns a string member of the parameters.
fn string_member<'a>(
    frame: &'a Bytes,
    params: &ParamsSpans,
    member: &str,
) -> Option<alloc::borrow::Cow<'a, str>> {
    crate::json::member(params.whole.slice(frame)?, member).and_then(string)
}

// The header fields that handlers may see.

impl Config {
    /// Lets handlers see these header fields of a request ([`HttpRequest::field`](crate::server::HttpRequest::field));
    /// default: none.
    ///
    /// Names are matched in any case. Repeated fields are all seen, in the order in which the HTTP stack returns them, and values
    /// need not be UTF-8. A request shows 8 KiB of them at most, because a call keeps them until its end: a field that does not
    /// fit any more is left out.
    ///
    /// ```
    /// use mcp_proto::http::server::Config;
    /// let config = Config::new().visible_fields(["User-Agent", "X-Request-Id"])?;
    /// assert!(Config::new().visible_fields(["Authorization"]).is_err());
    /// # Ok::<(), mcp_proto::http::server::VisibleFieldError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A name that is no field name, or that suggests a secret: known fields of credentials, cookies, sessions and keys are not shown
    /// (SEC-019). A layer in front of the server can read them, and attach what handlers may know as extensions of the HTTP
    /// request, or over the sockets of an adapter by its function for accepted requests
    /// ([`Server::request_mut`](super::Server::request_mut)).
    pub fn visible_fields<N: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, VisibleFieldError> {
        for name in names {
            let name = name.into();
            if !is_token(name.as_bytes()) {
                return Err(VisibleFieldError::Invalid(name));
            }
            if fields::is_secret(&name) {
                return Err(VisibleFieldError::Secret(name));
            }
            self.visible_fields.push(name);
        }
        Ok(self)
    }

    /// Returns the fields of a request that handlers may see.
    #[inline]
    pub(super) fn visible_fields_of(&self, all: &[FieldLine<'_>]) -> Fields {
        let mut visible = Fields::new();
        if self.visible_fields.is_empty() {
            return visible;
        }
        for (name, value) in all {
            let fits = visible.as_lines().len() + name.len() + value.len() <= MAX_VISIBLE;
            if fits && self.visible_fields.iter().any(|known| known.eq_ignore_case(name)) {
                visible.push(name, value);
            }
        }
        visible
    }
}

/// Number of bytes of the fields of a request that handlers may see.
const MAX_VISIBLE: usize = 8 << 10;

/// The reason why a header field cannot be shown to handlers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VisibleFieldError {
    /// The text is not the name of a field.
    Invalid(String),
    /// The name suggests a secret.
    Secret(String),
}

impl fmt::Display for VisibleFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(name) => write!(f, "`{}` is not the name of a header field", name.escape_debug()),
            Self::Secret(name) => {
                write!(f, "the header field `{name}` is not shown to handlers: its name suggests a secret")
            }
        }
    }
}

impl core::error::Error for VisibleFieldError {}

// The request fields that repeat arguments of tools (`x-mcp-header`; XHDR-021 to XHDR-027).
//
// The server calls them through a trait object that `Server::set_tool_schema` installs, so a
// program without such schemas links no comparison (14 KiB; `core/docs/size.md`).

/// The repeated arguments of the tools of a server.
pub(super) trait ToolFields: fmt::Debug + Send + Sync {
    /// Sets the repeated arguments of a tool.
    fn set(&mut self, tool: &str, params: HeaderParams);

    /// Removes the repeated arguments of a tool.
    fn remove(&mut self, tool: &str);

    /// Compares the fields of a call with its arguments; an absent field is an error if it is `required`.
    fn check(
        &self,
        tool: &str,
        arguments: &[u8],
        fields: &mut dyn Iterator<Item = FieldLine<'_>>,
        required: bool,
    ) -> Result<(), RpcError>;

    /// Appends the names of the fields to a list.
    fn append_names(&self, list: &mut String);
}

/// Creates an empty table.
pub(super) fn tool_fields() -> Box<dyn ToolFields> {
    Box::<ToolTable>::default()
}

/// The repeated arguments of each tool that has any, sorted by tool name.
#[derive(Debug, Default)]
struct ToolTable(Vec<(Box<str>, HeaderParams)>);

impl ToolFields for ToolTable {
    fn set(&mut self, tool: &str, params: HeaderParams) {
        // A second entry of the same name would make the search ambiguous.
        self.remove(tool);
        let at = self.0.partition_point(|(name, _)| **name < *tool);
        self.0.insert(at, (tool.into(), params));
    }

    fn remove(&mut self, tool: &str) {
        if let Ok(at) = self.0.binary_search_by(|(name, _)| (**name).cmp(tool)) {
            self.0.remove(at);
        }
    }

    fn check(
        &self,
        tool: &str,
        arguments: &[u8],
        fields: &mut dyn Iterator<Item = FieldLine<'_>>,
        required: bool,
    ) -> Result<(), RpcError> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(tool));
        let Some((_, wanted)) = found.ok().and_then(|at| self.0.get(at)) else { return Ok(()) };
        let fields: Vec<FieldLine<'_>> = fields.collect();
        let checked = if required {
            wanted.check(arguments, &fields)
        } else {
            wanted.check_present(arguments, &fields)
        };
        checked.map_err(|reason| RpcError::new(code::HEADER_MISMATCH, format!("{reason}")))
    }

    fn append_names(&self, list: &mut String) {
        for name in self.0.iter().flat_map(|(_, tool)| tool.names()) {
            list.push_str(", ");
            list.push_str(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_session_is_split_within_its_bounds() {
        // What follows the first three bytes, of ten at most.
        for (id, rest) in [
            ("", None),
            ("ab", None),
            ("abc", None),
            ("abcd", Some("d")),
            ("abcdefghij", Some("defghij")),
            ("abcdefghijk", None),
        ] {
            let fields: [FieldLine<'_>; 2] = [("mcp-session-id", id.as_bytes()), ("mcp-name", b"x")];
            let mut headers = RequestHeaders::default();
            headers.record(&AdmissionHeaders::new(&fields), false);
            assert_eq!(headers.split_session(3, 10).as_deref(), rest, "{id}");
            let kept = if rest.is_some() { "abc" } else { id };
            assert_eq!(headers.session(), Ok(Some(kept.as_bytes())), "{id}");
        }
    }

    #[test]
    fn tools_are_found_by_name_whatever_the_order_in_which_they_were_set() {
        let params = |field: &str| {
            let schema = format!(
                r#"{{"type":"object","properties":{{"a":{{"type":"string","x-mcp-header":"{field}"}}}}}}"#
            );
            HeaderParams::read(&crate::raw::RawJson::new(schema).expect("JSON"), Draft::default())
                .expect("valid")
        };
        let mut tools = ToolTable::default();
        let names = ["m", "c", "x", "a", "z", "n"];
        names.iter().for_each(|name| tools.set(name, params(name)));
        tools.set("m", params("other"));
        for (at, name) in names.iter().enumerate() {
            let field = if at == 0 { "mcp-param-other".into() } else { format!("mcp-param-{name}") };
            let check =
                |value: &[u8]| tools.check(name, br#"{"a":"1"}"#, &mut [(&*field, value)].into_iter(), true);
            assert!(check(b"1").is_ok() && check(b"2").is_err(), "{name}");
        }
        let mut list = String::new();
        tools.append_names(&mut list);
        assert_eq!(
            list,
            ", Mcp-Param-a, Mcp-Param-c, Mcp-Param-other, Mcp-Param-n, Mcp-Param-x, Mcp-Param-z"
        );
        names.iter().for_each(|name| tools.remove(name));
        assert!(tools.0.is_empty());
    }

    // covers: SEC-019
    #[test]
    fn debug_output_has_no_values() {
        let fields: [FieldLine<'_>; 1] = [("mcp-session-id", b"s3cret")];
        let mut headers = RequestHeaders::default();
        headers.record(&AdmissionHeaders::new(&fields), false);
        assert_eq!(format!("{headers:?}"), "RequestHeaders { len: 6, .. }");
    }
}
