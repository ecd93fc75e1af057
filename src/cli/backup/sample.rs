//! The sample of content files that each backup reads again, so that damage is found without reading all of them.

use rowdrive::schema::FileId;

/// Files in a sample.
const FILES: usize = 64;

/// A uniform sample of all files that were added (reservoir sampling).
#[derive(Default)]
pub struct Sample {
    /// Files that were added.
    added: usize,
    ids: Vec<FileId>,
}

impl Sample {
    pub fn add(&mut self, id: FileId) {
        self.added += 1;
        if self.ids.len() < FILES {
            self.ids.push(id);
        } else if let Some(other) = self.ids.get_mut(random(self.added)) {
            *other = id;
        }
    }

    pub fn ids(&self) -> &[FileId] {
        &self.ids
    }
}

fn random(below: usize) -> usize {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    usize::try_from((high ^ low) % (below.max(1) as u64)).unwrap_or_default()
}
