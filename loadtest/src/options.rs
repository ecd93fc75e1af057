//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::comparison;
use crate::layouts::kinds::Kind;

/// How the name of a folder of stores begins.
pub const SCRATCH: &str = "rowdrive-loadtest-";

/// Compares layouts of row keys on the same files, and a drive with what its machine can do.
///
/// Without a command it does all of this, in about ten minutes: it measures every layout, how evenly each spreads load
/// over regions, a server under load, and how close that comes to its limits, and writes a report. It ends early on
/// Ctrl-C or SIGTERM, and reports what there is. Options come after the command.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Files in the tree, from 1,000 to 10,000,000; 100,000 unless given, 5,000 if quick.
    #[arg(long, value_name = "FILES", global = true, value_parser = files)]
    size: Option<u32>,
    /// Seed of everything random.
    #[arg(long, value_name = "NUMBER", global = true, default_value_t = 1)]
    pub seed: u64,
    /// Where the report is written: report.json, pages as HTML and Markdown (report of the layouts, limits of the
    /// server), and tables as CSV. The files of an earlier report move to a folder in it, which has its time as its name.
    #[arg(long, value_name = "DIR", global = true, default_value = "target/loadtest")]
    pub out: PathBuf,
    /// A run of less than a minute: fewer files, shorter measurements.
    #[arg(long, global = true)]
    pub quick: bool,
    /// Bytes of memory for each store and for the server, from 16 MiB to 1 TiB.
    #[arg(long, value_name = "BYTES", global = true, default_value_t = 1 << 30, value_parser = memory)]
    pub memory: usize,
    /// Where the stores are made (and removed again); by default a folder for temporary files.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    without_command: LayoutOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

/// How the layouts are measured.
#[derive(Debug, Args)]
struct LayoutOptions {
    /// Only these layouts, with commas between them; all unless given. docs/load-test.md tells what they are.
    #[arg(long, value_enum, value_name = "LAYOUT", value_delimiter = ',')]
    layouts: Vec<Kind>,
    /// Clients: each sends its next request when the last one is answered. The layouts are measured with one client too.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Rounds over all operations, with the layouts in another order each time; 5 unless given, 2 if quick. The server has
    /// rounds of its own.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// How long an operation of a layout is measured in a round (a loop), with one client and with many, in milliseconds;
    /// 30 unless given, 10 if quick. An operation that reads a whole table takes longer. From 10 to 200: longer loops use
    /// up the files to delete.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=200))]
    ms: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Only compares the layouts, and how evenly they spread load. It needs no other program.
    Layouts(LayoutOptions),
    /// Only measures the server: under load, and beside what its machine can do. It needs python3, wrk and curl.
    Limits {
        /// Compare it with nginx, rclone, PostgreSQL and SQLite too; as root.
        #[arg(long)]
        peers: bool,
    },
}

fn files(text: &str) -> Result<u32, &'static str> {
    let files = text.parse().ok().filter(|files| (1_000..=10_000_000).contains(files));
    files.ok_or("write a number of files without a unit, from 1000 to 10000000")
}

fn memory(text: &str) -> Result<usize, &'static str> {
    let bytes = text.parse().ok().filter(|bytes| (16 << 20..=1 << 40).contains(bytes));
    bytes.ok_or("write a number of bytes without a unit, from 16777216 to 1099511627776")
}

impl Options {
    pub fn files(&self) -> u32 {
        self.size.unwrap_or(if self.quick { 5_000 } else { 100_000 })
    }

    /// How the layouts are compared, with their stores in `folder`; none if the command does not ask for it.
    pub fn comparison(&self, folder: &Path) -> Option<comparison::Options> {
        let of = match &self.command {
            None => &self.without_command,
            Some(Command::Layouts(own)) => own,
            Some(Command::Limits { .. }) => return None,
        };
        let ms = of.ms.unwrap_or(if self.quick { 10 } else { 30 });
        let all = Kind::value_variants().iter().copied();
        Some(comparison::Options {
            kinds: all.filter(|kind| of.layouts.is_empty() || of.layouts.contains(kind)).collect(),
            seed: self.seed,
            rounds: of.rounds.unwrap_or(if self.quick { 2 } else { 5 }) as usize,
            clients: of.clients as usize,
            loop_length: Duration::from_millis(ms),
            at_rate_length: Duration::from_millis(if self.quick { 0 } else { ms * 5 }),
            memory: self.memory,
            folder: folder.to_owned(),
            files_with_content: 6_000,
            content: if self.quick { &[] } else { &comparison::CONTENT },
        })
    }

    /// The arguments of the script that measures the server; none if the command does not ask for it.
    pub fn script_arguments(&self) -> Option<Vec<String>> {
        let mut args: Vec<String> = match &self.command {
            None if !self.quick => vec!["--rounds=3".into(), "--seconds=0.5".into()],
            Some(Command::Limits { peers: true }) => vec!["--peers".into()],
            None | Some(Command::Limits { .. }) => Vec::new(),
            Some(Command::Layouts(_)) => return None,
        };
        args.extend(self.quick.then(|| "--quick".into()));
        let (files, seed, memory) = (self.files(), self.seed, self.memory);
        args.extend([format!("--size={files}"), format!("--seed={seed}"), format!("--memory={memory}")]);
        Some(args)
    }

    /// A folder that is removed when it is dropped.
    pub fn scratch(&self) -> std::io::Result<tempfile::TempDir> {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        tempfile::Builder::new().prefix(SCRATCH).tempdir_in(dir)
    }
}
