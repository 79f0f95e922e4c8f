//! A little JSON for callers that have no library for it.

use core::ffi::c_char;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::handle::guard;
use crate::slice::{check_output, copy_text, mcp_slice, output};
use crate::status::Failure;
use crate::status::mcp_status::{self, MCP_DONE, MCP_ERROR_INVALID_JSON, MCP_OK};

/// Stores the part of a JSON text that a path names, as a piece of that text. `MCP_DONE` if there is none.
///
/// The path is a JSON Pointer (RFC 6901): `/content/0/text`, or empty for the whole. Of members with equal names the last
/// one counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_json_get(json: mcp_slice, path: mcp_slice, value: *mut mcp_slice) -> mcp_status {
    guard(|| {
        check_output(value)?;
        // SAFETY: the rules of this library.
        let (json, path) = unsafe { (json.text()?, path.text()?) };
        let found = find(json, path)?;
        let place = found.map_or(mcp_slice::EMPTY, |found| mcp_slice::of(found.as_bytes()));
        // SAFETY: the rules of this library.
        unsafe { output(value, place) }?;
        Ok(if found.is_some() { MCP_OK } else { MCP_DONE })
    })
}

/// Decodes the JSON string at a path into `buffer`, with a NUL. `MCP_DONE` if there is nothing.
///
/// It is cut to `capacity` bytes (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
/// The text may contain NULs itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_json_string(
    json: mcp_slice,
    path: mcp_slice,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    guard(|| {
        // SAFETY: the rules of this library.
        let (json, path) = unsafe { (json.text()?, path.text()?) };
        // SAFETY: the rules of this library.
        unsafe { copy_string(json, path, buffer, capacity, length) }
    })
}

/// Reads the JSON number at a path. `MCP_DONE` if there is nothing; then `number` keeps its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_json_number(json: mcp_slice, path: mcp_slice, number: *mut f64) -> mcp_status {
    guard(|| {
        check_output(number)?;
        // SAFETY: the rules of this library.
        let (json, path) = unsafe { (json.text()?, path.text()?) };
        let Some(found) = find(json, path)? else { return Ok(MCP_DONE) };
        // SAFETY: the rules of this library.
        unsafe { output(number, read(found)?) }?;
        Ok(MCP_OK)
    })
}

/// Reads the JSON number at a path, if it is an integer, in any notation: `5`, `5.0` and `5e0` are the same.
///
/// `MCP_DONE` if there is nothing; then `number` keeps its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_json_integer(json: mcp_slice, path: mcp_slice, number: *mut i64) -> mcp_status {
    guard(|| {
        check_output(number)?;
        // SAFETY: the rules of this library.
        let (json, path) = unsafe { (json.text()?, path.text()?) };
        let Some(found) = find(json, path)? else { return Ok(MCP_DONE) };
        let integer = match read::<i64>(found) {
            Ok(integer) => integer,
            Err(_) => to_integer(read(found)?)?,
        };
        // SAFETY: the rules of this library.
        unsafe { output(number, integer) }?;
        Ok(MCP_OK)
    })
}

/// Writes text as a JSON string into `buffer`, with a NUL. It is cut to `capacity` bytes (`MCP_ERROR_BUFFER_TOO_SMALL`), and is
/// no JSON then; `length`, if not null, is its whole length without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_json_quote(
    text: mcp_slice,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    guard(|| {
        // SAFETY: the rules of this library.
        let text = unsafe { text.text() }?;
        let quoted = serde_json::to_string(text).map_err(Failure::value)?;
        // SAFETY: the rules of this library.
        unsafe { copy_text(&quoted, buffer, capacity, length) }
    })
}

/// Decodes the JSON string at a path into a buffer of the caller.
///
/// # Safety
///
/// As [`copy_text`].
pub(crate) unsafe fn copy_string(
    json: &str,
    path: &str,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<mcp_status, Failure> {
    let Some(found) = find(json, path)? else { return Ok(MCP_DONE) };
    let text: String = read(found)?;
    // SAFETY: the requirement of this function.
    unsafe { copy_text(&text, buffer, capacity, length) }
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Failure::value(error),
        _ => Failure::new(MCP_ERROR_INVALID_JSON, error.to_string()),
    })
}

/// Converts a number that is integral, and so small that it is exact.
fn to_integer(number: f64) -> Result<i64, Failure> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        // Integral and in range, so nothing is lost.
        return Ok(number as i64);
    }
    Err(Failure::value("not an integer"))
}

fn find<'a>(json: &'a str, path: &str) -> Result<Option<&'a str>, Failure> {
    // Checks the whole text; its parts are valid then.
    let mut found = read::<&RawValue>(json)?.get();
    if path.is_empty() {
        return Ok(Some(found));
    }
    let Some(path) = path.strip_prefix('/') else {
        return Err(Failure::argument("a path begins with a slash"));
    };
    for part in path.split('/') {
        let part = part.replace("~1", "/").replace("~0", "~");
        let mut deserializer = serde_json::Deserializer::from_str(found);
        let next = match found.as_bytes().first() {
            Some(b'{' | b'[') => Part(&part).deserialize(&mut deserializer).map_err(Failure::value)?,
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        found = next.get();
    }
    Ok(Some(found))
}

/// Reads one member or element of a value.
struct Part<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsName(self.0))? {
            if is_it {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // A leading zero or a sign is no index (RFC 6901).
        let index = self.0.parse().ok().filter(|index: &usize| index.to_string() == self.0);
        let (mut at, mut found) = (0, None);
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            if Some(at) == index {
                found = Some(element);
            }
            at += 1;
        }
        Ok(found)
    }
}

/// Compares the name of a member without a copy.
struct IsName<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_finds_members_and_elements() {
        let json = r#" {"a":[1,{"b/c":"x","":null,"~":2}],"n":{"d":1,"d":2}} "#;
        let cases = [
            ("/a/0", Some("1")),
            ("/a/1/b~1c", Some("\"x\"")),
            ("/a/1/", Some("null")),
            ("/a/1/~0", Some("2")),
            ("/n/d", Some("2")),
            ("/a/2", None),
            ("/a/00", None),
            ("/a/-1", None),
            ("/a/x", None),
            ("/a/0/b", None),
            ("/b", None),
        ];
        for (path, want) in cases {
            assert_eq!(find(json, path).expect("valid"), want, "{path}");
        }
        assert_eq!(find(json, "").expect("valid"), Some(json.trim()));
        assert!(find(json, "a").is_err());
        assert!(find("{\"a\":1", "/a").is_err());
        assert!(find("{\"a\":1}}", "/a").is_err());
    }

    #[test]
    fn integer_is_exact_in_any_notation() {
        assert_eq!([to_integer(5.0).ok(), to_integer(-0.0).ok()], [Some(5), Some(0)]);
        assert!([0.5, 1e300, f64::NAN, 9_007_199_254_740_994.0].into_iter().all(|n| to_integer(n).is_err()));
    }
}
