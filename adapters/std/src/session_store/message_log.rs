//! Messages between processes, in files of a folder that one process appends to and others follow.
//!
//! A file has the position of its end in its first 8 bytes, and then messages, each after its length in 4 bytes. The end is
//! written after the message, so a writer that is killed leaves nothing that is read. A file whose end is at [`FULL`] or
//! beyond is followed by one with the next number, and never changes again.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Watched;
use crate::durable_file::FileError;

/// The files of a folder. Its methods are called by who has the lock of the messages.
pub(super) struct MessageLog {
    folder: PathBuf,
}

/// A reader of the messages from a time on. It needs no lock.
pub(super) struct Follower {
    folder: PathBuf,
    number: u64,
    file: File,
    /// The end of the last message that was read.
    position: u64,
    /// The last look for files that follow.
    listed: Instant,
}

impl MessageLog {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a message of at most [`MAX_MESSAGE`] bytes.
    pub(super) fn append(&self, message: &[u8]) -> Result<(), FileError> {
        let (number, mut file, end) = self.last()?;
        let mut write = || {
            let length = u32::try_from(message.len()).map_err(|_| ErrorKind::FileTooLarge)?;
            file.seek(SeekFrom::Start(end))?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(message)?;
            // From now on it is read.
            file.rewind()?;
            file.write_all(&(end + 4 + u64::from(length)).to_le_bytes())
        };
        write().map_err(|error: io::Error| FileError::new(&path(&self.folder, number), "append to", error))
    }

    /// Returns a reader of the messages that are appended from now on.
    pub(super) fn follow(&self) -> Result<Follower, FileError> {
        let (number, file, position) = self.last()?;
        Ok(Follower { folder: self.folder.clone(), number, file, position, listed: Instant::now() })
    }

    /// Opens the file that is appended to, and returns its number and its end. It is created if the last one is full, or is
    /// not readable.
    fn last(&self) -> Result<(u64, File, u64), FileError> {
        let failed = |error| FileError::new(&self.folder, "read the folder", error);
        let numbers = numbers(&self.folder).map_err(failed)?;
        let last = numbers.last().copied();
        if let Some(number) = last {
            let opened = OpenOptions::new().read(true).write(true).open(path(&self.folder, number));
            if let Ok(mut file) = opened {
                if let Some(end) = read_end(&mut file).ok().filter(|end| *end < FULL) {
                    return Ok((number, file, end));
                }
            }
        }
        // Numbers do not return after the folder was emptied: a reader would wait at the end of a file that is gone.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let number = last.map_or_else(|| u64::try_from(now).unwrap_or(0), |last| last.saturating_add(1));
        let path = path(&self.folder, number);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let create = || {
            let mut file = options.open(&path)?;
            file.write_all(&HEADER.to_le_bytes())?;
            Ok(file)
        };
        let file = create().map_err(|error| FileError::new(&path, "create", error))?;
        for old in numbers.iter().filter(|old| last.is_some_and(|last| **old < last)) {
            // One that stays is removed with the next file.
            let _ = fs::remove_file(self::path(&self.folder, *old));
        }
        Ok((number, file, HEADER))
    }
}

impl Follower {
    /// Passes the messages that were appended since the last call.
    pub(super) fn poll(&mut self, receiver: &dyn Fn(Watched<'_>)) -> io::Result<()> {
        loop {
            let end = self.read_new(receiver);
            let may_be_followed = end.as_ref().map_or(true, |end| *end >= FULL);
            if !may_be_followed && self.listed.elapsed() < LIST_INTERVAL {
                return Ok(());
            }
            self.listed = Instant::now();
            let numbers = numbers(&self.folder)?;
            let next = match numbers.binary_search(&self.number) {
                Ok(at) => numbers.get(at + 1),
                // It was removed: this reader is slow, or somebody emptied the folder.
                Err(_) => numbers.first(),
            };
            let Some(&next) = next else { return Ok(()) };
            let file = File::open(path(&self.folder, next))?;
            // What was appended before the next file was begun.
            let is_whole = self.read_new(receiver).is_ok() && self.number.checked_add(1) == Some(next);
            (self.number, self.file, self.position) = (next, file, HEADER);
            if !is_whole {
                receiver(Watched::Gap);
            }
        }
    }

    /// Passes the messages after `position`, and returns the end of the file.
    fn read_new(&mut self, receiver: &dyn Fn(Watched<'_>)) -> io::Result<u64> {
        let end = read_end(&mut self.file)?;
        if end < self.position {
            return Err(ErrorKind::InvalidData.into());
        }
        self.file.seek(SeekFrom::Start(self.position))?;
        while self.position < end {
            let mut length = [0; 4];
            self.file.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length);
            let next = self.position + 4 + u64::from(length);
            if next > end {
                // Not messages: somebody else wrote to the file.
                self.position = end;
                receiver(Watched::Gap);
                break;
            }
            let mut message = vec![0; usize::try_from(length).map_err(|_| ErrorKind::InvalidData)?];
            self.file.read_exact(&mut message)?;
            self.position = next;
            receiver(Watched::Message(&message));
        }
        Ok(end)
    }
}

/// Reads the position of the end of a file, which is one of it.
fn read_end(file: &mut File) -> io::Result<u64> {
    let mut end = [0; 8];
    file.rewind()?;
    file.read_exact(&mut end)?;
    let end = u64::from_le_bytes(end);
    let is_inside = (HEADER..=FULL + MAX_MESSAGE as u64 + 4).contains(&end) && end <= file.metadata()?.len();
    is_inside.then_some(end).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.{ENDING}"))
}

/// Returns the numbers of the files, in order.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(ENDING)?.strip_suffix('.'));
        // `+1.messages` and `01.messages` are files of somebody else.
        numbers.extend(
            number.and_then(|text| text.parse().ok().filter(|number: &u64| *text == *format!("{number}"))),
        );
    }
    numbers.sort_unstable();
    Ok(numbers)
}

const ENDING: &str = "messages";
/// The position of the first message.
const HEADER: u64 = 8;
/// The end from which on a file is followed by another one: 8 MiB.
const FULL: u64 = 8 << 20;
/// Bytes of a message, at most: 16 MiB.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// Time between two looks for a file that follows one that is not full.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
