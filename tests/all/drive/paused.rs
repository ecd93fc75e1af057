//! An operation that stops where a test wants it to, while others go on.

use std::future::Future;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An operation that waits in the middle, or has ended without coming there.
pub struct Paused<T> {
    running: JoinHandle<T>,
    go_on: oneshot::Sender<()>,
    /// Whether it came there; else it has ended.
    pub paused: bool,
}

impl<T: Send + 'static> Paused<T> {
    /// Runs `operation` until it comes to the place or to its end. `place` gets what is to be awaited at the place.
    pub async fn begin(
        place: impl FnOnce(BoxFuture<'static, ()>),
        operation: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let (reached, here) = oneshot::channel::<()>();
        let (go_on, resumed) = oneshot::channel::<()>();
        place(Box::pin(async move {
            let _ = reached.send(());
            let _ = resumed.await;
        }));
        let mut running = tokio::spawn(operation);
        let paused = tokio::select! {
            biased;
            reached = here => reached.is_ok(),
            ended = &mut running => {
                running = tokio::spawn(async move { ended.unwrap() });
                false
            }
        };
        Self { running, go_on, paused }
    }

    /// Lets it go on, and waits for its answer.
    pub async fn end(self) -> T {
        let _ = self.go_on.send(());
        self.running.await.unwrap()
    }
}
