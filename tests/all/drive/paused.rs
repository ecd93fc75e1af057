//! An operation that stops at a point that the test chooses, while others continue.

use std::future::Future;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An operation that waits in the middle, or has ended before it reached that point.
pub struct Paused<T> {
    running: JoinHandle<T>,
    go_on: oneshot::Sender<()>,
    /// Whether it has reached the point; otherwise it has ended.
    pub paused: bool,
}

impl<T: Send + 'static> Paused<T> {
    /// Runs `operation` until it reaches the point or ends. `place` gets the future that the operation has to await
    /// there.
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

    /// Lets the operation continue, and waits for its answer.
    pub async fn end(self) -> T {
        let _ = self.go_on.send(());
        self.running.await.unwrap()
    }
}
