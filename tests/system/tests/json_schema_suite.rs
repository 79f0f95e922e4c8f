//! The JSON Schema validator of `mcp-std` against the JSON-Schema-Test-Suite.
//!
//! The suite is part of a package that `peers/schema-suite` pins by its hash. `peers/schema-suite/excluded.tsv` lists
//! the groups that the validator refuses, with the reasons. All other groups must pass, and an excluded group must be
//! refused for its reason.
//!
//! Only the main folder of each dialect is run. `optional` holds formats, which are not enforced here, and features
//! that validators may leave out.

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io, thread};

use mcp_proto::RawJson;
use mcp_proto::router::{SchemaError, SchemaValidator as _};
use mcp_std::schema::JsonSchemaValidator;
use serde_json::Value;

/// Refused groups of the suite: dialect, file, group, kind of refusal and reason.
const EXCLUDED: &str = include_str!("../../peers/schema-suite/excluded.tsv");

/// Returns the folder of the suite. If it cannot be prepared, prints a warning, and fails if `CI` is `true`.
fn suite() -> Option<PathBuf> {
    let prepared = prepare();
    if let Err(why) = &prepared {
        let line = format!("NOT CHECKED: the JSON-Schema-Test-Suite did not run: {why}");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        // Bypasses the test harness, which captures what passing tests print.
        let _ = writeln!(io::stderr(), "{line}");
    }
    prepared.ok()
}

fn prepare() -> Result<PathBuf, String> {
    let pinned =
        Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("peers").join("schema-suite/requirements.txt");
    let text = fs::read_to_string(&pinned).expect("the pinned package");
    let hash = text.split("sha256:").nth(1).map(str::trim).expect("a hash");
    // Named by the hash: another version has another folder.
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
    tar.arg("-xzf").arg(archive.ok_or("pip downloaded no archive")?).arg("-C").arg(fresh.join("suite"));
    tar.args(["--strip-components", "1"]);
    run(tar)?;
    // A rename is atomic, also when two runs prepare the suite at once.
    let _ = fs::rename(&fresh, &folder);
    let _ = fs::remove_dir_all(&fresh);
    if tests.is_dir() { Ok(tests) } else { Err("the package contains no suite".into()) }
}

fn run(mut command: Command) -> Result<(), String> {
    let name = format!("{:?}", command.get_program());
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {name}: {e}"))?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{name} exited with {}: {stderr}", done.status)) }
}

/// Outcome of a group.
enum GroupOutcome {
    Passed(usize),
    Refused(SchemaError),
    Failed(String),
}

fn group(draft: &str, group: &Value) -> GroupOutcome {
    let mut schema = group["schema"].clone();
    if let (Some(members), "draft7") = (schema.as_object_mut(), draft) {
        // A schema without `$schema` counts as 2020-12 here (SCHEMA-001).
        members.entry("$schema").or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
    }
    let prepared = match JsonSchemaValidator::new().compile(&RawJson::new(schema.to_string()).expect("JSON"))
    {
        Ok(prepared) => prepared,
        Err(why) => return GroupOutcome::Refused(why),
    };
    let tests = group["tests"].as_array().expect("tests");
    let mut wrong = String::new();
    for test in tests {
        let valid = prepared.validate(test["data"].to_string().as_bytes()).is_ok();
        if valid != (test["valid"] == true) {
            let _ = write!(wrong, "[{} is valid: {valid}]", test["description"]);
        }
    }
    if wrong.is_empty() { GroupOutcome::Passed(tests.len()) } else { GroupOutcome::Failed(wrong) }
}

// covers: SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-006, TOOL-034
#[test]
fn validator_agrees_with_suite_of_each_dialect() {
    let Some(suite) = suite() else { return };
    let (mut passed, mut groups, mut refused, mut problems) = (0, 0, 0, Vec::new());
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
            for group_value in &all {
                groups += 1;
                let description = group_value["description"].as_str().expect("a description");
                let reason = excluded.remove(&format!("{draft}\t{file}\t{description}"));
                let kind = reason.and_then(|reason| reason.split(':').next());
                let problem = match (group(draft, group_value), kind) {
                    (GroupOutcome::Passed(tests), None) => {
                        passed += tests;
                        continue;
                    }
                    (GroupOutcome::Refused(SchemaError::Reference(_)), Some("reference"))
                    | (GroupOutcome::Refused(SchemaError::Dialect(_)), Some("dialect")) => {
                        refused += 1;
                        continue;
                    }
                    (GroupOutcome::Passed(_), Some(_)) => "excluded, but passed".to_owned(),
                    (GroupOutcome::Refused(why), _) => format!("refused: {why}"),
                    (GroupOutcome::Failed(failures), _) => format!("wrong: {failures}"),
                };
                problems.push(format!("{draft} {file}: {description}: {problem}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(excluded.is_empty(), "exclusions without a group: {excluded:?}");
    assert!(groups > 600 && passed > 1_800, "{groups} groups, {passed} tests");
    let name = thread::current().name().unwrap_or_default().to_owned();
    println!("{name}: {passed} tests passed in {groups} groups; {refused} groups were refused");
}
