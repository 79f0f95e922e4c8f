//! Where Windows finds a program: as a shell does, by the extensions of programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Extensions of files that can be started without another program, in the order of a system without `PATHEXT`.
const STARTABLE: [&str; 4] = [".COM", ".EXE", ".BAT", ".CMD"];

/// A search for programs, with the variables that it depends on.
pub(super) struct Search<'a> {
    /// The directories of `PATH`.
    pub(super) path: &'a [PathBuf],
    /// The value of `PATHEXT`, if it is set.
    pub(super) extensions: Option<&'a str>,
    /// The working directory of the program.
    pub(super) directory: &'a Path,
    pub(super) is_file: &'a dyn Fn(&Path) -> bool,
}

impl Search<'_> {
    /// Returns the file that starts the program: `npx` is `npx.cmd` in a directory of `PATH`.
    ///
    /// A name with a directory is looked for there alone. The working directory is not searched, since a planted file
    /// would run instead of the program. `None` if there is no such file.
    pub(super) fn find(&self, program: &OsStr) -> Option<PathBuf> {
        let names = self.names(program);
        let has_directory = program.as_encoded_bytes().iter().any(|byte| matches!(byte, b'/' | b'\\' | b':'));
        let here = [self.directory.to_path_buf()];
        let places = if has_directory { &here[..] } else { self.path };
        let files = places.iter().flat_map(|place| names.iter().map(move |name| place.join(name)));
        files.into_iter().find(|file| (self.is_file)(file))
    }

    /// Returns the names of files to look for, in order. A file without one of the extensions is no program: beside `npx.cmd`
    /// there is a script `npx` for other systems.
    fn names(&self, program: &OsStr) -> Vec<OsString> {
        let extensions: Vec<&str> = match self.extensions {
            Some(listed) => listed.split(';').filter(|extension| is_startable(extension)).collect(),
            None => STARTABLE.to_vec(),
        };
        let has_extension = Path::new(program)
            .extension()
            .is_some_and(|own| is_startable(&format!(".{}", own.to_string_lossy())));
        let as_it_is = has_extension.then(|| program.to_owned());
        let completed = extensions.iter().map(|extension| {
            let mut name = program.to_owned();
            name.push(extension.to_ascii_lowercase());
            name
        });
        as_it_is.into_iter().chain(completed).collect()
    }
}

fn is_startable(extension: &str) -> bool {
    STARTABLE.iter().any(|known| known.eq_ignore_ascii_case(extension))
}

/// Returns whether a program is a batch file, whose arguments a shell reads.
pub(super) fn is_batch_file(program: &Path) -> bool {
    let extension = program.extension().unwrap_or_default().to_string_lossy();
    ["bat", "cmd"].iter().any(|batch| extension.eq_ignore_ascii_case(batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(program: &str, extensions: Option<&str>, files: &[&str]) -> Option<String> {
        let is_file = |path: &Path| files.iter().any(|file| path == Path::new(file));
        let search = Search {
            path: &["/sys".into(), "/node".into()],
            extensions,
            directory: Path::new("/here"),
            is_file: &is_file,
        };
        search.find(OsStr::new(program)).map(|found| found.to_string_lossy().into_owned())
    }

    #[test]
    fn name_is_completed_by_the_extensions_of_programs() {
        let node = ["/node/npx", "/node/npx.cmd", "/node/npx.ps1", "/node/node.exe"];
        assert_eq!(find("npx", None, &node).as_deref(), Some("/node/npx.cmd"));
        assert_eq!(find("npx.cmd", None, &node).as_deref(), Some("/node/npx.cmd"));
        assert_eq!(find("node", None, &node).as_deref(), Some("/node/node.exe"));
        // The order is that of the directories, then that of PATHEXT.
        let both = ["/sys/uvx.exe", "/node/uvx.bat", "/node/uvx.exe"];
        assert_eq!(find("uvx", None, &both).as_deref(), Some("/sys/uvx.exe"));
        assert_eq!(find("uvx", Some(".BAT;.EXE"), &both[1..]).as_deref(), Some("/node/uvx.bat"));
        // Other extensions need another program.
        assert_eq!(
            find("x", Some(".VBS;.JS;.EXE"), &["/sys/x.vbs", "/node/x.exe"]).as_deref(),
            Some("/node/x.exe")
        );
        assert_eq!(find("npx", None, &["/node/npx", "/node/npx.ps1"]), None);
        // A version is no extension.
        assert_eq!(
            find("python3.12", None, &["/sys/python3.12.exe"]).as_deref(),
            Some("/sys/python3.12.exe")
        );
        assert_eq!(find("", None, &node), None);
    }

    #[test]
    fn working_directory_is_searched_only_for_a_name_with_a_directory() {
        let planted = ["/here/npx.cmd", "/here/tools/npx.cmd"];
        assert_eq!(find("npx", None, &planted), None);
        assert_eq!(find("tools/npx", None, &planted).as_deref(), Some("/here/tools/npx.cmd"));
        assert_eq!(find("tools/npx", None, &["/node/tools/npx.cmd"]), None);
        assert_eq!(find("/opt/server", None, &["/opt/server.exe"]).as_deref(), Some("/opt/server.exe"));
    }

    #[test]
    fn batch_files_are_known_by_their_extension() {
        for (name, expected) in
            [("npx.cmd", true), ("a/x.BAT", true), ("x.exe", false), ("cmd", false), ("x.cmd.exe", false)]
        {
            assert_eq!(is_batch_file(Path::new(name)), expected, "{name}");
        }
    }
}
