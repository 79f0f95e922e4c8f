//! Event streams (WHATWG): a reader that takes any cut, and a writer that cannot be broken out of.
