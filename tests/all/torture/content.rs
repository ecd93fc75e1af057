//! Contents that identify their upload, so that a reader knows exactly which write it saw.
//!
//! A content is a head of text (the path of its upload, the writer, the writer's sequence number, the digest of the
//! rest) and random bytes. All empty contents are equal.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use super::checker::Value;
use super::history::Path;

/// A SHA-256, as base64.
pub type Sum = String;

/// The content of no bytes.
pub const EMPTY: Value = 0;

/// Contents up to this size are stored in the file row.
const INLINE: usize = 256 << 10;

pub fn sum(bytes: &[u8]) -> Sum {
    BASE64_STANDARD.encode(Sha256::digest(bytes))
}

/// The digest in a `Repr-Digest` or an entry.
pub fn sum_of_header(text: &str) -> Option<Sum> {
    Some(text.strip_prefix("sha-256=:")?.strip_suffix(':')?.to_owned())
}

/// A realistic size; sizes around the limit of inline content are frequent.
pub fn size(dice: &mut StdRng) -> usize {
    match dice.random_range(0..100) {
        0..5 => 0,
        5..65 => dice.random_range(150..4_000),
        65..80 => dice.random_range(4_000..200_000),
        80..94 => INLINE + dice.random_range(0..5) - 2,
        94..98 => dice.random_range(INLINE..1 << 20),
        _ => 2 << 20,
    }
}

/// The origin of a content, which determines its bytes.
#[derive(Clone)]
pub struct Origin {
    pub path: Path,
    pub writer: usize,
    pub sequence: u64,
    pub size: usize,
}

impl Origin {
    fn bytes(&self) -> Bytes {
        let Self { path, writer, sequence, size } = self;
        let head = |digest: &str| format!("path: {path}\nwriter: {writer}\nsequence: {sequence}\ndigest: {digest}\n\n");
        // Every digest has the same length.
        let mut tail = vec![0; size.saturating_sub(head(&sum(b"")).len())];
        StdRng::seed_from_u64((*writer as u64) << 40 | sequence).fill_bytes(&mut tail);
        let mut bytes = head(&sum(&tail)).into_bytes();
        bytes.extend(tail);
        bytes.into()
    }
}

/// All contents that were sent and may still be read.
#[derive(Default)]
pub struct Contents {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    values: HashMap<Sum, Value>,
    origins: HashMap<Value, Origin>,
    last: Value,
    /// Contents that were copied: several versions may have them, so a failed ETag condition proves nothing about them.
    copied: HashSet<Value>,
}

impl Contents {
    pub fn new() -> Self {
        let contents = Self::default();
        contents.inner.lock().unwrap().values.insert(sum(b""), EMPTY);
        contents.inner.lock().unwrap().copied.insert(EMPTY);
        contents
    }

    /// Creates a new content.
    pub fn make(&self, from: Origin) -> (Value, Sum, Bytes) {
        if from.size == 0 {
            return (EMPTY, sum(b""), Bytes::new());
        }
        let bytes = from.bytes();
        let sum = sum(&bytes);
        let mut inner = self.inner.lock().unwrap();
        inner.last += 1;
        let value = inner.last;
        inner.values.insert(sum.clone(), value);
        inner.origins.insert(value, from);
        (value, sum, bytes)
    }

    /// Generates the bytes of a content again.
    pub fn bytes(&self, value: Value) -> Bytes {
        let origin = self.inner.lock().unwrap().origins.get(&value).cloned();
        origin.map(|origin| origin.bytes()).unwrap_or_default()
    }

    /// The content with this digest; none if it was never sent, or was forgotten.
    pub fn find(&self, sum: &str) -> Option<Value> {
        self.inner.lock().unwrap().values.get(sum).copied()
    }

    pub fn mark_copied(&self, value: Value) {
        self.inner.lock().unwrap().copied.insert(value);
    }

    pub fn is_copied(&self, value: Value) -> bool {
        self.inner.lock().unwrap().copied.contains(&value)
    }

    /// Forgets all other contents: reading one of them later is a finding (`ghost`).
    pub fn keep(&self, values: &HashSet<Value>) {
        let mut inner = self.inner.lock().unwrap();
        inner.values.retain(|_, value| *value == EMPTY || values.contains(value));
        inner.origins.retain(|value, _| values.contains(value));
        inner.copied.retain(|value| *value == EMPTY || values.contains(value));
    }
}

/// The text head of a content, for messages.
pub fn title(bytes: &[u8]) -> String {
    let head = bytes.get(..bytes.len().min(300)).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let head = head.split("\n\n").next().unwrap_or_default();
    format!("{} bytes: {}", bytes.len(), head.chars().take(200).collect::<String>().escape_debug())
}
