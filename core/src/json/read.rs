//! Deserializer of text that the scanner has checked.
//!
//! It decides as `serde_json` does, with the same messages and positions, and takes the grammar for granted: no byte of a text
//! that arrived is checked twice. Any other text is an error at the latest where it cannot be read on, never a panic.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::marker::PhantomData;

use serde::de::value::{BorrowedStrDeserializer, CowStrDeserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Error as _, Expected, Unexpected, Visitor};
use serde_json::Error;

use super::scan::{MAX_DEPTH, Scanner, Span, unescape};
use super::swar::plain_prefix;
use super::write::RAW_VALUE_NAME;

/// Name of the newtype that takes the text of a value, checked and nested at most 128 deep.
///
/// The visitor gets a map with this name and the text, as that of a `RawValue` gets one. Other deserializers do not know the name,
/// and offer a newtype.
pub(crate) const CHECKED_TEXT_NAME: &str = "$mcp::checked";
/// Name of the newtype that is read more than once.
///
/// The visitor gets a sequence whose elements are all this value, each as the type that is asked for. Other deserializers do not
/// know the name, and offer a newtype.
pub(crate) const REREAD_NAME: &str = "$mcp::reread";
/// Name by which `serde_json` marks a number that is kept as text.
const NUMBER_NAME: &str = "$serde_json::private::Number";
/// Whether a `Number` is a text: the feature `arbitrary_precision` of `serde_json`, which any crate of a program can turn on.
const NUMBERS_ARE_TEXT: bool = core::mem::needs_drop::<serde_json::Number>();

/// Decodes a value.
///
/// # Errors
///
/// The text is not of the type, or nested deeper than 127 levels where it is decoded.
pub(crate) fn read_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    read_with(PhantomData, text)
}

/// Decodes a value by a seed.
///
/// # Errors
///
/// Those of [`read_str`].
pub(crate) fn read_with<'de, S: DeserializeSeed<'de>>(seed: S, text: &'de str) -> Result<S::Value, Error> {
    let mut reader = Reader { text, scanner: Scanner::trusted(text.as_bytes()), depth: 0 };
    let mut read = seed.deserialize(&mut reader);
    if read.is_ok() && !reader.scanner.is_at_end() {
        read = Err(reader.unexpected("trailing characters"));
    }
    read
}

/// Checks a text, and decodes a value from it.
///
/// # Errors
///
/// Those of [`read_str`], and text that is not JSON.
pub(crate) fn check_and_read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut scanner = Scanner::trusted(text.as_bytes());
    let scanned = scanner.value();
    if scanned.is_err() || !scanner.is_at_end() {
        return Err(Reader { text, scanner, depth: 0 }.malformed());
    }
    read_str(text)
}

/// A text and the position in it.
struct Reader<'de> {
    text: &'de str,
    scanner: Scanner<'de>,
    /// Containers around the position that are being decoded. Those that are skipped take no stack.
    depth: u32,
}

/// A number, as the type of the smallest range that holds it.
enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl Number {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Unsigned(value) => visitor.visit_u64(value),
            Self::Signed(value) => visitor.visit_i64(value),
            Self::Float(value) => visitor.visit_f64(value),
        }
    }
}

impl<'de> Reader<'de> {
    /// Returns an error at the next byte.
    #[cold]
    #[inline(never)]
    fn unexpected(&self, message: &str) -> Error {
        self.error_at(self.text.len().min(self.scanner.pos() + 1), &message)
    }

    /// Returns the error for text that is not JSON, which no checked text gets.
    #[cold]
    #[inline(never)]
    fn malformed(&self) -> Error {
        self.unexpected("expected JSON")
    }

    /// Adds the position to an error of a type, unless it has one from further inside.
    #[inline]
    fn locate<T>(&self, mut read: Result<T, Error>) -> Result<T, Error> {
        // In its place: values are large.
        if let Err(error) = &mut read {
            self.locate_error(error);
        }
        read
    }

    #[cold]
    #[inline(never)]
    fn locate_error(&self, error: &mut Error) {
        if error.line() == 0 {
            *error = self.error_at(self.scanner.pos(), error);
        }
    }

    fn error_at(&self, at: usize, message: &dyn fmt::Display) -> Error {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
        // There is no other way to a position: `serde_json` takes it from the end of a message.
        Error::custom(message.to_string() + &format!(" at line {line} column {column}"))
    }

    /// Returns the error for a value of another type than the visitor expects.
    #[cold]
    #[inline(never)]
    fn mismatch(&mut self, expected: &dyn Expected) -> Error {
        let found = match self.scanner.peek() {
            b'"' => self.string().map(|text| Error::invalid_type(Unexpected::Str(&text), expected)),
            b'[' => Ok(Error::invalid_type(Unexpected::Seq, expected)),
            b'{' => Ok(Error::invalid_type(Unexpected::Map, expected)),
            b'n' => self.literal("null").map(|()| Error::invalid_type(Unexpected::Unit, expected)),
            b't' => self.literal("true").map(|()| Error::invalid_type(Unexpected::Bool(true), expected)),
            b'f' => self.literal("false").map(|()| Error::invalid_type(Unexpected::Bool(false), expected)),
            _ => self.number().map(|number| {
                let found = match number {
                    Number::Unsigned(value) => Unexpected::Unsigned(value),
                    Number::Signed(value) => Unexpected::Signed(value),
                    Number::Float(value) => Unexpected::Float(value),
                };
                Error::invalid_type(found, expected)
            }),
        };
        let (Ok(mut error) | Err(mut error)) = found;
        self.locate_error(&mut error);
        error
    }

    fn literal(&mut self, word: &str) -> Result<(), Error> {
        self.scanner.literal(word.as_bytes()).map_err(|_| self.malformed())
    }

    fn slice(&self, span: Span) -> Result<&'de str, Error> {
        self.text.get(span.start as usize..span.end as usize).ok_or_else(|| self.malformed())
    }

    /// Reads the string at the position if it has no escape, as nearly all.
    #[inline(never)]
    fn plain_string(&mut self) -> Option<&'de str> {
        let [b'"', rest @ ..] = self.scanner.rest() else { return None };
        let start = self.scanner.pos() + 1;
        let length = plain_prefix(rest);
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        self.scanner.advance(length + 2);
        self.text.get(start..start + length)
    }

    /// Reads the string at the position if it has an escape.
    #[cold]
    #[inline(never)]
    fn escaped_string(&mut self) -> Result<String, Error> {
        let Ok(token) = self.scanner.string() else { return Err(self.malformed()) };
        String::from_utf8(unescape(token.raw)).map_err(|_| self.malformed())
    }

    /// Reads the string at the position.
    fn string(&mut self) -> Result<Cow<'de, str>, Error> {
        match self.plain_string() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.escaped_string().map(Cow::Owned),
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.plain_string() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_string(self.escaped_string()?),
        }
    }

    /// Reads a number at the position.
    fn number(&mut self) -> Result<Number, Error> {
        let rest = self.scanner.rest();
        let (is_negative, digits) = match rest {
            [b'-', digits @ ..] => (true, digits),
            _ => (false, rest),
        };
        let mut value = Some(0u64);
        let mut length = 0;
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit.into()));
            length += 1;
        }
        let integer = match (value, is_negative) {
            (Some(value), false) => Some(Number::Unsigned(value)),
            // -0 is a float, and so is what no integer of 64 bits holds.
            (Some(1..), true) => value.and_then(|value| 0i64.checked_sub_unsigned(value)).map(Number::Signed),
            _ => None,
        };
        let has_only_digits = match digits {
            [b'0', b'0'..=b'9', ..] | [] => false,
            _ => length > 0 && !matches!(digits.get(length), Some(b'.' | b'e' | b'E')),
        };
        match integer.filter(|_| has_only_digits) {
            Some(integer) => {
                self.scanner.advance(length + usize::from(is_negative));
                Ok(integer)
            }
            None => self.float(),
        }
    }

    /// Reads any number at the position as a float.
    #[inline(never)]
    fn float(&mut self) -> Result<Number, Error> {
        let text = self.number_text()?;
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Number::Float(value)),
            _ => Err(self.out_of_range()),
        }
    }

    #[cold]
    #[inline(never)]
    fn out_of_range(&self) -> Error {
        self.error_at(self.scanner.pos(), &"number out of range")
    }

    fn number_text(&mut self) -> Result<&'de str, Error> {
        let start = self.scanner.pos();
        self.scanner.number().map_err(|_| self.malformed())?;
        self.slice(Span::new(start, self.scanner.pos()))
    }

    /// Visits a number for a type that takes any value.
    fn visit_any_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        if NUMBERS_ARE_TEXT {
            let mut ahead = Reader { scanner: self.scanner.clone(), ..*self };
            let text = ahead.number_text()?;
            if text == "-0" || text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
                self.scanner = ahead.scanner;
                return visitor.visit_map(MarkedText { name: Some(NUMBER_NAME), text });
            }
        }
        self.number()?.visit(visitor)
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'-' | b'0'..=b'9' => {
                let read = self.number()?.visit(visitor);
                self.locate(read)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    /// Reads an integer for a type of more than 64 bits.
    fn wide_integer<T: core::str::FromStr>(&mut self, expected: &dyn Expected) -> Result<T, Error> {
        match self.scanner.peek() {
            b'-' | b'0'..=b'9' => self.number_text()?.parse().map_err(|_| self.out_of_range()),
            _ => Err(self.mismatch(expected)),
        }
    }

    /// Enters the container at the position.
    fn enter(&mut self) -> Result<(), Error> {
        if self.depth + 1 >= MAX_DEPTH {
            return Err(self.unexpected("recursion limit exceeded"));
        }
        self.depth += 1;
        self.scanner.advance(1);
        Ok(())
    }

    /// Leaves a container of which `read` was read.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn leave<T>(&mut self, mut read: Result<T, Error>, bracket: u8) -> Result<T, Error> {
        self.depth -= 1;
        // After an error, too: the position of a missing member is behind the object.
        if self.scanner.peek() == bracket {
            self.scanner.advance(1);
        } else if read.is_ok() {
            read = Err(self.unread_rest(bracket));
        }
        self.locate(read)
    }

    /// Returns the error for what a visitor left of a container. That of an array is at its next element.
    #[cold]
    #[inline(never)]
    fn unread_rest(&mut self, bracket: u8) -> Error {
        if bracket == b']' && self.scanner.peek() == b',' {
            self.scanner.advance(1);
            self.scanner.peek();
        }
        self.unexpected("trailing characters")
    }

    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.enter()?;
        let read = visitor.visit_seq(Elements { reader: self, is_first: true });
        self.leave(read, b']')
    }

    fn visit_object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.enter()?;
        let read = visitor.visit_map(Elements { reader: self, is_first: true });
        self.leave(read, b'}')
    }

    /// Visits a value as its text.
    fn visit_text<V: Visitor<'de>>(
        &mut self,
        visitor: V,
        name: &'static str,
        max_depth: u32,
    ) -> Result<V::Value, Error> {
        let Ok(span) = self.scanner.value_within(max_depth) else { return Err(self.malformed()) };
        visitor.visit_map(MarkedText { name: Some(name), text: self.slice(span)? })
    }
}

macro_rules! forward {
    ($to:ident: $($method:ident $(($($unused:ty),*))?)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, $($(_: $unused,)*)? visitor: V) -> Result<V::Value, Error> {
            self.$to(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = match self.scanner.peek() {
            b'"' => self.visit_string(visitor),
            b'[' => return self.visit_array(visitor),
            b'{' => return self.visit_object(visitor),
            b'n' => self.literal("null").and_then(|()| visitor.visit_unit()),
            b't' => self.literal("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.literal("false").and_then(|()| visitor.visit_bool(false)),
            _ => self.visit_any_number(visitor),
        };
        self.locate(read)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = match self.scanner.peek() {
            b't' => self.literal("true").map(|()| true)?,
            b'f' => self.literal("false").map(|()| false)?,
            _ => return Err(self.mismatch(&visitor)),
        };
        self.locate(visitor.visit_bool(value))
    }

    forward! { visit_number:
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.wide_integer(&visitor)?;
        self.locate(visitor.visit_i128(value))
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.wide_integer(&visitor)?;
        self.locate(visitor.visit_u128(value))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'"' => {
                let read = self.visit_string(visitor);
                self.locate(read)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    forward! { deserialize_str: deserialize_char deserialize_string deserialize_identifier }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = match self.scanner.peek() {
            b'"' => match self.string()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                Cow::Owned(text) => visitor.visit_byte_buf(text.into_bytes()),
            },
            b'[' => return self.visit_array(visitor),
            _ => return Err(self.mismatch(&visitor)),
        };
        self.locate(read)
    }

    forward! { deserialize_bytes: deserialize_byte_buf }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.scanner.peek() != b'n' {
            return visitor.visit_some(self);
        }
        self.literal("null")?;
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.scanner.peek() != b'n' {
            return Err(self.mismatch(&visitor));
        }
        self.literal("null")?;
        self.locate(visitor.visit_unit())
    }

    forward! { deserialize_unit: deserialize_unit_struct(&'static str) }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            RAW_VALUE_NAME => self.visit_text(visitor, name, u32::MAX),
            CHECKED_TEXT_NAME => self.visit_text(visitor, name, MAX_DEPTH),
            REREAD_NAME => visitor.visit_seq(Rereads { start: self.scanner.clone(), reader: self }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'[' => self.visit_array(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    forward! { deserialize_seq: deserialize_tuple(usize) deserialize_tuple_struct(&'static str, usize) }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'{' => self.visit_object(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'{' => self.visit_object(visitor),
            // The members in order, without their names.
            b'[' => self.visit_array(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            b'"' => {
                let variant = CowStrDeserializer::new(self.string()?);
                self.locate(visitor.visit_enum(variant))
            }
            b'{' => {
                self.enter()?;
                let read = visitor.visit_enum(Variant(self));
                self.leave(read, b'}')
            }
            _ => Err(self.unexpected("expected value")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.value() {
            Ok(_) => visitor.visit_unit(),
            Err(_) => Err(self.malformed()),
        }
    }
}

/// The elements of an array, or the members of an object.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl Elements<'_, '_> {
    /// Moves to the next element; returns false before the closing bracket.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn advance(&mut self, bracket: u8) -> Result<bool, Error> {
        let next = self.reader.scanner.peek();
        if next == bracket {
            return Ok(false);
        }
        if !core::mem::take(&mut self.is_first) {
            if next != b',' {
                return Err(self.reader.malformed());
            }
            self.reader.scanner.advance(1);
            // A name begins at the position, without white space.
            self.reader.scanner.peek();
        }
        Ok(true)
    }
}

impl<'de> de::SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.advance(b']')? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

impl<'de> de::MapAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.advance(b'}')? { seed.deserialize(Name(self.reader)).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        if self.reader.scanner.expect_byte(b':').is_err() {
            return Err(self.reader.malformed());
        }
        seed.deserialize(&mut *self.reader)
    }
}

/// The value at the position, as often as it is asked for.
struct Rereads<'r, 'de> {
    reader: &'r mut Reader<'de>,
    start: Scanner<'de>,
}

impl<'de> de::SeqAccess<'de> for Rereads<'_, 'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.reader.scanner = self.start.clone();
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

/// The name of a member: a string, in which a type can expect a number or a boolean.
struct Name<'r, 'de>(&'r mut Reader<'de>);

macro_rules! numeric_names {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let reader = self.0;
            if !matches!(reader.scanner.rest(), [b'"', b'-' | b'0'..=b'9', ..]) {
                return Err(reader.unexpected("invalid value: expected key to be a number in quotes"));
            }
            reader.scanner.advance(1);
            let value = reader.$method(visitor)?;
            match reader.scanner.rest() {
                [b'"', ..] => reader.scanner.advance(1),
                _ => return Err(reader.unexpected("expected `\"`")),
            }
            Ok(value)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Name<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.visit_string(visitor)
    }

    numeric_names! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = match &*self.0.string()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(Error::invalid_type(Unexpected::Str(other), &visitor)),
        };
        self.0.locate(read)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            RAW_VALUE_NAME | CHECKED_TEXT_NAME => self.0.deserialize_newtype_struct(name, visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_bytes(visitor)
    }

    forward! { deserialize_bytes: deserialize_byte_buf }

    serde::forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The only member of an object that is a variant of an enum with its content.
struct Variant<'r, 'de>(&'r mut Reader<'de>);

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        if self.0.scanner.peek() != b'"' {
            return Err(self.0.unexpected("expected value"));
        }
        let variant = seed.deserialize(Name(self.0));
        let variant = self.0.locate(variant)?;
        match self.0.scanner.expect_byte(b':') {
            Ok(()) => Ok((variant, self)),
            Err(_) => Err(self.0.malformed()),
        }
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_tuple(self.0, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.0, "", members, visitor)
    }
}

/// A text under a name that the visitor knows.
struct MarkedText<'de> {
    name: Option<&'static str>,
    text: &'de str,
}

impl<'de> de::MapAccess<'de> for MarkedText<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let name = self.name.take().map(BorrowedStrDeserializer::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(BorrowedStrDeserializer::new(self.text))
    }
}

#[cfg(test)]
mod tests;
