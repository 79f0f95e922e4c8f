//! Writers of status lines and lengths.

use alloc::vec::Vec;

/// Writes a status line; the phrase is informative and may be empty (RFC 9112, 4).
pub(super) fn put_status(tail: &mut Vec<u8>, status: u16) {
    tail.extend_from_slice(b"HTTP/1.1 ");
    tail.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    tail.push(b' ');
    tail.extend_from_slice(phrase(status).as_bytes());
    tail.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn put_length(tail: &mut Vec<u8>, n: u64) {
    tail.extend_from_slice(b"Content-Length: ");
    tail.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    tail.extend_from_slice(b"\r\n");
}

fn phrase(status: u16) -> &'static str {
    // The most frequent ones first.
    PHRASES.iter().find(|(known, _)| *known == status).map_or("", |(_, phrase)| phrase)
}

static PHRASES: [(u16, &str); 32] = [
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (204, "No Content"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (417, "Expectation Failed"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
];
