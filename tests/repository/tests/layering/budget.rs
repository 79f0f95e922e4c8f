//! The budget: how much there is to read in each package (`tests/repository/budget.tsv`), and a ceiling for the sum.
//!
//! Everything is counted by pattern. Tests and documentation cost nothing. A number of a package may rise only in a commit whose message
//! says why; the ceiling only by the table of raises.

mod arrows;
mod ceiling;
mod weigh;
mod written;

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::layering::root;
use crate::layering::source::rust_files;
use ceiling::Ceiling;
use weigh::File;

/// Lines of code below which a file counts as short.
const SHORT_FILE: usize = 60;
/// Fields that a struct may have before it counts as wide.
const MANY_FIELDS: usize = 20;
/// The columns: files · those below [`SHORT_FILE`] · lines of code · characters of code · lines that macros write · questions whether
/// something is there, in tenths per 1,000 lines · private traits with one implementation · `Option<Box<` · fields of function pointers ·
/// traits with one implementation that are used as objects · imports that run back up inside a folder · structs of more than
/// [`MANY_FIELDS`] fields · characters in literals · bytes of data beside the code.
const COLUMNS: [&str; 14] = [
    "files",
    "short",
    "lines",
    "chars",
    "written",
    "questions",
    "traits",
    "boxes",
    "pointers",
    "objects",
    "back",
    "wide",
    "strings",
    "data",
];

/// Returns the words of a text with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    core::iter::from_fn(move || {
        let begin = at + text[at..].find(is_part)?;
        let end = text[begin..].find(|c| !is_part(c)).map_or(text.len(), |length| begin + length);
        at = end;
        Some((begin, &text[begin..end]))
    })
}

/// The sources of a package.
struct Package {
    name: String,
    files: Vec<File>,
    /// Bytes of files beside the code that are neither Rust nor documentation.
    data: usize,
}

impl Package {
    fn code(&self) -> String {
        self.files.iter().flat_map(|file| [&*file.text, "\n"]).collect()
    }

    fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }
}

fn packages() -> Vec<Package> {
    let read =
        |(name, folder): (String, PathBuf)| Package { name, files: weigh::read(&folder), data: data(folder) };
    weigh::packages(root()).into_iter().map(read).collect()
}

fn data(folder: PathBuf) -> usize {
    let (mut bytes, mut folders) = (0, vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if !["rs", "md"].map(Some).contains(&path.extension().and_then(|end| end.to_str())) {
                bytes += fs::metadata(&path).map_or(0, |data| data.len().try_into().unwrap_or(usize::MAX));
            }
        }
    }
    bytes
}

/// Traits of all packages, and how many types implement each.
struct Traits {
    implementations: BTreeMap<String, usize>,
    objects: BTreeSet<String>,
}

impl Traits {
    fn of(codes: &[String]) -> Self {
        let (mut implementations, mut objects) = (BTreeMap::new(), BTreeSet::new());
        for code in codes {
            for (name, target_is_any) in implemented(code) {
                // One for every type of a kind is many.
                *implementations.entry(name).or_default() += 1 + usize::from(target_is_any);
            }
            let mut before = "";
            for (_, word) in words(code) {
                if before == "dyn" {
                    objects.insert(word.to_owned());
                }
                before = word;
            }
        }
        Self { implementations, objects }
    }
}

/// Returns the trait of each `impl … for`, and whether it is for a type parameter.
fn implemented(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (at, _) in words(code).filter(|(_, word)| *word == "impl") {
        let head = code[at..].split(['{', ';']).next().unwrap_or_default();
        let Some((before, target)) = head.split_once(" for ") else { continue };
        let before = before.trim_end();
        // Without the arguments of the trait.
        let mut depth = 0;
        let end = before.char_indices().rev().find(|(at, c)| {
            depth += i32::from(*c == '>' && !before[..*at].ends_with('-')) - i32::from(*c == '<');
            depth == 0
        });
        let end = end.map_or(0, |(at, c)| if c == '<' { at } else { at + c.len_utf8() });
        let Some((_, name)) = words(&before[..end]).last() else { continue };
        let target = words(target).next().map_or("", |(_, word)| word);
        // Of `T: Bound, U`, not what a bound names.
        let parameters =
            head.strip_prefix("impl<").map_or("", |rest| rest.split('>').next().unwrap_or_default());
        let is_parameter = |(at, word): (usize, &str)| {
            let rest = parameters[at + word.len()..].trim_start();
            word == target
                && (rest.is_empty() || rest.starts_with([',', ':', '=']) && !rest.starts_with("::"))
        };
        found.push((name.to_owned(), words(parameters).any(is_parameter)));
    }
    found
}

/// Returns the traits of a package, with whether each is private.
fn traits(code: &str) -> Vec<(String, bool)> {
    let lines = code.lines().map(str::trim_start).filter_map(|line| {
        let (before, rest) = line.split_once("trait ")?;
        let is_pub = before.trim_end() == "pub";
        let begins =
            is_pub || before.is_empty() || before.starts_with("pub(") && before.trim_end().ends_with(')');
        words(rest).next().filter(|(at, _)| begins && *at == 0).map(|(_, name)| (name.to_owned(), !is_pub))
    });
    lines.collect()
}

/// Counts `let … else` of any pattern, and the questions whether an option is there.
fn questions(code: &str) -> usize {
    let all = words(code).filter(|(at, word)| match *word {
        // Behind a block it belongs to an `if`.
        "else" => code[at + 4..].trim_start().starts_with('{') && !code[..*at].trim_end().ends_with('}'),
        "is_some_and" | "is_none_or" | "map_or" => code[..*at].ends_with('.'),
        _ => false,
    });
    all.count()
}

/// Returns the bodies of structs and enums, with whether each is a struct with named fields.
fn bodies(code: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    for (at, word) in words(code).filter(|(_, word)| ["struct", "enum"].contains(word)) {
        let rest = &code[at + word.len()..];
        let mut angles = 0;
        let open = rest.char_indices().find(|(at, c)| {
            angles += i32::from(*c == '<') - i32::from(*c == '>' && !rest[..*at].ends_with('-'));
            angles == 0 && ['{', '(', ';'].contains(c)
        });
        let Some((open, c @ ('{' | '('))) = open else { continue };
        let mut depth = 0;
        let close = rest[open..].char_indices().find(|(_, c)| {
            depth += i32::from("([{".contains(*c)) - i32::from(")]}".contains(*c));
            depth == 0
        });
        let close = close.map_or(rest.len(), |(length, _)| open + length);
        found.push((&rest[open + 1..close], word == "struct" && c == '{'));
    }
    found
}

/// Counts function pointers, those behind an alias of a type included, in the fields of structs and enums.
fn pointers(code: &str) -> usize {
    // What says only which type a value is of is no pointer.
    let is_pointer = |text: &str, at: usize| {
        text[at + 2..].trim_start().starts_with('(') && !text[..at].ends_with("PhantomData<")
    };
    let holds = |text: &str| words(text).any(|(at, word)| word == "fn" && is_pointer(text, at));
    let aliases = words(code).filter(|(_, word)| *word == "type").filter_map(|(at, _)| {
        let statement = code[at + 4..].split(';').next().unwrap_or_default();
        let (name, kind) = statement.split_once('=')?;
        holds(kind).then(|| words(name).next().map(|(_, name)| name)).flatten()
    });
    let aliases: BTreeSet<&str> = aliases.collect();
    let in_body = |(body, _): &(&str, bool)| {
        let is_one = |(at, word): &(usize, &str)| match *word {
            "fn" => is_pointer(body, *at),
            _ => {
                aliases.contains(word)
                    && !body[at + word.len()..].starts_with(':')
                    && !body[..*at].ends_with("PhantomData<")
            }
        };
        words(body).filter(is_one).count()
    };
    bodies(code).iter().map(in_body).sum()
}

/// Counts structs with more than [`MANY_FIELDS`] named fields.
fn wide(code: &str) -> usize {
    let fields = |body: &str| {
        let (mut depth, mut fields, mut before) = (0, 0, ' ');
        for (at, c) in body.char_indices() {
            depth += i32::from("([{<".contains(c))
                - i32::from(")]}".contains(c))
                - i32::from(c == '>' && before != '-');
            let is_colon = c == ':' && before != ':' && !body[at + 1..].starts_with(':');
            fields += usize::from(depth == 0 && is_colon);
            before = c;
        }
        fields
    };
    bodies(code).iter().filter(|(body, has_names)| *has_names && fields(body) > MANY_FIELDS).count()
}

fn counts(package: &Package, code: &str, traits_of_all: &Traits) -> [usize; COLUMNS.len()] {
    let own = implemented(code);
    let count = |name: &String| own.iter().filter(|(other, _)| other == name).count();
    let traits = traits(code);
    let is_single_object = |name: &String| {
        traits_of_all.objects.contains(name) && traits_of_all.implementations.get(name) == Some(&1)
    };
    let lines = package.lines();
    let files = package.files.iter().filter(|file| file.lines > 0);
    [
        files.clone().count(),
        files.filter(|file| file.lines < SHORT_FILE).count(),
        lines,
        code.lines().map(|line| line.trim().chars().count()).sum(),
        written::count(&package.files),
        (10_000 * questions(code)).div_ceil(lines.max(1)),
        traits.iter().filter(|(name, is_private)| *is_private && count(name) == 1).count(),
        code.matches("Option<Box<").count(),
        pointers(code),
        traits.iter().filter(|(name, _)| is_single_object(name)).count(),
        arrows::count(&package.files),
        wide(code),
        package.files.iter().map(|file| file.strings).sum(),
        package.data,
    ]
}

/// Lines of Rust below `tests/`, and of tests inside the packages.
fn lines_of_tests(packages: &[Package]) -> usize {
    let inside: usize = packages.iter().flat_map(|package| &package.files).map(|file| file.tests).sum();
    let lines = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("UTF-8");
        text.lines().filter(|line| !line.trim().is_empty()).count()
    };
    inside + rust_files(&root().join("tests")).values().map(lines).sum::<usize>()
}

/// A row, with what is counted in tenths.
fn row(name: &str, cells: &[usize]) -> String {
    let cell = |(column, n): (&&str, &usize)| match *column {
        "questions" => format!("{}.{}", n / 10, n % 10),
        _ => n.to_string(),
    };
    let cells: Vec<String> = COLUMNS.iter().zip(cells).map(cell).collect();
    format!("{name}\t{}\n", cells.join("\t"))
}

fn table(packages: &[Package]) -> (Vec<(String, Vec<usize>)>, usize) {
    let codes: Vec<String> = packages.iter().map(Package::code).collect();
    let traits = Traits::of(&codes);
    let of = |(package, code): (&Package, &String)| {
        (package.name.clone(), counts(package, code, &traits).to_vec())
    };
    let rows: Vec<(String, Vec<usize>)> = packages.iter().zip(&codes).map(of).collect();
    // What one invocation writes of several items counts as if it had been written by hand.
    let sum = rows.iter().map(|(_, cells)| cells[2] + cells[4]).sum();
    (rows, sum)
}

#[test]
fn packages_keep_their_budget_and_the_sum_its_ceiling() {
    let path = root().join("tests/repository/budget.tsv");
    let budget = fs::read_to_string(&path).expect("the budget");
    let packages = packages();
    let (rows, sum) = table(&packages);
    let total = |column: usize| rows.iter().map(|(_, cells)| cells[column]).sum::<usize>();
    let tests = lines_of_tests(&packages);
    println!(
        "{} lines and {} that macros write; beside them {} characters in literals, {} bytes of data, {tests} lines of tests",
        total(2),
        total(4),
        total(12),
        total(13)
    );
    packages.iter().for_each(|package| arrows::print(&package.name, &package.files));
    let head = format!("package\t{}\n", COLUMNS.join("\t"));
    let mut text = head.clone();
    rows.iter().for_each(|(name, cells)| text.push_str(&row(name, cells)));
    let ceiling = Ceiling::parse(&budget).expect("a row `ceiling`");
    if std::env::var_os("UPDATE_BUDGET").is_some() {
        // It falls with the sum, and rises only as far as the raises allow, which the history shows.
        writeln!(text, "tests\t{tests}\nceiling\t{sum}").expect("a string");
        for (issue, lines) in &ceiling.raises {
            writeln!(text, "raise\t{issue}\t{lines}").expect("a string");
        }
        fs::write(&path, &text).expect("written");
        return;
    }
    assert!(budget.starts_with(&head), "the columns of {} are others", path.display());
    let mut over = Vec::new();
    for (name, cells) in &rows {
        let Some(allowed) = budget.lines().find(|row| row.split('\t').next() == Some(name)) else {
            over.push(format!("`{name}` has no row"));
            continue;
        };
        for ((column, allowed), has) in COLUMNS.iter().zip(allowed.split('\t').skip(1)).zip(cells) {
            let allowed: usize = allowed.replace('.', "").parse().expect("a number");
            if *has > allowed {
                over.push(format!("{name}: {has} {column}, budget {allowed}"));
            }
        }
    }
    over.extend(ceiling.check(sum).err());
    // Free, but named: code that moves there is not gone.
    let named = budget.lines().find_map(|row| row.strip_prefix("tests\t")?.parse::<usize>().ok());
    if named.is_none_or(|named| named.abs_diff(tests) > named / 50) {
        over.push(format!("{tests} lines of tests, the budget names {named:?}"));
    }
    assert!(
        over.is_empty(),
        "over budget:\n{}\nMake it smaller, or run this test with UPDATE_BUDGET=1 and say in the commit why.",
        over.join("\n")
    );
}

#[test]
fn patterns_that_cost_a_reader_are_counted() {
    let text = "trait One {}\nimpl One for u8 {}\npub(super) trait Two {}\nimpl<T: Two> Two for Vec<T> {}\nimpl Two for u8 {}\n\
        pub trait Public<T> {}\nimpl<F: Fn(u8) -> u8> Public<Vec<F>> for u8 {}\npub trait Any {}\nimpl<T> Any for T {}\n\
        type Hook<T> = for<'a> fn(&'a T) -> u8;\n\
        struct X<F: Fn(u8)> {\n    a: Option<Box<u8>>,\n    pub(super) b: fn(u8),\n    c: Option<Hook<u8>>,\n    d: PhantomData<fn() -> F>,\n}\n\
        enum E { F(fn()), G { hook: Hook<u8> } }\nstruct T(pub Hook<u16>, Box<dyn Public<u8>>, Box<dyn Any>);\n\
        fn f(x: fn(u8)) { let X { a, .. } = x else { return }; if x { 1 } else { 2 }; a.is_some_and(b) && a.map_or(1, c); }\n";
    let parts: String = (0..=MANY_FIELDS).map(|n| format!("    f{n}: a::B<u8, u8>,\n")).collect();
    let text = format!(
        "{text}struct Wide {{\n{parts}}}\nstruct Narrow {{\n{}}}\n",
        parts.split_once('\n').expect("two").1
    );
    assert_eq!((pointers(&text), wide(&text), questions(&text)), (5, 1, 3));
    let package = Package { name: String::new(), files: Vec::new(), data: 0 };
    let cells = counts(&package, &text, &Traits::of(core::slice::from_ref(&text)));
    assert_eq!((cells[6], cells[7], cells[9]), (1, 1, 1), "traits, boxes, objects");
}
