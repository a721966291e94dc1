//! `dwell view`: a folder of results in the browser, until Ctrl-C.

use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use dwell_view::{ViewOptions, ViewServer};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::ls::list;
use crate::args::ViewArgs;
use crate::browser::opens_in_browser;
use crate::messages::hinted;
use crate::output::{print_result, say};

pub(crate) fn run(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    let options = ViewOptions { root: args.path.clone(), port: args.port, list: Box::new(list) };
    let server = ViewServer::bind(options).map_err(hinted)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("listening for signals")?;
    let stopper = server.stopper();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    if list(&args.path).runs.is_empty() {
        say(format_args!("warning: there is no run in this folder yet: {:?}\n", args.path));
    }
    print_result(&format!("{}\n", server.address()))?;
    say(format_args!("Open this address in a browser on this machine; Ctrl-C ends the view. Nothing is written.\n"));
    if args.open {
        // The address is printed, whether a browser takes it or not.
        opens_in_browser(server.address().as_ref(), "the view is at the address above");
    }
    server.run().map_err(hinted)?;
    Ok(ExitCode::SUCCESS)
}
