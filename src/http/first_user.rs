//! The secret that makes the first user: in a file of the data folder that only the operator can read.
//!
//! A loopback address alone does not prove that someone is at the machine: a proxy or a tunnel on it sends others on, and
//! need not say so.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::auth::random::random;
use crate::sha256::sha256;

/// The header that has it.
const HEADER: &str = "first-user-secret";

/// What the first user is made with. It is one line of a file, a header as curl sends it: `-H @FILE`.
#[derive(Clone, Debug)]
pub struct FirstUserSecret(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The SHA-256 of the text: to compare it tells nothing of the text.
    digest: [u8; 32],
    file: Option<PathBuf>,
}

impl FirstUserSecret {
    /// Makes a new one, in place of that of a start before. The file is for its owner alone.
    pub fn make(file: &Path) -> io::Result<Self> {
        let secret = URL_SAFE_NO_PAD.encode(random::<20>().map_err(io::Error::other)?);
        // A new file: nobody has opened it before, and it is no link to another one.
        remove(file)?;
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        made.write_all(format!("{HEADER}: {secret}\n").as_bytes())?;
        Ok(Self(Arc::new(Inner { digest: sha256(secret), file: Some(file.to_owned()) })))
    }

    /// One that nobody knows, for a folder in which no file can be made.
    pub fn unknown() -> Self {
        Self(Arc::new(Inner { digest: [0; 32], file: None }))
    }

    /// Whether these headers of a request have it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(HEADER).iter();
        let is_right = |text: &[u8]| sha256(text) == self.0.digest;
        matches!((sent.next(), sent.next()), (Some(text), None) if is_right(text.as_bytes()))
    }

    /// Removes the file, once there is a user.
    pub(super) fn end(&self) {
        let Some(file) = &self.0.file else { return };
        if let Err(error) = remove(file) {
            tracing::warn!(file = %file.display(), %error, "the secret of the first user is left over; it has no effect");
        }
    }
}

/// Removes a file, if there is one.
pub fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &str) -> HeaderMap {
        let line = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        lines.lines().map(line).collect()
    }

    #[test]
    fn the_line_of_the_file_is_what_is_required() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("first-user-secret"), folder.path().join("other"));
        symlink(&other, &file).unwrap();
        let before = FirstUserSecret::make(&file).unwrap();
        assert!(!other.exists());
        let old = fs::read_to_string(&file).unwrap();
        let secret = FirstUserSecret::make(&file).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let line = fs::read_to_string(&file).unwrap();
        assert_ne!(line, old, "another one after each start");
        assert!(secret.is_in(&headers(&line)) && before.is_in(&headers(&old)));
        for sent in [&old, "", "first-user-secret: ", &[line.as_str(), &line].concat(), &line.trim_end()[..40]] {
            assert!(!secret.is_in(&headers(sent)), "{sent}");
        }
        assert!(!FirstUserSecret::unknown().is_in(&headers(&line)));
        assert!(!format!("{secret:?}").contains(&line["first-user-secret: ".len()..].trim_end().to_owned()));
        secret.end();
        secret.end();
        assert!(!file.exists());
    }
}
