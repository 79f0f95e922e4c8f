//! Requests that the engine answers by itself: `initialize`, `server/discover`, `ping`; those about news and logs.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::Session;
use super::engine::Engine;
use super::receive::Source;
use crate::json::{object_members, string, write_str};
use crate::raw::RawJson;
use crate::rpc::envelope::Params;
use crate::rpc::{RequestId, RpcError, code, encode};
use crate::version::Version;
use crate::vocab;

impl Engine {
    pub(super) fn answer_myself(
        &mut self,
        source: Source<'_>,
        frame: &Bytes,
        id: &RequestId,
        method: &str,
        params: &Params,
    ) {
        let (channel, home) = (source.channel, source.home);
        let text = params.whole.of(frame).unwrap_or(b"{}");
        let mut body = Vec::new();
        let outcome = match method {
            vocab::INITIALIZE => {
                self.initialize(source, text).map(|version| self.write_initialized(&mut body, version))
            }
            vocab::DISCOVER => {
                self.write_discovery(&mut body);
                Ok(())
            }
            vocab::SUBSCRIBE => match self.listen(channel, id, text) {
                // Answered when it ends.
                Ok(()) => return,
                Err(error) => Err(error),
            },
            vocab::RESOURCES_SUBSCRIBE | vocab::RESOURCES_UNSUBSCRIBE
                if self.session(home).is_some_and(|s| s.passing) =>
            {
                // Nothing would be left of it, nor anybody to tell.
                Err(RpcError::new(code::METHOD_NOT_FOUND, format!("`{method}` needs a session")))
            }
            vocab::RESOURCES_SUBSCRIBE => self.follow(home, text, true),
            vocab::RESOURCES_UNSUBSCRIBE => self.follow(home, text, false),
            vocab::SET_LEVEL => self.set_level(home, text),
            _ => Ok(()), // PING-002
        };
        if let Err(error) = outcome {
            return self.link.send_error(channel, source.batch, Some(id), &error);
        }
        if body.is_empty() {
            body.extend_from_slice(b"{}");
        }
        let write = |out: &mut Vec<u8>| {
            encode::result_head(out, id);
            out.extend_from_slice(&body);
            encode::end(out);
        };
        self.link.send_or_gather(source.channel, source.batch, Some(id), write);
    }

    /// Opens a session (LIFE-002, VER-003, VER-004, VER-005)
    fn initialize(&mut self, source: Source<'_>, params: &[u8]) -> Result<Version, RpcError> {
        let (mut asked, mut capabilities, mut info) = (None, None, None);
        object_members(params, |name, value| match name {
            b"protocolVersion" => asked = Some(value),
            b"capabilities" => capabilities = Some(value),
            b"clientInfo" => info = Some(value),
            _ => {}
        });
        let wrong = |name, what| RpcError::invalid_params(format!("`initialize`: `{name}` is {what}"));
        for (name, value) in [("capabilities", capabilities), ("clientInfo", info)] {
            match value {
                Some([b'{', ..]) => {}
                Some(_) => return Err(wrong(name, "not an object")),
                None => return Err(wrong(name, "missing")),
            }
        }
        let (capabilities, info) = (capabilities.unwrap_or_default(), info.unwrap_or_default());
        let asked = asked.ok_or_else(|| wrong("protocolVersion", "missing"))?;
        let asked = string(asked).ok_or_else(|| wrong("protocolVersion", "not a string"))?;
        let limit = self.link.limits.max_peer_info;
        if capabilities.len() + info.len() > limit {
            let what = "`initialize`: identity and capabilities are longer than";
            return Err(RpcError::invalid_params(format!("{what} {limit} bytes")));
        }
        let served = self.config.legacy();
        // An unknown or modern revision gets the newest legacy one offered; the client decides (VER-005).
        let version = Version::from_name(&asked)
            .filter(|v| served.contains(*v))
            .or_else(|| served.newest())
            .unwrap_or(Version::V2024_11_05);
        if let Some(c) = self.link.channels.get_mut(source.home) {
            c.idless |= version >= Version::V2025_11_25; // DEC-004
            c.extra.session = Some(Box::new(Session::new(version, info, capabilities)));
        }
        Ok(version)
    }

    fn write_initialized(&self, out: &mut Vec<u8>, version: Version) {
        out.extend_from_slice(b"{\"protocolVersion\":");
        write_str(out, version.as_str());
        out.extend_from_slice(b",\"capabilities\":");
        self.config.capabilities.write(out, version);
        out.extend_from_slice(b",\"serverInfo\":");
        self.config.info.write(out, version);
        self.write_instructions(out);
        out.push(b'}');
    }

    /// VER-013; the answer is the same for everybody, and may be kept for as long as the process lives
    fn write_discovery(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"supportedVersions\":");
        self.config.listed().write(out);
        out.extend_from_slice(b",\"capabilities\":");
        self.config.capabilities.write(out, Version::V2026_07_28);
        self.write_instructions(out);
        out.extend_from_slice(b",\"ttlMs\":3600000,\"cacheScope\":\"public\",");
        out.extend_from_slice(&self.config.stamp);
        out.push(b'}');
    }

    fn write_instructions(&self, out: &mut Vec<u8>) {
        if let Some(text) = &self.config.instructions {
            out.extend_from_slice(b",\"instructions\":");
            write_str(out, text);
        }
    }

    /// -32022, which names the revisions that are served (ERR-008, VER-009)
    pub(super) fn unsupported(&self, requested: &str) -> RpcError {
        let served = self.config.listed();
        let mut data = b"{\"supported\":".to_vec();
        served.write(&mut data);
        data.extend_from_slice(b",\"requested\":");
        write_str(&mut data, requested);
        data.push(b'}');
        RpcError::new(
            code::UNSUPPORTED_PROTOCOL_VERSION,
            format!("unsupported protocol version; supported: {served}"),
        )
        .with_data(RawJson::trusted(data.into()))
    }
}
