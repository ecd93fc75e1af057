//! Closes the store at the end of the server, within a time.

use std::sync::Arc;
use std::time::Duration;

use rowdrive::drive::Drive;
use rowdrive::engines::rocks::Rocks;

use super::open::close;
use crate::cli::signals::end_within;

/// How long closing may take. Acknowledged writes are synced: after an exit with an open store, as after a crash, the
/// next start replays the log and completes unfinished clean-up.
const CLOSE: Duration = Duration::from_secs(20);
/// How long closing may still take after a second signal.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the process may take to exit with an open store, with the last lines of its log.
const EXIT: Duration = Duration::from_secs(5);

/// Closes the store. If it is not closed after 20 seconds, or 2 after a second signal, returns with an open store, and makes
/// the process end within [`EXIT`].
pub async fn close_in_time(drive: Drive, rocks: Arc<Rocks>, again: impl Future<Output = ()>) {
    // Close in a task of its own: dropping a half-finished future would block this thread until the database is closed.
    let closed = tokio::spawn(close(drive, rocks));
    tokio::select! {
        _ = closed => return tracing::info!("stopped"),
        // An exit while the database works may crash; the store usually closes within 2 seconds.
        () = async { again.await; tokio::time::sleep(AGAIN).await } => tracing::warn!(
            "a second signal arrived: the store is not closed in order; nothing acknowledged is lost"
        ),
        () = tokio::time::sleep(CLOSE) => tracing::warn!(
            "the store is still not closed after {} s: the process ends; nothing acknowledged is lost", CLOSE.as_secs()
        ),
    }
    end_within(EXIT);
}
