//! Times operations: a fixed number of them, many at a time, each latency into a histogram.

use std::future::Future;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};

/// What an operation cost.
#[derive(Clone, Debug)]
pub struct Figures {
    pub count: usize,
    pub per_second: f64,
    /// Microseconds.
    pub p50: u64,
    pub p99: u64,
}

/// Runs `operation` once for each item, `at_a_time` of them in flight (a closed loop).
pub async fn measure<T, F>(
    title: &str,
    at_a_time: usize,
    items: Vec<T>,
    operation: impl Fn(T) -> F,
) -> anyhow::Result<Figures>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let count = items.len();
    let style = ProgressStyle::with_template("{msg:32} {bar:30} {pos}/{len} {per_sec}")?;
    let bar = ProgressBar::new(count as u64).with_style(style).with_message(title.to_owned());
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 600_000_000, 3)?;
    let start = Instant::now();
    let timed = items.into_iter().map(|item| {
        let work = operation(item);
        tokio::spawn(async move {
            let start = Instant::now();
            work.await.map(|()| start.elapsed())
        })
    });
    let mut running = stream::iter(timed).buffer_unordered(at_a_time);
    while let Some(done) = running.next().await {
        let elapsed = done??;
        histogram.saturating_record(elapsed.as_micros().max(1) as u64);
        bar.inc(1);
    }
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    bar.finish_and_clear();
    Ok(Figures {
        count,
        per_second: count as f64 / seconds,
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_item_is_counted_and_failures_are_told() {
        let figures = measure("t", 3, vec![1, 2, 3, 4], |_| async { Ok(()) }).await.unwrap();
        assert_eq!(figures.count, 4);
        assert!(figures.p50 <= figures.p99);
        let failed = measure("t", 1, vec![1], |_| async { anyhow::bail!("no") }).await;
        assert!(failed.is_err());
    }
}
