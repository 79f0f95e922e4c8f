//! Forms made from Rust types, by `schemars` (feature `schemars`).

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map as Object, Value};

use super::{BooleanSchema, EnumSchema, NumberSchema, PrimitiveSchemaDefinition, StringFormat, StringSchema};
use crate::model::Misfit;
use crate::model::elicitation::ElicitSchema;

/// What schemas of types are made with: 2020-12 (SCHEMA-001), subschemas where they are used, unless they are recursive
pub(crate) fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|s| {
        s.meta_schema = None;
        s.inline_subschemas = true;
    })
}

impl ElicitSchema {
    /// The form whose answers [`ElicitResult::parse`](crate::model::ElicitResult::parse) reads as `T` (ELIC-012)
    ///
    /// | in `T` | in the form |
    /// |---|---|
    /// | `String`, `char`, numbers, `bool` | a field of that kind, with the bounds, lengths and formats that `T` states |
    /// | an enum of unit variants | one choice; variants with a doc comment, or a `title`, show it |
    /// | a list or set of such an enum | several choices (since 2025-11-25) |
    /// | `Option<_>`, `#[serde(default)]` | not required |
    /// | a default that is `Serialize` | stands there at first |
    /// | a doc comment | the description; a `title` of `schemars` the title |
    ///
    /// Fields stand in the order of the struct; one with `#[serde(flatten)]` is shown by name. What a form cannot say
    /// (a pattern, another format) is left to reading. What no form can hold is an error that names the field: other
    /// structs, lists of anything else, maps, enums with data.
    ///
    /// ```
    /// use mcp_proto::model::{ElicitSchema, Misfit};
    /// use mcp_proto::router::schema::schemars::{self, JsonSchema};
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Stay {
    ///     /// Name of the boat
    ///     boat: String,
    ///     nights: Option<u8>,
    /// }
    /// let form = ElicitSchema::of::<Stay>()?;
    /// assert_eq!(form.required.as_deref(), Some(&["boat".to_owned()][..]));
    /// # Ok::<(), Misfit>(())
    /// ```
    pub fn of<T: JsonSchema + DeserializeOwned>() -> Result<Self, Misfit> {
        let mut order: &[&str] = &[];
        // Only to be asked for its fields: maps of `serde_json` are sorted by name.
        let _ = T::deserialize(FieldNames(&mut order));
        let schema = settings().for_deserialize().into_generator().into_root_schema_for::<T>();
        form(schema.as_object(), order)
    }
}

fn form(schema: Option<&Object<String, Value>>, order: &[&str]) -> Result<ElicitSchema, Misfit> {
    let no_form = || Misfit::new("a form is a struct with named fields");
    let schema = schema.filter(|s| s.get("type").is_some_and(|kind| kind == "object")).ok_or_else(no_form)?;
    // Fields that depend on others, or have any name.
    let more = ["oneOf", "anyOf", "allOf", "$ref", "patternProperties", "additionalProperties"];
    if more.iter().any(|name| schema.get(*name).is_some_and(|value| *value != Value::Bool(false))) {
        return Err(no_form());
    }
    let none = Object::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut form = ElicitSchema::default();
    let ordered = order.iter().copied().filter(|name| properties.contains_key(*name));
    let others = properties.keys().map(|name| &**name).filter(|name| !order.contains(name));
    for name in ordered.chain(others) {
        let Some(schema) = properties.get(name) else { continue };
        let field = field(schema).map_err(|why| Misfit::at(name, why))?;
        form.properties.insert(name, field);
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<String> = required.filter_map(Value::as_str).map(String::from).collect();
    form.required = Some(required).filter(|names| !names.is_empty());
    Ok(form)
}

/// One field; what is wrong with it otherwise
fn field(schema: &Value) -> Result<PrimitiveSchemaDefinition, &'static str> {
    let outer = schema.as_object().ok_or("a field of a form has a type")?;
    // An `Option` of something with names: either that or null.
    let inner = outer.get("anyOf").and_then(Value::as_array).and_then(|ways| {
        let mut ways = ways.iter().filter(|way| way.get("type").is_none_or(|kind| kind != "null"));
        ways.next().filter(|_| ways.next().is_none())?.as_object()
    });
    let schema = Schema { outer, inner: inner.unwrap_or(outer) };
    if let Some(choices) = choices(schema.inner) {
        return Ok(schema.one_of(choices));
    }
    match schema.kind() {
        Some("string") => Ok(schema.string().into()),
        Some("integer") => Ok(schema.number(NumberSchema::integer()).into()),
        Some("number") => Ok(schema.number(NumberSchema::number()).into()),
        Some("boolean") => Ok(schema.described(BooleanSchema::new(), Value::as_bool).into()),
        Some("array") => {
            let items = schema.inner.get("items").and_then(Value::as_object).and_then(choices);
            items.map(|choices| schema.any_of(choices)).ok_or("a list in a form is one of choices")
        }
        Some("object") => Err("a form is flat: no field of it is an object"),
        _ => Err("a field of a form is a string, a number, a boolean or a choice"),
    }
}

/// What can be chosen, with the names for people that there are; none for what is no enum of unit variants
fn choices(schema: &Object<String, Value>) -> Option<Vec<(&str, Option<&str>)>> {
    if let Some(ways) = schema.get("oneOf") {
        let mut all = Vec::new();
        for way in ways.as_array()? {
            let way = way.as_object()?;
            let name = text(way, "title").or_else(|| text(way, "description"));
            all.extend(choices(way)?.into_iter().map(|(value, _)| (value, name)));
        }
        return Some(all);
    }
    if let Some(only) = schema.get("const") {
        return Some(Vec::from([(only.as_str()?, None)]));
    }
    let values = schema.get("enum")?.as_array()?.iter().filter(|value| !value.is_null());
    values.map(|value| value.as_str().map(|value| (value, None))).collect()
}

fn text<'s>(schema: &'s Object<String, Value>, name: &str) -> Option<&'s str> {
    schema.get(name)?.as_str()
}

/// The schema of a field, and that of its type, which may be the same
struct Schema<'s> {
    outer: &'s Object<String, Value>,
    inner: &'s Object<String, Value>,
}

/// Sets what every kind of field has
macro_rules! describe {
    ($schema:expr, $field:ident, $default:expr) => {{
        $field.title = $schema.text("title");
        $field.description = $schema.text("description");
        $field.default = $schema.outer.get("default").and_then($default);
        $field
    }};
}

impl Schema<'_> {
    fn text(&self, name: &str) -> Option<String> {
        text(self.outer, name).or_else(|| text(self.inner, name)).map(String::from)
    }

    /// The type, null left out
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
        let format = text(self.inner, "format").map(StringFormat::from);
        field.format = format.filter(|format| !matches!(format, StringFormat::Other(_)));
        describe!(self, field, |v| v.as_str().map(String::from))
    }

    fn number(&self, mut field: NumberSchema) -> NumberSchema {
        let bound = |name: &str| self.inner.get(name).and_then(Value::as_f64);
        // The types of 32 bits say theirs only by their name.
        let (least, most) = match text(self.inner, "format") {
            Some("int32") => (Some(f64::from(i32::MIN)), Some(f64::from(i32::MAX))),
            Some("uint32") => (None, Some(f64::from(u32::MAX))),
            _ => (None, None),
        };
        field.minimum = bound("minimum").or(least);
        field.maximum = bound("maximum").or(most);
        describe!(self, field, Value::as_f64)
    }

    fn described(&self, mut field: BooleanSchema, default: fn(&Value) -> Option<bool>) -> BooleanSchema {
        describe!(self, field, default)
    }

    fn one_of(&self, choices: Vec<(&str, Option<&str>)>) -> PrimitiveSchemaDefinition {
        let default = |v: &Value| v.as_str().map(String::from);
        if choices.iter().any(|(_, name)| name.is_some()) {
            let mut field = EnumSchema::one_of_titled(choices.into_iter().map(named));
            return describe!(self, field, default).into();
        }
        let mut field = EnumSchema::one_of(choices.into_iter().map(|(value, _)| value));
        describe!(self, field, default).into()
    }

    fn any_of(&self, choices: Vec<(&str, Option<&str>)>) -> PrimitiveSchemaDefinition {
        let default = |v: &Value| {
            let chosen = v.as_array()?.iter().map(|one| one.as_str().map(String::from));
            chosen.collect::<Option<Vec<_>>>()
        };
        let (least, most) = (self.count("minItems"), self.count("maxItems"));
        if choices.iter().any(|(_, name)| name.is_some()) {
            let mut field = EnumSchema::any_of_titled(choices.into_iter().map(named));
            (field.min_items, field.max_items) = (least, most);
            return describe!(self, field, default).into();
        }
        let mut field = EnumSchema::any_of(choices.into_iter().map(|(value, _)| value));
        (field.min_items, field.max_items) = (least, most);
        describe!(self, field, default).into()
    }
}

/// A choice without a name is its own
fn named<'s>((value, name): (&'s str, Option<&'s str>)) -> (&'s str, &'s str) {
    (value, name.unwrap_or(value))
}

/// Asks a type for the names of its fields, in their order, and reads nothing
struct FieldNames<'o>(&'o mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is nothing to read"))
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

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
#[path = "of_tests.rs"]
mod tests;
