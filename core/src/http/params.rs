//! Arguments of tools that are repeated in header fields: which ones a schema asks for (`x-mcp-header`), what a client
//! writes, what a server holds against the body (XHDR-001 to XHDR-030).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memmem;

use super::fields::{BadValue, PARAM_PREFIX, encode_value, only_decoded};
use crate::ascii::AnyCase as _;
use crate::head::{Field, is_token};
use crate::json::{ScanError, Scanner, string};
use crate::raw::RawJson;

const ANNOTATION: &[u8] = b"x-mcp-header";

/// The arguments of one tool that are repeated in header fields
///
/// The same on both sides: a client [writes](Self::values) them, a server [checks](Self::check) them.
///
/// ```
/// use mcp_proto::{RawJson, http::params::HeaderParams};
/// let schema = RawJson::new(r#"{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}"#)?;
/// let params = HeaderParams::of(&schema).unwrap();
/// let headers: Vec<_> = params.values(br#"{"n":42.0}"#).collect();
/// assert_eq!(headers, [("Mcp-Param-Count", "42".into())]);
/// assert!(params.check(br#"{"n":42}"#, &[("mcp-param-count", b"42")]).is_ok());
/// assert!(params.check(br#"{"n":43}"#, &[("mcp-param-count", b"42")]).is_err());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeaderParams {
    /// Sorted by path
    params: Box<[Param]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Param {
    /// Names of members from the arguments to the value
    path: Box<[Box<str>]>,
    /// The whole name of the field
    name: Box<str>,
}

impl HeaderParams {
    /// Arguments of one tool that may be repeated
    pub const MAX: usize = 64;
    /// Bytes of the name that one may be given
    pub const MAX_NAME: usize = 128;
    /// Bytes of all names of properties that lead to one tool's annotations, each path counted for itself
    pub const MAX_PATHS: usize = 16 << 10;

    /// What an `inputSchema` asks for
    ///
    /// All of the schema is looked at, but for `default`, `const`, `enum` and `examples`, where values stand and not
    /// schemas. The work is that of reading it once.
    ///
    /// # Errors
    ///
    /// Where an annotation breaks one of the rules XHDR-003 to XHDR-010, or there are more than [`MAX`](Self::MAX) or they
    /// stand deeper than [`MAX_PATHS`](Self::MAX_PATHS): the tool is not to be offered over HTTP (XHDR-011).
    pub fn of(schema: &RawJson) -> Result<Self, BadAnnotation> {
        let text = schema.as_bytes();
        // A name may be spelt with escapes, but hardly any is.
        if memmem::find(text, ANNOTATION).is_none() && memmem::find(text, b"\\u").is_none() {
            return Ok(Self::default());
        }
        let mut search =
            Search { text, at: String::new(), path: Vec::new(), params: Vec::new(), paths: 0, bad: None };
        let scanned = search.schema(&mut Scanner::trusted(text), true);
        if let Some(bad) = search.bad {
            return Err(bad);
        }
        if scanned.is_err() {
            return Err(BadAnnotation { at: search.at, why: BadReason::Schema });
        }
        let mut params = search.params;
        params.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { params: params.into() })
    }

    /// Whether nothing is repeated
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// The names of the fields
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|p| &*p.name)
    }

    /// The fields that go with these arguments (JSON text, empty for none): name and value (XHDR-014 to XHDR-019)
    ///
    /// A value that no field can hold, which is a list, an object or a number beyond XHDR-008, has none: it does not fit
    /// the schema either, and it is for the server to say so. None has one where an object names a member twice.
    pub fn values<'a>(&'a self, arguments: &'a [u8]) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let found = self.find(arguments).unwrap_or_default();
        self.params.iter().zip(found).filter_map(|(param, value)| {
            let value = match Value::of(value)? {
                Value::Text(text) => encode_value(text),
                Value::Bool(yes) => Cow::Borrowed(if yes { "true" } else { "false" }),
                Value::Integer(number) => String::from(itoa::Buffer::new().format(number)).into(),
                Value::Other => return None,
            };
            Some((&*param.name, value))
        })
    }

    /// Holds the fields of a request against its arguments (JSON text, empty for none) (XHDR-021 to XHDR-027)
    ///
    /// Fields that the schema does not ask for are not looked at.
    ///
    /// # Errors
    ///
    /// The first field that is missing, says something else, says something about nothing (DEC-008), or cannot be read;
    /// an object among the arguments that names a member twice, of which two readers may take different ones.
    pub fn check(&self, arguments: &[u8], fields: &[Field<'_>]) -> Result<(), Mismatch> {
        let Some(first) = self.params.first() else { return Ok(()) };
        let mismatch = |param: &Param, why| Mismatch { name: param.name.clone(), why };
        let found = self.find(arguments).map_err(|_| mismatch(first, MismatchReason::Twice))?;
        for (param, value) in self.params.iter().zip(found) {
            let field = only_decoded(fields, &param.name);
            let field = field.map_err(|bad| mismatch(param, MismatchReason::Value(bad)))?;
            let same = match (Value::of(value), field) {
                (None, None) => Ok(()),
                (None, Some(_)) => Err(MismatchReason::Unexpected),
                (Some(Value::Other), _) => Err(MismatchReason::Arguments),
                (Some(_), None) => Err(MismatchReason::Missing),
                (Some(value), Some(field)) if value.is(&field) => Ok(()),
                (Some(_), Some(_)) => Err(MismatchReason::Different),
            };
            same.map_err(|why| mismatch(param, why))?;
        }
        Ok(())
    }

    /// The JSON text of each value, empty for what is not there
    fn find<'a>(&self, arguments: &'a [u8]) -> Result<Vec<&'a [u8]>, ScanError> {
        let mut found = Vec::new();
        found.resize(self.params.len(), &b""[..]);
        if !self.params.is_empty() && arguments.first() == Some(&b'{') {
            core::str::from_utf8(arguments).map_err(|e| ScanError::Syntax(e.valid_up_to()))?;
            walk(&mut Scanner::trusted(arguments), arguments, &self.params, 0, &mut found)?;
        }
        Ok(found)
    }
}

/// Reads an object and finds the values of `params`, the paths of which lead here with `depth` names
///
/// No deeper than the paths, which come from a text that is nested at most 128 deep.
fn walk<'a>(
    s: &mut Scanner<'a>,
    text: &'a [u8],
    params: &[Param],
    depth: usize,
    found: &mut [&'a [u8]],
) -> Result<(), ScanError> {
    s.members(&mut |s, name| {
        let name = name.bytes();
        let key = |p: &Param| p.path.get(depth).map_or(&b""[..], |k| k.as_bytes()).cmp(&name);
        let from = params.partition_point(|p| key(p).is_lt());
        let to = params.partition_point(|p| key(p).is_le());
        let (mut here, mut place) = (params.get(from..to).unwrap_or_default(), from);
        // The shortest path comes first; it ends here if any does.
        let own = here.first().filter(|p| p.path.len() == depth + 1).map(|_| place);
        if own.is_some() {
            here = here.get(1..).unwrap_or_default();
            place += 1;
        }
        s.peek();
        let start = s.pos();
        if !here.is_empty() && s.peek() == b'{' {
            walk(s, text, here, depth + 1, found.get_mut(place..to).unwrap_or_default())?;
        } else {
            s.value()?;
        }
        if let Some(value) = own.and_then(|own| found.get_mut(own)) {
            *value = text.get(start..s.pos()).unwrap_or_default();
        }
        Ok(())
    })?;
    Ok(())
}

/// A value as a field can say it
enum Value<'a> {
    Text(Cow<'a, str>),
    Bool(bool),
    Integer(i64),
    /// There is a value that no field can hold
    Other,
}

impl<'a> Value<'a> {
    /// Reads JSON text; none for `null` and for nothing
    fn of(text: &'a [u8]) -> Option<Self> {
        match text {
            b"" | b"null" => None,
            b"true" => Some(Self::Bool(true)),
            b"false" => Some(Self::Bool(false)),
            [b'"', ..] => Some(string(text).map_or(Self::Other, Self::Text)),
            [b'-' | b'0'..=b'9', ..] => Some(integer(text).map_or(Self::Other, Self::Integer)),
            _ => Some(Self::Other),
        }
    }

    /// Whether a field that says `field` says this; numbers are compared as such (XHDR-026)
    fn is(&self, field: &str) -> bool {
        match self {
            Self::Text(text) => text == field,
            Self::Bool(yes) => field == if *yes { "true" } else { "false" },
            Self::Integer(number) => {
                let mut s = Scanner::trusted(field.as_bytes());
                let whole = s.value().is_ok_and(|span| span.of(field.as_bytes()) == Some(field.as_bytes()));
                whole && integer(field.as_bytes()) == Some(*number)
            }
            Self::Other => false,
        }
    }
}

/// The value of a JSON number that is an integer within the bounds of XHDR-008, however it is written; none for others,
/// and for what is no number
fn integer(number: &[u8]) -> Option<i64> {
    const MAX: u64 = (1 << 53) - 1;
    let (negative, number) = match number {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, number),
    };
    let mut halves = number.splitn(2, |b| matches!(b, b'e' | b'E'));
    let mantissa = halves.next()?;
    let mut exponent = match halves.next() {
        None => 0,
        Some([b'-', digits @ ..]) => -decimal(digits)?,
        Some([b'+', digits @ ..] | digits) => decimal(digits)?,
    };
    // The digits from the first to the last that is not zero, and how many places the last one is from the point.
    let (mut digits, mut zeros, mut fraction) = (0u64, 0i64, false);
    for byte in mantissa {
        match byte {
            b'.' => fraction = true,
            b'0' => zeros = zeros.saturating_add(1),
            b'1'..=b'9' => {
                if digits > 0 {
                    digits = digits.checked_mul(power(zeros)?)?;
                }
                digits = digits.checked_mul(10)?.checked_add(u64::from(*byte - b'0'))?;
                zeros = 0;
            }
            _ => return None,
        }
        if fraction && *byte != b'.' {
            exponent = exponent.saturating_sub(1);
        }
    }
    if digits == 0 {
        return Some(0);
    }
    let value = digits.checked_mul(power(exponent.saturating_add(zeros))?)?;
    let value = i64::try_from(value).ok().filter(|_| value <= MAX)?;
    Some(if negative { -value } else { value })
}

/// Ten to that power, as far as any of use goes; none for fractions
fn power(exponent: i64) -> Option<u64> {
    u32::try_from(exponent).ok().and_then(|e| 10u64.checked_pow(e))
}

/// A number of decimal digits; no two that are too large are told apart
fn decimal(digits: &[u8]) -> Option<i64> {
    let digit = |sum: i64, b: &u8| sum.saturating_mul(10).saturating_add(i64::from(*b - b'0'));
    digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, digit))
}

/// Looks for annotations
struct Search<'a> {
    text: &'a [u8],
    /// Where in the schema it is, as a JSON pointer
    at: String,
    /// The names of the properties that lead here
    path: Vec<Box<str>>,
    params: Vec<Param>,
    /// Bytes of names in the paths of those
    paths: usize,
    bad: Option<BadAnnotation>,
}

type Scanned = Result<(), ScanError>;

impl<'a> Search<'a> {
    /// Reads a schema, or whatever stands where one may stand; `reached` when nothing but `properties` leads to it
    fn schema(&mut self, s: &mut Scanner<'a>, reached: bool) -> Scanned {
        match s.peek() {
            b'{' => {}
            b'[' => {
                let mut n = 0usize;
                return s.array(|s| {
                    n += 1;
                    let mut number = itoa::Buffer::new();
                    self.below(number.format(n - 1), |search| search.schema(s, false))
                });
            }
            _ => return s.value().map(|_| ()),
        }
        let (mut annotation, mut kind) = (None, None);
        s.members(&mut |s, name| {
            let name = name.into_str().unwrap_or_default();
            match &*name {
                "x-mcp-header" => annotation = Some(s.value()?),
                "type" => kind = Some(s.value()?),
                "default" | "const" | "enum" | "examples" => {
                    s.value()?;
                }
                "properties" => self.below(&name, |search| search.named(s, reached))?,
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    self.below(&name, |search| search.named(s, false))?;
                }
                _ => self.below(&name, |search| search.schema(s, false))?,
            }
            Ok(())
        })?;
        let text = self.text;
        if let Some(annotation) = annotation.and_then(|span| span.of(text)) {
            let kind = kind.and_then(|span| span.of(text)).unwrap_or_default();
            let noted = self.note(annotation, kind, reached && !self.path.is_empty());
            if let Err(why) = noted {
                self.bad = Some(BadAnnotation { at: core::mem::take(&mut self.at), why });
                return s.fail();
            }
        }
        Ok(())
    }

    /// Reads schemas by name
    fn named(&mut self, s: &mut Scanner<'a>, reached: bool) -> Scanned {
        if s.peek() != b'{' {
            return self.schema(s, false);
        }
        s.members(&mut |s, name| {
            let name = name.into_str().unwrap_or_default();
            self.below(&name, |search| {
                search.path.push((*name).into());
                let scanned = search.schema(s, reached);
                search.path.pop();
                scanned
            })
        })?;
        Ok(())
    }

    /// Does something one step further down; where that fails, `at` stays there
    fn below(&mut self, name: &str, scan: impl FnOnce(&mut Self) -> Scanned) -> Scanned {
        let length = self.at.len();
        self.at.push('/');
        for c in name.chars() {
            match c {
                '~' => self.at.push_str("~0"),
                '/' => self.at.push_str("~1"),
                c => self.at.push(c),
            }
        }
        scan(self)?;
        self.at.truncate(length);
        Ok(())
    }

    /// Takes an annotation, or says what is wrong with it
    fn note(&mut self, annotation: &[u8], kind: &[u8], reached: bool) -> Result<(), BadReason> {
        if !reached {
            return Err(BadReason::Unreachable);
        }
        let name = string(annotation).ok_or(BadReason::NoText)?;
        if name.len() > HeaderParams::MAX_NAME {
            return Err(BadReason::Long);
        }
        if !is_token(name.as_bytes()) {
            return Err(BadReason::NoToken(name.into()));
        }
        if !matches!(string(kind).as_deref(), Some("integer" | "string" | "boolean")) {
            return Err(BadReason::Type);
        }
        let name = [PARAM_PREFIX, &*name].concat().into_boxed_str();
        if self.params.iter().any(|p| p.name.eq_any_case(&name)) {
            return Err(BadReason::Repeated(name));
        }
        if self.params.len() >= HeaderParams::MAX {
            return Err(BadReason::Many);
        }
        // Paths share what leads to them in the schema, and not here.
        self.paths += self.path.iter().map(|name| name.len()).sum::<usize>();
        if self.paths > HeaderParams::MAX_PATHS {
            return Err(BadReason::Deep);
        }
        self.params.push(Param { path: self.path.as_slice().into(), name });
        Ok(())
    }
}

/// An annotation that breaks a rule, so that its tool cannot be used over HTTP (XHDR-011, XHDR-012)
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`x-mcp-header` at `{at}` of the schema {why}")]
#[non_exhaustive]
pub struct BadAnnotation {
    /// Where in the schema, as a JSON pointer
    pub at: String,
    /// Which rule
    pub why: BadReason,
}

/// What is wrong with an annotation
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadReason {
    /// It is no string
    #[error("is no string")]
    NoText,
    /// It is empty, or has characters that a name of a field cannot have (XHDR-003, XHDR-004, XHDR-005)
    #[error("is {0:?}, which is no token")]
    NoToken(Box<str>),
    /// It is longer than [`HeaderParams::MAX_NAME`]
    #[error("is too long")]
    Long,
    /// Another property has it, in whatever case (XHDR-006)
    #[error("is there twice: {0}")]
    Repeated(Box<str>),
    /// The property's type is none of `integer`, `string` and `boolean`, or not said (XHDR-007)
    #[error("stands at a property whose type is none of integer, string and boolean")]
    Type,
    /// Something other than `properties` leads to it (XHDR-009, XHDR-010)
    #[error("cannot be reached through `properties` alone")]
    Unreachable,
    /// There are more than [`HeaderParams::MAX`]
    #[error("is one too many")]
    Many,
    /// The names that lead to it and to the others are longer than [`HeaderParams::MAX_PATHS`] in all
    #[error("stands too deep, behind names that are too long")]
    Deep,
    /// An object of the schema names a member twice
    #[error("cannot be judged: a member is named twice")]
    Schema,
}

/// A field that does not say what the body says
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name} {why}")]
#[non_exhaustive]
pub struct Mismatch {
    /// Its name
    pub name: Box<str>,
    /// What is wrong
    pub why: MismatchReason,
}

/// What is wrong with a field beside the body
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MismatchReason {
    /// There is a value in the body, and no field (XHDR-024)
    #[error("is missing")]
    Missing,
    /// There is a field, and no value in the body (XHDR-025, DEC-008)
    #[error("stands for nothing in the body")]
    Unexpected,
    /// They differ (XHDR-021, XHDR-026)
    #[error("does not match the body")]
    Different,
    /// The field cannot be read (XHDR-022, XHDR-023, XHDR-027)
    #[error("{0}")]
    Value(BadValue),
    /// The body has a value that no field can hold: a list, an object, a number beyond XHDR-008
    #[error("has no value in the body that a header can hold")]
    Arguments,
    /// An object in the body names a member twice; told of the tool's first field
    #[error("cannot be held against a body that names a member twice")]
    Twice,
}

#[cfg(test)]
mod tests;
