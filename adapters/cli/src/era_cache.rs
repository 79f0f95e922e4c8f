//! Remembers which servers on stdio are legacy servers that ignore the probe, and which servers over HTTP are legacy ones.
//!
//! On stdio such a server costs the timeout of the probe on every start, or a second start if it ends, over HTTP a request. Servers on
//! stdio that answer the probe are not remembered.
//! The cache is a file of hashes in the cache folder of the user. Without it everything works, only slower.

use core::cell::Cell;
use core::hash::{Hash, Hasher as _};
use core::time::Duration;
use std::fs;
use std::hash::DefaultHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Instant, SystemTime};

use mcp_blocking::Error;
use mcp_proto::client::{KnownEra, Peer};
use mcp_proto::{Era, Limits, RawJson, VersionSet};
use serde::{Deserialize, Serialize};

use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::output::{create_private_folder, read_text, user_folder};

/// Entry of the cache for one command.
pub(crate) struct EraMemory {
    /// File of the cache.
    file: PathBuf,
    /// Hash of the command, or of the URL.
    command: String,
    is_remote: bool,
    /// Whether the server had to be started twice.
    was_restarted: Cell<bool>,
}

/// Content of the file, newest entry first.
#[derive(Default, Serialize, Deserialize)]
struct CacheFile {
    legacy: Vec<CacheEntry>,
}

/// A legacy server that ignores the probe.
#[derive(Serialize, Deserialize)]
struct CacheEntry {
    command: String,
    /// Hash of the identity that the server reports. Another one means another version, perhaps of another era.
    server: String,
    /// Seconds since 1970 from which the entry no longer counts.
    expires: u64,
}

impl EraMemory {
    /// Returns the memory for a server, or `None` if there is nothing to remember: only a client that speaks both eras
    /// probes, and a socket has no name.
    pub(crate) fn new(place_hash: Option<String>, is_remote: bool, versions: VersionSet) -> Option<Self> {
        let command = place_hash.filter(|_| versions.is_dual_era())?;
        let at_home = if cfg!(target_vendor = "apple") { "Library/Caches" } else { ".cache" };
        Some(Self {
            file: user_folder("XDG_CACHE_HOME", at_home)?.join("eras.json"),
            command,
            is_remote,
            was_restarted: Cell::new(false),
        })
    }

    /// Notes that the server had to be started again, because it ended when it was asked for modern revisions.
    pub(crate) fn note_restart(&self) {
        self.was_restarted.set(true);
    }

    /// Returns the hash of the identity of the remembered server.
    fn recall(&self) -> Option<String> {
        let now = unix_time();
        let entries = read(&self.file).legacy.into_iter();
        let mut known = entries.filter(|entry| entry.command == self.command && entry.expires > now);
        known.next().map(|entry| entry.server)
    }

    /// Remembers a server. Replaces its entry, and drops the oldest entry beyond [`MAX_ENTRIES`].
    fn remember(&self, server: String) {
        let expires = unix_time() + MAX_AGE.as_secs();
        self.update(|entries| {
            entries.insert(0, CacheEntry { command: self.command.clone(), server, expires })
        });
    }

    fn forget(&self) {
        self.update(|_| {});
    }

    /// Removes the entry of the command, changes the rest, and writes the file. Failures change nothing.
    fn update(&self, change: impl FnOnce(&mut Vec<CacheEntry>)) {
        let mut cache = read(&self.file);
        cache.legacy.retain(|entry| entry.command != self.command);
        change(&mut cache.legacy);
        cache.legacy.truncate(MAX_ENTRIES);
        let _ = write(&self.file, &cache);
    }
}

/// Returns the time that a server on stdio has to answer the probe.
pub(crate) fn probe_timeout(connect_timeout: Duration) -> Duration {
    Limits::default().probe_timeout.min(connect_timeout / 2)
}

/// Opens a connection by `open`, which takes the known era and the connect timeout. Closes it by `close` and repeats that once without
/// the known era if the server turns out to have changed. Both attempts together take about `connect_timeout`.
///
/// # Errors
///
/// Fails as `open` does.
pub(crate) fn open<C>(
    memory: Option<&EraMemory>,
    connect_timeout: Duration,
    (peer, close): (fn(&C) -> &Peer, impl FnOnce(C)),
    open: &mut dyn FnMut(Option<KnownEra>, Duration) -> Result<Result<C, Error>, CommandFailure>,
) -> Result<Result<C, Error>, CommandFailure> {
    let Some(memory) = memory else { return open(None, connect_timeout) };
    let begun = Instant::now();
    if let Some(known) = memory.recall() {
        if !memory.is_remote {
            print_note("this server was found to be a legacy one, and is not asked again (--no-cache asks)");
        }
        match open(Some(KnownEra::Legacy), connect_timeout)? {
            Ok(client) if peer(&client).era() == Era::Legacy && identity_hash(peer(&client)) == known => {
                return Ok(Ok(client));
            }
            // The client has found the other era by itself (VER-042).
            Ok(client) if peer(&client).era() == Era::Modern => {
                memory.forget();
                return Ok(Ok(client));
            }
            // Another version of the server may speak both eras, so it is probed.
            Ok(client) => close(client),
            Err(Error::Closed(closed)) if !closed.has_unread_input => {}
            Err(other) => return Ok(Err(other)),
        }
        memory.forget();
    }
    let left = connect_timeout.saturating_sub(begun.elapsed()).max(MIN_RETRY_TIME.min(connect_timeout));
    let begun = Instant::now();
    let opened = open(None, left)?;
    if let Ok(client) = &opened {
        let is_slow = || begun.elapsed() >= probe_timeout(left);
        let was_costly = memory.is_remote || memory.was_restarted.get() || is_slow();
        if peer(client).era() == Era::Legacy && was_costly {
            memory.remember(identity_hash(peer(client)));
            if !memory.is_remote {
                print_note(FOUND);
            }
        }
    }
    Ok(opened)
}

/// Returns the hash of what a server says about itself.
fn identity_hash(peer: &Peer) -> String {
    hash_text(&peer.info.as_ref().map(RawJson::as_str))
}

/// Returns the hash of a value as text. The file holds hashes because commands may contain secrets.
///
/// The hash may change with the compiler, which only makes entries unknown.
pub(crate) fn hash_text(value: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Reads the file. A missing, damaged or overlong file is an empty cache, which the next change replaces.
fn read(path: &Path) -> CacheFile {
    let text = read_text(path, MAX_FILE_BYTES).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Replaces the file at once, so that another process never reads a part of it.
fn write(path: &Path, cache: &CacheFile) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    create_private_folder(folder)?;
    let temporary = folder.join(format!("eras.json.{}", process::id()));
    let written = serde_json::to_vec(cache)
        .map_err(io::Error::from)
        .and_then(|bytes| fs::write(&temporary, bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Maximum number of entries. The oldest one is dropped, which costs its server a probe.
const MAX_ENTRIES: usize = 128;
/// Maximum size of the file in bytes, far above that of [`MAX_ENTRIES`] entries.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Maximum age of an entry. Then the server is probed again, in case it has learnt another era under the same version.
const MAX_AGE: Duration = Duration::from_secs(7 * 86_400);
/// Note about a server that is remembered from now on.
const FOUND: &str = "this legacy server does not answer the question for modern revisions, or ends at it: for 7 days it is not asked again";
/// Minimum connect timeout of a second attempt.
const MIN_RETRY_TIME: Duration = Duration::from_secs(1);
