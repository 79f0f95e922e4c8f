//! The command `skills`: lists, shows and verifies the skills of a server.

mod args;

use alloc::collections::BTreeMap;

use base64::Engine as _;
use mcp_blocking::Error;
use mcp_extensions::skills::{Skill, SkillContent, SkillError, SkillUri};
use mcp_proto::{EntryKind, RawJson};
use serde::Serialize;

use crate::content;
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, join_names, print, print_value};
use crate::paint::Paint;
use crate::session::ClientSession;
pub(crate) use args::SkillsCommand;
use args::{SkillsListArgs, SkillsShowArgs, SkillsVerifyArgs};

pub(crate) fn run(command: &SkillsCommand) -> Result<(), CommandFailure> {
    match command {
        SkillsCommand::List(args) => ClientSession::run(&args.target, |session| list(session, args)),
        SkillsCommand::Show(args) => ClientSession::run(&args.target, |session| show(session, args)),
        SkillsCommand::Verify(args) => ClientSession::run(&args.target, |session| verify(session, args)),
    }
}

fn list(session: &mut ClientSession, args: &SkillsListArgs) -> Result<(), CommandFailure> {
    let skills = fetch(session)?;
    if args.json {
        return print_value(&BTreeMap::from([("skills", skills)]));
    }
    let (mut out, paint) = (String::new(), Paint::for_stdout());
    for raw in &skills {
        content::push_skill(&mut out, raw, paint);
    }
    if skills.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(the server lists no skills)")));
    }
    print(&out)
}

fn show(session: &mut ClientSession, args: &SkillsShowArgs) -> Result<(), CommandFailure> {
    let skill = find(session, &args.skill)?;
    let refused = |error: SkillError| CommandFailure::failed(error.to_string());
    let file = match &args.file {
        None => skill.uri.clone(),
        Some(uri) if uri.contains("://") => uri.clone(),
        Some(path) => SkillUri::parse(&skill.uri).and_then(|uri| uri.resolve(path)).map_err(refused)?,
    };
    let content = match session.client.read_skill_file(&skill, &file) {
        Ok(content) => content,
        Err(Error::Skill(error)) => {
            let failure = refused(*error);
            return Err(match skill.files() {
                Some(files) if !files.iter().any(|listed| listed.uri == file) => {
                    let names = join_names(files.iter().map(|listed| &*listed.uri));
                    failure.with_hint(format!("the files of the skill: {names}"))
                }
                _ => failure,
            });
        }
        Err(error) => return Err(session.failure(&error).with_context(&format!("reading {file}"))),
    };
    if args.json {
        return print_value(&shown_file(&skill, &file, &content));
    }
    let (mut out, paint) = (String::new(), Paint::for_stdout());
    match content.as_text() {
        Some(text) => content::push_text(&mut out, text),
        None => {
            let media_type = content.media_type.as_deref().unwrap_or("of an unknown type");
            let note = format!("[{file}, {media_type}, {} bytes]", content.bytes.len());
            out.push_str(&format!("{}\n", paint.note(escape::line(&note))));
        }
    }
    print(&out)
}

/// Output of `show --json`.
#[derive(Serialize)]
struct ShownSkill<'a> {
    skill: &'a Skill,
    file: ShownFile<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownFile<'a> {
    uri: &'a str,
    media_type: Option<&'a str>,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
}

fn shown_file<'a>(skill: &'a Skill, uri: &'a str, content: &'a SkillContent) -> ShownSkill<'a> {
    let text = content.as_text();
    let encode = || base64::engine::general_purpose::STANDARD.encode(&content.bytes);
    let file = ShownFile {
        uri,
        media_type: content.media_type.as_deref(),
        verified: content.is_verified,
        blob: text.is_none().then(encode),
        text,
    };
    ShownSkill { skill, file }
}

/// A member of the output of `verify --json`.
#[derive(Serialize)]
struct VerifiedSkill {
    uri: String,
    name: Option<String>,
    /// Number of files that were read.
    files: usize,
    /// True if all files match the entry; false for dynamic content.
    verified: bool,
    errors: Vec<String>,
}

fn verify(session: &mut ClientSession, args: &SkillsVerifyArgs) -> Result<(), CommandFailure> {
    let mut report = Vec::new();
    if args.skills.is_empty() {
        for raw in fetch(session)? {
            report.push(match raw.parse::<Skill>() {
                Ok(skill) => verify_skill(session, &skill)?,
                Err(error) => VerifiedSkill {
                    uri: raw.member("uri").and_then(|uri| uri.string()).unwrap_or_default(),
                    name: None,
                    files: 0,
                    verified: false,
                    errors: vec![format!("the entry cannot be read: {error}")],
                },
            });
        }
    }
    for name in &args.skills {
        let skill = find(session, name)?;
        report.push(verify_skill(session, &skill)?);
    }
    let failed = report.iter().filter(|skill| !skill.errors.is_empty()).count();
    if args.json {
        print_value(&BTreeMap::from([("skills", &report)]))?;
    } else {
        print(&format_verified(&report, Paint::for_stdout()))?;
    }
    if failed == 0 {
        return Ok(());
    }
    let failure = CommandFailure::failed(format!("{failed} of {} skills do not match", report.len()));
    Err(failure.after_result())
}

/// Reads all files of a skill. Only a lost connection is an error.
fn verify_skill(session: &mut ClientSession, skill: &Skill) -> Result<VerifiedSkill, CommandFailure> {
    let mut verified = VerifiedSkill {
        uri: skill.uri.clone(),
        name: skill.name(),
        files: 0,
        verified: skill.files().is_some(),
        errors: Vec::new(),
    };
    // Before anything is read: the number of files is bounded, and so is their size.
    if let Err(error) = skill.check() {
        verified.errors.push(error.to_string());
    }
    let mut files: Vec<&str> = vec![&skill.uri];
    if skill.check_limits().is_ok() {
        let others = skill.files().unwrap_or_default().iter().map(|file| &*file.uri);
        files.extend(others.filter(|file| *file != skill.uri));
    }
    for file in files {
        match session.client.read_skill_file(skill, file) {
            Ok(_) => verified.files += 1,
            Err(Error::Skill(error)) => {
                let error = error.to_string();
                if !verified.errors.contains(&error) {
                    verified.errors.push(error);
                }
            }
            Err(error @ (Error::Call(_) | Error::UnexpectedResult(_))) => {
                verified.errors.push(format!("`{file}`: {error}"));
            }
            Err(error) => return Err(session.failure(&error).with_context(&format!("reading {file}"))),
        }
    }
    verified.verified &= verified.errors.is_empty();
    Ok(verified)
}

fn format_verified(report: &[VerifiedSkill], paint: Paint) -> String {
    let mut out = String::new();
    for skill in report {
        let word = match (&*skill.errors, skill.verified) {
            ([], true) => "ok",
            ([], false) => "dynamic",
            _ => "MISMATCH",
        };
        let about = paint.dim(format!("({} read)", count(skill.files, "file")));
        out.push_str(&format!("{} {} {about}\n", paint.bold(word), escape::line(&skill.uri)));
        for error in &skill.errors {
            out.push_str(&format!("    {}\n", escape::line(error)));
        }
    }
    if report.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(the server lists no skills)")));
    }
    out
}

/// Fetches the list as it is.
fn fetch(session: &mut ClientSession) -> Result<Vec<RawJson>, CommandFailure> {
    session.client.list(EntryKind::Skill).map_err(|error| failure(session, &error, "listing skills"))
}

/// Finds a skill by its name among those that are listed, or by its URI.
fn find(session: &mut ClientSession, name: &str) -> Result<Skill, CommandFailure> {
    if name.contains("://") {
        let found = session.client.get_skill(name);
        return found.map_err(|error| failure(session, &error, "getting a skill"));
    }
    let listed = fetch(session)?;
    let skills: Vec<Skill> = listed.iter().filter_map(|raw| raw.parse().ok()).collect();
    let mut named: Vec<&Skill> =
        skills.iter().filter(|skill| skill.name().as_deref() == Some(name)).collect();
    match (named.pop(), &*named) {
        (Some(skill), []) => Ok(skill.clone()),
        // Names are labels: none of them is preferred.
        (Some(skill), others) => {
            let uris = join_names(others.iter().map(|other| &*other.uri).chain([&*skill.uri]));
            let message = format!("several skills have the name `{name}`");
            Err(CommandFailure::failed(message).with_hint(format!("name one by its URI: {uris}")))
        }
        (None, _) => {
            let names: Vec<String> = skills.iter().filter_map(Skill::name).collect();
            let failure = CommandFailure::failed(format!("there is no skill `{name}` in the server's list"));
            Err(if names.is_empty() {
                failure.with_hint("the server's list of skills is empty")
            } else {
                failure.with_hint(format!("there are: {}", join_names(names.iter().map(AsRef::as_ref))))
            })
        }
    }
}

fn failure(session: &ClientSession, error: &Error, what: &str) -> CommandFailure {
    session.failure(error).with_context(what)
}
