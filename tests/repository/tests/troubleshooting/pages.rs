//! Pages of the guide: code spans in the first column of their tables are the messages that they explain.

use alloc::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Longest page, in lines.
const MAX_LINES: usize = 250;

/// A page that explains messages.
pub(crate) struct Page {
    /// Path below the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns the pages of all guides whose names begin with `troubleshooting`.
pub(crate) fn read(root: &Path) -> Vec<Page> {
    let mut pages = Vec::new();
    for folder in ["core/src/guide", "adapters/runtime/src/guide", "core/events/src"] {
        for entry in fs::read_dir(root.join(folder)).expect("the folder of a guide") {
            let name = entry.expect("a directory entry").file_name().into_string().expect("UTF-8");
            if name.starts_with("troubleshooting") && name.ends_with(".md") {
                let path = format!("{folder}/{name}");
                let text = fs::read_to_string(root.join(&path)).expect("UTF-8");
                pages.push(Page { path, text });
            }
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages
}

/// Returns the messages of the pages, each with the pages that explain it, and the faults of the pages.
pub(crate) fn messages(pages: &[Page]) -> (BTreeMap<String, Vec<&str>>, Vec<String>) {
    let mut messages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut faults = Vec::new();
    for page in pages {
        let lines = page.text.lines().count();
        if lines > MAX_LINES {
            faults.push(format!("{}: {lines} lines, and a page has at most {MAX_LINES}", page.path));
        }
        let mut has_messages = false;
        for (number, line) in page.text.lines().enumerate() {
            if !line.starts_with('|') {
                has_messages = false;
                continue;
            }
            let cells = cells(line);
            let is_heading = cells.first().is_some_and(|cell| cell == "message");
            if is_heading || !has_messages {
                has_messages = is_heading;
                continue;
            }
            if cells.first().is_some_and(|cell| cell.starts_with('-')) {
                continue;
            }
            if cells.len() != 3 || cells.iter().any(String::is_empty) {
                faults.push(format!("{}:{}: not a message, a cause and a remedy", page.path, number + 1));
                continue;
            }
            for message in code_spans(&cells[0]) {
                messages.entry(message).or_default().push(&page.path);
            }
        }
    }
    (messages, faults)
}

/// Returns the cells of a row, without the escapes of `|`.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let row = row.strip_suffix('|').unwrap_or(&row);
    row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// Returns the contents of code spans, which begin and end with one or two backticks.
pub(crate) fn code_spans(text: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let length = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let fence = "`".repeat(length);
        let inner = &rest[at + length..];
        // The closing run has the same length.
        let end = inner
            .match_indices(&*fence)
            .map(|(end, _)| end)
            .find(|end| !inner[..*end].ends_with('`') && !inner[end + length..].starts_with('`'));
        let Some(end) = end else { break };
        spans.push(inner[..end].trim().to_owned());
        rest = &inner[end + length..];
    }
    spans
}

#[test]
fn messages_of_a_table_are_read_with_their_backticks() {
    let text = "| message | cause | remedy |\n|---|---|---|\n| `a …`<br>`` `b` \\| c `` | d `x` | e |\n\n| other |\n|---|\n| `f` |\n";
    let page = Page { path: "p".into(), text: text.into() };
    let pages = [page];
    let (messages, faults) = messages(&pages);
    assert_eq!(messages.keys().collect::<Vec<_>>(), ["`b` | c", "a …"]);
    assert!(faults.is_empty());
    let page = [Page {
        path: "p".into(),
        text: "| message | cause | remedy |\n|---|---|---|\n| `a` | b |\n".into(),
    }];
    assert_eq!(super::pages::messages(&page).1.len(), 1);
}
