//! The tables of a report that are files too: what their rows say beside the members of the model.

use serde_json::{Value, json};

use super::model::{HotSpot, HttpRun, Limit, Measured, REGIONS, Report, Spread};
use super::numbers::{figure, grouped, percent};
use super::order::{self, figures, layouts};
use super::ratios;
use super::table::Table;

/// Those of the CSV files, the ones without a page too.
pub fn all(report: &Report) -> Vec<Table> {
    vec![
        rates(report),
        work(report),
        Table::new("ratios", ratios::rows(report)),
        costs(report),
        bytes(report),
        regions(report),
        hot_spots("hot_spots", &report.hot_spots),
        goals(report),
        mixes(report),
    ]
}

/// A bar from zero to a part of something.
fn bar(part: f64, class: &str, marks: &[f64]) -> Value {
    json!([0.0, part, class, marks])
}

pub fn rates(report: &Report) -> Table {
    let rows = order::measured(report).map(|(operation, layout, measured)| {
        let rate = |layout| Some(figures(report, layout, operation)?.per_second);
        let fastest = layouts(report).into_iter().filter_map(rate).fold(0.0, f64::max);
        let name = json!({"operation": operation, "layout": layout});
        let Measured::Figures(found) = measured else { return json!([name, measured]) };
        let bar = json!({"per_second_bar": bar(found.per_second / fastest, "more", &[])});
        let range = found.range().map(|(low, high)| {
            let more = format!("{} to {}", figure(low), figure(high));
            json!({"per_second_more": more, "lowest_per_second": low, "highest_per_second": high})
        });
        json!([name, bar, range, found])
    });
    Table::new("rates", rows)
}

pub fn work(report: &Report) -> Table {
    let work = order::measured(report).filter_map(|(operation, layout, _)| {
        let work = order::work(report, layout, operation)?;
        Some(json!([{"operation": operation, "layout": layout}, work]))
    });
    Table::new("work", work)
}

pub fn costs(report: &Report) -> Table {
    let most = report.costs.values().map(|costs| costs.disk_bytes_per_file).fold(0.0, f64::max);
    let rows = layouts(report).into_iter().filter_map(|layout| {
        let costs = report.costs.get(layout)?;
        let part =
            |(table, all): (&String, &u64)| format!("{table} {}", figure(*all as f64 / costs.files.max(1) as f64));
        let tables = costs.table_bytes.iter().map(part).collect::<Vec<_>>().join(", ");
        let renamed = costs.rename_ms.map(|_| format!("{} files", grouped(costs.rename_files)));
        let bar = bar(costs.disk_bytes_per_file / most, "more", &[]);
        let more = json!({"by_table": tables, "disk_bytes_per_file_bar": bar, "rename_ms_more": renamed});
        Some(json!([{"layout": layout}, costs, more]))
    });
    Table::new("costs", rows)
}

fn bytes(report: &Report) -> Table {
    let each = report.costs.iter().flat_map(|(layout, costs)| costs.table_bytes.iter().map(move |of| (layout, of)));
    Table::new("bytes", each.map(|(layout, (table, all))| json!([{"layout": layout, "table": table, "bytes": all}])))
}

pub fn regions(report: &Report) -> Table {
    let layouts = layouts(report).into_iter().filter_map(|layout| Some((layout, report.regions.get(layout)?)));
    let rows = layouts.flat_map(|(layout, tables)| {
        tables.iter().map(move |(table, found)| json!([{"layout": layout, "table": table}, found, heat(found)]))
    });
    Table::new("regions", rows)
}

/// The bar of the hottest region, up to all in one.
fn heat(spread: &Spread) -> Value {
    let [hottest, floor, worst] =
        [spread.hottest_over_mean, spread.floor, spread.worst].map(|heat| heat / REGIONS as f64);
    json!({"hottest_over_mean_bar": bar(hottest, "less", &[floor, worst])})
}

pub fn hot_spots<'a>(id: &str, spots: impl IntoIterator<Item = &'a HotSpot>) -> Table {
    Table::new(id, spots.into_iter().map(|spot| json!([spot, spot.spread, heat(&spot.spread)])))
}

pub fn goals(report: &Report) -> Table {
    /// Bars of ratios end here.
    const GREATEST: f64 = 2.0;
    let row = |limit: &Limit| {
        let goal = limit.goal.trim_start_matches(['<', '>', '=', ' ']).parse().map(|goal: f64| goal / GREATEST);
        let numbers = limit.raw.iter().chain(&limit.also).map(|(name, value)| format!("{name} {}", figure(*value)));
        let about = std::iter::once(limit.limit_is.clone()).chain(numbers).chain(limit.note.clone());
        let about = about.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        let bar =
            bar(limit.ratio / GREATEST, if limit.met { "more" } else { "less" }, &goal.into_iter().collect::<Vec<_>>());
        json!([limit, {"ratio_bar": bar, "about": about}])
    };
    Table::new("goals", report.limits.iter().map(row))
}

pub fn mixes(report: &Report) -> Table {
    let row = |run: &HttpRun| {
        let kind = if run.open_loop { format!("open, {}", percent(run.of_peak)) } else { "closed".to_owned() };
        let marks = [(run.generator_bound, "generator at its limit"), (run.interrupted, "cut short")];
        let marks = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark.to_owned());
        let failures = run.failures.iter().map(|(kind, count)| format!("{kind}: {count}"));
        json!([run, {"loop": kind, "notes": marks.chain(failures).collect::<Vec<_>>().join("; ")}])
    };
    Table::new("mixes", report.http.iter().map(row))
}
