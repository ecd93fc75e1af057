//! The signals that ask for an end, and one that shall not bring it.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A file that would grow beyond a limit (`ulimit -f`) is an error for who writes it, and no end of the process.
pub fn outlive_limits_of_file_size() -> io::Result<()> {
    // The handler stays when this is dropped.
    signal(SignalKind::from_raw(Number::XFSZ.as_raw())).map(drop)
}

/// From when it is made on, the signals do not end the process by themselves.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Ends at the next signal.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Counts the signals from now on.
    pub fn count(mut self) -> Signals {
        let (count, counted) = watch::channel(0);
        // It ends with the runtime.
        tokio::spawn(async move {
            loop {
                self.asked().await;
                count.send_modify(|signals| *signals += 1);
            }
        });
        Signals(counted)
    }
}

/// How often an end was asked for. All clones see the same signals, whenever they look.
#[derive(Clone)]
pub struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Ends when an end has been asked for so often.
    pub async fn reached(mut self, times: u32) {
        if self.0.wait_for(|signals| *signals >= times).await.is_err() {
            // Whoever counts is gone: no more signals come.
            std::future::pending().await
        }
    }
}
