//! Variables in the values of configuration files.

use std::env;
use std::path::{self, MAIN_SEPARATOR_STR, Path, PathBuf};

use super::var_error_text;

/// Variables of one configuration file.
///
/// `${env:NAME}` and `${NAME}` are environment variables, `${NAME:-TEXT}` has a default. `${userHome}`,
/// `${workspaceFolder}`, `${workspaceFolderBasename}`, `${pathSeparator}` and `${/}` mean what they mean in editors.
pub(super) struct Variables {
    workspace: PathBuf,
}

impl Variables {
    /// Creates the variables for a file. The workspace is its directory, or the parent of `.vscode` or `.cursor`.
    pub(super) fn new(file: &Path) -> Self {
        let file = path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let directory = file.parent().unwrap_or(&file);
        let is_settings = directory.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
        let workspace = directory.parent().filter(|_| is_settings).unwrap_or(directory);
        Self { workspace: workspace.to_owned() }
    }

    /// Replaces the variables of a text. Values are not searched for further variables.
    ///
    /// # Errors
    ///
    /// Returns a description if a variable is not set or unknown.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                // Not closed: text.
                out.push_str("${");
                rest = after;
                continue;
            };
            out.push_str(&self.value(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let folder = |path: &Path| path.to_string_lossy().into_owned();
        match name {
            "workspaceFolder" => return Ok(folder(&self.workspace)),
            "workspaceFolderBasename" => {
                return Ok(self
                    .workspace
                    .file_name()
                    .map(|name| folder(Path::new(name)))
                    .unwrap_or_default());
            }
            "userHome" => {
                let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
                return read(home).map_err(|why| format!("the variable ${{userHome}}: {home}: {why}"));
            }
            "pathSeparator" | "/" => return Ok(MAIN_SEPARATOR_STR.to_owned()),
            _ => {}
        }
        if name.starts_with("input:") {
            return Err(format!(
                "${{{name}}} is a question of the editor: replace it by ${{env:NAME}} in a copy of the file"
            ));
        }
        let variable = name.strip_prefix("env:").unwrap_or(name);
        let (variable, default) = match variable.split_once(":-") {
            Some((variable, default)) => (variable, Some(default)),
            None => (variable, None),
        };
        if variable.is_empty() || !variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
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
