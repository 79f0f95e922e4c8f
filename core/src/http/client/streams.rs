//! The GET stream of a legacy server, and going on with streams that broke.

use alloc::format;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Events, Exchange, Phase, Tries, What};
use super::session::Gate;
use crate::error::HttpError;

impl Client {
    /// Opens the stream on which the server speaks unasked, before anything is asked of it (HTTP-047)
    ///
    /// Calls wait until it is there: what the server needs for one of them may come on it, and is dropped by some when
    /// nobody listens. It is not opened later, when a call is pending: some deliver answers on whatever comes first.
    pub(super) fn listen(&mut self) {
        self.session.unheard = None;
        if !self.config.listen || self.session.post_to.is_some() || !self.is_legacy() {
            return self.open_gate();
        }
        self.gate_for(Gate::Listening);
        self.open(What::Stream, Bytes::new(), Tries::default());
    }

    /// The stream is open
    pub(super) fn listening(&mut self) {
        self.session.unheard = None;
        if self.session.gate == Gate::Listening {
            self.open_gate();
        }
    }

    /// The stream could not be opened; a server need not have one (HTTP-049)
    pub(super) fn not_listening(&mut self, mut x: Exchange, error: &HttpError) {
        if self.session.gate == Gate::Listening {
            self.open_gate();
        }
        let was_open = x.events.as_ref().is_some_and(|e| e.was_open);
        let again = error.passes(was_open);
        if again {
            let max = self.max_frame();
            x.events.get_or_insert_with(|| Events::new(max).into());
            if self.pause(&mut x, false, error.retry_after()) {
                self.park(x);
                return;
            }
        }
        if again || was_open {
            self.not_opened_again(error);
        } else {
            let why = format!("the server has no stream on which it would speak unasked: {error}");
            self.session.unheard = Some(why.into());
        }
    }

    /// Opens a stream again
    pub(super) fn reconnect(&mut self, x: Exchange) {
        let what = match x.what {
            What::Call { id, .. } => What::Resume { id },
            what => what,
        };
        self.dispatch(Exchange {
            what,
            url: self.config.endpoint.clone(),
            body: Bytes::new(),
            phase: Phase::Sent,
            ..x
        });
    }
}
