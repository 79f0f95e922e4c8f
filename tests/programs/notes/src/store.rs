//! The database.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_blocking::schemars;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Errors of the store. Their texts are for the model that called a tool.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error("there is no note {0}; `search` finds notes")]
    NotFound(i64),
    #[error("a note must have a title")]
    NoTitle,
    #[error("there is a note titled {0:?} already")]
    TitleTaken(String),
    #[error("the database failed")]
    Database(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for NoteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Note {
    pub id: i64,
    pub title: String,
    pub body: String,
}

impl Note {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: row.get(0)?, title: row.get(1)?, body: row.get(2)? })
    }
}

/// The notes of one database file. Several threads may use it, and several processes the file.
pub struct Store(Mutex<Connection>);

/// Schema of the database. Triggers record the ids of changed notes, and keep the last thousand.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS news (seq INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL);
    CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON note BEGIN INSERT INTO news (note) VALUES (new.id); END;
    CREATE TRIGGER IF NOT EXISTS changed AFTER UPDATE ON note BEGIN INSERT INTO news (note) VALUES (new.id); END;
    CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON note BEGIN INSERT INTO news (note) VALUES (old.id); END;
    CREATE TRIGGER IF NOT EXISTS bound AFTER INSERT ON news BEGIN DELETE FROM news WHERE seq <= new.seq - 1000; END;
";

impl Store {
    /// Opens the database, and creates it if the file does not exist.
    pub fn open(path: &Path) -> Result<Self, NoteError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Mutex::new(connection)))
    }

    // A panic leaves no statement half done, so poison says nothing here.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, title: &str, body: &str) -> Result<Note, NoteError> {
        if title.trim().is_empty() {
            return Err(NoteError::NoTitle);
        }
        let connection = self.connection();
        match connection.execute("INSERT INTO note (title, body) VALUES (?1, ?2)", params![title, body]) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                Err(NoteError::TitleTaken(title.to_owned()))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(Note { id: connection.last_insert_rowid(), title: title.into(), body: body.into() }),
        }
    }

    pub fn find(&self, id: i64) -> Result<Option<Note>, NoteError> {
        let connection = self.connection();
        let note =
            connection.query_row("SELECT id, title, body FROM note WHERE id = ?1", [id], Note::from_row);
        Ok(note.optional()?)
    }

    pub fn remove(&self, id: i64) -> Result<(), NoteError> {
        match self.connection().execute("DELETE FROM note WHERE id = ?1", [id])? {
            0 => Err(NoteError::NotFound(id)),
            _ => Ok(()),
        }
    }

    /// Returns the first hundred notes with `text` in title or body.
    pub fn search(&self, text: &str) -> Result<Vec<Note>, NoteError> {
        let connection = self.connection();
        let mut query = connection.prepare_cached(
            "SELECT id, title, body FROM note WHERE instr(title, ?1) OR instr(body, ?1) ORDER BY id LIMIT 100",
        )?;
        let notes = query.query_map([text], Note::from_row)?.collect::<Result<_, _>>()?;
        Ok(notes)
    }

    /// Returns the number of the latest change.
    pub fn latest_change(&self) -> Result<i64, NoteError> {
        Ok(self.connection().query_row("SELECT coalesce(max(seq), 0) FROM news", [], |row| row.get(0))?)
    }

    /// Returns the changes after the one with the number `seq`: their numbers and the ids of their notes.
    pub fn changes_after(&self, seq: i64) -> Result<Vec<(i64, i64)>, NoteError> {
        let connection = self.connection();
        let mut query =
            connection.prepare_cached("SELECT seq, note FROM news WHERE seq > ?1 ORDER BY seq")?;
        let changes =
            query.query_map([seq], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        Ok(changes)
    }
}
