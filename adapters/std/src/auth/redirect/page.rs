//! The pages that a browser gets.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use super::RedirectPage;

/// A response.
pub(super) enum Page {
    /// To a redirect.
    Redirect(RedirectPage),
    /// To a redirect after another one was accepted.
    Late,
    UnknownPath,
    OtherMethod,
    ForeignHost,
}

impl Page {
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Redirect(RedirectPage::Done | RedirectPage::CopyAddress) => 200,
            Self::Redirect(RedirectPage::Failed(_) | RedirectPage::Foreign) => 400,
            Self::Late => 409,
            Self::UnknownPath => 404,
            Self::OtherMethod => 405,
            Self::ForeignHost => 403,
        }
    }

    /// Returns the header fields. None permits another origin to read the page.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let allow = matches!(self, Self::OtherMethod).then_some(("Allow", "GET"));
        COMMON_FIELDS.iter().copied().chain(allow)
    }

    pub(super) fn html(&self) -> String {
        let (title, text): (_, Cow<'_, str>) = match self {
            Self::Redirect(RedirectPage::Done) => {
                ("You are authorized", "You can close this window.".into())
            }
            Self::Redirect(RedirectPage::Failed(reason)) => ("The authorization failed", escape(reason).into()),
            Self::Redirect(RedirectPage::Foreign) => (
                "This page was not expected",
                "It does not belong to the authorization that is under way. Return to the program and open the \
                 address that it shows."
                    .into(),
            ),
            Self::Redirect(RedirectPage::CopyAddress) => (
                "Copy the address of this page",
                "Enter it in the program that waits for it. You can close this window then.".into(),
            ),
            Self::Late => {
                ("The authorization has ended", "An earlier page has ended it. You can close this window.".into())
            }
            Self::UnknownPath => ("Not found", "There is no such page.".into()),
            Self::OtherMethod => ("Method not allowed", "This page can only be opened.".into()),
            Self::ForeignHost => ("Forbidden", "This page has another address.".into()),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
             <body><h1>{title}</h1><p>{text}</p></body>\n</html>\n"
        )
    }
}

/// Returns a text as HTML: without markup, control characters and what is beyond the bound.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars().take(MAX_REASON) {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() => html.push(' '),
            c => html.push(c),
        }
    }
    html
}

/// The fields of every page. The address of a redirect holds an authorization code, which must neither be stored nor
/// sent elsewhere.
const COMMON_FIELDS: &[(&str, &str)] = &[
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    (
        "Content-Security-Policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// Characters of a reason that are shown.
const MAX_REASON: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_shown_without_markup_and_bounded() {
        let html = Page::Redirect(RedirectPage::Failed("<script>\"'&\n\u{7}\u{e4}".into())).html();
        assert!(html.contains("&lt;script&gt;&quot;&#39;&amp;  \u{e4}</p>"), "{html}");
        assert!(!html.contains("<script"));
        let html = Page::Redirect(RedirectPage::Failed("\u{e4}".repeat(5000))).html();
        assert_eq!(html.chars().filter(|c| *c == '\u{e4}').count(), MAX_REASON);
    }
}
