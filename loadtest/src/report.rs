//! The results as a table.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::Options;
use crate::regions::REGIONS;
use crate::run::Results;

pub fn render(options: &Options, results: &[Results]) -> String {
    let mut costs = Table::new();
    costs.load_style(ASCII_MARKDOWN);
    costs.set_header(["operation", "layout", "count", "per second", "p50 us", "p99 us"]);
    let operations = results.first().map(|r| r.operations.len()).unwrap_or_default();
    for at in 0..operations {
        for result in results {
            if let Some((operation, figures)) = result.operations.get(at) {
                costs.add_row([
                    (*operation).to_owned(),
                    result.layout.to_owned(),
                    figures.count.to_string(),
                    format!("{:.0}", figures.per_second),
                    figures.p50.to_string(),
                    figures.p99.to_string(),
                ]);
            }
        }
    }
    let mut regions = Table::new();
    regions.load_style(ASCII_MARKDOWN);
    regions.set_header(["layout", "table", "hottest region's share", "x mean"]);
    for result in results {
        for (table, share) in &result.hottest {
            regions.add_row([
                result.layout.to_owned(),
                (*table).to_owned(),
                format!("{:.1} %", share * 100.0),
                format!("{:.2}", share * REGIONS as f64),
            ]);
        }
    }
    format!(
        "{} files, {} clients, seed {}, one store each on this machine\n\n{costs}\n\n\
         One tree imported in order, over {REGIONS} regions of equally many rows, windows of 1,000 writes:\n\n{regions}\n\n\
         The naive layout has no order by time: each time range scans the whole table, one at a time.\n\
         The uuid layout writes seven rows a file (entry, file, five hints), the naive one a single row.",
        options.size, options.clients, options.seed
    )
}
