//! The directories of paths, with their ids, until a directory is moved or removed: rights are decided on them at each
//! request.
//!
//! As [`live_dirs`](super::live_dirs): an epoch that is the same after the reads as before them proves that no
//! directory has left its path in between, so each directory of the chain was at its path all the time. While it stays
//! the same, that is so.

use std::hash::{BuildHasherDefault, DefaultHasher};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::live_dirs::{LiveDirs, LiveEpoch};
use crate::auth::DirChain;
use crate::schema::DrivePath;

/// About how many bytes of memory a directory of a chain takes beside its path.
const USUAL: usize = 64;

/// Chains by the paths of their last directories.
pub struct KnownChains(Cache<String, Known, ByteWeighter, BuildHasherDefault<DefaultHasher>>);

#[derive(Clone)]
struct Known {
    chain: DirChain,
    since: LiveEpoch,
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<String, Known> for ByteWeighter {
    fn weight(&self, path: &String, known: &Known) -> u64 {
        let dirs: usize = known.chain.dirs().map(|(path, _)| USUAL + path.as_str().len()).sum();
        (2 * USUAL + path.len() + dirs) as u64
    }
}

impl KnownChains {
    /// Keeps chains of about so many bytes in all.
    pub fn new(bytes: usize) -> Self {
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        Self(Cache::with(bytes / (8 * USUAL) + 1, bytes as u64, ByteWeighter, hasher, lifecycle))
    }

    /// The chain of the directory at this path; none if it is not known.
    pub fn find(&self, path: &DrivePath, live: &LiveDirs) -> Option<DirChain> {
        self.0.get(path.as_str()).filter(|known| live.unchanged_since(known.since)).map(|known| known.chain)
    }

    /// Keeps a chain as reads after this epoch have found it. `live`: nothing has changed since.
    pub fn keep(&self, chain: &DirChain, since: LiveEpoch, live: &LiveDirs) {
        if let Some((path, _)) = chain.last().filter(|(path, _)| !path.is_root())
            && live.unchanged_since(since)
        {
            self.0.insert(path.as_str().to_owned(), Known { chain: chain.clone(), since });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::dir_paths::MoveEpoch;
    use super::*;
    use crate::schema::DirId;

    #[test]
    fn a_chain_is_known_until_a_directory_is_moved_or_removed() {
        let path = DrivePath::parse("/a").unwrap();
        let mut chain = DirChain::root();
        chain.push(path.clone(), DirId::random());
        let ends: [fn(&Epochs) -> &MoveEpoch; 2] = [|epochs| &epochs.0, |epochs| &epochs.1];
        for end in ends {
            let epochs = Epochs(Arc::default(), Arc::default());
            let live = LiveDirs::new(epochs.0.clone(), epochs.1.clone(), 1 << 20);
            let known = KnownChains::new(1 << 20);
            let before = live.now();
            known.keep(&chain, before, &live);
            assert_eq!(known.find(&path, &live), Some(chain.clone()));
            end(&epochs).begin();
            assert_eq!(known.find(&path, &live), None);
            known.keep(&chain, live.now(), &live);
            assert_eq!(known.find(&path, &live), None, "read while it changes");
            end(&epochs).end();
            known.keep(&chain, before, &live);
            assert_eq!(known.find(&path, &live), None, "read before it has changed");
            known.keep(&chain, live.now(), &live);
            assert_eq!(known.find(&path, &live), Some(chain.clone()));
        }
    }

    struct Epochs(Arc<MoveEpoch>, Arc<MoveEpoch>);
}
