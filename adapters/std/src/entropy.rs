//! Secrets and nonces for a core that draws no randomness

use std::io;
use std::sync::{Mutex, PoisonError};

/// Returns 32 bytes from the operating system's random generator: the one secret that an engine is built with
///
/// One seed may serve many engines of a process, if each gets its own [`nonce`].
///
/// # Errors
///
/// When the operating system has no generator, or refuses to be asked (a sandbox without the system call and
/// without `/dev/urandom`). There is no fallback: a guessable secret would be worse than none.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        io::Error::other(format!("cannot get random bytes from the operating system: {error}"))
    })?;
    Ok(seed)
}

/// Returns a number that this process has not returned before: 0, 1, 2, …
///
/// Not random and not secret. It tells apart the engines that share a seed. A forked process repeats its
/// parent's numbers, so it must draw a new seed.
pub fn nonce() -> u64 {
    // A lock, because 64-bit atomics do not exist everywhere; this runs once per engine.
    static NEXT: Mutex<u64> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let nonce = *next;
    *next = next.wrapping_add(1);
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_nonces_differ() {
        assert_ne!(seed().unwrap(), seed().unwrap());
        assert_ne!(nonce(), nonce());
    }
}
