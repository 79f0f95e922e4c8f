//! Schemas of Rust types, by `schemars` (feature `schemars`).

use alloc::string::String;
use alloc::vec::Vec;

use schemars::generate::SchemaGenerator;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::results::{IntoToolResult, Json, NoResult};
use crate::model::{CallToolResult, Tool, settings};
use crate::raw::RawJson;

pub use schemars;

/// How schemas are spelt: clients differ in what they understand, and some drop tools whose schemas they do not
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Profile {
    /// JSON Schema 2020-12, without what only some tools know: formats of numbers, titles that name Rust types
    #[default]
    Standard,
    /// Also without what some clients cannot read: an `Option` is not said to be `null`, and a constant is an `enum`
    ///
    /// A validator then refuses `null` where it is not said, although serde would take it.
    Plain,
}

/// The schema of a type that arguments are read as
#[must_use]
pub fn arguments<T: JsonSchema>(profile: Profile) -> RawJson {
    let mut schema = root::<T>(settings().for_deserialize().into_generator(), profile);
    // `()` takes no arguments, as `NoArguments` does.
    if schema.get("type").is_some_and(|kind| kind == "null") {
        schema = NoArguments::json_schema(&mut SchemaGenerator::default());
    }
    // Arguments are an object whatever the type says (TOOL-007); an enum, for instance, does not say so at its root.
    if schema.get("type").is_none() {
        schema.insert("type".into(), "object".into());
    }
    raw(&schema)
}

/// A tool whose arguments are read as `T`, to be described further
///
/// ```
/// use mcp_proto::router::schema::{self, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let tool = schema::tool::<Add>("add").title("Addition").description("Adds two numbers");
/// assert!(tool.input_schema.as_str().contains(r#""required":["a","b"]"#));
/// ```
#[must_use]
pub fn tool<T: JsonSchema>(name: impl Into<String>) -> Tool {
    Tool::new(name, arguments::<T>(Profile::Standard))
}

/// The schema of a type that structured results are written from
#[must_use]
pub fn result<T: JsonSchema>(profile: Profile) -> RawJson {
    raw(&root::<T>(settings().for_serialize().into_generator(), profile))
}

fn root<T: JsonSchema>(generator: SchemaGenerator, profile: Profile) -> Schema {
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("title");
    if schema.get("$defs").is_some_and(|d| d.as_object().is_some_and(|d| d.is_empty())) {
        schema.remove("$defs");
    }
    match profile {
        Profile::Standard => standard(&mut schema),
        Profile::Plain => plain(&mut schema),
    }
    schema
}

fn standard(schema: &mut Schema) {
    format(schema);
    members(schema);
    transform_subschemas(&mut standard, schema);
}

/// Formats are for strings: those of numbers are not of JSON Schema
fn format(schema: &mut Schema) {
    let is_text = schema.get("type").is_none_or(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|k| k == "string"),
        kind => kind == "string",
    });
    if !is_text {
        schema.remove("format");
    }
}

/// A member that may be anything is `{}` rather than `true`: until 2025-11-25 a schema of a tool has objects there, and
/// clients refuse the whole list otherwise
fn members(schema: &mut Schema) {
    let Some(Value::Object(members)) = schema.get_mut("properties") else { return };
    for member in members.values_mut().filter(|member| **member == Value::Bool(true)) {
        *member = Value::Object(serde_json::Map::new());
    }
}

fn plain(schema: &mut Schema) {
    format(schema);
    members(schema);
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &**kinds {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(ways)) = schema.get_mut("anyOf") {
        ways.retain(|way| way.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = &**ways {
            let only = only.clone();
            schema.remove("anyOf");
            for (name, value) in only {
                if schema.get(&name).is_none() {
                    schema.insert(name, value);
                }
            }
        }
    }
    if let Some(constant) = schema.remove("const") {
        schema.insert("enum".into(), Value::Array(Vec::from([constant])));
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // Only now, since something may have come up from an `anyOf`.
    transform_subschemas(&mut plain, schema);
}

/// A schema is a JSON object already
fn raw(schema: &Schema) -> RawJson {
    RawJson::encode(schema).unwrap_or_else(|_| RawJson::trusted(bytes::Bytes::from_static(b"{}")))
}

/// A value as a structured result, with the schema of its type for the tool's `outputSchema` (TOOL-015)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResult for Typed<T> {
    fn into_tool_result(self) -> Result<CallToolResult<'static>, NoResult> {
        Json(self.0).into_tool_result()
    }

    fn output_schema() -> Option<RawJson> {
        Some(result::<T>(Profile::Standard))
    }
}

/// No arguments (TOOL-008), as `()` says too
///
/// The schema says that there are none; when somebody sends some nevertheless, and no validator minds, they are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": false})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::string::String;

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only its schema matters")]
    enum Colour {
        Red,
        Blue,
    }

    /// An order
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Order {
        /// How many
        count: u32,
        price: Option<f64>,
        colour: Option<Colour>,
        #[serde(default)]
        tags: Vec<String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Tree {
        left: Option<Box<Self>>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Anything {
        value: Value,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    #[allow(dead_code, reason = "only its schema matters")]
    enum Shape {
        Dot,
        Disc { radius: f64 },
    }

    // covers: TOOL-007, TOOL-008, TOOL-009
    #[test]
    fn schemas_are_spelt_so_that_clients_read_them() {
        for (got, expected) in [
            (
                arguments::<Order>(Profile::Standard),
                r#"{"description":"An order","properties":{"colour":{"enum":["red","blue",null],"type":["string","null"]},"count":{"description":"How many","minimum":0,"type":"integer"},"price":{"type":["number","null"]},"tags":{"default":[],"items":{"type":"string"},"type":"array"}},"required":["count"],"type":"object"}"#,
            ),
            (
                arguments::<Order>(Profile::Plain),
                r#"{"description":"An order","properties":{"colour":{"enum":["red","blue"],"type":"string"},"count":{"description":"How many","minimum":0,"type":"integer"},"price":{"type":"number"},"tags":{"default":[],"items":{"type":"string"},"type":"array"}},"required":["count"],"type":"object"}"#,
            ),
            (arguments::<NoArguments>(Profile::Plain), r#"{"additionalProperties":false,"type":"object"}"#),
            (arguments::<()>(Profile::Plain), r#"{"additionalProperties":false,"type":"object"}"#),
            (arguments::<Tree>(Profile::Plain), r##"{"properties":{"left":{"$ref":"#"}},"type":"object"}"##),
            (
                arguments::<Anything>(Profile::Standard),
                r#"{"properties":{"value":{}},"required":["value"],"type":"object"}"#,
            ),
            (
                arguments::<Shape>(Profile::Plain),
                r#"{"oneOf":[{"properties":{"kind":{"enum":["dot"],"type":"string"}},"required":["kind"],"type":"object"},{"properties":{"kind":{"enum":["disc"],"type":"string"},"radius":{"type":"number"}},"required":["kind","radius"],"type":"object"}],"type":"object"}"#,
            ),
            (
                Typed::<Vec<u8>>::output_schema().expect("a schema"),
                r#"{"items":{"maximum":255,"minimum":0,"type":"integer"},"type":"array"}"#,
            ),
        ] {
            // Members stand as other crates have `serde_json` order them.
            let got: Value = got.parse().expect("JSON");
            let expected: Value = serde_json::from_str(expected).expect("JSON");
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn extra_arguments_of_a_tool_without_any_are_ignored() {
        assert_eq!(
            serde_json::from_str::<NoArguments>(r#"{"random_string":""}"#).expect("none"),
            NoArguments {}
        );
    }
}
