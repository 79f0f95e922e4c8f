//! Tests of folders of skills on the disk.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::folder_in_tests::Folder;

#[test]
fn front_matter_target_accepts_seeds() {
    crate::fuzz_tests::for_each_variant("front_matter", fuzzing::front_matter);
}

impl Folder {
    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
        self
    }

    fn skill(&self, path: &str) -> &Self {
        let name = path.rsplit('/').next().expect("a name");
        self.write(&format!("{path}/SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"))
    }

    fn refusal(&self) -> (String, String) {
        let error = read_skills(&self.0).expect_err("refused");
        (error.path.display().to_string(), error.reason)
    }
}

fn uris(folders: &[SkillFolder]) -> Vec<(String, Vec<String>)> {
    let entry = |folder: &SkillFolder| {
        let entry = folder.entry().expect("valid");
        let files = entry.files().expect("files").iter().map(|file| file.uri.clone());
        let root = folder.root().to_owned();
        let files = files.map(|file| file.strip_prefix(&root).expect("within").to_owned()).collect();
        (root, files)
    };
    folders.iter().map(entry).collect()
}

// covers: SKILL-005, SKILL-006, SKILL-013, SKILL-016
#[test]
fn folder_is_read_with_nested_skills() {
    let folder = Folder::new();
    folder.skill("acme/billing/refunds").write("acme/billing/refunds/examples/e mail.md", "é");
    folder.skill("acme/billing/refunds/inner").skill("tides").write("README.md", "no part of a skill");
    folder.write("tides/.git/config", "hidden").write("tides/.env", "hidden");
    let folders = read_skills(&folder.0).expect("skills");
    let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        uris(&folders),
        [
            (
                "skill://acme/billing/refunds".to_owned(),
                files(&["/SKILL.md", "/examples/e%20mail.md", "/inner/SKILL.md"])
            ),
            ("skill://acme/billing/refunds/inner".to_owned(), files(&["/SKILL.md"])),
            ("skill://tides".to_owned(), files(&["/SKILL.md"])),
        ]
    );
    // The folder itself is a skill.
    let single = read_skills(&folder.0.join("tides")).expect("a skill");
    assert_eq!(uris(&single), [("skill://tides".to_owned(), files(&["/SKILL.md"]))]);
    let nested = read_skills(&folder.0.join("acme/billing/refunds")).expect("skills");
    assert_eq!(
        nested.iter().map(SkillFolder::root).collect::<Vec<_>>(),
        ["skill://refunds", "skill://refunds/inner"]
    );
}

// covers: SKILL-018, SEC-018
#[test]
fn folder_beyond_a_limit_is_refused_with_its_path() {
    let folder = Folder::new();
    folder.skill("many");
    for n in 1..MAX_FILES {
        folder.write(&format!("many/f{n}"), "");
    }
    assert_eq!(read_skills(&folder.0).expect("just enough").len(), 1);
    folder.write("many/more", "");
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("many") && reason.contains("513 files"), "{path}: {reason}");
    fs::remove_dir_all(folder.0.join("many")).expect("removed");

    folder.skill("large").write("large/a", vec![0; MAX_TOTAL_SIZE as usize / 2]);
    folder.write("large/b", vec![0; MAX_TOTAL_SIZE as usize / 2]);
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("large") && reason.contains("more than 16777216 bytes"), "{path}: {reason}");
    folder.write("large/a", vec![0; MAX_TOTAL_SIZE as usize + 1]);
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("large/a") && reason.contains("more than 16777216 bytes"), "{path}: {reason}");
    fs::remove_dir_all(folder.0.join("large")).expect("removed");

    let (_, reason) = folder.refusal();
    assert!(reason.contains("no `SKILL.md`"), "{reason}");
    folder.write(&format!("{}x", "d/".repeat(40)), "");
    assert!(folder.refusal().1.contains("32 folders deep"));
    let missing = read_skills(Path::new("/nonexistent/skills")).expect_err("missing");
    assert_eq!(missing.path, Path::new("/nonexistent/skills"));
}

// covers: SKILL-006, SEC-018
#[cfg(unix)]
#[test]
fn links_stay_in_the_folder() {
    use std::os::unix::fs::symlink;

    let (folder, outside) = (Folder::new(), Folder::new());
    outside.write("secret", "s");
    folder.skill("a").write("shared/text.md", "shared");
    symlink("../shared/text.md", folder.0.join("a/linked.md")).expect("a link");
    let folders = read_skills(&folder.0).expect("a link within the folder");
    assert_eq!(&*folders[0].files["linked.md"], b"shared");
    for (target, name) in [
        (outside.0.join("secret"), "a/file"),
        (outside.0.clone(), "a/folder"),
        (PathBuf::from("../../../../../../../../../../etc/passwd"), "a/dots"),
    ] {
        symlink(target, folder.0.join(name)).expect("a link");
        let (path, reason) = folder.refusal();
        assert!(path.ends_with(name) && reason.contains("leads out of the folder"), "{path}: {reason}");
        fs::remove_file(folder.0.join(name)).expect("removed");
    }
    symlink("..", folder.0.join("a/loop")).expect("a link");
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("a/loop") && reason.contains("a folder above it"), "{path}: {reason}");
    fs::remove_file(folder.0.join("a/loop")).expect("removed");
    symlink("nowhere", folder.0.join("a/broken")).expect("a link");
    assert!(folder.refusal().0.ends_with("a/broken"));
    fs::remove_file(folder.0.join("a/broken")).expect("removed");
    let socket = std::os::unix::net::UnixListener::bind(folder.0.join("a/socket")).expect("a socket");
    assert!(folder.refusal().1.contains("not a file or folder"));
    drop(socket);
}

// covers: SKILL-006, SEC-018
#[cfg(target_os = "linux")]
#[test]
fn pipes_and_devices_are_refused_without_waiting() {
    use std::os::unix::fs::symlink;

    let folder = Folder::new();
    folder.skill("a");
    pipe(&folder.0.join("a/pipe"));
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("a/pipe") && reason.contains("not a file or folder"), "{path}: {reason}");
    fs::remove_file(folder.0.join("a/pipe")).expect("removed");
    symlink("/dev/zero", folder.0.join("a/zero")).expect("a link");
    let (path, reason) = folder.refusal();
    assert!(path.ends_with("a/zero") && reason.contains("leads out of the folder"), "{path}: {reason}");
}

#[cfg(target_os = "linux")]
fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

// covers: SKILL-006, SEC-018
#[cfg(target_os = "linux")]
#[test]
fn link_that_is_swapped_in_after_the_check_is_not_followed() {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    let (folder, outside) = (Folder::new(), Folder::new());
    outside.write("b/file", "secret").write("file", "secret");
    folder.write("a/b/file", "public");
    let opened = folder::OpenedFolder::open(&folder.0).expect("a folder");
    let read = |path: &str| {
        let mut text = String::new();
        opened.file(Path::new(path)).and_then(|mut file| file.read_to_string(&mut text)).map(|_| text)
    };
    assert_eq!(read("a/b/file").expect("a file"), "public");
    for path in ["", "/etc/passwd", "..", "a/../../x", "a/b/.."] {
        assert!(read(path).expect_err(path).to_string().contains("not below the folder"), "{path}");
    }
    assert!(read("a/b").expect_err("a folder").to_string().contains("not a file"));
    // Each segment of the path in turn becomes a link to the same path elsewhere.
    for (segment, target) in [("a/b/file", "file"), ("a/b", "b"), ("a", "")] {
        let (path, aside) = (folder.0.join(segment), folder.0.join("aside"));
        fs::rename(&path, &aside).expect("renamed");
        symlink(outside.0.join(target), &path).expect("a link");
        let error = read("a/b/file").expect_err(segment).to_string();
        assert!(error.contains("it became a link"), "{segment}: {error}");
        fs::remove_file(&path).expect("removed");
        fs::rename(&aside, &path).expect("renamed");
    }
    fs::remove_file(folder.0.join("a/b/file")).expect("removed");
    pipe(&folder.0.join("a/b/file"));
    assert!(read("a/b/file").expect_err("a pipe").to_string().contains("not a file"));
    // The folder itself is the one that was opened, wherever its name leads now.
    folder.write("a/b/file2", "public");
    let moved = folder.0.with_extension("moved");
    fs::rename(&folder.0, &moved).expect("renamed");
    symlink(&outside.0, &folder.0).expect("a link");
    assert_eq!(read("a/b/file2").expect("a file"), "public");
    fs::remove_file(&folder.0).expect("removed");
    fs::rename(&moved, &folder.0).expect("renamed");
}

// covers: SKILL-006
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let folder = Folder::new();
    folder.skill("a");
    let name = std::ffi::OsStr::from_bytes(b"\xff.md");
    fs::write(folder.0.join("a").join(name), "x").expect("a file");
    let (path, reason) = folder.refusal();
    assert!(path.contains("a/") && reason.contains("not UTF-8"), "{path}: {reason}");
    fs::remove_file(folder.0.join("a").join(name)).expect("removed");
    // A name that is UTF-8 and nevertheless no segment of a URI.
    folder.write("a/b\\c", "x");
    let error = read_skills(&folder.0).expect("read")[0].entry().expect_err("refused").to_string();
    assert!(error.contains("backslash"), "{error}");
}

// covers: SKILL-007, SKILL-009
#[test]
fn folder_in_memory_is_checked() {
    let text = "---\nname: tides\ndescription: d\n---\nbody";
    let good = SkillFolder::new("skill://harbour/tides").file("SKILL.md", text).file("bin", [0xff, 0xfe]);
    let entry = good.entry().expect("valid");
    assert_eq!(entry.frontmatter.as_str(), r#"{"name":"tides","description":"d"}"#);
    let files = good.resources(&entry).expect("resources");
    let shown: Vec<_> =
        files.iter().map(|f| (&*f.resource.name, f.resource.mime_type.as_deref(), f.resource.size)).collect();
    assert_eq!(
        shown,
        [
            ("tides", Some("text/markdown"), Some(text.len() as u64)),
            ("bin", Some("application/octet-stream"), Some(2))
        ]
    );
    assert_eq!(files[0].resource.description.as_deref(), Some("d"));
    for (folder, part) in [
        (SkillFolder::new("skill://tides"), "the file is missing"),
        (SkillFolder::new("skill://tides").file("SKILL.md", "# Title"), "does not begin with a line `---`"),
        (SkillFolder::new("skill://tides").file("SKILL.md", [0xff]), "not UTF-8"),
        (
            SkillFolder::new("skill://tides").file("SKILL.md", "---\nname: x\nname: y\n---\n"),
            "line 3: the key `name`",
        ),
        (SkillFolder::new("skill://other").file("SKILL.md", text), "the name `tides`"),
        (SkillFolder::new("skill://a/../tides").file("SKILL.md", text), "`..`"),
        (SkillFolder::new("tides").file("SKILL.md", text), "a scheme"),
        (good.clone().file("../x", ""), "`..`"),
        (good.clone().file("/x", ""), "empty segment"),
        (good.file("SKILL.md", format!("---\n{}\n---\n", "a".repeat(1 << 20))), "larger than 65536 bytes"),
    ] {
        let error = folder.entry().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}
