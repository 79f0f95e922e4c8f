//! Our validator against the JSON-Schema-Test-Suite, for the dialects that it says it knows.
//!
//! The suite comes out of a package that `peers/schema-suite` pins by its hash. What our validator does not take is in
//! `peers/schema-suite/excluded.tsv`, each with its reason; all else has to be right, and what is excluded has to be
//! refused for that reason.
//!
//! Only the dialects' own folders are run: `optional` holds formats, which are not enforced here, and what validators may
//! leave out.

extern crate alloc;

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io, thread};

use mcp_proto::RawJson;
use mcp_proto::router::{SchemaError, SchemaValidator as _};
use mcp_std::validate::Schemas;
use serde_json::Value;

/// Groups of the suite that are refused: dialect, file, group, kind of refusal and reason
const EXCLUDED: &str = include_str!("peers/schema-suite/excluded.tsv");

/// The folder of the suite; says loudly when it cannot be had, and in CI fails
fn suite() -> Option<PathBuf> {
    let made = prepare();
    if let Err(why) = &made {
        let line = format!("NOT CHECKED: the JSON-Schema-Test-Suite against our validator: {why}");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        // Goes around the test harness, which keeps what passing tests print.
        let _ = writeln!(io::stderr(), "{line}");
    }
    made.ok()
}

fn prepare() -> Result<PathBuf, String> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/schema-suite/requirements.txt");
    let text = fs::read_to_string(&pinned).expect("the pinned package");
    let hash = text.split("sha256:").nth(1).map(str::trim).expect("a hash");
    // By hash: another version is another folder.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schema-suite-{}", &hash[..16]));
    let tests = folder.join("suite/json/tests");
    if tests.is_dir() {
        return Ok(tests);
    }
    let fresh = folder.with_extension(std::process::id().to_string());
    fs::create_dir_all(fresh.join("suite")).map_err(|e| e.to_string())?;
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    pip.args(["--no-binary", "jsonschema", "--dest"]).arg(&fresh).arg("--requirement").arg(&pinned);
    run(pip)?;
    let files = fs::read_dir(&fresh).map_err(|e| e.to_string())?.flatten().map(|f| f.path());
    let archive = files.into_iter().find(|f| f.extension().is_some_and(|e| e == "gz"));
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive.ok_or("pip left no archive")?).arg("-C").arg(fresh.join("suite"));
    tar.args(["--strip-components", "1"]);
    run(tar)?;
    // Whole or not at all, also when two runs prepare it at once.
    let _ = fs::rename(&fresh, &folder);
    let _ = fs::remove_dir_all(&fresh);
    if tests.is_dir() { Ok(tests) } else { Err("the package holds no suite".into()) }
}

fn run(mut command: Command) -> Result<(), String> {
    let name = format!("{:?}", command.get_program());
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("no {name}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{name} ended with {}: {said}", done.status)) }
}

/// What became of a group
enum Came {
    Right(usize),
    Refused(SchemaError),
    Wrong(String),
}

fn group(draft: &str, group: &Value) -> Came {
    let mut schema = group["schema"].clone();
    if let (Some(members), "draft7") = (schema.as_object_mut(), draft) {
        // A schema without is one of 2020-12 here (SCHEMA-001).
        members.entry("$schema").or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
    }
    let prepared = match Schemas::new().compile(&RawJson::new(schema.to_string()).expect("JSON")) {
        Ok(prepared) => prepared,
        Err(why) => return Came::Refused(why),
    };
    let tests = group["tests"].as_array().expect("tests");
    let mut wrong = String::new();
    for test in tests {
        let valid = prepared.validate(test["data"].to_string().as_bytes()).is_ok();
        if valid != (test["valid"] == true) {
            let _ = write!(wrong, "[{} is valid: {valid}]", test["description"]);
        }
    }
    if wrong.is_empty() { Came::Right(tests.len()) } else { Came::Wrong(wrong) }
}

// covers: SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-006, TOOL-034
#[test]
fn the_suite_of_each_dialect_agrees() {
    let Some(suite) = suite() else { return };
    let (mut right, mut groups, mut refused, mut problems) = (0, 0, 0, Vec::new());
    let rows = EXCLUDED.lines().filter(|line| !line.starts_with('#'));
    let mut excluded: BTreeMap<String, &str> = BTreeMap::new();
    for row in rows {
        let (group, reason) = row.rsplit_once('\t').expect("a reason");
        assert_eq!(excluded.insert(group.into(), reason), None, "{row}");
    }
    for draft in ["draft2020-12", "draft7"] {
        let files = fs::read_dir(suite.join(draft)).expect("the dialect").flatten().map(|f| f.path());
        let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
        files.sort();
        for path in files {
            let file = path.file_stem().and_then(|s| s.to_str()).expect("a name");
            let text = fs::read_to_string(&path).expect("a file");
            let all: Vec<Value> = serde_json::from_str(&text).expect("groups");
            for one in &all {
                groups += 1;
                let what = one["description"].as_str().expect("a description");
                let reason = excluded.remove(&format!("{draft}\t{file}\t{what}"));
                let kind = reason.and_then(|reason| reason.split(':').next());
                let problem = match (group(draft, one), kind) {
                    (Came::Right(tests), None) => {
                        right += tests;
                        continue;
                    }
                    (Came::Refused(SchemaError::Reference(_)), Some("reference"))
                    | (Came::Refused(SchemaError::Dialect(_)), Some("dialect")) => {
                        refused += 1;
                        continue;
                    }
                    (Came::Right(_), Some(_)) => "excluded, and right".to_owned(),
                    (Came::Refused(why), _) => format!("refused: {why}"),
                    (Came::Wrong(which), _) => format!("wrong: {which}"),
                };
                problems.push(format!("{draft} {file}: {what}: {problem}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(excluded.is_empty(), "exclusions of nothing: {excluded:?}");
    assert!(groups > 600 && right > 1_800, "{groups} groups, {right} tests");
    let name = thread::current().name().unwrap_or_default().to_owned();
    println!("{name}: {right} tests of {groups} groups are right, {refused} groups are refused");
}
