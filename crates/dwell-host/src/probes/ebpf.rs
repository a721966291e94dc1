//! eBPF: a map is made, a program is loaded and attached, the kernel's types are read.

use std::fs::File;
use std::io::{self, Read};

use dwell_events::host::Outcome;

use super::ProbeContext;
use super::refusal::{is_forbidden, refused};
use super::syscalls::{bpf_attach, bpf_create_map, bpf_load_program};
use crate::root::Root;

const BTF: &str = "sys/kernel/btf/vmlinux";
const BTF_MAGIC: u16 = 0xEB9F;
const REMEDY: &str = "sudo setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep \"$(command -v dwell)\"";

pub(super) fn probe(context: &ProbeContext) -> Outcome {
    if let Err(error) = bpf_create_map() {
        return refusal("bpf(BPF_MAP_CREATE)", &error);
    }
    let program = match bpf_load_program() {
        Ok(program) => program,
        Err(error) => return refusal("bpf(BPF_PROG_LOAD)", &error),
    };
    // Detached again when it goes out of scope.
    let attached = bpf_attach(&program);
    let btf = has_btf(&context.root);
    match (attached, btf) {
        (Ok(_), Ok(())) => Outcome::works("a map was made, a program loaded and attached, the kernel's types read"),
        (Ok(_), Err(reason)) => Outcome::degraded(format!("a program was loaded and attached, but {reason}")),
        (Err(error), _) => {
            Outcome::degraded(format!("a program was loaded, but {}", refused("bpf(BPF_RAW_TRACEPOINT_OPEN)", &error)))
                .remedy(REMEDY)
        }
    }
}

fn refusal(call: &str, error: &io::Error) -> Outcome {
    let outcome = Outcome::fails(refused(call, error));
    if is_forbidden(error) { outcome.remedy(REMEDY) } else { outcome }
}

/// Whether the kernel tells the layout of its structures.
fn has_btf(root: &Root) -> Result<(), String> {
    let mut magic = [0; 2];
    let read = File::open(root.path(BTF)).and_then(|mut file| file.read_exact(&mut magic));
    read.map_err(|error| format!("/{BTF} could not be read: {error}"))?;
    match u16::from_ne_bytes(magic) == BTF_MAGIC {
        true => Ok(()),
        false => Err(format!("/{BTF} is of an unknown form")),
    }
}
