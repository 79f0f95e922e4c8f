//! Checks that a server supports exactly the revisions that it names.

use mcp_proto::{Era, Version};
use serde_json::{Value, json};

use super::conversation::{CheckAnswer, CheckConversation, CheckSetup, ErrorAnswer, WaitOutcome};
use super::report::CheckReport;
use super::rules::rules_of;
use crate::text::request_meta;

rules_of! {
    RULES
    VERSION_ECHOED "version-unknown" Error [Spec Hosted] ["VER-004"]
        "an unknown revision is answered with a released one that the server speaks"
        "answer with the newest revision that the server speaks, not with the requested one"
    VERSION_REFUSED "version-refused" Error [Spec Hosted] ["VER-004" "ERR-017"]
        "an unknown revision is answered with another one"
        "answer `initialize` with the newest revision that the server speaks instead of an error"
    VERSION_UNSTABLE "version-unstable" Error [Spec Hosted] ["VER-003"]
        "a request for a revision that the server offers is answered with that revision"
        "repeat the requested revision if the server supports it"
    VERSION_MODERN "version-modern" Warning [Spec Hosted] ["VER-005"]
        "`initialize` is never answered with a modern revision"
        "answer with the newest revision that has a handshake"
    INITIALIZE_UNNAMED "initialize-unnamed" Warning [Spec Hosted] ["VER-032"]
        "a server without a handshake names its revisions in its error to `initialize`"
        "name the revisions in the message and in `data.supported`"
    DISCOVER_RESULT "discover-result" Error [Spec Hosted] ["VER-011" "VER-013"]
        "`server/discover` is answered with `supportedVersions` and `capabilities`"
        "answer with both"
    DISCOVER_VERSIONS "discover-versions" Error [Spec Hosted] ["VER-009" "VER-013"]
        "`supportedVersions` lists exactly the supported revisions"
        "list every supported revision, and support every listed one"
    UNSUPPORTED_VERSION "unsupported-version" Error [Spec Hosted] ["VER-009" "ERR-008"]
        "an unknown revision in `_meta` is refused with -32022, `data.supported` and `data.requested`"
        "refuse it with that code and both members"
    MISSING_META "missing-meta" Error [Spec Hosted] ["META-014"]
        "a modern request without the required members of `_meta` is refused with -32602"
        "check the revision and the client's capabilities in the `_meta` of each request"
}

/// A revision that never existed.
const UNKNOWN_VERSION: &str = "1999-12-31";

/// Requests an unknown revision and then the one that is offered instead, each in a new process.
///
/// `requested` is the revision of the first handshake, `agreed` the one that the server answered with.
pub(super) fn check_legacy(setup: &CheckSetup, report: &CheckReport, requested: Version, agreed: Version) {
    let location = format!("`initialize` with {UNKNOWN_VERSION}");
    let mut stable = vec![requested];
    if requested != agreed {
        stable.push(agreed);
        check_stable(setup, report, agreed);
    }
    let Ok(mut conversation) = CheckConversation::start(setup, report, agreed) else { return };
    let waited = conversation.send_initialize(UNKNOWN_VERSION, setup.connect_timeout);
    match conversation.expect_answer(waited, &location) {
        CheckAnswer::Error(failed) => {
            // The specification's own example is an error that lists the supported revisions.
            if !(failed.code == -32602 && failed.data["supported"].is_array()) {
                report.add(
                    VERSION_REFUSED,
                    &location,
                    format!("it was answered with the error {}", failed.summary()),
                );
            }
        }
        answer => {
            let Some(result) = answer.result() else { return };
            let offered = result["protocolVersion"].as_str().unwrap_or_default();
            match Version::from_name(offered) {
                Some(version) if version.era() == Era::Modern => {
                    report.add(VERSION_MODERN, &location, format!("it was answered with {offered}"));
                }
                Some(version) => {
                    conversation.stop();
                    if !stable.contains(&version) {
                        check_stable(setup, report, version);
                    }
                }
                None => report.add(VERSION_ECHOED, &location, format!("it was answered with {offered:?}")),
            }
        }
    }
    conversation.stop();
}

/// Checks that a revision the server names is the one it answers with.
fn check_stable(setup: &CheckSetup, report: &CheckReport, version: Version) -> bool {
    let location = format!("`initialize` with {version}");
    let Ok(mut conversation) = CheckConversation::start(setup, report, version) else { return false };
    let waited = conversation.send_initialize(version.as_str(), setup.connect_timeout);
    let found = match conversation.expect_answer(waited, &location) {
        CheckAnswer::Error(failed) => format!("the error {}", failed.summary()),
        answer => match answer.result() {
            Some(result) if result["protocolVersion"] == version.as_str() => {
                conversation.stop();
                return true;
            }
            Some(result) => result["protocolVersion"].to_string(),
            None => return false,
        },
    };
    conversation.stop();
    report.add(
        VERSION_UNSTABLE,
        &location,
        format!("the server names {version}, and answers it with {found}"),
    );
    false
}

/// Checks that a server without a handshake names its revisions in the error to `initialize`.
pub(super) fn check_refusal(conversation: &mut CheckConversation<'_>, failed: &ErrorAnswer) {
    let named = format!("{} {}", failed.message, failed.data);
    if !named.contains(conversation.version().as_str()) {
        let what = format!("its error does not name a revision: {}", failed.summary());
        conversation.report.add(INITIALIZE_UNNAMED, "`initialize`", what);
    }
}

/// Checks versions and `_meta` in the modern era.
pub(super) fn check_modern(conversation: &mut CheckConversation<'_>, dual: bool) {
    let listed = match conversation.request("server/discover", Value::Null).result() {
        Some(result) => string_elements(&result["supportedVersions"]),
        None => Vec::new(),
    };
    for name in &listed {
        check_listed_version(conversation, name);
    }
    check_unsupported(conversation, &listed);
    check_missing_meta(conversation, dual);
}

/// Checks that a listed revision is supported.
fn check_listed_version(conversation: &mut CheckConversation<'_>, name: &str) {
    let location = "`server/discover`";
    match Version::from_name(name).map(|version| (version, version.era())) {
        Some((version, Era::Legacy)) => {
            let (setup, report) = (conversation.setup(), conversation.report);
            let Ok(mut fresh) = CheckConversation::start(setup, report, version) else { return };
            let waited = fresh.send_initialize(name, setup.connect_timeout);
            let spoken = match &waited {
                WaitOutcome::Answer(answer) => {
                    answer.result().is_some_and(|result| result["protocolVersion"] == name)
                }
                _ => false,
            };
            fresh.stop();
            if !spoken {
                let what = format!(
                    "`supportedVersions` has {name}, and `initialize` with it is not answered with it"
                );
                report.add(DISCOVER_VERSIONS, location, what);
            }
        }
        Some((version, Era::Modern)) if version == conversation.version() => {}
        _ => {
            let params = json!({"_meta": request_meta(name)});
            if let CheckAnswer::Error(failed) = conversation.request_verbatim("server/discover", &params) {
                let what = format!(
                    "`supportedVersions` has {name:?}, and a request in it gets the error {}",
                    failed.summary()
                );
                conversation.report.add(DISCOVER_VERSIONS, location, what);
            }
        }
    }
}

fn check_unsupported(conversation: &mut CheckConversation<'_>, listed: &[String]) {
    let location = format!("`server/discover` in {UNKNOWN_VERSION}");
    let answer =
        conversation.request_verbatim("server/discover", &json!({"_meta": request_meta(UNKNOWN_VERSION)}));
    let report = conversation.report;
    let complain = |what: String| report.add(UNSUPPORTED_VERSION, &location, what);
    let words = ["it was answered with", "it was answered with a result"];
    if let Some(what) = answer.complaint(|failed| failed.code == -32022, words) {
        return complain(what);
    }
    let CheckAnswer::Error(failed) = answer else { return };
    let supported = &failed.data["supported"];
    if !supported.as_array().is_some_and(|list| list.iter().all(Value::is_string)) {
        complain(format!("`data.supported` is {supported}"));
    }
    if failed.data["requested"] != UNKNOWN_VERSION {
        complain(format!("`data.requested` is {}", failed.data["requested"]));
    }
    for name in string_elements(supported).iter().filter(|name| !listed.contains(name)) {
        let what = format!("the error lists {name:?}, and `supportedVersions` does not");
        report.add(DISCOVER_VERSIONS, &location, what);
    }
}

/// Checks requests with incomplete `_meta`. A dual-era server may take one without a revision for a legacy request.
fn check_missing_meta(conversation: &mut CheckConversation<'_>, dual: bool) {
    let full = request_meta(conversation.version().as_str());
    let without = |key: &str| {
        let mut meta = full.clone();
        if let Some(members) = meta.as_object_mut() {
            members.remove(key);
        }
        json!({"_meta": meta})
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let cases = [
        ("without `params`", Value::Null, dual),
        ("without `protocolVersion` in `_meta`", without(version), dual),
        ("without `clientCapabilities` in `_meta`", without(capabilities), false),
    ];
    for (which, params, any_code) in cases {
        let location = format!("`server/discover` {which}");
        let answer = conversation.request_verbatim("server/discover", &params);
        let is_right = |failed: &ErrorAnswer| any_code || conversation.is_refused_with(failed, -32602);
        let words = ["it was answered with", "it was answered with a result"];
        if let Some(what) = answer.complaint(is_right, words) {
            conversation.report.add(MISSING_META, &location, what);
        }
    }
}

fn string_elements(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
