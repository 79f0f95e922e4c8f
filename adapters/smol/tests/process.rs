//! A server of `mcp-smol` as a process, with each kind of stdin and stdout.

/// Returns the names of the symbol table of a program: what is linked. Debug information, which a profile may add, names
/// functions that the linker has dropped, too.
///
/// `None` if the program is stripped.
fn symbol_names(elf: &[u8]) -> Option<&[u8]> {
    const SYMBOL_TABLE: u64 = 2;
    let is_64_bit_little_endian = elf.starts_with(b"\x7fELF\x02\x01");
    assert!(is_64_bit_little_endian, "the format is not known to this test");
    let number = |at: usize, length: usize| {
        elf[at..at + length].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let place = |at: usize, length: usize| usize::try_from(number(at, length)).expect("an address");
    let (table, size, count) = (place(40, 8), place(58, 2), place(60, 2));
    let sections: Vec<usize> = (0..count).map(|index| table + index * size).collect();
    let symbols = sections.iter().find(|at| number(**at + 4, 4) == SYMBOL_TABLE)?;
    // A table of symbols is linked to the section with their names.
    let names = sections[place(symbols + 40, 4)];
    let (offset, length) = (place(names + 24, 8), place(names + 32, 8));
    Some(&elf[offset..offset + length])
}

/// The methods of a trait object are linked whether or not anything calls them (`core/docs/size.md`).
#[cfg(target_pointer_width = "64")]
#[test]
fn program_without_tasks_links_no_code_of_tasks() {
    let program = std::fs::read(crate::support::example("echo_smol")).expect("the example");
    let names = symbol_names(&program).expect("the profile strips symbols");
    let contains = |symbol: &[u8]| names.windows(symbol.len()).any(|part| part == symbol);
    assert!(contains(b"10Dispatcher"), "the program has symbols");
    for symbol in [&b"11ServerTasks"[..], b"9TaskTable"] {
        assert!(!contains(symbol), "{}", String::from_utf8_lossy(symbol));
    }
}
