//! Listens on this machine alone, and bounds what clients can take.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio_io_timeout::TimeoutStream;

use crate::LoopbackError;

/// Clients that are connected at once; others wait.
const MOST_CONNECTIONS: usize = 256;

/// How long a client may take to send the head of a request.
const LONGEST_HEAD: Duration = Duration::from_secs(10);

/// How long a connection may be idle.
const LONGEST_IDLE: Duration = Duration::from_secs(120);

/// How long a client may read nothing of an answer.
const LONGEST_STALL: Duration = Duration::from_secs(30);

/// A server that listens and does not answer yet.
pub struct LoopbackServer {
    listener: TcpListener,
    port: u16,
    stop: Arc<Notify>,
}

/// Ends a server.
#[derive(Clone)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Ends it now; answers that are being sent are cut off.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

impl LoopbackServer {
    /// Listens on a port of the loopback address; 0 for any that is free.
    pub fn bind(port: u16) -> Result<Self, LoopbackError> {
        let no_port = |source| LoopbackError::Port { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(no_port)?;
        listener.set_nonblocking(true).map_err(no_port)?;
        let port = listener.local_addr().map_err(no_port)?.port();
        Ok(Self { listener, port, stop: Arc::default() })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Answers until it is stopped.
    pub fn run(self, router: Router) -> Result<(), LoopbackError> {
        let start = |source| LoopbackError::Start { source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(start)?;
        let outcome = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(start)?;
            tokio::select! {
                () = accept(listener, router) => {}
                () = self.stop.notified() => {}
            }
            Ok(())
        });
        // Work that goes on reads files alone.
        runtime.shutdown_background();
        outcome
    }
}

async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for one: others may close theirs.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _place = place;
            serve(stream, router).await;
        });
    }
}

/// Answers one client until it leaves or takes too long.
async fn serve(stream: TcpStream, router: Router) {
    // A small answer goes out at once.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(LONGEST_IDLE));
    stream.set_write_timeout(Some(LONGEST_STALL));
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(LONGEST_HEAD);
    let service = TowerToHyperService::new(router);
    // A client that breaks the protocol or leaves is no fault of the server.
    let _ = connection.serve_connection(TokioIo::new(Box::pin(stream)), service).await;
}
