//! Comparison of ASCII words without regard to case.

/// Case-insensitive comparison of ASCII text.
///
/// It does the same as `eq_ignore_ascii_case` but is compiled once. The standard function is inlined as hundreds of
/// bytes of vector instructions at each use, and short words gain nothing from them.
pub(crate) trait AsciiCaseExt {
    /// Returns whether both are equal apart from the case of ASCII letters.
    fn eq_ignore_case(&self, other: &Self) -> bool;
}

impl AsciiCaseExt for [u8] {
    #[inline(never)]
    fn eq_ignore_case(&self, other: &Self) -> bool {
        self.eq_ignore_ascii_case(other)
    }
}

impl AsciiCaseExt for str {
    #[inline]
    fn eq_ignore_case(&self, other: &Self) -> bool {
        self.as_bytes().eq_ignore_case(other.as_bytes())
    }
}
