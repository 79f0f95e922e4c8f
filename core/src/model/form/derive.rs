//! Forms derived from Rust types with `schemars` (feature `schemars`).

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map as Object, Value};

use super::{BooleanSchema, EnumSchema, NumberSchema, PrimitiveSchemaDefinition, StringFormat, StringSchema};
use crate::json::deserialize;
use crate::model::ValidationError;
use crate::model::elicitation::ElicitSchema;

/// Settings for schemas of types: 2020-12 (SCHEMA-001), with subschemas inlined unless they are recursive.
pub(crate) fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|s| {
        s.meta_schema = None;
        s.inline_subschemas = true;
    })
}

impl ElicitSchema {
    /// Derives the form whose values [`ElicitResult::parse`](crate::model::ElicitResult::parse) reads as `T`
    /// (ELIC-012).
    ///
    /// | in `T` | in the form |
    /// |---|---|
    /// | `String`, `char`, numbers, `bool` | a field of that kind, with the bounds, lengths and formats of `T` |
    /// | an enum of unit variants | single-select; doc comments or `title` of the variants become titles |
    /// | a list or set of such an enum | multi-select (since 2025-11-25) |
    /// | `Option<_>`, `#[serde(default)]` | not required |
    /// | a default that is `Serialize` | the default value |
    /// | a doc comment | the description; a `title` of `schemars` becomes the title |
    ///
    /// Fields keep the order of the struct; those of a struct with a `#[serde(flatten)]` member are sorted by name.
    /// Constraints that a form cannot express (a pattern, another format) are checked when the answer is read.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names a field of a type that no form can hold: another struct, a list of anything but
    /// choices, a map, or an enum with data.
    ///
    /// ```
    /// use mcp_proto::model::{ElicitSchema, ValidationError};
    /// use mcp_proto::router::schema::schemars::{self, JsonSchema};
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Stay {
    ///     /// Name of the boat
    ///     boat: String,
    ///     nights: Option<u8>,
    /// }
    /// let form = ElicitSchema::for_type::<Stay>()?;
    /// assert_eq!(form.required.as_deref(), Some(&["boat".to_owned()][..]));
    /// # Ok::<(), ValidationError>(())
    /// ```
    pub fn for_type<T: JsonSchema + DeserializeOwned>() -> Result<Self, ValidationError> {
        let mut order: &[&str] = &[];
        // Only collects the field names in order: maps of `serde_json` are sorted by name.
        let _ = T::deserialize(FieldNames(&mut order));
        let schema = schema_settings().for_deserialize().into_generator().into_root_schema_for::<T>();
        build_form(schema.as_object(), order)
    }
}

fn build_form(
    schema: Option<&Object<String, Value>>,
    order: &[&str],
) -> Result<ElicitSchema, ValidationError> {
    let no_form = || ValidationError::new("a form must be a struct with named fields");
    let schema = schema.filter(|s| s.get("type").is_some_and(|kind| kind == "object")).ok_or_else(no_form)?;
    // These keywords mean fields that depend on others, or have arbitrary names.
    let unsupported = ["oneOf", "anyOf", "allOf", "$ref", "patternProperties", "additionalProperties"];
    if unsupported.iter().any(|name| schema.get(*name).is_some_and(|value| *value != Value::Bool(false))) {
        return Err(no_form());
    }
    let none = Object::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut form = ElicitSchema::default();
    let ordered = order.iter().copied().filter(|name| properties.contains_key(*name));
    let others = properties.keys().map(|name| &**name).filter(|name| !order.contains(name));
    for name in ordered.chain(others) {
        let Some(schema) = properties.get(name) else { continue };
        let field = build_field(schema).map_err(|reason| ValidationError::at_member(name, reason))?;
        form.properties.insert(name, field);
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<String> = required.filter_map(Value::as_str).map(String::from).collect();
    form.required = Some(required).filter(|names| !names.is_empty());
    Ok(form)
}

/// Builds one field, or returns why no form can hold it.
fn build_field(schema: &Value) -> Result<PrimitiveSchemaDefinition, &'static str> {
    let outer = schema.as_object().ok_or("a form field must have a type")?;
    // An `Option` of an enum with titles: `anyOf` with the enum and null.
    let inner = outer.get("anyOf").and_then(Value::as_array).and_then(|variants| {
        let mut variants =
            variants.iter().filter(|variant| variant.get("type").is_none_or(|kind| kind != "null"));
        variants.next().filter(|_| variants.next().is_none())?.as_object()
    });
    let schema = FieldSchema { outer, inner: inner.unwrap_or(outer) };
    if let Some(choices) = enum_choices(schema.inner) {
        return Ok(schema.one_of(choices));
    }
    match schema.kind() {
        Some("string") => Ok(schema.string().into()),
        Some("integer") => Ok(schema.number(NumberSchema::integer()).into()),
        Some("number") => Ok(schema.number(NumberSchema::number()).into()),
        Some("boolean") => Ok(schema.boolean(BooleanSchema::new()).into()),
        Some("array") => {
            let items = schema.inner.get("items").and_then(Value::as_object).and_then(enum_choices);
            items.map(|choices| schema.any_of(choices)).ok_or("a list in a form must be a list of choices")
        }
        Some("object") => Err("a form is flat: a field must not be an object"),
        _ => Err("a form field must be a string, a number, a boolean or a choice"),
    }
}

/// Returns the choices with their titles; `None` if the schema is not an enum of unit variants.
fn enum_choices(schema: &Object<String, Value>) -> Option<Vec<(&str, Option<&str>)>> {
    if let Some(variants) = schema.get("oneOf") {
        let mut all = Vec::new();
        for variant in variants.as_array()? {
            let variant = variant.as_object()?;
            let name = text_member(variant, "title").or_else(|| text_member(variant, "description"));
            all.extend(enum_choices(variant)?.into_iter().map(|(value, _)| (value, name)));
        }
        return Some(all);
    }
    if let Some(only) = schema.get("const") {
        return Some(Vec::from([(only.as_str()?, None)]));
    }
    let values = schema.get("enum")?.as_array()?.iter().filter(|value| !value.is_null());
    values.map(|value| value.as_str().map(|value| (value, None))).collect()
}

fn text_member<'s>(schema: &'s Object<String, Value>, name: &str) -> Option<&'s str> {
    schema.get(name)?.as_str()
}

/// Schema of a field, and schema of its type without null, which may be the same.
struct FieldSchema<'s> {
    outer: &'s Object<String, Value>,
    inner: &'s Object<String, Value>,
}

/// Sets the members that every kind of field has.
macro_rules! copy_description {
    ($schema:expr, $field:ident, $default:expr) => {{
        $field.title = $schema.text("title");
        $field.description = $schema.text("description");
        $field.default = $schema.outer.get("default").and_then($default);
        $field
    }};
}

impl FieldSchema<'_> {
    fn text(&self, name: &str) -> Option<String> {
        text_member(self.outer, name).or_else(|| text_member(self.inner, name)).map(String::from)
    }

    /// Returns the type, null excluded.
    fn kind(&self) -> Option<&str> {
        match self.inner.get("type")? {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        }
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.inner.get(name)?.as_u64()
    }

    fn string(&self) -> StringSchema {
        let mut field = StringSchema::new();
        field.min_length = self.count("minLength");
        field.max_length = self.count("maxLength");
        let format = text_member(self.inner, "format").map(StringFormat::from);
        field.format = format.filter(|format| !matches!(format, StringFormat::Other(_)));
        copy_description!(self, field, |v| v.as_str().map(String::from))
    }

    fn number(&self, mut field: NumberSchema) -> NumberSchema {
        let bound = |name: &str| self.inner.get(name).and_then(Value::as_f64);
        // Types of 32 bits state their bounds only by the name of their format.
        let (min, max) = match text_member(self.inner, "format") {
            Some("int32") => (Some(f64::from(i32::MIN)), Some(f64::from(i32::MAX))),
            Some("uint32") => (None, Some(f64::from(u32::MAX))),
            _ => (None, None),
        };
        field.minimum = bound("minimum").or(min);
        field.maximum = bound("maximum").or(max);
        copy_description!(self, field, Value::as_f64)
    }

    fn boolean(&self, mut field: BooleanSchema) -> BooleanSchema {
        copy_description!(self, field, Value::as_bool)
    }

    fn one_of(&self, choices: Vec<(&str, Option<&str>)>) -> PrimitiveSchemaDefinition {
        let default = |v: &Value| v.as_str().map(String::from);
        if choices.iter().any(|(_, name)| name.is_some()) {
            let mut field = EnumSchema::one_of_titled(choices.into_iter().map(titled_choice));
            return copy_description!(self, field, default).into();
        }
        let mut field = EnumSchema::one_of(choices.into_iter().map(|(value, _)| value));
        copy_description!(self, field, default).into()
    }

    fn any_of(&self, choices: Vec<(&str, Option<&str>)>) -> PrimitiveSchemaDefinition {
        let default = |v: &Value| {
            let chosen = v.as_array()?.iter().map(|one| one.as_str().map(String::from));
            chosen.collect::<Option<Vec<_>>>()
        };
        let (min, max) = (self.count("minItems"), self.count("maxItems"));
        if choices.iter().any(|(_, name)| name.is_some()) {
            let mut field = EnumSchema::any_of_titled(choices.into_iter().map(titled_choice));
            (field.min_items, field.max_items) = (min, max);
            return copy_description!(self, field, default).into();
        }
        let mut field = EnumSchema::any_of(choices.into_iter().map(|(value, _)| value));
        (field.min_items, field.max_items) = (min, max);
        copy_description!(self, field, default).into()
    }
}

/// Returns the title of a choice, which defaults to its value.
fn titled_choice<'s>((value, name): (&'s str, Option<&'s str>)) -> (&'s str, &'s str) {
    (value, name.unwrap_or(value))
}

/// Deserializer that collects the field names of a type in order, and reads nothing.
struct FieldNames<'o>(&'o mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("only field names are read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    deserialize!(deserialize_newtype_struct(self, visitor, &'static str) => visitor.visit_newtype_struct(self));

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
#[path = "derive_tests.rs"]
mod tests;
