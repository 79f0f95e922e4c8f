//! The table of interoperability: peer × direction × transport × adapter × revision × step.
//!
//! `peers/table.json` lists the steps and the tools of each server that perform them. If the peer is the client, its
//! own script performs the steps (`peers/*/table*`). Otherwise our client does, through `mcp_system_tests::adapters`. The
//! other tests run a selection of rows in which every two values of different axes meet. This command runs the whole
//! table and writes `tests/INTEROP.md`:
//!
//! ```sh
//! cargo test --workspace --features mcp-system-tests/every-peer --test system \
//!     -- --ignored whole_table
//! ```

pub(super) mod page;
mod pairwise;
mod row;
mod steps;
mod user;

use alloc::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::{env, fs, thread};

use serde_json::Value;

use crate::peers::peers;
use crate::run::print_line;
use row::TableRow;

/// Number of rows that run at once, each with one or two processes.
const MAX_CONCURRENT: usize = 2;

/// Outcome of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CellOutcome {
    Pass,
    Fail(String),
    /// The peer or the revision cannot do it; holds the reason.
    Unsupported(String),
}

/// Outcomes of the steps of a row, in the order of `names`.
type Cells = Vec<CellOutcome>;

fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| {
        serde_json::from_slice(&fs::read(table_file()).expect("a file of this repository")).expect("JSON")
    })
}

fn table_file() -> PathBuf {
    peers().join("table.json")
}

pub(super) fn page_file() -> PathBuf {
    peers().with_file_name("INTEROP.md")
}

/// Returns the names of the steps, in their order.
fn names() -> Vec<&'static str> {
    table()["steps"].as_array().expect("steps").iter().map(|name| name.as_str().expect("a name")).collect()
}

/// Runs rows and returns their outcomes.
fn run(rows: &[TableRow]) -> BTreeMap<TableRow, Cells> {
    let queue = Mutex::new(rows.iter());
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENT {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic under this lock").next();
                    let Some(row) = next else { break };
                    let cells = row.run();
                    let count = cells.iter().filter(|cell| **cell == CellOutcome::Pass).count();
                    let fails = cells.iter().filter(|cell| matches!(cell, CellOutcome::Fail(_))).count();
                    let rest = cells.len() - count - fails;
                    print_line(&format!(
                        "interop table, {row}: {count} pass, {fails} fail, {rest} cannot be"
                    ));
                    results.lock().expect("no panic under this lock").insert(*row, cells);
                }
            });
        }
    });
    results.into_inner().expect("no panic under this lock")
}

/// Returns the failures, each with its row and step.
fn failures(results: &BTreeMap<TableRow, Cells>) -> Vec<String> {
    let mut failures = Vec::new();
    for (row, cells) in results {
        for (name, cell) in names().into_iter().zip(cells) {
            if let CellOutcome::Fail(reason) = cell {
                failures.push(format!("{row}: {name}: {reason}"));
            }
        }
    }
    failures
}

// covers: STDIO-002, STDIO-003, STDIO-010, LIFE-001, VER-001, VER-011, PAGE-001, PAGE-003, PROG-003, PROG-006, TOOL-013
// covers: TOOL-015, CANC-001, CANC-010, ELIC-018, SAMP-005, ROOT-002, LOG-003, RES-010, COMP-002, PING-001, PING-002
#[test]
fn pairwise_rows_of_table_pass() {
    let rows: Vec<_> =
        pairwise::select_rows(&TableRow::all_rows()).into_iter().filter(|row| row.is_available()).collect();
    let results = run(&rows);
    let failures = failures(&results);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let committed = page::read(&fs::read_to_string(page_file()).unwrap_or_default());
    for (row, cells) in &results {
        let known = committed.get(&row.to_string());
        assert!(
            known == Some(cells),
            "{row}: tests/INTEROP.md has {known:?}, got {cells:?}; run `whole_table_passes` to update it"
        );
    }
}

#[test]
fn committed_table_has_all_rows_without_failures() {
    let committed = page::read(&fs::read_to_string(page_file()).unwrap_or_default());
    let rows: Vec<_> = TableRow::all_rows().iter().map(TableRow::to_string).collect();
    for row in &rows {
        assert!(
            committed.contains_key(row),
            "{row} is missing from tests/INTEROP.md; run `whole_table_passes` to update it"
        );
    }
    assert_eq!(
        committed.len(),
        rows.len(),
        "tests/INTEROP.md has obsolete rows; run `whole_table_passes` to update it"
    );
    let failed = |cells: &Cells| cells.iter().any(|cell| matches!(cell, CellOutcome::Fail(_)));
    assert!(!committed.values().any(failed), "failures in tests/INTEROP.md");
}

/// Runs all rows, or only those whose name contains the value of `INTEROP`; the others keep their outcomes.
#[test]
#[ignore = "takes minutes; writes tests/INTEROP.md"]
fn whole_table_passes() {
    let wanted = env::var("INTEROP").ok();
    let mut rows = TableRow::all_rows();
    rows.retain(|row| wanted.as_ref().is_none_or(|wanted| row.to_string().contains(wanted)));
    assert!(
        rows.iter().all(|row| row.is_available()),
        "the whole table needs all peers: some are not installed"
    );
    let results = run(&rows);
    let failures = failures(&results);
    let mut table = BTreeMap::new();
    let committed = fs::read_to_string(page_file()).unwrap_or_default();
    if wanted.is_some() {
        let committed = page::read(&committed);
        let known = TableRow::all_rows()
            .into_iter()
            .filter_map(|row| Some((row, committed.get(&row.to_string())?.clone())));
        table.extend(known);
    }
    table.extend(results);
    let [_, events, published] = page::split_sections(&committed);
    let page = page::write(&table) + events + published;
    print_line(&page);
    fs::write(page_file(), page).expect("room for the table");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
