//! The files that requests go to: the seeded tree of all parts, with contents and popularity, uploaded to the server
//! and removed from it.
//!
//! Sizes are log-normal, as file systems have them, with a median of 4 KiB (Douceur and Bolosky, "A Large-Scale Study of
//! File-System Contents", 1999), clipped to 4 MiB. Popularity follows Zipf's law with the exponent of YCSB (Cooper et
//! al., "Benchmarking Cloud Serving Systems with YCSB", 2010).
//!
//! Everything lies below `/loadtest` on the server. A folder of that name from another creator is left alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::{Method, StatusCode};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};

use super::client::{Base, answer, member, refusal};
use crate::data::Tree;
use crate::progress::{Stop, bar};

/// The folder on the server that holds whatever this program stores.
pub const ROOT: &str = "/loadtest";
/// The user in HTTP Basic. The server keeps it as the creator of what is stored.
const CREATOR: &str = "loadtest";

const MEDIAN: f64 = 4096.0;
/// Of the logarithm: 68 % of the files are within a factor of 6 around the median.
const SIGMA: f64 = 1.8;
const LARGEST: usize = 4 << 20;
/// Random bytes that contents are parts of: more than the largest file, so that contents differ.
const CONTENT: usize = LARGEST + (1 << 20);
const ZIPF: f64 = 0.99;

/// Uploads at a time, and how long the answer to one may take.
const AT_A_TIME: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Dataset {
    /// The path of all of it, which names its seed and its number of files.
    pub root: String,
    tree: Tree,
    /// Bytes by file.
    sizes: Vec<usize>,
    /// Indexes of files, the most popular one first.
    popular: Vec<usize>,
    popularity: Zipf<f64>,
    content: Bytes,
}

impl Dataset {
    pub fn new(files: u32, seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let sizes = LogNormal::new(MEDIAN.ln(), SIGMA)?.sample_iter(&mut random).take(files as usize);
        let sizes = sizes.map(|size| (size as usize).clamp(1, LARGEST)).collect();
        let mut popular: Vec<usize> = (0..files as usize).collect();
        popular.shuffle(&mut random);
        let mut content = vec![0; CONTENT];
        random.fill_bytes(&mut content);
        let (tree, popularity) = (Tree::new(files, seed), Zipf::new(files.into(), ZIPF)?);
        Ok(Self {
            root: format!("{ROOT}/tree-{seed}-{files}"),
            tree,
            sizes,
            popular,
            popularity,
            content: content.into(),
        })
    }

    /// The folder and the path of a file, drawn by its popularity.
    pub fn draw(&self, random: &mut impl Rng) -> (String, String) {
        let rank = self.popularity.sample(random) as usize;
        self.paths(self.popular.get(rank.saturating_sub(1)).copied().unwrap_or_default())
    }

    fn paths(&self, at: usize) -> (String, String) {
        let file = self.tree.files.get(at);
        let path = |path: Option<String>| format!("{}{}", self.root, path.unwrap_or_default());
        (path(file.map(|file| self.tree.dir(file).to_owned())), path(file.map(|file| self.tree.path(file))))
    }

    /// So many random bytes, up to the largest file: which ones depends on `number`.
    pub fn content(&self, number: u64, size: usize) -> Bytes {
        let start = (number.wrapping_mul(4099) % (CONTENT - size + 1) as u64) as usize;
        self.content.slice(start..start + size)
    }

    /// Uploads all files, if an earlier run has not done that, or until it is ended early.
    pub async fn upload(&self, base: &Base, stop: &Stop) -> Result<()> {
        is_own(base, &put(base, &format!("{ROOT}/"), Bytes::new(), 0).await?)?;
        // The mark is stored when the tree is whole.
        let mark = format!("{}.whole", self.root);
        if answer(base.ask(Method::GET, &format!("/v1/stat{mark}"))).await?.0.is_success() {
            return Ok(());
        }
        let bar = bar(&format!("http: uploading {} MiB", self.sizes.iter().sum::<usize>() >> 20))?;
        let uploads = self.tree.files.iter().zip(&self.sizes).enumerate().map(async |(at, (file, &size))| {
            bar.inc(1);
            put(base, &self.paths(at).1, self.content(at as u64, size), file.modified / 1_000).await
        });
        tokio::select! {
            done = stream::iter(uploads).buffer_unordered(AT_A_TIME).try_for_each(async |_| Ok(())) => done?,
            () = stop.asked() => return Ok(()),
        }
        bar.finish_and_clear();
        put(base, &mark, Bytes::new(), 0).await.map(drop)
    }
}

/// Stores a file, or makes a folder, and returns the entry. `modified`: seconds since 1970.
async fn put(base: &Base, path: &str, content: Bytes, modified: i64) -> Result<String> {
    let request = base.ask(Method::PUT, &format!("/v1/fs{path}")).basic_auth(CREATOR, None::<&str>);
    let request = request.header("x-oc-mtime", modified).timeout(PATIENCE).body(content);
    let (status, text) = answer(request).await.with_context(|| format!("{path}: is the server still there?"))?;
    ensure!(status.is_success(), "{base} refuses the upload of {path}: {}", refusal(status, &text));
    Ok(text)
}

/// Removes everything that load tests have stored; false if there is nothing.
pub async fn clean_up(base: &Base) -> Result<bool> {
    let (status, text) = answer(base.ask(Method::GET, &format!("/v1/stat{ROOT}"))).await?;
    if status == StatusCode::NOT_FOUND {
        return Ok(false);
    }
    ensure!(status.is_success(), "{base} does not answer about {ROOT}: {}", refusal(status, &text));
    is_own(base, &text)?;
    let (status, text) = answer(base.ask(Method::DELETE, &format!("/v1/fs{ROOT}/?recursive=true"))).await?;
    ensure!(status.is_success(), "{base} does not delete {ROOT}: {}", refusal(status, &text));
    Ok(true)
}

/// An error if the folder is from another creator.
fn is_own(base: &Base, entry: &str) -> Result<()> {
    let creator = member(entry, "creator").with_context(|| format!("{base} answers with no entry"))?;
    ensure!(
        creator == CREATOR,
        "{ROOT} on {base} was not made by a load test, but by {creator}: rename it, or use an empty drive"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::server::test_server::TestServer;

    #[tokio::test]
    async fn a_tree_is_uploaded_once_and_removed_if_it_is_from_a_load_test() {
        let ((server, _folder), stop) = (TestServer::drive().await, Stop(watch::channel(false).1));
        let (base, data) = (server.base(), Dataset::new(200, 1).unwrap());
        assert!(!clean_up(&base).await.unwrap());
        data.upload(&base, &stop).await.unwrap();
        let path = data.paths(7).1;
        let stat = || async { answer(base.ask(Method::GET, &format!("/v1/stat{path}"))).await.unwrap() };
        let entry: serde_json::Value = serde_json::from_str(&stat().await.1).unwrap();
        let modified: jiff::Timestamp = entry["modified"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            (&entry["size"], modified.as_second()),
            (&data.sizes[7].into(), data.tree.files[7].modified / 1_000)
        );
        // A whole tree is not uploaded again: a file that is gone stays away.
        answer(base.ask(Method::DELETE, &format!("/v1/fs{path}"))).await.unwrap();
        data.upload(&base, &stop).await.unwrap();
        assert_eq!(stat().await.0, StatusCode::NOT_FOUND);
        assert!(clean_up(&base).await.unwrap() && !clean_up(&base).await.unwrap());

        let by_tom = base.ask(Method::PUT, &format!("/v1/fs{ROOT}/")).basic_auth("tom", None::<&str>);
        assert!(answer(by_tom).await.unwrap().0.is_success());
        for error in [data.upload(&base, &stop).await.unwrap_err(), clean_up(&base).await.unwrap_err()] {
            assert!(error.to_string().contains("was not made by a load test, but by tom"), "{error:#}");
        }
    }

    #[test]
    fn sizes_and_popularity_are_as_described() {
        let data = Dataset::new(20_000, 1).unwrap();
        let larger = |than| data.sizes.iter().filter(|size| **size > than).count();
        // A part of 1 / 2 and of 2.7 % (ln(32) / 1.8 = 1.93 deviations): standard deviations are 71 and 23.
        assert!(larger(4096).abs_diff(10_000) < 350 && larger(128 << 10).abs_diff(540) < 115, "{}", larger(128 << 10));
        let data = Dataset::new(1_000, 1).unwrap();
        let mut random = StdRng::seed_from_u64(3);
        let drawn: Vec<String> = (0..100_000).map(|_| data.draw(&mut random).1).collect();
        // The sum of 1 / k^0.99 over 1 to 1,000 is 7.73: the first has 12.9 %, the tenth 1.32 %, the last 0.014 %.
        for (rank, expected) in [(1, 12_400..13_500), (10, 1_100..1_550), (1_000, 0..60)] {
            let path = data.paths(data.popular[rank - 1]).1;
            let count = drawn.iter().filter(|drawn| **drawn == path).count();
            assert!(expected.contains(&count), "{rank}: {count}");
        }
    }
}
