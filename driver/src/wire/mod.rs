//! The part of the MySQL client protocol that a load needs: connect and authenticate, plain queries, prepared statements
//! with binary rows, errors. No TLS, no compression, no LOCAL INFILE.
//!
//! Top to bottom: `connection` -> `handshake`, `packet`.

mod connection;
mod handshake;
mod packet;

pub use connection::{Answer, Connection, Statement};

use std::fmt;
use std::path::PathBuf;

/// Where the server is and who asks.
#[derive(Clone, Debug)]
pub struct Server {
    pub place: Place,
    pub user: String,
    pub password: String,
    pub database: String,
}

#[derive(Clone, Debug)]
pub enum Place {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => write!(f, "{}", path.display()),
            Place::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Error {
    /// The server answered with an error; the connection still stands.
    Server { code: u16, message: String },
    /// The connection is of no use any more, or never came to be.
    Lost(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server { code, message } => write!(f, "{code}: {message}"),
            Error::Lost(what) => f.write_str(what),
        }
    }
}

/// One figure or text of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Float(f64),
    /// A text, a decimal, or any column of an answer to a plain query.
    Text(Vec<u8>),
    /// A date or a time, of which no more is told.
    Time,
}

impl Value {
    /// The number, whether it came as such or as text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

/// A value for a placeholder.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    Int(i32),
    Text(&'a str),
    Null,
}
