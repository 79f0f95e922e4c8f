//! Browsers that are small programs of the system.

use alloc::string::ToString as _;
use core::error::Error as _;

use super::*;

fn url() -> Url {
    // All characters that a shell would not leave alone and a URL may have.
    Url::parse("https://as.test/authorize?a='b'&c=$(id)&d=%60id%60;e=*!~&f=$HOME").unwrap()
}

const ADDRESS: &str = "https://as.test/authorize?a='b'&c=$(id)&d=%60id%60;e=*!~&f=$HOME";

fn programs(browser: &Browser) -> Vec<&str> {
    browser.commands.iter().map(|words| &*words.program).collect()
}

#[test]
fn variable_names_one_command_or_several() {
    let of = |text: &str| Browser::from_variable(text);
    assert_eq!(of("").unwrap(), Browser::system());
    assert_eq!(of(" ").unwrap(), Browser::system());
    let browser = of("firefox --new-window").unwrap();
    assert_eq!(browser.commands[0].arguments, ["--new-window"]);
    if cfg!(not(windows)) {
        assert_eq!(
            programs(&of(r"firefox:: 'chromium x' -a:my\ browser").unwrap()),
            ["firefox", "chromium x", "my browser"]
        );
    }
    assert!(matches!(of("'a"), Err(BrowserError::Command(line)) if line == "'a"));
}

#[test]
fn empty_and_unfinished_commands_are_refused() {
    for line in ["", "  ", "''", "'a", "a \"b"] {
        let error = Browser::command(line).unwrap_err();
        assert!(error.to_string().contains("is empty or has a quote that is not closed"), "{error}");
    }
}

#[test]
fn program_that_is_missing_is_named() {
    let error = Browser::command("/no/such-program -x").unwrap().open(&url()).unwrap_err();
    assert!(error.to_string().starts_with("cannot start the browser \"/no/such-program\": "), "{error}");
    assert!(error.source().is_some_and(|source| error.to_string().ends_with(&source.to_string())));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A file that a program of a test writes, which is removed when it is dropped.
    struct Report(PathBuf);

    impl Report {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("mcp-browser-{}-{name}", std::process::id())))
        }

        /// Returns a browser that runs a script, with the report as `$0`.
        fn browser(&self, script: &str) -> Browser {
            Browser::command(&format!("sh -c '{script}' '{}' first", self.0.display())).unwrap()
        }

        fn read(&self) -> String {
            fs::read_to_string(&self.0).unwrap()
        }
    }

    impl Drop for Report {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    // covers: SEC-015
    #[test]
    fn address_is_one_word_that_no_shell_sees() {
        let report = Report::new("words");
        report.browser("printf \"%s\\n\" \"$@\" >\"$0\"").open(&url()).unwrap();
        assert_eq!(report.read(), format!("first\n{ADDRESS}\n"));
    }

    #[test]
    fn next_command_is_used_if_one_cannot_be_started() {
        let report = Report::new("next");
        let mut browser = Browser::command("/no/such-program").unwrap();
        browser.commands =
            [&browser.commands[..], &report.browser("echo $# >\"$0\"").commands[..]].concat().into();
        browser.open(&url()).unwrap();
        assert_eq!(report.read(), "2\n");
    }

    #[test]
    fn program_that_fails_at_once_is_reported() {
        let error = Browser::command("sh -c 'exit 3'").unwrap().open(&url()).unwrap_err();
        assert!(error.to_string().contains("the browser \"sh\" could not open the address (exit status: 3)"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn program_that_goes_on_has_a_group_and_null_streams_and_is_reaped() {
        let report = Report::new("long");
        let script = "streams=$(readlink /proc/$$/fd/[012]); cut -d\" \" -f1,5 /proc/$$/stat >\"$0\"; \
                      echo \"$streams\" >>\"$0\"; sleep 1.5";
        report.browser(script).open(&url()).unwrap();
        let text = report.read();
        let (stat, streams) = text.split_once('\n').unwrap();
        let (process, group) = stat.split_once(' ').unwrap();
        assert_eq!(process, group);
        assert_eq!(streams, "/dev/null\n".repeat(3));
        let begun = Instant::now();
        while fs::metadata(format!("/proc/{process}")).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the program was not reaped");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
