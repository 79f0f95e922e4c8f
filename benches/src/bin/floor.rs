//! The floor as a server process on stdin and stdout.

use std::io;

/// Past the buffers and locks of `std::io`, which the floor does not need
#[cfg(unix)]
fn main() -> io::Result<()> {
    use std::fs::File;
    use std::os::fd::AsFd;

    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    mcp_benches::floor::serve(input, output)
}

#[cfg(not(unix))]
fn main() -> io::Result<()> {
    mcp_benches::floor::serve(io::stdin().lock(), io::stdout().lock())
}
