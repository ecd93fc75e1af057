//! The effective values of the options of `serve`, and the source of each.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use toml::Value;

use super::file::ConfigFile;
use super::{is_list, name};

#[derive(Default)]
pub struct ServeSettings(Vec<Setting>);

struct Setting {
    name: String,
    /// The help text, without a full stop at its end.
    help: String,
    /// The placeholder of a value in the help, as `DIR`.
    placeholder: String,
    list: bool,
    values: Vec<OsString>,
    source: SettingSource,
    /// The value if no source gives one.
    default: Vec<OsString>,
}

enum SettingSource {
    Flag,
    Environment(String),
    File(String),
    Default,
}

/// A value that cannot be written as TOML.
#[derive(Debug, thiserror::Error)]
#[error("the value of {name} is not UTF-8, so a file cannot have it: {value:?}")]
pub struct NotText {
    name: String,
    value: OsString,
}

impl ServeSettings {
    /// Collects the values of `options` from the `matches` of clap, for which the values of `file` were defaults.
    pub fn new(options: &[Arg], matches: &ArgMatches, file: Option<&ConfigFile>) -> Self {
        Self(options.iter().map(|option| Setting::new(option, matches, file)).collect())
    }

    /// A configuration file with these values.
    pub fn file(&self) -> Result<String, NotText> {
        let mut text = HEAD.to_owned();
        for setting in &self.0 {
            text.push('\n');
            text.push_str(&setting.to_toml()?);
        }
        Ok(text)
    }
}

const HEAD: &str = "\
# Options of `rowdrive serve`, for `rowdrive serve --config FILE`. Each may also be an environment variable, as
# ROWDRIVE_MAX_BODY for max-body, which wins over this file, or a flag, as --max-body, which wins over both.
";

impl Setting {
    fn new(option: &Arg, matches: &ArgMatches, file: Option<&ConfigFile>) -> Self {
        let name = name(option).to_owned();
        let id = option.get_id().as_str();
        let source = match (matches.value_source(id), file) {
            (Some(ValueSource::CommandLine), _) => SettingSource::Flag,
            (Some(ValueSource::EnvVariable), _) => {
                SettingSource::Environment(option.get_env().unwrap_or_default().to_string_lossy().into_owned())
            }
            (_, Some(file)) if file.names(&name) => SettingSource::File(file.path().display().to_string()),
            _ => SettingSource::Default,
        };
        Self {
            help: option.get_help().map(ToString::to_string).unwrap_or_default(),
            placeholder: option.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default(),
            list: is_list(option),
            values: matches.get_raw(id).into_iter().flatten().map(OsStr::to_owned).collect(),
            default: option.get_default_values().iter().map(|value| value.as_os_str().to_owned()).collect(),
            name,
            source,
        }
    }

    /// The lines of this setting in a configuration file.
    fn to_toml(&self) -> Result<String, NotText> {
        let Self { name, help, placeholder, .. } = self;
        let not_text = |value: &OsString| NotText { name: name.clone(), value: value.clone() };
        let texts = self.values.iter().map(|value| value.to_str().map(str::to_owned).ok_or_else(|| not_text(value)));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let Some(value) = self.toml(texts) else {
            return Ok(format!("# {help}.\n# Not set.\n#{name} = {}\n", Value::String(placeholder.clone())));
        };
        let from = match (&self.source, self.toml(lossy(&self.default))) {
            (SettingSource::Default, _) => "The default".to_owned(),
            (source, Some(default)) => format!("From {source}; the default is {default}"),
            (source, None) => format!("From {source}; there is no default"),
        };
        Ok(format!("# {help}.\n# {from}.\n{name} = {value}\n"))
    }

    /// None if there is no value.
    fn toml(&self, texts: Vec<String>) -> Option<Value> {
        if self.list {
            return Some(Value::Array(texts.into_iter().map(Value::String).collect()));
        }
        texts.into_iter().next().map(scalar)
    }
}

/// A number or a boolean if the text is one in TOML's form.
fn scalar(text: String) -> Value {
    match (text.parse::<i64>(), text.parse::<bool>()) {
        (Ok(number), _) if number.to_string() == text => Value::Integer(number),
        (_, Ok(is)) => Value::Boolean(is),
        _ => Value::String(text),
    }
}

fn lossy(values: &[OsString]) -> Vec<String> {
    values.iter().map(|value| value.to_string_lossy().into_owned()).collect()
}

impl Display for SettingSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("the command line"),
            Self::Environment(variable) => write!(f, "the variable {variable}"),
            Self::File(path) => write!(f, "the file {path}"),
            Self::Default => f.write_str("nobody"),
        }
    }
}

/// All settings in one line, for the log.
impl Display for ServeSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, setting) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{}", setting.name)?;
            match (setting.toml(lossy(&setting.values)), &setting.source) {
                (None, _) => f.write_str(" not set")?,
                (Some(value), SettingSource::Default) => write!(f, " = {value} (default)")?,
                (Some(value), source) => write!(f, " = {value} (from {source})")?,
            }
        }
        Ok(())
    }
}
