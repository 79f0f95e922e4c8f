//! Search for every test of the workspace: packages, their targets, and the files of each target.

use alloc::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::source::{self, ModuleItem};

/// A test, as found in the source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CitedTest {
    /// Path relative to the workspace, and line.
    pub(super) location: String,
    /// Package of the test.
    pub(super) package: String,
    /// Name of the binary in the output of cargo: see [`LogSection`](super::log::LogSection).
    pub(super) header: String,
    pub(super) binary: String,
    /// Path as the test harness prints it.
    pub(super) path: String,
    pub(super) ids: Vec<String>,
    /// Requirements from which it shows a deviation.
    pub(super) gaps: Vec<String>,
    pub(super) is_generated: bool,
}

/// All tests of a workspace, and the faulty citations.
#[derive(Debug, Default)]
pub(super) struct CitedTests {
    pub(super) tests: Vec<CitedTest>,
    pub(super) problems: Vec<String>,
}

/// Searches the workspace at `root`.
pub(super) fn find(root: &Path) -> Result<CitedTests, String> {
    let mut folders = vec![root.join("core")];
    folders.extend(
        entries(&root.join("core"))?.into_iter().filter(|folder| folder.join("Cargo.toml").is_file()),
    );
    folders.extend(entries(&root.join("adapters"))?);
    folders.extend([
        root.join("tests"),
        root.join("tests/repository"),
        root.join("tests/system"),
        root.join("benches"),
    ]);
    let mut found = CitedTests::default();
    let mut read = BTreeSet::new();
    for folder in folders.iter().filter(|folder| folder.join("Cargo.toml").is_file()) {
        for target in targets(folder)? {
            let mut walk = ModuleWalker { root, target: &target, found: &mut found, read: &mut read };
            walk.file(&folder.join(&target.file), &[], true)?;
        }
    }
    // A citation in a file of no target belongs to a test that never runs.
    for folder in folders {
        for file in rust_files(&folder)?.into_iter().filter(|file| !read.contains(file)) {
            let source = source::parse(&read_text(&file)?);
            let cited = source.tests.iter().filter(|test| !test.ids.is_empty() || !test.gaps.is_empty());
            for line in cited.map(|test| test.line).chain(source.problems.into_iter().map(|(line, _)| line)) {
                let location = location(root, &file, line);
                found.problems.push(format!(
                    "{location}: cites requirements, but is part of no target of the workspace"
                ));
            }
        }
    }
    found.problems.sort();
    found.problems.dedup();
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
struct TestTarget {
    package: String,
    binary: String,
    header: String,
    /// Path relative to the package.
    file: PathBuf,
}

/// Returns the targets of a package that can hold tests, by the rules of cargo that this workspace uses.
fn targets(folder: &Path) -> Result<Vec<TestTarget>, String> {
    let manifest = Manifest::parse(&read_text(&folder.join("Cargo.toml"))?);
    let package =
        manifest.value("[package]", "name").ok_or_else(|| format!("{}: no name", folder.display()))?;
    let mut found: Vec<TestTarget> = Vec::new();
    let mut add = |name: &str, file: PathBuf, unit: bool| {
        if !folder.join(&file).is_file() || found.iter().any(|target| target.file == file) {
            return;
        }
        let path =
            file.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");
        found.push(TestTarget {
            package: package.to_owned(),
            binary: name.replace('-', "_"),
            header: if unit { format!("unittests {path}") } else { path },
            file,
        });
    };
    let library = manifest.value("[lib]", "path").unwrap_or("src/lib.rs");
    add(manifest.value("[lib]", "name").unwrap_or(package), library.into(), true);
    for (section, folder_of_kind, unit) in [("[[bin]]", "src/bin", true), ("[[test]]", "tests", false)] {
        for table in manifest.tables.iter().filter(|table| table.name == section) {
            let name = table.value("name").unwrap_or(package);
            let files = match table.value("path") {
                Some(path) => vec![PathBuf::from(path)],
                None if section == "[[bin]]" && name == package => vec!["src/main.rs".into()],
                None => [format!("{name}.rs"), format!("{name}/main.rs")]
                    .map(|file| Path::new(folder_of_kind).join(file))
                    .to_vec(),
            };
            files.into_iter().for_each(|file| add(name, file, unit));
        }
        let off = if unit { "autobins" } else { "autotests" };
        if manifest.value("[package]", off) == Some("false") {
            continue;
        }
        if unit {
            add(package, "src/main.rs".into(), true);
        }
        for entry in entries(&folder.join(folder_of_kind))? {
            let Some(name) = entry.file_stem().and_then(|name| name.to_str()) else { continue };
            let entry = entry.strip_prefix(folder).unwrap_or(&entry);
            let rust = entry.extension().is_some_and(|extension| extension == "rs");
            add(name, if rust { entry.into() } else { entry.join("main.rs") }, unit);
        }
    }
    Ok(found)
}

/// The parts of a manifest that name targets: `[section]` and `key = "value"`.
struct Manifest {
    tables: Vec<ManifestTable>,
}

struct ManifestTable {
    name: String,
    values: Vec<(String, String)>,
}

impl Manifest {
    fn parse(text: &str) -> Self {
        let mut tables: Vec<ManifestTable> = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                tables.push(ManifestTable { name: line.to_owned(), values: Vec::new() });
            } else if let (Some((key, value)), Some(table)) = (line.split_once('='), tables.last_mut()) {
                // Up to the closing quote, or to a comment.
                let value = value.trim();
                let value = match value.strip_prefix('"') {
                    Some(text) => text.split('"').next(),
                    None => value.split('#').next().map(str::trim),
                };
                table.values.push((key.trim().to_owned(), value.unwrap_or_default().to_owned()));
            }
        }
        Self { tables }
    }

    fn value(&self, table: &str, key: &str) -> Option<&str> {
        self.tables.iter().find(|found| found.name == table)?.value(key)
    }
}

impl ManifestTable {
    fn value(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }
}

/// Walk over the modules of one target.
struct ModuleWalker<'a> {
    root: &'a Path,
    target: &'a TestTarget,
    found: &'a mut CitedTests,
    read: &'a mut BTreeSet<PathBuf>,
}

impl ModuleWalker<'_> {
    /// Reads `file` as the module `path`. `owner` means that its modules lie beside it, not in a folder of its name.
    fn file(&mut self, file: &Path, path: &[String], owner: bool) -> Result<(), String> {
        let source = source::parse(&read_text(file)?);
        // A shared file is reached through `..`; the search for files of no target names it directly.
        self.read.insert(without_dots(file));
        for test in source.tests {
            self.found.tests.push(CitedTest {
                location: location(self.root, file, test.line),
                package: self.target.package.clone(),
                header: self.target.header.clone(),
                binary: self.target.binary.clone(),
                path: path.iter().chain([&test.path]).map(String::as_str).collect::<Vec<_>>().join("::"),
                ids: test.ids,
                gaps: test.gaps,
                is_generated: test.is_generated,
            });
        }
        for (line, problem) in source.problems {
            self.found.problems.push(format!("{}: {problem}", location(self.root, file, line)));
        }
        let beside = file.parent().unwrap_or(self.root);
        let below = if owner { beside.to_owned() } else { file.with_extension("") };
        for module in &source.modules {
            // A module of another platform may be generated or absent.
            let Some((file, owner)) = module_file(module, beside, &below) else { continue };
            let path: Vec<String> =
                path.iter().chain(&module.ancestors).chain([&module.name]).cloned().collect();
            self.file(&file, &path, owner)?;
        }
        Ok(())
    }
}

/// Returns a path with `..` resolved by name.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

fn module_file(module: &ModuleItem, beside: &Path, below: &Path) -> Option<(PathBuf, bool)> {
    let folder = module.ancestors.iter().fold(below.to_owned(), |folder, name| folder.join(name));
    if let Some(path) = &module.path {
        let from = if module.ancestors.is_empty() { beside } else { &folder };
        return Some((from.join(path), true)).filter(|(file, _)| file.is_file());
    }
    let own = folder.join(format!("{}.rs", module.name));
    if own.is_file() {
        return Some((own, false));
    }
    Some((folder.join(&module.name).join("mod.rs"), true)).filter(|(file, _)| file.is_file())
}

fn read_text(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn location(root: &Path, file: &Path, line: usize) -> String {
    format!("{}:{line}", file.strip_prefix(root).unwrap_or(file).display())
}

/// Returns the sorted entries of a folder; empty if the folder does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let problem = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(problem)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(problem)?;
    paths.sort();
    Ok(paths)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        // `peers` holds programs outside the workspace.
        if entry.is_dir() && !name.starts_with('.') && !["target", "node_modules", "peers"].contains(&&*name)
        {
            files.extend(rust_files(&entry)?);
        } else if entry.is_file() && name.ends_with(".rs") {
            files.push(entry);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace in a temporary folder, which is removed on drop.
    struct TempWorkspace(PathBuf);

    impl TempWorkspace {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("mcp-tests-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for TempWorkspace {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn tests_are_found_in_all_targets_of_cargo() {
        let cited = "// covers: BASE-001\n#[test]\nfn t() {}\n";
        let workspace = TempWorkspace::new(
            "targets",
            &[
                ("core/Cargo.toml", "[package]\nname = \"my-core\" # comment\n"),
                (
                    "core/src/lib.rs",
                    "mod a;\nmod b;\n#[path = \"odd.rs\"] mod c;\nmod inline { mod deep; }\nmod none;",
                ),
                ("core/src/a.rs", "mod below;"),
                ("core/src/a/below.rs", cited),
                ("core/src/b/mod.rs", "mod beside;"),
                ("core/src/b/beside.rs", cited),
                ("core/src/odd.rs", cited),
                ("core/src/inline/deep.rs", cited),
                ("core/src/lost.rs", cited),
                ("core/target/skipped.rs", cited),
                (
                    "adapters/cli/Cargo.toml",
                    "[package]\nname = \"cli\"\n[[bin]]\nname = \"tool\"\npath = \"src/main.rs\"\n",
                ),
                ("adapters/cli/src/main.rs", cited),
                ("adapters/cli/tests/demo.rs", "mod common;\n"),
                ("adapters/cli/tests/common/mod.rs", cited),
                ("adapters/cli/tests/wide/main.rs", cited),
                (
                    "tests/Cargo.toml",
                    "[package]\nname = \"all\"\nautotests = false\n[lib]\npath = \"src/lib.rs\"\n\
                     [[test]]\nname = \"interop\"\npath = \"interop.rs\"\n",
                ),
                ("tests/interop.rs", cited),
                ("tests/node_modules/skipped.rs", cited),
            ],
        );
        let found = find(&workspace.0).unwrap();
        let names: Vec<String> = found
            .tests
            .iter()
            .map(|test| format!("{} {} {} {}", test.location, test.header, test.binary, test.path))
            .collect();
        assert_eq!(
            names,
            [
                "core/src/a/below.rs:3 unittests src/lib.rs my_core a::below::t",
                "core/src/b/beside.rs:3 unittests src/lib.rs my_core b::beside::t",
                "core/src/odd.rs:3 unittests src/lib.rs my_core c::t",
                "core/src/inline/deep.rs:3 unittests src/lib.rs my_core inline::deep::t",
                "adapters/cli/src/main.rs:3 unittests src/main.rs tool t",
                "adapters/cli/tests/common/mod.rs:3 tests/demo.rs demo common::t",
                "adapters/cli/tests/wide/main.rs:3 tests/wide/main.rs wide t",
                "tests/interop.rs:3 interop.rs interop t",
            ]
        );
        let orphan = "core/src/lost.rs:3: cites requirements, but is part of no target of the workspace";
        assert_eq!(found.problems, [orphan]);
    }
}
