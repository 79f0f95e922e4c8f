//! The commands `events list`, `poll` and `follow`, on the events of `serve --everything`.

use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, probe};

fn everything(args: &[&str], serve: &[&str]) -> ProbeOutput {
    probe(&[&["events"], args, &["--", PROBE, "serve", "--everything"], serve].concat())
}

fn json_lines(done: &ProbeOutput) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

// covers: EVT-001, EVT-008, EVT-010, EVT-011, EVT-012
#[test]
fn event_types_are_listed_in_both_eras_on_every_runtime() {
    for (era, runtime) in
        [("legacy", "blocking"), ("modern", "blocking"), ("modern", "threads"), ("legacy", "smol")]
    {
        let done = everything(&["list", "--era", era], &["--runtime", runtime]).assert_ok();
        let (modes, wanted) = match era {
            // Without streams, what is pushed alone cannot be had.
            "legacy" => ("poll", &["ship.arrived", "tide.changed"][..]),
            _ => ("poll, push", &["lighthouse.lit", "ship.arrived", "tide.changed"][..]),
        };
        done.assert_stdout(&[
            &format!("tide.changed  {modes}\n      The water has risen or fallen in a harbour.\n"),
            "harbour?",
        ]);
        let listed =
            everything(&["list", "--json", "--era", era], &["--runtime", runtime]).assert_ok().json();
        let types = listed["events"].as_array().expect("types");
        let names: Vec<&str> = types.iter().filter_map(|described| described["name"].as_str()).collect();
        assert_eq!(names, wanted, "{era} {runtime}");
    }
}

// covers: EVT-041, EVT-042, EVT-045
#[test]
fn first_poll_has_a_cursor_and_no_event_in_both_eras() {
    for era in ["legacy", "modern"] {
        let done = everything(&["poll", "tide.changed", "harbour=Cobh", "--era", era], &[]).assert_ok();
        assert!(done.stdout.starts_with("cursor     "), "{done}");
        done.assert_stdout(&["next poll  in "]);
        let polled = everything(&["poll", "ship.arrived", "--json", "--era", era], &[]).assert_ok().json();
        assert_eq!(polled["events"], json!([]));
        assert!(polled["cursor"].is_string() && polled["nextPollMs"].is_number(), "{polled}");
    }
}

// covers: EVT-004, EVT-046, EVT-047
#[test]
fn polls_that_cannot_be_answered_say_why() {
    let unknown = everything(&["poll", "tide.stopped", "harbour=Cobh"], &[]).assert_code(1);
    unknown.assert_stderr(&["the server has no event type `tide.stopped`", "there are: lighthouse.lit, "]);
    everything(&["poll", "tide.stopped"], &[]).assert_code(1).assert_stderr(&["NotFound"]);
    everything(&["poll", "lighthouse.lit"], &[]).assert_code(1).assert_stderr(&["Unsupported"]);
    everything(&["poll", "tide.changed", "harbour=a", "harbour=b"], &[])
        .assert_code(2)
        .assert_stderr(&["the argument `harbour` is given twice"]);
    let plain = probe(&["events", "list", "--", PROBE, "serve"]).assert_code(1);
    plain.assert_stderr(&["the server does not declare events"]);
}

// covers: EVT-050
#[test]
fn follow_prints_the_events_of_a_stream_that_match() {
    for runtime in ["blocking", "threads"] {
        let args = ["follow", "tide.changed", "harbour=Cobh", "--json", "--count", "2", "--era", "modern"];
        let done = everything(&args, &["--runtime", runtime]).assert_ok();
        let lines = json_lines(&done);
        assert_eq!(lines.len(), 2, "{done}");
        for line in &lines {
            assert_eq!((&line["name"], &line["data"]["harbour"]), (&json!("tide.changed"), &json!("Cobh")));
        }
        assert_ne!(lines[0]["eventId"], lines[1]["eventId"]);
        done.assert_stderr(&["following by a stream\n", "cursor "]);
    }
}

// covers: EVT-008, EVT-013
#[test]
fn follow_polls_where_there_are_no_streams_or_none_are_wanted() {
    for args in [&["--era", "legacy"][..], &["--era", "modern", "--poll"]] {
        let args = [&["follow", "tide.changed", "--count", "1"], args].concat();
        let done = everything(&args, &[]).assert_ok().assert_stderr(&["following by polls\n"]);
        assert!(
            done.stdout.contains("  tide.changed  evt_") && done.stdout.contains("\"height\":"),
            "{done}"
        );
    }
    everything(&["follow", "lighthouse.lit", "--era", "modern", "--poll"], &[])
        .assert_code(1)
        .assert_stderr(&["the event type offers neither streams nor polls to this client"]);
}

#[test]
fn follow_ends_after_its_time() {
    let done = everything(&["follow", "lighthouse.lit", "--for", "300ms"], &[]).assert_ok();
    assert!(done.elapsed.as_millis() >= 300, "{done}");
}
