//! The ids of the directories of a path, on which rights are decided.

use std::collections::HashMap;

use super::lookup::LiveDir;
use super::scope::Scope;
use super::{Namespace, visibility};
use crate::auth::DirChain;
use crate::drive::error::Result;
use crate::schema::dir;
use crate::schema::{DirId, DrivePath};
use crate::table::{RowKey, RowQuery};

/// The directories of a path that exist, from the root down. The last name of the path may be one of a file.
///
/// Each row is read at its own instant, so directories that move meanwhile may make a chain that there never was. A
/// decision on it is guarded by the checks of its [permission](crate::auth::Permission), or holds only if the epoch is
/// unchanged.
pub async fn dir_chain(ns: &Namespace, path: &DrivePath) -> Result<DirChain> {
    // IMPORTANT: before the reads.
    let epoch = ns.live_dirs.now();
    if let Some(chain) = ns.live_dirs.chain(path) {
        return Ok(chain);
    }
    let above = path.split().and_then(|(parent, _)| ns.live_dirs.chain(&parent));
    let mut chain = above.unwrap_or_else(DirChain::root);
    let known = chain.depth();
    let mut paths: Vec<DrivePath> = Vec::new();
    for name in path.names().skip(known) {
        let above = paths.last().or(chain.last().map(|(path, _)| path)).unwrap_or(path);
        paths.push(above.join(&name)?);
    }
    let queries: Vec<_> = paths.iter().map(query).collect();
    for (path, row) in paths.into_iter().zip(visibility::rows(ns, &queries).await?) {
        let Some(live) = LiveDir::from_row(&row)? else { break };
        chain.push(path, live.id);
    }
    if chain.depth() > known {
        ns.live_dirs.found_chain(&chain, epoch);
    }
    Ok(chain)
}

/// The chains of these directories, of those that are below `top`. They are true if no directory has moved meanwhile.
pub async fn chains_of(ns: &Namespace, dirs: &[DirId], top: DirId) -> Result<Vec<DirChain>> {
    let (paths, top) = (ns.dir_paths.many(dirs).await?, Scope::below(top));
    let paths: HashMap<_, _> = paths.into_iter().filter(|(_, dir_path)| dir_path.is_within(&top)).collect();
    let whole = |dir: &DirId| paths.get(dir).and_then(|dir_path| Some((*dir, dir_path, dir_path.path.as_ref()?)));
    let found: Vec<_> = dirs.iter().filter_map(whole).collect();
    let queries: Vec<_> = found.iter().map(|(_, _, path)| query(path)).collect();
    let mut chains = Vec::with_capacity(found.len());
    for ((dir, dir_path, _), row) in found.into_iter().zip(visibility::rows(ns, &queries).await?) {
        if LiveDir::from_row(&row)?.is_some_and(|live| live.id == dir) {
            chains.push(dir_path.chain()?);
        }
    }
    Ok(chains)
}

fn query(path: &DrivePath) -> (RowKey, RowQuery) {
    (path.key(), RowQuery::cells(vec![dir::id_column(), dir::lock_column()]))
}
