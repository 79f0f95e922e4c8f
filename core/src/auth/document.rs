//! JSON documents of other parties: strict members, with errors that name them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{MAX_DEPTH, Scanner};
use crate::raw::RawJson;
use crate::scope::Scopes;

/// What is wrong with a document; it names the member and holds no secret.
pub(super) type Defect = Cow<'static, str>;

/// Largest number of members of a document.
const MAX_MEMBERS: u32 = 1_024;
/// Largest number of elements of an array that is read.
const MAX_ELEMENTS: usize = 256;

/// A JSON object. Members that are `null` count as absent.
pub(super) struct Document {
    json: RawJson,
}

impl Document {
    /// Parses a document; names may not be repeated.
    #[inline(never)]
    pub(super) fn parse(text: &[u8]) -> Result<Self, Defect> {
        let json = RawJson::new(text.to_vec()).map_err(|_| Cow::Borrowed("it is not valid JSON"))?;
        if !json.is_object() {
            return Err("it is not a JSON object".into());
        }
        let mut scanner = Scanner::new(json.as_bytes(), MAX_DEPTH, MAX_MEMBERS);
        scanner
            .members(&mut |s, _| s.value().map(drop))
            .map_err(|_| Cow::Borrowed("a member is repeated"))?;
        Ok(Self { json })
    }

    #[inline(never)]
    fn member(&self, name: &str) -> Option<RawJson> {
        self.json.member(name).filter(|value| value.as_bytes() != b"null")
    }

    /// Returns a string, if the member is there.
    #[inline(never)]
    pub(super) fn string(&self, name: &str) -> Result<Option<String>, Defect> {
        let Some(value) = self.member(name) else { return Ok(None) };
        value.string().map(Some).ok_or_else(|| format!("`{name}` is not a string").into())
    }

    /// Returns a string that must be there and not be empty.
    #[inline(never)]
    pub(super) fn required_string(&self, name: &str) -> Result<String, Defect> {
        match self.string(name)? {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(format!("`{name}` is missing").into()),
        }
    }

    /// Returns an array of strings, if the member is there.
    #[inline(never)]
    pub(super) fn strings(&self, name: &str) -> Result<Option<Vec<String>>, Defect> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let strings: Option<Vec<String>> = value
            .elements()
            .filter(|elements| elements.len() <= MAX_ELEMENTS)
            .and_then(|elements| elements.iter().map(RawJson::string).collect());
        strings.map(Some).ok_or_else(|| format!("`{name}` is not an array of at most 256 strings").into())
    }

    /// Returns a boolean; an absent one is false.
    #[inline(never)]
    pub(super) fn boolean(&self, name: &str) -> Result<bool, Defect> {
        match self.member(name).as_ref().map(RawJson::as_str) {
            Some("true") => Ok(true),
            Some("false") | None => Ok(false),
            Some(_) => Err(format!("`{name}` is neither true nor false").into()),
        }
    }

    /// Returns a number of seconds, if the member is there. Some servers write it as a string.
    #[inline(never)]
    pub(super) fn seconds(&self, name: &str) -> Result<Option<u64>, Defect> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let text = value.string();
        let digits = text.as_deref().unwrap_or_else(|| value.as_str());
        // Fractions are dropped.
        let whole = digits.split('.').next().unwrap_or_default();
        whole.parse().map(Some).map_err(|_| format!("`{name}` is not a number of seconds").into())
    }

    /// Returns scopes that are separated by spaces, if the member is there.
    pub(super) fn scope(&self) -> Result<Option<Scopes>, Defect> {
        let Some(text) = self.string("scope")? else { return Ok(None) };
        Scopes::parse(&text).map(Some).map_err(|why| format!("`scope`: {why}").into())
    }

    /// Returns an array of scopes, if the member is there.
    pub(super) fn scopes(&self, name: &str) -> Result<Option<Scopes>, Defect> {
        let Some(list) = self.strings(name)? else { return Ok(None) };
        let scopes = Scopes::try_collect(list.iter().map(|scope| &**scope));
        scopes.map(Some).map_err(|why| format!("`{name}`: {why}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_their_types_or_a_defect_that_names_them() {
        let text = br#"{"s":"x","e":"","n":null,"a":["p","q"],"b":true,"t":3600,"u":"60","f":1.5,"o":{}}"#;
        let document = Document::parse(text).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(document.string("s"), Ok(Some("x".into())));
        assert_eq!(document.string("n"), Ok(None));
        assert_eq!(document.string("a"), Err("`a` is not a string".into()));
        assert_eq!(document.required_string("e"), Err("`e` is missing".into()));
        assert_eq!(document.strings("a").map(|a| a.map(|a| a.len())), Ok(Some(2)));
        assert!(document.strings("o").is_err());
        assert_eq!((document.boolean("b"), document.boolean("zz")), (Ok(true), Ok(false)));
        assert!(document.boolean("s").is_err());
        assert_eq!(document.seconds("t"), Ok(Some(3_600)));
        assert_eq!(document.seconds("u"), Ok(Some(60)));
        assert_eq!(document.seconds("f"), Ok(Some(1)));
        assert!(document.seconds("s").is_err());
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        for bad in ["", "[]", "<html>", "{\"a\":1,\"a\":2}", "{} {}", "\u{feff}{}"] {
            assert!(Document::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
