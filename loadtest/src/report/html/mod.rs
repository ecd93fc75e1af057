//! The report as one page that needs nothing besides itself: no script, no network, no font.

mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::model::{Meta, Report};
use super::phrases;
use super::plots::{self, Plot};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(report: &Report) -> anyhow::Result<String> {
    let sections = [
        ("operations", "Operations", operations(report)?),
        ("latency", "Latency", latency(report)?),
        ("regions", "Regions", regions(report)?),
        ("costs", "Costs", costs(report)?),
        ("http", "HTTP", http(report)?),
        ("limits", "Limits of the machine", limits(report)?),
        ("method", "Method", method(&report.meta)),
    ];
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Rowdrive load test" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Rowdrive load test" }
                    (headline(&report.meta))
                    nav aria-label="Contents" {
                        ul { @for (id, title, _) in &sections { li { a href={ "#" (id) } { (title) } } } }
                    }
                }
                main {
                    @for (id, title, content) in &sections {
                        section { h2 id=(id) { (title) } (content) }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// Which run this was, and at first sight whether it is whole.
fn headline(meta: &Meta) -> Markup {
    html! {
        @if let Some(why) = phrases::partial(meta) {
            p.partial role="alert" { strong { "partial: " } (why) }
        }
        dl.facts {
            @for (name, value) in phrases::facts(meta) { div { dt { (name) } dd { (value) } } }
        }
        @if meta.complete && !meta.notes.is_empty() {
            ul { @for note in &meta.notes { li { (note) } } }
        }
    }
}

fn none(what: &str) -> Markup {
    html! { p.none { "Not measured in this run: " (what) "." } }
}

/// Plots side by side under one caption; nothing if there are none.
fn figures(plots: &[Plot], caption: &str) -> Markup {
    html! {
        @if !plots.is_empty() {
            figure {
                figcaption { (caption) }
                div.plots {
                    @for plot in plots { div.plot role="img" aria-label=(plot.title) { (PreEscaped(&plot.svg)) } }
                }
            }
        }
    }
}

fn operations(report: &Report) -> anyhow::Result<Markup> {
    if report.layouts.is_empty() {
        return Ok(none("what the layouts do"));
    }
    let bars = plots::operations::plots(report)?;
    Ok(html! {
        p {
            "Each layout holds the same tree in the same store and does the same operations, with one client and with "
            "many, each of which sends its next request when the last one is answered. An operation that takes longer "
            "than 20 ms is measured with one client alone. Rates are medians over the rounds; every round begins with "
            "the tree as it was loaded."
        }
        (tables::ratios(report))
        (figures(&bars, "Longer is faster. The scale is logarithmic and does not start at zero: compare the printed \
            numbers, not the lengths."))
        (tables::operations(report))
        (tables::work(report))
    })
}

fn latency(report: &Report) -> anyhow::Result<Markup> {
    let plots = plots::latency::plots(report)?;
    if plots.is_empty() {
        return Ok(none("latency by percentile"));
    }
    Ok(figures(
        &plots,
        "Lower is faster; further right is rarer. At 99 % a line shows the latency that one request in a hundred exceeds; \
         each label to the right stands for a tenth of the requests of the one before. A line ends where one request is \
         left: its slowest. Both scales are logarithmic; the one of latency is each plot's own.",
    ))
}

fn regions(report: &Report) -> anyhow::Result<Markup> {
    if report.regions.is_empty() && report.hot_spots.is_empty() {
        return Ok(none("the spread over regions"));
    }
    let mut maps = Vec::new();
    for (layout, tables) in &report.regions {
        for (table, spread) in tables {
            maps.extend(plots::heat::plot(format!("{layout}: {table}"), spread)?);
        }
    }
    Ok(html! {
        p {
            "Where the writes of one import fall, if each table is cut into regions as a cluster would do. A layout whose "
            "keys follow the order of the import heats one region at a time, and the others wait."
        }
        @if !maps.is_empty() {
            ul.scale aria-label="Colours of the maps" {
                @for (color, meaning) in plots::heat::scale() { li { i style={ "background:" (color) } {} (meaning) } }
            }
        }
        (figures(&maps, "Time goes to the right, regions go upwards in the order of their keys. The colour is a region's \
            requests in a window through the mean of all regions in it, the same in all maps: one colour all over is \
            even, a dark spot among grey is a hot one. In a long run several windows share a column."))
        (tables::regions(report))
        (tables::hot_spots(report))
    })
}

fn costs(report: &Report) -> anyhow::Result<Markup> {
    if report.costs.is_empty() {
        return Ok(none("what a layout costs"));
    }
    let bars: Vec<Plot> = plots::bytes::plot(report)?.into_iter().collect();
    Ok(html! {
        p { "What a layout pays for what it can do: keys, bytes, time to load and to open, and renaming a folder." }
        (tables::costs(report))
        (figures(&bars, "Shorter is cheaper: bytes on disk for each file after compaction, by table. The number at the end \
            is their sum."))
    })
}

fn http(report: &Report) -> anyhow::Result<Markup> {
    if report.http.is_empty() {
        return Ok(none("requests over HTTP"));
    }
    let by_load = plots::http::by_load(&report.http)?;
    let by_percentile = plots::http::by_percentile(&report.http)?;
    Ok(html! {
        p {
            "A closed loop finds the peak of each mix; open loops then offer a part of that peak on a fixed schedule. "
            "Latency counts from the time at which a request was to be sent, so that a stall is not hidden by requests "
            "that waited for it."
        }
        (figures(&by_load, "Right is more load, lower is faster; a line that bends upwards is a server near its end. A \
            hollow mark is a load at which the generator itself had no time left. Both scales are logarithmic, and the \
            same in both plots."))
        (figures(&by_percentile, "Latency by percentile at each load, to be read as in the section on latency; the scale \
            of latency is each plot's own."))
        (tables::http(report))
    })
}

fn limits(report: &Report) -> anyhow::Result<Markup> {
    if report.limits.is_empty() {
        return Ok(none("what the machine can do"));
    }
    let bars: Vec<Plot> = plots::limits::plot(report)?.into_iter().collect();
    Ok(html! {
        p {
            "Each operation beside the simplest program that does the same work on this machine. The ratio is ours "
            "through that limit, a median over rounds that took turns."
        }
        (figures(&bars, "The bar is the ratio, the black stroke across it the goal: where the goal is \u{201c}>=\u{201d}, \
            a bar should reach the stroke; where it is \u{201c}<=\u{201d}, it should end before it. Filled is met, \
            outlined is missed; beyond 3 it is cut."))
        (tables::limits(report))
    })
}

fn method(meta: &Meta) -> Markup {
    html! {
        p {
            "The same seeded tree goes into each layout, on the same store with the same options, one after the other "
            "on one machine: the differences are those of the row keys, not of clusters or networks. Throughput under "
            "“Operations” comes from a closed loop of " (meta.clients) " requests in flight, so its latencies include "
            "waiting for one another."
        }
        p {
            "Regions are counted, not run: the keys that a layout writes are sorted into ranges, and windows of a second "
            "are taken from the order of the load. “Hottest over mean” is the median over windows; the Gini coefficient "
            "is 0 when all regions get as much, and (regions - 1) / regions when one gets all."
        }
        p {
            "Both sides of the trade are shown: a layout that is faster to list or to search by time pays with more "
            "keys and bytes, and one that spreads its writes reads more ranges in a scan. A single figure is one run on "
            "one machine; compare runs only from the same machine with the same seed and size."
        }
        p.soft { "The numbers behind this page, with all curves and windows, are in report.json and the CSV files beside it." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    /// The SVG elements of a page.
    fn drawn(page: &str) -> Vec<&str> {
        page.split("<svg").skip(1).map(|rest| &rest[..rest.find("</svg>").unwrap()]).collect()
    }

    #[test]
    fn every_plot_is_there_and_is_well_formed() {
        let page = page(&samples::full()).unwrap();
        let plots = drawn(&page);
        // Operations, latency of two of them, a map for each of two layouts, bytes, two by load, one mix, limits.
        assert_eq!(plots.len(), 1 + 2 + 2 + 1 + 2 + 1 + 1);
        for plot in plots {
            let whole = format!("<svg{plot}</svg>");
            let parsed = roxmltree::Document::parse(&whole).unwrap();
            assert!(parsed.descendants().any(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text"))));
        }
    }

    #[test]
    fn text_of_the_run_is_never_markup() {
        let page = page(&samples::full()).unwrap();
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
        // In a plot, as in the table beside it.
        assert!(drawn(&page).iter().any(|plot| plot.contains("stat &lt;script&gt;")));
    }

    #[test]
    fn the_page_needs_nothing_besides_itself() {
        let page = page(&samples::full()).unwrap().replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
        let links: Vec<&str> = page.split("href=\"").skip(1).collect();
        assert!(!links.is_empty() && links.iter().all(|link| link.starts_with('#')));
    }

    #[test]
    fn an_empty_report_is_a_page_without_plots() {
        let page = page(&Report::default()).unwrap();
        assert!(drawn(&page).is_empty());
        assert!(page.contains("Not measured in this run: requests over HTTP."));
    }

    #[test]
    fn a_partial_report_says_so_before_anything_else() {
        let mut report = samples::full();
        assert!(!page(&report).unwrap().contains("partial: "));
        report.meta.complete = false;
        report.meta.notes = vec!["interrupted after <stat>".into()];
        let page = page(&report).unwrap();
        let banner = page.find("<strong>partial: </strong>interrupted after &lt;stat&gt;").unwrap();
        assert!(banner < page.find("<dl").unwrap());
    }

    #[test]
    fn what_is_no_number_breaks_nothing() {
        let page = page(&samples::not_numbers()).unwrap();
        assert!(!page.contains("NaN") && !page.contains("inf<"), "{page}");
        for plot in drawn(&page) {
            roxmltree::Document::parse(&format!("<svg{plot}</svg>")).unwrap();
        }
    }

    #[test]
    fn one_layout_and_nothing_supported_are_a_page_too() {
        let mut report = samples::full();
        report.layouts.remove("uuid");
        report.costs.remove("uuid");
        report.layouts.get_mut("fullpath").unwrap().remove("stat");
        let page = page(&report).unwrap();
        assert!(page.contains("not supported: no order by time, &lt;script&gt;"));
        assert!(page.contains("Not measured in this run: latency by percentile."));
    }
}
