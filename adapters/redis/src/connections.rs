//! The connections of a store: kept open between calls, made anew after errors.

use alloc::string::String;
use alloc::vec::Vec;
use std::sync::Mutex;

use mcp_std::sync::lock;

use redis::{Client, Connection, ErrorKind, RedisError, RedisResult, Script};

use crate::{RedisStoreError, Settings};

pub(crate) struct Connections {
    pub(crate) settings: Settings,
    address: String,
    /// Connections that nobody uses, each without an answer under way.
    idle: Mutex<Vec<Connection>>,
    get: Script,
}

impl Connections {
    pub(crate) fn new(settings: Settings) -> Self {
        let address = settings.address();
        Self { settings, address, idle: Mutex::default(), get: Script::new(include_str!("get.lua")) }
    }

    /// Returns the key with a name, or of a kind and a name.
    pub(crate) fn key(&self, name: core::fmt::Arguments<'_>) -> String {
        alloc::format!("{}:{name}", self.settings.prefix)
    }

    /// Opens a connection of which nothing is known.
    pub(crate) fn connect(&self) -> RedisResult<Connection> {
        let client = Client::open(self.settings.server.clone())?;
        let connection = client.get_connection_with_timeout(self.settings.connect_timeout)?;
        connection.set_read_timeout(Some(self.settings.answer_timeout))?;
        connection.set_write_timeout(Some(self.settings.answer_timeout))?;
        Ok(connection)
    }

    /// Runs a command. It is run a second time if the server has closed the connection since the last one.
    pub(crate) fn call<T>(
        &self,
        mut run: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, RedisStoreError> {
        let mut result = None;
        let kept = lock(&self.idle).pop();
        if let Some(mut connection) = kept {
            result = match run(&mut connection) {
                Err(error) if error.is_connection_dropped() => {
                    // The others are as old. Of a server that was started again, all are closed.
                    lock(&self.idle).clear();
                    None
                }
                result => Some((connection, result)),
            };
        }
        let fresh = || {
            let mut connection = self.connect()?;
            let result = run(&mut connection);
            Ok((connection, result))
        };
        let (connection, result) = result.map_or_else(fresh, Ok).map_err(|error| self.error(&error))?;
        // An answer that came in part, or may come later, is not that of the next command.
        let is_whole = match &result {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension),
        };
        if is_whole {
            let mut idle = lock(&self.idle);
            if idle.len() < self.settings.max_idle_connections {
                idle.push(connection);
            }
        }
        result.map_err(|error| self.error(&error))
    }

    /// Reads a value, or a field of a hash, and never more than `max` bytes of it, because another program may have written it: a
    /// longer value is cut, and a longer field is left out.
    pub(crate) fn get(
        &self,
        key: &str,
        field: Option<&[u8]>,
        max: usize,
    ) -> Result<Option<Vec<u8>>, RedisStoreError> {
        let mut call = self.get.key(key);
        call.arg(max).arg(field);
        self.call(|connection| call.invoke(connection))
    }

    pub(crate) fn error(&self, error: &RedisError) -> RedisStoreError {
        RedisStoreError::new(&self.address, error)
    }
}
