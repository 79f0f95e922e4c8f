//! Servers at the gate.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::{Cx, HttpServer, Router, schemars};
use mcp_check::diagnosis::FaultKind;
use mcp_check::{Category, Profile, Target, rules};
use mcp_checks::{Refusal, admit};
use mcp_proto::http::client::Url;
use mcp_proto::http::server::Config;
use mcp_std::process::{Program, Stderr};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[test]
fn server_that_follows_the_protocol_gets_through_and_its_report_has_three_forms() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut router = Router::new("calculator", "1");
        router.tool("add", |_: &mut Cx<'_>, Sum { a, b }: Sum| (a + b).to_string());
        let config = router.config().expect("a configuration");
        let server = HttpServer::bind("127.0.0.1:0", config, Config::new(), router).expect("a server");
        tell.send(server.address().expect("an address")).expect("the test waits");
        server.run()
    });
    let url = format!("http://{}/mcp", told.recv().expect("a server"));
    let report = admit(|| Url::parse(&url).expect("a URL").into()).expect("no error");
    assert_eq!(report.supported.len(), 2, "{}", report.revisions());
    assert_eq!(report.counts().errors, 0);

    let sarif = report.to_sarif("calculator");
    assert_eq!(
        sarif["runs"][0]["tool"]["driver"]["rules"].as_array().map(Vec::len),
        Some(rules(Profile::Spec).count())
    );
    assert_eq!(sarif["runs"][0]["invocations"][0]["executionSuccessful"], true);
    let found = serde_json::to_value(&report).expect("JSON");
    assert_eq!(found.as_array().map(Vec::len), Some(report.findings.len()));
    let junit = report.to_junit("calculator", report.profile.mildest_failure(false));
    assert!(junit.contains("failures=\"0\"") && junit.contains("<testsuite name=\"calculator\""), "{junit}");
}

#[test]
fn server_that_breaks_rules_is_told_which() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp://{}", listener.local_addr().expect("bound"));
    // It answers everything with an empty result, and notifications, too.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(&stream);
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let message: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                    let answer = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": {}});
                    if writeln!(&stream, "{answer}").is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    let target = || Target::Stream(address.parse().expect("an address"));
    let Err(Refusal::Wrong(report)) = admit(target) else { panic!("it gets through") };
    let checks: Vec<_> = report.findings.iter().map(|finding| finding.rule.check).collect();
    assert!(checks.contains(&"initialize-result"), "{checks:?}");
    assert!(report.findings.iter().all(|finding| !finding.fix.is_empty() && !finding.location.is_empty()));
}

#[test]
fn program_that_is_no_server_is_explained() {
    // `cat` sends back what it is sent.
    let outcome = admit(|| Program::new("cat").stderr(Stderr::Capture).into());
    let Err(Refusal::Broken(step, fault)) = outcome else { panic!("it gets through") };
    assert_eq!((step, fault.kind), ("output", FaultKind::Connection));
    assert!(fault.why.contains("echoes its input"), "{fault}");

    let missing = admit(|| Program::new("no-such-program-anywhere").into());
    assert!(matches!(missing, Err(Refusal::Broken("program", _))));
}

#[test]
fn rules_of_a_profile_have_requirements_or_categories() {
    for rule in rules(Profile::Owasp) {
        assert!(!rule.requirements(Profile::Owasp).is_empty() && !rule.fix.is_empty(), "{}", rule.check);
        assert!(rule.owasp.iter().all(|category| Category::ALL.contains(category)), "{}", rule.check);
    }
}
