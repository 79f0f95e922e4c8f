//! The table as Markdown: writer and reader.

use alloc::collections::BTreeMap;
use core::fmt::Write;

use super::row::{OwnRole, TableRow};
use super::{CellOutcome, Cells, names};

const PASS: &str = "pass";

const HEAD: &str = "\
# Interoperability

Results of our client and our server with the official SDKs and servers, step by step, on every transport and in every
revision. A letter means that the peer or the revision does not support the step; the reason is below the table. `FAIL`
is an error. This command runs all rows and writes this page:

```sh
cargo test --workspace --features mcp-system-tests/every-peer --test system \\
    -- --ignored whole_table
```

The other tests run a selection of rows in which every two values of different axes meet.

Peers: TypeScript `@modelcontextprotocol/sdk` 1.32.2, `@modelcontextprotocol/client` and `server` 2.4.0, Python `mcp` 2.3.0,
Rust `rmcp` 3.11.0, `server-everything` and `server-filesystem` 2026.8.31. `tests/peers`
describes them. Our side is `mcp-probe serve --everything`, or a program that uses our client.

| step | what is done |
|---|---|
| negotiate | both sides agree on the revision of the row, the only one that one side offers |
| list | a list of several pages arrives completely |
| progress | a call reports increasing progress before its result |
| structured | a result has structured content |
| error | a failing tool reports the failure in its result |
| cancel | a call is cancelled after its first progress; the server stops it and still answers others |
| accept, decline, dismiss | a call elicits a form, and the user answers in this way |
| sampling, roots | a call requests sampling, or the roots of the client |
| log | a level is set, and log messages of that level arrive |
| change | a subscribed resource changes, and the change notification arrives |
| complete | an argument of a prompt is completed |
| ping | `ping`, or `server/discover` in 2026-07-28, which has no `ping` |
| end | over stdio the server exits with success at the end of its input; over HTTP the session ends, and then the server |

A combination without a row does not exist. TypeScript 1.32.2, and the two servers built on it, do not know 2026-07-28.
Streamable HTTP begins with 2025-03-26; HTTP+SSE is the transport of 2024-11-05. TypeScript 2.4.0 has only a client for
HTTP+SSE, and `rmcp` has neither side. `server-filesystem` has stdio only.
";

/// Beginning of the section that `events` writes.
pub(in crate::interop) const EVENTS: &str = "\n## Events\n";
/// Beginning of the last section of the page, which `published` writes.
pub(in crate::interop) const PUBLISHED: &str = "\n## Published servers\n";

/// Splits a page into the table, the section about events, and that about published servers.
pub(in crate::interop) fn split_sections(page: &str) -> [&str; 3] {
    let (rest, published) = page.split_at(page.find(PUBLISHED).unwrap_or(page.len()));
    let (table, events) = rest.split_at(rest.find(EVENTS).unwrap_or(rest.len()));
    [table, events, published]
}

/// Writes all rows in their order, in one section per peer and direction.
pub(super) fn write(results: &BTreeMap<TableRow, Cells>) -> String {
    let mut page = HEAD.to_owned();
    let mut sections: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (row, cells) in results {
        sections.entry((row.own_role == OwnRole::Server, row.peer)).or_default().push((row, cells));
    }
    for rows in sections.values() {
        let [peer, direction, ..] = rows[0].0.values();
        let _ = write!(page, "\n## {peer}, {direction}\n\n| transport | runtime | revision |");
        for name in names() {
            let _ = write!(page, " {name} |");
        }
        let _ = write!(page, "\n|{}\n", "---|".repeat(names().len() + 3));
        let mut reasons = Vec::new();
        for (row, cells) in rows {
            let [_, _, transport, runtime, revision] = row.values();
            let _ = write!(page, "| {transport} | {runtime} | {revision} |");
            for cell in *cells {
                let mark = match cell {
                    CellOutcome::Pass => PASS.to_owned(),
                    CellOutcome::Fail(_) => "FAIL".to_owned(),
                    CellOutcome::Unsupported(reason) => footnote_letter(&mut reasons, reason).to_string(),
                };
                let _ = write!(page, " {mark} |");
            }
            page.push('\n');
        }
        if !reasons.is_empty() {
            page.push('\n');
        }
        for (index, reason) in reasons.iter().enumerate() {
            let _ = writeln!(page, "- {}: {reason}", nth_letter(index));
        }
    }
    page
}

fn nth_letter(index: usize) -> char {
    ('a'..='z').nth(index).expect("few reasons")
}

fn footnote_letter<'a>(reasons: &mut Vec<&'a str>, reason: &'a str) -> char {
    let known = reasons.iter().position(|known| *known == reason);
    nth_letter(known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    }))
}

/// Reads the rows of a page, by their names.
pub(super) fn read(page: &str) -> BTreeMap<String, Cells> {
    let mut rows = BTreeMap::new();
    let [page, ..] = split_sections(page);
    for section in page.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let reasons: BTreeMap<&str, &str> =
            body.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": ")).collect();
        // Skips the names of the columns and the separator line.
        for line in body.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let outcomes = cells[3..].iter().map(|cell| match *cell {
                PASS => CellOutcome::Pass,
                other => match reasons.get(other) {
                    Some(reason) => CellOutcome::Unsupported((*reason).to_owned()),
                    None => CellOutcome::Fail(other.to_owned()),
                },
            });
            rows.insert(format!("{title}, {}", cells[..3].join(", ")), outcomes.collect());
        }
    }
    rows
}

#[test]
fn written_page_reads_back_equal() {
    let cells = |row: &TableRow| {
        let mut cells = vec![CellOutcome::Pass; names().len()];
        cells[1] = CellOutcome::Unsupported(format!("{} does not", row.revision));
        cells[2] = CellOutcome::Unsupported("never".into());
        cells
    };
    let results: BTreeMap<_, _> = TableRow::all_rows().iter().map(|row| (*row, cells(row))).collect();
    let section = |begin: &str| format!("{begin}\n| server |\n|---|\n| a |\n");
    let page = format!("{}{}{}", write(&results), section(EVENTS), section(PUBLISHED));
    assert_eq!(split_sections(&page), [write(&results), section(EVENTS), section(PUBLISHED)]);
    let read = read(&page);
    assert_eq!(read, results.into_iter().map(|(row, cells)| (row.to_string(), cells)).collect());
}
