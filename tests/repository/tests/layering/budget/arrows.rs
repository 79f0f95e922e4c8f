//! Imports that run back up: in each folder the fewest arrows between its files that no order of them can point down.

use alloc::collections::{BTreeMap, BTreeSet};

use super::weigh::File;
use super::words;

/// Groups of files that import each other are ordered exactly up to this size, and beyond it by moving one at a time.
const EXACT: usize = 16;
/// Re-exports that are followed for one name.
const HOPS: usize = 16;

type Path = Vec<String>;

/// Counts them in a package, over all of its folders.
pub(super) fn count(files: &[File]) -> usize {
    by_folder(files).values().map(feedback).sum()
}

/// Returns for each folder how many pairs of files stand for an arrow between two of its entries. A folder is one entry of the
/// folder above it.
fn by_folder(files: &[File]) -> BTreeMap<String, BTreeMap<(String, String), usize>> {
    let modules = Modules::of(files);
    let mut pairs = BTreeSet::new();
    for (from, module) in modules.modules.iter().enumerate() {
        for path in &module.used {
            let to = modules.resolve(path, HOPS);
            if to != from {
                pairs.insert((from, to));
            }
        }
    }
    let mut folders: BTreeMap<String, BTreeMap<(String, String), usize>> = BTreeMap::new();
    for (from, to) in pairs {
        let (a, b) = (&files[from].path, &files[to].path);
        let (a, b): (Vec<&str>, Vec<&str>) = (a.split('/').collect(), b.split('/').collect());
        let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        let folder = a[..shared].join("/");
        // `x.rs` stands for the folder `x` beside it.
        let entry = |path: &[&str]| path[shared].trim_end_matches(".rs").to_owned();
        if entry(&a) != entry(&b) {
            *folders.entry(folder).or_default().entry((entry(&a), entry(&b))).or_default() += 1;
        }
    }
    folders
}

/// What a file says about names.
#[derive(Default)]
struct Module {
    path: Path,
    /// Names that it brings in, and the paths behind them.
    names: BTreeMap<String, Path>,
    /// Modules of which it brings in every name.
    globs: Vec<Path>,
    /// Items that it defines.
    items: BTreeSet<String>,
    /// Paths that its code names, apart from re-exports.
    used: Vec<Path>,
}

struct Modules {
    modules: Vec<Module>,
    by_path: BTreeMap<Path, usize>,
}

impl Modules {
    fn of(files: &[File]) -> Self {
        let path = |file: &File| -> Path {
            let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
            path.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).map(str::to_owned).collect()
        };
        // The library, where a package has a program beside it.
        let by_path: BTreeMap<Path, usize> =
            files.iter().enumerate().rev().map(|(n, file)| (path(file), n)).collect();
        let read = |file: &File| read(path(file), &file.text, &by_path);
        let modules = files.iter().map(read).collect();
        Self { modules, by_path }
    }

    /// Returns the file that defines what a path from the root of the package names.
    fn resolve(&self, path: &[String], hops: usize) -> usize {
        let (mut at, mut depth) = (self.by_path[&Vec::new()], 0);
        while let Some(next) = path.get(..=depth).and_then(|path| self.by_path.get(path)) {
            (at, depth) = (*next, depth + 1);
        }
        let module = &self.modules[at];
        let Some((name, rest)) = path.get(depth..).and_then(<[String]>::split_first) else { return at };
        let Some(hops) = hops.checked_sub(1).filter(|_| !module.items.contains(name)) else { return at };
        if let Some(target) = module.names.get(name) {
            return self.resolve(&[target, rest].concat(), hops);
        }
        let behind = |glob: &Path| {
            let target = &self.modules[self.resolve(glob, hops)];
            let has =
                target.items.contains(name) || target.names.contains_key(name) || !target.globs.is_empty();
            has.then(|| self.resolve(&[glob.as_slice(), core::slice::from_ref(name), rest].concat(), hops))
        };
        module.globs.iter().find_map(behind).unwrap_or(at)
    }
}

fn read(path: Path, text: &str, modules: &BTreeMap<Path, usize>) -> Module {
    let mut module = Module { path, ..Module::default() };
    let is_child = |module: &Module, name: &str| {
        modules.contains_key(&[module.path.as_slice(), &[name.to_owned()]].concat())
    };
    // Statements `use`, with the text before them: a re-export names nothing that the file needs.
    let mut code = String::new();
    for statement in text.split_inclusive(';') {
        let found = words(statement).find(|(at, word)| {
            let before = statement[..*at].trim_end();
            let starts =
                before.is_empty() || before.ends_with(['}', '{', ']', ')', ';']) || before.ends_with("pub");
            *word == "use" && starts
        });
        let Some((at, _)) = found else {
            code.push_str(statement);
            continue;
        };
        let (before, tree) = (&statement[..at], &statement[at + 3..statement.len() - 1]);
        code.push_str(before);
        let is_reexport =
            before.trim_end().ends_with("pub") || before.trim_end().ends_with(')') && before.contains("pub(");
        let mut leaves = Vec::new();
        split_tree(tree, &Path::new(), &mut leaves);
        for (leaf, alias) in leaves {
            let first = leaf.first().map_or("", String::as_str);
            let is_own = ["crate", "self", "super"].contains(&first) || is_child(&module, first);
            let Some(target) = absolute(&module.path, &leaf).filter(|_| is_own) else { continue };
            match alias.as_str() {
                "*" => module.globs.push(target.clone()),
                _ => drop(module.names.insert(alias, target.clone())),
            }
            if !is_reexport {
                module.used.push(target);
            }
        }
    }
    let items = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];
    let mut before = "";
    for (at, word) in words(&code) {
        if items.contains(&before) {
            module.items.insert(word.to_owned());
        }
        before = word;
        let is_first =
            !code[..at].ends_with("::") && !code[..at].ends_with('$') && !code[..at].ends_with('.');
        let is_path = code[at + word.len()..].starts_with("::");
        let is_own = ["crate", "self", "super"].contains(&word) || is_path && is_child(&module, word);
        if is_first && is_path && is_own {
            let end = code[at..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let text = &code[at..end.map_or(code.len(), |end| at + end)];
            let leaf: Path = text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            module.used.extend(absolute(&module.path, &leaf));
        }
    }
    module
}

/// Returns the path from the root of the package.
fn absolute(module: &[String], path: &[String]) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "super" => {
            let ups = 1 + rest.iter().take_while(|part| *part == "super").count();
            let base = module.get(..module.len().checked_sub(ups)?)?;
            Some([base, &rest[ups - 1..]].concat())
        }
        "self" => Some([module, rest].concat()),
        _ => Some([module, path].concat()),
    }
}

/// Splits a tree of `use` into its leaves, with the name of each.
fn split_tree(tree: &str, stem: &Path, leaves: &mut Vec<(Path, String)>) {
    let (mut depth, mut begin) = (0, 0);
    let mut part = |text: &str| {
        let text = text.trim();
        let (path, group) = text.split_once('{').map_or((text, None), |(path, group)| (path, Some(group)));
        let (path, alias) =
            path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
        let mut full = stem.clone();
        full.extend(path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
        match group {
            Some(group) => split_tree(group.trim_end().trim_end_matches('}'), &full, leaves),
            None if text.is_empty() => {}
            None => {
                // `{self, …}` names the module itself.
                let named = if full.len() > 1 && full.last().is_some_and(|last| last == "self" || last == "*")
                {
                    full.pop()
                } else {
                    None
                };
                let is_glob = named.as_deref() == Some("*");
                let name = if is_glob { "*".to_owned() } else { full.last().cloned().unwrap_or_default() };
                leaves.push((full, alias.map_or(name, str::to_owned)));
            }
        }
    };
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                part(&tree[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    part(&tree[begin..]);
}

/// Returns the fewest arrows that run against an order of their ends, whatever the order.
fn feedback(arrows: &BTreeMap<(String, String), usize>) -> usize {
    let names: Vec<&String> =
        arrows.keys().flat_map(|(a, b)| [a, b]).collect::<BTreeSet<_>>().into_iter().collect();
    let place = |name: &String| names.binary_search(&name).expect("a name");
    let mut weight = vec![vec![0; names.len()]; names.len()];
    for ((from, to), n) in arrows {
        weight[place(from)][place(to)] = *n;
    }
    circles(&weight)
        .iter()
        .map(|circle| {
            let part: Vec<Vec<usize>> =
                circle.iter().map(|a| circle.iter().map(|b| weight[*a][*b]).collect()).collect();
            if part.len() <= EXACT { exact(&part) } else { near(&part) }
        })
        .sum()
}

/// Returns the groups of entries that reach each other.
fn circles(weight: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let all = 0..weight.len();
    let mut reach: Vec<Vec<bool>> = weight.iter().map(|row| row.iter().map(|n| *n > 0).collect()).collect();
    for via in all.clone() {
        for from in all.clone().filter(|from| *from != via) {
            if reach[from][via] {
                for to in all.clone() {
                    reach[from][to] |= reach[via][to];
                }
            }
        }
    }
    let with = |a: usize| all.clone().filter(|b| *b == a || reach[a][*b] && reach[*b][a]).collect::<Vec<_>>();
    all.clone().map(with).filter(|circle| circle.len() > 1).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The best order of all, by the best orders of each set of entries.
fn exact(weight: &[Vec<usize>]) -> usize {
    let n = weight.len();
    let mut best = vec![usize::MAX; 1 << n];
    best[0] = 0;
    for set in 0..1usize << n {
        for next in (0..n).filter(|next| set & (1 << next) == 0) {
            // Arrows from what comes later to what is there already run back.
            let back: usize =
                (0..n).filter(|other| set & (1 << other) != 0).map(|other| weight[next][other]).sum();
            let with = set | 1 << next;
            best[with] = best[with].min(best[set] + back);
        }
    }
    best[(1 << n) - 1]
}

/// An order in which no single move helps: near the best one, and the same for the same arrows.
fn near(weight: &[Vec<usize>]) -> usize {
    let n = weight.len();
    let mut order: Vec<usize> = (0..n).collect();
    // Those that import more than they are imported come first.
    order.sort_by_key(|a| {
        let (out, into): (usize, usize) = (weight[*a].iter().sum(), weight.iter().map(|row| row[*a]).sum());
        core::cmp::Reverse((n + out).saturating_sub(into))
    });
    let back = |order: &[usize]| -> usize {
        let of = |(place, later): (usize, &usize)| {
            order[..place].iter().map(|earlier| weight[*later][*earlier]).sum::<usize>()
        };
        order.iter().enumerate().map(of).sum()
    };
    let mut best = back(&order);
    loop {
        let mut moved = false;
        for entry in 0..n {
            let from = order.iter().position(|other| *other == entry).expect("each is in the order");
            for to in 0..n {
                let mut other = order.clone();
                let taken = other.remove(from);
                other.insert(to, taken);
                let found = back(&other);
                if found < best {
                    (best, order, moved) = (found, other, true);
                    break;
                }
            }
        }
        if !moved {
            return best;
        }
    }
}

/// Prints the folders with arrows that run back, those with the most first.
pub(super) fn print(name: &str, files: &[File]) {
    let mut rows: Vec<(usize, usize, String)> = by_folder(files)
        .iter()
        .map(|(folder, arrows)| (feedback(arrows), arrows.values().sum(), folder.clone()))
        .filter(|row| row.0 > 0)
        .collect();
    rows.sort_by(|a, b| b.cmp(a));
    for (back, all, folder) in rows {
        println!("{name} {folder}: {back} of {all} arrows run back up");
    }
}

#[test]
fn arrows_that_run_back_are_counted_through_reexports() {
    let file = |path: &str, text: &str| File {
        path: path.into(),
        text: text.into(),
        lines: 1,
        tests: 0,
        strings: 0,
    };
    let files = [
        file("lib.rs", "mod a; mod b; pub use a::{A, deep::D as E}; pub mod c;"),
        file("a/mod.rs", "pub mod deep; use crate::b::B; pub struct A; fn f() { deep::g(); }"),
        // To `b.rs` through the glob of `c.rs`, to its own `mod.rs`, and to nothing of this package.
        file("a/deep.rs", "use super::A; use crate::c::B; use std::fmt; pub struct D; pub fn g() {}"),
        // Through the root: to `a/mod.rs` and to `a/deep.rs`.
        file("b.rs", "use crate::{A, E}; pub struct B;"),
        file("c.rs", "pub use crate::b::*;"),
    ];
    let folders = by_folder(&files);
    let arrow =
        |folder: &str, from: &str, to: &str| folders[folder].get(&(from.to_owned(), to.to_owned())).copied();
    assert_eq!((arrow("", "a", "b"), arrow("", "b", "a")), (Some(2), Some(2)));
    assert_eq!((arrow("a", "deep", "mod"), arrow("a", "mod", "deep")), (Some(1), Some(1)));
    assert_eq!(count(&files), 2 + 1);
}

#[test]
fn order_that_is_searched_is_the_best_one_of_small_circles() {
    let mut state = 7usize;
    for _ in 0..40 {
        let weight: Vec<Vec<usize>> = (0..7)
            .map(|a| {
                (0..7)
                    .map(|b| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        if a != b && (state >> 60).is_multiple_of(3) { 1 + (state >> 40) % 3 } else { 0 }
                    })
                    .collect()
            })
            .collect();
        let (exact, near) = (exact(&weight), near(&weight));
        assert!(near >= exact && near <= exact + 2, "{near} beside {exact}");
    }
}
