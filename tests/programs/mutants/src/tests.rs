//! Each kind of mutant, compiled into one program and switched on one at a time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

use crate::rewrite::{LineColumn, LineSpan, Mutant, Rewritten, rewrite};

/// Makes a mutant at the first place of a text.
fn mutant(source: &str, id: u32, genre: &str, at: &str, replacement: &str) -> Mutant {
    let start = source.find(at).expect("the source has the text");
    let line = source[..start].matches('\n').count() + 1;
    let column = start - source[..start].rfind('\n').map_or(0, |end| end + 1) + 1;
    Mutant {
        id,
        genre: genre.into(),
        replacement: replacement.into(),
        span: LineSpan { start: LineColumn { line, column } },
        doubled: false,
    }
}

/// Returns what a program prints without a mutant, and with each of them.
fn outputs(name: &str, source: &str, mutants: &[Mutant]) -> Vec<String> {
    let Rewritten { text, not_tried, .. } = rewrite(source, mutants, &BTreeSet::new()).expect("Rust");
    assert!(not_tried.is_empty(), "{not_tried:?}");
    let folder = env::temp_dir().join(format!("mcp-mutants-{}-{name}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (file, program): (PathBuf, PathBuf) = (folder.join("main.rs"), folder.join("main"));
    let switch = "\nfn mutant(id: u32) -> bool { std::env::var(\"MUTANT\").unwrap() == id.to_string() }\n";
    fs::write(&file, text.clone() + switch).expect("a file");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(compiler)
        .args(["--edition=2024", "--cap-lints=allow", "-o"])
        .args([&program, &file])
        .output()
        .expect("a compiler");
    assert!(compiled.status.success(), "{text}\n{}", String::from_utf8_lossy(&compiled.stderr));
    let ids = std::iter::once(0).chain(mutants.iter().map(|mutant| mutant.id));
    let printed = ids.map(|id| {
        let run = Command::new(&program).env("MUTANT", id.to_string()).output().expect("the program");
        String::from_utf8(run.stdout).expect("UTF-8").trim().to_owned()
    });
    let printed = printed.collect();
    fs::remove_dir_all(&folder).expect("the folder");
    printed
}

#[test]
fn operators_are_replaced_one_at_a_time() {
    let source = "\
fn main() {
    let (a, b) = (7_u32, 2_u32);
    let mut sum = a - b;
    sum += a * (b + 1);
    let text = String::from(\"x\") + \"y\";
    let chosen = a < b && text == \"xy\" || !text.is_empty();
    println!(\"{sum} {chosen} {}\", -1_i8);
    if a & 3 == 3 {
        let shifted = 1_u64 << 40 >> b;
        println!(\"{shifted}\");
    }
}
";
    let mutants = [
        mutant(source, 1, "BinaryOperator", "- b", "+"),
        mutant(source, 2, "BinaryOperator", "- b", "/"),
        mutant(source, 3, "BinaryOperator", "+= a", "-="),
        mutant(source, 4, "BinaryOperator", "* (b", "+"),
        mutant(source, 5, "BinaryOperator", "+ 1)", "*"),
        mutant(source, 6, "BinaryOperator", "< b", ">"),
        mutant(source, 7, "BinaryOperator", "&& text", "||"),
        mutant(source, 8, "BinaryOperator", "|| !text", "&&"),
        mutant(source, 9, "UnaryOperator", "!text", ""),
        mutant(source, 10, "BinaryOperator", "== \"xy", "!="),
        mutant(source, 11, "BinaryOperator", ">> b", "<<"),
        mutant(source, 12, "BinaryOperator", "& 3", "|"),
    ];
    let shift = 1_u64 << 38;
    let expected: Vec<String> = [
        (26, true, Some(shift)),
        (30, true, Some(shift)),
        (24, true, Some(shift)),
        // 5 - 21 overflows, and the program panics.
        (0, false, None),
        (15, true, Some(shift)),
        (19, true, Some(shift)),
        (26, true, Some(shift)),
        (26, true, Some(shift)),
        (26, false, Some(shift)),
        (26, false, Some(shift)),
        (26, true, Some(shift)),
        (26, true, Some(1_u64 << 42)),
        (26, true, Some(0)),
    ]
    .into_iter()
    .map(|(sum, chosen, shifted)| match shifted {
        None => String::new(),
        Some(0) => format!("{sum} {chosen} -1"),
        Some(shifted) => format!("{sum} {chosen} -1\n{shifted}"),
    })
    .collect();
    assert_eq!(outputs("operators", source, &mutants), expected);
    // The other way of writing them does the same.
    let mut doubled = mutants;
    doubled.iter_mut().for_each(|mutant| mutant.doubled = true);
    assert_eq!(outputs("doubled", source, &doubled), expected);
}

#[test]
fn lazy_operator_evaluates_its_right_side_only_if_it_decides() {
    let source = "\
fn say(name: &str, value: bool) -> bool { print!(\"{name}\"); value }
fn main() {
    let _ = say(\"a\", true) || say(\"b\", true);
    let _ = say(\"c\", false) && say(\"d\", true);
}
";
    let mutants = [
        mutant(source, 1, "BinaryOperator", "|| say", "&&"),
        mutant(source, 2, "BinaryOperator", "&& say", "||"),
    ];
    assert_eq!(outputs("lazy", source, &mutants), ["ac", "abc", "acd"]);
}

#[test]
fn bodies_arms_guards_and_fields_are_replaced_one_at_a_time() {
    let source = "\
#[derive(Clone, Debug)]
struct Limits { calls: u8, bytes: u8 }
impl Default for Limits { fn default() -> Self { Self { calls: 1, bytes: 2 } } }
const fn half(of: u8) -> u8 { of / 2 }
fn name(of: u8) -> &'static str {
    match of {
        0 => \"none\",
        n if n > 4 => \"many\",
        _ => \"some\",
    }
}
fn main() {
    let calls = half(18);
    let first = Limits { bytes: 8, ..Default::default() };
    let second = Limits { calls, ..first.clone() };
    println!(\"{} {} {} {}\", name(0), name(3), name(first.bytes), second.calls);
}
";
    let mutants = [
        mutant(source, 1, "FnValue", "match of", "\"body\""),
        mutant(source, 2, "MatchArm", "0 => ", ""),
        mutant(source, 3, "MatchArmGuard", "n > 4", "true"),
        mutant(source, 4, "MatchArmGuard", "n > 4", "false"),
        mutant(source, 5, "MatchArm", "n if n", ""),
        mutant(source, 6, "BinaryOperator", "> 4", "<"),
        mutant(source, 7, "StructField", "bytes: 8", ""),
        mutant(source, 8, "StructField", "calls, ..", ""),
        mutant(source, 9, "FnValue", "of / 2", "1"),
        mutant(source, 10, "BinaryOperator", "/ 2", "*"),
        mutant(source, 11, "FnValue", "let calls = half", "()"),
    ];
    let expected = [
        "none some many 9",
        "body body body 9",
        "some some many 9",
        "none many many 9",
        "none some some 9",
        "none some some 9",
        "none many some 9",
        "none some some 9",
        "none some many 1",
        "none some many 1",
        "none some many 36",
        "",
    ];
    assert_eq!(outputs("others", source, &mutants), expected);
}

#[test]
fn constant_gets_no_switch_and_says_why() {
    let source = "\
const SIZE: usize = 2 << 10;
const fn double(of: usize) -> usize { of * 2 }
static BUFFER: [u8; double(8)] = [0; 4 + 12];
fn pattern(of: i8) -> bool { matches!(of, 0) || match of { -1 => true, _ => false } }
";
    let mutants = [
        mutant(source, 1, "BinaryOperator", "<< 10", ">>"),
        mutant(source, 2, "BinaryOperator", "* 2", "+"),
        mutant(source, 3, "BinaryOperator", "+ 12", "-"),
        mutant(source, 4, "UnaryOperator", "-1", ""),
        mutant(source, 5, "Comment", "-1", ""),
    ];
    let constant = BTreeSet::from(["double".to_owned()]);
    let Rewritten { text, not_tried, .. } = rewrite(source, &mutants, &constant).expect("Rust");
    assert_eq!(text, source);
    let reasons: Vec<_> = not_tried.into_iter().collect();
    let function = "a function that constants call";
    assert_eq!(
        reasons,
        [(1, "a constant"), (2, function), (3, "a constant"), (4, "not found"), (5, "unknown kind")]
    );
}

#[test]
fn regions_name_the_mutants_to_blame() {
    let source = "fn sum(a: u8) -> u8 { a + 1 }\n";
    let mutants = [
        mutant(source, 1, "FnValue", "a + 1", "Default::default()"),
        mutant(source, 2, "BinaryOperator", "+ 1", "-"),
    ];
    let Rewritten { text, regions, .. } = rewrite(source, &mutants, &BTreeSet::new()).expect("Rust");
    let blamed = |at: &str| {
        let at = text.find(at).expect("the text");
        let of = regions.iter().filter(|region| (region.start..region.end).contains(&at));
        let region = of.min_by_key(|region| region.end - region.start).expect("a region");
        (region.ids.clone(), region.alone)
    };
    assert_eq!(blamed("Default"), (vec![1], true));
    assert_eq!(blamed("left_ - right_"), (vec![2], true));
    assert_eq!(blamed("left_ + right_"), (vec![2], false));
    assert!(regions.iter().all(|region| region.alone || region.ids == [2]), "{regions:?}");
}

#[test]
fn match_names_the_arms_that_it_may_need() {
    let source =
        "fn half(a: Option<u8>) -> u8 { match a { Some(a) if a > 1 => a / 2, Some(_) => 0, None => 1 } }\n";
    let mutants = [
        mutant(source, 1, "MatchArm", "Some(a) if", ""),
        mutant(source, 2, "MatchArm", "Some(_)", ""),
        mutant(source, 3, "MatchArm", "None =>", ""),
    ];
    let Rewritten { text, matches, .. } = rewrite(source, &mutants, &BTreeSet::new()).expect("Rust");
    let [found] = &matches[..] else { panic!("{matches:?}") };
    assert_eq!(found.ids, [2, 3]);
    assert!(
        text[found.start..found.end].starts_with("match a {") && text[found.start..].contains("None if ")
    );
}
