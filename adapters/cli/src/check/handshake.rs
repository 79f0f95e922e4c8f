//! How a server introduces itself

use core::time::Duration;

use mcp_proto::{Era, Version};
use serde_json::Value;

use super::entries;
use super::modern;
use super::rules;
use super::stream::kind;
use super::talk::{Answer, Failed, Talk, Waited};

/// What came of the first request
pub(super) enum Greeting {
    /// The server speaks this era
    Spoken,
    /// It says that it does not
    Refused(Failed),
    /// It does not, or cannot be understood
    Missed(String),
    /// It means to, and its answer is of no use; the report says why
    Broken(String),
}

/// The legacy handshake
pub(super) fn initialize(talk: &mut Talk<'_>, version: Version) -> Greeting {
    let waited = talk.initialize(version.as_str(), talk.setup().connect_timeout);
    let answer = match understood(talk, waited, talk.setup().connect_timeout) {
        Ok(answer) => answer,
        Err(greeting) => return greeting,
    };
    let place = "`initialize`";
    let report = talk.report;
    let complain = |what: String| report.add(rules::INITIALIZE_RESULT, place, what);
    for (member, right) in [
        ("protocolVersion", answer["protocolVersion"].is_string()),
        ("capabilities", answer["capabilities"].is_object()),
        ("serverInfo", answer["serverInfo"].is_object()),
    ] {
        if !right {
            complain(format!("`{member}` is {}", absent(answer.get(member))));
        }
    }
    for member in ["name", "version"] {
        let value = answer["serverInfo"].get(member);
        if answer["serverInfo"].is_object() && !value.is_some_and(Value::is_string) {
            complain(format!("`serverInfo.{member}` is {}", absent(value)));
        }
    }
    if answer.get("instructions").is_some_and(|text| !text.is_string()) {
        complain(format!("`instructions` is {}", absent(answer.get("instructions"))));
    }
    let named = answer["protocolVersion"].as_str().unwrap_or_default();
    let agreed = match Version::from_name(named) {
        Some(agreed) if agreed.era() == Era::Legacy => agreed,
        Some(_) => {
            report.add(rules::VERSION_MODERN, place, format!("it was answered with {named}"));
            return Greeting::Broken(format!("was answered with {named}, which has no handshake"));
        }
        None => {
            // Without any, the result was complained about already.
            if !named.is_empty() {
                report.add(rules::VERSION_ECHOED, place, format!("{version} was answered with {named:?}"));
            }
            return Greeting::Broken(format!("was answered with the revision {named:?}"));
        }
    };
    report.revision(Some(agreed));
    entries::icons(talk, agreed, "`serverInfo`", &answer["serverInfo"]);
    talk.initialized(agreed, answer["capabilities"].clone());
    Greeting::Spoken
}

/// The first request of the modern era
pub(super) fn discover(talk: &mut Talk<'_>, wait: Duration) -> Greeting {
    let version = talk.version();
    let waited = talk.discover(version.as_str(), wait);
    let answer = match &waited {
        Waited::Answer(answer) => answer.clone(),
        _ => Answer::None,
    };
    let result = match understood(talk, waited, wait) {
        Ok(result) => result,
        Err(greeting) => return greeting,
    };
    if result.get("supportedVersions").is_none() && result.get("resultType").is_none() {
        return Greeting::Missed("was answered with a result that is none of this method".into());
    }
    let place = "`server/discover`";
    let report = talk.report;
    modern::judge(report, "server/discover", &answer);
    let complain = |what: String| report.add(rules::DISCOVER_RESULT, place, what);
    let listed = result["supportedVersions"].as_array();
    if !listed.is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string)) {
        let what = absent(result.get("supportedVersions"));
        complain(format!("`supportedVersions` has to be an array of strings, and is {what}"));
    } else if !listed.is_some_and(|list| list.iter().any(|listed| listed == version.as_str())) {
        let what = format!("a request in {version} was answered, and {version} is not listed");
        report.add(rules::DISCOVER_VERSIONS, place, what);
    }
    if !result["capabilities"].is_object() {
        complain(format!("`capabilities` is {}", absent(result.get("capabilities"))));
    }
    if result.get("instructions").is_some_and(|text| !text.is_string()) {
        complain(format!("`instructions` is {}", absent(result.get("instructions"))));
    }
    talk.capabilities = result["capabilities"].clone();
    Greeting::Spoken
}

/// The result, or what to say instead of one
fn understood(talk: &mut Talk<'_>, waited: Waited, wait: Duration) -> Result<Value, Greeting> {
    Err(match waited {
        Waited::Answer(Answer::Error(failed)) => Greeting::Refused(failed),
        Waited::Answer(answer) => match answer.result() {
            Some(result) => return Ok(result),
            None => Greeting::Missed("was answered with something that cannot be read".into()),
        },
        Waited::Silent => Greeting::Missed(format!("no answer within {} s", wait.as_secs_f64())),
        Waited::Gone => Greeting::Missed(format!("{}, and no answer came", talk.fate())),
        Waited::Spoiled => Greeting::Missed("no answer in what it writes to stdout".into()),
    })
}

/// The capabilities, once they are known
pub(super) fn capabilities(talk: &Talk<'_>) {
    let place = if talk.is_modern() { "`server/discover`" } else { "`initialize`" };
    let Some(members) = talk.capabilities.as_object() else { return };
    for (name, value) in members {
        let known = ["tools", "resources", "prompts", "logging", "completions", "experimental", "extensions"];
        if !known.contains(&name.as_str()) {
            continue;
        }
        let Some(inner) = value.as_object() else {
            talk.report.add(
                rules::CAPABILITIES,
                place,
                format!("the capability `{name}` is {}", kind(value)),
            );
            continue;
        };
        for detail in ["listChanged", "subscribe"] {
            if inner.get(detail).is_some_and(|value| !value.is_boolean()) {
                let what = format!("`{name}.{detail}` is {}", kind(&inner[detail]));
                talk.report.add(rules::CAPABILITIES, place, what);
            }
        }
        if name == "extensions" && talk.is_modern() {
            for id in inner.keys().filter(|id| !entries::is_meta_key(id) || !id.contains('/')) {
                talk.report.add(rules::EXTENSION_ID, place, format!("the extension `{id}`"));
            }
        }
    }
}

/// What is there instead of what should be
pub(super) fn absent(value: Option<&Value>) -> &'static str {
    value.map_or("not there", kind)
}
