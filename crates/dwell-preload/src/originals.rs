//! Which function a call would have reached if this library were not there.

use std::collections::BTreeSet;
use std::ffi::CStr;

use crate::elf;
use crate::ggml_library::{self, LibraryFunctions};
use crate::owner::owner_of;
use crate::scopes::Scopes;

/// A call of a function that this library stands in for.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Where it returns to.
    pub(crate) return_address: usize,
    /// Its first argument: an object of the ggml that is called.
    pub(crate) first_argument: usize,
}

/// What a call reaches.
#[derive(Default)]
pub(crate) struct Original {
    /// The function; `None` if no loaded object has it.
    pub(crate) address: Option<usize>,
    /// The ggml that the function is part of, if it was asked for.
    pub(crate) library: Option<LibraryFunctions>,
    /// Whether the next call from the same place reaches the same.
    pub(crate) holds_for_call_site: bool,
}

/// Finds what a call reaches; with `is_recorded` also the ggml that it is part of.
pub(crate) fn find(name: &CStr, call: Call, is_recorded: bool) -> Original {
    let ask = |global: Global| {
        elf::with_loaded(|objects| {
            let scopes = Scopes::of(objects, find as *const () as usize);
            let (address, holds_for_call_site) = choose(&scopes, name, call, global)?;
            let library = address.filter(|_| is_recorded).and_then(|address| ggml_library::around(&scopes, address));
            Some(Original { address, library, holds_for_call_site })
        })
    };
    // The global scope is asked about only if it matters, because that takes a lock of the loader for longer.
    match ask(Global::Unknown) {
        Some(Some(original)) => original,
        _ => ask(Global::Known(definition_after_us(name))).flatten().unwrap_or_default(),
    }
}

/// What the global scope has.
#[derive(Clone, Copy)]
enum Global {
    Unknown,
    Known(Option<usize>),
}

/// What the global scope has of this name, this library left out.
fn definition_after_us(name: &CStr) -> Option<usize> {
    // SAFETY: dlsym with a valid name and a handle that it documents.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    Some(address as usize).filter(|&address| address != 0)
}

/// The function that a call reaches, and whether that holds for its call site. `None` if the global scope has to be known.
fn choose(scopes: &Scopes<'_>, name: &CStr, call: Call, global: Global) -> Option<(Option<usize>, bool)> {
    let definitions = scopes.definitions(name);
    if let [only] = definitions[..] {
        return Some((Some(only), true));
    }
    let Global::Known(global) = global else { return None };
    if definitions.is_empty() {
        return Some((global, true));
    }
    // The byte before: a call may be the last instruction of its object.
    let returns_to = scopes.containing(call.return_address.wrapping_sub(1));
    if let Some(caller) = returns_to.filter(|&object| scopes.refers_to(object, name))
        && let Some(address) = scopes.bound_to(caller, name, global)
    {
        return Some((Some(address), true));
    }
    // The call came by a jump or through a pointer, from an object that has gone from the stack.
    let candidates = |objects: &mut dyn Iterator<Item = usize>| -> BTreeSet<usize> {
        let callers = objects.filter(|&object| scopes.refers_to(object, name));
        callers.filter_map(|caller| scopes.bound_to(caller, name, global)).collect()
    };
    let near = returns_to.map(|object| candidates(&mut scopes.closure(object).into_iter())).unwrap_or_default();
    if near.len() == 1 {
        return Some((near.first().copied(), true));
    }
    let mut all = candidates(&mut (0..scopes.len()));
    all.extend(global);
    if all.len() <= 1 {
        return Some((all.first().or(definitions.first()).copied(), true));
    }
    let owner = owner_of(scopes, call.first_argument, &all);
    Some((owner.or(global).or(all.first().copied()), false))
}
