//! The folder's server: the API behind its guard.

use std::path::PathBuf;
use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use dwell_loopback::{LoopbackServer, Stopper};

use crate::api::{self, App};
use crate::error::ViewError;
use crate::guard::{Guard, guarded};
use crate::tree::{Lister, Tree};

/// What is served, and where.
pub struct ViewOptions {
    /// A results directory, a folder of one, or a run.
    pub root: PathBuf,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// Lists the runs and experiments below a folder.
    pub list: Lister,
}

/// A server that listens.
pub struct ViewServer {
    server: LoopbackServer,
    guard: Arc<Guard>,
    app: Arc<App>,
}

impl ViewServer {
    /// Listens on the loopback address.
    pub fn bind(options: ViewOptions) -> Result<Self, ViewError> {
        let ViewOptions { root, port, list } = options;
        let tree = Tree::open(&root, list)?;
        let server = LoopbackServer::bind(port)?;
        let guard = Guard::new(server.port())?;
        Ok(Self { server, guard: Arc::new(guard), app: Arc::new(App::new(tree)) })
    }

    /// The address to open, with the token.
    pub fn address(&self) -> String {
        self.guard.address()
    }

    /// What ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.server.stopper()
    }

    /// Answers until it is stopped.
    pub fn run(self) -> Result<(), ViewError> {
        let router = api::router(self.app).layer(from_fn_with_state(self.guard, guarded));
        Ok(self.server.run(router)?)
    }
}
