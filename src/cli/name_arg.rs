//! Names of users on the command line: what can be no name is not sent.

use rowdrive::schema::user_name::UserName;

/// A user.
pub fn user(text: &str) -> Result<String, String> {
    let name = UserName::parse(text).map_err(|error| error.to_string())?;
    Ok(name.as_str().to_owned())
}

/// A user, or `*` for all of them.
pub fn grantee(text: &str) -> Result<String, String> {
    if text == "*" { Ok(text.to_owned()) } else { user(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_name_is_refused() {
        for name in ["tom", "Eve.E", "\u{e9}va", "a@b+c"] {
            assert_eq!((user(name), grantee(name)), (Ok(name.to_owned()), Ok(name.to_owned())));
        }
        for bad in ["", ".", "..", "a/b", "a b", "-a", "%2e", "a\n", "anonymous"] {
            assert!(user(bad).is_err() && grantee(bad).is_err(), "{bad:?}");
        }
        assert!(grantee("*").is_ok() && user("*").is_err() && grantee("**").is_err());
    }
}
