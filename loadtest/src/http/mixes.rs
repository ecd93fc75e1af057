//! What is asked for: each request follows from the seed and its number, so that a run can be repeated.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::base::Base;
use super::shape::{ROOT, Shape};

/// The name `loadtest` in HTTP Basic. The server keeps it as the creator of what is stored.
pub const AS_LOADTEST: HeaderValue = HeaderValue::from_static("Basic bG9hZHRlc3Q6");
pub const CREATOR: &str = "loadtest";

/// Bytes of an upload.
const SMALL: u32 = 4096;
/// Uploads of a run are spread over so many folders.
const UPLOAD_FOLDERS: u64 = 64;
/// Entries of a page: as many as fit on a screen or two.
const PAGE: u32 = 100;
/// Days of a time page.
const PERIOD: i64 = 30;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// 4 KiB to a new name.
    UploadSmall,
    /// What is known of a file.
    Stat,
    /// The first 100 entries of a file's folder.
    List,
    /// The newest 100 files of 30 days.
    TimePage,
    /// A whole file.
    Download,
    /// 50 % stat, 20 % list, 15 % download, 10 % upload, 5 % time page: somebody who looks around.
    Mixed,
}

/// Of a hundred requests of [`Mix::Mixed`].
const WEIGHTS: [(Mix, u32); 5] =
    [(Mix::Stat, 50), (Mix::List, 20), (Mix::Download, 15), (Mix::UploadSmall, 10), (Mix::TimePage, 5)];

impl Mix {
    pub const ALL: [Self; 6] = [Self::UploadSmall, Self::Stat, Self::List, Self::TimePage, Self::Download, Self::Mixed];

    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UploadSmall => "upload small",
            Self::Stat => "stat",
            Self::List => "list",
            Self::TimePage => "time page",
            Self::Download => "download",
            Self::Mixed => "mixed",
        }
    }

    /// Itself, or one of those that it is mixed of.
    fn draw(self, random: &mut StdRng) -> Self {
        if self != Self::Mixed {
            return self;
        }
        let mut left = random.random_range(0..100);
        for (mix, weight) in WEIGHTS {
            if left < weight {
                return mix;
            }
            left -= weight;
        }
        Self::Stat
    }
}

/// The requests of one loop.
#[derive(Clone, Debug)]
pub struct Requests {
    pub base: Base,
    pub shape: Arc<Shape>,
    pub mix: Mix,
    pub seed: u64,
    /// Where its uploads go, below [`ROOT`]: of this loop alone, so that all names are new.
    pub uploads: Arc<str>,
}

impl Requests {
    /// The folder for the uploads of loop number `of` in the run that is called `run`.
    pub fn uploads(run: &str, of: usize) -> Arc<str> {
        format!("{ROOT}/{run}/uploads/{of}").into()
    }

    /// Request number `n`. Files are drawn by popularity, and folders through them.
    pub fn request(&self, n: u64) -> Request<Full<Bytes>> {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(n));
        let get = |target| self.base.request(Method::GET, target, Bytes::new());
        match self.mix.draw(&mut random) {
            Mix::UploadSmall => {
                let target = format!("/v1/fs{}/{}/{n}.bin", self.uploads, n % UPLOAD_FOLDERS);
                let mut put = self.base.request(Method::PUT, target, self.shape.content(n, SMALL));
                put.headers_mut().insert(AUTHORIZATION, AS_LOADTEST);
                put
            }
            Mix::List => {
                let at = self.shape.draw(&mut random);
                let folder = self.shape.files.get(at).map_or(0, |file| file.folder);
                get(format!("/v1/fs{}/?limit={PAGE}", self.shape.folder(folder)))
            }
            Mix::TimePage => {
                let days = self.shape.draw_period(&mut random, PERIOD);
                let (from, to) = (time(days.start), time(days.end));
                get(format!("/v1/files?under={}&from={from}&to={to}&limit={PAGE}", self.shape.root))
            }
            Mix::Download => get(format!("/v1/fs{}", self.shape.path(self.shape.draw(&mut random)))),
            Mix::Stat | Mix::Mixed => get(format!("/v1/stat{}", self.shape.path(self.shape.draw(&mut random)))),
        }
    }
}

/// RFC 3339, as `2026-01-02T00:00:00Z`, of seconds since 1970.
fn time(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn requests(mix: Mix, seed: u64) -> Requests {
        let shape = Arc::new(Shape::new(1, 1_000).unwrap());
        let base = Base::at("127.0.0.1:8080".parse().unwrap());
        Requests { base, shape, mix, seed, uploads: Requests::uploads("run-1", 0) }
    }

    fn kind(request: &Request<Full<Bytes>>) -> Mix {
        let target = request.uri().to_string();
        match request.method() {
            &Method::PUT => Mix::UploadSmall,
            _ if target.starts_with("/v1/stat/") => Mix::Stat,
            _ if target.starts_with("/v1/files?") => Mix::TimePage,
            _ if target.contains("/?limit=") => Mix::List,
            _ => Mix::Download,
        }
    }

    #[test]
    fn a_mix_keeps_to_its_weights() {
        let mixed = requests(Mix::Mixed, 5);
        let mut counts = BTreeMap::new();
        for n in 0..20_000 {
            *counts.entry(kind(&mixed.request(n)).name()).or_insert(0) += 1;
        }
        // The standard deviation of the largest is 71: six of them and more.
        let asked =
            [("stat", 10_000), ("list", 4_000), ("download", 3_000), ("upload small", 2_000), ("time page", 1_000)];
        for (name, count) in asked {
            assert!(i32::abs(counts[name] - count) < 450, "{name}: {}", counts[name]);
        }
        assert_eq!(WEIGHTS.iter().map(|(_, weight)| weight).sum::<u32>(), 100);
        for mix in Mix::ALL.into_iter().filter(|mix| *mix != Mix::Mixed) {
            let pure = requests(mix, 5);
            assert!((0..100).all(|n| kind(&pure.request(n)) == mix), "{mix:?}");
        }
    }

    #[test]
    fn everything_is_below_the_own_folder_and_no_target_is_lost() {
        for mix in Mix::ALL {
            let requests = requests(mix, 9);
            for n in 0..2_000 {
                let request = requests.request(n);
                let target = request.uri().to_string();
                let below = ["/v1/fs/loadtest/", "/v1/stat/loadtest/", "/v1/files?under=/loadtest/"];
                assert!(below.iter().any(|below| target.starts_with(below)) && !target.contains(".."), "{target}");
                assert_eq!(request.headers()["host"], "127.0.0.1:8080");
                assert_eq!(request.method() == Method::PUT, target.contains("/run-1/uploads/0/"), "{target}");
            }
        }
    }

    #[test]
    fn requests_repeat_with_their_seed_and_uploads_have_names_of_their_own() {
        let targets = |mix, seed| {
            let requests = requests(mix, seed);
            (0..500).map(|n| requests.request(n).uri().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(targets(Mix::Mixed, 3), targets(Mix::Mixed, 3));
        assert_ne!(targets(Mix::Mixed, 3), targets(Mix::Mixed, 4));
        assert_eq!(targets(Mix::UploadSmall, 3).into_iter().collect::<BTreeSet<_>>().len(), 500);
        // 2023-01-01 and 30 days, at the earliest.
        assert_eq!((time(1_672_531_200).to_string(), PERIOD), ("2023-01-01T00:00:00Z".to_owned(), 30));
    }
}
