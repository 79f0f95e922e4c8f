//! What is asked and what is answered: forms as programs build them are valid in every revision that has them, and our
//! check of answers says what a validator of JSON Schema says; the transcripts' questions and answers belong together.

extern crate alloc;

use alloc::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mcp_proto::model::*;
use mcp_proto::{Capabilities, EncodeError, RawJson, Version};
use mcp_tests::harness::Rng;
use mcp_tests::schema::Schemas;
use serde_json::{Value, json};

fn value(json: &RawJson) -> Value {
    serde_json::from_str(json.as_str()).expect("JSON")
}

/// Forms of every kind of field, with and without what each can have
fn forms() -> Vec<ElicitSchema> {
    let choices = ["option1", "option2", "option3"];
    let titled = || choices.map(|c| (c, c.to_uppercase()));
    let legacy = LegacyTitledEnumSchema::new(choices.map(String::from), titled().map(|(_, title)| title));
    vec![
        ElicitSchema::default(),
        // Every kind has a default.
        ElicitSchema::default()
            .optional("name", StringSchema::new().default("John Doe"))
            .optional("age", NumberSchema::integer().default(30))
            .optional("score", NumberSchema::number().default(95.5))
            .optional("status", EnumSchema::one_of(choices).default("option1"))
            .optional("verified", BooleanSchema::new().default(true)),
        ElicitSchema::default()
            .field("untitledSingle", EnumSchema::one_of(choices))
            .optional("titledSingle", EnumSchema::one_of_titled(titled()).default("option2"))
            .optional("legacyEnum", legacy.default("option3")),
        ElicitSchema::default()
            .field(
                "untitledMulti",
                EnumSchema::any_of(choices).min_items(1u32).default(vec!["option1".into()]),
            )
            .optional("titledMulti", EnumSchema::any_of_titled(titled()).min_items(1u32).max_items(2u32))
            .optional("any", EnumSchema::any_of(choices)),
        ElicitSchema::default().field(
            "short",
            StringSchema::new().title("t").description("d").min_length(1u32).max_length(3u32),
        ),
        ElicitSchema::default().optional("mail", StringSchema::new().format(StringFormat::Email)),
        ElicitSchema::default().optional("uri", StringSchema::new().format(StringFormat::Uri)),
        ElicitSchema::default().optional("date", StringSchema::new().format(StringFormat::Date)),
        ElicitSchema::default().optional("moment", StringSchema::new().format(StringFormat::DateTime)),
        ElicitSchema::default()
            .field("whole", NumberSchema::integer().minimum(-1).maximum(40))
            .field("part", NumberSchema::number().minimum(-1.5).maximum(2.5))
            .optional("open", NumberSchema::number())
            .field("yes", BooleanSchema::new()),
    ]
}

fn several(form: &ElicitSchema) -> bool {
    use PrimitiveSchemaDefinition::{MultiSelect, TitledMultiSelect};
    form.properties.iter().any(|(_, field)| matches!(field, MultiSelect(_) | TitledMultiSelect(_)))
}

// covers: ELIC-008, ELIC-009, ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-017, ELIC-018, MRTR-006
#[test]
fn forms_and_their_answers_are_valid_in_every_revision() {
    let Some(schemas) = Schemas::from_env() else { return };
    for form in forms() {
        assert_eq!(form.validate(), Ok(()));
        let question = InputRequest::Elicit(ElicitParams::form("m", form.clone()));
        assert_eq!(question.validate(), Ok(()));
        let answer = ElicitResult::accept(form.fill_defaults(Map::new()));
        for version in Version::ALL {
            let has = version >= Version::V2025_11_25 || version >= Version::V2025_06_18 && !several(&form);
            let InputRequest::Elicit(params) = &question else { unreachable!() };
            let params = match encode_for(version, params) {
                Ok(params) => params,
                Err(EncodeError::NotInVersion { .. }) => {
                    assert!(!has, "{version}: {form:?}");
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            assert!(has, "{version}: {params}");
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": value(&params) });
            assert_eq!(schemas.check_type(version.as_str(), "ElicitRequest", &request), Ok(()), "{request}");
            // What the peer makes of it takes the same answers.
            let read = InputRequest::of("elicitation/create", Some(&params)).expect("a question");
            assert_eq!(read.validate(), Ok(()));
            let Ok(answer) = encode_for(version, &answer) else { panic!("{version}: {answer:?}") };
            assert_eq!(
                schemas.check_type(version.as_str(), "ElicitResult", &relaxed(&answer)),
                Ok(()),
                "{answer}"
            );
            assert_eq!(read.read(&answer).is_ok(), question.read(&answer).is_ok());
        }
        let result = InputRequiredResult::new().input_requests([("key", question)]);
        let result = value(&encode_for(Version::V2026_07_28, &result).expect("shaped"));
        assert_eq!(schemas.check_type("2026-07-28", "InputRequiredResult", &result), Ok(()), "{result}");
    }
}

/// Fractions in an answer are right, though the schemas say otherwise (DEC-014)
fn relaxed(answer: &RawJson) -> Value {
    let mut answer = value(answer);
    for (_, field) in answer["content"].as_object_mut().into_iter().flatten() {
        if field.is_f64() {
            *field = json!(1);
        }
    }
    answer
}

const TEXTS: [&str; 16] = [
    "",
    "a",
    "abcd",
    "option1",
    "OPTION1",
    "\u{1F600}\u{1F600}\u{1F600}",
    "\u{1F600}\u{1F600}\u{1F600}\u{1F600}",
    "mara@tide.example",
    "mara@",
    "https://tide.example/a?b#c",
    "tide example",
    "2028-02-29",
    "2026-02-29",
    "2026-07-28T12:00:00Z",
    "2026-07-28T12:00:00.5+02:00",
    "2026-07-28T25:00:00Z",
];

fn any_value(dice: &mut Rng) -> ElicitValue {
    match dice.below(5) {
        0 => ElicitValue::Text((*dice.pick(&TEXTS)).into()),
        1 => ElicitValue::Integer(*dice.pick(&[-2, -1, 0, 1, 2, 3, 40, 41, i64::MAX])),
        2 => ElicitValue::Number(*dice.pick(&[-1.5, -1.75, 0.5, 2.0, 2.5, 2.75, 1e300])),
        3 => ElicitValue::Boolean(dice.chance(50)),
        _ => {
            // Each at most once: JSON Schema minds twice only where it is told to.
            let all = ["option1", "option2", "option3", "option4", ""];
            ElicitValue::Choices(all.iter().filter(|_| dice.chance(35)).map(|c| (*c).into()).collect())
        }
    }
}

/// A value that has a chance to fit
fn likely_value(dice: &mut Rng, field: &PrimitiveSchemaDefinition) -> ElicitValue {
    use PrimitiveSchemaDefinition::{Boolean, MultiSelect, Number, String, TitledMultiSelect};
    for _ in 0..20 {
        let value = any_value(dice);
        let likely = match field {
            Number(_) => matches!(value, ElicitValue::Integer(_) | ElicitValue::Number(_)),
            Boolean(_) => matches!(value, ElicitValue::Boolean(_)),
            MultiSelect(_) | TitledMultiSelect(_) => matches!(value, ElicitValue::Choices(_)),
            String(_) => matches!(value, ElicitValue::Text(_)),
            _ => {
                return ElicitValue::Text((*dice.pick(&["option1", "option2", "option3", "option4"])).into());
            }
        };
        if likely {
            return value;
        }
    }
    any_value(dice)
}

// covers: ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-018, ELIC-020
#[test]
fn answers_fit_exactly_when_a_validator_says_so() {
    let mut dice = Rng::new(7);
    for form in forms() {
        let schema = serde_json::to_value(&form).expect("JSON");
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
        let (mut fit, mut misfit) = (0, 0);
        for _ in 0..3_000 {
            let mut content: Map<ElicitValue> = Map::new();
            for (name, field) in form.properties.iter() {
                match dice.below(20) {
                    0 | 1 => continue,
                    2 => content.insert(name, any_value(&mut dice)),
                    _ => content.insert(name, likely_value(&mut dice, field)),
                };
            }
            if dice.chance(5) {
                content.insert("not asked for", any_value(&mut dice));
            }
            let json = serde_json::to_value(&content).expect("JSON");
            let checked = form.check(&content);
            assert_eq!(checked.is_ok(), validator.is_valid(&json), "{schema} {json}: {checked:?}");
            *if checked.is_ok() { &mut fit } else { &mut misfit } += 1;
            // The same from the wire.
            let question = InputRequest::Elicit(ElicitParams::form("m", form.clone()));
            let answer = RawJson::encode(&ElicitResult::accept(content)).expect("JSON");
            let read = question.read(&answer).map(drop).map_err(|m| m.to_string());
            assert_eq!(read, checked.map_err(|m| format!("`content.{}`: {}", m.path, m.why)), "{answer}");
        }
        assert!(fit > 20, "{fit} of 3000 fit {schema}");
        assert!(misfit > 20 || form.properties.is_empty(), "{misfit} of 3000 do not fit {schema}");
    }
}

/// Whatever comes in, reading and judging it ends, and what is taken can be written again
#[test]
fn mutilated_questions_and_answers_are_survived() {
    let mut dice = Rng::new(11);
    let questions: Vec<InputRequest<'static>> = forms()
        .into_iter()
        .map(|form| InputRequest::Elicit(ElicitParams::form("m", form)))
        .chain([
            InputRequest::Elicit(ElicitParams::url("m", "https://u@tide.example:80/%20?q#f")),
            InputRequest::CreateMessage(
                CreateMessageParams::new(
                    [
                        SamplingMessage::user("a"),
                        SamplingMessage::assistant(ToolUseContent::new("1", "t", raw(&json!({})))),
                        SamplingMessage::user(ToolResultContent::text("1", "x")),
                    ],
                    9u32,
                )
                .metadata(raw(&json!({})))
                .model_preferences(ModelPreferences::new().cost_priority(0.5)),
            ),
            InputRequest::ListRoots(Some(EmptyParams::new())),
        ])
        .collect();
    let answers = [
        r#"{"action":"accept","content":{"short":"\ud83d\ude00","mail":"a@b","date":"2028-02-29","whole":1e2}}"#,
        r#"{"action":"accept","content":{"untitledMulti":["option1"],"moment":"2026-07-28T12:00:00.5+02:00"}}"#,
        r#"{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]}"#,
        r#"{"roots":[{"uri":"file:///a"},{"uri":"file://é","name":"n"}]}"#,
    ];
    let mut mutilate = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len().max(1));
            match dice.below(3) {
                _ if bytes.is_empty() => break,
                0 => bytes[at] = *dice.pick(b"\"{}[],:0192-eE.tfn@/ZT\\\xc3\xff"),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, *dice.pick(b"0-9:\"[]{}@.")),
            }
        }
        RawJson::new(bytes).ok()
    };
    let (mut asked, mut answered) = (0, 0);
    for question in &questions {
        let method = question.method().expect("a method");
        let params = RawJson::encode(question).expect("JSON").member("params").expect("parameters");
        for _ in 0..2_000 {
            let params = mutilate(params.as_str());
            if let Some(Ok(read)) = params.as_ref().map(|params| InputRequest::of(method, Some(params))) {
                let _ = read.validate();
                let _ = read.needs(Version::V2026_07_28);
                RawJson::encode(&read).expect("written again");
                asked += 1;
            }
            let Some(answer) = mutilate(answers[asked % answers.len()]) else { continue };
            if let Ok(read) = question.read(&answer) {
                assert_eq!(question.check(&read), Ok(()));
                RawJson::encode(&read).expect("written again");
                answered += 1;
            }
        }
    }
    assert!(asked > 1_000 && answered > 100, "{asked} questions and {answered} answers were still some");
}

struct Line {
    place: String,
    version: Version,
    message: Value,
    from_client: bool,
    wrong: bool,
}

/// The messages of each transcript
fn transcripts() -> Vec<Vec<Line>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut paths: Vec<_> =
        fs::read_dir(dir).expect("transcripts").map(|e| e.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let messages = lines.iter().enumerate().skip(1).filter_map(|(at, line)| {
            let version = line.get("rev").unwrap_or_else(|| &lines[0]["revision"]).as_str()?;
            Some(Line {
                place: format!("{}:{}", path.file_name()?.to_str()?, at + 1),
                version: Version::from_name(version)?,
                message: line.get("msg")?.clone(),
                from_client: line["dir"] == "c2s",
                wrong: line.get("violation").is_some(),
            })
        });
        all.push(messages.collect());
    }
    all
}

fn raw(json: &Value) -> RawJson {
    RawJson::new(json.to_string()).expect("JSON")
}

/// A question as it stood in a transcript
struct Asked {
    method: String,
    params: Option<RawJson>,
    version: Version,
    /// Whether it may be asked, and of this client
    fine: bool,
}

impl Asked {
    fn question(&self) -> InputRequest<'_> {
        InputRequest::of(&self.method, self.params.as_ref()).expect("a question")
    }
}

// covers: ELIC-003, ELIC-018, ELIC-020, MRTR-006, MRTR-008, MRTR-018, ROOT-005, SAMP-005, SAMP-006, SAMP-011, SAMP-012
#[test]
fn questions_and_answers_of_the_transcripts_belong_together() {
    const METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
    let mut answered: BTreeMap<(String, bool), u32> = BTreeMap::new();
    let mut refusals = 0;
    for lines in transcripts() {
        let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
        let mut capabilities = json!({});
        for Line { place, version, message, from_client, wrong } in lines {
            if wrong {
                continue;
            }
            let params = &message["params"];
            for declared in
                [&params["capabilities"], &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]]
            {
                if declared.is_object() {
                    capabilities = declared.clone();
                }
            }
            if message["error"]["code"] == -32602 && from_client {
                if let Some(refused) = asked.get(&message["id"].to_string()) {
                    assert!(!refused.fine, "{place}");
                    refusals += 1;
                }
            }
            let mut ask = |key: String, request: &Value| {
                let (method, params) = (request["method"].as_str().expect("a method"), request.get("params"));
                let mut asks = Asked { method: method.into(), params: params.map(raw), version, fine: false };
                let question = asks.question();
                let missing = Capabilities::declared(&raw(&capabilities)).missing(&question.needs(version));
                asks.fine = question.validate().is_ok() && missing.is_empty();
                asked.insert(key, asks);
            };
            // Legacy: a request and a response with its id; modern: by key.
            let method = message["method"].as_str().unwrap_or_default();
            if METHODS.contains(&method) && message.get("id").is_some() {
                ask(message["id"].to_string(), &message);
            }
            for (key, request) in message["result"]["inputRequests"].as_object().into_iter().flatten() {
                ask(key.clone(), request);
            }
            let response = message
                .get("result")
                .filter(|_| from_client)
                .map(|result| (message["id"].to_string(), result));
            let retried = params["inputResponses"].as_object().into_iter().flatten();
            for (key, answer) in response.into_iter().chain(retried.map(|(k, v)| (k.clone(), v))) {
                let Some(asked) = asked.get(&key) else { continue };
                let answer = raw(answer);
                let read = asked.question().read(&answer);
                assert!(asked.fine && read.is_ok(), "{place}: {answer}: {read:?}");
                *answered
                    .entry((asked.method.clone(), asked.version >= Version::V2026_07_28))
                    .or_default() += 1;
            }
        }
    }
    assert!(refusals >= 2, "{refusals} questions were refused");
    for method in METHODS {
        for modern in [false, true] {
            assert!(
                answered.contains_key(&(method.into(), modern)),
                "{method}, modern: {modern}: {answered:?}"
            );
        }
    }
}
