//! Forms and input responses against an independent validator, and the input requests of the transcripts.
//!
//! Forms built by programs are valid in every revision that has them. The check of answers agrees with a validator of
//! JSON Schema. In the transcripts, each response fits its request.

use alloc::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mcp_proto::model::*;
use mcp_proto::{Capabilities, EncodeError, RawJson, Version};
use mcp_tests::harness::{Rng, rounds};
use mcp_tests::schema::SchemaSet;
use serde_json::{Value, json};

fn value(json: &RawJson) -> Value {
    serde_json::from_str(json.as_str()).expect("JSON")
}

/// Returns forms of every kind of field, with and without its optional members.
fn forms() -> Vec<ElicitSchema> {
    let choices = ["option1", "option2", "option3"];
    let titled = || choices.map(|c| (c, c.to_uppercase()));
    let legacy = LegacyTitledEnumSchema::new(choices.map(String::from), titled().map(|(_, title)| title));
    vec![
        ElicitSchema::default(),
        // Every kind of field has a default.
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

fn has_multi_select(form: &ElicitSchema) -> bool {
    use PrimitiveSchemaDefinition::{MultiSelect, TitledMultiSelect};
    form.properties.iter().any(|(_, field)| matches!(field, MultiSelect(_) | TitledMultiSelect(_)))
}

// covers: ELIC-008, ELIC-009, ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-017, ELIC-018, MRTR-006
#[test]
fn forms_and_answers_are_valid_in_every_revision_with_forms() {
    let Some(schemas) = SchemaSet::from_env() else { return };
    for form in forms() {
        assert_eq!(form.validate(), Ok(()));
        let request = InputRequest::Elicit(ElicitParams::form("m", form.clone()));
        assert_eq!(request.validate(), Ok(()));
        let answer = ElicitResult::accept(form.fill_defaults(Map::new()));
        for version in Version::ALL {
            let has = version >= Version::V2025_11_25
                || version >= Version::V2025_06_18 && !has_multi_select(&form);
            let InputRequest::Elicit(params) = &request else { unreachable!() };
            let params = match encode_for(version, params) {
                Ok(params) => params,
                Err(EncodeError::NotInVersion { .. }) => {
                    assert!(!has, "{version}: {form:?}");
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            assert!(has, "{version}: {params}");
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": value(&params) });
            assert_eq!(schemas.check_type(version.as_str(), "ElicitRequest", &message), Ok(()), "{message}");
            // The form as the peer reads it accepts the same answers.
            let read =
                InputRequest::from_parts("elicitation/create", Some(&params)).expect("an input request");
            assert_eq!(read.validate(), Ok(()));
            let Ok(answer) = encode_for(version, &answer) else { panic!("{version}: {answer:?}") };
            assert_eq!(
                schemas.check_type(version.as_str(), "ElicitResult", &relax_answer(&answer)),
                Ok(()),
                "{answer}"
            );
            assert_eq!(read.parse_response(&answer).is_ok(), request.parse_response(&answer).is_ok());
        }
        let result = InputRequiredResult::new().input_requests([("key", request)]);
        let result = value(&encode_for(Version::V2026_07_28, &result).expect("shaped"));
        assert_eq!(schemas.check_type("2026-07-28", "InputRequiredResult", &result), Ok(()), "{result}");
    }
}

/// Returns an answer without fractions, which are valid although the schema refuses them (DEC-014).
fn relax_answer(answer: &RawJson) -> Value {
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

fn random_value(rng: &mut Rng) -> ElicitValue {
    match rng.below(5) {
        0 => ElicitValue::Text((*rng.pick(&TEXTS)).into()),
        1 => ElicitValue::Integer(*rng.pick(&[-2, -1, 0, 1, 2, 3, 40, 41, i64::MAX])),
        2 => ElicitValue::Number(*rng.pick(&[-1.5, -1.75, 0.5, 2.0, 2.5, 2.75, 1e300])),
        3 => ElicitValue::Boolean(rng.percent(50)),
        _ => {
            // Each choice at most once: JSON Schema checks repetitions only if the schema asks for it.
            let all = ["option1", "option2", "option3", "option4", ""];
            ElicitValue::Choices(all.iter().filter(|_| rng.percent(35)).map(|c| (*c).into()).collect())
        }
    }
}

/// Returns a value that is likely to fit the field.
fn plausible_value(rng: &mut Rng, field: &PrimitiveSchemaDefinition) -> ElicitValue {
    use PrimitiveSchemaDefinition::{Boolean, MultiSelect, Number, String, TitledMultiSelect};
    for _ in 0..20 {
        let value = random_value(rng);
        let likely = match field {
            Number(_) => matches!(value, ElicitValue::Integer(_) | ElicitValue::Number(_)),
            Boolean(_) => matches!(value, ElicitValue::Boolean(_)),
            MultiSelect(_) | TitledMultiSelect(_) => matches!(value, ElicitValue::Choices(_)),
            String(_) => matches!(value, ElicitValue::Text(_)),
            _ => {
                return ElicitValue::Text((*rng.pick(&["option1", "option2", "option3", "option4"])).into());
            }
        };
        if likely {
            return value;
        }
    }
    random_value(rng)
}

// covers: ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-018, ELIC-020
#[test]
fn answer_fits_if_and_only_if_a_validator_accepts_it() {
    let mut rng = Rng::new(7);
    for form in forms() {
        let schema = serde_json::to_value(&form).expect("JSON");
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
        let (mut fit, mut mismatch) = (0, 0);
        for _ in 0..rounds(3_000) {
            let mut content: Map<ElicitValue> = Map::new();
            for (name, field) in form.properties.iter() {
                match rng.below(20) {
                    0 | 1 => continue,
                    2 => content.insert(name, random_value(&mut rng)),
                    _ => content.insert(name, plausible_value(&mut rng, field)),
                };
            }
            if rng.percent(5) {
                content.insert("undeclared", random_value(&mut rng));
            }
            let json = serde_json::to_value(&content).expect("JSON");
            let checked = form.check(&content);
            assert_eq!(checked.is_ok(), validator.is_valid(&json), "{schema} {json}: {checked:?}");
            *if checked.is_ok() { &mut fit } else { &mut mismatch } += 1;
            // The answer read from its message gives the same result.
            let request = InputRequest::Elicit(ElicitParams::form("m", form.clone()));
            let answer = RawJson::encode(&ElicitResult::accept(content)).expect("JSON");
            let read = request.parse_response(&answer).map(drop).map_err(|m| m.to_string());
            assert_eq!(read, checked.map_err(|m| format!("`content.{}`: {}", m.path, m.reason)), "{answer}");
        }
        assert!(fit > rounds(20), "{fit} fit {schema}");
        assert!(mismatch > rounds(20) || form.properties.is_empty(), "{mismatch} do not fit {schema}");
    }
}

/// Malformed input never panics, and what is accepted can be written again.
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn mutated_requests_and_answers_never_panic() {
    let mut rng = Rng::new(11);
    let input_requests: Vec<InputRequest<'static>> = forms()
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
    let mut mutate = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len().max(1));
            match rng.below(3) {
                _ if bytes.is_empty() => break,
                0 => bytes[at] = *rng.pick(b"\"{}[],:0192-eE.tfn@/ZT\\\xc3\xff"),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, *rng.pick(b"0-9:\"[]{}@.")),
            }
        }
        RawJson::new(bytes).ok()
    };
    let (mut request_count, mut answer_count) = (0, 0);
    for request in &input_requests {
        let method = request.method().expect("a method");
        let params = RawJson::encode(request).expect("JSON").member("params").expect("parameters");
        for _ in 0..rounds(2_000) {
            let params = mutate(params.as_str());
            if let Some(Ok(read)) =
                params.as_ref().map(|params| InputRequest::from_parts(method, Some(params)))
            {
                let _ = read.validate();
                let _ = read.required_capabilities(Version::V2026_07_28);
                RawJson::encode(&read).expect("written again");
                request_count += 1;
            }
            let Some(answer) = mutate(answers[request_count % answers.len()]) else { continue };
            if let Ok(read) = request.parse_response(&answer) {
                assert_eq!(request.check_response(&read), Ok(()));
                RawJson::encode(&read).expect("written again");
                answer_count += 1;
            }
        }
    }
    assert!(
        request_count as u64 > rounds(1_000) && answer_count > rounds(100),
        "{request_count} requests and {answer_count} answers were valid"
    );
}

struct TranscriptLine {
    location: String,
    version: Version,
    message: Value,
    is_from_client: bool,
    is_invalid: bool,
}

/// Returns the messages of each transcript.
fn transcripts() -> Vec<Vec<TranscriptLine>> {
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
            Some(TranscriptLine {
                location: format!("{}:{}", path.file_name()?.to_str()?, at + 1),
                version: Version::from_name(version)?,
                message: line.get("msg")?.clone(),
                is_from_client: line["dir"] == "c2s",
                is_invalid: line.get("violation").is_some(),
            })
        });
        all.push(messages.collect());
    }
    all
}

fn raw(json: &Value) -> RawJson {
    RawJson::new(json.to_string()).expect("JSON")
}

/// An input request of a transcript.
struct RecordedRequest {
    method: String,
    params: Option<RawJson>,
    version: Version,
    /// Whether it is valid and within the capabilities of the client.
    is_valid: bool,
}

impl RecordedRequest {
    fn input_request(&self) -> InputRequest<'_> {
        InputRequest::from_parts(&self.method, self.params.as_ref()).expect("an input request")
    }
}

// covers: ELIC-003, ELIC-018, ELIC-020, MRTR-006, MRTR-008, MRTR-018, ROOT-005, SAMP-005, SAMP-006, SAMP-011, SAMP-012
#[test]
fn responses_of_transcripts_fit_their_requests() {
    const METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
    let mut answer_count: BTreeMap<(String, bool), u32> = BTreeMap::new();
    let mut refusals = 0;
    for lines in transcripts() {
        let mut requests: BTreeMap<String, RecordedRequest> = BTreeMap::new();
        let mut capabilities = json!({});
        for TranscriptLine { location, version, message, is_from_client, is_invalid } in lines {
            if is_invalid {
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
            if message["error"]["code"] == -32602 && is_from_client {
                if let Some(refused) = requests.get(&message["id"].to_string()) {
                    assert!(!refused.is_valid, "{location}");
                    refusals += 1;
                }
            }
            let mut record = |key: String, request: &Value| {
                let (method, params) = (request["method"].as_str().expect("a method"), request.get("params"));
                let mut recorded = RecordedRequest {
                    method: method.into(),
                    params: params.map(raw),
                    version,
                    is_valid: false,
                };
                let request = recorded.input_request();
                let missing = Capabilities::from_json(&raw(&capabilities))
                    .missing(&request.required_capabilities(version));
                recorded.is_valid = request.validate().is_ok() && missing.is_empty();
                requests.insert(key, recorded);
            };
            // Legacy: a request, and a response with its id. Modern: by key.
            let method = message["method"].as_str().unwrap_or_default();
            if METHODS.contains(&method) && message.get("id").is_some() {
                record(message["id"].to_string(), &message);
            }
            for (key, request) in message["result"]["inputRequests"].as_object().into_iter().flatten() {
                record(key.clone(), request);
            }
            let response = message
                .get("result")
                .filter(|_| is_from_client)
                .map(|result| (message["id"].to_string(), result));
            let retried = params["inputResponses"].as_object().into_iter().flatten();
            for (key, answer) in response.into_iter().chain(retried.map(|(k, v)| (k.clone(), v))) {
                let Some(recorded) = requests.get(&key) else { continue };
                let answer = raw(answer);
                let read = recorded.input_request().parse_response(&answer);
                assert!(recorded.is_valid && read.is_ok(), "{location}: {answer}: {read:?}");
                *answer_count
                    .entry((recorded.method.clone(), recorded.version >= Version::V2026_07_28))
                    .or_default() += 1;
            }
        }
    }
    assert!(refusals >= 2, "{refusals} requests were refused");
    for method in METHODS {
        for modern in [false, true] {
            assert!(
                answer_count.contains_key(&(method.into(), modern)),
                "{method}, modern: {modern}: {answer_count:?}"
            );
        }
    }
}
