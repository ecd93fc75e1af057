//! Passwords from the terminal, which does not show them.

use std::path::Path;

use crate::client::credential::{CredentialError, password_from};

/// Asks for the password of a user.
pub fn present(name: &str) -> Result<String, CredentialError> {
    ask(name, "--user and --password-file", &format!("Password of {name}: "))
}

/// A new password of a user: from a file, or asked for twice.
pub fn new(name: &str, file: Option<&Path>) -> Result<String, CredentialError> {
    if let Some(file) = file {
        return password_from(file);
    }
    let asked = |prompt: &str| ask(name, "--new-password-file", prompt);
    let first = asked(&format!("New password of {name}: "))?;
    if first == asked("The same again: ")? { Ok(first) } else { Err(CredentialError::Differ) }
}

/// `option`: the one for a file that holds it.
fn ask(name: &str, option: &'static str, prompt: &str) -> Result<String, CredentialError> {
    rpassword::prompt_password(prompt).map_err(|error| CredentialError::NoTerminal(name.to_owned(), option, error))
}
