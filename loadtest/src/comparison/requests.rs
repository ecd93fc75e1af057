//! The requests that layouts are measured with.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use crate::data::attributes;
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
    Put {
        path: String,
        modified: i64,
        content: Bytes,
        is_new: bool,
    },
    /// A stat, and then an overwrite of the same file.
    Modify {
        path: String,
        modified: i64,
    },
    Rename {
        from: String,
        to: String,
    },
    Delete(String),
}

impl Request {
    /// Errors if the layout does not answer as it should.
    pub async fn send(self, layout: &dyn Layout) -> Result<()> {
        match self {
            Self::Stat(path) => {
                layout.stat(&path).await?.with_context(|| format!("{path} is missing"))?;
            }
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
            Self::Put { path, modified, content, is_new } => {
                let file = NewFile { path, attributes: attributes(modified), content };
                let mut verdict = layout.put(&file, is_new).await?;
                // Another client has overwritten the same file meanwhile: read it again, as the drive itself does.
                for _ in 0..if is_new { 0 } else { ATTEMPTS } {
                    if verdict == Verdict::Done {
                        break;
                    }
                    verdict = layout.put(&file, false).await?;
                }
                done(verdict, &file.path)?;
            }
            Self::Modify { path, modified } => {
                Box::pin(Self::Stat(path.clone()).send(layout)).await?;
                let overwrite = Self::Put { path, modified, content: Bytes::new(), is_new: false };
                Box::pin(overwrite.send(layout)).await?;
            }
            Self::Rename { from, to } => done(layout.rename(&from, &to).await?, &from)?,
            Self::Delete(path) => done(layout.delete(&path).await?, &path)?,
        }
        Ok(())
    }
}

/// An error if a change was not made that nothing is in the way of.
fn done(verdict: Verdict, path: &str) -> Result<()> {
    ensure!(verdict == Verdict::Done, "{path}: {verdict:?}");
    Ok(())
}
