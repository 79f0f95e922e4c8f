//! Media types of files, by the ending of their names.

/// Media types by ending, in lower case.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("md", "text/markdown"),
    ("txt", "text/plain"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("ts", "text/x-typescript"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "text/x-shellscript"),
    ("toml", "application/toml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Returns the media type of a file: by its ending, else text if its content is UTF-8.
pub(crate) fn media_type(path: &str, content: &[u8]) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let known = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    match known {
        Some((_, media_type)) => media_type,
        None if core::str::from_utf8(content).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}
