//! The eras that clients over HTTP found, for all clients of this process.

use alloc::string::String;
use alloc::vec::Vec;
use std::sync::{Mutex, PoisonError};

use mcp_proto::client::{Config, KnownEra};

/// URLs of servers whose era saves a client the probe, newest last. It finds the other era by itself if the server has
/// changed (VER-042).
static FOUND: Mutex<Vec<(String, KnownEra)>> = Mutex::new(Vec::new());

/// Most URLs that are remembered; one more replaces the oldest.
const MAX_URLS: usize = 256;

/// Returns the configuration of a client for the server at `url`, with its era if that is known and was not set.
pub(super) fn recall(url: &str, config: Config) -> Config {
    if !config.effective_versions().is_dual_era() || config.stored_era().is_some() {
        return config;
    }
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let era = found.iter().find(|(known, _)| known == url).map(|(_, era)| *era);
    config.known_era(era)
}

/// Records the era that a client found; `None` if the server has contradicted it.
pub(super) fn record(url: &str, config: &Config, era: Option<KnownEra>) {
    // A client of one era finds nothing out.
    if !config.effective_versions().is_dual_era() {
        return;
    }
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(era) = era.filter(|era| era.saves_probe()) else {
        return found.retain(|(known, _)| known != url);
    };
    // A client that was told the era has not looked.
    if config.stored_era().is_none() {
        found.retain(|(known, _)| known != url);
        if found.len() == MAX_URLS {
            found.remove(0);
        }
        found.push((url.into(), era));
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use mcp_proto::VersionSet;

    use super::*;

    // covers: VER-022, VER-042
    #[test]
    fn era_is_remembered_by_url_until_it_is_contradicted() {
        let config = || Config::new("test", "1");
        let known = |url: &str| recall(url, config()).stored_era();
        let url = "http://eras.test/mcp";
        assert_eq!(known(url), None);
        record(url, &config().versions(VersionSet::LEGACY), Some(KnownEra::Legacy));
        assert_eq!(known(url), None, "a legacy client has not looked");
        record(url, &config(), Some(KnownEra::Legacy));
        assert_eq!((known(url), known("http://eras.test/other")), (Some(KnownEra::Legacy), None));
        record("http://eras.test/told", &config().known_era(KnownEra::Legacy), Some(KnownEra::Legacy));
        assert_eq!(known("http://eras.test/told"), None, "a client that was told has not looked");
        let set = config().known_era(KnownEra::Modern);
        assert_eq!(recall(url, set).stored_era(), Some(KnownEra::Modern), "what was set counts");
        assert_eq!(recall(url, config().versions(VersionSet::MODERN)).stored_era(), None);
        record(url, &config(), None);
        assert_eq!(known(url), None);
        for n in 0..=MAX_URLS {
            record(&format!("http://eras.test/{n}"), &config(), Some(KnownEra::Legacy));
        }
        assert_eq!(
            (known("http://eras.test/0"), known("http://eras.test/1")),
            (None, Some(KnownEra::Legacy))
        );
    }
}
