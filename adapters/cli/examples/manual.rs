//! Writes the manual: a page for each command, from the definition of the command line. Part of the build of an archive, not of the
//! program.
//!
//! `cargo run -p mcp-probe --example manual -- FOLDER DATE`, with the date that the pages bear.

use core::error::Error;
use std::path::Path;
use std::{env, fs};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// A page: the name of its file, and its text in the language of `man`.
struct Page {
    file: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let (Some(folder), Some(date), None) = (words.next(), words.next(), words.next()) else {
        return Err("expected a folder and a date".into());
    };
    fs::create_dir_all(&folder)?;
    for page in pages(mcp_probe::command(), &date)? {
        fs::write(Path::new(&folder).join(&page.file), page.text)?;
    }
    Ok(())
}

/// Returns the pages of the command and of all those below it.
fn pages(command: Command, date: &str) -> Result<Vec<Page>, Box<dyn Error>> {
    let mut command = without_help_command(command);
    let source = format!("{} {}", command.get_name(), command.get_version().unwrap_or_default());
    command.build();
    let mut pages = Vec::new();
    let mut commands = vec![&command];
    while let Some(command) = commands.pop() {
        pages.push(page(command, &source, date)?);
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(pages)
}

/// Removes the command `help`, which has no page, from this command and those below it.
fn without_help_command(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help_command)
}

fn page(command: &Command, source: &str, date: &str) -> Result<Page, Box<dyn Error>> {
    let man =
        Man::new(command.clone()).source(source).date(date).manual("Model Context Protocol").section("1");
    let mut sections = Vec::new();
    man.render_title(&mut sections)?;
    man.render_name_section(&mut sections)?;
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut sections)?;
    }
    if let Some(text) = command.get_after_long_help() {
        extra_sections(&text.to_string()).to_writer(&mut sections)?;
    }
    let mut see_also = Roff::new();
    let parent = command.get_bin_name().and_then(|name| name.rsplit_once(' '));
    if let Some((parent, _)) = parent {
        see_also.control("SH", ["SEE ALSO"]).text([roman(format!("{}(1)", parent.replace(' ', "-")))]);
    }
    see_also.to_writer(&mut sections)?;
    Ok(Page { file: man.get_filename(), text: portable(&String::from_utf8(sections)?) })
}

/// Writes blank lines, as between the paragraphs of the help of an option, as requests, and characters beyond ASCII by their numbers: as
/// they are, each program takes them in its own way.
fn portable(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for char in page.replace("\n.br\n\n.br\n", "\n\n").replace("\n\n", "\n.sp\n").chars() {
        if char.is_ascii() {
            text.push(char);
        } else {
            text.push_str(&format!("\\[u{:04X}]", u32::from(char)));
        }
    }
    text
}

/// Turns the text after the options into sections: a title of few words begins one, and indented lines keep their form.
fn extra_sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_in_section = false;
    let mut is_preformatted = false;
    let mut is_after_blank = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ');
        if is_preformatted && !is_indented {
            roff.control("fi", []).control("RE", []);
            is_preformatted = false;
        }
        let title = line.strip_suffix(':').filter(|title| !is_indented && title.split(' ').count() <= 3);
        if let Some(title) = title {
            roff.control("SH", [&*title.to_uppercase()]);
            (is_in_section, is_after_blank) = (true, false);
            continue;
        }
        if !is_in_section {
            roff.control("SH", ["NOTES"]);
            is_in_section = true;
        }
        if line.is_empty() {
            is_after_blank = true;
            continue;
        }
        if is_after_blank {
            roff.control("PP", []);
        }
        is_after_blank = false;
        if is_indented && !is_preformatted {
            roff.control("RS", ["2"]).control("nf", []);
            is_preformatted = true;
        }
        let indentation = if is_preformatted { 2 } else { 0 };
        roff.text([roman(line.get(indentation..).unwrap_or(line))]);
    }
    if is_preformatted {
        roff.control("fi", []).control("RE", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual() -> Vec<Page> {
        pages(mcp_probe::command(), "2026-01-01").expect("pages")
    }

    /// Returns what a reader sees of a page as far as these tests need it.
    fn plain(text: &str) -> String {
        text.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
    }

    #[test]
    fn each_command_has_a_page_with_its_options_and_examples() {
        let pages = manual();
        let mut commands = vec![("mcp-probe".to_owned(), mcp_probe::command())];
        let mut count = 0;
        while let Some((name, command)) = commands.pop() {
            let file = format!("{name}.1");
            let page = pages.iter().find(|page| page.file == file).map(|page| plain(&page.text));
            let page = page.unwrap_or_else(|| panic!("no page of {name}"));
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                if let Some(long) = argument.get_long() {
                    assert!(page.contains(&format!("--{long}")), "{name}: no --{long}");
                }
            }
            let has_examples =
                command.get_after_long_help().is_some_and(|text| text.to_string().contains("Examples:"));
            assert_eq!(page.contains("\n.SH EXAMPLES\n"), has_examples, "{name}");
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                let full = format!("{name}-{}", below.get_name());
                assert!(page.contains(&format!("{full}(1)")), "{name} does not refer to {full}");
                commands.push((full, below.clone()));
            }
            count += 1;
        }
        assert_eq!(count, pages.len());
        assert!(count > 30, "{count}");
    }

    #[test]
    fn lines_of_examples_stay_lines() {
        let roff =
            extra_sections("Examples:\n  a -b \\\n      c\n\nA sentence.\n\nExit codes:\n  0  success")
                .to_roff();
        let expected = [
            ".SH EXAMPLES",
            ".RS 2",
            ".nf",
            r"a \-b \\",
            "    c",
            ".fi",
            ".RE",
            ".PP",
            "A sentence.",
            ".SH \"EXIT CODES\"",
            ".RS 2",
            ".nf",
            "0  success",
            ".fi",
            ".RE",
            "",
        ];
        assert_eq!(roff, expected.join("\n"));
    }
}
