//! Types that many messages share: implementation, icons, annotations, pagination, empty parameters and results.

use alloc::string::String;
use alloc::vec::Vec;

use super::message::message;
use super::string_enum::string_enum;
use crate::ascii::AsciiCaseExt as _;
use crate::raw::RawJson;
use crate::rpc::RequestId;

/// Position of the next page of a list: opaque, neither read nor changed by the client (PAGE-005).
///
/// An empty cursor is a cursor too: presence decides, not content (PAGE-007).
pub type Cursor = String;

/// Token that ties progress to a request: a string or an integer (PROG-003).
pub type ProgressToken = RequestId;

string_enum! {
    /// Sender of a message (CONT-005). An unknown word is kept when read, and never sent.
    Role never "$never::`role`" {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }

    /// Kind of a result (since 2026-07-28; BASE-026).
    ResultType {
        /// The request is complete; the meaning of a missing `resultType`.
        Complete = "complete",
        /// The server has input requests ([`InputRequiredResult`](super::InputRequiredResult); MRTR-004).
        InputRequired = "input_required",
        /// The request has become a task ([`Task`](super::Task); TASK-107).
        Task = "task",
    }

    /// Parties that may receive a cached result (since 2026-07-28; CACHE-003).
    CacheScope {
        /// Any party (CACHE-013).
        Public = "public",
        /// The party that requested it (CACHE-012).
        Private = "private",
    }

    /// Background that an icon was drawn for.
    IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

message! {
    /// Name and version of a client or server.
    ///
    /// Self-reported: do not base security decisions or behaviour on it (META-019).
    Implementation {
        /// Name for programs (META-035).
        name: String = "name",
        /// Version of the implementation, in any form.
        version: String = "version",
    } {
        /// Name for display (since 2025-06-18; META-035).
        opt title: String = "title",
        /// Description (since 2025-11-25).
        opt description: String = "description",
        /// URL with more information (since 2025-11-25).
        opt website_url: String = "websiteUrl",
        /// Icons (since 2025-11-25; META-026).
        list icons: Vec<Icon> = "icons",
    }

    /// An icon (since 2025-11-25; META-027).
    ///
    /// Untrusted: read META-030 and the rules after it before showing one. [`Icon::is_safe`] checks the scheme.
    Icon {
        /// An `https:`, `http:` or `data:` URI; an icon with another scheme is kept when read, and never sent.
        src: String as IconSource = "src",
    } {
        /// Media type, for a source that reports none or a wrong one.
        opt mime_type: String = "mimeType",
        /// Sizes: `48x48`, or `any` for a scalable one; empty for any size.
        list sizes: Vec<String> = "sizes",
        /// Background that it is made for; `None` for any.
        opt theme: IconTheme = "theme",
    }

    /// Audience and importance of a value (CONT-004).
    Annotations {} {
        /// Audience; `None` for everybody.
        hint audience: Vec<Role> = "audience",
        /// Importance from 0 (optional) to 1 (required); another number is kept when read, and never sent.
        hint priority: f64 as PriorityValue = "priority",
        /// Time of the last change, ISO 8601 (since 2025-06-18).
        hint last_modified: String = "lastModified",
    }

    /// Parameters of a method without any of its own.
    ///
    /// These are `server/discover`, `ping`, `roots/list`, and the notifications without content.
    EmptyParams {} {
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Parameters of a list method (PAGE-008).
    PaginatedParams {} {
        /// Cursor from the previous page; `None` for the first page.
        opt cursor: Cursor = "cursor",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }

    /// Member `task` of a request that is to become a task (2025-11-25 only; TASK-008).
    TaskMetadata {} {
        /// Requested time from creation to expiry, in milliseconds; the receiver may choose another (TASK-016).
        opt ttl: u64 as Integer = "ttl",
    }

    /// A result without content.
    EmptyResult {} {
        /// Kind of the result (since 2026-07-28). If a handler leaves it unset, the server's engine adds it.
        opt result_type: ResultType = "resultType",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

impl Icon {
    /// Returns whether the source has a permitted scheme: `https:`, `http:` or `data:` (META-027).
    pub(crate) fn is_allowed(&self) -> bool {
        super::codec::is_icon_source(&self.src)
    }

    /// Returns whether an icon may be fetched from the scheme of its source: `https:` or `data:` (META-031).
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let scheme = self.src.split(':').next().unwrap_or_default();
        scheme.len() < self.src.len() && (scheme.eq_ignore_case("https") || scheme.eq_ignore_case("data"))
    }
}

#[cfg(test)]
mod tests {

    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: META-026, META-027, META-031, META-035
    #[test]
    fn implementation_with_icons_round_trips() {
        let icon = Icon::new("https://x.example/i.png")
            .mime_type("image/png")
            .sizes(["48x48".into()])
            .theme(IconTheme::Dark);
        let info = Implementation::new("n", "1")
            .title("N")
            .description("d")
            .website_url("https://x.example")
            .icons([icon.clone(), Icon::new("data:image/png;base64,aa")]);
        assert_round_trip(&info);
        assert!(icon.is_safe() && info.icons[1].is_safe());
        for unsafe_uri in ["javascript:alert(1)", "file:///x", "http://x.example/", "https", "ws://x"] {
            assert!(!Icon::new(unsafe_uri).is_safe(), "{unsafe_uri}");
        }
        assert_missing::<Implementation>(r#"{"name":"n"}"#, "version");
        assert_missing::<Icon>("{}", "src");
    }

    // covers: CONT-004
    #[test]
    fn annotations_keep_numbers_and_unknown_roles() {
        assert_round_trip(
            &Annotations::new()
                .audience([Role::User, "tool".into()])
                .priority(0.5)
                .last_modified("2025-01-01"),
        );
        let text = serde_json::to_string(&Annotations::new().priority(1.0)).expect("JSON");
        assert_eq!(text, r#"{"priority":1}"#, "a whole number has no fraction");
        assert!(serde_json::to_string(&Annotations::new().priority(f64::NAN)).is_err());
    }

    // covers: CONT-004
    #[test]
    fn annotation_that_cannot_be_read_costs_itself() {
        let text = r#"{"priority":"high","audience":"user","lastModified":"2025-01-01","x":1}"#;
        let read: Annotations = serde_json::from_str(text).expect("annotations");
        assert_eq!(
            (read.priority, &read.audience, read.last_modified.as_deref()),
            (None, &None, Some("2025-01-01"))
        );
        assert_eq!(read.extra.len(), 1);
        assert!(
            serde_json::from_str::<Annotations>(r#"{"priority":1,"priority":1}"#).is_err(),
            "named twice"
        );
    }

    // covers: PAGE-007, PAGE-008
    #[test]
    fn empty_cursor_is_kept() {
        assert_round_trip(&PaginatedParams::new().cursor(""));
        assert_round_trip(&EmptyParams::new().meta(RawJson::new(r#"{"a":null}"#).expect("JSON")));
        assert_round_trip(&EmptyResult::new().result_type("x/odd"));
        let page: PaginatedParams = serde_json::from_str(r#"{"cursor":null}"#).expect("a page");
        assert_eq!(page.cursor, None, "null is read as absent");
    }
}
