//! Commands of this program on the pages of the repository, tried as they are written there.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::support::PROBE;
use crate::support::probe;

/// Servers that a page only imagines: behind them nothing can be run.
#[cfg(target_os = "linux")]
const IMAGINED: [&str; 4] = ["npx", "my-server", "my-old-server", "my-modern-server"];

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // Cargo marks target directories with other names.
        let is_foreign = name == "target" || name == "node_modules" || path.join("CACHEDIR.TAG").exists();
        let is_ours = name == ".github" || !name.starts_with('.');
        if path.is_dir() && is_ours && !is_foreign {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns the words of a line, up to a redirection or a pipe.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_new) = (None, true);
    for c in line.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => words.last_mut().expect("a word").push(c),
            None if c == '|' || c == '>' || (c == '#' && is_new) => break,
            None if c == ' ' => is_new = true,
            None => {
                if is_new {
                    words.push(String::new());
                }
                is_new = false;
                if c == '\'' || c == '"' {
                    quote = Some(c)
                } else {
                    words.last_mut().expect("a word").push(c)
                }
            }
        }
    }
    words
}

/// Commands of all pages, with the place where they stand: the words after `mcp-probe`.
fn commands() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let mut files = Vec::new();
    pages(root, &mut files);
    files.sort();
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("UTF-8").replace("\\\n", " ");
        let mut is_command = false;
        for line in text.lines() {
            if line.starts_with("```") {
                is_command = line == "```sh" || line == "```console";
                continue;
            }
            let rest =
                line.strip_prefix("mcp-probe ").or_else(|| line.strip_prefix("cargo run -p mcp-probe -- "));
            if let Some(rest) = rest.filter(|_| is_command) {
                found.push((format!("{}: {line}", file.display()), words(rest)));
            }
        }
    }
    assert!(found.len() > 25, "{} commands", found.len());
    found
}

#[test]
fn commands_of_the_pages_are_valid() {
    for (place, words) in commands() {
        // `--help` ends the reading of a command line, after everything before it was checked.
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        words.truncate(at);
        words.push("--help");
        let done = probe(&words);
        assert!(done.stderr.is_empty() && done.stdout.contains("Usage: mcp-probe"), "{place}\n{done}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn commands_of_the_pages_that_need_nothing_else_work() {
    // Connections are kept from page to page.
    let user = crate::connect::User::new();
    let mut count = 0;
    for (place, words) in commands() {
        let server = words.iter().position(|word| word == "--").map_or(&[][..], |at| &words[at + 1..]);
        // A server of this program, perhaps behind a bridge of it.
        let is_own = server.first().is_some_and(|word| word == "mcp-probe")
            && !server.iter().any(|word| IMAGINED.contains(&&**word) || word.contains("://"))
            && words[0] != "bridge";
        let is_kept =
            words.iter().any(|word| word == "--end") || words.iter().any(|word| word.starts_with("@lab"));
        if !is_own && !is_kept {
            continue;
        }
        count += 1;
        let words: Vec<&str> =
            words.iter().map(|word| if word == "mcp-probe" { PROBE } else { word }).collect();
        println!("{place}");
        let _ = user.run(&words).assert_ok();
    }
    assert!(count >= 5, "{count} commands were run");
}
