//! The server: a fixed set of addresses under a secret path.

use std::sync::Arc;

use axum::Router;
use dwell_loopback::{LoopbackServer, Site, Stopper, Token};

use crate::answer::{App, answer};
use crate::shelf::Shelf;
use crate::{Page, RuntimeFiles, WebError, WebModel};

/// What is served, and where.
pub struct WebOptions {
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The page.
    pub page: Page,
    /// The runtimes that the page can load.
    pub runtimes: Vec<RuntimeFiles>,
    /// The models that it offers, in this order.
    pub models: Vec<WebModel>,
}

/// A server that listens.
pub struct WebServer {
    server: LoopbackServer,
    app: App,
}

impl WebServer {
    /// Lists what is served and listens on the loopback address.
    pub fn bind(options: WebOptions) -> Result<Self, WebError> {
        let shelf = Shelf::new(options.page, &options.runtimes, options.models)?;
        let server = LoopbackServer::bind(options.port)?;
        let app = App { site: Site::new(server.port()), token: Token::new()?, shelf };
        Ok(Self { server, app })
    }

    /// The address of the page, with the secret and a slash at its end.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.server.port(), self.app.token.as_str())
    }

    /// What ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.server.stopper()
    }

    /// Answers until it is stopped.
    pub fn run(self) -> Result<(), WebError> {
        let router = Router::new().fallback(answer).with_state(Arc::new(self.app));
        Ok(self.server.run(router)?)
    }
}
