//! JSON documents of other parties: strict members, with errors that name them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use mcp_proto::{RawJson, Scopes};

/// What is wrong with a document; it names the member and holds no secret.
pub(super) type Defect = Cow<'static, str>;

/// Largest number of elements of an array that is read.
const MAX_ELEMENTS: usize = 256;

/// A JSON object that is being read. Members that are `null` count as absent.
///
/// A member of a wrong type counts as absent, too, and is a defect. The first defect is the result of
/// [`read`](Self::read): no step in between has to be checked.
pub(super) struct Document {
    json: RawJson,
    defect: Cell<Option<Defect>>,
}

impl Document {
    /// Reads a document by `build`. A defect of the document, turned into an error by `refuse`, precedes the result of
    /// `build`.
    pub(super) fn read<T, E>(
        text: &[u8],
        refuse: impl Fn(Defect) -> E,
        build: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let document = Self::parse(text).map_err(&refuse)?;
        let built = build(&document);
        document.defect.take().map_or(built, |defect| Err(refuse(defect)))
    }

    /// Checks that a text is a document.
    pub(super) fn check(text: &[u8]) -> Result<(), Defect> {
        Self::parse(text).map(drop)
    }

    /// Parses a document; names may not be repeated.
    #[inline(never)]
    fn parse(text: &[u8]) -> Result<Self, Defect> {
        let json = RawJson::new(text.to_vec()).map_err(|_| Cow::Borrowed("it is not valid JSON"))?;
        if !json.is_object() {
            return Err("it is not a JSON object".into());
        }
        // Readers differ in which of two members they take.
        let mut members = 0;
        let count = |_: &str| {
            members += 1;
            true
        };
        if json.retain_members(count).is_none() {
            return Err("a member is repeated".into());
        }
        if members > MAX_MEMBERS {
            return Err("it has too many members".into());
        }
        Ok(Self { json, defect: Cell::new(None) })
    }

    #[inline(never)]
    fn member(&self, name: &str) -> Option<RawJson> {
        self.json.member(name).filter(|value| value.as_bytes() != b"null")
    }

    /// Notes what is wrong with a member, unless there is a defect already.
    #[inline(never)]
    fn refuse(&self, name: &str, why: &dyn fmt::Display) {
        let first = self.defect.take();
        self.defect.set(first.or_else(|| Some(format!("`{name}` {why}").into())));
    }

    /// Returns a string, if the member is there.
    #[inline(never)]
    pub(super) fn string(&self, name: &str) -> Option<String> {
        let string = self.member(name)?.string();
        if string.is_none() {
            self.refuse(name, &"is not a string");
        }
        string
    }

    /// Returns a string that must be there and not be empty.
    #[inline(never)]
    pub(super) fn required_string(&self, name: &str) -> String {
        let string = self.string(name).unwrap_or_default();
        if string.is_empty() {
            self.refuse(name, &"is missing");
        }
        string
    }

    /// Returns an array of strings, if the member is there.
    #[inline(never)]
    pub(super) fn strings(&self, name: &str) -> Option<Vec<String>> {
        let elements = self.member(name)?.elements().filter(|elements| elements.len() <= MAX_ELEMENTS);
        let strings: Option<Vec<String>> =
            elements.and_then(|elements| elements.iter().map(RawJson::string).collect());
        if strings.is_none() {
            self.refuse(name, &"is not an array of at most 256 strings");
        }
        strings
    }

    /// Returns whether an array of strings is there and has an element.
    #[inline(never)]
    pub(super) fn lists(&self, name: &str, element: &str) -> bool {
        self.strings(name).is_some_and(|list| list.iter().any(|other| other == element))
    }

    /// Returns a boolean; an absent one is false.
    #[inline(never)]
    pub(super) fn boolean(&self, name: &str) -> bool {
        let member = self.member(name);
        let text = member.as_ref().map_or("false", RawJson::as_str);
        if !matches!(text, "true" | "false") {
            self.refuse(name, &"is neither true nor false");
        }
        text == "true"
    }

    /// Returns a number of seconds, if the member is there. Some servers write it as a string.
    #[inline(never)]
    pub(super) fn seconds(&self, name: &str) -> Option<u64> {
        let value = self.member(name)?;
        let text = value.string();
        let digits = text.as_deref().unwrap_or_else(|| value.as_str());
        // Fractions are dropped.
        let seconds = digits.split('.').next().unwrap_or_default().parse().ok();
        if seconds.is_none() {
            self.refuse(name, &"is not a number of seconds");
        }
        seconds
    }

    /// Returns scopes that are separated by spaces, if the member is there.
    #[inline(never)]
    pub(super) fn scope(&self, name: &str) -> Option<Scopes> {
        let text = self.string(name)?;
        Scopes::parse(&text).map_err(|why| self.refuse(name, &why)).ok()
    }

    /// Returns an array of scopes, if the member is there.
    #[inline(never)]
    pub(super) fn scopes(&self, name: &str) -> Option<Scopes> {
        let list = self.strings(name)?;
        Scopes::try_collect(list.iter().map(|scope| &**scope)).map_err(|why| self.refuse(name, &why)).ok()
    }
}

/// Maximum number of members of a document.
const MAX_MEMBERS: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(text: &str, build: impl FnOnce(&Document) -> T) -> Result<T, Defect> {
        Document::read(text.as_bytes(), |why| why, |document| Ok(build(document)))
    }

    #[test]
    fn document_with_too_many_members_is_refused() {
        let of = |count: u32| {
            let members: Vec<_> = (0..count).map(|n| format!("\"m{n}\":0")).collect();
            read(&format!("{{{}}}", members.join(",")), |_| ())
        };
        assert_eq!(of(MAX_MEMBERS), Ok(()));
        assert_eq!(of(MAX_MEMBERS + 1), Err("it has too many members".into()));
    }

    #[test]
    fn members_have_their_types_or_a_defect_that_names_them() {
        let text = r#"{"s":"x","e":"","n":null,"a":["p","q"],"b":true,"t":3600,"u":"60","f":1.5,"o":{}}"#;
        assert_eq!(read(text, |d| (d.string("s"), d.string("n"))), Ok((Some("x".into()), None)));
        assert_eq!(read(text, |d| d.string("a")), Err("`a` is not a string".into()));
        assert_eq!(read(text, |d| d.required_string("e")), Err("`e` is missing".into()));
        assert_eq!(read(text, |d| d.strings("a").map(|a| a.len())), Ok(Some(2)));
        assert_eq!(read(text, |d| (d.lists("a", "q"), d.lists("a", "x"))), Ok((true, false)));
        assert_eq!(read(text, |d| (d.boolean("b"), d.boolean("zz"))), Ok((true, false)));
        assert_eq!(read(text, |d| d.seconds("t")), Ok(Some(3_600)));
        assert_eq!(read(text, |d| (d.seconds("u"), d.seconds("f"))), Ok((Some(60), Some(1))));
        assert_eq!(read(text, |d| d.scopes("a").map(|a| a.as_str().len())), Ok(Some(3)));
        for bad in [
            read(text, |d| d.strings("o").is_some()),
            read(text, |d| d.boolean("s")),
            read(text, |d| d.seconds("s").is_some()),
            read(text, |d| d.scope("a").is_some()),
            read(text, |d| d.scopes("s").is_some()),
        ] {
            assert!(bad.is_err());
        }
    }

    #[test]
    fn the_first_defect_precedes_what_was_made_of_it() {
        let text = br#"{"a":1,"b":2}"#;
        let build = |document: &Document| {
            assert_eq!((document.string("a"), document.string("b")), (None, None));
            Err::<(), Defect>("it looks empty".into())
        };
        assert_eq!(Document::read(text, |why| why, build), Err("`a` is not a string".into()));
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        for bad in ["", "[]", "<html>", "{\"a\":1,\"a\":2}", "{} {}", "\u{feff}{}"] {
            assert!(Document::check(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
