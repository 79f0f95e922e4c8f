//! The credentials of a request, as its head has them.

/// A field that must occur at most once.
#[derive(Clone, Copy, Default)]
pub(super) enum SingleValue<'a> {
    #[default]
    Absent,
    One(&'a [u8]),
    Repeated,
}

impl<'a> SingleValue<'a> {
    pub(super) fn add(&mut self, value: &'a [u8]) {
        *self = if matches!(self, Self::Absent) { Self::One(value) } else { Self::Repeated };
    }
}

/// The credentials of a request, with the method and the path that a proof names.
pub(super) struct Credentials<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) token: SingleValue<'a>,
    pub(super) proof: SingleValue<'a>,
}
