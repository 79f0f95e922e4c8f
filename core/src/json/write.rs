//! Serde `Serializer` that appends compact, one-line JSON to a buffer.
//!
//! It records which protocol members the outermost object has. The engine can then add members without a second pass,
//! and never writes one twice.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde::ser::{self, Serialize};

use super::EncodeError;
use super::scan::object_members;
use super::shape::{AddedMember, OmittedMembers, ShapeTable, Substitute};
use super::text::{Text, room};

/// Name of the newtype whose content has to be an object.
pub(crate) const OBJECT_MARKER: &str = "$object";

/// Name of the newtype that an [`ElicitResult`](crate::model::ElicitResult) is.
const ELICIT_RESULT_NAME: &str = "$mcp::ElicitResult";

/// Prefix of the newtype names of values that the engines refuse to send; the rest of the name goes into the error.
///
/// Other serializers write such a value, so that a received one can be shown and stored.
const NEVER_SENT_PREFIX: &str = "$never::";

/// Serializer of one value.
pub(crate) struct Serializer<'a> {
    text: Text<'a>,
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
        let mut s = Self::new(out, 0, table);
        value.serialize(&mut s)?;
        s.text.outcome()?;
        let written = s.text.buffer.get(start..).unwrap_or_default();
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
        // The depth is never 1, so that no member is taken for one of the outermost object of a message.
        let mut s = Self::new(out, 1 << 16, table);
        value.serialize(&mut s)?;
        s.text.outcome()
    }

    const fn new(out: &'a mut Vec<u8>, depth: u32, table: Option<&'static ShapeTable>) -> Self {
        Self {
            text: Text::new(out),
            depth,
            members: TopLevelMembers::NONE,
            next_is_meta: false,
            table,
            omitted: OmittedMembers::NONE,
        }
    }

    fn open(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.depth += 1;
        if core::mem::take(&mut self.next_is_meta) && bracket == b'{' {
            self.members.meta = Some(self.text.buffer.len());
        }
    }

    /// Writes the name of a member.
    fn name(&mut self, name: &str, is_first: bool) {
        if self.depth == 1 {
            self.members.record(name.as_bytes());
            self.next_is_meta = name == "_meta";
        }
        self.text.member_name(name, is_first);
    }

    /// Opens the object of an enum variant.
    fn variant(&mut self, variant: &str) {
        self.open(b'{');
        self.name(variant, true);
    }

    /// Applies the shaping rule of the type with this name; returns the substitute if the revision lacks the type, and the
    /// member that it adds.
    fn look_up_shape(
        &mut self,
        name: &'static str,
    ) -> Result<(Option<Substitute>, Option<AddedMember>), EncodeError> {
        let Some(table) = self.table else { return Ok((None, None)) };
        let Some(rule) = table.rule(name) else {
            return name
                .strip_prefix(NEVER_SENT_PREFIX)
                .map_or(Ok((None, None)), |what| Err(EncodeError::NeverSent(what)));
        };
        self.omitted = OmittedMembers { members: rule.members, bit: table.bit };
        let added = rule.added.filter(|(revisions, ..)| revisions & table.bit != 0);
        if rule.revisions & table.bit != 0 {
            return Ok((None, added));
        }
        let missing = EncodeError::NotInVersion { what: rule.refusal, revision: table.revision };
        rule.substitute(table.bit).ok_or(missing).map(|substitute| (Some(substitute), added))
    }

    /// Replaces a value that was just written by its substitute.
    #[cold]
    fn substitute(&mut self, start: usize, substitute: Substitute) -> Result<(), EncodeError> {
        // Without memory the text may be incomplete, and a substitute parses it.
        self.text.outcome()?;
        let out = &mut *self.text.buffer;
        let written = out.get(start..).unwrap_or_default();
        let mut full = Vec::new();
        room(&mut full, written.len())?;
        full.extend_from_slice(written);
        out.truncate(start);
        substitute(&full, out);
        // The members that were recorded are those of the text that was replaced.
        if self.depth == 0 {
            self.members = TopLevelMembers::scan(out.get(start..).unwrap_or_default(), start);
        }
        Ok(())
    }

    /// Adds a member to an object that was just written, unless it has one with this name.
    #[cold]
    fn complete(&mut self, start: usize, (_, name, value): AddedMember) -> Result<(), EncodeError> {
        // Without memory the text may be incomplete.
        self.text.outcome()?;
        let mut is_there = false;
        let written = self.text.buffer.get(start..).unwrap_or_default();
        object_members(written, |member, _| is_there |= member == name.as_bytes());
        if !is_there {
            self.text.buffer.pop();
            self.text.member_name(name, false);
            self.text.append(value.as_bytes());
            self.text.push(b'}');
        }
        Ok(())
    }

    fn display(&mut self, value: impl core::fmt::Display) {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{value}");
        self.text.append(text.as_bytes());
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
        self.text.append(if v { b"true" } else { b"false" });
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
        self.text.integer(v);
        Ok(())
    }
    fn serialize_i128(self, v: i128) -> Result<(), EncodeError> {
        self.display(v);
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
        self.text.integer(v);
        Ok(())
    }
    fn serialize_u128(self, v: u128) -> Result<(), EncodeError> {
        self.display(v);
        Ok(())
    }
    fn serialize_f32(self, v: f32) -> Result<(), EncodeError> {
        if v.is_finite() {
            self.display(format_args!("{v:?}"));
        } else {
            self.text.append(b"null");
        }
        Ok(())
    }
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn serialize_f64(self, v: f64) -> Result<(), EncodeError> {
        let whole = v as i64;
        if whole.unsigned_abs() < 1 << 53 && whole as f64 == v && !(v == 0.0 && v.is_sign_negative()) {
            // `1`, as other languages write it, instead of `1.0`.
            self.text.integer(whole);
        } else if let Some(number) = serde_json::Number::from_f64(v) {
            // The shortest text that parses to the same number; `Display` of floats would add far more code.
            self.display(number);
        } else {
            // JSON cannot represent it.
            self.text.append(b"null");
        }
        Ok(())
    }
    fn serialize_char(self, v: char) -> Result<(), EncodeError> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), EncodeError> {
        self.text.string(v);
        Ok(())
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
        self.text.append(b"null");
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
        let (substitute, added) = self.look_up_shape(name)?;
        if self.depth == 0 && name == ELICIT_RESULT_NAME {
            self.members.bits |= TopLevelMembers::ELICIT_RESULT;
        }
        let start = self.text.buffer.len();
        v.serialize(&mut *self)?;
        if name == OBJECT_MARKER && self.text.buffer.get(start) != Some(&b'{') {
            // Without memory the brace is missing, whatever the value is.
            self.text.outcome()?;
            return Err(EncodeError::NotAnObject);
        }
        if let Some(substitute) = substitute {
            self.substitute(start, substitute)?;
        }
        added.map_or(Ok(()), |added| self.complete(start, added))
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        v: &T,
    ) -> Result<(), EncodeError> {
        self.variant(variant);
        v.serialize(&mut *self)?;
        self.depth -= 1;
        self.text.push(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'s, 'a>, EncodeError> {
        self.open(b'[');
        Ok(Compound::new(self, Kind::Array))
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
        self.variant(variant);
        self.text.push(b'[');
        Ok(Compound::new(self, Kind::ArrayVariant))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'s, 'a>, EncodeError> {
        // Taken here, so that it does not apply to objects inside of this one.
        let omitted = core::mem::replace(&mut self.omitted, OmittedMembers::NONE);
        self.open(b'{');
        Ok(Compound { omitted, ..Compound::new(self, Kind::Object) })
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Compound<'s, 'a>, EncodeError> {
        if name == RAW_VALUE_NAME {
            return Ok(Compound::new(self, Kind::Raw));
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
        self.variant(variant);
        self.text.push(b'{');
        Ok(Compound::new(self, Kind::ObjectVariant))
    }
    fn collect_str<T: core::fmt::Display + ?Sized>(self, v: &T) -> Result<(), EncodeError> {
        self.serialize_str(&v.to_string())
    }
}

/// Serializer of the parts of an array or an object.
pub(crate) struct Compound<'s, 'a> {
    ser: &'s mut Serializer<'a>,
    kind: Kind,
    is_first: bool,
    /// Whether the next value is omitted.
    skips_value: bool,
    /// Members to omit.
    omitted: OmittedMembers,
}

/// Form of a [`Compound`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Object,
    /// An array that is the member of the object of an enum variant.
    ArrayVariant,
    /// An object that is the member of the object of an enum variant.
    ObjectVariant,
    /// Text that is JSON already.
    Raw,
}

impl<'s, 'a> Compound<'s, 'a> {
    #[inline]
    const fn new(ser: &'s mut Serializer<'a>, kind: Kind) -> Self {
        Self { ser, kind, is_first: true, skips_value: false, omitted: OmittedMembers::NONE }
    }

    /// Writes the name of a member, unless the member is omitted.
    fn key(&mut self, name: &str) {
        self.skips_value = self.omitted.contains(name);
        if !self.skips_value {
            self.ser.name(name, core::mem::take(&mut self.is_first));
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
        // A long array ends early.
        self.ser.text.outcome()?;
        if !core::mem::take(&mut self.is_first) {
            self.ser.text.push(b',');
        }
        v.serialize(&mut *self.ser)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, v: &T) -> Result<(), EncodeError> {
        if self.kind == Kind::Raw {
            return self.raw_text(v);
        }
        self.ser.name(name, core::mem::take(&mut self.is_first));
        v.serialize(&mut *self.ser)?;
        // A `_meta` that is no container has not reset it.
        self.ser.next_is_meta = false;
        Ok(())
    }

    /// Appends the text of a raw value, which serde passes as a string.
    fn raw_text<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), EncodeError> {
        let text = &mut self.ser.text;
        let start = text.buffer.len();
        v.serialize(KeySerializer(|json: &str| text.one_line(json.as_bytes())))?;
        let written = text.buffer.get(start..).unwrap_or_default();
        if self.ser.depth == 0 {
            self.ser.members = TopLevelMembers::scan(written, start);
        } else if core::mem::take(&mut self.ser.next_is_meta) && written.first() == Some(&b'{') {
            self.ser.members.meta = Some(start + 1);
        }
        Ok(())
    }

    fn finish(self) -> Result<(), EncodeError> {
        let text = &mut self.ser.text;
        match self.kind {
            Kind::Array => text.push(b']'),
            Kind::Object => text.push(b'}'),
            Kind::ArrayVariant => text.append(b"]}"),
            Kind::ObjectVariant => text.append(b"}}"),
            Kind::Raw => return text.outcome(),
        }
        self.ser.depth -= 1;
        text.outcome()
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
        key.serialize(KeySerializer(|name: &str| self.key(name)))
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

// Serializer for strings: member names, and text that is JSON already.

/// Serializer that passes the text of a map key to a function: a string as it is, a number or boolean as JSON.
pub(super) struct KeySerializer<F>(pub(super) F);

type NoCompound = ser::Impossible<(), EncodeError>;

macro_rules! serialize_numbers {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, v: $type) -> Result<(), EncodeError> {
            (self.0)(itoa::Buffer::new().format(v));
            Ok(())
        }
    )*};
}

macro_rules! reject_types {
    ($($method:ident ( $($argument:ty),* ) $result:ty;)*) => {$(
        fn $method(self $(, _: $argument)*) -> Result<$result, EncodeError> {
            Err(EncodeError::Key)
        }
    )*};
}

impl<F: FnOnce(&str)> ser::Serializer for KeySerializer<F> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = NoCompound;
    type SerializeTuple = NoCompound;
    type SerializeTupleStruct = NoCompound;
    type SerializeTupleVariant = NoCompound;
    type SerializeMap = NoCompound;
    type SerializeStruct = NoCompound;
    type SerializeStructVariant = NoCompound;

    serialize_numbers!(serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64);

    fn serialize_str(self, v: &str) -> Result<(), EncodeError> {
        (self.0)(v);
        Ok(())
    }
    fn serialize_bool(self, v: bool) -> Result<(), EncodeError> {
        (self.0)(if v { "true" } else { "false" });
        Ok(())
    }
    fn serialize_char(self, v: char) -> Result<(), EncodeError> {
        (self.0)(v.encode_utf8(&mut [0; 4]));
        Ok(())
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        (self.0)(variant);
        Ok(())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        v: &T,
    ) -> Result<(), EncodeError> {
        v.serialize(self)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), EncodeError> {
        Err(EncodeError::Key)
    }

    reject_types! {
        serialize_f32(f32) ();
        serialize_f64(f64) ();
        serialize_bytes(&[u8]) ();
        serialize_none() ();
        serialize_unit() ();
        serialize_unit_struct(&'static str) ();
        serialize_seq(Option<usize>) NoCompound;
        serialize_tuple(usize) NoCompound;
        serialize_tuple_struct(&'static str, usize) NoCompound;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) NoCompound;
        serialize_map(Option<usize>) NoCompound;
        serialize_struct(&'static str, usize) NoCompound;
        serialize_struct_variant(&'static str, u32, &'static str, usize) NoCompound;
    }
}

// Members of the outermost object that the protocol owns.

/// Protocol members found in the outermost object while writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopLevelMembers {
    /// One bit per member that the protocol owns.
    bits: u8,
    /// Offset in the buffer just behind the opening brace of `_meta`.
    pub(crate) meta: Option<usize>,
}

impl TopLevelMembers {
    /// No member.
    pub(crate) const NONE: Self = Self { bits: 0, meta: None };

    pub(crate) const META: u8 = 1;
    pub(crate) const RESULT_TYPE: u8 = 2;
    pub(crate) const TTL: u8 = 4;
    pub(crate) const SCOPE: u8 = 8;
    pub(crate) const INPUT_RESPONSES: u8 = 16;
    pub(crate) const REQUEST_STATE: u8 = 32;
    pub(crate) const INPUT_REQUESTS: u8 = 64;
    /// Not a member: the object was written from an [`ElicitResult`](crate::model::ElicitResult).
    pub(crate) const ELICIT_RESULT: u8 = 128;

    pub(crate) const fn contains(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Returns the members except one, which the protocol allows here.
    pub(crate) const fn without(mut self, bit: u8) -> Self {
        self.bits &= !bit;
        self
    }

    pub(super) fn record(&mut self, name: &[u8]) {
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
        let mut found = Self::NONE;
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

    #[derive(Serialize)]
    struct UnitStruct;

    #[derive(Serialize)]
    struct Pair(i16, u16);

    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Newtype<'a>(&'a str);

    /// Bytes, which serde writes as an array of numbers.
    struct ByteText;

    impl Serialize for ByteText {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(b"a\xff")
        }
    }

    /// Displayed text, with what has to be escaped.
    struct Displayed;

    impl Serialize for Displayed {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("{}\n\"", 7))
        }
    }

    #[test]
    fn rare_types_are_written_as_serde_json_writes_them() {
        #[derive(Serialize)]
        struct Rare<'a> {
            unit: UnitStruct,
            pair: Pair,
            large: u128,
            floats: (f32, f32),
            bytes: ByteText,
            displayed: Displayed,
            flags: BTreeMap<bool, u8>,
            letters: BTreeMap<char, u8>,
            variants: BTreeMap<Variant, u8>,
            names: [(Newtype<'a>, u8); 1],
            named: BTreeMap<Newtype<'a>, u8>,
        }
        #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
        enum Variant {
            First,
        }
        let rare = Rare {
            unit: UnitStruct,
            pair: Pair(i16::MIN, u16::MAX),
            large: u128::from(u64::MAX),
            floats: (1.5, f32::INFINITY),
            bytes: ByteText,
            displayed: Displayed,
            flags: [(true, 1), (false, 2)].into(),
            letters: [('"', 1), ('\u{e9}', 2)].into(),
            variants: [(Variant::First, 1)].into(),
            names: [(Newtype("a"), 1)],
            named: [(Newtype("b"), 1)].into(),
        };
        let mut out = Vec::new();
        Serializer::any(&mut out, &rare).expect("JSON");
        let encoded: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(encoded, serde_json::to_value(&rare).expect("JSON"));
    }

    #[test]
    fn keys_that_are_no_text_are_refused() {
        #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
        enum Variant {
            New(u8),
        }
        let mut out = Vec::new();
        let option: BTreeMap<Option<&str>, u8> = [(Some("a"), 1)].into();
        assert_eq!(Serializer::any(&mut out, &option).map(drop), Err(EncodeError::Key));
        let variant: BTreeMap<Variant, u8> = [(Variant::New(1), 1)].into();
        assert_eq!(Serializer::any(&mut out, &variant).map(drop), Err(EncodeError::Key));
    }

    #[test]
    fn whole_floats_are_written_as_integers() {
        let mut out = Vec::new();
        Serializer::any(&mut out, &[1.0, -3.0, 0.0, -0.0, 1e15, 0.1]).expect("numbers");
        assert_eq!(out, b"[1,-3,0,-0.0,1000000000000000,0.1]");
        out.clear();
        Serializer::any(&mut out, &[9_007_199_254_740_991.0, 9_007_199_254_740_992.0]).expect("numbers");
        assert_eq!(out, b"[9007199254740991,9007199254740992.0]", "integers as far as all of them are exact");
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

    #[test]
    fn members_that_the_protocol_owns_are_recorded_one_by_one() {
        let all = [
            ("_meta", TopLevelMembers::META),
            ("resultType", TopLevelMembers::RESULT_TYPE),
            ("ttlMs", TopLevelMembers::TTL),
            ("cacheScope", TopLevelMembers::SCOPE),
            ("inputResponses", TopLevelMembers::INPUT_RESPONSES),
            ("requestState", TopLevelMembers::REQUEST_STATE),
            ("inputRequests", TopLevelMembers::INPUT_REQUESTS),
        ];
        for (name, bit) in all {
            let text = alloc::format!(r#"{{"a":{{}},"{name}":{{}},"cursor":1}}"#);
            let found = TopLevelMembers::scan(text.as_bytes(), 0);
            assert!(all.iter().all(|(_, other)| found.contains(*other) == (*other == bit)), "{name}");
            assert_eq!(found.meta.is_some(), name == "_meta");
        }
        let found = TopLevelMembers::scan(br#"{"ttlMs":1,"_meta":{}}"#, 0);
        let left = found.without(TopLevelMembers::TTL);
        assert!(left.contains(TopLevelMembers::META) && !left.contains(TopLevelMembers::TTL));
        assert_eq!((left.meta, found.without(TopLevelMembers::SCOPE)), (found.meta, found));
    }

    #[test]
    fn result_of_an_elicitation_is_told_from_objects_like_it() {
        use crate::model::{ElicitAction, ElicitResult};
        #[derive(Serialize)]
        struct Around {
            inner: ElicitResult,
        }
        #[derive(Serialize)]
        struct Named(BTreeMap<&'static str, u8>);
        fn is_result<T: Serialize>(value: &T) -> bool {
            let found = Serializer::object(&mut Vec::new(), value, None).expect("an object");
            found.contains(TopLevelMembers::ELICIT_RESULT)
        }
        assert!(is_result(&ElicitResult::new(ElicitAction::Accept)));
        assert!(!is_result(&Around { inner: ElicitResult::new(ElicitAction::Accept) }));
        assert!(!is_result(&Named([("action", 1)].into())));
    }
}
