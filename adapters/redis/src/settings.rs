//! The settings of a store.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionInfo, IntoConnectionInfo as _};

use crate::RedisStoreError;

/// The settings of a [`RedisStore`](crate::RedisStore).
#[derive(Clone)]
pub struct Settings {
    pub(crate) server: ConnectionInfo,
    pub(crate) prefix: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) max_idle_connections: usize,
}

impl Settings {
    /// Creates the settings for a server: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, where all but the host may be missing, or
    /// `unix:///PATH?db=DATABASE&user=USER&pass=PASSWORD`. `rediss://` is TLS, with the feature `tls`. The schemes
    /// `valkey://`, `valkeys://` and `valkey+unix://` are the same.
    ///
    /// # Errors
    ///
    /// [`RedisStoreError`] if the URL names no server. The error does not show the password.
    pub fn new(url: &str) -> Result<Self, RedisStoreError> {
        let server = url.into_connection_info().map_err(|error| RedisStoreError::invalid_url(&error))?;
        #[cfg(feature = "tls")]
        if matches!(server.addr(), redis::ConnectionAddr::TcpTls { .. }) {
            // Without a provider of the process, TLS would panic in a program that has two of them. One that is there stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // Each request is one write, which would wait for the acknowledgement of the one before it.
        let server = server.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let redis = server.redis_settings().clone().set_skip_set_lib_name();
        let server = server.set_redis_settings(redis);
        Ok(Self {
            server,
            prefix: "mcp".into(),
            connect_timeout: Duration::from_secs(2),
            answer_timeout: Duration::from_secs(2),
            max_idle_connections: 8,
        })
    }

    /// Sets the beginning of all keys and of the channel, by default `mcp`. All processes of one server have the same.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time for a new connection, with the answer to its password, by default 2 s. It begins after the address of
    /// the host was looked up, and again with each of its addresses.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time.max(SHORTEST);
        self
    }

    /// Sets the longest time in which nothing of an answer arrives, by default 2 s.
    #[must_use]
    pub fn answer_timeout(mut self, time: Duration) -> Self {
        self.answer_timeout = time.max(SHORTEST);
        self
    }

    /// Sets how many connections are kept open while nobody uses them, by default 8. A call that finds none opens another
    /// one, so there are up to as many as threads that call, and one for each watch.
    #[must_use]
    pub const fn max_idle_connections(mut self, count: usize) -> Self {
        self.max_idle_connections = count;
        self
    }

    /// Returns the address of the server, without the user.
    pub(crate) fn address(&self) -> String {
        self.server.addr().to_string()
    }
}

/// Does not show the user and the password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("server", &self.address())
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .field("max_idle_connections", &self.max_idle_connections)
            .finish_non_exhaustive()
    }
}

/// Systems refuse a timeout of zero.
const SHORTEST: Duration = Duration::from_millis(1);
