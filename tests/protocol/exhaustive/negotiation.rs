//! Every pair of sets of revisions, of capabilities and of levels, and every beginning of a session.

use mcp_proto::client::KnownEra;
use mcp_proto::model::LoggingLevel;
use mcp_proto::server::Event;
use mcp_proto::{CallOptions, Capabilities, Capability, Change, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, initialize_request, legacy_request, modern_request, modern_request_with, notification,
};
use mcp_tests::harness::{Chunker, Pair, ServerHarness, exhaustive, for_each_sequence};
use serde_json::{Value, json};

use crate::protocol::common::{client, server};

/// Returns the revisions of a set that is given by bits, oldest first.
fn versions_of(bits: usize) -> Vec<Version> {
    Version::ALL.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, v)| v).collect()
}

/// The revision that two sides agree on in a handshake: the newest of the client, else the newest of the server.
fn agreed_in_handshake(client: &[Version], server: &[Version]) -> Option<Version> {
    let newest = |all: &[Version]| all.iter().copied().filter(|v| *v < Version::V2026_07_28).max();
    let (offered, other) = (newest(client)?, newest(server)?);
    if server.contains(&offered) { Some(offered) } else { Some(other).filter(|v| client.contains(v)) }
}

#[test]
fn exhaustive_versions_are_agreed_as_the_two_eras_say() {
    let property = "Two sides agree on the modern revision if both have it and none is known to be legacy, else as a handshake says.";
    exhaustive(property, "pairs of sets of revisions with no or a known era, eras", [1, 3, 3], |eras| {
        let mut cases = 0;
        for era in &[None, Some(KnownEra::Modern), Some(KnownEra::Legacy)][..eras] {
            for (own, other) in (1..32).flat_map(|own| (1..32).map(move |other| (own, other))) {
                cases += 1;
                let (own, other) = (versions_of(own), versions_of(other));
                let set = |all: &[Version]| all.iter().fold(VersionSet::NONE, |set, v| set.with(*v));
                let mut config = client(set(&own));
                if let Some(era) = era {
                    config = config.known_era(*era);
                }
                let mut pair = Pair::new(config, server(set(&other)), Chunker::Whole);
                let params = json!({"name": "echo", "arguments": {"text": "ahoy"}});
                pair.app
                    .call(pair.now, &mut pair.client, "echo", "tools/call", &params, &CallOptions::new())
                    .expect("queued");
                pair.settle();
                let handshake = agreed_in_handshake(&own, &other);
                let modern = Version::V2026_07_28;
                let modern = Some(modern).filter(|v| own.contains(v) && other.contains(v));
                // Who is told that the server is legacy begins with the handshake, and keeps to it if the server has one.
                let is_told_legacy = *era == Some(KnownEra::Legacy) && own[0] != Version::V2026_07_28;
                let expected = if is_told_legacy && other[0] != Version::V2026_07_28 {
                    handshake
                } else {
                    modern.or(handshake)
                };
                let found = pair.app.peer.as_ref().map(|peer| peer.version);
                assert_eq!(found, expected, "{own:?} and {other:?}, {era:?}: {:?}", pair.app.client_log);
                let outcome = pair.app.outcome("echo").expect("ended");
                assert_eq!(!outcome.starts_with("not answered"), expected.is_some(), "{outcome}");
                assert_eq!(pair.app.pending_count(), 0);
            }
        }
        cases
    });
}

#[test]
fn exhaustive_session_opens_once_for_each_handshake_and_every_request_is_answered_once() {
    let property = "A legacy session opens once for each `initialize`, at the next `initialized`; a call is refused before the first.";
    exhaustive(property, "messages of 5 kinds in each legacy revision, up to", [3, 4, 6], |most| {
        LEGACY_VERSIONS
            .map(|version| {
                for_each_sequence(5, most, |steps| {
                    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
                    let (mut is_initialized, mut is_open) = (false, false);
                    for (id, step) in steps.iter().enumerate() {
                        let id = id as u64;
                        let request = match step {
                            0 => initialize_request(id, version.as_str()),
                            1 => notification("notifications/initialized", Value::Null),
                            2 => legacy_request(id, "ping", Value::Null),
                            3 => legacy_request(id, "tools/call", json!({"name": "a"})),
                            _ => legacy_request(id, "nothing/there", Value::Null),
                        };
                        harness.feed_message(&request);
                        let (mut calls, mut opened) = (0, 0);
                        while !harness.has_no_events() {
                            match harness.expect_event() {
                                Event::Call(call) => {
                                    calls += 1;
                                    harness
                                        .pipe
                                        .engine()
                                        .complete(harness.now, call.id(), &json!({"content": []}))
                                        .expect("open");
                                    harness.pump();
                                }
                                Event::SessionOpened { version: found, .. } => {
                                    assert_eq!(found, version);
                                    opened += 1;
                                }
                                Event::Diagnostic { .. } => {}
                                other => panic!("{other:?} after {steps:?}"),
                            }
                        }
                        let answers = harness.take_sent();
                        let opens = *step == 1 && is_initialized && !is_open;
                        assert_eq!(opened, usize::from(opens), "{version} {steps:?}");
                        assert_eq!(calls, usize::from(*step == 3 && is_initialized), "{version} {steps:?}");
                        assert_eq!(
                            answers.len(),
                            usize::from(*step != 1),
                            "{version} {steps:?}: {answers:?}"
                        );
                        if let Some(answer) = answers.first() {
                            assert_eq!(answer["id"], id, "{answer}");
                            let succeeds = match step {
                                0 | 2 => true,
                                3 => is_initialized,
                                _ => false,
                            };
                            assert_eq!(
                                answer.get("result").is_some(),
                                succeeds,
                                "{version} {steps:?}: {answer}"
                            );
                        }
                        is_initialized |= *step == 0;
                        // On a byte stream each handshake begins anew.
                        is_open &= *step != 0;
                        is_open |= opens;
                    }
                })
            })
            .into_iter()
            .sum()
    });
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn exhaustive_log_message_is_sent_exactly_from_the_level_that_was_set() {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let property =
        "A log message is sent if it is at least as severe as the level that its client set, in both eras.";
    exhaustive(property, "pairs of levels of both eras, levels", [8, 8, 8], |count| {
        let capabilities = || Capabilities::new().with(Capability::Tools).with(Capability::Logging);
        let mut cases = 0;
        for (set, level) in (0..count).flat_map(|set| (0..count).map(move |level| (set, level))) {
            for version in [None].into_iter().chain(LEGACY_VERSIONS.map(Some)) {
                cases += 1;
                let config = server(VersionSet::ALL).capabilities(capabilities());
                let mut harness = ServerHarness::server(config, Chunker::Whole);
                let call = if let Some(version) = version {
                    harness.open_session(version);
                    let request = legacy_request(1, "logging/setLevel", json!({"level": levels[set]}));
                    harness.feed_message(&request);
                    assert_eq!(harness.expect_reply()["result"], json!({}));
                    harness.take_event_texts();
                    harness.expect_call_for(&legacy_request(2, "tools/call", json!({"name": "a"})))
                } else {
                    let meta = json!({"io.modelcontextprotocol/logLevel": levels[set]});
                    harness.expect_call_for(&modern_request_with(
                        2,
                        "tools/call",
                        json!({"name": "a"}),
                        &meta,
                    ))
                };
                let now = harness.now;
                let level_name = LoggingLevel::from(levels[level]);
                harness.pipe.engine().log(now, call.id(), &level_name, None, &json!(1)).expect("open");
                harness.pump();
                let sent = harness.take_sent();
                assert_eq!(sent.len(), usize::from(level >= set), "{} for {}", levels[level], levels[set]);
                assert!(sent.iter().all(|message| message["params"]["level"] == levels[level]));
            }
        }
        cases
    });
}

#[test]
fn exhaustive_method_is_served_exactly_if_its_capability_is_declared() {
    let served = [
        (Capability::Tools, &["tools/list", "tools/call"][..]),
        (Capability::Prompts, &["prompts/list", "prompts/get"]),
        (Capability::Resources, &["resources/list", "resources/templates/list", "resources/read"]),
        (Capability::Completions, &["completion/complete"]),
    ];
    let params = |method: &str| match method {
        "resources/read" => json!({"uri": "x:1"}),
        "tools/call" | "prompts/get" => json!({"name": "a"}),
        "completion/complete" => {
            json!({"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "b", "value": ""}})
        }
        _ => json!({}),
    };
    let property = "A request is delivered if the capability of its method is declared, else refused as unknown, in both eras.";
    exhaustive(property, "subsets of capabilities, in both eras, capabilities", [4, 4, 4], |count| {
        let mut cases = 0;
        for (chosen, is_modern) in (0..1_usize << count).flat_map(|chosen| [(chosen, false), (chosen, true)])
        {
            let declared = served[..count].iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
            let capabilities = declared.fold(Capabilities::new(), |all, (_, (one, _))| all.with(*one));
            let config = server(VersionSet::ALL).capabilities(capabilities);
            let mut harness = ServerHarness::server(config, Chunker::Whole);
            if !is_modern {
                harness.open_session(Version::V2025_11_25);
            }
            for (at, (_, methods)) in served[..count].iter().enumerate() {
                for method in *methods {
                    cases += 1;
                    let request = if is_modern {
                        modern_request(cases, method, params(method))
                    } else {
                        legacy_request(cases, method, params(method))
                    };
                    if chosen >> at & 1 == 1 {
                        assert_eq!(harness.expect_call_for(&request).method(), *method);
                    } else {
                        let answer = harness.expect_error(&request);
                        assert_eq!(answer["code"], -32601, "{method} of {chosen:b}");
                    }
                }
            }
        }
        cases
    });
}

#[test]
fn exhaustive_subscription_honours_what_is_wanted_and_declared_and_reports_nothing_else() {
    let lists = [
        (Capability::ToolsListChanged, "toolsListChanged", Change::Tools),
        (Capability::PromptsListChanged, "promptsListChanged", Change::Prompts),
        (Capability::ResourcesListChanged, "resourcesListChanged", Change::Resources),
    ];
    let property = "A subscription covers the lists that are both wanted and declared, and a change is reported exactly to those.";
    exhaustive(property, "pairs of subsets of lists, lists", [3, 3, 3], |count| {
        let mut cases = 0;
        for (wanted, declared) in (0..1 << count).flat_map(|w| (0..1 << count).map(move |d| (w, d))) {
            let is_in = |set: usize, at: usize| set >> at & 1 == 1;
            let all = Capabilities::new()
                .with(Capability::Tools)
                .with(Capability::Prompts)
                .with(Capability::Resources);
            let capabilities =
                (0..count).filter(|at| is_in(declared, *at)).fold(all, |all, at| all.with(lists[at].0));
            let config = server(VersionSet::ALL).capabilities(capabilities);
            let mut harness = ServerHarness::server(config, Chunker::Whole);
            let filter: Value = (0..count)
                .filter(|at| is_in(wanted, *at))
                .map(|at| (lists[at].1.to_owned(), json!(true)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            harness.feed_message(&modern_request(
                1,
                "subscriptions/listen",
                json!({"notifications": filter}),
            ));
            let honoured = harness.expect_reply()["params"]["notifications"].clone();
            harness.take_event_texts();
            for (at, (_, member, change)) in lists[..count].iter().enumerate() {
                cases += 1;
                let covers = is_in(wanted & declared, at);
                assert_eq!(honoured[member] == json!(true), covers, "{wanted:b} {declared:b}: {honoured}");
                let now = harness.now;
                harness.pipe.engine().publish(now, change);
                harness.pump();
                assert_eq!(
                    harness.take_sent().len(),
                    usize::from(covers),
                    "{wanted:b} {declared:b} {member}"
                );
            }
        }
        cases
    });
}
