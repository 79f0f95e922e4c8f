//! Configurations and options: structures that begin with their size.

use core::time::Duration;

use mcp_proto::client::{self, KnownEra};
use mcp_proto::draft::Draft;
use mcp_proto::{Anchor, CallOptions, Capabilities, Entropy, Instant, Limits, Version, VersionSet, server};

use crate::slice::{Extensible, input_bytes, mcp_slice, read_sized};
use crate::status::{Failure, mcp_status};

/// `mcp_config.flags`: tools may run as tasks. A server needs `entropy`.
pub const MCP_TASKS: u32 = 1;
/// `mcp_config.flags`: limits for little memory: messages up to 8 KiB, 8 calls at once, 64 faulty messages in a row.
pub const MCP_SMALL_LIMITS: u32 = 2;
/// `mcp_config.flags`: requests with any method that the protocol does not define are accepted.
pub const MCP_ANY_METHOD: u32 = 4;
/// `mcp_config.flags`, client: the server is known to require `initialize`.
pub const MCP_KNOWN_LEGACY: u32 = 8;
/// `mcp_config.flags`, client: the server is known to answer `server/discover`.
pub const MCP_KNOWN_MODERN: u32 = 16;

/// `mcp_config.flags`: drafts of the specification are followed where they differ from the releases.
pub const MCP_DRAFT: u32 = 32;
/// `mcp_config.flags`: in sessions up to 2025-06-18 a message whose id cannot be read is answered, too, by an error with the id `null`.
pub const MCP_NULL_IDS: u32 = 64;

/// The configuration of a client or a server. Set `size`, `name` and `version`; all else may be 0.
///
/// It is copied: nothing of it is used after the function that takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcp_config {
    /// `sizeof(mcp_config)`.
    pub size: usize,
    /// Name of the program.
    pub name: mcp_slice,
    /// Version of the program.
    pub version: mcp_slice,
    /// JSON object of capabilities, as the specification has it: `{"tools":{}}`. Others are refused unseen.
    pub capabilities: mcp_slice,
    /// Server: instructions for a model.
    pub instructions: mcp_slice,
    /// Names of the revisions to use, separated by spaces; empty for all: `2025-11-25 2026-07-28`.
    pub revisions: mcp_slice,
    /// 32 bytes of a cryptographic source, or null. Server: keys of sealed state and ids of tasks are derived from them.
    ///
    /// Without them, what needs them is refused (`MCP_ERROR_NO_ENTROPY`). 32 equal bytes are refused.
    pub entropy: *const u8,
    /// A number that differs between handles with the same `entropy`.
    pub nonce: u64,
    /// Unix time in seconds at the `now` of the same function. Server: sealed state and tasks expire by it.
    pub unix_time: u64,
    /// Longest message that is received, in bytes; 0 for the default, 16 MiB (8 KiB with `MCP_SMALL_LIMITS`).
    pub max_message: usize,
    /// Time of silence after which a peer of the legacy era is pinged, in microseconds; 0 for never.
    pub ping_interval: u64,
    /// Number of pings that may remain without an answer before the connection ends.
    pub ping_misses: u32,
    /// `MCP_TASKS`, `MCP_SMALL_LIMITS`, `MCP_ANY_METHOD`, `MCP_KNOWN_LEGACY`, `MCP_KNOWN_MODERN`, `MCP_DRAFT`,
    /// `MCP_NULL_IDS`.
    pub flags: u32,
}

// SAFETY: `repr(C)`, begins with its size, and has only numbers, pointers and slices.
unsafe impl Extensible for mcp_config {}

/// `mcp_call_options.flags`: the server is asked for progress.
pub const MCP_CALL_WANTS_PROGRESS: u32 = 1;
/// `mcp_call_options.flags`: `mcp_client_call_tool` asks for a task, and follows it (`MCP_TASKS`).
pub const MCP_CALL_AS_TASK: u32 = 2;

/// Options of a call. Set `size`; all else may be 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcp_call_options {
    /// `sizeof(mcp_call_options)`.
    pub size: usize,
    /// Longest time without an answer or progress in microseconds; 0 for the default, 60 s.
    pub timeout: u64,
    /// Longest time in all in microseconds; 0 for the default, 10 minutes.
    pub total_timeout: u64,
    /// JSON object with further members of `_meta`, or empty.
    pub meta: mcp_slice,
    /// `MCP_CALL_WANTS_PROGRESS`, `MCP_CALL_AS_TASK`.
    pub flags: u32,
    /// Not used; 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, begins with its size, and has only numbers and slices.
unsafe impl Extensible for mcp_call_options {}

/// Flags that both roles have.
const COMMON_FLAGS: u32 = MCP_TASKS | MCP_SMALL_LIMITS | MCP_ANY_METHOD | MCP_DRAFT | MCP_NULL_IDS;

fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    if flags & !known == 0 { Ok(()) } else { Err(Failure::argument("an unknown flag")) }
}

/// Reads what a configuration has for both roles.
macro_rules! read_common {
    ($Config:ty, $config:expr) => {{
        let config: &mcp_config = $config;
        // SAFETY: the requirement of the function around it.
        let (name, version, capabilities, revisions) = unsafe {
            let (name, version) = (config.name.text()?, config.version.text()?);
            (name, version, config.capabilities.object()?, config.revisions.text()?)
        };
        if name.is_empty() || version.is_empty() {
            return Err(Failure::argument("`name` or `version` is empty"));
        }
        let has = |flag| config.flags & flag != 0;
        let mut limits = if has(MCP_SMALL_LIMITS) { Limits::small() } else { Limits::default() };
        if config.max_message > 0 {
            limits.max_frame = config.max_message;
        }
        let mut made = <$Config>::new(name, version)
            .capabilities(Capabilities::from_json(&capabilities))
            .versions(read_revisions(revisions)?)
            .draft(if has(MCP_DRAFT) { Draft::ALL } else { Draft::NONE })
            .null_id_errors(has(MCP_NULL_IDS))
            .limits(limits);
        if has(MCP_ANY_METHOD) {
            made = made.any_custom_method();
        }
        if config.ping_interval > 0 {
            made = made.keep_alive_ping(Duration::from_micros(config.ping_interval), config.ping_misses);
        }
        made
    }};
}

impl mcp_config {
    /// Returns the generator of unpredictable bytes, if there is entropy.
    ///
    /// # Safety
    ///
    /// `entropy` is null, or 32 bytes can be read there.
    unsafe fn entropy(&self) -> Result<Option<Entropy>, Failure> {
        if self.entropy.is_null() {
            return Ok(None);
        }
        // SAFETY: the requirement of this function.
        let bytes = unsafe { input_bytes(self.entropy, 32) }?;
        let secret: [u8; 32] = bytes.try_into().map_err(|_| Failure::argument("`entropy` is too short"))?;
        // An entropy buffer that was not filled.
        if secret.iter().all(|byte| *byte == secret[0]) {
            return Err(Failure::argument("the bytes of `entropy` are all equal"));
        }
        Ok(Some(Entropy::new(secret, self.nonce)))
    }
}

fn read_revisions(names: &str) -> Result<VersionSet, Failure> {
    names.split_whitespace().try_fold(VersionSet::NONE, |set, name| {
        let version = Version::from_name(name)
            .ok_or_else(|| Failure::value(format_args!("{name:?} is not a revision that is known here")))?;
        Ok(set.with(version))
    })
}

/// A server, as its configuration has it.
pub(crate) struct ServerSetup {
    pub(crate) config: server::Config,
    pub(crate) tasks: Option<server::TaskTable>,
}

/// Reads the configuration of a server.
///
/// # Safety
///
/// `config` is null, or a configuration whose slices and pointers are null or readable.
pub(crate) unsafe fn read_server(config: *const mcp_config, now: Instant) -> Result<ServerSetup, Failure> {
    // SAFETY: the requirement of this function.
    let config = unsafe { read_sized(config) }?;
    check_flags(config.flags, COMMON_FLAGS)?;
    let mut made = read_common!(server::Config, &config);
    // SAFETY: the requirement of this function.
    let (instructions, entropy) = unsafe { (config.instructions.optional_text()?, config.entropy()?) };
    if let Some(instructions) = instructions {
        made = made.instructions(instructions);
    }
    let anchor = Anchor::new(now, config.unix_time);
    let mut tasks = None;
    match entropy {
        Some(mut entropy) => {
            let mut seed = [0; 32];
            entropy.fill(&mut seed);
            made = made.seal_lazily(|| Some((seed, anchor)));
            if config.flags & MCP_TASKS != 0 {
                tasks = Some(server::TaskTable::new(entropy, anchor));
            }
        }
        None if config.flags & MCP_TASKS != 0 => {
            return Err(Failure::new(mcp_status::MCP_ERROR_NO_ENTROPY, "tasks need `entropy`"));
        }
        None => {}
    }
    Ok(ServerSetup { config: made, tasks })
}

/// Reads the configuration of a client.
///
/// # Safety
///
/// `config` is null, or a configuration whose slices and pointers are null or readable.
pub(crate) unsafe fn read_client(config: *const mcp_config) -> Result<client::Config, Failure> {
    // SAFETY: the requirement of this function.
    let config = unsafe { read_sized(config) }?;
    let eras = MCP_KNOWN_LEGACY | MCP_KNOWN_MODERN;
    check_flags(config.flags, COMMON_FLAGS | eras)?;
    let mut made = read_common!(client::Config, &config);
    match config.flags & eras {
        0 => {}
        MCP_KNOWN_LEGACY => made = made.known_era(KnownEra::Legacy),
        MCP_KNOWN_MODERN => made = made.known_era(KnownEra::Modern),
        _ => return Err(Failure::argument("a server is of one era")),
    }
    if config.flags & MCP_TASKS != 0 {
        made = made.tasks();
    }
    Ok(made)
}

/// Reads the options of a call, and whether it asks for a task. Null means the defaults.
///
/// # Safety
///
/// `options` is null, or options whose slices are null or readable.
pub(crate) unsafe fn read_options(options: *const mcp_call_options) -> Result<(CallOptions, bool), Failure> {
    let mut made = CallOptions::new();
    if options.is_null() {
        return Ok((made, false));
    }
    // SAFETY: the requirement of this function.
    let options = unsafe { read_sized(options) }?;
    check_flags(options.flags, MCP_CALL_WANTS_PROGRESS | MCP_CALL_AS_TASK)?;
    check_flags(options.reserved, 0)?;
    if options.timeout > 0 {
        made = made.timeout(Duration::from_micros(options.timeout));
    }
    if options.total_timeout > 0 {
        made = made.total_timeout(Duration::from_micros(options.total_timeout));
    }
    if options.flags & MCP_CALL_WANTS_PROGRESS != 0 {
        made = made.with_progress();
    }
    if options.meta.len > 0 {
        // SAFETY: the requirement of this function.
        made = made.with_meta(unsafe { options.meta.object() }?);
    }
    Ok((made, options.flags & MCP_CALL_AS_TASK != 0))
}
