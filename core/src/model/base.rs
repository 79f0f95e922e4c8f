//! What many messages have in common: who somebody is, icons, annotations, pages, results without content.

use alloc::string::String;
use alloc::vec::Vec;

use super::message::message;
use super::words::words;
use crate::ascii::AnyCase as _;
use crate::raw::RawJson;
use crate::rpc::RequestId;

/// Where the next page of a list begins: opaque, neither read nor changed by who gets it (PAGE-005)
///
/// An empty one is a cursor too: presence decides, not content (PAGE-007).
pub type Cursor = String;

/// What progress reports of a request are known by: a string or an integer (PROG-003)
pub type ProgressToken = RequestId;

words! {
    /// Who speaks in a message (CONT-005); an unknown word is kept when read, and never sent
    Role never "$never::`role`" {
        /// The person
        User = "user",
        /// The model
        Assistant = "assistant",
    }

    /// What kind of result it is (since 2026-07-28; BASE-026)
    ResultType {
        /// The request is done; what a missing one means
        Complete = "complete",
        /// The server needs something first ([`InputRequiredResult`](super::InputRequiredResult); MRTR-004)
        InputRequired = "input_required",
    }

    /// Who may be given a kept result (since 2026-07-28; CACHE-003)
    CacheScope {
        /// Anybody (CACHE-013)
        Public = "public",
        /// Only who asked (CACHE-012)
        Private = "private",
    }

    /// For which background an icon was drawn
    IconTheme {
        /// A light background
        Light = "light",
        /// A dark background
        Dark = "dark",
    }
}

message! {
    /// Name and version of a client or server
    ///
    /// Self-reported: not to be used for security decisions nor to change behaviour (META-019).
    Implementation {
        /// Name for programs (META-035)
        name: String = "name",
        /// Version of the implementation, any form
        version: String = "version",
    } {
        /// Name for people (since 2025-06-18; META-035)
        opt title: String = "title",
        /// What it is (since 2025-11-25)
        opt description: String = "description",
        /// Where to read more, a URL (since 2025-11-25)
        opt website_url: String = "websiteUrl",
        /// Pictures for it (since 2025-11-25; META-026)
        list icons: Vec<Icon> = "icons",
    }

    /// A picture that stands for something (since 2025-11-25; META-027)
    ///
    /// Untrusted: see META-030 and on before showing one; [`Icon::is_safe`] looks at the scheme.
    Icon {
        /// Where it is: an `https:`, `http:` or `data:` URI; an icon with another is kept when read, and never sent
        src: String as IconSource = "src",
    } {
        /// Its media type, when the source says none or a wrong one
        opt mime_type: String = "mimeType",
        /// Sizes that it is made for: `48x48`, or `any` for one that scales; none for any size
        list sizes: Vec<String> = "sizes",
        /// The background that it is made for; none for any
        opt theme: IconTheme = "theme",
    }

    /// For whom something is and how much it matters (CONT-004)
    Annotations {} {
        /// For whom; none for everybody
        opt audience: Vec<Role> = "audience",
        /// How much it matters: from 0 (optional) to 1 (required); another number is kept when read, and never sent
        opt priority: f64 as Share = "priority",
        /// When it changed, ISO 8601 (since 2025-06-18)
        opt last_modified: String = "lastModified",
    }

    /// The parameters of a method that has none of its own: `server/discover`, `ping`, `roots/list`, and the
    /// notifications that only say that something happened
    EmptyParams {} {
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// The parameters of a list method (PAGE-008)
    PaginatedParams {} {
        /// The cursor of the page before; none for the first page
        opt cursor: Cursor = "cursor",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }

    /// A result that says only that the request is done
    EmptyResult {} {
        /// What kind of result it is (since 2026-07-28); a server's engine adds it
        opt result_type: ResultType = "resultType",
        /// Metadata
        opt meta: RawJson as Object = "_meta",
    }
}

impl Icon {
    /// Whether the source has a scheme that an icon may have: `https:`, `http:` or `data:` (META-027)
    pub(crate) fn is_allowed(&self) -> bool {
        super::codec::is_icon_source(&self.src)
    }

    /// Whether the source has one of the two schemes that icons may be fetched from, `https:` and `data:` (META-031)
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let scheme = self.src.split(':').next().unwrap_or_default();
        scheme.len() < self.src.len() && (scheme.eq_any_case("https") || scheme.eq_any_case("data"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::for_tests::{missing, same};
    use super::*;

    // covers: META-026, META-027, META-031, META-035
    #[test]
    fn identities_have_icons() {
        let icon = Icon::new("https://x.example/i.png")
            .mime_type("image/png")
            .sizes(["48x48".into()])
            .theme(IconTheme::Dark);
        let info = Implementation::new("n", "1")
            .title("N")
            .description("d")
            .website_url("https://x.example")
            .icons([icon.clone(), Icon::new("data:image/png;base64,aa")]);
        same(&info);
        assert!(icon.is_safe() && info.icons[1].is_safe());
        for unsafe_uri in ["javascript:alert(1)", "file:///x", "http://x.example/", "https", "ws://x"] {
            assert!(!Icon::new(unsafe_uri).is_safe(), "{unsafe_uri}");
        }
        missing::<Implementation>(r#"{"name":"n"}"#, "version");
        missing::<Icon>("{}", "src");
    }

    // covers: CONT-004
    #[test]
    fn annotations_keep_numbers_and_unknown_roles() {
        same(
            &Annotations::new()
                .audience([Role::User, "tool".into()])
                .priority(0.5)
                .last_modified("2025-01-01"),
        );
        let text = serde_json::to_string(&Annotations::new().priority(1.0)).expect("JSON");
        assert_eq!(text, r#"{"priority":1}"#, "a whole number has no fraction");
        assert!(serde_json::to_string(&Annotations::new().priority(f64::NAN)).is_err());
        let error = serde_json::from_str::<Annotations>(r#"{"priority":"high"}"#).expect_err("no number");
        assert!(error.to_string().starts_with("`priority`: invalid type"), "{error}");
    }

    // covers: PAGE-007, PAGE-008
    #[test]
    fn an_empty_cursor_is_a_cursor() {
        same(&PaginatedParams::new().cursor(""));
        same(&EmptyParams::new().meta(RawJson::new(r#"{"a":null}"#).expect("JSON")));
        same(&EmptyResult::new().result_type("x/odd"));
        let page: PaginatedParams = serde_json::from_str(r#"{"cursor":null}"#).expect("a page");
        assert_eq!(page.cursor, None, "null is read as absent");
    }
}
