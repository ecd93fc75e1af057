//! The requests that layouts are measured with.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

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
    /// At least so many files are found.
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
    /// Errors if the layout does not answer as it should.
    pub async fn send(self, layout: Arc<dyn Layout>) -> Result<()> {
        match self {
            Self::Stat(path) => stat(&*layout, &path).await?,
            Self::Read(path) => {
                let content = layout.read(&path).await?;
                ensure!(content.is_some_and(|content| !content.is_empty()), "{path} has no content");
            }
            Self::List(path, ask) => {
                let children = layout.list(&path, &ask).await?;
                ensure!(children.is_some_and(|children| !children.is_empty()), "{path} has no children for {ask:?}");
            }
            Self::Find(name) => {
                let found = layout.find(&name).await?.len();
                ensure!(found == 1, "{name} is there {found} times");
            }
            Self::Period(period, least) => {
                let found = layout.period(&period).await?;
                let is_right = found.len() >= least && found.iter().is_sorted_by(|(one, _), (next, _)| one >= next);
                ensure!(is_right, "{} files of at least {least}, or not newest first: {period:?}", found.len());
            }
            Self::Create(file) => done(layout.put(&file, true).await?, &file.path)?,
            Self::Overwrite(file) => overwrite(&*layout, &file).await?,
            Self::Modify(file) => {
                stat(&*layout, &file.path).await?;
                overwrite(&*layout, &file).await?;
            }
            Self::Rename(from, to) => done(layout.rename(&from, &to).await?, &from)?,
            Self::Delete(path) => done(layout.delete(&path).await?, &path)?,
        }
        Ok(())
    }
}

async fn stat(layout: &dyn Layout, path: &str) -> Result<()> {
    layout.stat(path).await?.with_context(|| format!("{path} is missing")).map(|_| ())
}

async fn overwrite(layout: &dyn Layout, file: &NewFile) -> Result<()> {
    let mut verdict = layout.put(file, false).await?;
    // Another client has overwritten the same file meanwhile: read it again, as the drive itself does.
    for _ in 0..ATTEMPTS {
        if verdict == Verdict::Done {
            break;
        }
        verdict = layout.put(file, false).await?;
    }
    done(verdict, &file.path)
}

/// An error if a change was not made that nothing is in the way of.
fn done(verdict: Verdict, path: &str) -> Result<()> {
    ensure!(verdict == Verdict::Done, "{path}: {verdict:?}");
    Ok(())
}
