//! The span of a request, in which its handlers run wherever they are polled.

/// The span that was current when a request arrived: that of a layer around the service.
#[derive(Debug)]
pub(crate) struct RequestSpan(#[cfg(feature = "tracing")] tracing::Span);

#[cfg(feature = "tracing")]
impl RequestSpan {
    pub(crate) fn current() -> Self {
        Self(tracing::Span::current())
    }

    /// Enters the span, unless it is current already.
    pub(crate) fn enter(&self) -> Option<tracing::span::Entered<'_>> {
        let is_entered = self.0.is_none() || tracing::Span::current().id() == self.0.id();
        (!is_entered).then(|| self.0.enter())
    }
}

#[cfg(not(feature = "tracing"))]
impl RequestSpan {
    pub(crate) const fn current() -> Self {
        Self()
    }

    pub(crate) const fn enter(&self) -> Option<()> {
        None
    }
}
