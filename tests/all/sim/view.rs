//! The view of an idle drive: all kinds of reads must agree, and a check must find nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, pin_mut};
use rowdrive::check::{CheckEvent, CheckOptions, FindingKind, check_on};
use rowdrive::drive::{Drive, ListQuery, Node, Settings};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{CF, DrivePath, pending_unlink, subtree_op};
use rowdrive::table::{Row, RowKey, RowQuery, RowRange, ScanQuery, Tables};

use super::client::{all_by_name, all_by_time, bytes};
use super::disk::SimDisk;
use super::scheduler::Faults;
use crate::drive::model::View;

/// The data folder.
pub const DATA: &str = "/data";

pub type ViewResult<T> = Result<T, String>;

pub fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// Starts a process on this store and disk, and waits until it has finished pending work. Returns its view.
pub async fn after_a_start(tables: &Tables, disk: &SimDisk, settings: Settings, faults: Faults) -> ViewResult<View> {
    let (content, shared) = (Path::new(DATA).join("content"), Arc::new(disk.clone()));
    let drive = Drive::open_on(shared.clone(), tables.clone(), &content, settings).await;
    let drive = drive.map_err(|error| format!("it does not start: {error:?}"))?;
    idle(&drive).await?;
    let view = view(&drive).await?;
    drive.close().await;
    drop(drive);
    let mut findings = Vec::new();
    let mut handle_event = |event: CheckEvent<'_>| {
        if let CheckEvent::Finding(finding) = event {
            findings.push(finding.clone());
        }
    };
    let options = CheckOptions { content: false, repair: false };
    let summary = check_on(shared, tables, Path::new(DATA), &options, &mut handle_event).await.map_err(text)?;
    // Some leftovers are invisible to all readers and writers: rows of a refused plan that could not be removed, and
    // locks that were written after their operation was aborted.
    findings.retain(|finding| match finding.kind {
        FindingKind::OrphanedLock => !faults.late,
        kind => !kind.is_stray() || !(faults.late || faults.leaves),
    });
    if !findings.is_empty() || summary.pending > 0 {
        let left = [rows(tables, subtree_op::TABLE).await?, rows(tables, pending_unlink::TABLE).await?];
        return Err(format!("a check finds {findings:#?}, and {} are left: {left:?}", summary.pending));
    }
    if (summary.directories, summary.files) != (view.dirs.len() as u64 + 1, view.files.len() as u64) {
        return Err(format!("a check counts {summary:?}, and {view:?} can be seen"));
    }
    Ok(view)
}

/// Waits until no work is left.
pub async fn idle(drive: &Drive) -> ViewResult<()> {
    // Everything waits only for the clock, which jumps.
    let idle = tokio::time::timeout(Duration::from_secs(3600), drive.idle()).await;
    idle.map_err(|_| "something is still being done after an hour".to_owned())
}

async fn rows(tables: &Tables, table: &'static str) -> ViewResult<Vec<(RowKey, Row)>> {
    let (range, query) = (RowRange::all(), RowQuery::families(&[CF]));
    tables.scan(&ScanQuery { table, range, row_query: query, limit: 100, reverse: false }).await.map_err(text)
}

/// The result of listings, queries and reads on an unchanging drive.
pub async fn view(drive: &Drive) -> ViewResult<View> {
    let mut view = View::default();
    let mut below = vec![DrivePath::root()];
    while let Some(at) = below.pop() {
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        for node in
            drive.unrestricted().list(&at, &query).await.map_err(|e| format!("{at} cannot be listed: {e:?}"))?.nodes
        {
            let stat = drive.unrestricted().stat(node.path()).await;
            if stat.as_ref().ok() != Some(&node) {
                return Err(format!("{node:?} is listed, and {stat:?}"));
            }
            match node {
                Node::Directory { path, .. } => {
                    view.dirs.insert(path.to_string());
                    below.push(path);
                }
                Node::File { path, entry } => {
                    let size = entry.attributes.size as usize;
                    content(drive, &path, size).await.map_err(|e| format!("{path} of {size} bytes: {e}"))?;
                    view.files.insert(path.to_string(), size);
                }
            }
        }
    }
    for clock in Clock::ALL {
        let found = drive.unrestricted().files_by_time(&all_by_time(clock)).await.map_err(text)?;
        agree("a time query", found.nodes, &view)?;
    }
    let found = drive.unrestricted().files_by_name(&all_by_name()).await.map_err(text)?;
    agree("a query by name", found.nodes, &view)?;
    Ok(view)
}

async fn content(drive: &Drive, path: &DrivePath, size: usize) -> ViewResult<()> {
    let stream = drive.unrestricted().open_file(path).await.map_err(text)?.body.stream(0, u64::MAX);
    pin_mut!(stream);
    let (expected, mut at) = (bytes(size), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(text)?;
        if expected.get(at..at + chunk.len()) != Some(&*chunk) {
            return Err(format!("other bytes at {at}"));
        }
        at += chunk.len();
    }
    if at == size { Ok(()) } else { Err(format!("it ends at {at}")) }
}

fn agree(what: &str, nodes: Vec<Node>, view: &View) -> ViewResult<()> {
    let mut files = BTreeMap::new();
    for node in nodes {
        if let Node::File { path, entry } = node {
            let size = entry.attributes.size as usize;
            if files.insert(path.to_string(), size).is_some() {
                return Err(format!("{what} shows {path} twice"));
            }
        }
    }
    if files == view.files { Ok(()) } else { Err(format!("{what} shows {files:?}, listings show {:?}", view.files)) }
}
