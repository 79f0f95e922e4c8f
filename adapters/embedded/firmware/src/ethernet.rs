//! What both network cards share: frames without a checksum, and how `smoltcp` meets them.

use smoltcp::phy::{self, DeviceCapabilities, Medium};

/// Largest frame, without its checksum.
pub const FRAME_BYTES: usize = 1_514;

/// Returns the capabilities of a card that has one frame at a time.
pub fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = FRAME_BYTES;
    capabilities.max_burst_size = Some(1);
    capabilities
}

/// A frame that was received.
pub struct Received<'a>(pub &'a [u8]);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}
