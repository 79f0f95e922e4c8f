//! JSON Canonicalization Scheme (RFC 8785): one text for all spellings of a value, as other implementations write it.
//!
//! Members are sorted by the UTF-16 code units of their names, strings have the shortest escapes, and numbers are written
//! as ECMAScript writes doubles. What has no such text is refused: an object with two members of one name, and a number
//! beyond the range of a double. A number with more digits than a double holds is rounded, as the scheme demands; the
//! stream of `canonical` keeps them apart.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::canonical::{ObjectIndex, Spelling};
use super::scan::StringToken;
use super::text::write_str;

/// Reason why a JSON value has no text in the JSON Canonicalization Scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Two members of an object have the same name.
    #[error("two members of an object have the same name (byte {at})")]
    Duplicate {
        /// Position of the value of the second member.
        at: usize,
    },
    /// A number is beyond the range of a double.
    #[error("a number is beyond the range of a double")]
    Number,
    /// The text is not JSON, or is 2 GiB or longer.
    #[error("the text is not JSON, or too long")]
    Text,
}

/// Returns the text of a JSON value by the JSON Canonicalization Scheme.
pub(crate) fn jcs(text: &str) -> Result<String, CanonicalError> {
    if text.len() > (u32::MAX / 2) as usize {
        return Err(CanonicalError::Text);
    }
    let mut writer = JcsWriter { out: Vec::with_capacity(text.len()), out_of_range: false };
    let index = ObjectIndex::build(text.as_bytes(), &writer, &mut 0).map_err(|_| CanonicalError::Text)?;
    if let Some(at) = index.duplicate() {
        return Err(CanonicalError::Duplicate { at });
    }
    index.write(&mut writer, &mut 0).map_err(|_| CanonicalError::Text)?;
    if writer.out_of_range {
        return Err(CanonicalError::Number);
    }
    String::from_utf8(writer.out).map_err(|_| CanonicalError::Text)
}

struct JcsWriter {
    out: Vec<u8>,
    /// True after a number that is not a finite double.
    out_of_range: bool,
}

impl Spelling for JcsWriter {
    /// Compares by UTF-16 code units: as UTF-8 does, except that characters beyond U+FFFF, which begin with a surrogate,
    /// come before U+E000 to U+FFFF.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let rank = |byte: &u8| if matches!(byte, 0xee | 0xef) { byte + 0x10 } else { *byte };
        // The first bytes of four are F0 to F4.
        a.iter().map(rank).cmp(b.iter().map(rank))
    }

    fn punctuation(&mut self, mark: u8) {
        self.out.push(mark);
    }

    fn string(&mut self, text: StringToken<'_>) {
        let text = text.unescaped();
        write_str(&mut self.out, core::str::from_utf8(&text).unwrap_or_default());
    }

    fn scalar(&mut self, first: u8, text: &[u8]) {
        if matches!(first, b'n' | b't' | b'f') {
            return self.out.extend_from_slice(text);
        }
        let number = core::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => write_double(number, &mut self.out),
            None => self.out_of_range = true,
        }
    }
}

/// Writes a finite number as ECMAScript does (`Number::toString`).
fn write_double(number: f64, out: &mut Vec<u8>) {
    if number == 0.0 {
        // Negative zero, too.
        return out.push(b'0');
    }
    // The shortest digits that are read as this number: `-1.2345e-7`.
    let shortest = format!("{number:e}");
    let places =
        shortest.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count().saturating_sub(1);
    // Of two that are as close, ECMAScript takes the even one, as rounding to that many places does.
    let rounded = format!("{number:.places$e}");
    let text = if rounded.parse() == Ok(number) { rounded } else { shortest };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.strip_prefix('-').map_or(digits, |digits| {
        out.push(b'-');
        digits
    });
    let (first, others) = digits.split_once('.').unwrap_or((digits, ""));
    let digits: Vec<u8> = first.bytes().chain(others.bytes()).collect();
    // The value is 0.DIGITS times ten to the power of `point`.
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or_default();
    let zeros = |count: i32| (0..count).map(|_| b'0');
    let whole = usize::try_from(point).unwrap_or_default();
    match point {
        -5..=0 => {
            out.extend_from_slice(b"0.");
            out.extend(zeros(-point));
            out.extend_from_slice(&digits);
        }
        1..=21 if count <= point => {
            out.extend_from_slice(&digits);
            out.extend(zeros(point - count));
        }
        1..=21 => {
            let (whole, fraction) = digits.split_at_checked(whole).unwrap_or((&digits, b""));
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        _ => {
            out.extend_from_slice(first.as_bytes());
            if !others.is_empty() {
                out.push(b'.');
                out.extend_from_slice(others.as_bytes());
            }
            out.extend_from_slice(if point.is_positive() { b"e+" } else { b"e-" });
            out.extend_from_slice(itoa::Buffer::new().format((point - 1).unsigned_abs()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    // RFC 8785, appendix B.
    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let mut out = Vec::new();
            write_double(f64::from_bits(bits), &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(expected), "{bits:016x}");
            // As a member of a text, in another spelling.
            let text = format!("[ {:?} ]", f64::from_bits(bits));
            assert_eq!(jcs(&text), Ok(format!("[{expected}]")));
        }
    }

    // RFC 8785, 3.2.2, 3.2.3, and its examples of members and strings.
    #[test]
    fn texts_of_one_value_become_one() {
        for (text, expected) in [
            (
                r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                 "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#,
                r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
            ),
            (
                r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
                 "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
                "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\
                 \"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
            ),
            (
                r#"{"b":{"d":[{},[],{"z":1,"y":[2,3]}],"c":""},"a":-0}"#,
                r#"{"a":0,"b":{"c":"","d":[{},[],{"y":[2,3],"z":1}]}}"#,
            ),
            ("\"\\b\\t\\n\\f\\r\\u0001\\u007f\"", "\"\\b\\t\\n\\f\\r\\u0001\u{7f}\""),
            ("[5, 5.0, 50e-1, 9007199254740993]", "[5,5,5,9007199254740992]"),
            (r#"{"a":1,"":2,"aa":3,"A":4}"#, r#"{"":2,"A":4,"a":1,"aa":3}"#),
            (" null ", "null"),
        ] {
            assert_eq!(jcs(text).as_deref(), Ok(expected), "{text}");
            assert_eq!(jcs(expected).as_deref(), Ok(expected), "again: {text}");
        }
    }

    #[test]
    fn names_are_sorted_by_utf16_code_units() {
        let mut names: Vec<String> =
            ["", "a", "b", "ab", "é", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10000}", "\u{10ffff}"]
                .iter()
                .flat_map(|a| ["", "x", "\u{fb33}", "😀"].map(|b| format!("{a}{b}")))
                .collect();
        names.sort();
        names.dedup();
        let writer = JcsWriter { out: Vec::new(), out_of_range: false };
        for a in &names {
            for b in &names {
                let expected = a.encode_utf16().cmp(b.encode_utf16());
                assert_eq!(writer.compare(a.as_bytes(), b.as_bytes()), expected, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn values_without_a_canonical_text_are_refused() {
        for (text, error) in [
            (r#"{"a":1,"a":1}"#, CanonicalError::Duplicate { at: 11 }),
            (r#"[{"b":0,"\u0062":[]}]"#, CanonicalError::Duplicate { at: 17 }),
            ("1e309", CanonicalError::Number),
            ("[-1e400]", CanonicalError::Number),
            ("[1,]", CanonicalError::Text),
            ("", CanonicalError::Text),
            (r#""\ud800""#, CanonicalError::Text),
        ] {
            assert_eq!(jcs(text), Err(error), "{text}");
            assert!(!error.to_string().is_empty());
        }
        // Equal names of different objects are no duplicates.
        assert_eq!(
            jcs(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#).as_deref(),
            Ok(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#)
        );
    }
}
