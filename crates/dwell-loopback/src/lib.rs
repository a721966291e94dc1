//! A server on the loopback address: limits for its clients, and who is answered.
//!
//! [`LoopbackServer`] listens on 127.0.0.1 alone and bounds connections, waiting and stalling. [`Site`] refuses requests that
//! another site made a browser send; [`Token`] is the secret that clients must know. What is served is the user's router.

#![forbid(unsafe_code)]

mod error;
mod server;
mod site;
mod token;

pub use error::LoopbackError;
pub use server::{LoopbackServer, Stopper};
pub use site::{Refusal, Site, add_protective_headers};
pub use token::Token;
