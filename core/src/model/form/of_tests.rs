use super::*;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;

use serde::{Deserialize, Serialize};

use crate::model::{ElicitResult, ElicitValue, Map};

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[serde(rename_all = "lowercase")]
enum Pier {
    #[default]
    North,
    South,
}

/// What a boat can have
#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Extra {
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
struct Stay {
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
    pier: Pier,
    other_pier: Option<Pier>,
    #[serde(default)]
    next_pier: Pier,
    extra: Extra,
    /// A second one
    second_extra: Option<Extra>,
    #[serde(default)]
    piers: Vec<Pier>,
    #[schemars(length(min = 1, max = 2))]
    extras: Option<Vec<Extra>>,
    set: BTreeSet<Pier>,
    boxed: Box<Option<bool>>,
    #[serde(skip)]
    skipped: u8,
}

// covers: ELIC-012, ELIC-013, ELIC-014, ELIC-016
#[test]
fn a_type_becomes_a_form() {
    let form = ElicitSchema::of::<Stay>().expect("a form");
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
fn an_answer_to_the_form_of_a_type_is_read_as_it() {
    let form = ElicitSchema::of::<Stay>().expect("a form");
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
    let stay: Stay = ElicitResult::accept(content).parse().expect("a stay");
    assert_eq!((stay.nights, stay.next_pier, stay.extra), (2, Pier::North, Extra::Power));
    assert_eq!((stay.mail, stay.far, stay.set.len()), (None, i64::MAX, 1));
}

fn refused<T: JsonSchema + DeserializeOwned>() -> String {
    let misfit = ElicitSchema::of::<T>().expect_err("no form can hold it");
    assert!(misfit.why.contains("form"), "{misfit}");
    misfit.path
}

/// One field that no form can hold, behind one that it can
macro_rules! no_form {
    ($($type:ty)*) => {$({
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code, reason = "only its schema matters")]
        struct Holder {
            good: bool,
            bad: $type,
        }
        assert_eq!(refused::<Holder>(), "bad", stringify!($type));
    })*};
}

// covers: ELIC-012
#[test]
fn what_no_form_can_hold_is_named() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Nested {
        x: u8,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    enum Data {
        None,
        One(u8),
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Tree {
        left: Option<Box<Self>>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Open {
        good: bool,
        #[serde(flatten)]
        more: BTreeMap<String, String>,
    }
    no_form! {
        Nested Option<Nested> Data Option<Data> Vec<String> Vec<Nested> Vec<Data> Vec<Vec<Pier>> Vec<Option<u8>>
        BTreeMap<String, u8> (u8, u8) [u8; 2] () Value Option<Value>
    }
    assert_eq!(refused::<Tree>(), "left");
    for path in [
        refused::<Open>(),
        refused::<Pier>(),
        refused::<Data>(),
        refused::<String>(),
        refused::<Vec<Nested>>(),
        refused::<BTreeMap<String, u8>>(),
        refused::<Option<Nested>>(),
        refused::<Value>(),
        refused::<()>(),
    ] {
        assert_eq!(path, "", "not this or that field");
    }
}

// covers: ELIC-012
#[test]
fn wrapped_flattened_and_empty_types() {
    #[derive(Deserialize, JsonSchema)]
    struct Wrapped(Stay);
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Inner {
        z: bool,
        a: bool,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Outer {
        m: bool,
        #[serde(flatten)]
        inner: Inner,
    }
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Empty {}
    let wrapped = ElicitSchema::of::<Wrapped>().expect("a form");
    assert_eq!(wrapped, ElicitSchema::of::<Stay>().expect("a form"));
    let names =
        |form: &ElicitSchema| form.properties.iter().map(|(n, _)| n.to_string()).collect::<BTreeSet<_>>();
    let outer = ElicitSchema::of::<Outer>().expect("a form");
    assert_eq!(names(&outer), ["a", "m", "z"].map(String::from).into());
    assert_eq!(ElicitSchema::of::<Empty>(), Ok(ElicitSchema::default()));
    let _ = |w: Wrapped| w.0;
}
