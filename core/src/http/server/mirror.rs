//! What the fields of a request say about the message in its body, kept until that has come (HTTP-030 to HTTP-038).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::head::Field;
use crate::http::fields;
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
    text: String,
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
    pub(super) fn new(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn read(&mut self, all: &[Field<'_>], keep_origin: bool) {
        for (name, value) in all {
            let slot = if fields::is_own(name) {
                if name.eq_ignore_ascii_case(fields::PROTOCOL_VERSION) {
                    &mut self.version
                } else if name.eq_ignore_ascii_case(fields::METHOD) {
                    &mut self.method
                } else if name.eq_ignore_ascii_case(fields::NAME) {
                    &mut self.name
                } else if name.eq_ignore_ascii_case(fields::SESSION_ID) {
                    &mut self.session
                } else {
                    if fields::is_param(name) {
                        let name = append(&mut self.text, name.as_bytes());
                        // What is no text can be compared with nothing: it stays as something that never matches.
                        let value = append(&mut self.text, value);
                        if let (Some(name), Some(value)) = (name, value) {
                            self.params.push((name, value));
                        } else if let Some(name) = name {
                            self.params.push((name, (u32::MAX, u32::MAX)));
                        }
                    }
                    continue;
                }
            } else if name.eq_ignore_ascii_case(fields::LAST_EVENT_ID) {
                &mut self.last_event
            } else if keep_origin && name.eq_ignore_ascii_case(fields::ORIGIN) {
                &mut self.origin
            } else {
                continue;
            };
            *slot = match (*slot, append(&mut self.text, value)) {
                (Once::Absent, Some((from, to))) => Once::At(from, to),
                _ => Once::Unreadable, // XHDR-027
            };
        }
    }

    fn at(&self, (from, to): (u32, u32)) -> Option<&str> {
        self.text.get(from as usize..to as usize)
    }

    /// The value of a field; the error says that there are several, or that it is no text
    fn once(&self, field: Once) -> Result<Option<&str>, ()> {
        match field {
            Once::Absent => Ok(None),
            Once::At(from, to) => Ok(self.at((from, to))),
            Once::Unreadable => Err(()),
        }
    }

    pub(super) fn session(&self) -> Result<Option<&str>, ()> {
        self.once(self.session)
    }

    pub(super) fn last_event(&self) -> Result<Option<&str>, ()> {
        self.once(self.last_event)
    }

    pub(super) fn version(&self) -> Result<Option<&str>, ()> {
        self.once(self.version)
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
            names.find_map(|(n, name)| {
                let mut before = self.params.iter().take(n).filter_map(|(other, _)| self.at(*other));
                before.any(|other| other.eq_ignore_ascii_case(name)).then_some(name)
            })
        })
    }

    /// Holds a notification against what is said about it: nothing has to be, but what is has to be right (HTTP-031,
    /// HTTP-034, HTTP-036)
    pub(super) fn check_notification(&self, version: Option<&str>, method: &str) -> Result<(), RpcError> {
        let fields =
            [(self.version, fields::PROTOCOL_VERSION, version), (self.method, fields::METHOD, Some(method))];
        for (field, name, of_body) in fields {
            let said = self.once(field).map_err(|()| Check::repeated(name))?;
            if said.zip(of_body).is_some_and(|(said, of_body)| said != of_body) {
                return Err(mismatch(format!("`{name}` is not what the message says")));
            }
        }
        Ok(())
    }

    /// The origin whose pages may read the answer
    pub(super) fn cors(&self) -> Option<&str> {
        self.once(self.origin).ok().flatten()
    }
}

fn append(text: &mut String, value: &[u8]) -> Option<(u32, u32)> {
    let from = u32::try_from(text.len()).ok()?;
    text.push_str(core::str::from_utf8(value).ok()?);
    Some((from, u32::try_from(text.len()).ok()?))
}

/// Holds a message against the fields that it came with
pub(super) struct Check<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) tools: &'a BTreeMap<Box<str>, HeaderParams>,
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
        let decoded = fields::decode_value(value.as_bytes());
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
        let header = self.mirror.version().ok().flatten().and_then(Version::from_name);
        header.is_some_and(|v| v.era() == Era::Modern)
    }

    fn must_be_modern(&self) -> Result<(), RpcError> {
        // HTTP-029 at a server of one era; the one thing that an older client can show its user (VER-032).
        if self.mirror.version() == Ok(None) {
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
        if required && self.mirror.version() == Ok(None) {
            return Err(mismatch(format!("`{}` is missing", fields::PROTOCOL_VERSION))); // HTTP-036
        }
        // HTTP-032; not encoded, for methods are plain.
        let said = self.mirror.once(self.mirror.method).map_err(|()| Self::repeated(fields::METHOD))?;
        match said {
            None if required => return Err(mismatch(format!("`{}` is missing", fields::METHOD))),
            Some(said) if said != method => {
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
        let Some(wanted) = params.name.of(frame).and_then(string).and_then(|name| self.tools.get(&*name))
        else {
            return Ok(());
        };
        let unreadable = b"\xff".as_slice();
        let said: Vec<Field<'_>> = self
            .mirror
            .params
            .iter()
            .filter_map(|(name, value)| {
                Some((self.mirror.at(*name)?, self.mirror.at(*value).map_or(unreadable, str::as_bytes)))
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
