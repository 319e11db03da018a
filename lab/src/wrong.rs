//! Two kinds of failure, because scripts must tell them apart: the question was wrong (`Wrong`: exit code 2), or the answer could
//! not be had (any other error: exit code 3).

use std::fmt;

/// The request cannot be right, on any machine: says where, what, and what to do.
#[derive(Debug)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// `return Err(wrong(..))` from anything that gives an `anyhow::Result`.
pub fn wrong(what: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Wrong(what.into()))
}
