//! The `demo` command, and its detection of faults.

use std::thread;

use crate::support::probe;

const STEPS: [&str; 11] =
    ["negotiate", "list", "call", "error", "progress", "ask", "change", "task", "cancel", "timeout", "end"];

// covers: VER-014, VER-024, LIFE-001, LIFE-004, LIFE-017, STDIO-001, STDIO-017, STDIO-018, STDIO-019, STDIO-020
// covers: STDIO-021, PROG-006, PROG-007, MRTR-001, MRTR-012, ELIC-006, SUB-001, RES-010, RES-011, CANC-001, CANC-010
// covers: CANC-016, CANC-020, TIME-001, TIME-002, TIME-003, PING-001
#[test]
fn demo_shows_every_step_in_both_eras() {
    let done = probe(&["demo"]).assert_ok();
    for step in STEPS {
        let announced = done.stdout.lines().filter(|line| line.contains(&format!(". {step}: "))).count();
        assert_eq!(announced, 2, "{step}: {done}");
    }
    assert_eq!(done.stdout.matches('✓').count(), 2 * STEPS.len() + 1, "{done}");
    assert!(done.stdout.lines().count() <= 190, "{done}");
    assert!(!done.stdout.contains('\u{1b}'), "colours in a pipe: {done}");
    let wide: Vec<_> = done.stdout.lines().filter(|line| line.chars().count() > 78).collect();
    assert!(wide.is_empty(), "beyond 80 columns, with two characters that take two: {wide:#?}");
    assert_eq!(done.stderr, "", "{done}");
    done.assert_stdout(&[
        "modern era (2026-07-28)",
        "legacy era (2025-11-25)",
        "→ {\"id\":1,\"method\":\"server/discover\"",
        "→ {\"id\":1,\"method\":\"initialize\"",
        "→ {\"method\":\"notifications/initialized\"}",
        "← {\"method\":\"notifications/progress\"",
        "\"resultType\":\"input_required\"",
        "\"method\":\"subscriptions/listen\"",
        "← {\"id\":1,\"method\":\"elicitation/create\"",
        "\"method\":\"resources/subscribe\"",
        "← {\"method\":\"notifications/resources/updated\"",
        "\"method\":\"tasks/get\"",
        "\"method\":\"tasks/update\"",
        "\"method\":\"tasks/result\"",
        "→ {\"method\":\"notifications/cancelled\"",
        "\"method\":\"ping\"}",
    ]);
}

#[test]
fn demo_succeeds_on_every_runtime() {
    for runtime in ["threads", "smol", "tokio"] {
        let done = probe(&["demo", "--runtime", runtime]).assert_ok();
        assert_eq!(done.stdout.matches('✓').count(), 2 * STEPS.len() + 1, "{runtime}: {done}");
        done.assert_stdout(&[&format!("--runtime {runtime}")]);
    }
}

#[test]
fn demo_names_the_failed_step() {
    // Some of these wait for a server that does not react.
    let runs = STEPS.iter().flat_map(|step| ["modern", "legacy"].map(|era| (*step, era)));
    let runs: Vec<_> = runs
        .map(|(step, era)| {
            thread::spawn(move || {
                let done = probe(&["demo", "--break", step, "--era", era]).assert_code(1);
                let (named, in_era) = (format!("step \"{step}\" failed: "), format!("({era} era, "));
                let done = done.assert_stderr(&[&named, &in_era]).assert_stdout(&["✗"]);
                assert_eq!(done.stderr.matches("step \"").count(), 1, "{done}");
            })
        })
        .collect();
    for run in runs {
        run.join().expect("named");
    }
}
