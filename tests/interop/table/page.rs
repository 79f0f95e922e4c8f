//! The table as Markdown, and back

use alloc::collections::BTreeMap;
use core::fmt::Write;

use super::row::{Row, Side};
use super::{Cells, Outcome, names};

const PASS: &str = "pass";

const HEAD: &str = "\
# Interoperability

What our client and our server do with the official SDKs and servers, on every transport and in every revision, step by
step. `pass` is what it says; a letter stands for a reason, below the table, why the peer or the revision cannot; `FAIL`
for what is wrong. All of it is run, and this page written, by

```sh
cargo test -p mcp-tests --test interop -- --ignored the_whole_table
```

and a choice of it, in which every two values of different axes meet, with all other tests.

Peers: TypeScript `@modelcontextprotocol/sdk` 1.32.2, `@modelcontextprotocol/client` and `server` 2.4.0, Python `mcp` 2.3.0,
Rust `rmcp` 3.8.0, `server-everything` and `server-filesystem` 2026.8.31. Each is what `tests/peers` says, as its users have
it: our side is `mcp-probe serve --everything`, or a program on our client.

| step | what is done |
|---|---|
| negotiate | the revision of the row, which is the only one that one side offers, is agreed on |
| list | a list of more than one page comes in full |
| progress | a call reports progress, which grows, before its result |
| structured | a result has its structured form |
| error | a tool that fails says so in its result |
| cancel | a call is given up when it has reported progress; the server stops it, and goes on with others |
| accept, decline, dismiss | a call asks the user by a form, who answers in these ways |
| sampling, roots | a call asks for the client's model, and for its roots |
| log | a level is set, and logs of it come |
| change | a resource is followed, changes, and that is told |
| complete | an argument of a prompt is completed |
| ping | `ping`, or `server/discover` in 2026-07-28, which has none |
| end | over stdio the server ends by itself and well when its input does, over HTTP the session and then the server end well |

What is no row there is not: TypeScript 1.32.2, and the two servers, which are made of it, do not know 2026-07-28; Streamable
HTTP begins with 2025-03-26, and the transport before it, HTTP+SSE, ended then; TypeScript 2.4.0 has only a client for that, and
`rmcp` nothing; `server-filesystem` is on stdio alone.
";

/// All rows in their order, in a section for each peer and direction
pub(super) fn write(done: &BTreeMap<Row, Cells>) -> String {
    let mut page = HEAD.to_owned();
    let mut sections: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (row, cells) in done {
        sections.entry((row.ours == Side::Server, row.peer)).or_default().push((row, cells));
    }
    for rows in sections.values() {
        let [peer, ours, ..] = rows[0].0.values();
        let _ = write!(page, "\n## {peer}, {ours}\n\n| transport | runtime | revision |");
        for name in names() {
            let _ = write!(page, " {name} |");
        }
        let _ = write!(page, "\n|{}\n", "---|".repeat(names().len() + 3));
        let mut reasons = Vec::new();
        for (row, cells) in rows {
            let [_, _, wire, runtime, revision] = row.values();
            let _ = write!(page, "| {wire} | {runtime} | {revision} |");
            for cell in *cells {
                let mark = match cell {
                    Outcome::Pass => PASS.to_owned(),
                    Outcome::Fail(_) => "FAIL".to_owned(),
                    Outcome::Cannot(why) => letter(&mut reasons, why).to_string(),
                };
                let _ = write!(page, " {mark} |");
            }
            page.push('\n');
        }
        if !reasons.is_empty() {
            page.push('\n');
        }
        for (index, why) in reasons.iter().enumerate() {
            let _ = writeln!(page, "- {}: {why}", at(index));
        }
    }
    page
}

fn at(index: usize) -> char {
    ('a'..='z').nth(index).expect("few reasons")
}

fn letter<'a>(reasons: &mut Vec<&'a str>, why: &'a str) -> char {
    let known = reasons.iter().position(|reason| *reason == why);
    at(known.unwrap_or_else(|| {
        reasons.push(why);
        reasons.len() - 1
    }))
}

/// The rows of a page, by their names
pub(super) fn read(page: &str) -> BTreeMap<String, Cells> {
    let mut rows = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let reasons: BTreeMap<&str, &str> =
            body.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": ")).collect();
        // Behind the names of the columns, and what is below them
        for line in body.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let outcomes = cells[3..].iter().map(|cell| match *cell {
                PASS => Outcome::Pass,
                other => match reasons.get(other) {
                    Some(why) => Outcome::Cannot((*why).to_owned()),
                    None => Outcome::Fail(other.to_owned()),
                },
            });
            rows.insert(format!("{title}, {}", cells[..3].join(", ")), outcomes.collect());
        }
    }
    rows
}

#[test]
fn what_is_written_can_be_read() {
    let cells = |row: &Row| {
        let mut cells = vec![Outcome::Pass; names().len()];
        cells[1] = Outcome::Cannot(format!("{} does not", row.revision));
        cells[2] = Outcome::Cannot("never".into());
        cells
    };
    let done: BTreeMap<_, _> = Row::all().iter().map(|row| (*row, cells(row))).collect();
    let read = read(&write(&done));
    assert_eq!(read, done.into_iter().map(|(row, cells)| (row.to_string(), cells)).collect());
}
