//! The front matter of a `SKILL.md`: the YAML text between two lines `---`.

/// Maximum size of the front matter in bytes: a `SKILL.md` with more is refused before anything is parsed.
pub const MAX_FRONT_MATTER: usize = 64 << 10;

/// Splits the text of a `SKILL.md` into its front matter, which is YAML, and what follows (SKILL-009).
///
/// The text begins with a line `---`, and the next such line ends the front matter. White space at the end of these lines
/// and CRLF are accepted.
///
/// # Errors
///
/// [`FrontMatterError`]: there is no such line at the beginning or at the end, or the front matter is larger than
/// [`MAX_FRONT_MATTER`].
pub fn split_front_matter(text: &str) -> Result<(&str, &str), FrontMatterError> {
    let is_marker = |line: &str| line.trim_end_matches([' ', '\t', '\r']) == "---";
    let (first, rest) = text.split_once('\n').ok_or(FrontMatterError::Missing)?;
    if !is_marker(first) {
        return Err(FrontMatterError::Missing);
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if is_marker(line.strip_suffix('\n').unwrap_or(line)) {
            let (yaml, end) = rest.split_at_checked(at).unwrap_or((rest, ""));
            return Ok((yaml, end.get(line.len()..).unwrap_or("")));
        }
        at += line.len();
        if at > MAX_FRONT_MATTER {
            return Err(FrontMatterError::TooLong);
        }
    }
    Err(FrontMatterError::Unterminated)
}

/// Reason why the front matter was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontMatterError {
    /// The text does not begin with a line `---`.
    #[error("the file does not begin with a line `---`")]
    Missing,
    /// No second line `---` follows.
    #[error("there is no line `---` that ends it")]
    Unterminated,
    /// It is larger than [`MAX_FRONT_MATTER`].
    #[error("it is larger than {MAX_FRONT_MATTER} bytes")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: SKILL-009
    #[test]
    fn front_matter_is_between_two_lines() {
        for (text, yaml, body) in [
            ("---\na: 1\n---\nbody\n", "a: 1\n", "body\n"),
            ("---\r\na: 1\r\n---\r\nbody", "a: 1\r\n", "body"),
            ("--- \t\na: |\n  x\n  ---\n---", "a: |\n  x\n  ---\n", ""),
            ("---\n---\n---\n", "", "---\n"),
            ("---\na: ü\n---  \n", "a: ü\n", ""),
        ] {
            assert_eq!(split_front_matter(text), Ok((yaml, body)), "{text:?}");
        }
        for text in
            ["", "---", "# Title\n", "\n---\na: 1\n---\n", "\u{feff}---\na: 1\n---\n", "----\na\n---\n"]
        {
            assert_eq!(split_front_matter(text), Err(FrontMatterError::Missing), "{text:?}");
        }
        for text in ["---\n", "---\na: 1\n", "---\na: 1\n --- \n", "---\na: 1\n----\n"] {
            assert_eq!(split_front_matter(text), Err(FrontMatterError::Unterminated), "{text:?}");
        }
    }

    // covers: SEC-018
    #[test]
    fn large_front_matter_is_refused() {
        let of_size = |size: usize| format!("---\n{}\n---\nbody", "x".repeat(size - 1));
        assert!(split_front_matter(&of_size(MAX_FRONT_MATTER)).is_ok());
        for size in [MAX_FRONT_MATTER + 1, 1 << 20] {
            assert_eq!(split_front_matter(&of_size(size)), Err(FrontMatterError::TooLong), "{size}");
        }
    }
}
