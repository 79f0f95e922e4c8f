//! Frames: the number of an exchange, and a message or its end.

/// Number of the exchange for messages of the server that answer nothing.
pub const SESSION: u32 = 0;

/// Returns the number of a frame, and its message unless it is an end; `None` if it is not a valid frame.
pub fn parse(frame: &str) -> Option<(u32, Option<&str>)> {
    let (number, message) = match frame.split_once(' ') {
        Some((number, message)) => (number, Some(message)),
        None => (frame, None),
    };
    let is_canonical = number == "0" || !number.starts_with(['0', '+']);
    number.parse().ok().filter(|_| is_canonical).map(|number| (number, message))
}

/// Returns the frame of a message.
pub fn message(number: u32, message: &[u8]) -> String {
    // Messages of the engines are JSON text.
    format!("{number} {}", String::from_utf8_lossy(message))
}

/// Returns the frame that ends an exchange.
pub fn end(number: u32) -> String {
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_not_canonical_are_refused() {
        assert_eq!(parse(&message(7, b"{}")), Some((7, Some("{}"))));
        assert_eq!(parse(&end(7)), Some((7, None)));
        assert_eq!(parse("0 {\"a\": 1}"), Some((0, Some("{\"a\": 1}"))));
        for frame in ["", " {}", "07", "+7 {}", "-1", "4294967296", "x {}", "00"] {
            assert_eq!(parse(frame), None, "{frame}");
        }
    }
}
