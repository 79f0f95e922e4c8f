//! Secrets and nonces for the core, which draws no randomness itself.

use std::io;
use std::sync::{Mutex, PoisonError};

/// Returns 32 bytes from the operating system's random generator, the secret that an engine is built with.
///
/// One seed may serve many engines of a process if each gets its own [`nonce`].
///
/// # Errors
///
/// Any error of the operating system's generator, for example in a sandbox without the system call and without
/// `/dev/urandom`. There is no fallback: a guessable secret would be worse than none.
///
/// On `wasm32-unknown-unknown` [`Unsupported`](io::ErrorKind::Unsupported): only the host has a generator there.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| no_entropy(error.raw_os_error(), &error.to_string()))?;
    Ok(seed)
}

/// Describes a failure of the generator. Its own text of an error of the system is the number alone.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
fn no_entropy(code: Option<i32>, text: &str) -> io::Error {
    let reason = code.map_or_else(|| text.to_owned(), |code| io::Error::from_raw_os_error(code).to_string());
    io::Error::other(format!("cannot get random bytes from the operating system: {reason}"))
}

/// Fails: only the host has a generator.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub fn seed() -> io::Result<[u8; 32]> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns a number that this process has not returned before: 0, 1, 2, and so on.
///
/// The number is neither random nor secret. It distinguishes engines that share a seed. A forked process repeats the
/// numbers of its parent, so it must draw a new seed.
pub fn nonce() -> u64 {
    // A lock, because some targets have no 64-bit atomics; this runs once per engine.
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

    #[cfg(unix)]
    #[test]
    fn failure_of_the_system_is_described_in_words() {
        let text = no_entropy(Some(5), "OS Error: 5").to_string();
        assert_eq!(
            text,
            "cannot get random bytes from the operating system: Input/output error (os error 5)"
        );
        assert!(no_entropy(None, "no such device").to_string().ends_with(": no such device"));
    }
}
