//! Arguments and payloads that are checked against the schemas of their types.

use mcp_proto::router::{SchemaError, SchemaValidator, Validate, Violations};

use super::*;

/// Checks `type` and `required` of objects; a stand-in for a validator of JSON Schema.
struct Members;

struct Required(Vec<String>);

impl SchemaValidator for Members {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        let schema: Value = schema.parse().expect("JSON");
        if schema["type"] != "object" {
            return Err(SchemaError::Invalid("`type` is no object".into()));
        }
        let required = schema["required"].as_array().into_iter().flatten();
        Ok(Box::new(Required(required.map(|name| name.as_str().expect("a name").into()).collect())))
    }
}

impl Validate for Required {
    fn validate(&self, value: &[u8]) -> Result<(), Violations> {
        let value: Value = serde_json::from_slice(value).expect("JSON");
        let mut violations = Violations::new();
        for name in self.0.iter().filter(|name| value[name.as_str()].is_null()) {
            violations.push(&format!("/{name}"), "is missing");
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

fn mail() -> Event {
    let [input, payload] =
        ["folder", "from"].map(|name| raw(&format!(r#"{{"type":"object","required":["{name}"]}}"#)));
    Event::new("mail", input, payload)
}

// covers: EVT-033, EVT-046
#[test]
fn schemas_decide_about_payloads_and_arguments() {
    let events = Events::new().expect("entropy");
    events.validator(Members);
    let publisher = events.add(mail()).expect("a type");
    let mut harness = Harness::new(&events);
    let params = json!({"name": "mail", "arguments": {"folder": "in"}});
    let cursor = harness.result(1, wire::POLL, params.clone())["cursor"].clone();
    let data = raw(r#"{"subject":"marker"}"#);
    let refused = publisher.publish(&data).expect_err("no sender");
    assert_eq!(refused.to_string(), "the payload does not match its schema: /from: is missing");
    let event = EventOccurrence::new("evt-1", "mail", "2026-11-25T10:00:00Z", data);
    assert!(matches!(events.publish(&event), Err(PublishError::Schema(_))), "on every way");
    publisher.publish(&raw(r#"{"from":"bob"}"#)).expect("published");
    let params = json!({"name": "mail", "arguments": {"folder": "in"}, "cursor": cursor});
    let polled = harness.result(2, wire::POLL, params);
    assert_eq!(polled["events"].as_array().map(Vec::len), Some(1), "nothing else was published");
    for (id, method) in [(3, wire::POLL), (4, wire::STREAM)] {
        let sent = harness.request(id, method, json!({"name": "mail", "arguments": {"from": "bob"}}));
        assert_eq!(sent[0]["error"]["code"], -32602);
        let message = sent[0]["error"]["message"].as_str().expect("a message");
        assert!(message.contains("`params.arguments`: /folder: is missing"), "{message}");
    }
}

/// A validator with a bug.
struct Buggy;

impl SchemaValidator for Buggy {
    fn compile(&self, _: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        Ok(Box::new(Self))
    }
}

impl Validate for Buggy {
    fn validate(&self, _: &[u8]) -> Result<(), Violations> {
        panic!("a bug of the validator")
    }
}

// covers: EVT-046
#[test]
fn validator_that_panics_refuses_the_call_and_the_loop_goes_on() {
    let events = Events::new().expect("entropy");
    events.validator(Buggy);
    events.add(mail()).expect("a type");
    let mut harness = Harness::new(&events);
    for (id, method) in [(1, wire::POLL), (2, wire::STREAM)] {
        assert_eq!(harness.error(id, method, json!({"name": "mail"})).0, -32603);
    }
    assert_eq!(harness.result(3, wire::LIST, json!({}))["events"][0]["name"], "mail");
}

// covers: EVT-011
#[test]
fn schema_that_the_validator_cannot_use_is_refused_by_its_name() {
    let events = Events::new().expect("entropy");
    let odd = || Event::new("odd", raw(r#"{"type":"object"}"#), raw(r#"{"type":"string"}"#));
    // Before there is a validator, a schema is a description; later it is checked from then on.
    let publisher = events.add(odd()).expect("a type");
    publisher.publish(&raw("{}")).expect("published");
    events.validator(Members);
    publisher.publish(&raw("{}")).expect("published");
    assert_eq!(
        events.add(odd()).expect_err("no object").to_string(),
        "the event type `odd` cannot be added: `payloadSchema` is not valid: `type` is no object"
    );
    publisher.publish(&raw("{}")).expect("nothing changed");
}
