//! What the client sends to prove who its user is, and the files that hold it.
//!
//! No secret comes from the command line or from a variable, which other programs of the machine can read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::local_fs::printable;

/// How every token begins.
const TOKEN_PREFIX: &str = "rd_";
/// Bytes of a file that is read for a secret: more than the longest password in any spelling has.
const FILE_BYTES: u64 = 16 << 10;

/// A token, or a name and its password.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// With the file that it is from.
    Token {
        token: String,
        file: PathBuf,
    },
    Password {
        name: String,
        password: String,
    },
}

/// No secret appears in a message.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token { .. } => "Token(..)",
            Self::Password { .. } => "Password(..)",
        })
    }
}

/// Why there is no credential, or why it is not sent.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("the file {0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("every user of this machine can read {0}, so what is in it is no secret: chmod 600 {0}")]
    NotPrivate(PathBuf),
    #[error("the file {0} has to hold a password in UTF-8 in its only line")]
    NoPassword(PathBuf),
    #[error("the file {0} has to hold a token, which begins with rd_, in its only line")]
    NoToken(PathBuf),
    #[error(
        "give the name of a file that holds the token, by --token-file or ROWDRIVE_TOKEN_FILE, not the token itself"
    )]
    TokenItself,
    /// Whose password, and the option for a file.
    #[error(
        "the password of {0} cannot be asked for, since there is no terminal ({2}): name a file that holds it with {1}"
    )]
    NoTerminal(String, &'static str, io::Error),
    #[error("the two passwords differ: nothing was done")]
    Differ,
    #[error(
        "{0} is plain http, where everyone on the way can read passwords and tokens: begin the address with https://, or \
         say --insecure-http"
    )]
    PlainHttp(String),
    #[error("the address of the server has a user, and so has --user or --token-file: take the one out of the address")]
    UserInAddress,
}

type Result<T, E = CredentialError> = std::result::Result<T, E>;

impl Credential {
    /// Reads a token from a file.
    pub fn token_from(path: &Path) -> Result<Self> {
        let is_token =
            |text: &String| text.starts_with(TOKEN_PREFIX) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let token = secret_from(path)?.filter(is_token);
        let file = path.to_owned();
        match token {
            Some(token) => Ok(Self::Token { token, file }),
            None => Err(CredentialError::NoToken(file)),
        }
    }

    /// The password, if it is one.
    pub fn password(&self) -> Option<&str> {
        match self {
            Self::Password { password, .. } => Some(password),
            Self::Token { .. } => None,
        }
    }

    /// What to do if the server does not take it.
    pub(super) fn remedy(&self) -> Option<String> {
        match self {
            Self::Token { file, .. } => Some(format!(
                "the token came from {}, which --token-file or ROWDRIVE_TOKEN_FILE names: make a new one with rowdrive \
                 token add NAME --user YOU --out NEW_FILE, or unset ROWDRIVE_TOKEN_FILE",
                printable(file)
            )),
            Self::Password { .. } => None,
        }
    }

    /// The value of `Authorization`: Bearer (RFC 6750) or Basic (RFC 7617). None if it cannot be in a header.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Self::Token { token, .. } => format!("Bearer {token}"),
            Self::Password { name, password } => format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))),
        };
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Reads a password from a file.
pub fn password_from(path: &Path) -> Result<String> {
    secret_from(path)?.ok_or_else(|| CredentialError::NoPassword(path.to_owned()))
}

/// The only line of a file; none if it has not exactly one. A pipe is a file too.
fn secret_from(path: &Path) -> Result<Option<String>> {
    // IMPORTANT: the text must not show a token that stands in the place of its file.
    let is_token = path.to_str().is_some_and(|name| name.starts_with(TOKEN_PREFIX));
    let unreadable = |error| match is_token {
        true => CredentialError::TokenItself,
        false => CredentialError::Unreadable(path.to_owned(), error),
    };
    let file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    // The group may read it: so do services get what another user has written for them.
    if found.is_file() && found.mode() & 0o007 != 0 {
        return Err(CredentialError::NotPrivate(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).ok().filter(|text| (text.len() as u64) < FILE_BYTES);
    let line = text.as_deref().map(|text| text.strip_suffix('\n').unwrap_or(text));
    let line = line.map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.filter(|line| !line.is_empty() && !line.contains(['\n', '\r', '\0'])).map(str::to_owned))
}

/// Whether what is sent to a server stays on this machine, or is encrypted.
pub(super) fn is_private(server: &Url) -> bool {
    server.scheme() == "https" || is_loopback(server)
}

/// Whether only this machine reaches a server of this address.
pub(super) fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_has_one_secret_in_one_line_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let write = |content: &[u8], mode| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for content in ["rd_x-_Y9", "rd_x-_Y9\n", "rd_x-_Y9\r\n"] {
            write(content.as_bytes(), 0o600);
            let expected = Credential::Token { token: "rd_x-_Y9".into(), file: path.clone() };
            assert_eq!(Credential::token_from(&path).unwrap(), expected, "{content:?}");
        }
        for bad in [&b""[..], b"\n", b"rd_x\nrd_y\n", b"rd_x y", b"secret", b"rd_\xff", b"rd_x\n\n", &[b'x'; 17 << 10]]
        {
            write(bad, 0o600);
            assert!(matches!(Credential::token_from(&path), Err(CredentialError::NoToken(_))), "{bad:?}");
        }
        write(" a secret \n".as_bytes(), 0o640);
        assert_eq!(password_from(&path).unwrap(), " a secret ");
        for mode in [0o644, 0o604, 0o602, 0o601] {
            write(b"a secret", mode);
            assert!(matches!(password_from(&path), Err(CredentialError::NotPrivate(_))), "{mode:o}");
        }
        assert!(matches!(password_from(&folder.path().join("none")), Err(CredentialError::Unreadable(..))));
    }

    #[test]
    fn a_secret_goes_to_this_machine_or_by_tls() {
        for (url, expected) in [
            ("https://drive.example", true),
            ("http://localhost:8080", true),
            ("http://LOCALHOST", true),
            ("http://127.9.9.9:1", true),
            ("http://127.1", true),
            ("http://[::1]:8080", true),
            ("http://localhost.example", false),
            ("http://192.0.2.1", false),
            ("http://[2001:db8::1]", false),
            ("http://127.0.0.1.example", false),
        ] {
            assert_eq!(is_private(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn no_message_has_a_secret() {
        let password = Credential::Password { name: "tom".into(), password: "sesame".into() };
        let token = Credential::Token { token: "rd_sesame".into(), file: "phone".into() };
        let header = format!("{:?}", password.header());
        let remedy = token.remedy().unwrap();
        assert!(!format!("{password:?} {token:?} {header} {remedy}").contains("sesame"));
        assert!(remedy.contains("came from phone, "), "{remedy}");
        let shown = Credential::token_from(Path::new("rd_sesame")).unwrap_err().to_string();
        assert!(!shown.contains("sesame"), "{shown}");
        assert_eq!(password.remedy(), None);
        assert_eq!(password.header().unwrap(), "Basic dG9tOnNlc2FtZQ==");
    }
}
