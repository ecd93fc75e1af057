//! Paths and values in the target of a request, percent-encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::schema::DrivePath;

/// The content of files and directories is below this path.
pub const FS: &str = "/v1/fs";
/// The entries of files and directories are below this path.
pub const STAT: &str = "/v1/stat";

/// Files by time.
pub const FILES: &str = "/v1/files";
/// Files by name.
pub const FIND: &str = "/v1/find";
/// Moves a file or directory.
pub const MOVE: &str = "/v1/move";
/// Copies a file or directory.
pub const COPY: &str = "/v1/copy";

/// The session of the request.
pub const SESSION: &str = "/v1/session";
/// The sessions of a user.
pub const SESSIONS: &str = "/v1/sessions";
/// The users.
pub const USERS: &str = "/v1/users";
/// The grants on directories.
pub const GRANTS: &str = "/v1/grants";
/// The tokens of a user.
pub const TOKENS: &str = "/v1/tokens";

/// The shares of a user.
pub const SHARES: &str = "/v1/shares";
/// Links for people without an account are below this path.
pub const SHARED: &str = "/s/";

/// The secret in the path of a link.
pub fn share_secret(path: &str) -> Option<&str> {
    path.strip_prefix(SHARED)?.split('/').next()
}

/// The path of a link: that of its page.
pub fn share_link(secret: &str) -> String {
    [SHARED, secret, "/"].concat()
}

/// All but the unreserved characters of RFC 3986. A path may have some of the others unencoded, but clients and shells
/// treat them as special.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name in a path, or the value of a query parameter.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The path of a file or directory below a resource such as [`FS`]: each name encoded, and a slash at the end of a
/// directory. Since it starts with the resource, no name can turn it into the address of another host.
pub fn below(resource: &str, path: &DrivePath, directory: bool) -> String {
    let mut target = resource.to_owned();
    for name in path.names() {
        target.push('/');
        target.extend(utf8_percent_encode(name.as_str(), RESERVED));
    }
    if directory || path.is_root() {
        target.push('/');
    }
    target
}
