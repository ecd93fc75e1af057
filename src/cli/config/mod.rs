//! The options of `serve`: from flags, else the environment, else a configuration file, else their defaults.
//!
//! The options are defined once, for clap. The values of a [file] become their default values, so that clap itself
//! applies precedence and checks values. An option that has an environment variable can be in the file, under the name
//! of its flag. [settings] has the effective values and the source of each.

mod file;
mod settings;

use std::io;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use file::ConfigFile;
pub use settings::ServeSettings;

/// The subcommand that is configured.
const SERVE: &str = "serve";

/// The option that names the file: it cannot be in the file itself.
const CONFIG: &str = "config";

// No doc comment here: clap would use it as the description of the subcommand.
#[derive(Args)]
pub struct Configuration {
    /// A TOML file with these options: each is a key, named as its flag. Flags and variables win over it.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_CONFIG")]
    config: Option<PathBuf>,
    /// Print all options as such a file, with their values and where these come from, and serve nothing.
    #[arg(long)]
    print_config: bool,
}

/// Why the configuration is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration file {0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("{path}{}: {cause}", .line.map(|line| format!(", line {line}")).unwrap_or_default(), path = .path.display())]
    Wrong { path: PathBuf, line: Option<usize>, cause: String },
}

/// What to do, by the command line.
pub enum Invocation {
    Run(ArgMatches, ServeSettings),
    Print(ServeSettings),
}

/// Reads the command line, the environment and the configuration file. Ends the process where clap does: for a wrong
/// option, and for help.
pub fn read(command: Command) -> Result<Invocation, ConfigError> {
    // Required options may be in the file, which is not known yet.
    let lenient = command.clone().mut_subcommand(SERVE, |serve| serve.mut_args(|arg| arg.required(false)));
    let first = lenient.clone().try_get_matches();
    let Some(serve) = first.as_ref().ok().and_then(|matches| matches.subcommand_matches(SERVE)) else {
        return Ok(Invocation::Run(command.get_matches(), ServeSettings::default()));
    };
    let Configuration { config, print_config } =
        Configuration::from_arg_matches(serve).unwrap_or_else(|error| error.exit());
    // A configuration with missing options can be printed too.
    let mut command = if print_config { lenient } else { command };
    let options: Vec<Arg> = command.find_subcommand(SERVE).into_iter().flat_map(options).cloned().collect();
    let file = config.map(|path| ConfigFile::read(path, &options)).transpose()?;
    if let Some(file) = &file {
        command = command.mut_subcommand(SERVE, |serve| serve.mut_args(|arg| file.as_default(arg)));
    }
    let matches = command.get_matches();
    let settings = match matches.subcommand_matches(SERVE) {
        Some(serve) => ServeSettings::new(&options, serve, file.as_ref()),
        None => ServeSettings::default(),
    };
    Ok(if print_config { Invocation::Print(settings) } else { Invocation::Run(matches, settings) })
}

/// The options of a subcommand that can be in a file, in the order of its help.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_env().is_some() && arg.get_id() != CONFIG)
}

/// The name of an option's flag: its key in a file.
fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

/// Whether the option can be given several times.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// An option without a variable could not be in a file either.
    #[test]
    fn every_option_of_serve_has_a_variable() {
        let command = crate::cli::Cli::command();
        let serve = command.find_subcommand(SERVE).unwrap();
        let mut named = 0;
        for arg in serve.get_arguments().filter(|arg| !["print_config", "degraded"].contains(&arg.get_id().as_str())) {
            let variable = format!("ROWDRIVE_{}", name(arg).to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(variable.as_str()), "{}", name(arg));
            assert_eq!(is_list(arg), arg.get_value_delimiter() == Some(','), "{}", name(arg));
            named += 1;
        }
        assert!(named > 9, "{named}");
        assert_eq!(options(serve).count(), named - 1, "all but --config");
    }
}
