//! What a report promises to those that read its files.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::folder::Folder;
use super::model::{Costs, Figures, Measured, Spread};
use super::order::{LAYOUTS, OPERATIONS, label};
use super::*;

const SAMPLE: &str = include_str!("sample.json");

/// A small report with something in every member; some text of it looks like markup.
fn sample() -> Report {
    serde_json::from_str(SAMPLE).unwrap()
}

#[test]
fn the_json_keeps_its_shape_and_an_earlier_report_moves_whole() {
    let parent = tempfile::tempdir().unwrap();
    let [dir, moved] = ["to/be/made", "moved"].map(|name| parent.path().join(name));
    let names = |dir: &Path| {
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        files.collect::<BTreeSet<_>>()
    };
    let set = |files: &str| files.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    // It says of which report the others are.
    assert_eq!(files(&sample()).unwrap().pop().unwrap().0, "report.json");
    let mut folder = Folder::lock(&dir).unwrap();
    assert!(Folder::lock(&dir).is_err());
    let begun = Report { meta: sample().meta, ..Report::default() };
    folder.write(&begun).unwrap();
    assert_eq!(names(&dir), set("report.json"));
    // What is written goes with the folder.
    std::fs::rename(&dir, &moved).unwrap();
    folder.write(&sample()).unwrap();
    assert!(!dir.exists() && folder.path() == moved.canonicalize().unwrap());
    let all = "costs.csv hot_spots.csv http.csv layouts.csv limits.csv limits.html limits.md ratios.csv regions.csv \
        report.html report.json report.md table_bytes.csv work.csv";
    assert_eq!(names(&moved), set(all));
    let read = |name| std::fs::read_to_string(moved.join(name)).unwrap();
    let [written, expected] = [&read("report.json"), SAMPLE].map(|json| serde_json::from_str::<Value>(json).unwrap());
    assert_eq!(written, expected);
    assert!(read("report.html").contains("href=\"limits.html\""));
    assert!(["layout", "directories"].iter().all(|other| !read("limits.md").contains(other)));

    // A run that measures nothing moves nothing. A move that was cut off goes on, and replaces nothing.
    drop(folder);
    drop(Folder::lock(&moved).unwrap());
    assert_eq!(names(&moved), set(all));
    let aside = moved.join("20260102T030405Z");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(moved.join("work.csv"), aside.join("work.csv")).unwrap();
    std::fs::write(aside.join("ratios.csv"), "mine").unwrap();
    assert!(Folder::lock(&moved).is_err());
    std::fs::remove_file(aside.join("ratios.csv")).unwrap();
    let mut folder = Folder::lock(&moved).unwrap();
    folder.write(&begun).unwrap();
    std::fs::write(moved.join("limits.csv"), "mine").unwrap();
    let limits = Report { limits: sample().limits, ..begun };
    assert!(folder.write(&limits).is_err());
    assert_eq!(read("limits.csv"), "mine");
    std::fs::remove_file(moved.join("limits.csv")).unwrap();
    folder.write(&limits).unwrap();
    assert_eq!((names(&aside), names(&moved).len()), (set(all), 5));
    drop(folder);
    // Two reports of the same second.
    assert!(!read("limits.html").contains("report.html") && Folder::lock(&moved).is_err());
}

#[test]
fn a_folder_that_cannot_be_made_or_is_of_others_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("load-test.md"), "").unwrap();
    let refused = |dir: &Path| format!("{:#}", Folder::lock(dir).map(|_| ()).unwrap_err());
    std::fs::create_dir(dir.path().join("report.html")).unwrap();
    assert!(refused(dir.path()).contains("report.html"));
    std::fs::remove_dir(dir.path().join("report.html")).unwrap();
    for name in ["limits.md", "work.csv", "report.json"] {
        Folder::lock(dir.path()).unwrap();
        let file = dir.path().join(name);
        std::fs::write(&file, r#"{"meta": {}}"#).unwrap();
        let [itself, below] = [refused(dir.path()), refused(&file.join("below"))];
        assert!(itself.contains(name) && itself.contains("--out"), "{itself}");
        assert!(below.contains("below") && below.contains("--out"), "{below}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn csv_columns_keep_their_names_and_each_of_them_is_filled() {
    // Those that programs may ask for.
    let kept = "layouts.csv layout operation per_second p50_us p99_us count note unsupported clients rounds \
        lowest_per_second highest_per_second one_client_per_second one_client_p50_us\n\
        work.csv layout operation reads rows_read cells_read bytes_read commits cells_written bytes_written syncs \
        cpu_us\nratios.csv operation layout reference clients median lowest highest rounds clear\n\
        costs.csv layout files refused load_seconds load_cpu_seconds disk_bytes_per_file cells_per_file \
        write_amplification index_and_filter_bytes open_ms rename_ms rename_files\n\
        table_bytes.csv layout table bytes\n\
        regions.csv layout table hottest_over_mean floor gini hottest_share idle_regions achieved\n\
        hot_spots.csv load layout table remedy splits hottest_over_mean floor gini hottest_share idle_regions achieved \
        cost\nlimits.csv operation unit ours limit limit_is ratio goal met note\n\
        http.csv mix of_peak open_loop connections offered_per_second per_second bytes_per_second errors p50_us p99_us \
        generator_bound";
    let all = pages::tables(&sample());
    for mut kept in kept.lines().map(|line| line.split(' ')) {
        let file = kept.next().unwrap();
        let table = all.iter().find(|table| table.file == file).unwrap();
        let missing = kept.find(|name| table.columns.iter().all(|column| column.member != *name));
        assert_eq!(missing, None, "{file}");
        for (at, column) in table.columns.iter().enumerate() {
            assert!(table.rows.iter().any(|row| !row[at].raw.is_empty()), "{file}: {}", column.member);
        }
    }
}

#[test]
fn pages_are_well_formed_need_nothing_else_and_say_first_that_a_run_is_partial() {
    let mut report = sample();
    let check = |report: &Report| {
        for page in pages::all(report) {
            let text = html::page(&page, None);
            roxmltree::Document::parse(&text[text.find("<body").unwrap()..text.find("</html>").unwrap()]).unwrap();
            assert!(text.contains("&lt;script&gt;") && !text.contains("<script"));
            let alone = text.replace("http://www.w3.org/2000/svg", "");
            let outside = ["http:", "https:", "src=", "@import", "url(", "<link"];
            assert!(outside.iter().all(|outside| !alone.contains(outside)));
            assert!(!text.contains("NaN") && !text.contains("inf<") && !text.contains("inf%"));
            let [partial, contents] = ["partial: ", "<nav"].map(|part| text.find(part));
            assert!(if report.meta.complete { partial.is_none() } else { partial < contents && partial.is_some() });
        }
    };
    check(&report);
    let ran_out = Measured::Unsupported { unsupported: model::RAN_OUT.into() };
    report.layouts.insert("tree".into(), [("move_file".to_owned(), ran_out)].into());
    report.meta.quick = true;
    let part = report.hot_spots[0].clone();
    report.hot_spots.push(model::HotSpot { layout: "tree".into(), ..part.clone() });
    report.hot_spots.insert(0, model::HotSpot { layout: "uuid".into(), table: "part".into(), ..part });
    let printed = text::render(&report, Some(Path::new("out")));
    assert!(printed.contains("| 64 users import"), "{printed}");
    let said = "out/report.html;out/limits.md;**LEFT OUT: move a file (`tree`), at;are no result;needs `fullpath`";
    assert_eq!(said.split(';').find(|said| !printed.contains(said)), None, "{printed}");
    assert!(!["The bar", "| mix", "| part"].iter().any(|other| printed.contains(other)), "{printed}");
    report.meta.complete = false;
    report.limits[0].remove("ratio");
    let empty = Spread { heat: vec![vec![]], ..Spread::default() };
    report.regions.insert("new".into(), [("empty".to_owned(), empty)].into());
    report.costs.insert("new".into(), Costs { disk_bytes_per_file: f64::NAN, ..Costs::default() });
    let none = Figures { per_second: f64::NAN, rounds: vec![0.0, f64::NAN], ..Figures::default() };
    report.layouts.insert("new".into(), [("stat".to_owned(), Measured::Figures(Box::new(none)))].into());
    check(&report);
}

/// Of stats by 64 clients and by one: the ratios.
fn stats<const N: usize>(layouts: [(&str, Figures); N]) -> Vec<String> {
    let mut report = sample();
    let of = |figures| [("stat".to_owned(), Measured::Figures(Box::new(figures)))].into();
    report.layouts = layouts.into_iter().map(|(layout, figures)| (layout.to_owned(), of(figures))).collect();
    let shown = |cell: &table::Cell| format!("{} {}", cell.text, cell.more).trim_end().to_owned();
    let table = pages::tables(&report).into_iter().find(|table| table.id == "to-reference").unwrap();
    table.rows.iter().map(|row| row[1..].iter().map(shown).collect::<Vec<_>>().join("; ")).collect()
}

#[test]
fn rounds_are_compared_one_by_one_of_as_many_clients_and_noise_is_no_difference() {
    let of =
        |clients, rounds: &[f64]| Figures { clients: Some(clients), rounds: rounds.to_vec(), ..Figures::default() };
    // The machine was ten times as slow in the second round, for both.
    let slow = of(64, &[100.0, 10.0, 100.0, 100.0, 100.0]);
    let found = stats([("fullpath", slow), ("tree", of(64, &[50.0, 6.0, 80.0, 70.0, 55.0]))]);
    assert_eq!(found, ["64; 0.60 0.50 to 0.80"]);
    let [even, noise] = [of(64, &[100.0; 5]), of(64, &[90.0, 120.0, 90.0, 90.0, 90.0])];
    // The drive's own promises are no key.
    let found = stats([("fullpath", even.clone()), ("tree", noise), ("drive", of(64, &[900.0; 5]))]);
    assert_eq!(found, ["64; 9.00 9.00 to 9.00; ≈ 0.90 0.90 to 1.20"]);
    // One of the two was interrupted after four rounds.
    let found = stats([("fullpath", even), ("tree", of(64, &[200.0; 4]))]);
    assert_eq!(found, ["64; 2.00? 2.00 to 2.00, n 4"]);
    // One client is compared with one.
    let both = || Figures { one_client: Some(Box::new(of(1, &[10.0; 5]))), ..of(64, &[100.0; 5]) };
    let found = stats([("fullpath", both()), ("uuid", of(64, &[200.0; 5])), ("tree", of(1, &[2.0; 5]))]);
    let expected = ["64; 2.00 2.00 to 2.00; 0.20* 0.20 to 0.20", "1; -; 0.20 0.20 to 0.20"];
    assert_eq!(found, expected);
    let [answers, ..] = ratios::all(&sample());
    let row = |row: &Vec<table::Cell>| row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>().join(" ");
    let rows = ["`fullpath` - - - 52,000/s - - - - - - 80.0 9.50 -", "`tree` - - - 0.23 - - - - - - - - -"];
    assert_eq!(answers.rows.iter().map(row).collect::<Vec<_>>(), rows);
    let [few, ..] = ratios::all(&Report { meta: model::Meta { files: 9, ..sample().meta }, ..sample() });
    assert!(few.rows.is_empty() && few.note.contains("No keys are compared"));
    for other in [of(32, &[1.0]), of(64, &[0.0]), of(64, &[])] {
        assert!(stats([("fullpath", other), ("tree", of(64, &[1.0]))]).is_empty());
    }
}

#[test]
fn names_and_numbers_are_those_of_people() {
    let figures = [12_345.4, -1_000.0, 99.96, 85.24, 0.914, 0.0, 0.0026, 0.000042, f64::NAN].map(table::figure);
    assert_eq!(figures, ["12,345", "-1,000", "100", "85.2", "0.91", "0.00", "0.0026", "4.2e-5", "-"]);
    let costs = ["zebra", "tree", "uuid", "ape"].map(|name| (name.to_owned(), Costs::default())).into();
    assert_eq!(order::layouts(&Report { costs, ..Report::default() }), ["uuid", "tree", "ape", "zebra"]);
    assert_eq!([label("ycsb_a"), label("new_one")], ["YCSB A", "new one"]);
    for (list, columns) in [(LAYOUTS, 7), (OPERATIONS, 5)] {
        assert!(list.lines().all(|line| line.split('|').count() == columns));
    }
}
