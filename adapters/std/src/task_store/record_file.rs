//! The format of the file of a stored task, and its name.
//!
//! A file is one line of text and the record: `mcp-task 1 ID VERSION LENGTH CHECKSUM\n`. The checksum covers the line up
//! to it, and the record.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::str;

use super::StoredTask;

/// The line before the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) id: &'a str,
    pub(super) version: u64,
    length: usize,
    checksum: u64,
    /// The line up to the checksum.
    covered: &'a str,
}

/// Returns the line before a record.
pub(super) fn header_line(id: &str, version: u64, record: &[u8]) -> String {
    let covered = format!("{MAGIC} {FORMAT} {id} {version} {} ", record.len());
    let checksum = fnv1a(fnv1a(FNV_OFFSET, covered.as_bytes()), record);
    format!("{covered}{checksum:016x}\n")
}

/// Finds the header at the start of a file, of which `bytes` may be a part. Returns the rest of `bytes`, too.
pub(super) fn parse_header(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), Box<str>> {
    let end = bytes.iter().take(MAX_HEADER).position(|byte| *byte == b'\n');
    let (line, rest) = end.and_then(|end| bytes.split_at_checked(end)).ok_or("has no whole header")?;
    let line = str::from_utf8(line).map_err(|_| "has a header that is not text")?;
    let mut fields = line.split(' ');
    if fields.next() != Some(MAGIC) {
        return Err("was not written by a task store".into());
    }
    let format = fields.next().unwrap_or_default();
    if format != FORMAT {
        return Err(format!("has the format {format:?}, and this version reads {FORMAT:?}").into());
    }
    let header = (|| {
        let id = fields.next().filter(|id| is_valid_id(id))?;
        let version = fields.next()?.parse().ok()?;
        let length = fields.next()?.parse().ok()?;
        let checksum_text = fields.next().filter(|text| text.len() == 16)?;
        let checksum = u64::from_str_radix(checksum_text, 16).ok()?;
        let covered = line.strip_suffix(checksum_text)?;
        fields.next().is_none().then_some(Header { id, version, length, checksum, covered })
    })();
    let header = header.ok_or("has a header that cannot be read")?;
    Ok((header, rest.get(1..).unwrap_or_default()))
}

/// Reads a whole file.
pub(super) fn parse_file(bytes: &[u8]) -> Result<StoredTask, Box<str>> {
    let (header, record) = parse_header(bytes)?;
    if record.len() != header.length {
        return Err(
            format!("has {} bytes after its header instead of {}", record.len(), header.length).into()
        );
    }
    if fnv1a(fnv1a(FNV_OFFSET, header.covered.as_bytes()), record) != header.checksum {
        return Err("has a wrong checksum".into());
    }
    Ok(StoredTask { id: header.id.into(), version: header.version, record: record.into() })
}

/// Returns the name of the file of a task.
///
/// It does not tell the id: names of files appear in errors, and in the listing of a folder. It has no letters that only
/// differ in case.
pub(super) fn file_name(id: &str) -> String {
    format!("{:016x}.{ENDING}", fnv1a(FNV_OFFSET, id.as_bytes()))
}

/// The kind of a file in the folder, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Task,
    /// A write of a process that was killed.
    Temporary,
    SetAside,
    Foreign,
}

pub(super) fn file_kind(name: &str) -> FileKind {
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = name.split('.');
    if !parts.next().is_some_and(is_hash) || parts.next() != Some(ENDING) {
        return FileKind::Foreign;
    }
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => FileKind::Task,
        (Some("tmp"), None, _) => FileKind::Temporary,
        (Some(SET_ASIDE), None, _) => FileKind::SetAside,
        (Some(SET_ASIDE), Some(number), None) if number.bytes().all(|b| b.is_ascii_digit()) => {
            FileKind::SetAside
        }
        _ => FileKind::Foreign,
    }
}

/// Returns whether an id can be stored.
pub(super) fn is_valid_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Continues a checksum (FNV-1a). It finds damage; it is no protection against forgery.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

const MAGIC: &str = "mcp-task";
const FORMAT: &str = "1";
const ENDING: &str = "task";
/// Last part of the name of a damaged file.
pub(super) const SET_ASIDE: &str = "damaged";
/// Characters of an id, at most.
const MAX_ID: usize = 64;
/// Bytes of a header, at most: a magic word, a format, an id, three numbers.
pub(super) const MAX_HEADER: usize = 160;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
