//! The cookie of a session (RFC 6265).

use axum::http::HeaderValue;

use super::headers;
use super::problem::Result;

/// Seconds after a login at which its session ends, whatever it was used for.
const LONGEST: u32 = 90 * 24 * 60 * 60;

/// Its name. By TLS no other host, and no page without TLS, can set a cookie of this name.
pub fn name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-rowdrive" } else { "rowdrive" }
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
    let secure = if is_secure { "; Secure" } else { "" };
    let name = name(is_secure);
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
        assert!(remove(true).unwrap().to_str().unwrap().starts_with("__Host-rowdrive=; Path=/; Max-Age=0;"));
    }
}
