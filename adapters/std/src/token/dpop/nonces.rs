//! Nonces for proofs, which the server makes (RFC 9449, 8 and 9).

use alloc::string::String;
use core::time::Duration;

use ring::hmac;

use super::super::jose::{decode, encode};

/// Nonces that need no memory: each is a code of its period of time under a secret key.
///
/// The nonces of the current period and of the one before are accepted.
pub(super) struct Nonces {
    key: hmac::Key,
    /// Length of a period in seconds.
    period: u64,
}

/// How a nonce was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceAge {
    /// It is the current one.
    Current,
    /// It is that of the last period; the client should get the current one.
    Previous,
    /// It is too old, or was not made here.
    Unknown,
}

impl Nonces {
    pub(super) fn new(secret: &[u8; 32], period: Duration) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), period: period.as_secs().max(1) }
    }

    /// Returns the nonce at a time.
    pub(super) fn current(&self, now: u64) -> String {
        encode(hmac::sign(&self.key, &(now / self.period).to_be_bytes()).as_ref())
    }

    /// Finds a nonce of a client.
    pub(super) fn find(&self, nonce: &str, now: u64) -> NonceAge {
        let Some(given) = decode(nonce) else { return NonceAge::Unknown };
        let is_of = |period: u64| hmac::verify(&self.key, &period.to_be_bytes(), &given).is_ok();
        let period = now / self.period;
        match () {
            () if is_of(period) => NonceAge::Current,
            () if period.checked_sub(1).is_some_and(is_of) => NonceAge::Previous,
            () => NonceAge::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_is_accepted_for_one_to_two_periods() {
        let nonces = Nonces::new(&[7; 32], Duration::from_secs(300));
        let nonce = nonces.current(3_000);
        assert!(nonce.len() == 43 && nonce == nonces.current(3_299) && nonce != nonces.current(3_300));
        for (now, age) in [
            (2_999, NonceAge::Unknown),
            (3_000, NonceAge::Current),
            (3_299, NonceAge::Current),
            (3_300, NonceAge::Previous),
            (3_599, NonceAge::Previous),
            (3_600, NonceAge::Unknown),
            (0, NonceAge::Unknown),
        ] {
            assert_eq!(nonces.find(&nonce, now), age, "{now}");
        }
        for other in ["", "x", "\u{e9}", &nonce[..42], &alloc::format!("{nonce}A")] {
            assert_eq!(nonces.find(other, 3_000), NonceAge::Unknown, "{other}");
        }
        assert_eq!(Nonces::new(&[8; 32], Duration::from_secs(300)).find(&nonce, 3_000), NonceAge::Unknown);
        // A period of zero would be none.
        let shortest = Nonces::new(&[7; 32], Duration::ZERO);
        assert_eq!(shortest.find(&shortest.current(5), 6), NonceAge::Previous);
        assert_eq!(shortest.find(&shortest.current(0), 0), NonceAge::Current);
    }
}
