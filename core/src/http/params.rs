//! Tool arguments repeated in header fields (`x-mcp-header`, XHDR-001 to XHDR-030).
//!
//! A schema annotates the arguments, a client writes the fields, and a server compares them with the body.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memmem;

use super::fields::{FieldValueError, PARAM_PREFIX, encode_value, single_decoded_value};
use crate::ascii::AsciiCaseExt as _;
use crate::draft::{Deviation, Draft};
use crate::head::{FieldLine, is_token};
use crate::json::{MAX_DEPTH, ScanError, Scanner, string};
use crate::raw::RawJson;

const ANNOTATION: &[u8] = b"x-mcp-header";

/// The arguments of one tool that are repeated in header fields.
///
/// Both sides use this type: a client [writes](Self::values) the fields, a server [checks](Self::check) them.
///
/// ```
/// use mcp_proto::{RawJson, http::params::HeaderParams};
/// let schema = RawJson::new(r#"{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}"#)?;
/// let params = HeaderParams::from_schema(&schema).unwrap();
/// let headers: Vec<_> = params.values(br#"{"n":42.0}"#).collect();
/// assert_eq!(headers, [("Mcp-Param-Count", "42".into())]);
/// assert!(params.check(br#"{"n":42}"#, &[("mcp-param-count", b"42")]).is_ok());
/// assert!(params.check(br#"{"n":43}"#, &[("mcp-param-count", b"42")]).is_err());
/// # Ok::<(), mcp_proto::InvalidJson>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeaderParams {
    /// Sorted by path.
    params: Box<[HeaderParam]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct HeaderParam {
    /// Member names from the arguments object to the value.
    path: Box<[Box<str>]>,
    /// The full name of the field.
    name: Box<str>,
    /// The property is a `number`, which only a draft allows.
    is_number: bool,
}

impl HeaderParams {
    /// Largest number of repeated arguments of one tool.
    pub const MAX_PARAMS: usize = 64;
    /// Largest length of an annotated name, in bytes.
    pub const MAX_NAME: usize = 128;
    /// Largest total length of the property names on the paths of one tool, in bytes; each path counts separately.
    pub const MAX_PATHS: usize = 16 << 10;

    /// Reads the annotations of an `inputSchema`.
    ///
    /// All of the schema is searched, except `default`, `const`, `enum` and `examples`, which hold values and not
    /// schemas. The schema is read once.
    ///
    /// # Errors
    ///
    /// [`AnnotationError`] if an annotation violates XHDR-003 to XHDR-010, if there are more than
    /// [`MAX_PARAMS`](Self::MAX_PARAMS), or if their paths exceed [`MAX_PATHS`](Self::MAX_PATHS). The tool must not be
    /// offered over HTTP then (XHDR-011).
    pub fn from_schema(schema: &RawJson) -> Result<Self, AnnotationError> {
        Self::read(schema, Draft::default())
    }

    /// Reads the annotations of an `inputSchema` by these rules of drafts.
    ///
    /// A name that is no token of RFC 9110 is valid in a draft, but no field can have it: its argument is not repeated.
    ///
    /// # Errors
    ///
    /// As [`from_schema`](Self::from_schema).
    pub fn from_draft_schema(schema: &RawJson, draft: Draft) -> Result<Self, AnnotationError> {
        Self::read(schema, draft)
    }

    pub(super) fn read(schema: &RawJson, draft: Draft) -> Result<Self, AnnotationError> {
        let text = schema.as_bytes();
        // The name may be spelt with escapes, but rarely is.
        if memmem::find(text, ANNOTATION).is_none() && memmem::find(text, b"\\u").is_none() {
            return Ok(Self::default());
        }
        let mut search = AnnotationScan {
            text,
            pointer: String::new(),
            path: Vec::new(),
            params: Vec::new(),
            path_bytes: 0,
            error: None,
            draft,
        };
        let scanned = search.scan_schema(&mut Scanner::new(text, MAX_DEPTH, u32::MAX), true);
        if let Some(bad) = search.error {
            return Err(bad);
        }
        if let Err(error) = scanned {
            let kind = match error {
                ScanError::Depth(_) => AnnotationErrorKind::TooDeep,
                _ => AnnotationErrorKind::DuplicateMember,
            };
            return Err(AnnotationError { at: search.pointer, kind });
        }
        let mut params = search.params;
        params.retain(|param| is_token(param.name.as_bytes()));
        // `walk` finds the paths by binary search.
        params.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { params: params.into() })
    }

    /// Returns whether no argument is repeated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|p| &*p.name)
    }

    /// Returns the name and value of each field for these arguments (XHDR-014 to XHDR-019).
    ///
    /// `arguments` is JSON text; empty text means no arguments. A list, an object, or a number outside XHDR-008 has no
    /// field. Such a value does not fit the schema either, and the server reports that. There are no fields at all if
    /// an object has a duplicate member.
    pub fn values<'a>(&'a self, arguments: &'a [u8]) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let found = self.find(arguments).unwrap_or_default();
        self.params.iter().zip(found).filter_map(|(param, value)| {
            let value = match ParamValue::from_json(value, param.is_number)? {
                ParamValue::Text(text) => encode_value(text),
                ParamValue::Bool(yes) => Cow::Borrowed(if yes { "true" } else { "false" }),
                ParamValue::Integer(number) => String::from(itoa::Buffer::new().format(number)).into(),
                ParamValue::Decimal(number) => number.into(),
                ParamValue::Unrepresentable => return None,
            };
            Some((&*param.name, value))
        })
    }

    /// Compares the fields of a request with its arguments (XHDR-021 to XHDR-027).
    ///
    /// `arguments` is JSON text; empty text means no arguments. Fields without an annotation are ignored.
    ///
    /// # Errors
    ///
    /// [`HeaderMismatch`] for the first field that is missing, differs, repeats an absent argument (DEC-008), or is
    /// invalid. Also if an object in the arguments has a duplicate member, because two readers may take different
    /// values.
    pub fn check(&self, arguments: &[u8], fields: &[FieldLine<'_>]) -> Result<(), HeaderMismatch> {
        self.compare(arguments, fields, true)
    }

    /// Compares those fields of a request that are there with its arguments.
    ///
    /// For revisions that do not define the fields: a client may send them, and a gateway may act on them.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), but a missing field is none.
    pub fn check_present(&self, arguments: &[u8], fields: &[FieldLine<'_>]) -> Result<(), HeaderMismatch> {
        self.compare(arguments, fields, false)
    }

    fn compare(
        &self,
        arguments: &[u8],
        fields: &[FieldLine<'_>],
        required: bool,
    ) -> Result<(), HeaderMismatch> {
        let Some(first) = self.params.first() else { return Ok(()) };
        let mismatch =
            |param: &HeaderParam, reason| HeaderMismatch { name: param.name.clone(), kind: reason };
        let found = self.find(arguments).map_err(|_| mismatch(first, HeaderMismatchKind::DuplicateMember))?;
        for (param, value) in self.params.iter().zip(found) {
            let field = single_decoded_value(fields, &param.name);
            let field = field.map_err(|bad| mismatch(param, HeaderMismatchKind::Value(bad)))?;
            let same = match (ParamValue::from_json(value, param.is_number), field) {
                (None, None) => Ok(()),
                (Some(_), None) if !required => Ok(()),
                (None, Some(_)) => Err(HeaderMismatchKind::Unexpected),
                // This precedes the missing field, which no client could have sent.
                (Some(ParamValue::Unrepresentable), _) => Err(HeaderMismatchKind::Unrepresentable),
                (Some(_), None) => Err(HeaderMismatchKind::Missing),
                (Some(value), Some(field)) if value.matches_field(&field) => Ok(()),
                (Some(_), Some(_)) => Err(HeaderMismatchKind::Different),
            };
            same.map_err(|reason| mismatch(param, reason))?;
        }
        Ok(())
    }

    /// Returns the JSON text of each value, empty if the value is absent.
    fn find<'a>(&self, arguments: &'a [u8]) -> Result<Vec<&'a [u8]>, ScanError> {
        let mut found = Vec::new();
        found.resize(self.params.len(), &b""[..]);
        if !self.params.is_empty() && arguments.first() == Some(&b'{') {
            // The scanner below trusts its text to be UTF-8.
            core::str::from_utf8(arguments).map_err(|e| ScanError::Syntax(e.valid_up_to()))?;
            walk(&mut Scanner::trusted(arguments), arguments, &self.params, 0, &mut found)?;
        }
        Ok(found)
    }
}

/// Reads an object and finds the values of `params`, whose first `depth` path members lead to this object.
///
/// The recursion is bounded by the paths, which come from a text of at most 128 levels.
fn walk<'a>(
    s: &mut Scanner<'a>,
    text: &'a [u8],
    params: &[HeaderParam],
    depth: usize,
    found: &mut [&'a [u8]],
) -> Result<(), ScanError> {
    s.members(&mut |s, name| {
        let name = name.unescaped();
        let key = |p: &HeaderParam| p.path.get(depth).map_or(&b""[..], |k| k.as_bytes()).cmp(&name);
        let from = params.partition_point(|p| key(p).is_lt());
        let to = params.partition_point(|p| key(p).is_le());
        let (mut candidates, mut index) = (params.get(from..to).unwrap_or_default(), from);
        // The shortest path sorts first; only this one can end here.
        let own = candidates.first().filter(|p| p.path.len() == depth + 1).map(|_| index);
        if own.is_some() {
            candidates = candidates.get(1..).unwrap_or_default();
            index += 1;
        }
        // `peek` skips the white space before the value, so that it is no part of the value's text.
        s.peek();
        let start = s.pos();
        if !candidates.is_empty() && s.peek() == b'{' {
            walk(s, text, candidates, depth + 1, found.get_mut(index..to).unwrap_or_default())?;
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

/// An argument value in a form that a field can hold.
enum ParamValue<'a> {
    Text(Cow<'a, str>),
    Bool(bool),
    Integer(i64),
    /// A number of a draft, in plain notation.
    Decimal(String),
    /// A value that no field can hold.
    Unrepresentable,
}

impl<'a> ParamValue<'a> {
    /// Reads JSON text; returns `None` for `null` and for empty text.
    fn from_json(text: &'a [u8], is_number: bool) -> Option<Self> {
        match text {
            b"" | b"null" => None,
            b"true" => Some(Self::Bool(true)),
            b"false" => Some(Self::Bool(false)),
            [b'"', ..] => Some(string(text).map_or(Self::Unrepresentable, Self::Text)),
            [b'-' | b'0'..=b'9', ..] if is_number => {
                Some(plain_decimal(text).map_or(Self::Unrepresentable, Self::Decimal))
            }
            [b'-' | b'0'..=b'9', ..] => Some(integer(text).map_or(Self::Unrepresentable, Self::Integer)),
            _ => Some(Self::Unrepresentable),
        }
    }

    /// Returns whether the text of a field equals this value; numbers are compared by value (XHDR-026).
    fn matches_field(&self, field: &str) -> bool {
        match self {
            Self::Text(text) => text == field,
            Self::Bool(yes) => field == if *yes { "true" } else { "false" },
            // `integer` alone would also take what is no JSON, a leading zero for example.
            Self::Integer(number) => is_scalar(field) && integer(field.as_bytes()) == Some(*number),
            Self::Decimal(number) => {
                is_scalar(field) && plain_decimal(field.as_bytes()).as_ref() == Some(number)
            }
            Self::Unrepresentable => false,
        }
    }
}

/// Returns whether a text is one JSON value without white space around it.
fn is_scalar(field: &str) -> bool {
    let mut s = Scanner::trusted(field.as_bytes());
    s.value().is_ok_and(|span| span.slice(field.as_bytes()) == Some(field.as_bytes()))
}

/// Returns a JSON number in decimal notation, without an exponent and needless zeros.
///
/// Returns `None` if it would have more than [`MAX_DECIMAL`] digits on a side of the point, or is not a number.
fn plain_decimal(number: &[u8]) -> Option<String> {
    let (sign, number) = match number {
        [b'-', rest @ ..] => ("-", rest),
        _ => ("", number),
    };
    let mut halves = number.splitn(2, |b| matches!(b, b'e' | b'E'));
    let mantissa = halves.next()?;
    let exponent = match halves.next() {
        None => 0,
        Some([b'-', digits @ ..]) => -decimal(digits)?,
        Some([b'+', digits @ ..] | digits) => decimal(digits)?,
    };
    let whole = mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len());
    let digits: String = mantissa.iter().filter(|b| **b != b'.').map(|b| char::from(*b)).collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        return Some(String::from("0"));
    }
    // The number of digits before the point; it may be negative.
    let point =
        i64::try_from(whole).ok()?.saturating_add(exponent).saturating_sub(i64::try_from(zeros).ok()?);
    let behind = i64::try_from(significant.len()).ok()?.saturating_sub(point);
    // An exponent of a few digits would otherwise ask for gigabytes of zeros.
    if point > MAX_DECIMAL || behind > MAX_DECIMAL {
        return None;
    }
    let zeros = |count: i64| core::iter::repeat_n('0', usize::try_from(count).unwrap_or(0));
    let mut out = String::from(sign);
    match usize::try_from(point).ok().filter(|point| *point > 0) {
        None => {
            out.push_str("0.");
            out.extend(zeros(-point));
            out.push_str(significant);
        }
        Some(point) => {
            let (whole, fraction) = significant.split_at_checked(point).unwrap_or((significant, ""));
            out.push_str(whole);
            out.extend(zeros(-behind));
            if !fraction.is_empty() {
                out.push('.');
                out.push_str(fraction);
            }
        }
    }
    Some(out)
}

/// Largest number of digits on a side of the point: enough for every number of double precision.
const MAX_DECIMAL: i64 = 400;

/// Returns the integer value of a JSON number in any notation.
///
/// Returns `None` if it is not an integer, is outside XHDR-008, or is not a number.
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
    // The digits from the first to the last non-zero one, and the distance of the last one to the decimal point.
    let (mut digits, mut zeros, mut fraction) = (0u64, 0i64, false);
    for byte in mantissa {
        match byte {
            b'.' => fraction = true,
            // Zeros are held back until another digit follows. At the end they only move the point, and must not
            // overflow.
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
    // Zero has any exponent, so this comes before the check of its size.
    if digits == 0 {
        return Some(0);
    }
    let value = digits.checked_mul(power(exponent.saturating_add(zeros))?)?;
    let value = i64::try_from(value).ok().filter(|_| value <= MAX)?;
    Some(if negative { -value } else { value })
}

/// Returns ten to this power; `None` if it is negative or too large for `u64`.
fn power(exponent: i64) -> Option<u64> {
    u32::try_from(exponent).ok().and_then(|e| 10u64.checked_pow(e))
}

/// Reads decimal digits; large values saturate.
fn decimal(digits: &[u8]) -> Option<i64> {
    let digit = |sum: i64, b: &u8| sum.saturating_mul(10).saturating_add(i64::from(*b - b'0'));
    digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, digit))
}

/// The search for annotations in a schema.
struct AnnotationScan<'a> {
    text: &'a [u8],
    /// The current position in the schema, as a JSON pointer.
    pointer: String,
    /// The property names that lead to the current position.
    path: Vec<Box<str>>,
    params: Vec<HeaderParam>,
    /// Total bytes of the names on the paths of `params`.
    path_bytes: usize,
    error: Option<AnnotationError>,
    draft: Draft,
}

type ScanResult = Result<(), ScanError>;

impl<'a> AnnotationScan<'a> {
    /// Reads a schema, or another value in its position; `reached` if only `properties` lead to it.
    fn scan_schema(&mut self, s: &mut Scanner<'a>, reached: bool) -> ScanResult {
        match s.peek() {
            b'{' => {}
            b'[' => {
                let mut n = 0usize;
                return s.array(|s| {
                    n += 1;
                    let mut number = itoa::Buffer::new();
                    self.descend(number.format(n - 1), |search| search.scan_schema(s, false))
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
                "default" | "const" | "enum" | "examples" | "dependentRequired" => {
                    s.value()?;
                }
                "properties" => self.descend(&name, |search| search.scan_named_schemas(s, reached))?,
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    self.descend(&name, |search| search.scan_named_schemas(s, false))?;
                }
                _ => self.descend(&name, |search| search.scan_schema(s, false))?,
            }
            Ok(())
        })?;
        let text = self.text;
        if let Some(annotation) = annotation.and_then(|span| span.slice(text)) {
            let kind = kind.and_then(|span| span.slice(text)).unwrap_or_default();
            let added = self.add_annotation(annotation, kind, reached && !self.path.is_empty());
            if let Err(reason) = added {
                self.error = Some(AnnotationError { at: core::mem::take(&mut self.pointer), kind: reason });
                return s.fail();
            }
        }
        Ok(())
    }

    /// Reads an object of named schemas.
    fn scan_named_schemas(&mut self, s: &mut Scanner<'a>, reached: bool) -> ScanResult {
        if s.peek() != b'{' {
            return self.scan_schema(s, false);
        }
        s.members(&mut |s, name| {
            let name = name.into_str().unwrap_or_default();
            self.descend(&name, |search| {
                search.path.push((*name).into());
                let scanned = search.scan_schema(s, reached);
                search.path.pop();
                scanned
            })
        })?;
        Ok(())
    }

    /// Runs `scan` one level deeper; on failure, `pointer` keeps the position of the error.
    fn descend(&mut self, name: &str, scan: impl FnOnce(&mut Self) -> ScanResult) -> ScanResult {
        let length = self.pointer.len();
        self.pointer.push('/');
        for c in name.chars() {
            match c {
                '~' => self.pointer.push_str("~0"),
                '/' => self.pointer.push_str("~1"),
                c => self.pointer.push(c),
            }
        }
        scan(self)?;
        self.pointer.truncate(length);
        Ok(())
    }

    /// Adds an annotation, or returns the rule that it violates.
    fn add_annotation(
        &mut self,
        annotation: &[u8],
        kind: &[u8],
        reached: bool,
    ) -> Result<(), AnnotationErrorKind> {
        if !reached {
            return Err(AnnotationErrorKind::Unreachable);
        }
        let name = string(annotation).ok_or(AnnotationErrorKind::NotString)?;
        if name.len() > HeaderParams::MAX_NAME {
            return Err(AnnotationErrorKind::TooLong);
        }
        let is_draft_name = || !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        let is_valid =
            is_token(name.as_bytes()) || self.draft.contains(Deviation::HeaderNames) && is_draft_name();
        if !is_valid {
            return Err(AnnotationErrorKind::NotToken(name.into()));
        }
        let kind = string(kind);
        let is_number = kind.as_deref() == Some("number") && self.draft.contains(Deviation::NumberHeaders);
        if !is_number && !matches!(kind.as_deref(), Some("integer" | "string" | "boolean")) {
            return Err(AnnotationErrorKind::Type);
        }
        let name = [PARAM_PREFIX, &*name].concat().into_boxed_str();
        if self.params.iter().any(|p| p.name.eq_ignore_case(&name)) {
            return Err(AnnotationErrorKind::Duplicate(name));
        }
        if self.params.len() >= HeaderParams::MAX_PARAMS {
            return Err(AnnotationErrorKind::TooMany);
        }
        // Paths share a prefix in the schema, but each is stored separately.
        self.path_bytes += self.path.iter().map(|name| name.len()).sum::<usize>();
        if self.path_bytes > HeaderParams::MAX_PATHS {
            return Err(AnnotationErrorKind::TooDeep);
        }
        self.params.push(HeaderParam { path: self.path.as_slice().into(), name, is_number });
        Ok(())
    }
}

/// An annotation that violates a rule, so that its tool cannot be used over HTTP (XHDR-011, XHDR-012).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`x-mcp-header` at `{at}` of the schema {kind}")]
#[non_exhaustive]
pub struct AnnotationError {
    /// The position in the schema, as a JSON pointer.
    pub at: String,
    /// The violated rule.
    pub kind: AnnotationErrorKind,
}

/// The rule that an annotation violates.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationErrorKind {
    /// The annotation is not a string.
    #[error("is not a string")]
    NotString,
    /// The name is empty or has characters that are not allowed in a field name (XHDR-003, XHDR-004, XHDR-005).
    #[error("is {0:?}, which is not a token")]
    NotToken(Box<str>),
    /// The name is longer than [`HeaderParams::MAX_NAME`].
    #[error("is too long")]
    TooLong,
    /// Another property has the same name, in any case (XHDR-006).
    #[error("repeats the name {0} of another property")]
    Duplicate(Box<str>),
    /// The type of the property is absent or not one of `integer`, `string` and `boolean` (XHDR-007).
    #[error("annotates a property whose type is not integer, string or boolean")]
    Type,
    /// The path to the property has keywords other than `properties` (XHDR-009, XHDR-010).
    #[error("cannot be reached through `properties` alone")]
    Unreachable,
    /// The schema has more than [`HeaderParams::MAX_PARAMS`] annotations.
    #[error("exceeds the limit of annotations per tool")]
    TooMany,
    /// The names on all paths together are longer than [`HeaderParams::MAX_PATHS`], or the schema has more than 128
    /// levels.
    #[error("exceeds the limit of property names or levels")]
    TooDeep,
    /// An object of the schema has a duplicate member.
    #[error("cannot be checked: an object of the schema has a duplicate member")]
    DuplicateMember,
}

/// A field that does not match the body.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name} {kind}")]
#[non_exhaustive]
pub struct HeaderMismatch {
    /// The name of the field.
    pub name: Box<str>,
    /// The kind of the mismatch.
    pub kind: HeaderMismatchKind,
}

/// Difference between a field and the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderMismatchKind {
    /// The body has a value and the field is absent (XHDR-024).
    #[error("is missing")]
    Missing,
    /// The field is present and the body has no value (XHDR-025, DEC-008).
    #[error("has no counterpart in the body")]
    Unexpected,
    /// The values differ (XHDR-021, XHDR-026).
    #[error("does not match the body")]
    Different,
    /// The field cannot be decoded (XHDR-022, XHDR-023, XHDR-027).
    #[error("{0}")]
    Value(FieldValueError),
    /// The body has a value that no field can hold: a list, an object, or a number outside XHDR-008.
    #[error("has no value in the body that a header can hold")]
    Unrepresentable,
    /// An object in the body has a duplicate member; reported for the first field of the tool.
    #[error("cannot be compared: the body has a duplicate member")]
    DuplicateMember,
}

#[cfg(test)]
mod tests;
