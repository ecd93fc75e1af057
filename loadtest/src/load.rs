//! Stores a whole tree in a layout: what each measurement of one starts from.

use anyhow::{Result, bail};

use crate::data::{Tree, attributes};
use crate::layouts::{LOAD, Layout, Verdict};
use crate::measure::{Pace, bar};

/// Stores all directories and files, and returns how many files there was room for.
pub async fn load<L: Layout>(title: &str, layout: &L, tree: &Tree, pace: &Pace) -> Result<u64> {
    let title = bar(title)?;
    for directory in &tree.dirs {
        if layout.load_directory(directory).await? != Verdict::Done {
            bail!("{}: {directory} cannot be made", L::NAME);
        }
    }
    let mut stored = 0;
    for files in tree.files.chunks(LOAD) {
        pace.go_on()?;
        let files: Vec<_> = files.iter().map(|file| (tree.path(file), attributes(file.modified))).collect();
        stored += layout.load(&files, pace.clients).await?;
        title.inc(files.len() as u64);
    }
    title.finish_and_clear();
    Ok(stored)
}
