//! Serde `Serializer` that appends compact, one-line JSON to a buffer.
//!
//! It records which protocol members the outermost object has. The engine can then add members without a second pass,
//! and never writes one twice.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde::ser::{self, Serialize};

use super::key_serializer::KeySerializer;
use super::scan::object_members;
use super::shape::{OmittedMembers, ShapeTable, Substitute};
use super::swar::plain_prefix;
use crate::memory;

/// Reason why a value cannot be encoded as JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The `Serialize` implementation of a value failed with this message.
    #[error("{0}")]
    Custom(String),
    /// A map key is neither a string nor a number nor a boolean.
    #[error("a JSON object needs string keys")]
    Key,
    /// The value has to be a JSON object and is not.
    #[error("the value is not a JSON object")]
    NotAnObject,
    /// The revision lacks the feature, and there is no substitute.
    #[error("`{what}` does not exist in {revision}")]
    NotInVersion {
        /// Method or feature.
        what: &'static str,
        /// Revision that the value was to be encoded for.
        revision: &'static str,
    },
    /// A member has a value that no revision allows; such values are received and kept, but never sent.
    #[error("{0} has a value that must not be sent")]
    NeverSent(&'static str),
    /// The allocator has no memory for the text.
    #[error("not enough memory")]
    OutOfMemory,
}

impl ser::Error for EncodeError {
    fn custom<T: core::fmt::Display>(msg: T) -> Self {
        Self::Custom(msg.to_string())
    }
}

/// Size from which a string is usually larger than the rest of its message.
const LARGE_STRING: usize = 16 << 10;

/// Room that is made before a value: for a number with the punctuation around it.
const VALUE_ROOM: usize = 64;

/// Makes room for `more` bytes.
#[inline]
pub(crate) fn room(out: &mut Vec<u8>, more: usize) -> Result<(), EncodeError> {
    if memory::reserve(out, more) { Ok(()) } else { Err(EncodeError::OutOfMemory) }
}

/// Appends a string with its quotes.
pub(crate) fn write_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + room_behind(bytes));
    append_str(out, bytes, plain_prefix(bytes));
}

/// Appends a string with its quotes, if there is memory for it.
fn try_write_str(out: &mut Vec<u8>, text: &str) -> Result<(), EncodeError> {
    let bytes = text.as_bytes();
    let plain = plain_prefix(bytes);
    let length = if plain == bytes.len() { plain } else { escaped_len(bytes) };
    room(out, length.saturating_add(room_behind(bytes)))?;
    append_str(out, bytes, plain);
    Ok(())
}

/// Returns the room that is made behind a string. The text behind a large one must not double the buffer.
const fn room_behind(bytes: &[u8]) -> usize {
    if bytes.len() < LARGE_STRING { 2 } else { 1 << 10 }
}

/// Returns an upper bound of the length of a string with its escapes.
#[cold]
fn escaped_len(bytes: &[u8]) -> usize {
    let escapes = bytes.iter().filter(|byte| matches!(byte, 0..32 | b'"' | b'\\')).count();
    bytes.len().saturating_add(escapes.saturating_mul(5))
}

#[inline]
fn append_str(out: &mut Vec<u8>, bytes: &[u8], plain: usize) {
    out.push(b'"');
    if plain == bytes.len() {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(out, bytes, plain);
    }
    out.push(b'"');
}

/// Appends string bytes whose first `plain` bytes need no escape.
#[cold]
fn write_escaped(out: &mut Vec<u8>, mut rest: &[u8], mut plain: usize) {
    loop {
        let (head, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(head);
        let Some((special, tail)) = tail.split_first() else { return };
        let short = match special {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            _ => 0,
        };
        if short == 0 {
            let hex = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(special >> 4), hex(special & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
        rest = tail;
        plain = plain_prefix(rest);
    }
}

/// Appends an integer.
pub(crate) fn write_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Protocol members found in the outermost object while writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopLevelMembers {
    /// One bit per member that the protocol owns.
    bits: u8,
    /// Offset in the buffer just behind the opening brace of `_meta`.
    pub(crate) meta: Option<usize>,
}

impl TopLevelMembers {
    pub(crate) const META: u8 = 1;
    pub(crate) const RESULT_TYPE: u8 = 2;
    pub(crate) const TTL: u8 = 4;
    pub(crate) const SCOPE: u8 = 8;
    pub(crate) const INPUT_RESPONSES: u8 = 16;
    pub(crate) const REQUEST_STATE: u8 = 32;
    pub(crate) const INPUT_REQUESTS: u8 = 64;

    pub(crate) const fn contains(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Returns the members except one, which the protocol allows here.
    pub(crate) const fn without(mut self, bit: u8) -> Self {
        self.bits &= !bit;
        self
    }

    fn record(&mut self, name: &[u8]) {
        self.bits |= match name {
            b"_meta" => Self::META,
            b"resultType" => Self::RESULT_TYPE,
            b"ttlMs" => Self::TTL,
            b"cacheScope" => Self::SCOPE,
            b"inputResponses" => Self::INPUT_RESPONSES,
            b"requestState" => Self::REQUEST_STATE,
            b"inputRequests" => Self::INPUT_REQUESTS,
            _ => 0,
        };
    }

    /// Returns the same for an object that is `by` bytes further behind.
    pub(crate) const fn shifted(self, by: usize) -> Self {
        let meta = match self.meta {
            Some(at) => Some(at + by),
            None => None,
        };
        Self { meta, ..self }
    }

    /// Scans an object that was written before; `at` is its offset in the buffer.
    pub(crate) fn scan(text: &[u8], at: usize) -> Self {
        let mut found = Self::default();
        object_members(text, |name, value| {
            found.record(name);
            if name == b"_meta" && value.first() == Some(&b'{') {
                // Both slices are parts of `text`, so the difference of their addresses is an offset.
                found.meta = Some(at + (value.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize) + 1);
            }
        });
        found
    }
}

/// Name of the newtype whose content has to be an object.
pub(crate) const OBJECT_MARKER: &str = "$object";

/// Prefix of the newtype names of values that the engines refuse to send; the rest of the name goes into the error.
///
/// Other serializers write such a value, so that a received one can be shown and stored.
const NEVER_SENT_PREFIX: &str = "$never::";

pub(crate) struct Serializer<'a> {
    out: &'a mut Vec<u8>,
    depth: u32,
    members: TopLevelMembers,
    /// Whether the next value is `_meta` of the outermost object.
    next_is_meta: bool,
    /// Shaping rules; `None` to write all types in full.
    table: Option<&'static ShapeTable>,
    /// Members to omit from the next object.
    omitted: OmittedMembers,
}

impl<'a> Serializer<'a> {
    /// Appends an object and returns the protocol members that it has.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]. Part of the value may have been appended then; the caller truncates the buffer.
    pub(crate) fn object<T: Serialize + ?Sized>(
        out: &'a mut Vec<u8>,
        value: &T,
        table: Option<&'static ShapeTable>,
    ) -> Result<TopLevelMembers, EncodeError> {
        let start = out.len();
        room(out, VALUE_ROOM)?;
        let mut s = Self::new(out, 0, table);
        value.serialize(&mut s)?;
        let written = s.out.get(start..).unwrap_or_default();
        if written.first() != Some(&b'{') || written.last() != Some(&b'}') {
            return Err(EncodeError::NotAnObject);
        }
        Ok(s.members)
    }

    /// Appends any value.
    pub(crate) fn any<T: Serialize + ?Sized>(out: &'a mut Vec<u8>, value: &T) -> Result<(), EncodeError> {
        Self::shaped(out, value, None)
    }

    /// Appends any value in the shape of a revision.
    pub(crate) fn shaped<T: Serialize + ?Sized>(
        out: &'a mut Vec<u8>,
        value: &T,
        table: Option<&'static ShapeTable>,
    ) -> Result<(), EncodeError> {
        room(out, VALUE_ROOM)?;
        value.serialize(&mut Self::new(out, 1 << 16, table))
    }

    fn new(out: &'a mut Vec<u8>, depth: u32, table: Option<&'static ShapeTable>) -> Self {
        Self {
            out,
            depth,
            members: TopLevelMembers::default(),
            next_is_meta: false,
            table,
            omitted: OmittedMembers::default(),
        }
    }

    fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth += 1;
        if core::mem::take(&mut self.next_is_meta) && bracket == b'{' {
            self.members.meta = Some(self.out.len());
        }
    }

    /// Makes room for a name with its escapes, the punctuation around it, and its value.
    fn room_for_member(&mut self, name: &str) -> Result<(), EncodeError> {
        // Short names are not looked through.
        let length = if name.len() <= VALUE_ROOM { 6 * name.len() } else { escaped_len(name.as_bytes()) };
        room(self.out, length.saturating_add(2 * VALUE_ROOM))
    }

    /// Writes a name for which there is room.
    fn name(&mut self, name: &str) {
        if self.depth == 1 {
            self.members.record(name.as_bytes());
            self.next_is_meta = name == "_meta";
        }
        write_str(self.out, name);
    }

    /// Applies the shaping rule of the type with this name; returns the substitute if the revision lacks the type.
    fn look_up_shape(&mut self, name: &'static str) -> Result<Option<Substitute>, EncodeError> {
        let Some(table) = self.table else { return Ok(None) };
        let Some(rule) = table.rule(name) else {
            return name
                .strip_prefix(NEVER_SENT_PREFIX)
                .map_or(Ok(None), |what| Err(EncodeError::NeverSent(what)));
        };
        self.omitted = OmittedMembers { members: rule.members, bit: table.bit };
        if rule.revisions & table.bit != 0 {
            return Ok(None);
        }
        let missing = EncodeError::NotInVersion { what: rule.refusal, revision: table.revision };
        rule.substitute(table.bit).ok_or(missing).map(Some)
    }

    /// Replaces a value that was just written by its substitute.
    #[cold]
    fn substitute(&mut self, start: usize, substitute: Substitute) -> Result<(), EncodeError> {
        let mut full = Vec::new();
        room(&mut full, self.out.len() - start)?;
        full.extend_from_slice(self.out.get(start..).unwrap_or_default());
        self.out.truncate(start);
        substitute(&full, self.out);
        if self.depth == 0 {
            self.members = TopLevelMembers::scan(self.out.get(start..).unwrap_or_default(), start);
        }
        Ok(())
    }

    fn text(&mut self, value: impl core::fmt::Display) {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{value}");
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// Name of the struct by which serde_json marks text that is JSON already.
pub(crate) const RAW_VALUE_NAME: &str = "$serde_json::private::RawValue";

impl<'s, 'a> ser::Serializer for &'s mut Serializer<'a> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = Compound<'s, 'a>;
    type SerializeTuple = Compound<'s, 'a>;
    type SerializeTupleStruct = Compound<'s, 'a>;
    type SerializeTupleVariant = Compound<'s, 'a>;
    type SerializeMap = Compound<'s, 'a>;
    type SerializeStruct = Compound<'s, 'a>;
    type SerializeStructVariant = Compound<'s, 'a>;

    fn serialize_bool(self, v: bool) -> Result<(), EncodeError> {
        self.out.extend_from_slice(if v { b"true" } else { b"false" });
        Ok(())
    }
    fn serialize_i8(self, v: i8) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }
    fn serialize_i16(self, v: i16) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }
    fn serialize_i32(self, v: i32) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }
    fn serialize_i64(self, v: i64) -> Result<(), EncodeError> {
        write_int(self.out, v);
        Ok(())
    }
    fn serialize_i128(self, v: i128) -> Result<(), EncodeError> {
        self.text(v);
        Ok(())
    }
    fn serialize_u8(self, v: u8) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u16(self, v: u16) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u32(self, v: u32) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }
    fn serialize_u64(self, v: u64) -> Result<(), EncodeError> {
        self.out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
        Ok(())
    }
    fn serialize_u128(self, v: u128) -> Result<(), EncodeError> {
        self.text(v);
        Ok(())
    }
    fn serialize_f32(self, v: f32) -> Result<(), EncodeError> {
        if v.is_finite() {
            self.text(format_args!("{v:?}"))
        } else {
            self.out.extend_from_slice(b"null")
        }
        Ok(())
    }
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn serialize_f64(self, v: f64) -> Result<(), EncodeError> {
        let whole = v as i64;
        if whole.unsigned_abs() < 1 << 53 && whole as f64 == v && !(v == 0.0 && v.is_sign_negative()) {
            // `1`, as other languages write it, instead of `1.0`.
            write_int(self.out, whole);
        } else if let Some(number) = serde_json::Number::from_f64(v) {
            // The shortest text that parses to the same number; `Display` of floats would add far more code.
            self.text(number);
        } else {
            // JSON cannot represent it.
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }
    fn serialize_char(self, v: char) -> Result<(), EncodeError> {
        try_write_str(self.out, v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), EncodeError> {
        try_write_str(self.out, v)
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<(), EncodeError> {
        use ser::SerializeSeq as _;
        let mut seq = self.serialize_seq(None)?;
        for byte in v {
            seq.serialize_element(byte)?;
        }
        seq.end()
    }
    fn serialize_none(self) -> Result<(), EncodeError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, v: &T) -> Result<(), EncodeError> {
        v.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), EncodeError> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), EncodeError> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        v: &T,
    ) -> Result<(), EncodeError> {
        let substitute = self.look_up_shape(name)?;
        let start = self.out.len();
        v.serialize(&mut *self)?;
        if name == OBJECT_MARKER && self.out.get(start) != Some(&b'{') {
            return Err(EncodeError::NotAnObject);
        }
        if let Some(substitute) = substitute {
            self.substitute(start, substitute)?;
        }
        Ok(())
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        v: &T,
    ) -> Result<(), EncodeError> {
        self.room_for_member(variant)?;
        self.open(b'{');
        self.name(variant);
        self.out.push(b':');
        v.serialize(&mut *self)?;
        self.depth -= 1;
        self.out.push(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'s, 'a>, EncodeError> {
        self.open(b'[');
        Ok(Compound::new(self, b"]"))
    }
    fn serialize_tuple(self, len: usize) -> Result<Compound<'s, 'a>, EncodeError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Compound<'s, 'a>, EncodeError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'s, 'a>, EncodeError> {
        self.room_for_member(variant)?;
        self.open(b'{');
        self.name(variant);
        self.out.push(b':');
        self.out.push(b'[');
        Ok(Compound::new(self, b"]}"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'s, 'a>, EncodeError> {
        let omitted = core::mem::take(&mut self.omitted);
        self.open(b'{');
        Ok(Compound { omitted, ..Compound::new(self, b"}") })
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Compound<'s, 'a>, EncodeError> {
        if name == RAW_VALUE_NAME {
            return Ok(Compound { is_raw: true, ..Compound::new(self, b"") });
        }
        self.serialize_map(None)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'s, 'a>, EncodeError> {
        self.room_for_member(variant)?;
        self.open(b'{');
        self.name(variant);
        self.out.extend_from_slice(b":{");
        Ok(Compound::new(self, b"}}"))
    }
    fn collect_str<T: core::fmt::Display + ?Sized>(self, v: &T) -> Result<(), EncodeError> {
        self.serialize_str(&v.to_string())
    }
}

pub(crate) struct Compound<'s, 'a> {
    ser: &'s mut Serializer<'a>,
    is_first: bool,
    close: &'static [u8],
    is_raw: bool,
    /// Members to omit.
    omitted: OmittedMembers,
    /// Whether the next value is omitted.
    skips_value: bool,
}

impl<'s, 'a> Compound<'s, 'a> {
    #[inline]
    const fn new(ser: &'s mut Serializer<'a>, close: &'static [u8]) -> Self {
        let omitted = OmittedMembers { members: &[], bit: 0 };
        Self { ser, is_first: true, close, is_raw: false, omitted, skips_value: false }
    }

    #[inline]
    fn comma(&mut self) {
        if !core::mem::take(&mut self.is_first) {
            self.ser.out.push(b',');
        }
    }

    /// Writes the name of a member, unless the member is omitted.
    fn key(&mut self, name: &str) -> Result<(), EncodeError> {
        self.skips_value = self.omitted.contains(name);
        if !self.skips_value {
            self.ser.room_for_member(name)?;
            self.comma();
            self.ser.name(name);
            self.ser.out.push(b':');
        }
        Ok(())
    }

    fn element<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
        room(self.ser.out, VALUE_ROOM)?;
        self.comma();
        v.serialize(&mut *self.ser)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, v: &T) -> Result<(), EncodeError> {
        if self.is_raw {
            return self.raw_text(v);
        }
        self.ser.room_for_member(name)?;
        self.comma();
        self.ser.name(name);
        self.ser.out.push(b':');
        v.serialize(&mut *self.ser)?;
        self.ser.next_is_meta = false;
        Ok(())
    }

    /// Appends the text of a raw value, which serde passes as a string.
    fn raw_text<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
        let start = self.ser.out.len();
        let out = &mut *self.ser.out;
        let mut appended = Ok(());
        v.serialize(KeySerializer(|text: &str| {
            appended = room(out, text.len()).map(|()| append_one_line(out, text.as_bytes()));
        }))?;
        appended?;
        let written = self.ser.out.get(start..).unwrap_or_default();
        if self.ser.depth == 0 {
            self.ser.members = TopLevelMembers::scan(written, start);
        } else if core::mem::take(&mut self.ser.next_is_meta) && written.first() == Some(&b'{') {
            self.ser.members.meta = Some(start + 1);
        }
        Ok(())
    }

    fn finish(self) -> Result<(), EncodeError> {
        if !self.is_raw {
            room(self.ser.out, VALUE_ROOM)?;
            self.ser.depth -= 1;
            self.ser.out.extend_from_slice(self.close);
        }
        Ok(())
    }
}

/// Appends JSON text as one line. A raw line break in JSON is always white space between tokens (STDIO-003).
#[inline(never)]
pub(crate) fn append_one_line(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    for byte in out.get_mut(start..).unwrap_or_default() {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

macro_rules! sequence {
    ($($trait:ident $method:ident)*) => {$(
        impl ser::$trait for Compound<'_, '_> {
            type Ok = ();
            type Error = EncodeError;
            fn $method<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
                self.element(v)
            }
            fn end(self) -> Result<(), EncodeError> {
                self.finish()
            }
        }
    )*};
}
sequence!(SerializeSeq serialize_element SerializeTuple serialize_element SerializeTupleStruct serialize_field SerializeTupleVariant serialize_field);

macro_rules! structure {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Compound<'_, '_> {
            type Ok = ();
            type Error = EncodeError;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, v: &T) -> Result<(), EncodeError> {
                self.member(name, v)
            }
            fn end(self) -> Result<(), EncodeError> {
                self.finish()
            }
        }
    )*};
}
structure!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = EncodeError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EncodeError> {
        let mut written = Ok(());
        key.serialize(KeySerializer(|name: &str| written = self.key(name)))?;
        written
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
        if self.skips_value {
            return Ok(());
        }
        v.serialize(&mut *self.ser)?;
        self.ser.next_is_meta = false;
        Ok(())
    }
    fn end(self) -> Result<(), EncodeError> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use serde::Serialize;
    use serde_json::value::RawValue;

    #[derive(Serialize)]
    enum EncodedVariant {
        Unit,
        New(u8),
        Tuple(u8, i8),
        Struct { a: char },
    }

    #[derive(Serialize)]
    struct AllTypes<'a> {
        text: &'a str,
        ints: (i64, u64, i128),
        floats: [f64; 5],
        none: Option<u8>,
        kinds: [EncodedVariant; 4],
        map: BTreeMap<i32, bool>,
        raw: &'a RawValue,
        #[serde(rename = "_meta")]
        meta: BTreeMap<&'a str, u8>,
    }

    // covers: STDIO-003
    #[test]
    fn serialized_value_is_decoded_equal() {
        let raw: &RawValue = serde_json::from_str("[1,\n \"a\\nb\"]").expect("JSON");
        let value = AllTypes {
            text: "q\" b\\ n\n r\r t\t c\u{1} e\u{e9} \u{1F600} /",
            ints: (i64::MIN, u64::MAX, -5),
            floats: [1.5, 0.1, 1e300, -2.5e-9, f64::NAN],
            none: None,
            kinds: [
                EncodedVariant::Unit,
                EncodedVariant::New(1),
                EncodedVariant::Tuple(1, -1),
                EncodedVariant::Struct { a: '"' },
            ],
            map: [(1, true), (-2, false)].into(),
            raw,
            meta: [("k", 1)].into(),
        };
        let mut out = b"xx".to_vec();
        let found = Serializer::object(&mut out, &value, None).expect("an object");
        assert!(!out.contains(&b'\n'), "one line");
        let encoded: serde_json::Value = serde_json::from_slice(&out[2..]).expect("JSON");
        let expected = serde_json::to_value(&value).expect("JSON");
        assert_eq!(encoded, expected);
        assert!(found.contains(TopLevelMembers::META) && !found.contains(TopLevelMembers::TTL));
        assert!(out[found.meta.expect("_meta")..].starts_with(b"\"k\":1}"));
    }

    #[test]
    fn whole_floats_are_written_as_integers() {
        let mut out = Vec::new();
        Serializer::any(&mut out, &[1.0, -3.0, 0.0, -0.0, 1e15, 0.1]).expect("numbers");
        assert_eq!(out, b"[1,-3,0,-0.0,1000000000000000,0.1]");
        for large in [9_007_199_254_740_992.0, -1e16, 5e-324, f64::MAX] {
            out.clear();
            Serializer::any(&mut out, &large).expect("a number");
            assert_eq!(serde_json::from_slice(&out).ok(), Some(large));
        }
    }

    #[test]
    fn object_serializer_refuses_non_objects_and_non_string_keys() {
        let mut out = Vec::new();
        assert_eq!(Serializer::object(&mut out, &[1], None), Err(EncodeError::NotAnObject));
        let bad: BTreeMap<[u8; 2], u8> = [([1, 2], 3)].into();
        assert_eq!(Serializer::object(&mut out, &bad, None), Err(EncodeError::Key));
    }

    #[test]
    fn raw_value_members_are_recorded() {
        let raw: &RawValue = serde_json::from_str(r#"{"ttlMs":1,"_meta":{"a":1}}"#).expect("JSON");
        let mut out = b"..".to_vec();
        let found = Serializer::object(&mut out, raw, None).expect("an object");
        assert!(
            found.contains(TopLevelMembers::META)
                && found.contains(TopLevelMembers::TTL)
                && !found.contains(TopLevelMembers::SCOPE)
        );
        assert!(out[found.meta.expect("_meta")..].starts_with(b"\"a\":1}"));
    }
}
