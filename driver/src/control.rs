//! A connection of the program's own, beside the clients': to make tables, to ask what they hold, to check them.

use crate::Failure;
use crate::reactor;
use crate::wire::{Connection, Error, Server, Value};

/// Connects, does it, hangs up.
pub fn ask<T>(server: &Server, work: impl AsyncFnOnce(&mut Connection) -> Result<T, Error>) -> Result<T, Failure> {
    connected(server, Some(&server.database), work)
}

/// Makes the database where it is not there yet.
pub fn make_database(server: &Server) -> Result<(), Failure> {
    let sql = format!("CREATE DATABASE IF NOT EXISTS `{}`", server.database.replace('`', "``"));
    connected(server, None, async |connection| connection.run(&sql).await.map(drop))
}

fn connected<T>(
    server: &Server,
    database: Option<&str>,
    work: impl AsyncFnOnce(&mut Connection) -> Result<T, Error>,
) -> Result<T, Failure> {
    let answer = reactor::alone(async |core| {
        let mut connection = Connection::open(core, server, database).await?;
        let answer = work(&mut connection).await?;
        connection.quit();
        Ok::<T, Error>(answer)
    });
    answer.map_err(|e| Failure::Run(format!("cannot wait for a socket: {e}")))?.map_err(|e| explain(&e))
}

/// The error with what to do about it, where that is known.
pub fn explain(error: &Error) -> Failure {
    let next = match error {
        Error::Server { code: 1049, .. } => "; make it first: evenkeel-driver prepare",
        Error::Server { code: 1146, .. } => "; prepare the test's tables first: evenkeel-driver prepare",
        Error::Server { code: 1045 | 1698, .. } => "; say --user and --password",
        Error::Server { code: 1040, .. } => "; raise it: SET GLOBAL max_connections = ...",
        Error::Server { code: 1461, .. } => "; raise it: SET GLOBAL max_prepared_stmt_count = ...",
        _ => "",
    };
    Failure::Run(format!("{error}{next}"))
}

/// The first row of an answer, as texts; empty where it is NULL or there is none.
pub async fn texts(connection: &mut Connection, sql: &str) -> Result<Vec<String>, Error> {
    let answer = connection.rows(sql).await?;
    let row = answer.first().unwrap_or_default();
    Ok(row.iter().map(|value| value.text().unwrap_or_default().to_string()).collect())
}

/// The numbers of all rows; what is no number is 0.
pub async fn numbers<const N: usize>(connection: &mut Connection, sql: &str) -> Result<Vec<[i64; N]>, Error> {
    let answer = connection.rows(sql).await?;
    Ok(answer.iter().map(|row| std::array::from_fn(|at| row.get(at).and_then(Value::int).unwrap_or(0))).collect())
}
