//! The transcripts of the project are replayed into both engines.

use std::fs;
use std::path::Path;

use mcp_proto_trace::engine::replay;
use mcp_proto_trace::{Content, Header, Line, Record, Side, Text, Trace};

/// Returns the transcripts of byte streams, by name.
fn transcripts() -> Vec<(String, Trace)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the transcripts") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(&path).expect("a transcript");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        if lines[0]["transport"] != "stdio" {
            continue;
        }
        let mut records = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let Some(message) = line.get("msg") else { continue };
            let from = if line["dir"] == "c2s" { Side::Client } else { Side::Server };
            let text = Text::new(message.to_string().as_bytes());
            records.push(Record::new(index as u64 * 1_000, from, Content::Line(Line::new(text))));
        }
        found.push((name, Trace::new(Header::new("transcripts", 0), records)));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

#[test]
fn transcripts_are_replayed_into_both_engines() {
    for (name, trace) in transcripts() {
        for side in [Side::Server, Side::Client] {
            let outcome = replay(&trace, side);
            println!(
                "{name} {side}: {} of {} unplayed {:?}",
                outcome.compared(),
                trace.records.iter().filter(|r| r.from == side).count(),
                outcome.unplayed
            );
            if let Some(d) = outcome.difference {
                println!("   {d}\n   rec {:?}\n   rep {:?}", d.recorded, d.replayed);
            }
        }
    }
}
