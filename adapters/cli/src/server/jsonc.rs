//! JSON with comments and trailing commas, as editors write it.

/// Replaces comments, trailing commas and a byte order mark by spaces. Lines and columns stay the same.
pub(super) fn to_json(text: &str) -> String {
    let mut out: Vec<char> = text.chars().collect();
    if out.first() == Some(&'\u{feff}') {
        out[0] = ' ';
    }
    let mut at = 0;
    // Position of the last comma, if only spaces and comments follow it so far.
    let mut comma = None;
    while let Some(&c) = out.get(at) {
        let end = match (c, out.get(at + 1)) {
            ('"', _) => string_end(&out, at),
            ('/', Some('/')) => blank(&mut out, at, |rest| rest.iter().position(|c| *c == '\n')),
            ('/', Some('*')) => blank(&mut out, at, |rest| {
                rest.windows(2).skip(2).position(|pair| pair == ['*', '/']).map(|found| found + 4)
            }),
            (c, _) if c.is_ascii_whitespace() => at + 1,
            (',', _) => {
                comma = Some(at);
                at += 1;
                continue;
            }
            ('}' | ']', _) => {
                if let Some(comma) = comma {
                    out[comma] = ' ';
                }
                at + 1
            }
            _ => at + 1,
        };
        if !(c.is_ascii_whitespace() || c == '/') {
            comma = None;
        }
        at = end;
    }
    out.into_iter().collect()
}

/// Returns the position behind a string that begins at `at`.
fn string_end(text: &[char], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(c) = text.get(end) {
        end += match c {
            '"' => return end + 1,
            '\\' => 2,
            _ => 1,
        };
    }
    end
}

/// Replaces a comment by spaces, up to the length that `find` returns or to the end. Returns the position behind it.
fn blank(text: &mut [char], at: usize, find: impl Fn(&[char]) -> Option<usize>) -> usize {
    let end = find(&text[at..]).map_or(text.len(), |length| at + length);
    for c in &mut text[at..end] {
        if *c != '\n' {
            *c = ' ';
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_spaces() {
        for (text, want) in [
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("\u{feff}{}", " {}"),
            ("{\"a\": 1, // one,\n}", "{\"a\": 1         \n}"),
            ("[1, /* ] */ 2,]", "[1,         2 ]"),
            ("[1,/**/]", "[1     ]"),
            ("[\"a,]//\", \"\\\"/*\" ,]", "[\"a,]//\", \"\\\"/*\"  ]"),
            // Not a trailing comma: the parser must refuse it.
            ("[,1]", "[,1]"),
            ("/* open", "       "),
            ("/*/ */1", "      1"),
            ("\"open", "\"open"),
            ("\"open\\", "\"open\\"),
            ("1 / 2", "1 / 2"),
        ] {
            assert_eq!(to_json(text), want, "{text:?}");
        }
    }
}
