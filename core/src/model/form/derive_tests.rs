use super::*;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;

use serde::{Deserialize, Serialize};

use crate::model::{ElicitResult, ElicitValue, Map};

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[serde(rename_all = "lowercase")]
enum PierChoice {
    #[default]
    North,
    South,
}

/// What a boat can have
#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Amenity {
    /// Power from the shore
    Power,
    #[schemars(title = "Fresh water")]
    Water,
    Wifi,
}

fn two() -> u8 {
    2
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct StayForm {
    /// Name of the boat
    #[schemars(title = "Boat", length(min = 1, max = 40))]
    name: String,
    #[schemars(email)]
    mail: Option<String>,
    #[schemars(extend("format" = "uuid"), regex(pattern = "^a"))]
    key: Option<String>,
    flag: char,
    #[serde(default = "two")]
    nights: u8,
    guests: u32,
    offset: i32,
    far: i64,
    #[schemars(range(min = 0.5, max = 30))]
    length_m: f64,
    share: Option<f32>,
    #[serde(default)]
    power: bool,
    /// Where to lie
    pier: PierChoice,
    other_pier: Option<PierChoice>,
    #[serde(default)]
    next_pier: PierChoice,
    extra: Amenity,
    /// A second one
    second_extra: Option<Amenity>,
    #[serde(default)]
    piers: Vec<PierChoice>,
    #[schemars(length(min = 1, max = 2))]
    extras: Option<Vec<Amenity>>,
    set: BTreeSet<PierChoice>,
    boxed: Box<Option<bool>>,
    #[serde(skip)]
    skipped: u8,
}

// covers: ELIC-012, ELIC-013, ELIC-014, ELIC-016
#[test]
fn form_is_derived_from_type() {
    let form = ElicitSchema::for_type::<StayForm>().expect("a form");
    assert_eq!(form.validate(), Ok(()));
    let expected = [
        (
            "name",
            r#"{"type":"string","title":"Boat","description":"Name of the boat","minLength":1,"maxLength":40}"#,
        ),
        ("mail", r#"{"type":"string","format":"email"}"#),
        ("key", r#"{"type":"string"}"#),
        ("flag", r#"{"type":"string","minLength":1,"maxLength":1}"#),
        ("nights", r#"{"type":"integer","minimum":0,"maximum":255,"default":2}"#),
        ("guests", r#"{"type":"integer","minimum":0,"maximum":4294967295}"#),
        ("offset", r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#),
        ("far", r#"{"type":"integer"}"#),
        ("lengthM", r#"{"type":"number","minimum":0.5,"maximum":30}"#),
        ("share", r#"{"type":"number"}"#),
        ("power", r#"{"type":"boolean","default":false}"#),
        ("pier", r#"{"type":"string","enum":["north","south"],"description":"Where to lie"}"#),
        ("otherPier", r#"{"type":"string","enum":["north","south"]}"#),
        ("nextPier", r#"{"type":"string","enum":["north","south"],"default":"north"}"#),
        ("extra", r#"{"type":"string","oneOf":[OPTIONS],"description":"What a boat can have"}"#),
        ("secondExtra", r#"{"type":"string","oneOf":[OPTIONS],"description":"A second one"}"#),
        ("piers", r#"{"type":"array","items":{"type":"string","enum":["north","south"]},"default":[]}"#),
        ("extras", r#"{"type":"array","items":{"anyOf":[OPTIONS]},"minItems":1,"maxItems":2}"#),
        ("set", r#"{"type":"array","items":{"type":"string","enum":["north","south"]}}"#),
        ("boxed", r#"{"type":"boolean"}"#),
    ];
    let names: Vec<&str> = form.properties.iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected.map(|(name, _)| name), "in the order of the struct");
    let options = concat!(
        r#"{"const":"power","title":"Power from the shore"},{"const":"water","title":"Fresh water"},"#,
        r#"{"const":"wifi","title":"wifi"}"#
    );
    for (name, text) in expected {
        let field = form.properties.get(name).expect("a field");
        let text = text.replace("OPTIONS", options);
        // By value: undocumented variants stand before documented ones in the schema.
        let sorted = |text: &str| {
            let mut value: Value = serde_json::from_str(text).expect("JSON");
            for list in ["/oneOf", "/items/anyOf"] {
                if let Some(Value::Array(options)) = value.pointer_mut(list) {
                    options.sort_by_key(Value::to_string);
                }
            }
            value
        };
        assert_eq!(sorted(&serde_json::to_string(field).expect("JSON")), sorted(&text), "{name}");
    }
    let required = ["name", "flag", "guests", "offset", "far", "lengthM", "pier", "extra", "set"];
    assert_eq!(form.required.as_deref().expect("some"), required);
}

// covers: ELIC-012, ELIC-017, ELIC-018
#[test]
fn answer_to_derived_form_parses_as_its_type() {
    let form = ElicitSchema::for_type::<StayForm>().expect("a form");
    let content: Map<ElicitValue> = [
        ("name", "Aline".into()),
        ("flag", "B".into()),
        ("guests", 3.into()),
        ("offset", (-1).into()),
        ("far", i64::MAX.into()),
        ("lengthM", 7.5.into()),
        ("pier", "south".into()),
        ("extra", "power".into()),
        ("set", ElicitValue::Choices([String::from("north")].into())),
    ]
    .into();
    let content = form.fill_defaults(content);
    form.check(&content).expect("it fits");
    let stay: StayForm = ElicitResult::accept(content).parse().expect("a stay");
    assert_eq!((stay.nights, stay.next_pier, stay.extra), (2, PierChoice::North, Amenity::Power));
    assert_eq!((stay.mail, stay.far, stay.set.len()), (None, i64::MAX, 1));
}

fn refused_forms<T: JsonSchema + DeserializeOwned>() -> String {
    let mismatch = ElicitSchema::for_type::<T>().expect_err("no form can hold it");
    assert!(mismatch.reason.contains("form"), "{mismatch}");
    mismatch.path
}

/// A field that no form can hold, behind one that it can.
macro_rules! assert_no_form {
    ($($type:ty)*) => {$({
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code, reason = "only its schema matters")]
        struct FieldHolder {
            good: bool,
            bad: $type,
        }
        assert_eq!(refused_forms::<FieldHolder>(), "bad", stringify!($type));
    })*};
}

// covers: ELIC-012
#[test]
fn derivation_names_field_that_no_form_can_hold() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct NestedStruct {
        x: u8,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    enum DataEnum {
        None,
        One(u8),
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct RecursiveForm {
        left: Option<Box<Self>>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct FlattenedMap {
        good: bool,
        #[serde(flatten)]
        more: BTreeMap<String, String>,
    }
    assert_no_form! {
        NestedStruct Option<NestedStruct> DataEnum Option<DataEnum> Vec<String> Vec<NestedStruct> Vec<DataEnum> Vec<Vec<PierChoice>> Vec<Option<u8>>
        BTreeMap<String, u8> (u8, u8) [u8; 2] () Value Option<Value>
    }
    assert_eq!(refused_forms::<RecursiveForm>(), "left");
    for path in [
        refused_forms::<FlattenedMap>(),
        refused_forms::<PierChoice>(),
        refused_forms::<DataEnum>(),
        refused_forms::<String>(),
        refused_forms::<Vec<NestedStruct>>(),
        refused_forms::<BTreeMap<String, u8>>(),
        refused_forms::<Option<NestedStruct>>(),
        refused_forms::<Value>(),
        refused_forms::<()>(),
    ] {
        assert_eq!(path, "", "not this or that field");
    }
}

// covers: ELIC-012
#[test]
fn derivation_accepts_newtype_flattened_and_empty_types() {
    #[derive(Deserialize, JsonSchema)]
    struct NewtypeForm(StayForm);
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct InnerForm {
        z: bool,
        a: bool,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct OuterForm {
        m: bool,
        #[serde(flatten)]
        inner: InnerForm,
    }
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct EmptyForm {}
    let wrapped = ElicitSchema::for_type::<NewtypeForm>().expect("a form");
    assert_eq!(wrapped, ElicitSchema::for_type::<StayForm>().expect("a form"));
    let names =
        |form: &ElicitSchema| form.properties.iter().map(|(n, _)| n.to_string()).collect::<BTreeSet<_>>();
    let outer = ElicitSchema::for_type::<OuterForm>().expect("a form");
    assert_eq!(names(&outer), ["a", "m", "z"].map(String::from).into());
    assert_eq!(ElicitSchema::for_type::<EmptyForm>(), Ok(ElicitSchema::default()));
    let _ = |w: NewtypeForm| w.0;
}
