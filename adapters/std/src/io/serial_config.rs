//! Settings of serial lines.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

use super::InvalidStreamAddress;

/// Device and speed of a serial line.
///
/// As a text it is `DEVICE` or `DEVICE:BAUD`. A device whose name ends in `:` and digits needs the baud rate behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SerialConfig {
    /// Path of the terminal device, `/dev/ttyUSB0` for example.
    pub device: PathBuf,
    /// Bits per second in both directions.
    pub baud: u32,
}

impl SerialConfig {
    /// Baud rate of lines that name none.
    pub const DEFAULT_BAUD: u32 = 115_200;

    /// Creates the settings of a device with 115,200 baud.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into(), baud: Self::DEFAULT_BAUD }
    }
}

impl FromStr for SerialConfig {
    type Err = InvalidStreamAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (device, baud) = match text.rsplit_once(':').filter(|(_, baud)| is_number(baud)) {
            Some((device, baud)) => (device, baud.parse().unwrap_or(0)),
            None => (text, Self::DEFAULT_BAUD),
        };
        if device.is_empty() || device.contains('\0') {
            return Err(InvalidStreamAddress::new("the device is missing: write DEVICE[:BAUD]"));
        }
        if baud == 0 {
            return Err(InvalidStreamAddress::new(
                "the baud rate is invalid: write DEVICE:115200, for example",
            ));
        }
        Ok(Self { device: device.into(), baud })
    }
}

impl fmt::Display for SerialConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device.display(), self.baud)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baud_rate_is_what_stands_behind_the_last_colon() {
        for (text, device, baud) in [
            ("/dev/ttyS0", "/dev/ttyS0", 115_200),
            ("/dev/ttyS0:9600", "/dev/ttyS0", 9_600),
            (
                "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0",
                "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0",
                115_200,
            ),
            ("/dev/odd:1:300", "/dev/odd:1", 300),
        ] {
            assert_eq!(text.parse(), Ok(SerialConfig { device: device.into(), baud }), "{text}");
        }
    }
}
