//! A server of `mcp-smol` as a process, with each kind of stdin and stdout.

/// The methods of a trait object are linked whether or not anything calls them (`core/docs/size.md`).
#[test]
fn program_without_tasks_links_no_code_of_tasks() {
    let program = std::fs::read(crate::support::example("echo_smol")).expect("the example");
    let contains = |symbol: &[u8]| program.windows(symbol.len()).any(|part| part == symbol);
    assert!(contains(b"10Dispatcher"), "the program has symbols");
    for symbol in [&b"11ServerTasks"[..], b"9TaskTable"] {
        assert!(!contains(symbol), "{}", String::from_utf8_lossy(symbol));
    }
}
