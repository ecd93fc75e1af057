//! A small report with something in every member, for tests: some text of it looks like markup.

use std::collections::BTreeMap;

use super::model::{AtRate, Costs, Figures, HotSpot, HttpRun, Limit, Measured, Report, Spread, Work};

/// Layouts with how fast they are; each has five rounds.
const LAYOUTS: [(&str, f64); 5] =
    [("fullpath", 1.0), ("tree", 0.2), ("uuid", 0.6), ("uuid-cells", 0.59), ("drive", 0.3)];

pub fn figures(clients: usize, per_second: f64, work: Work) -> Figures {
    let rounds = [1.0, 0.95, 1.05, 0.98, 1.02].map(|part| part * per_second).to_vec();
    let all = Figures { per_second, p50_us: 60, p99_us: 1_240, count: 1_000, rounds, ..Figures::default() };
    Figures { clients: Some(clients), work: Some(work), note: Some("a <script>".into()), ..all }
}

pub fn full() -> Report {
    let mut report = Report::default();
    report.meta.complete = true;
    report.meta.clients = 64;
    report.meta.notes = vec!["a <script>alert(1)</script> & more".into()];
    report.meta.settings.insert("ms".into(), "500".into());
    let curve = vec![(0.0, 40), (50.0, 80), (99.0, 1_240), (100.0, 5_000)];
    let heat = vec![vec![0, 16], vec![8, 8]];
    for (at, (layout, factor)) in LAYOUTS.into_iter().enumerate() {
        let one = |n| Some(factor * n);
        let work = Work {
            reads: one(1.0),
            rows_read: one(2.0),
            cells_read: one(3.0),
            bytes_read: one(4.0),
            ..Work::default()
        };
        let work =
            Work { commits: one(5.0), cells_written: one(9.0), bytes_written: one(7.0), syncs: one(8.0), ..work };
        let alone = Some(Box::new(figures(1, 9_000.0 * factor, work)));
        let at_rate = Some(AtRate { per_second: 100.0, p50_us: 50, p99_us: 90, max_us: 99, ..AtRate::default() });
        let many = Figures { one_client: alone, at_rate, ..figures(64, 52_000.0 * factor, work) };
        let renamed = figures(1, 10.0 / factor, work);
        let cannot = Measured::Unsupported { unsupported: "no order by time, <script>".into() };
        let all = [("stat", many.clone()), ("create", many), ("rename_folder", renamed)];
        let all = all.map(|(name, figures)| (name.to_owned(), Measured::Figures(Box::new(figures))));
        report.layouts.insert(layout.into(), all.into_iter().chain([("time_period".to_owned(), cannot)]).collect());
        let hottest_over_mean = 16.0 - 3.0 * at as f64;
        let spread = Spread { hottest_over_mean, floor: 1.05, heat: heat.clone(), ..Spread::default() };
        report.regions.insert(layout.into(), BTreeMap::from([("file".into(), spread.clone())]));
        let known =
            Costs { cells_per_file: Some(1.0), write_amplification: Some(2.0), open_ms: Some(3.0), ..Costs::default() };
        let known = Costs { index_and_filter_bytes: Some(2_048), rename_ms: Some(12.0), rename_files: 1_000, ..known };
        let table_bytes = BTreeMap::from([("file".into(), 80_000)]);
        report.costs.insert(layout.into(), Costs { files: 1_000, disk_bytes_per_file: 80.0, table_bytes, ..known });
        let [load, table, remedy] = ["64 users import", "all tables", "none"].map(str::to_owned);
        let spot = HotSpot { load, layout: layout.into(), table, remedy, spread, ..HotSpot::default() };
        let spot = HotSpot { splits: "at quantiles".into(), cost: Some("a | b".into()), get: Some(1), ..spot };
        report.hot_spots.push(HotSpot { list: Some(1), scan: Some(16), ..spot });
    }
    for of_peak in [0.25, 0.9] {
        let (mix, offered_per_second, p99_us) = ("stat <script>".into(), of_peak * 20_000.0, 800);
        let run = HttpRun { mix, of_peak, open_loop: true, offered_per_second, p99_us, ..HttpRun::default() };
        report.http.push(HttpRun { curve: curve.clone(), generator_bound: true, ..run });
    }
    for (ratio, met) in [(0.91, true), (0.4, false)] {
        let [operation, unit, limit_is] = ["stat <script>", "requests/s", "static handler"].map(str::to_owned);
        let limit = Limit { operation, unit, limit_is, ratio, met, goal: ">= 0.85".into(), ..Limit::default() };
        report.limits.push(Limit { note: Some("noted".into()), profile: Some("profiles/a.svg".into()), ..limit });
    }
    report
}
