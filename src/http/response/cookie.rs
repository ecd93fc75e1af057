//! The cookies of a session, and of a share whose password was sent (RFC 6265).

use axum::http::HeaderValue;

use super::headers;
use super::problem::Result;
use crate::auth::SHARE_LOGIN_SECONDS;

/// Seconds after a login at which its session expires, whatever it was used for.
const LONGEST: u32 = 90 * 24 * 60 * 60;

/// Its name. By TLS no other host, and no page without TLS, can set a cookie of this name.
pub fn name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-rowdrive" } else { "rowdrive" }
}

/// The name of that of a share. By TLS no page without TLS can set a cookie of this name.
pub fn share_name(is_secure: bool) -> &'static str {
    if is_secure { "__Secure-rowdrive-share" } else { "rowdrive-share" }
}

/// Sets the cookie of a share, whose pages are below `path`.
pub fn set_share(sealed: &str, path: &str, is_secure: bool) -> Result<HeaderValue> {
    let (name, secure) = (share_name(is_secure), secure(is_secure));
    headers::value(format!(
        "{name}={sealed}; Path={path}; Max-Age={SHARE_LOGIN_SECONDS}; HttpOnly; SameSite=Strict{secure}"
    ))
}

fn secure(is_secure: bool) -> &'static str {
    if is_secure { "; Secure" } else { "" }
}

/// Sets the cookie.
pub fn set(secret: &str, is_secure: bool) -> Result<HeaderValue> {
    value(secret, LONGEST, is_secure)
}

/// Removes the cookie.
pub fn remove(is_secure: bool) -> Result<HeaderValue> {
    value("", 0, is_secure)
}

fn value(secret: &str, seconds: u32, is_secure: bool) -> Result<HeaderValue> {
    let (name, secure) = (name(is_secure), secure(is_secure));
    headers::value(format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_tls_the_cookie_is_of_this_host_alone_and_sent_by_tls_alone() {
        let end = "; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax";
        assert_eq!(set("s", true).unwrap(), format!("__Host-rowdrive=s{end}; Secure"));
        assert_eq!(set("s", false).unwrap(), format!("rowdrive=s{end}"));
        let end = "; Path=/s/x/; Max-Age=86400; HttpOnly; SameSite=Strict";
        assert_eq!(set_share("s", "/s/x/", true).unwrap(), format!("__Secure-rowdrive-share=s{end}; Secure"));
        assert_eq!(set_share("s", "/s/x/", false).unwrap(), format!("rowdrive-share=s{end}"));
        assert!(remove(true).unwrap().to_str().unwrap().starts_with("__Host-rowdrive=; Path=/; Max-Age=0;"));
    }
}
