//! Passwords from the terminal, which does not show them.

use std::path::Path;

use crate::client::credential::{CredentialError, password_from};

/// Asks for the password of a user.
pub fn present(name: &str) -> Result<String, CredentialError> {
    ask(name, &format!("Password of {name}: "))
}

/// A new password of a user: from a file, or asked for twice.
pub fn new(name: &str, file: Option<&Path>) -> Result<String, CredentialError> {
    if let Some(file) = file {
        return password_from(file);
    }
    let first = ask(name, &format!("New password of {name}: "))?;
    if first == ask(name, "The same again: ")? { Ok(first) } else { Err(CredentialError::Differ) }
}

fn ask(name: &str, prompt: &str) -> Result<String, CredentialError> {
    rpassword::prompt_password(prompt).map_err(|error| CredentialError::NoTerminal(name.to_owned(), error))
}
