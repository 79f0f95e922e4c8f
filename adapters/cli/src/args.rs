//! Options that several commands share, and the values that they take. They know no command.

pub(crate) mod authorization;
mod endpoint;
mod server;
mod target;
pub(crate) mod values;

pub(crate) use authorization::AuthorizationArgs;
pub(crate) use endpoint::{ProtectionArgs, ProxyArgs, ServeHttpArgs};
pub(crate) use server::{ServerArgs, ServerPlaceArgs, connection, is_url, socket, url};
pub(crate) use target::{
    ALLOWED_PING_MISSES, ConnectionArgs, DraftArgs, EraChoice, RequestArgs, RevisionArgs, Runtime,
    StderrChoice, TargetArgs,
};
pub(crate) use values::{duration, json_object};

/// Concatenates the usage lines of a command, one for each form of a server.
macro_rules! usage {
    ($head:literal) => {
        concat!(
            $head,
            " <SERVER>\n       <SERVER>: <URL>\n                 ",
            "tcp://<HOST>:<PORT> | unix:<PATH> | --serial <DEVICE[:BAUD]>\n                 ",
            "@<NAME>\n                 ",
            "-- <CMD>...\n                 ",
            "--config <FILE> --server <NAME>"
        )
    };
}
pub(crate) use usage;

/// Concatenates the usage lines of a command on servers over HTTP.
macro_rules! remote_usage {
    ($head:literal) => {
        concat!($head, " <URL>\n       ", $head, " --config <FILE> --server <NAME>")
    };
}
pub(crate) use remote_usage;
