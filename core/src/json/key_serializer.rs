//! Serializer for strings: member names, and text that is JSON already.

use serde::ser::{self, Serialize};

use super::encode_error::EncodeError;

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
