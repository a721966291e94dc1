//! Whether the recorder is at work inside a program.

use dwell_process::process_tree;

use crate::ServerPlace;
use crate::processes::{maps, maps_library};

/// Name of ggml's library that the recorder stands before.
const GGML_LIBRARY: &str = "libggml-base";

/// Why the computations of a started program are not recorded, although its model is loaded; `None` if they are.
///
/// A recorder that has begun has a ring. One that does not know the layout of this ggml says so in a record.
pub(crate) fn untraced_because(root: u32, place: &ServerPlace) -> Option<String> {
    let (Some(library), Some(ring_dir)) = (&place.preload_library, &place.ring_dir) else {
        return Some("the recorder was not asked for".to_owned());
    };
    let mut tree = vec![root];
    tree.extend(process_tree(root).iter().map(|line| line.pid).filter(|&pid| pid != root));
    if tree.iter().any(|pid| ring_dir.join(format!("{pid}.ring")).exists()) {
        return None;
    }
    let any =
        |look: &dyn Fn(u32) -> Option<bool>| tree.iter().filter_map(|&pid| look(pid)).reduce(|one, other| one || other);
    // The kernel shows paths without links in them.
    let library = library.canonicalize().unwrap_or_else(|_| library.clone());
    let reason = match (any(&|pid| maps(pid, &library)), any(&|pid| maps_library(pid, GGML_LIBRARY))) {
        (None, _) => "its process cannot be looked into",
        (Some(false), _) => {
            "the library was not preloaded: the program is setuid, linked statically, or drops LD_PRELOAD"
        }
        (_, Some(true)) => "the recorder could not make its ring; the server's log says why",
        _ => "ggml is linked statically into the program",
    };
    Some(reason.to_owned())
}

/// Why the computations of a server that ran before are not recorded.
pub(crate) fn joined_untraced(root: Option<u32>) -> String {
    match root {
        Some(_) => "it was started before the run; one that dwell starts is recorded",
        None => "its process is not on this machine, or cannot be seen",
    }
    .to_owned()
}
