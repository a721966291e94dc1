//! What the kernel tells of block requests, threads off the processor, faults, system calls and TCP.
//!
//! [`Observer`] makes a [`Line`](dwell_observe::Line) of each interval. Its numbers come from [eBPF programs](KernelTrace) if the
//! user may load them, and otherwise from the kernel's counters in `/proc` and `/sys`; each line says which.
//!
//! What makes the numbers of the programs wrong or missing:
//! - The kernel runs no eBPF program for some events: on some hosted machines none while a thread of the process 1 is on the
//!   processor. Requests that complete there are missing; `disks` has the kernel's own counts beside.
//! - A request that was issued before observing began has no latency.
//! - What does not fit into a map is counted in `lost`.
//! - Threads of the kernel are not observed; block requests that they issue are.

#![deny(unsafe_code)]

mod calls;
mod disks;
mod error;
mod layout;
mod members;
mod observer;
mod pressure;
mod processes;
mod programs;
mod tcp;
mod threads;
mod trace;

pub use error::KernelError;
pub use observer::{Observer, ObserverOptions};
pub use programs::{Chosen, Group};
pub use trace::{KernelTrace, TraceOptions};
