//! Chromium without a window, driven over its debugging pipe: started with a fresh profile, asked, listened to, and ended
//! with everything that it started.
//!
//! ```text
//! Browser ──calls, NUL-separated JSON──▶ Chromium ──▶ renderers, GPU, network …
//!    ▲                                       │
//!    └── answers and events of one page ◀────┘
//! ```
//!
//! The pipe opens no port that others could reach, and Chromium ends by itself when it breaks.

#![forbid(unsafe_code)]

mod browser;
mod clock;
mod connection;
mod error;
mod launch;
mod messages;
mod page;

pub use browser::{Browser, BrowserProcess};
pub use clock::PageClock;
pub use error::BrowserError;
pub use launch::{Launch, NO_SANDBOX};
pub use messages::read_message;
pub use page::{HeapUsage, Page, PageEvent};
