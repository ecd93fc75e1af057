//! A configuration file: a TOML table of options.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::{Spanned, Value};

use super::{ConfigError, is_list, name};

/// The values in a configuration file, each as the text that its flag accepts.
pub struct ConfigFile {
    pub path: PathBuf,
    /// By the names of the flags.
    values: BTreeMap<String, Vec<String>>,
}

impl ConfigFile {
    /// Reads a file with some of these options. Checks every value, also one that a flag overrides, so that a file is
    /// valid or not whatever the command line is.
    pub fn read(path: PathBuf, options: &[Arg]) -> Result<Self, ConfigError> {
        let bytes = fs::read(&path).map_err(|error| ConfigError::Unreadable(path.clone(), error))?;
        let wrong = |at: Option<usize>, cause: String| {
            let line =
                at.and_then(|at| bytes.get(..at)).map(|before| 1 + before.iter().filter(|b| **b == b'\n').count());
            ConfigError::Wrong { path: path.clone(), line, cause }
        };
        let text = str::from_utf8(&bytes).map_err(|e| wrong(Some(e.valid_up_to()), "this is not UTF-8".to_owned()))?;
        let table: BTreeMap<Spanned<String>, Value> = toml::from_str(text).map_err(|error| {
            let cause = error.message().trim().replace('\n', ", ");
            wrong(error.span().map(|span| span.start), cause)
        })?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            let parsed =
                parse_values(key.get_ref(), &value, options).map_err(|cause| wrong(Some(key.span().start), cause))?;
            values.insert(key.into_inner(), parsed);
        }
        Ok(Self { path, values })
    }

    /// The option, with the value in the file as its default.
    pub fn as_default(&self, arg: Arg) -> Arg {
        match self.values.get(name(&arg)) {
            Some(values) => with_default(arg, values),
            None => arg,
        }
    }

    pub fn names(&self, option: &str) -> bool {
        self.values.contains_key(option)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn with_default(arg: Arg, values: &[String]) -> Arg {
    arg.required(false).default_values(values.to_vec())
}

/// The values of an option, as the texts that its flag accepts; or the reason why they are not valid.
fn parse_values(key: &str, value: &Value, options: &[Arg]) -> Result<Vec<String>, String> {
    let Some(option) = options.iter().find(|option| name(option) == key) else {
        let known: Vec<_> = options.iter().map(name).collect();
        return Err(format!("a file cannot have an option {key:?}; it can have {}", known.join(", ")));
    };
    let words = match value {
        Value::Array(items) if is_list(option) => items.iter().map(word).collect(),
        one => word(one).map(|word| vec![word]),
    };
    let words = words.map_err(|other| {
        let list = if is_list(option) { ", or an array of these" } else { "" };
        format!("{key} takes a string, an integer or a boolean{list}; this is of type {}", other.type_str())
    })?;
    check(option, &words).map_err(|cause| format!("{key} cannot be {value}: {cause}"))?;
    Ok(words)
}

/// The value as text. Errors: a value that no flag accepts.
fn word(value: &Value) -> Result<String, &Value> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(is) => Ok(is.to_string()),
        other => Err(other),
    }
}

/// Parses the values of this option alone with clap, so that its message is about the value and not a command line.
fn check(option: &Arg, words: &[String]) -> Result<(), String> {
    let alone = with_default(option.clone().env(None::<&'static str>), words);
    let parsed = Command::new("file").no_binary_name(true).arg(alone).try_get_matches_from([""; 0]);
    parsed.map(drop).map_err(|error| match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })
}
