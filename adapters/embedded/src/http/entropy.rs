//! Entropy of the device: drawn once, or refused.

use core::fmt;

use mcp_proto::Entropy;

/// Reason for which a server over HTTP did not start: its session ids could be guessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntropyError<E> {
    /// The source has failed.
    Source(E),
    /// The source repeats itself, as a generator does that has no clock or is broken.
    Stuck,
}

impl<E: fmt::Display> fmt::Display for EntropyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "the source of entropy has failed: {error}"),
            Self::Stuck => f.write_str("the source of entropy repeats itself"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for EntropyError<E> {}

/// Draws the secret of a server.
///
/// Nothing replaces a source that is missing. The check for repetition finds a generator that is dead, not one that is weak.
pub(super) fn draw<E>(
    mut source: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Entropy, EntropyError<E>> {
    let (mut secret, mut other) = ([0; 32], [0; 32]);
    source(&mut secret).map_err(EntropyError::Source)?;
    source(&mut other).map_err(EntropyError::Source)?;
    let is_constant = |bytes: &[u8; 32]| bytes.iter().all(|byte| *byte == bytes[0]);
    if secret == other || is_constant(&secret) || is_constant(&other) {
        return Err(EntropyError::Stuck);
    }
    Ok(Entropy::new(secret, 0))
}
