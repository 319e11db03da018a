//! One connection: a request goes out in one write, its answer is read as it comes. Nothing is sent before the answer before
//! is whole. Rows that nobody wants are counted and passed over where they lie in the buffer.

use super::handshake::{self, can};
use super::packet::{self, Column, Reader, broken};
use super::{Error, Param, Place, Server, Value};
use crate::reactor::Core;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A buffer starts so small and grows while answers fill it: 4,096 clients of short answers need little.
const BUFFER: usize = 1024;
/// It grows beyond this only for a packet that is larger.
const LARGE: usize = 16 * 1024;
/// How long a server may refuse because too many come at once.
const CONNECT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(4);

mod command {
    pub const QUIT: u8 = 0x01;
    pub const QUERY: u8 = 0x03;
    pub const PREPARE: u8 = 0x16;
    pub const EXECUTE: u8 = 0x17;
}

const MORE_RESULTS: u16 = 0x0008;

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }

    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
        }
    }

    fn await_room(&mut self, core: &Core, room: bool) -> io::Result<()> {
        fn ask(core: &Core, source: &mut impl Source, room: bool) -> io::Result<()> {
            core.await_room(source, room)
        }
        match self {
            Stream::Unix(stream) => ask(core, stream, room),
            Stream::Tcp(stream) => ask(core, stream, room),
        }
    }
}

/// A prepared statement of one connection.
#[derive(Debug, Default)]
pub struct Statement {
    id: u32,
    columns: Vec<Column>,
    /// Kinds that the server was told of its placeholders.
    announced: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Answer {
    /// Rows that were changed.
    pub affected: u64,
    pub rows: u64,
    pub columns: usize,
    /// All rows one after the other.
    pub values: Vec<Value>,
}

impl Answer {
    pub fn iter(&self) -> impl Iterator<Item = &[Value]> {
        self.values.chunks_exact(self.columns.max(1))
    }

    pub fn first(&self) -> Option<&[Value]> {
        self.iter().next()
    }
}

pub struct Connection {
    core: Rc<Core>,
    place: Rc<str>,
    stream: Stream,
    input: Vec<u8>,
    /// What was read and not yet looked at.
    unread: Range<usize>,
    /// Nothing more will come before the reactor says so.
    drained: bool,
    output: Vec<u8>,
    sequence: u8,
    able: u32,
    cached_columns: bool,
    counts: Counts,
}

/// Since they were last taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub statements: u64,
    pub rows: u64,
}

/// What becomes of rows.
enum Rows<'a> {
    Skip,
    Binary(&'a mut Vec<Value>),
    Text(&'a mut Vec<Value>),
}

impl Connection {
    /// Connects and authenticates; must be called by the client that will use it.
    pub async fn open(core: Rc<Core>, server: &Server, database: Option<&str>) -> Result<Connection, Error> {
        let place = server.place.to_string();
        let failed = |e: io::Error| Error::Lost(format!("cannot connect to {place}: {e}"));
        let end = Instant::now() + CONNECT;
        let stream = match &server.place {
            Place::Socket(path) => loop {
                match UnixStream::connect(path) {
                    Ok(mut stream) => {
                        core.register(&mut stream).map_err(failed)?;
                        break Stream::Unix(stream);
                    }
                    // The server's queue of new connections is full.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => core.sleep(AGAIN).await,
                    Err(e) => return Err(failed(e)),
                }
            },
            Place::Tcp(host, port) => {
                let mut found = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
                let address = found.next().ok_or_else(|| failed(io::Error::other("no address")))?;
                let mut stream = TcpStream::connect(address).map_err(failed)?;
                core.register(&mut stream).map_err(failed)?;
                Stream::Tcp(stream)
            }
        };
        let mut connection = Connection {
            core,
            place: place.into(),
            stream,
            input: vec![0; BUFFER],
            unread: 0..0,
            drained: true,
            output: Vec::with_capacity(256),
            sequence: 0,
            able: 0,
            cached_columns: false,
            counts: Counts::default(),
        };
        connection.log_in(server, database).await?;
        Ok(connection)
    }

    async fn log_in(&mut self, server: &Server, database: Option<&str>) -> Result<(), Error> {
        let range = self.packet().await?;
        if self.input[range.start] == 0xff {
            return Err(server_error(&self.input[range]));
        }
        if let Stream::Tcp(stream) = &self.stream {
            stream.set_nodelay(true).map_err(|e| self.lost(&e))?;
        }
        let greeting = handshake::greeting(&self.input[range])?;
        let (able, mariadb) = handshake::wanted(&greeting);
        self.able = able;
        self.cached_columns = mariadb & can::CACHE_METADATA != 0;
        let answer = handshake::answer(server, &greeting, database)?;
        self.reply(&answer).await?;
        loop {
            let range = self.packet().await?;
            let packet = &self.input[range];
            match packet.first() {
                Some(0x00) => return Ok(()),
                Some(0xff) => return Err(server_error(packet)),
                Some(0xfe) => {
                    let answer = handshake::switched(packet, &server.password)?;
                    self.reply(&answer).await?;
                }
                // caching_sha2_password found what it had kept, or an empty password; the end follows.
                Some(0x01) if packet.get(1) == Some(&3) => {}
                _ => return Err(broken("what it asks of a new connection")),
            }
        }
    }

    /// Runs a statement whose rows, if any, are not wanted.
    pub async fn run(&mut self, sql: &str) -> Result<Answer, Error> {
        self.ask(command::QUERY, |out| out.extend_from_slice(sql.as_bytes())).await?;
        self.answer(Rows::Skip, None).await
    }

    /// Runs a statement and keeps its rows; numbers come as texts.
    pub async fn rows(&mut self, sql: &str) -> Result<Answer, Error> {
        self.ask(command::QUERY, |out| out.extend_from_slice(sql.as_bytes())).await?;
        let mut values = Vec::new();
        let answer = self.answer(Rows::Text(&mut values), None).await?;
        Ok(Answer { values, ..answer })
    }

    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.ask(command::PREPARE, |out| out.extend_from_slice(sql.as_bytes())).await?;
        let range = self.packet().await?;
        let packet = &self.input[range];
        if packet.first() == Some(&0xff) {
            return Err(server_error(packet));
        }
        let mut reader = Reader::new(packet);
        reader.u8()?;
        let id = reader.u32()?;
        let (columns, params) = (reader.u16()?.into(), usize::from(reader.u16()?));
        if params > 0 {
            self.columns(params, &mut Vec::new()).await?;
        }
        let mut statement = Statement { id, columns: Vec::new(), announced: Vec::new() };
        if columns > 0 {
            self.columns(columns, &mut statement.columns).await?;
        }
        Ok(statement)
    }

    /// Executes; the rows are counted and not kept.
    pub async fn execute(&mut self, statement: &mut Statement, params: &[Param<'_>]) -> Result<Answer, Error> {
        self.ask_to_execute(statement, params).await?;
        self.answer(Rows::Skip, Some(&mut statement.columns)).await
    }

    /// Executes and keeps the rows.
    pub async fn fetch(&mut self, statement: &mut Statement, params: &[Param<'_>]) -> Result<Answer, Error> {
        self.ask_to_execute(statement, params).await?;
        let mut values = Vec::new();
        let answer = self.answer(Rows::Binary(&mut values), Some(&mut statement.columns)).await?;
        Ok(Answer { values, ..answer })
    }

    async fn ask_to_execute(&mut self, statement: &mut Statement, params: &[Param<'_>]) -> Result<(), Error> {
        self.ask(command::EXECUTE, |out| {
            out.extend_from_slice(&statement.id.to_le_bytes());
            // No cursor, one execution.
            out.extend_from_slice(&[0, 1, 0, 0, 0]);
            if !params.is_empty() {
                let same = statement.announced.len() == params.len()
                    && statement.announced.iter().zip(params).all(|(kind, param)| *kind == packet::kind_of(param));
                if !same {
                    statement.announced.clear();
                    statement.announced.extend(params.iter().map(packet::kind_of));
                }
                packet::put_params(out, params, !same);
            }
        })
        .await
    }

    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Says goodbye, if the socket takes it at once.
    pub fn quit(mut self) {
        let _ = self.stream.write(&[1, 0, 0, 0, command::QUIT]);
    }

    async fn ask(&mut self, command: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.counts.statements += 1;
        self.output.clear();
        self.output.extend_from_slice(&[0, 0, 0, 0, command]);
        fill(&mut self.output);
        self.send(0).await
    }

    async fn reply(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.output.clear();
        self.output.extend_from_slice(&[0; 4]);
        self.output.extend_from_slice(payload);
        self.send(self.sequence).await
    }

    async fn send(&mut self, sequence: u8) -> Result<(), Error> {
        let length = self.output.len() - 4;
        if length >= 0xff_ffff {
            return Err(Error::Lost(format!("a statement of {length} bytes is too long")));
        }
        self.output[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        self.output[3] = sequence;
        self.unread = 0..0;
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(0) => return Err(self.lost(&io::ErrorKind::WriteZero.into())),
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                    self.wait_for_room().await?;
                }
                Err(e) => return Err(self.lost(&e)),
            }
        }
        if self.output.capacity() > LARGE {
            self.output = Vec::with_capacity(256);
        }
        self.drained = true;
        Ok(())
    }

    async fn wait_for_room(&mut self) -> Result<(), Error> {
        self.stream.await_room(&self.core, true).map_err(|e| self.lost(&e))?;
        once().await;
        self.stream.await_room(&self.core, false).map_err(|e| self.lost(&e))
    }

    /// The whole answer to a command. Columns that are told replace those known.
    async fn answer(&mut self, mut rows: Rows<'_>, mut known: Option<&mut Vec<Column>>) -> Result<Answer, Error> {
        let mut answer = Answer::default();
        let mut own = Vec::new();
        loop {
            let range = self.packet().await?;
            let packet = &self.input[range];
            let more = match packet.first() {
                Some(0x00) => {
                    let mut reader = Reader::new(&packet[1..]);
                    answer.affected += reader.number()?;
                    reader.number()?;
                    reader.u16()? & MORE_RESULTS != 0
                }
                Some(0xff) => return Err(server_error(packet)),
                Some(0xfb) => return Err(broken("it asks for a local file")),
                Some(_) => {
                    let mut reader = Reader::new(packet);
                    let columns = reader.number()? as usize;
                    let told = !self.cached_columns || reader.is_empty() || reader.u8()? != 0;
                    let known = known.as_deref_mut().unwrap_or(&mut own);
                    if told {
                        known.clear();
                        self.columns(columns, known).await?;
                    } else if self.able & can::DEPRECATE_EOF == 0 {
                        self.packet().await?;
                    }
                    answer.columns = columns;
                    self.row_set(&mut rows, columns, known, &mut answer.rows).await?
                }
                None => return Err(broken("an empty packet")),
            };
            if !more {
                self.counts.rows += answer.rows;
                return Ok(answer);
            }
        }
    }

    /// Rows up to the packet that ends them; whether another result follows.
    async fn row_set(
        &mut self,
        rows: &mut Rows<'_>,
        columns: usize,
        known: &[Column],
        count: &mut u64,
    ) -> Result<bool, Error> {
        loop {
            let range = self.packet().await?;
            let packet = &self.input[range];
            match packet.first() {
                Some(0xfe) if packet.len() < 0xff_ffff => {
                    let mut reader = Reader::new(&packet[1..]);
                    if self.able & can::DEPRECATE_EOF == 0 {
                        reader.u16()?;
                    } else {
                        reader.number()?;
                        reader.number()?;
                    }
                    return Ok(reader.u16()? & MORE_RESULTS != 0);
                }
                Some(0xff) => return Err(server_error(packet)),
                _ => *count += 1,
            }
            match rows {
                Rows::Skip => {}
                Rows::Binary(into) => packet::binary_row(packet, known, into)?,
                Rows::Text(into) => packet::text_row(packet, columns, into)?,
            }
        }
    }

    async fn columns(&mut self, count: usize, into: &mut Vec<Column>) -> Result<(), Error> {
        for _ in 0..count {
            let range = self.packet().await?;
            into.push(packet::column(&self.input[range])?);
        }
        if self.able & can::DEPRECATE_EOF == 0 {
            self.packet().await?;
        }
        Ok(())
    }

    /// Where the next packet's payload lies in the buffer, until the next is asked for.
    async fn packet(&mut self) -> Result<Range<usize>, Error> {
        loop {
            let ready = &self.input[self.unread.clone()];
            if let [a, b, c, sequence, payload @ ..] = ready {
                let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
                if length == 0xff_ffff {
                    return Err(broken("a packet of 16 MiB"));
                }
                if payload.len() >= length {
                    self.sequence = sequence.wrapping_add(1);
                    let start = self.unread.start + 4;
                    self.unread.start = start + length;
                    return Ok(start..start + length);
                }
                self.make_room(4 + length);
            } else {
                self.make_room(4);
            }
            self.fill().await?;
        }
    }

    /// Moves what is unread to the front, and grows the buffer if a packet so long would not fit.
    fn make_room(&mut self, packet: usize) {
        if self.unread.start > 0 {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let full = self.unread.end == self.input.len();
        let wanted = if full { (self.input.len() * 2).min(LARGE) } else { 0 }.max(packet);
        if self.input.len() < wanted {
            self.input.resize(wanted, 0);
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.drained) {
            once().await;
        }
        let read = poll_fn(|_| {
            loop {
                match self.stream.read(&mut self.input[self.unread.end..]) {
                    Ok(read) => return Poll::Ready(Ok(read)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                        return Poll::Pending;
                    }
                    Err(e) => return Poll::Ready(Err(e)),
                }
            }
        });
        match read.await {
            Ok(0) => Err(self.lost(&io::Error::other("the server closed it"))),
            Ok(read) => {
                self.unread.end += read;
                self.drained = self.unread.end < self.input.len();
                if !self.drained && self.input.len() < LARGE {
                    let larger = (self.input.len() * 2).min(LARGE);
                    self.input.resize(larger, 0);
                }
                Ok(())
            }
            Err(e) => Err(self.lost(&e)),
        }
    }

    fn lost(&self, why: &io::Error) -> Error {
        Error::Lost(format!("the connection to {} was lost: {why}", self.place))
    }
}

/// Waits until the reactor polls the client again.
async fn once() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn server_error(packet: &[u8]) -> Error {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = packet.get(3..).unwrap_or_default();
    // Errors of a connection that is not made yet come without a state.
    let message = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
    Error::Server { code, message: String::from_utf8_lossy(message).into_owned() }
}
