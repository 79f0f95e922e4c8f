//! The parameters of `tools/call`, written from borrowed arguments.

use serde::Serialize;

use crate::json::OBJECT_MARKER;

/// Parameters of `tools/call`.
#[derive(Serialize)]
pub(super) struct ToolCallParams<'a, T: ?Sized> {
    name: &'a str,
    arguments: ToolArguments<'a, T>,
}

struct ToolArguments<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for ToolArguments<'_, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(OBJECT_MARKER, self.0)
    }
}

impl<'a, T: ?Sized> ToolCallParams<'a, T> {
    pub(super) const fn new(name: &'a str, arguments: &'a T) -> Self {
        Self { name, arguments: ToolArguments(arguments) }
    }
}
