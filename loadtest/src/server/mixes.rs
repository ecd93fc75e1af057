//! The requests of a loop: each follows from the seed and its number, so that a run can be repeated.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::client::request;
use super::dataset::Dataset;
use super::loops::{PAGE, SMALL, time_page};

/// The creator `loadtest` in HTTP Basic.
const AS_LOADTEST: HeaderValue = HeaderValue::from_static("Basic bG9hZHRlc3Q6");
/// Uploads of a run are spread over so many folders.
const UPLOAD_FOLDERS: u64 = 64;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    /// As reports have it: `upload small`.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().replace('-', " "))
    }
}

/// The requests of one loop.
pub struct Requests {
    pub dataset: Arc<Dataset>,
    pub mix: Mix,
    pub seed: u64,
    /// The folder of its uploads: of this loop alone, so that all names are new.
    pub uploads: String,
}

impl Requests {
    /// Request number `n`. Files are drawn by popularity, and folders through them.
    pub fn request(&self, n: u64) -> Request<Full<Bytes>> {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(n));
        let mix = match self.mix {
            Mix::Mixed => {
                WEIGHTS.choose_weighted(&mut random, |(_, weight)| *weight).map_or(Mix::Stat, |(mix, _)| *mix)
            }
            pure => pure,
        };
        let target = match mix {
            Mix::UploadSmall => {
                let target = format!("/v1/fs{}/{}/{n}.bin", self.uploads, n % UPLOAD_FOLDERS);
                let mut put = request(Method::PUT, target, self.dataset.content(n, SMALL));
                put.headers_mut().insert(AUTHORIZATION, AS_LOADTEST);
                return put;
            }
            Mix::List => format!("/v1/fs{}/?limit={PAGE}", self.dataset.draw(&mut random).0),
            Mix::TimePage => format!("/v1/files?under={}&{}", self.dataset.root, time_page(random.random())),
            Mix::Download => format!("/v1/fs{}", self.dataset.draw(&mut random).1),
            Mix::Stat | Mix::Mixed => format!("/v1/stat{}", self.dataset.draw(&mut random).1),
        };
        request(Method::GET, target, Bytes::new())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_mix_repeats_keeps_to_its_weights_and_stays_in_its_folder() {
        let dataset = Arc::new(Dataset::new(1_000, 1).unwrap());
        for mix in Mix::value_variants() {
            let requests =
                |seed| Requests { dataset: dataset.clone(), mix: *mix, seed, uploads: "/loadtest/run-1".into() };
            let (one, same, other, mut counts) = (requests(5), requests(5), requests(90_000), BTreeMap::new());
            let mut others = 0;
            for n in 0..10_000 {
                let request = one.request(n);
                let target = request.uri().to_string();
                assert_eq!(target, same.request(n).uri().to_string());
                others += u32::from(target != other.request(n).uri().to_string());
                let kind = match request.method() {
                    &Method::PUT => Mix::UploadSmall,
                    _ if target.starts_with("/v1/stat/loadtest/tree-1-1000/") => Mix::Stat,
                    _ if target.starts_with("/v1/files?under=/loadtest/tree-1-1000&") => Mix::TimePage,
                    _ if target.ends_with("/?limit=100") => Mix::List,
                    _ => Mix::Download,
                };
                let fs = [Mix::UploadSmall, Mix::List, Mix::Download].contains(&kind);
                assert!(!fs || target.starts_with("/v1/fs/loadtest/") && !target.contains("//"), "{target}");
                *counts.entry(kind.name()).or_insert(0) += 1;
            }
            assert_eq!(others > 5_000, *mix != Mix::UploadSmall, "{others}");
            let expected = if *mix == Mix::Mixed { WEIGHTS.to_vec() } else { vec![(*mix, 100)] };
            for (part, weight) in expected {
                // The largest standard deviation is 50: six of them.
                assert!(u32::abs_diff(counts[&part.name()], weight * 100) < 300, "{mix:?}: {counts:?}");
            }
        }
        assert_eq!(Mix::UploadSmall.name(), "upload small");
    }
}
