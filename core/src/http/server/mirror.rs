//! What the fields of a request say about the message in its body, kept until that has come (HTTP-030 to HTTP-038).

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::ascii::AnyCase as _;
use crate::head::Field;
use crate::http::fields::{self, Known};
use crate::http::params::HeaderParams;
use crate::json::string;
use crate::rpc::envelope::Params;
use crate::rpc::{RpcError, code};
use crate::server::said::Said;
use crate::version::{Era, Version, VersionSet};
use crate::vocab;

/// A field that may be there once
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Once {
    #[default]
    Absent,
    /// Where its value stands
    At(u32, u32),
    /// More than once, or not text
    Unreadable,
}

/// The fields that are looked at once the body is there, copied into one text
#[derive(Default)]
pub(super) struct Mirror {
    text: Vec<u8>,
    version: Once,
    method: Once,
    name: Once,
    session: Once,
    last_event: Once,
    origin: Once,
    /// `Mcp-Param-*`: where their names and their values stand
    params: Vec<((u32, u32), (u32, u32))>,
}

/// The id of a session is in it (SEC-019)
impl core::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mirror").field("len", &self.text.len()).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Nothing yet; `text` is memory
    pub(super) fn new(text: Vec<u8>) -> Self {
        Self { text, ..Self::default() }
    }

    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Keeps a field for later, if it is one of those
    #[inline]
    pub(super) fn note(&mut self, known: Known, name: &str, value: &[u8]) {
        let slot = match known {
            Known::ProtocolVersion => &mut self.version,
            Known::Method => &mut self.method,
            Known::Name => &mut self.name,
            Known::SessionId => &mut self.session,
            Known::LastEventId => &mut self.last_event,
            Known::Origin => &mut self.origin,
            Known::Param => return self.note_param(name, value),
            Known::Accept
            | Known::Authorization
            | Known::ContentEncoding
            | Known::ContentType
            | Known::Host => return,
        };
        *slot = match (*slot, append(&mut self.text, value)) {
            (Once::Absent, Some((from, to))) => Once::At(from, to),
            _ => Once::Unreadable, // XHDR-027
        };
    }

    /// The page that asks is not to read the answer
    pub(super) const fn forget_origin(&mut self) {
        self.origin = Once::Absent;
    }

    fn note_param(&mut self, name: &str, value: &[u8]) {
        if let Some(name) = append(&mut self.text, name.as_bytes()) {
            // What is no text can be compared with nothing: it stays as something that never matches.
            let value = append(&mut self.text, value).unwrap_or((u32::MAX, u32::MAX));
            self.params.push((name, value));
        }
    }

    fn at(&self, (from, to): (u32, u32)) -> Option<&[u8]> {
        self.text.get(from as usize..to as usize)
    }

    /// The value of a field, which is text; the error says that there are several, or that it is none
    fn once(&self, field: Once) -> Result<Option<&[u8]>, ()> {
        match field {
            Once::Absent => Ok(None),
            Once::At(from, to) => Ok(self.at((from, to))),
            Once::Unreadable => Err(()),
        }
    }

    fn text(&self, field: Once) -> Result<Option<&str>, ()> {
        Ok(self.once(field)?.and_then(|value| core::str::from_utf8(value).ok()))
    }

    pub(super) fn session(&self) -> Result<Option<&[u8]>, ()> {
        self.once(self.session)
    }

    pub(super) fn last_event(&self) -> Result<Option<&str>, ()> {
        self.text(self.last_event)
    }

    pub(super) fn version(&self) -> Result<Option<&str>, ()> {
        self.text(self.version)
    }

    /// Whether the head names a modern revision
    pub(super) fn names_modern(&self) -> bool {
        let named = self.version().ok().flatten().and_then(Version::from_name);
        named.is_some_and(|version| version.era() == Era::Modern)
    }

    /// A field of MCP's own that is there several times, or that cannot be read (XHDR-027)
    fn repeated(&self) -> Option<&str> {
        let once = [
            (self.version, fields::PROTOCOL_VERSION),
            (self.method, fields::METHOD),
            (self.name, fields::NAME),
        ];
        let once = once.into_iter().find(|(field, _)| *field == Once::Unreadable).map(|(_, name)| name);
        once.or_else(|| {
            let mut names = self.params.iter().filter_map(|(name, _)| self.at(*name)).enumerate();
            let twice = names.find(|(n, name)| {
                let mut before = self.params.iter().take(*n).filter_map(|(other, _)| self.at(*other));
                before.any(|other| other.eq_any_case(name))
            });
            twice.and_then(|(_, name)| core::str::from_utf8(name).ok())
        })
    }

    /// Holds a notification against what is said about it: nothing has to be, but what is has to be right (HTTP-031,
    /// HTTP-034, HTTP-036)
    pub(super) fn check_notification(&self, version: Option<&str>, method: &str) -> Result<(), RpcError> {
        let fields =
            [(self.version, fields::PROTOCOL_VERSION, version), (self.method, fields::METHOD, Some(method))];
        for (field, name, of_body) in fields {
            let said = self.once(field).map_err(|()| Check::repeated(name))?;
            if said.zip(of_body).is_some_and(|(said, of_body)| said != of_body.as_bytes()) {
                return Err(mismatch(format!("`{name}` is not what the message says")));
            }
        }
        Ok(())
    }

    /// The origin whose pages may read the answer
    pub(super) fn cors(&self) -> Option<&[u8]> {
        self.once(self.origin).ok().flatten()
    }
}

/// Keeps a value if it is text
fn append(text: &mut Vec<u8>, value: &[u8]) -> Option<(u32, u32)> {
    if !value.is_ascii() && core::str::from_utf8(value).is_err() {
        return None;
    }
    let from = u32::try_from(text.len()).ok()?;
    text.extend_from_slice(value);
    Some((from, u32::try_from(text.len()).ok()?))
}

/// Holds a message against the fields that it came with
pub(super) struct Check<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) tools: &'a [(Box<str>, HeaderParams)],
    /// The revisions that a client is told of
    pub(super) served: VersionSet,
}

fn mismatch(message: impl Into<alloc::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}

impl Check<'_> {
    fn repeated(field: &str) -> RpcError {
        mismatch(format!("`{field}` is there more than once, or is no text"))
    }

    /// The value of a field that repeats something of the body
    fn decoded(
        &self,
        name: &'static str,
        field: Once,
    ) -> Result<Option<alloc::borrow::Cow<'_, str>>, RpcError> {
        let Some(value) = self.mirror.once(field).map_err(|()| Self::repeated(name))? else {
            return Ok(None);
        };
        let decoded = fields::decode_value(value);
        decoded.map(Some).map_err(|_| mismatch(format!("`{name}` is not encoded as it has to be")))
    }
}

impl Said for Check<'_> {
    fn modern(&self, version: Option<&str>) -> Result<(), RpcError> {
        let header = self.mirror.version().map_err(|()| Self::repeated(fields::PROTOCOL_VERSION))?;
        match (header, version) {
            // HTTP-031
            (Some(header), Some(body)) if header != body => {
                Err(mismatch(format!("`{}` is not the revision of the message", fields::PROTOCOL_VERSION)))
            }
            _ => Ok(()),
        }
    }

    fn calls_it_modern(&self) -> bool {
        self.mirror.names_modern()
    }

    fn must_be_modern(&self) -> Result<(), RpcError> {
        // HTTP-029 at a server of one era; the one thing that an older client can show its user (VER-032).
        if self.mirror.version == Once::Absent {
            let mut data = b"{\"supported\":".to_vec();
            self.served.write(&mut data);
            data.push(b'}');
            let error =
                mismatch(format!("`{}` is missing; supported: {}", fields::PROTOCOL_VERSION, self.served));
            return Err(error.with_data(crate::raw::RawJson::trusted(data.into())));
        }
        Ok(())
    }

    fn request(
        &self,
        version: Version,
        method: &str,
        frame: &Bytes,
        params: &Params,
    ) -> Result<(), RpcError> {
        let required = version.era() == Era::Modern;
        if let Some(field) = self.mirror.repeated().filter(|_| required) {
            return Err(Self::repeated(field));
        }
        if required && self.mirror.version == Once::Absent {
            return Err(mismatch(format!("`{}` is missing", fields::PROTOCOL_VERSION))); // HTTP-036
        }
        // HTTP-032; not encoded, for methods are plain.
        let said = self.mirror.once(self.mirror.method).map_err(|()| Self::repeated(fields::METHOD))?;
        match said {
            None if required => return Err(mismatch(format!("`{}` is missing", fields::METHOD))),
            Some(said) if said != method.as_bytes() => {
                return Err(mismatch(format!("`{}` is not the method of the message", fields::METHOD)));
            }
            _ => {}
        }
        // HTTP-033
        let named = match vocab::subject(method) {
            Some("name") => params.name.of(frame).and_then(string),
            Some(member) => text_member(frame, params, member),
            None => return Ok(()),
        };
        let said = self.decoded(fields::NAME, self.mirror.name)?;
        match (said, named) {
            // What the message lacks is answered as such.
            (None, None) => Ok(()),
            (None, Some(_)) if !required => Ok(()),
            (None, Some(_)) => Err(mismatch(format!("`{}` is missing", fields::NAME))),
            (Some(said), Some(named)) if said == named => Ok(()),
            (Some(_), _) => Err(mismatch(format!("`{}` is not what the message names", fields::NAME))),
        }
    }

    fn parameters(
        &self,
        version: Version,
        method: &str,
        frame: &Bytes,
        params: &Params,
    ) -> Result<(), RpcError> {
        if self.tools.is_empty() || method != vocab::TOOLS_CALL || version.era() == Era::Legacy {
            return Ok(());
        }
        let Some(tool) = params.name.of(frame).and_then(string) else { return Ok(()) };
        let found = self.tools.binary_search_by(|(name, _)| (**name).cmp(&*tool));
        let Some((_, wanted)) = found.ok().and_then(|at| self.tools.get(at)) else { return Ok(()) };
        let unreadable = b"\xff".as_slice();
        let said: Vec<Field<'_>> = self
            .mirror
            .params
            .iter()
            .filter_map(|(name, value)| {
                let name = core::str::from_utf8(self.mirror.at(*name)?).ok()?;
                Some((name, self.mirror.at(*value).unwrap_or(unreadable)))
            })
            .collect();
        let arguments = params.arguments.of(frame).unwrap_or(b"{}");
        wanted.check(arguments, &said).map_err(|why| mismatch(format!("{why}")))
    }
}

/// A member of the parameters that is a string
fn text_member<'a>(frame: &'a Bytes, params: &Params, member: &str) -> Option<alloc::borrow::Cow<'a, str>> {
    let mut found = None;
    crate::json::object_members(params.whole.of(frame)?, |name, value| {
        if name == member.as_bytes() {
            found = string(value);
        }
    });
    found
}
