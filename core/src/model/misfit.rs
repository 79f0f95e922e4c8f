//! What does not fit, and where: what is wrong with a question, or with an answer to one.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use super::message::split;
use crate::rpc::{RpcError, clip};

/// Something does not fit, and where
///
/// Says nothing of what stands there, which may be long, or for nobody else to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", At(.path))]
#[non_exhaustive]
pub struct Misfit {
    /// The way to it, such as `content.nights` or `messages[2].content`; empty for the whole
    pub path: String,
    /// What is wrong there, for people: `must be 1 or more`, for instance
    pub why: String,
}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "`{}`: ", self.0) }
    }
}

impl Misfit {
    /// Of the whole
    #[cold]
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self { path: String::new(), why: why.to_string() }
    }

    /// Of a member that may be named by a peer
    #[cold]
    pub(crate) fn at(name: &str, why: impl fmt::Display) -> Self {
        Self::new(why).within(name)
    }

    /// What was wrong when something was read
    #[cold]
    pub(crate) fn unread(error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        let (path, why) = split(&text);
        Self { path: path.into(), why: why.into() }
    }

    /// The same, a level further out: paths grow from the inside out
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let name = clip(name);
        self.path = match &*self.path {
            "" => name.into_owned(),
            inner if inner.starts_with('[') => format!("{name}{inner}"),
            inner => format!("{name}.{inner}"),
        };
        self
    }

    /// The same for an element of a list
    #[cold]
    pub(crate) fn element(self, at: usize) -> Self {
        self.within(&format!("[{at}]"))
    }
}

impl From<Misfit> for RpcError {
    /// -32602: as a question or an answer that does not fit is refused (MRTR-027, SAMP-014)
    fn from(misfit: Misfit) -> Self {
        Self::invalid_params(misfit.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_from_the_inside_out() {
        let misfit = Misfit::new("is wrong").within("uri").element(2).within("roots");
        assert_eq!(misfit.to_string(), "`roots[2].uri`: is wrong");
        assert_eq!(Misfit::new("is wrong").to_string(), "is wrong");
        let long = Misfit::at(&"é".repeat(1_000), "is wrong");
        assert_eq!(long.path.chars().count(), 65);
        let read =
            serde_json::from_str::<super::super::ElicitResult>(r#"{"action":"accept","content":{"a":{}}}"#);
        let unread = Misfit::unread(&read.expect_err("wrong"));
        assert_eq!(unread.path, "content.a");
        assert!(unread.why.starts_with("invalid type: map, expected a string"), "{}", unread.why);
        let error = RpcError::from(unread.clone());
        assert_eq!((error.code, &*error.message), (-32602, &*unread.to_string()));
    }
}
