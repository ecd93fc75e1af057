//! The requests that layouts are measured with.

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::layouts::{Layout, List, NewFile, Period, Verdict};

/// How often an overwrite is tried again.
const ATTEMPTS: usize = 100;

#[derive(Clone, Debug)]
pub enum Request {
    Stat(String),
    Read(String),
    /// The children of a directory, of which there is at least one.
    List(String, List),
    /// A name that one file has.
    Find(String),
    /// At least so many files are found, newest first.
    Period(Period, usize),
    Create(NewFile),
    /// Over a file that is there.
    Overwrite(NewFile),
    /// A stat, and then an overwrite of the same file.
    Modify(NewFile),
    /// From one path to another.
    Rename(String, String),
    Delete(String),
}

impl Request {
    /// An error if the layout does not answer as it should.
    pub async fn send(self, layout: Arc<dyn Layout>) -> Result<()> {
        let is_right = match &self {
            Self::Stat(path) => layout.stat(path).await?.is_some(),
            Self::Read(path) => layout.read(path).await?.is_some_and(|content| !content.is_empty()),
            Self::List(path, ask) => layout.list(path, ask).await?.is_some_and(|children| !children.is_empty()),
            Self::Find(name) => layout.find(name).await?.len() == 1,
            Self::Period(period, least) => {
                let found = layout.period(period).await?;
                found.len() >= *least && found.iter().is_sorted_by(|(one, _), (next, _)| one >= next)
            }
            Self::Create(file) => layout.put(file, true).await? == Verdict::Done,
            Self::Overwrite(file) => overwrite(&*layout, file).await?,
            Self::Modify(file) => layout.stat(&file.path).await?.is_some() && overwrite(&*layout, file).await?,
            Self::Rename(from, to) => layout.rename(from, to).await? == Verdict::Done,
            Self::Delete(path) => layout.delete(path).await? == Verdict::Done,
        };
        // Content may be long.
        ensure!(is_right, "a wrong answer to {}", format!("{self:?}").chars().take(300).collect::<String>());
        Ok(())
    }
}

async fn overwrite(layout: &dyn Layout, file: &NewFile) -> Result<bool> {
    // Another client may overwrite the same file meanwhile: read it again, as the drive itself does.
    for _ in 0..ATTEMPTS {
        if layout.put(file, false).await? == Verdict::Done {
            return Ok(true);
        }
    }
    Ok(false)
}
