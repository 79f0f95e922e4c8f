//! The settings, from the environment.

use std::env;

use anyhow::Context as _;

pub struct Settings {
    /// `LIBRARY_ADDRESS`: address to listen at (default `127.0.0.1:8080`).
    pub address: String,
    /// `LIBRARY_URL`: URL of the endpoint as clients know it, the audience of their tokens (default: by the address).
    pub url: Option<String>,
    /// `LIBRARY_ISSUER`: issuer identifier of the authorization server.
    pub issuer: String,
    /// `LIBRARY_API`: URL of the API of the library, without a slash at the end.
    pub api: String,
    /// `LIBRARY_API_KEY`: key of this server at that API.
    pub api_key: String,
}

impl Settings {
    pub fn from_env() -> anyhow::Result<Self> {
        let required = |name| env::var(name).with_context(|| format!("the environment has no {name}"));
        Ok(Self {
            address: env::var("LIBRARY_ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".into()),
            url: env::var("LIBRARY_URL").ok(),
            issuer: required("LIBRARY_ISSUER")?,
            api: required("LIBRARY_API")?,
            api_key: required("LIBRARY_API_KEY")?,
        })
    }
}
