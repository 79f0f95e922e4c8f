//! How much a test tries: in `cargo test`, in `.ci/run`, and in `.ci/full`. The harness of `mcp-tests` has this file, too.

/// Runs a test of all cases up to a bound, and prints its property, bound and number of cases for `tests/exhaustive`, which counts them.
///
/// `bounds` are those of `cargo test`, of `.ci/run` (`MCP_TEST_FULL`), and of `.ci/full` (`MCP_TEST_DEEP`). `check` gets one, and
/// returns how many cases it had. `scope` says what the bound is of: "texts of 9 bytes, up to a length of".
///
/// # Panics
///
/// If there was no case.
#[allow(clippy::print_stdout, reason = "captured by the test runner")]
pub fn exhaustive(property: &str, scope: &str, bounds: [usize; 3], check: impl FnOnce(usize) -> u64) {
    let [quick, full, deep] = bounds;
    let is_set = |name| std::env::var_os(name).is_some();
    let bound = if is_set("MCP_TEST_DEEP") {
        deep
    } else if is_set("MCP_TEST_FULL") {
        full
    } else {
        quick
    };
    let cases = check(bound);
    assert!(cases > 0, "{property}: no case");
    std::println!("EXHAUSTIVE\t{property}\t{scope} {bound}\t{cases}");
}

/// Returns a tenth of a random test's rounds, or all of them with the variable `MCP_TEST_FULL`, as `.ci/run` sets it.
#[must_use]
pub fn rounds(all: u64) -> u64 {
    if std::env::var_os("MCP_TEST_FULL").is_some() { all } else { all.div_ceil(10) }
}
