//! Revisions: which ones a server says that it speaks, and which it does

use mcp_proto::{Era, Version};
use serde_json::{Value, json};

use super::is;
use super::modern;
use super::report::Report;
use super::rules;
use super::talk::{Answer, Failed, Setup, Talk, Waited};

/// A revision that there never was
const UNKNOWN: &str = "1999-12-31";

/// Asks for an unknown revision, and for the one that is offered instead; each in a fresh process
///
/// `asked` is what was asked for before, and `agreed` what it was answered with.
pub(super) fn legacy(setup: &Setup, report: &Report, asked: Version, agreed: Version) {
    let place = format!("`initialize` with {UNKNOWN}");
    let mut stable = vec![asked];
    if asked != agreed {
        stable.push(agreed);
        check_stable(setup, report, agreed);
    }
    let Ok(mut talk) = Talk::start(setup, report, agreed) else { return };
    let waited = talk.initialize(UNKNOWN, setup.connect_timeout);
    match talk.expected(waited, &place) {
        Answer::Error(failed) => {
            // An error that lists what is spoken is the specification's own example.
            if !(is(&failed, -32602) && failed.data["supported"].is_array()) {
                report.add(
                    rules::VERSION_REFUSED,
                    &place,
                    format!("it was answered with the error {}", failed.text()),
                );
            }
        }
        answer => {
            let Some(result) = answer.result() else { return };
            let offered = result["protocolVersion"].as_str().unwrap_or_default();
            match Version::from_name(offered) {
                Some(version) if version.era() == Era::Modern => {
                    report.add(rules::VERSION_MODERN, &place, format!("it was answered with {offered}"));
                }
                Some(version) => {
                    talk.end();
                    if !stable.contains(&version) {
                        check_stable(setup, report, version);
                    }
                }
                None => {
                    report.add(rules::VERSION_ECHOED, &place, format!("it was answered with {offered:?}"))
                }
            }
        }
    }
    talk.end();
}

/// A revision that the server says that it speaks is the one that it answers with
fn check_stable(setup: &Setup, report: &Report, version: Version) -> bool {
    let place = format!("`initialize` with {version}");
    let Ok(mut talk) = Talk::start(setup, report, version) else { return false };
    let waited = talk.initialize(version.as_str(), setup.connect_timeout);
    let found = match talk.expected(waited, &place) {
        Answer::Error(failed) => format!("the error {}", failed.text()),
        answer => match answer.result() {
            Some(result) if result["protocolVersion"] == version.as_str() => {
                talk.end();
                return true;
            }
            Some(result) => result["protocolVersion"].to_string(),
            None => return false,
        },
    };
    talk.end();
    report.add(
        rules::VERSION_UNSTABLE,
        &place,
        format!("the server names {version}, and answers it with {found}"),
    );
    false
}

/// What a server that has no handshake said to `initialize`
pub(super) fn refusal(talk: &mut Talk<'_>, failed: &Failed) {
    let named = format!("{} {}", failed.message, failed.data);
    if !named.contains(talk.version().as_str()) {
        let what = format!("its error names no revision: {}", failed.text());
        talk.report.add(rules::INITIALIZE_UNNAMED, "`initialize`", what);
    }
}

/// What the modern era wants of versions and of `_meta`
pub(super) fn modern(talk: &mut Talk<'_>, dual: bool) {
    let listed = match talk.request("server/discover", Value::Null).result() {
        Some(result) => strings(&result["supportedVersions"]),
        None => Vec::new(),
    };
    for name in &listed {
        speaks(talk, name);
    }
    unsupported(talk, &listed);
    missing_meta(talk, dual);
}

/// A listed revision is spoken
fn speaks(talk: &mut Talk<'_>, name: &str) {
    let place = "`server/discover`";
    match Version::from_name(name).map(|version| (version, version.era())) {
        Some((version, Era::Legacy)) => {
            let (setup, report) = (talk.setup(), talk.report);
            let Ok(mut fresh) = Talk::start(setup, report, version) else { return };
            let waited = fresh.initialize(name, setup.connect_timeout);
            let spoken = match &waited {
                Waited::Answer(answer) => {
                    answer.result().is_some_and(|result| result["protocolVersion"] == name)
                }
                _ => false,
            };
            fresh.end();
            if !spoken {
                let what = format!(
                    "`supportedVersions` has {name}, and `initialize` with it is not answered with it"
                );
                report.add(rules::DISCOVER_VERSIONS, place, what);
            }
        }
        Some((version, Era::Modern)) if version == talk.version() => {}
        _ => {
            let params = json!({"_meta": modern::meta(name)});
            if let Answer::Error(failed) = talk.request_as_is("server/discover", &params) {
                let what = format!(
                    "`supportedVersions` has {name:?}, and a request in it gets the error {}",
                    failed.text()
                );
                talk.report.add(rules::DISCOVER_VERSIONS, place, what);
            }
        }
    }
}

fn unsupported(talk: &mut Talk<'_>, listed: &[String]) {
    let place = format!("`server/discover` in {UNKNOWN}");
    let answer = talk.request_as_is("server/discover", &json!({"_meta": modern::meta(UNKNOWN)}));
    let report = talk.report;
    let complain = |what: String| report.add(rules::UNSUPPORTED_VERSION, &place, what);
    let failed = match answer {
        Answer::Error(failed) => failed,
        Answer::Result(_) => return complain("it was answered with a result".into()),
        Answer::None => return,
    };
    if !is(&failed, -32022) {
        return complain(format!("it was answered with the error {}", failed.text()));
    }
    let supported = &failed.data["supported"];
    if !supported.as_array().is_some_and(|list| list.iter().all(Value::is_string)) {
        complain(format!("`data.supported` is {supported}"));
    }
    if failed.data["requested"] != UNKNOWN {
        complain(format!("`data.requested` is {}", failed.data["requested"]));
    }
    for name in strings(supported).iter().filter(|name| !listed.contains(name)) {
        let what = format!("the error lists {name:?}, and `supportedVersions` does not");
        report.add(rules::DISCOVER_VERSIONS, &place, what);
    }
}

/// Requests that lack something in `_meta`; one without a revision may be a legacy one to who speaks both eras
fn missing_meta(talk: &mut Talk<'_>, dual: bool) {
    let full = modern::meta(talk.version().as_str());
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
        let place = format!("`server/discover` {which}");
        let what = match talk.request_as_is("server/discover", &params) {
            Answer::Error(failed) if any_code || talk.is_refusal(&failed, -32602) => continue,
            Answer::Error(failed) => format!("it was answered with the error {}", failed.text()),
            Answer::Result(_) => "it was answered with a result".into(),
            Answer::None => continue,
        };
        talk.report.add(rules::MISSING_META, &place, what);
    }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
