//! `rowdrive completions`: what a shell needs to complete this command line.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CommandOutcome};

/// Print a script that completes rowdrive's subcommands and options in a shell.
#[derive(Args)]
pub struct Completions {
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, thiserror::Error)]
#[error("the script cannot be printed: {0}")]
pub struct CompletionsFailed(#[from] io::Error);

impl Completions {
    pub fn run(&self) -> Result<CommandOutcome, CompletionsFailed> {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        // Generate it into memory first: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        let mut out = io::stdout().lock();
        match out.write_all(&script).and_then(|()| out.flush()) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(CommandOutcome::Done),
            done => Ok(done.map(|()| CommandOutcome::Done)?),
        }
    }
}
