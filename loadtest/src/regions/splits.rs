//! The regions of a table: where it is split, and which of 16 servers has which region.

use super::keys::Access;
use crate::report::model::REGIONS;

/// How a table is split: a name, and the first key of a region, by its number and the table's own cells; none if the
/// table begins as one region.
#[derive(Clone, Copy)]
pub struct Splitting(pub &'static str, fn(usize, &[Vec<u8>]) -> Option<Vec<u8>>);

/// Before there is data, for binary keys: HBase's `UniformSplit`.
pub const EVEN: Splitting = Splitting("even", |n, _| Some(vec![(n * 256 / REGIONS) as u8]));
/// For keys that begin with hexadecimal digits: HBase's `HexStringSplit`.
pub const HEXADECIMAL: Splitting = Splitting("hexadecimal", |n, _| Some(format!("{:08x}", n << 28).into_bytes()));
/// At the quantiles of the table's own cells: the splits of a cluster that has the data already.
pub const QUANTILES: Splitting = Splitting("at quantiles", |n, cells| cells.get(n * cells.len() / REGIONS).cloned());
/// Not before there is data. A region with a sixteenth of the cells of the whole load is full and splits at its middle;
/// each half goes to the server with the fewest regions and, of these, the fewest requests until then.
///
/// HBase is slower and less simple: its first splits come earlier (`SteppingSplitPolicy`), both halves stay on the
/// server of the whole until the balancer moves them, and neither answers for a moment.
pub const GROWING: Splitting = Splitting("growing", |_, _| None);

impl Splitting {
    pub fn depends_on_cells(self) -> bool {
        [QUANTILES.0, GROWING.0].contains(&self.0)
    }
}

/// The regions of a table.
pub struct Regions {
    full: usize,
    /// By their first keys.
    regions: Vec<Region>,
    /// By server.
    requests: [usize; REGIONS],
}

#[derive(Default)]
struct Region {
    start: Vec<u8>,
    server: usize,
    /// Of its cells, if it can split.
    keys: Vec<Vec<u8>>,
    /// Cells at which it splits; 0 if never.
    full: usize,
}

impl Regions {
    /// For the row keys of a table's cells.
    ///
    /// A row counts as often as it was written, since a row of many cells is larger. A row of more than a sixteenth of
    /// all cells has a region for itself, and leaves others without a row: no region ends within a row.
    pub fn new(splitting: Splitting, mut cells: Vec<Vec<u8>>) -> Self {
        cells.sort_unstable();
        let start = |n| (splitting.1)(n, &cells);
        let split = (1..REGIONS).filter_map(|n| Some(Region { start: start(n)?, server: n, ..Region::default() }));
        let full = if splitting.0 == GROWING.0 { (cells.len() / REGIONS).max(2) } else { 0 };
        let first = Region { full, ..Region::default() };
        Self { full, regions: [first].into_iter().chain(split).collect(), requests: [0; REGIONS] }
    }

    /// The server of the region that a key is in.
    pub fn server(&mut self, access: Access, key: &[u8]) -> usize {
        let at = self.regions.partition_point(|region| region.start.as_slice() <= key).saturating_sub(1);
        let Some(region) = self.regions.get_mut(at) else { return 0 };
        let server = region.server;
        self.requests.iter_mut().skip(server).take(1).for_each(|requests| *requests += 1);
        if access == Access::Write && region.full > 0 {
            region.keys.push(key.to_vec());
            if region.keys.len() >= region.full {
                self.split(at);
            }
        }
        server
    }

    fn split(&mut self, at: usize) {
        let mut lower = self.regions.remove(at);
        lower.keys.sort_unstable();
        let start = lower.keys.get(lower.keys.len() / 2).cloned().unwrap_or_default();
        let cut = lower.keys.partition_point(|key| *key < start);
        if cut == 0 {
            // Its first row has half of the cells.
            lower.full *= 2;
            return self.regions.insert(at, lower);
        }
        let regions = |server| self.regions.iter().filter(|region| region.server == server).count();
        let mut servers: Vec<_> = (0..REGIONS).zip(self.requests).map(|(n, asked)| (regions(n), asked, n)).collect();
        servers.sort_unstable();
        let upper = Region { start, keys: lower.keys.split_off(cut), ..Region::default() };
        for (half, (_, _, server)) in [upper, lower].into_iter().zip(servers) {
            self.regions.insert(at, Region { server, full: self.full, ..half });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers<const N: usize>(regions: &mut Regions, keys: [&[u8]; N]) -> [usize; N] {
        keys.map(|key| regions.server(Access::Write, key))
    }

    #[test]
    fn a_split_key_is_the_first_of_its_region() {
        let regions = |splitting, keys: Vec<u8>| Regions::new(splitting, keys.iter().map(|key| vec![*key]).collect());
        let keys = [&b""[..], b"\x0f\xff", b"\x10", b"\x1f", b"\x20", b"\xef\xff", b"\xf0"];
        assert_eq!(servers(&mut regions(EVEN, vec![]), keys), [0, 0, 1, 1, 2, 14, 15]);
        let keys = [&b"0fff"[..], b"10000000", b"9fffffffff", b"a0000000", b"f", b"f0000000"];
        assert_eq!(servers(&mut regions(HEXADECIMAL, vec![]), keys), [0, 1, 9, 10, 14, 15]);
        // Ten keys each.
        let mut quantiles = regions(QUANTILES, (0..160).rev().collect());
        assert_eq!(servers(&mut quantiles, [&[0], &[9], &[10], &[149], &[150], &[255]]), [0, 0, 1, 14, 15, 15]);
        // A row larger than a region leaves others idle.
        let mut large = regions(QUANTILES, (0..16).map(|n: u8| n.max(8)).collect());
        assert_eq!(servers(&mut large, [&[7], &[8], &[9], &[15]]), [0, 8, 9, 15]);
    }

    #[test]
    fn a_growing_table_splits_full_regions_at_their_middle() {
        // 64 cells: a region is full with four.
        let growing = || Regions::new(GROWING, vec![Vec::new(); 64]);
        let mut table = growing();
        assert_eq!(servers(&mut table, [b"a", b"b", b"c", b"d"]), [0; 4]);
        // c and d are on server 1, a and b on server 2: server 0 has had requests.
        assert_eq!(servers(&mut table, [b"d", b"b", b"c"]), [1, 2, 1]);
        // c, c are on server 4 now, d, d on server 3; reads do not fill them.
        assert_eq!([b"c", b"d", b"d"].map(|key| table.server(Access::Read, key)), [4, 3, 3]);
        assert_eq!(servers(&mut table, [b"e", b"e", b"d"]), [3, 3, 6]);
        // A row is never divided.
        let mut table = growing();
        assert_eq!(servers(&mut table, [b"b"; 20]), [0; 20]);
        assert_eq!(servers(&mut table, [b"a"; 12]), [0; 12]);
        assert_eq!(servers(&mut table, [b"a", b"b"]), [2, 1]);
    }
}
