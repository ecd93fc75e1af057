//! A small report with something in every part, for tests.

use std::collections::BTreeMap;

use super::model::{Costs, Figures, HotSpot, HttpRun, Limit, Measured, Report, Spread, Work};

pub fn full() -> Report {
    let mut report = Report::default();
    report.meta.complete = true;
    report.meta.notes = vec!["a <script>alert(1)</script> & more".into()];
    report.meta.versions.insert("rocksdb".into(), "11.8.1".into());
    let curve = vec![(0.0, 40), (50.0, 80), (99.0, 1_240), (100.0, 5_000)];
    let figures = |per_second, p50_us, p99_us| {
        // The slower layout was fast in another round.
        let last = if per_second < 50_000.0 { 1.1 } else { 0.8 };
        let rounds = vec![per_second, per_second * 0.9, per_second * last];
        let all = Figures { per_second, p50_us, p99_us, count: 1_000, curve: curve.clone(), ..Figures::default() };
        let work = Some(Work { reads: Some(1.0), cpu_us: 12.5, ..Work::default() });
        let one = Figures { clients: Some(1), work, ..all.clone() };
        let all = Figures { work, ..all };
        Measured::Figures(Box::new(Figures { clients: Some(64), rounds, one_client: Some(Box::new(one)), ..all }))
    };
    let unsupported = Measured::Unsupported { unsupported: "no order by time, <script>".into() };
    let naive = BTreeMap::from([("stat".into(), figures(52_000.0, 60, 900)), ("period".into(), unsupported)]);
    let uuid = BTreeMap::from([("stat".into(), figures(41_234.5, 80, 1_240)), ("period".into(), figures(900.0, 7, 8))]);
    report.layouts = BTreeMap::from([("fullpath".into(), naive), ("uuid".into(), uuid)]);
    let spread = Spread {
        hottest_over_mean: 16.0,
        floor: 1.05,
        gini: 0.9375,
        heat: vec![vec![0, 16], vec![8, 8]],
        ..Spread::default()
    };
    for layout in ["fullpath", "uuid"] {
        report.regions.insert(layout.into(), BTreeMap::from([("file".into(), spread.clone())]));
        let costs = Costs { files: 1_000, table_bytes: BTreeMap::from([("file".into(), 80_000)]), ..Costs::default() };
        report.costs.insert(layout.into(), costs);
    }
    let hot =
        HotSpot { load: "one tree".into(), layout: "uuid".into(), table: "file".into(), spread, ..HotSpot::default() };
    report.hot_spots.push(hot);
    for of_peak in [0.25, 0.9] {
        let (mix, offered_per_second, p99_us) = ("stat <script>".into(), of_peak * 20_000.0, 800);
        let run = HttpRun { mix, of_peak, open_loop: true, offered_per_second, p99_us, ..HttpRun::default() };
        report.http.push(HttpRun { curve: curve.clone(), ..run });
    }
    for (ratio, met) in [(0.91, true), (0.4, false)] {
        let operation = format!("stat <script> {ratio}");
        report.limits.push(Limit { operation, ratio, met, goal: ">= 0.85".into(), ..Limit::default() });
    }
    report
}

/// The same, with no number that is one.
pub fn not_numbers() -> Report {
    let mut report = full();
    for measured in report.layouts.values_mut().flat_map(BTreeMap::values_mut) {
        if let Measured::Figures(figures) = measured {
            figures.per_second = f64::NAN;
            figures.curve = vec![(f64::NAN, 0), (f64::INFINITY, u64::MAX)];
        }
    }
    for spread in report.regions.values_mut().flat_map(BTreeMap::values_mut) {
        *spread = Spread { hottest_over_mean: f64::NAN, gini: f64::INFINITY, heat: vec![vec![]], ..Spread::default() };
    }
    for costs in report.costs.values_mut() {
        costs.files = 0;
        costs.disk_bytes_per_file = f64::NAN;
        costs.write_amplification = Some(f64::NEG_INFINITY);
    }
    for run in &mut report.http {
        run.offered_per_second = f64::INFINITY;
        run.of_peak = f64::NAN;
        run.curve = vec![(101.0, 1)];
    }
    for limit in &mut report.limits {
        limit.ratio = f64::NAN;
        limit.goal = "<= unknown".into();
    }
    report
}
