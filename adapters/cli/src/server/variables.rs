//! Variables in the values of configuration files.

use std::env;
use std::path::{self, MAIN_SEPARATOR_STR, Path, PathBuf};

use super::var_error_text;
use crate::output::read_text;

/// Variables of one configuration file.
///
/// `${env:NAME}` and `${NAME}` are environment variables, `${NAME:-TEXT}` has a default. `${userHome}`,
/// `${workspaceFolder}`, `${workspaceFolderBasename}`, `${pathSeparator}` and `${/}` mean what they mean in editors.
/// `${file:PATH}` is the content of a file (Windsurf). opencode writes `{env:NAME}` and `{file:PATH}`.
pub(super) struct Variables {
    /// Folder of the file.
    folder: PathBuf,
    workspace: PathBuf,
}

/// Maximum number of bytes that are read of a file that a variable names.
const MAX_FILE_BYTES: u64 = 64 << 10;

impl Variables {
    /// Creates the variables for a file. The workspace is its directory, or the parent of `.vscode` or `.cursor`.
    pub(super) fn new(file: &Path) -> Self {
        let file = path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let directory = file.parent().unwrap_or(&file);
        let is_settings = directory.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
        let workspace = directory.parent().filter(|_| is_settings).unwrap_or(directory);
        Self { folder: directory.to_owned(), workspace: workspace.to_owned() }
    }

    /// Replaces the variables of a text. Values are not searched for further variables.
    ///
    /// # Errors
    ///
    /// Returns a description if a variable is not set or unknown.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        // `{env:NAME}` and `{file:PATH}` are those of opencode; other braces are text.
        let starts = ["${", "{env:", "{file:"];
        while let Some(at) = starts.iter().filter_map(|start| rest.find(start)).min() {
            let (before, found) = rest.split_at(at);
            out.push_str(before);
            let start = if found.starts_with('$') { "${" } else { "{" };
            let (_, after) = found.split_at(start.len());
            let Some((name, after)) = after.split_once('}') else {
                // Not closed: text.
                out.push_str(start);
                rest = after;
                continue;
            };
            out.push_str(&self.value(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Replaces words that name a variable without braces, as Gemini CLI and Copilot write them in `env` and `headers`:
    /// `$NAME`, and `COPILOT_MCP_NAME`. One that is not set stays, for a password may begin with `$`.
    pub(super) fn expand_words(&self, text: &str) -> String {
        let word = |word: &str| {
            let name = match word.strip_prefix('$') {
                None if word.starts_with("COPILOT_MCP_") => Some(word),
                name => name.filter(|name| !name.starts_with(|c: char| c.is_ascii_digit())),
            };
            name.filter(|name| is_name(name))
                .and_then(|name| env::var(name).ok())
                .unwrap_or_else(|| word.to_owned())
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns the content of a file without the white space around it. A relative path begins at the folder of the
    /// configuration file, `~/` at that of the user.
    fn read_file(&self, path: &str) -> Result<String, String> {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let whole = match path.strip_prefix("~/").zip(env::var_os(home)) {
            Some((path, home)) => Path::new(&home).join(path),
            None => self.folder.join(path),
        };
        let text = read_text(&whole, MAX_FILE_BYTES).map_err(|error| format!("the file {path}: {error}"))?;
        Ok(text.trim().to_owned())
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let folder = |path: &Path| path.to_string_lossy().into_owned();
        match name {
            "workspaceFolder" => return Ok(folder(&self.workspace)),
            "workspaceFolderBasename" => {
                return Ok(self.workspace.file_name().map(|name| folder(name.as_ref())).unwrap_or_default());
            }
            "userHome" => {
                let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
                return read(home).map_err(|why| format!("the variable ${{userHome}}: {home}: {why}"));
            }
            "pathSeparator" | "/" => return Ok(MAIN_SEPARATOR_STR.to_owned()),
            _ => {}
        }
        if let Some(path) = name.strip_prefix("file:") {
            return self.read_file(path);
        }
        if name.starts_with("input:") {
            return Err(format!(
                "${{{name}}} is a question of the editor: replace it by ${{env:NAME}} in a copy of the file"
            ));
        }
        let variable = name.strip_prefix("env:").unwrap_or(name);
        let with_default = variable.split_once(":-").map(|(variable, default)| (variable, Some(default)));
        let (variable, default) = with_default.unwrap_or((variable, None));
        if !is_name(variable) {
            return Err(format!("${{{name}}} is not a known variable: write ${{env:NAME}} or ${{NAME}}"));
        }
        match (env::var(variable), default) {
            (Ok(value), None) => Ok(value),
            // As in shells, an empty value counts as not set.
            (Ok(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
            (Err(error), None) => Err(format!("the variable {variable}: {}", var_error_text(&error))),
        }
    }
}

/// Returns whether a text has the form of the name of a variable.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn read(name: &str) -> Result<String, &'static str> {
    env::var(name).map_err(|error| var_error_text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_known_variables_stays_or_is_refused() {
        let variables = Variables::new(Path::new("/a/b/.vscode/mcp.json"));
        for (text, want) in [
            ("plain $HOME $(x) {y}", Ok("plain $HOME $(x) {y}")),
            ("open ${HOME", Ok("open ${HOME")),
            ("${MCP_PROBE_NOT_SET:-a:-b}", Ok("a:-b")),
            ("${env:MCP_PROBE_NOT_SET:-}x", Ok("x")),
            ("${MCP_PROBE_NOT_SET}", Err("the variable MCP_PROBE_NOT_SET: it is not set")),
            ("${env:MCP_PROBE_NOT_SET}", Err("the variable MCP_PROBE_NOT_SET: it is not set")),
            ("${config:x}", Err("${config:x} is not a known variable")),
            ("${}", Err("${} is not a known variable")),
            ("${input:key}", Err("is a question of the editor")),
            ("{env:MCP_PROBE_NOT_SET}", Err("the variable MCP_PROBE_NOT_SET: it is not set")),
            ("{env:MCP_PROBE_NOT_SET:-x} {env: {x", Ok("x {env: {x")),
            ("{file:mcp-probe-none}", Err("the file mcp-probe-none: ")),
            ("${file:/mcp-probe/none}", Err("the file /mcp-probe/none: ")),
        ] {
            match (variables.expand(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn workspace_is_the_folder_of_the_file_or_of_its_settings_folder() {
        for (file, want) in [
            ("/a/b/.vscode/mcp.json", "/a/b b /"),
            ("/a/b/.cursor/mcp.json", "/a/b b /"),
            ("/a/b/mcp.json", "/a/b b /"),
        ] {
            let text = "${workspaceFolder} ${workspaceFolderBasename} ${/}";
            assert_eq!(Variables::new(Path::new(file)).expand(text).as_deref(), Ok(want), "{file}");
        }
    }
}
