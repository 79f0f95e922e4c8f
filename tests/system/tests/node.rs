//! The Node.js of a lock file, for programs that need a newer one than the other peers.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the Node.js among the installed packages of a lock file, which has packages for some systems. On other systems
/// the installed Node.js has to be new enough.
pub(crate) fn locked_node(modules: &Path) -> PathBuf {
    let packages = fs::read_dir(modules).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut programs = packages.map(|path| path.join("bin").join("node"));
    programs.find(|path| path.exists()).unwrap_or_else(|| "node".into())
}
