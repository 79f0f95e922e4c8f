//! Text and bytes that cross the border, in both directions.

use core::ffi::{c_char, c_void};
use core::{ptr, slice, str};

use bytes::Bytes;
use mcp_proto::RawJson;

use crate::status::{Failure, mcp_status};

/// A piece of memory that belongs to the other side: text in UTF-8, mostly JSON. It has no NUL at its end.
///
/// `data` may be null if `len` is 0. Make one of a C string with `mcp_str`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcp_slice {
    /// First byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

impl mcp_slice {
    pub(crate) const EMPTY: Self = Self { data: ptr::null(), len: 0 };

    /// Returns a slice that C may read for as long as the memory of `bytes` stays in place.
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), len: bytes.len() }
    }

    /// Reads the bytes.
    ///
    /// # Safety
    ///
    /// If `data` is not null, `len` bytes from it on are readable and do not change for `'a`.
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        // SAFETY: the requirement of this function.
        unsafe { input_bytes(self.data.cast(), self.len) }
    }

    /// Reads UTF-8 text.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(crate) unsafe fn text<'a>(self) -> Result<&'a str, Failure> {
        // SAFETY: the requirement of this function.
        let bytes = unsafe { self.bytes() }?;
        str::from_utf8(bytes).map_err(|error| {
            Failure::new(mcp_status::MCP_ERROR_INVALID_UTF8, format!("the text is not UTF-8: {error}"))
        })
    }

    /// Reads text that may be absent: an empty slice.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(crate) unsafe fn optional_text<'a>(self) -> Result<Option<&'a str>, Failure> {
        // SAFETY: the requirement of this function.
        Ok(Some(unsafe { self.text() }?).filter(|text| !text.is_empty()))
    }

    /// Reads a JSON value, which is copied.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(crate) unsafe fn json(self) -> Result<RawJson, Failure> {
        // SAFETY: the requirement of this function.
        let bytes = unsafe { self.bytes() }?;
        RawJson::new(Bytes::copy_from_slice(bytes))
            .map_err(|error| Failure::new(mcp_status::MCP_ERROR_INVALID_JSON, format!("{error}")))
    }

    /// Reads a JSON value that may be absent: an empty slice.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(crate) unsafe fn optional_json(self) -> Result<Option<RawJson>, Failure> {
        if self.len == 0 {
            return Ok(None);
        }
        // SAFETY: the requirement of this function.
        unsafe { self.json() }.map(Some)
    }

    /// Reads a JSON object. An empty slice is `{}`.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(crate) unsafe fn object(self) -> Result<RawJson, Failure> {
        // SAFETY: the requirement of this function.
        let json = unsafe { self.optional_json() }?.unwrap_or_else(RawJson::empty_object);
        if json.is_object() {
            return Ok(json);
        }
        Err(Failure::new(mcp_status::MCP_ERROR_INVALID_JSON, "the JSON text is not an object"))
    }
}

/// Reads bytes of the caller.
///
/// # Safety
///
/// If `data` is not null, `len` bytes from it on are readable and do not change for `'a`.
pub(crate) unsafe fn input_bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::argument("a null pointer with a length"));
    }
    // No object is larger; a negative length of C ends up here.
    if isize::try_from(len).is_err() {
        return Err(Failure::argument("the length is larger than the address space"));
    }
    // SAFETY: not null and not longer than an object can be; the rest is the requirement of this function.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// Writes a value to a place of the caller.
///
/// # Safety
///
/// If `place` is not null, it is writable as a `T`.
pub(crate) unsafe fn output<T>(place: *mut T, value: T) -> Result<(), Failure> {
    check_output(place)?;
    // SAFETY: not null and aligned; the rest is the requirement of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// Checks a place for a result, before anything is done.
pub(crate) fn check_output<T>(place: *mut T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument("no place for the result: a null pointer"));
    }
    if !place.is_aligned() {
        return Err(Failure::argument("the place for the result is not aligned"));
    }
    Ok(())
}

/// Copies text with a NUL at its end into a buffer of the caller, and tells its length without the NUL.
///
/// Text that is too long is cut between two characters.
///
/// # Safety
///
/// If they are not null, `buffer` is writable for `capacity` bytes, and `length` as a `size_t`.
pub(crate) unsafe fn copy_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<mcp_status, Failure> {
    if capacity > 0 {
        check_output(buffer)?;
    }
    if !length.is_null() {
        // SAFETY: the requirement of this function.
        unsafe { output(length, text.len()) }?;
    }
    if let Some(room) = capacity.checked_sub(1) {
        let fits =
            (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        // SAFETY: the buffer is not null and has room for `fits` bytes and a NUL. It is not part of `text`, which belongs to
        // this library.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), fits);
            buffer.add(fits).write(0);
        }
        if fits == text.len() {
            return Ok(mcp_status::MCP_OK);
        }
    }
    Err(Failure::new(mcp_status::MCP_ERROR_BUFFER_TOO_SMALL, "the buffer is too small"))
}

/// A structure of the caller that begins with its size, and is valid with any bytes.
///
/// # Safety
///
/// The type is `repr(C)`, its first member is the `usize` of its size, and all members are numbers, raw pointers, or
/// structures of these.
pub(crate) unsafe trait Extensible: Copy {}

/// Reads a structure that begins with its size, of this version of the library or another one.
///
/// Members that the caller does not know are zero. Members that this library does not know must be zero.
///
/// # Safety
///
/// If `from` is not null, a `usize` can be read there, and as many bytes as it says if they are at most 4,096.
pub(crate) unsafe fn read_sized<T: Extensible>(from: *const T) -> Result<T, Failure> {
    const LARGEST: usize = 4_096;
    if from.is_null() || !from.is_aligned() {
        return Err(Failure::argument("no structure: a null pointer, or one that is not aligned"));
    }
    // SAFETY: not null and aligned; the first member is a `usize`.
    let size = unsafe { from.cast::<usize>().read() };
    if size < size_of::<usize>() || size > LARGEST {
        return Err(Failure::argument("the member `size` of the structure is not its size"));
    }
    let known = size.min(size_of::<T>());
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `size` bytes are readable, and `known` are not more than that, nor than `T` has.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), known) };
    if size > known {
        // SAFETY: `size` bytes are readable, and `known` is less.
        let rest = unsafe { slice::from_raw_parts(from.cast::<u8>().add(known), size - known) };
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Failure::argument("the structure has members that this version does not know"));
        }
    }
    // SAFETY: all bytes are written, and any bytes are a value of `T`.
    Ok(unsafe { value.assume_init() })
}

/// Memory that slices of C point to, kept until it is [cleared](Self::clear).
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Bytes>);

impl Kept {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps memory and returns a slice of it. Moving `Bytes` does not move their content.
    pub(crate) fn keep(&mut self, memory: impl Into<Bytes>) -> mcp_slice {
        let memory = memory.into();
        let kept = mcp_slice::of(&memory);
        self.0.push(memory);
        kept
    }

    pub(crate) fn json(&mut self, json: Option<RawJson>) -> mcp_slice {
        json.map_or(mcp_slice::EMPTY, |json| self.keep(json.into_bytes()))
    }

    pub(crate) fn text(&mut self, text: &str) -> mcp_slice {
        self.keep(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// Returns whether a pointer cannot be an object of this type.
pub(crate) fn is_wild<T>(pointer: *const T) -> bool {
    pointer.cast::<c_void>().is_null() || !pointer.is_aligned()
}
