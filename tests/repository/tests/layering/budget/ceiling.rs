//! The ceiling of the sum: it falls with what is taken away, and rises only by what the table of raises says.

use std::process::Command;

use crate::layering::root;

/// Lines that the ceiling may stand above the sum.
const SLACK: usize = 300;
const PATH: &str = "tests/repository/budget.tsv";

/// The rows of the file that speak of the sum.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Ceiling {
    pub(super) lines: usize,
    /// Issues that may raise it, with the lines.
    pub(super) raises: Vec<(String, usize)>,
}

impl Ceiling {
    /// Reads them; a file without them has none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut ceiling = None;
        let mut raises = Vec::new();
        for row in text.lines() {
            match row.split('\t').collect::<Vec<_>>().as_slice() {
                ["ceiling", lines] => ceiling = lines.parse().ok(),
                ["raise", issue, lines] => raises.push(((*issue).to_owned(), lines.parse().ok()?)),
                _ => {}
            }
        }
        ceiling.map(|lines| Self { lines, raises })
    }

    /// Returns what is wrong with the ceiling beside a sum.
    pub(super) fn check(&self, sum: usize) -> Result<(), String> {
        let ceiling = self.lines;
        if sum > ceiling {
            return Err(format!("{sum} lines in all packages, ceiling {ceiling}: take something away first"));
        }
        if ceiling > sum + SLACK {
            return Err(format!(
                "the ceiling of {ceiling} stands more than {SLACK} above the sum of {sum}: lower it"
            ));
        }
        Ok(())
    }
}

/// Returns what is wrong with the history of the ceiling, first state first: it was lifted by more than the raises of the state
/// before, or a raise was changed after it was given.
fn check_history(states: &[(String, Ceiling)]) -> Result<(), String> {
    let mut lifted = 0;
    for pair in states.windows(2) {
        let [(_, before), (commit, after)] = pair else { continue };
        if !after.raises.starts_with(&before.raises) {
            return Err(format!("{commit} changes or removes a raise that was given"));
        }
        lifted += after.lines.saturating_sub(before.lines);
        // A raise counts from the next commit on: whoever adds it does not use it in the same breath.
        let allowed: usize = before.raises.iter().map(|(_, lines)| lines).sum();
        if lifted > allowed {
            return Err(format!(
                "{commit} lifts the ceiling: {lifted} lines in all, and the raises allow {allowed}"
            ));
        }
    }
    Ok(())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn ceiling_rises_only_by_what_its_raises_allow() {
    let Some(commits) = git(&["log", "--reverse", "--first-parent", "--format=%h", "--", PATH]) else {
        println!("NOT CHECKED: the history of the budget's ceiling, without git or its history");
        return;
    };
    if git(&["rev-parse", "--is-shallow-repository"]).is_none_or(|text| text.trim() == "true") {
        println!("NOT CHECKED: the history of the budget's ceiling before that of this shallow clone");
    }
    let state = |commit: &str| {
        let text = git(&["show", &format!("{commit}:{PATH}")])?;
        Some((commit.to_owned(), Ceiling::parse(&text)?))
    };
    let mut states: Vec<_> = commits.lines().filter_map(state).collect();
    let now = std::fs::read_to_string(root().join(PATH)).expect("the budget");
    states.push(("the working tree".to_owned(), Ceiling::parse(&now).expect("a ceiling")));
    check_history(&states).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn lifts_beyond_the_raises_are_found() {
    let state = |lines, raises: &[(&str, usize)]| {
        let raises = raises.iter().map(|(issue, lines)| ((*issue).to_owned(), *lines)).collect();
        (format!("at {lines}"), Ceiling { lines, raises })
    };
    let one: &[(&str, usize)] = &[("1", 50)];
    assert!(check_history(&[state(100, one), state(120, one), state(90, one), state(120, one)]).is_ok());
    assert!(check_history(&[state(100, one), state(120, one), state(90, one), state(121, one)]).is_err());
    assert!(
        check_history(&[state(100, one), state(160, &[("1", 50), ("2", 10)])]).is_err(),
        "given and used at once"
    );
    assert!(check_history(&[state(100, one), state(100, &[("1", 60)])]).is_err(), "a larger raise");
    let text = "package\tfiles\ncore\t1\nraise\t1\t50\nceiling\t100\n";
    assert_eq!(Ceiling::parse(text), Some(state(100, one).1));
    assert_eq!(Ceiling::parse("package\tfiles\ncore\t1\n"), None);
    assert!(state(100, one).1.check(100).is_ok() && state(400, one).1.check(100).is_ok());
    assert!(state(99, one).1.check(100).is_err() && state(401, one).1.check(100).is_err());
}
