//! Member names: what a map key reads as.

use alloc::string::{String, ToString};

use serde::ser::{self, Serialize};

use super::write::EncodeError;

/// Turns a map key into its text
pub(super) struct StrSerializer;

macro_rules! as_text {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, v: $type) -> Result<String, EncodeError> {
            Ok(v.to_string())
        }
    )*};
}

impl ser::Serializer for StrSerializer {
    type Ok = String;
    type Error = EncodeError;
    type SerializeSeq = ser::Impossible<String, EncodeError>;
    type SerializeTuple = ser::Impossible<String, EncodeError>;
    type SerializeTupleStruct = ser::Impossible<String, EncodeError>;
    type SerializeTupleVariant = ser::Impossible<String, EncodeError>;
    type SerializeMap = ser::Impossible<String, EncodeError>;
    type SerializeStruct = ser::Impossible<String, EncodeError>;
    type SerializeStructVariant = ser::Impossible<String, EncodeError>;

    as_text!(serialize_bool bool serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_char char serialize_str &str);

    fn serialize_f32(self, _: f32) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_f64(self, _: f64) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_none(self) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_unit(self) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<String, EncodeError> {
        Ok(variant.to_string())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        v: &T,
    ) -> Result<String, EncodeError> {
        v.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<String, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, EncodeError> {
        Err(EncodeError::Key)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, EncodeError> {
        Err(EncodeError::Key)
    }
}
