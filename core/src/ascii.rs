//! Words whose letters may be large or small

/// Comparing without regard to the case of ASCII letters
///
/// As `eq_ignore_ascii_case`, but compiled once: that becomes hundreds of bytes of vector instructions wherever it stands,
/// which words of this length do not come to.
pub(crate) trait AnyCase {
    /// Whether both are the same but for the case of ASCII letters
    fn eq_any_case(&self, other: &Self) -> bool;
}

impl AnyCase for [u8] {
    #[inline(never)]
    fn eq_any_case(&self, other: &Self) -> bool {
        self.eq_ignore_ascii_case(other)
    }
}

impl AnyCase for str {
    #[inline]
    fn eq_any_case(&self, other: &Self) -> bool {
        self.as_bytes().eq_any_case(other.as_bytes())
    }
}
