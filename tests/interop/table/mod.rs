//! The table: peer × direction × transport × runtime × revision × step
//!
//! `peers/table.json` has the steps, and by which tools of which server each is performed. Where the peer is the client
//! its own script performs them (`peers/*/table*`), otherwise ours does, by `mcp_tests::ours`, which has every runtime. A part of the
//! table in which every two values of its axes meet is run with the other tests; all of it, with a new
//! `tests/INTEROP.md`, by
//!
//! ```sh
//! cargo test -p mcp-tests --test interop -- --ignored the_whole_table
//! ```

mod page;
mod pairwise;
mod person;
mod row;
mod steps;

use alloc::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::{env, fs, thread};

use serde_json::Value;

use crate::peers::package;
use crate::run::say;
use row::Row;

/// How many rows run at once, each of which is a process or two
const AT_ONCE: usize = 2;

/// What a step came to
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Pass,
    Fail(String),
    /// The peer, or the revision, has no way to do it, and why
    Cannot(String),
}

/// What came of the steps of a row, in the order of `names`
type Cells = Vec<Outcome>;

fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| {
        serde_json::from_slice(&fs::read(table_file()).expect("a file of ours")).expect("JSON")
    })
}

fn table_file() -> PathBuf {
    package().join("peers").join("table.json")
}

fn page_file() -> PathBuf {
    package().join("INTEROP.md")
}

/// The steps, in their order
fn names() -> Vec<&'static str> {
    table()["steps"].as_array().expect("steps").iter().map(|name| name.as_str().expect("a name")).collect()
}

/// Runs rows, and says of each what came of it.
fn run(rows: &[Row]) -> BTreeMap<Row, Cells> {
    let left = Mutex::new(rows.iter());
    let done = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no panic under this lock").next();
                    let Some(row) = next else { break };
                    let cells = row.run();
                    let count = cells.iter().filter(|cell| **cell == Outcome::Pass).count();
                    let fails = cells.iter().filter(|cell| matches!(cell, Outcome::Fail(_))).count();
                    let rest = cells.len() - count - fails;
                    say(&format!("interop table, {row}: {count} pass, {fails} fail, {rest} cannot be"));
                    done.lock().expect("no panic under this lock").insert(*row, cells);
                }
            });
        }
    });
    done.into_inner().expect("no panic under this lock")
}

/// What failed, with the row and the step that it stands in
fn failures(done: &BTreeMap<Row, Cells>) -> Vec<String> {
    let mut failures = Vec::new();
    for (row, cells) in done {
        for (name, cell) in names().into_iter().zip(cells) {
            if let Outcome::Fail(why) = cell {
                failures.push(format!("{row}: {name}: {why}"));
            }
        }
    }
    failures
}

// covers: STDIO-002, STDIO-003, STDIO-010, LIFE-001, VER-001, VER-011, PAGE-001, PAGE-003, PROG-003, PROG-006, TOOL-013
// covers: TOOL-015, CANC-001, CANC-010, ELIC-018, SAMP-005, ROOT-002, LOG-003, RES-010, COMP-002, PING-001, PING-002
#[test]
fn a_choice_of_the_table_in_which_every_two_values_meet() {
    let rows: Vec<_> = pairwise::choice(&Row::all()).into_iter().filter(|row| row.ready()).collect();
    let done = run(&rows);
    let failures = failures(&done);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let committed = page::read(&fs::read_to_string(page_file()).unwrap_or_default());
    for (row, cells) in &done {
        let known = committed.get(&row.to_string());
        assert!(known == Some(cells), "{row}: tests/INTEROP.md has {known:?}, not {cells:?}: make it anew");
    }
}

#[test]
fn the_committed_table_is_of_all_rows() {
    let committed = page::read(&fs::read_to_string(page_file()).unwrap_or_default());
    let rows: Vec<_> = Row::all().iter().map(Row::to_string).collect();
    for row in &rows {
        assert!(committed.contains_key(row), "{row} is not in tests/INTEROP.md: make it anew");
    }
    assert_eq!(committed.len(), rows.len(), "rows in tests/INTEROP.md that are gone: make it anew");
    let failed = |cells: &Cells| cells.iter().any(|cell| matches!(cell, Outcome::Fail(_)));
    assert!(!committed.values().any(failed), "failures in tests/INTEROP.md");
}

/// `INTEROP` with a part of the names of rows has only these run; the others stay in the page as they are.
#[test]
#[ignore = "takes minutes; writes tests/INTEROP.md"]
fn the_whole_table() {
    let wanted = env::var("INTEROP").ok();
    let mut rows = Row::all();
    rows.retain(|row| wanted.as_ref().is_none_or(|wanted| row.to_string().contains(wanted)));
    assert!(rows.iter().all(|row| row.ready()), "everything has to be there for the whole table");
    let done = run(&rows);
    let failures = failures(&done);
    let mut table = BTreeMap::new();
    if wanted.is_some() {
        let committed = page::read(&fs::read_to_string(page_file()).unwrap_or_default());
        let known =
            Row::all().into_iter().filter_map(|row| Some((row, committed.get(&row.to_string())?.clone())));
        table.extend(known);
    }
    table.extend(done);
    let page = page::write(&table);
    say(&page);
    fs::write(page_file(), page).expect("room for the table");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
