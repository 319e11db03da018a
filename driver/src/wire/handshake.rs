//! How a connection begins: the server's greeting, this client's answer, and its password's proof.

use super::packet::{Reader, broken};
use super::{Error, Server};
use sha1::{Digest, Sha1};

/// What both sides can do; the names are the protocol's.
pub mod can {
    /// A server that lacks this bit is MariaDB and tells more in the bytes that others leave empty.
    pub const LONG_PASSWORD: u32 = 1;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    /// MariaDB's own: columns of a prepared statement are told once, as its own client library asks for.
    pub const CACHE_METADATA: u32 = 1 << 4;
}

pub const NATIVE: &str = "mysql_native_password";

pub struct Greeting {
    pub able: u32,
    pub able_mariadb: u32,
    pub scramble: Vec<u8>,
    pub plugin: String,
}

pub fn greeting(packet: &[u8]) -> Result<Greeting, Error> {
    let mut reader = Reader::new(packet);
    let version = reader.u8()?;
    if version != 10 {
        return Err(broken(&format!("protocol {version}, not 10")));
    }
    reader.until_zero();
    reader.bytes(4)?;
    let mut scramble = reader.bytes(8)?.to_vec();
    reader.u8()?;
    let low = reader.u16()?;
    reader.bytes(1 + 2)?;
    let able = u32::from(low) | (u32::from(reader.u16()?) << 16);
    let length = usize::from(reader.u8()?);
    reader.bytes(6)?;
    let more = reader.u32()?;
    let rest = length.saturating_sub(8).max(13);
    scramble.extend_from_slice(reader.bytes(rest)?);
    // It ends with a zero byte that is no part of it.
    scramble.truncate(20);
    let plugin = String::from_utf8_lossy(reader.until_zero()).into_owned();
    let able_mariadb = if able & can::LONG_PASSWORD == 0 { more } else { 0 };
    Ok(Greeting { able, able_mariadb, scramble, plugin })
}

/// What this client wants of what the server can do.
pub fn wanted(greeting: &Greeting) -> (u32, u32) {
    let wish = can::LONG_PASSWORD
        | can::CONNECT_WITH_DB
        | can::PROTOCOL_41
        | can::TRANSACTIONS
        | can::SECURE_CONNECTION
        | can::MULTI_RESULTS
        | can::PS_MULTI_RESULTS
        | can::PLUGIN_AUTH
        | can::DEPRECATE_EOF;
    (wish & greeting.able, can::CACHE_METADATA & greeting.able_mariadb)
}

pub fn answer(server: &Server, greeting: &Greeting, database: Option<&str>) -> Result<Vec<u8>, Error> {
    let (mut able, mariadb) = wanted(greeting);
    if database.is_none() {
        able &= !can::CONNECT_WITH_DB;
    }
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&able.to_le_bytes());
    out.extend_from_slice(&(1u32 << 24).to_le_bytes());
    // utf8mb4_general_ci.
    out.push(45);
    out.resize(out.len() + 19, 0);
    out.extend_from_slice(&mariadb.to_le_bytes());
    out.extend_from_slice(server.user.as_bytes());
    out.push(0);
    // Another plugin than this one is settled by the switch that the server will ask for.
    let proof = if greeting.plugin == NATIVE { native(&server.password, &greeting.scramble) } else { Vec::new() };
    out.push(proof.len() as u8);
    out.extend_from_slice(&proof);
    if let Some(database) = database {
        out.extend_from_slice(database.as_bytes());
        out.push(0);
    }
    out.extend_from_slice(if greeting.plugin == NATIVE { NATIVE.as_bytes() } else { greeting.plugin.as_bytes() });
    out.push(0);
    Ok(out)
}

/// The server wants another plugin.
pub fn switched(packet: &[u8], password: &str) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(packet);
    reader.u8()?;
    let plugin = String::from_utf8_lossy(reader.until_zero()).into_owned();
    let scramble = reader.rest();
    let scramble = &scramble[..scramble.len().min(20)];
    match plugin.as_str() {
        NATIVE => Ok(native(password, scramble)),
        // The server asks the kernel who is at the other end of the socket; no password is an empty answer everywhere.
        _ if plugin.contains("socket") || password.is_empty() => Ok(Vec::new()),
        _ => Err(Error::Lost(format!(
            "the server asks for {plugin}, this driver has {NATIVE}; create its user so: \
             CREATE USER u IDENTIFIED VIA {NATIVE} USING PASSWORD('...')"
        ))),
    }
}

/// SHA1(password) xor SHA1(scramble, SHA1(SHA1(password))).
fn native(password: &str, scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password.as_bytes());
    let twice = Sha1::digest(once);
    let mixed = Sha1::new().chain_update(scramble).chain_update(twice).finalize();
    once.iter().zip(mixed).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_undoes_to_the_stored_hash() {
        assert_eq!(native("", b"12345678901234567890"), [0u8; 0]);
        let scramble = b"12345678901234567890";
        let proof = native("secret", scramble);
        // What a server does: it knows SHA1(SHA1(password)) only.
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let mixed = Sha1::new().chain_update(scramble).chain_update(stored).finalize();
        let once: Vec<u8> = proof.iter().zip(mixed).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
    }

    #[test]
    fn greetings_cut_short_are_errors() {
        let mut packet = vec![10];
        packet.extend(b"5.5.5-10.11\0");
        packet.extend([1, 0, 0, 0]);
        packet.extend(b"abcdefgh\0");
        packet.extend([0xfe, 0xf7, 45, 2, 0, 0xff, 0x81, 21]);
        packet.extend([0; 6]);
        packet.extend([0x1d, 0, 0, 0]);
        packet.extend(b"ijklmnopqrst\0");
        packet.extend(b"mysql_native_password\0");
        let whole = greeting(&packet).unwrap();
        assert_eq!(whole.scramble, b"abcdefghijklmnopqrst");
        assert_eq!((whole.plugin.as_str(), whole.able_mariadb), (NATIVE, 0x1d));
        assert_eq!(wanted(&whole).1, can::CACHE_METADATA);
        for cut in 0..packet.len() - 23 {
            assert!(greeting(&packet[..cut]).is_err(), "{cut}");
        }
        assert!(matches!(switched(b"\xfecaching_sha2_password\0abc", "x"), Err(Error::Lost(_))));
        assert_eq!(switched(b"\xfeunix_socket\0", "x").unwrap(), [0u8; 0]);
    }
}
