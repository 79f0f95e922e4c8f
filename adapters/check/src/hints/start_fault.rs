//! Why a program does not start, and what to do.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mcp_std::process::{SpawnError, SpawnErrorKind};

/// The reason why a program does not start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StartFault {
    /// What is not there, or cannot be started.
    pub what: String,
    /// The reason.
    pub why: String,
    /// What to do.
    pub fix: String,
    /// Beginning of a program that is a whole command line. The rest may hold secrets.
    pub first_word: Option<String>,
}

impl StartFault {
    fn new(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), fix: fix.into(), first_word: None }
    }

    /// Explains an error by the program and by the files around it.
    #[must_use]
    pub fn of(error: &SpawnError) -> Self {
        let path = Path::new(error.program());
        let shown = path.display();
        let what = format!("{shown} cannot be started");
        match error.kind() {
            SpawnErrorKind::NotFound => explain_missing(path),
            SpawnErrorKind::NotPermitted if path.is_dir() => Self::new(
                what,
                "it is a directory",
                "name the program in it, or the interpreter with the script: `python server.py`",
            ),
            SpawnErrorKind::NotPermitted => Self::new(
                what,
                "the file is not executable for this user",
                format!("run `chmod +x {shown}`, or name its interpreter: `python {shown}`, `node {shown}`"),
            ),
            SpawnErrorKind::NotExecutable => explain_interpreter(what, path),
            _ => Self::new(what, error.to_string(), "run the same command in a shell, as the same user"),
        }
    }

    /// Explains a working directory that is none.
    #[must_use]
    pub fn of_directory(directory: &Path) -> Self {
        let why = if directory.exists() { "it is a file" } else { "there is nothing at this path" };
        let fix = if directory.starts_with("~") {
            HOME
        } else {
            "correct `cwd` in the configuration file, or create the directory"
        };
        Self::new(format!("the working directory {} does not exist", directory.display()), why, fix)
    }
}

/// Explains why a program is not found.
fn explain_missing(path: &Path) -> StartFault {
    let word = path.to_string_lossy();
    let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // A path may have a space, so the first word has to be a program.
    if let Some((first, _)) = word.split_once(char::is_whitespace).filter(|(first, _)| is_program(first)) {
        let fault = StartFault::new(
            format!("there is no program \"{first} …\""),
            "the whole command line is one word here, so all of it is taken for the name of the program",
            format!(
                "write the words apart, as in -- {first} …; a configuration file has `command` and `args`"
            ),
        );
        return StartFault { first_word: Some(format!("{first} …")), ..fault };
    }
    let what = format!("there is no program {word:?}");
    if word.starts_with('~') || word.contains('$') {
        let why = "`~` and variables are replaced by a shell, and no shell starts the server";
        return StartFault::new(what, why, "write the whole path");
    }
    if is_authority(&word) {
        let why = "it looks like the address of a server over HTTP, which is given by its URL";
        return StartFault::new(what, why, format!("write http://{word}"));
    }
    if word.contains(['/', '\\']) {
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        let why = match parents.take_while(|parent| !parent.is_dir()).last() {
            Some(parent) => format!("the directory {} does not exist", parent.display()),
            None => "there is no such file in that directory".to_owned(),
        };
        let fix =
            "correct the path, or build the server first; a relative path starts at the working directory";
        return StartFault::new(what, why, fix);
    }
    if let Some(package) = launcher(file) {
        let why =
            format!("it comes with {package}, which is not installed, or not on the PATH of this process");
        let fix = format!(
            "install {package}; if a shell finds it, write the path that `which {file}` prints, since desktop applications have another PATH"
        );
        return StartFault::new(what, why, fix);
    }
    StartFault::new(
        what,
        "no directory of PATH has a file of this name",
        "install it, or write its whole path, which `which NAME` prints in a shell that finds it",
    )
}

/// Returns whether a word is a program that is there, or the name of a known launcher.
fn is_program(word: &str) -> bool {
    launcher(word).is_some() || find_program(OsStr::new(word)).is_some()
}

/// Returns the file of a program: the file itself, or that of its name on the PATH of this process.
#[must_use]
pub fn find_program(word: &OsStr) -> Option<PathBuf> {
    let path = Path::new(word);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(path)).find(|file| file.is_file())
}

/// Explains why a file that exists is no program.
fn explain_interpreter(what: String, path: &Path) -> StartFault {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(160).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let first = text.split('\n').next().unwrap_or_default();
    match first.strip_prefix("#!").filter(|_| read.is_ok()) {
        Some(interpreter) if interpreter.ends_with('\r') => StartFault::new(
            what,
            "its first line ends with CRLF, so the name of its interpreter ends with a carriage return",
            "save the file with LF line endings (`dos2unix`, or `* text eol=lf` in .gitattributes)",
        ),
        Some(interpreter) => StartFault::new(
            what,
            format!("its first line names the interpreter {:?}, which does not exist", interpreter.trim()),
            "install the interpreter, or start the script by it: `python server.py`",
        ),
        None => StartFault::new(
            what,
            "it is a script without `#!` in its first line, or a program for another system or processor",
            "start it by its interpreter (`sh`, `python`, `node`), or get the build for this machine",
        ),
    }
}

/// Returns whether a word is `HOST:PORT`, perhaps with a path.
fn is_authority(word: &str) -> bool {
    let Some((host, rest)) = word.split_once(':') else { return false };
    let port = rest.split('/').next().unwrap_or_default();
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok()
}

/// Hint for a path that begins with `~`.
pub const HOME: &str = "write the whole path: only a shell replaces `~`";

/// What servers are started with, and the names of its programs.
const LAUNCHERS: [(&str, &str); 14] = [
    ("Node.js", "npx npm node"),
    ("Bun", "bun bunx"),
    ("Deno", "deno"),
    ("uv", "uv uvx"),
    ("pipx", "pipx"),
    ("Python (as `python3` on many systems)", "python python3"),
    ("Docker", "docker"),
    ("Podman", "podman"),
    ("a Java runtime", "java"),
    (".NET", "dotnet"),
    ("Go", "go"),
    ("Rust", "cargo"),
    ("Ruby", "ruby"),
    ("PHP", "php"),
];

/// Returns what a program comes with, if it is one that starts servers.
fn launcher(word: &str) -> Option<&'static str> {
    let is_in = |names: &str| names.split(' ').any(|name| name == word);
    LAUNCHERS.iter().find(|(_, names)| is_in(names)).map(|(package, _)| *package)
}
