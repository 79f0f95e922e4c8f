//! Checks of the first request of each era.

use core::time::Duration;

use mcp_proto::{DeprecatedFeature, Era, Version};
use serde_json::Value;

use super::conversation::{CheckAnswer, CheckConversation, ErrorAnswer, WaitOutcome};
use super::messages::value_kind;
use super::rules::rules_of;
use super::versions::{DISCOVER_RESULT, DISCOVER_VERSIONS, VERSION_ECHOED, VERSION_MODERN};
use super::{entries, modern};

rules_of! {
    RULES
    INITIALIZE_RESULT "initialize-result" Error [Spec Hosted] ["LIFE-003"]
        "`initialize` is answered with `protocolVersion`, `capabilities` and `serverInfo`"
        "answer with all of them"
    CAPABILITIES "capabilities" Error [Spec Hosted] ["LIFE-014" "SCHEMA-011"]
        "capabilities are objects with members of the right type"
        "write `\"tools\":{}` for a capability without details"
    EXTENSION_ID "extension-id" Error [Spec Hosted] ["EXT-002"]
        "extensions have identifiers with a prefix"
        "use a prefix from your domain, as in `com.example/feature`"
}

/// Outcome of the first request.
pub(super) enum HandshakeOutcome {
    /// The server supports this era.
    Supported,
    /// The server refused with an error.
    Refused(ErrorAnswer),
    /// The server does not answer, or not in a readable form.
    Failed(String),
    /// The server supports the era but its answer is unusable; the report says why.
    Invalid(String),
}

impl HandshakeOutcome {
    /// Returns why the server does not support the era, if it does not.
    pub(super) fn reason(&self, method: &str) -> Option<String> {
        match self {
            Self::Supported => None,
            Self::Refused(failed) => Some(format!("`{method}` got the error {}", failed.summary())),
            Self::Failed(why) => Some(format!("`{method}`: {why}")),
            Self::Invalid(why) => Some(format!("`{method}` {why}")),
        }
    }
}

/// Performs and checks the legacy handshake.
pub(super) fn initialize(conversation: &mut CheckConversation<'_>, version: Version) -> HandshakeOutcome {
    let waited = conversation.send_initialize(version.as_str(), conversation.setup().connect_timeout);
    let answer = match usable_result(conversation, waited, conversation.setup().connect_timeout) {
        Ok(answer) => answer,
        Err(outcome) => return outcome,
    };
    let location = "`initialize`";
    let report = conversation.report;
    let complain = |what: String| report.add(INITIALIZE_RESULT, location, what);
    for (member, right) in [
        ("protocolVersion", answer["protocolVersion"].is_string()),
        ("capabilities", answer["capabilities"].is_object()),
        ("serverInfo", answer["serverInfo"].is_object()),
    ] {
        if !right {
            complain(format!("`{member}` is {}", describe_missing(answer.get(member))));
        }
    }
    for member in ["name", "version"] {
        let value = answer["serverInfo"].get(member);
        if answer["serverInfo"].is_object() && !value.is_some_and(Value::is_string) {
            complain(format!("`serverInfo.{member}` is {}", describe_missing(value)));
        }
    }
    if answer.get("instructions").is_some_and(|text| !text.is_string()) {
        complain(format!("`instructions` is {}", describe_missing(answer.get("instructions"))));
    }
    let named = answer["protocolVersion"].as_str().unwrap_or_default();
    let agreed = match Version::from_name(named) {
        Some(agreed) if agreed.era() == Era::Legacy => agreed,
        Some(_) => {
            report.add(VERSION_MODERN, location, format!("it was answered with {named}"));
            return HandshakeOutcome::Invalid(format!("was answered with {named}, which has no handshake"));
        }
        None => {
            // An absent revision has already been reported with the result.
            if !named.is_empty() {
                report.add(VERSION_ECHOED, location, format!("{version} was answered with {named:?}"));
            }
            return HandshakeOutcome::Invalid(format!("was answered with the revision {named:?}"));
        }
    };
    report.set_revision(Some(agreed));
    entries::check_icons(conversation, agreed, "`serverInfo`", &answer["serverInfo"]);
    conversation.instructions = answer["instructions"].as_str().unwrap_or_default().to_owned();
    conversation.finish_initialize(agreed, answer["capabilities"].clone());
    HandshakeOutcome::Supported
}

/// Sends and checks the first request of the modern era.
pub(super) fn discover(conversation: &mut CheckConversation<'_>, wait: Duration) -> HandshakeOutcome {
    let version = conversation.version();
    let waited = conversation.send_discover(version.as_str(), wait);
    let answer = match &waited {
        WaitOutcome::Answer(answer) => answer.clone(),
        _ => CheckAnswer::None,
    };
    let result = match usable_result(conversation, waited, wait) {
        Ok(result) => result,
        Err(outcome) => return outcome,
    };
    if result.get("supportedVersions").is_none() && result.get("resultType").is_none() {
        return HandshakeOutcome::Failed("was answered with a result of another method".into());
    }
    let location = "`server/discover`";
    let report = conversation.report;
    modern::check_answer(report, "server/discover", &answer);
    let complain = |what: String| report.add(DISCOVER_RESULT, location, what);
    let listed = result["supportedVersions"].as_array();
    if !listed.is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string)) {
        let what = describe_missing(result.get("supportedVersions"));
        complain(format!("`supportedVersions` must be an array of strings, but is {what}"));
    } else if !listed.is_some_and(|list| list.iter().any(|listed| listed == version.as_str())) {
        let what = format!("a request in {version} was answered, and {version} is not listed");
        report.add(DISCOVER_VERSIONS, location, what);
    }
    if !result["capabilities"].is_object() {
        complain(format!("`capabilities` is {}", describe_missing(result.get("capabilities"))));
    }
    if result.get("instructions").is_some_and(|text| !text.is_string()) {
        complain(format!("`instructions` is {}", describe_missing(result.get("instructions"))));
    }
    conversation.instructions = result["instructions"].as_str().unwrap_or_default().to_owned();
    conversation.capabilities = result["capabilities"].clone();
    HandshakeOutcome::Supported
}

/// Returns the result, or the outcome if there is none.
fn usable_result(
    conversation: &mut CheckConversation<'_>,
    waited: WaitOutcome,
    wait: Duration,
) -> Result<Value, HandshakeOutcome> {
    Err(match waited {
        WaitOutcome::Answer(CheckAnswer::Error(failed)) => HandshakeOutcome::Refused(failed),
        WaitOutcome::Answer(answer) => match answer.result() {
            Some(result) => return Ok(result),
            None => HandshakeOutcome::Failed("was answered with an unreadable message".into()),
        },
        WaitOutcome::TimedOut => {
            HandshakeOutcome::Failed(format!("no answer within {} s", wait.as_secs_f64()))
        }
        WaitOutcome::Closed => {
            HandshakeOutcome::Failed(format!("{}, and no answer came", conversation.describe_failure()))
        }
        WaitOutcome::Unusable => HandshakeOutcome::Failed("no answer on stdout".into()),
    })
}

/// Checks the declared capabilities.
pub(super) fn check_capabilities(conversation: &CheckConversation<'_>) {
    let location = if conversation.is_modern() { "`server/discover`" } else { "`initialize`" };
    let Some(members) = conversation.capabilities.as_object() else { return };
    if members.contains_key("logging") {
        conversation.report.add_deprecated(DeprecatedFeature::Logging);
    }
    for (name, value) in members {
        let known = ["tools", "resources", "prompts", "logging", "completions", "experimental", "extensions"];
        if !known.contains(&name.as_str()) {
            continue;
        }
        let Some(inner) = value.as_object() else {
            conversation.report.add(
                CAPABILITIES,
                location,
                format!("the capability `{name}` is {}", value_kind(value)),
            );
            continue;
        };
        for detail in ["listChanged", "subscribe"] {
            if inner.get(detail).is_some_and(|value| !value.is_boolean()) {
                let what = format!("`{name}.{detail}` is {}", value_kind(&inner[detail]));
                conversation.report.add(CAPABILITIES, location, what);
            }
        }
        if name == "extensions" && conversation.is_modern() {
            for id in inner.keys().filter(|id| !entries::is_meta_key(id) || !id.contains('/')) {
                conversation.report.add(EXTENSION_ID, location, format!("the extension `{id}`"));
            }
        }
    }
}

/// Describes a value of the wrong type, or its absence.
pub(super) fn describe_missing(value: Option<&Value>) -> &'static str {
    value.map_or("not there", value_kind)
}
