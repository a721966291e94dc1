//! `dwell view`: a folder of results in the browser, until Ctrl-C.

use std::process::ExitCode;

use dwell_view::{ViewOptions, ViewServer};

use super::ls::list;
use crate::args::ViewArgs;
use crate::browser::opens_in_browser;
use crate::messages::hinted;
use crate::output::{print_result, say};
use crate::serving::when_interrupted;

pub(crate) fn run(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    let options = ViewOptions { root: args.path.clone(), port: args.port, list: Box::new(list) };
    let server = ViewServer::bind(options).map_err(hinted)?;
    when_interrupted({
        let stopper = server.stopper();
        move || stopper.stop()
    })?;
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
