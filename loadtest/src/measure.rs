//! Times operations in a closed loop: each latency into a histogram, until there are no more or the time is up.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::report::model::Figures;
use crate::stats::curve;

/// An operation that takes longer reads a whole table: more at a time than there are cores would only queue.
const SLOW: Duration = Duration::from_millis(20);

/// How an operation is measured. Cheap to clone.
#[derive(Clone)]
pub struct Pace {
    /// Operations in flight.
    pub at_a_time: usize,
    pub budget: Duration,
    /// True when the user wants no more.
    pub stop: watch::Receiver<bool>,
}

impl Pace {
    /// An error once the user has asked for the end.
    pub fn go_on(&self) -> Result<()> {
        if *self.stop.borrow() {
            bail!("interrupted");
        }
        Ok(())
    }

    pub fn one_at_a_time(&self) -> Self {
        Self { at_a_time: 1, ..self.clone() }
    }
}

/// Runs `operation` once for each item: the first alone, to see how long it takes, the others many at a time.
pub async fn measure<T, F>(
    title: &str,
    pace: &Pace,
    items: impl IntoIterator<Item = T>,
    operation: impl Fn(T) -> F,
) -> Result<Figures>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    pace.go_on()?;
    let bar = bar(title)?;
    let mut items = items.into_iter();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3)?;
    let mut record = |took: Duration| histogram.saturating_record(took.as_micros().max(1) as u64);
    let start = Instant::now();
    let Some(first) = items.next() else { bail!("{title}: there is nothing to measure") };
    operation(first).await?;
    let took = start.elapsed();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_a_time = if took > SLOW { pace.at_a_time.min(cores) } else { pace.at_a_time };
    // What is quick is warm from now on; what reads a whole table may be measured just once.
    let slow = took > SLOW;
    if slow {
        record(took);
    }
    let again = if slow { start } else { Instant::now() };
    let spent = || again.elapsed() >= pace.budget;
    let mut count = u64::from(slow);
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_a_time && !spent() && pace.go_on().is_ok() {
            let Some(item) = items.next() else { break };
            let work = operation(item);
            running.spawn(async move {
                let start = Instant::now();
                work.await.map(|()| start.elapsed())
            });
        }
        let Some(done) = running.join_next().await else { break };
        record(done??);
        count += 1;
        bar.inc(1);
    }
    let seconds = again.elapsed().as_secs_f64().max(1e-9);
    bar.finish_and_clear();
    pace.go_on()?;
    if count == 0 {
        // A single item, and a quick one.
        record(took);
    }
    Ok(figures(&histogram, count.max(1), if count == 0 { took.as_secs_f64() } else { seconds }))
}

/// A line that says what is being done, where there is a terminal.
pub fn bar(title: &str) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg:44} {elapsed:>4} {pos:>10} {per_sec}")?;
    let bar = ProgressBar::new_spinner().with_style(style).with_message(title.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    if bar.is_hidden() {
        eprintln!("{title}");
    }
    Ok(bar)
}

fn figures(histogram: &Histogram<u64>, count: u64, seconds: f64) -> Figures {
    Figures {
        per_second: count as f64 / seconds,
        p50_us: histogram.value_at_quantile(0.5),
        p99_us: histogram.value_at_quantile(0.99),
        count,
        curve: curve(histogram),
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(at_a_time: usize) -> Pace {
        Pace { at_a_time, budget: Duration::from_secs(60), stop: watch::channel(false).1 }
    }

    #[tokio::test]
    async fn every_item_is_counted_and_failures_are_told() {
        let figures = measure("t", &pace(3), [1, 2, 3, 4], |_| async { Ok(()) }).await.unwrap();
        // The first one warms up.
        assert_eq!(figures.count, 3);
        assert!(figures.p50_us <= figures.p99_us);
        assert!(measure("t", &pace(1), [1], |_| async { bail!("no") }).await.is_err());
        assert!(
            measure("t", &pace(1), [1, 2], |n| async move { if n > 1 { bail!("no") } else { Ok(()) } }).await.is_err()
        );
    }

    #[tokio::test]
    async fn it_ends_when_it_is_told_to() {
        let (stop, stopped) = watch::channel(false);
        let pace = Pace { stop: stopped, ..pace(2) };
        let endless = measure("t", &pace, 0.., |n| {
            stop.send_replace(n == 100);
            async { Ok(()) }
        });
        assert_eq!(endless.await.unwrap_err().to_string(), "interrupted");
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
        (1..=100).for_each(|n| histogram.record(n).unwrap());
        let figures = figures(&histogram, 100, 2.0);
        assert_eq!((figures.per_second, figures.p50_us, figures.p99_us), (50.0, 50, 99));
        assert_eq!(figures.curve, [(0.0, 1), (50.0, 50), (75.0, 75), (90.0, 90), (100.0, 100)]);
    }
}
