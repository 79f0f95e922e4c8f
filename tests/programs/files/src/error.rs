//! Errors of the server. Their texts are for the model that called a tool.

use std::io;

use mcp_threads::RpcError;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("`{0}` is not an absolute path")]
    NotAbsolute(String),
    #[error("`{0}` contains `..`")]
    ParentSegment(String),
    #[error("`{path}` is outside of the folders: {folders}")]
    Outside { path: String, folders: String },
    #[error("`{0}` leads out of the folders by a symbolic link")]
    LinkOutside(String),
    #[error("there is no `{0}`; `list` shows what is there")]
    NotFound(String),
    #[error("`{path}` is a {kind}, not a {expected}")]
    WrongKind { path: String, kind: &'static str, expected: &'static str },
    #[error("`{path}` has {size} bytes, more than {limit}; the tool `read` reads parts")]
    TooLarge { path: String, size: u64, limit: u64 },
    #[error("the text has {size} bytes, more than {limit}")]
    TextTooLarge { size: usize, limit: u64 },
    #[error("`{0}` is not UTF-8 text; read it as a resource")]
    NotText(String),
    #[error("byte {offset} of `{path}` is inside of a character")]
    InsideCharacter { path: String, offset: u64 },
    #[error("byte {offset} is beyond the end of `{path}`, which has {size} bytes")]
    BeyondEnd { path: String, offset: u64, size: u64 },
    #[error("the text to search for is empty")]
    NothingToSearch,
    #[error("`{path}`: {error}")]
    Io { path: String, error: io::Error },
    /// The call has ended, or input was requested; nothing is sent.
    #[error(transparent)]
    Call(#[from] RpcError),
}

impl FileError {
    /// Describes an error of the file system.
    pub fn io(path: &str, error: io::Error) -> Self {
        let path = path.to_owned();
        if error.kind() == io::ErrorKind::NotFound { Self::NotFound(path) } else { Self::Io { path, error } }
    }
}

/// The answer to a request that is no tool call.
impl From<FileError> for RpcError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Call(error) => error,
            error => Self::invalid_params(error.to_string()),
        }
    }
}
