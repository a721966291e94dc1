//! The abort callbacks that the program has given to backends: ours takes their place, and calls them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::ggml_library::{AbortCallback, SetAbortCallback};
use crate::guarded;
use crate::state::STATE;

/// The program's own callback of one backend; null if it has none.
#[derive(Default)]
pub(crate) struct ProgramCallback {
    function: AtomicPtr<c_void>,
    data: AtomicPtr<c_void>,
}

fn of_backend(backend: *mut c_void) -> &'static ProgramCallback {
    let mut state = STATE.lock();
    state.callbacks.entry(backend as usize).or_insert_with(|| Box::leak(Box::default()))
}

/// The program gives a callback to a backend, or takes it away. Ours is not the program's, whatever way it came.
pub(crate) fn note(backend: *mut c_void, callback: Option<AbortCallback>, data: *mut c_void) {
    if callback.is_some_and(|callback| callback as usize == after_node as *const () as usize) {
        return;
    }
    guarded(|| {
        let program = of_backend(backend);
        program.data.store(data, Ordering::Release);
        program.function.store(callback.map_or(std::ptr::null_mut(), |it| it as *mut c_void), Ordering::Release);
    });
}

/// A backend is freed; the next one at its address has no callback.
pub(crate) fn forget(backend: *mut c_void) {
    guarded(|| {
        if let Some(program) = STATE.lock().callbacks.get(&(backend as usize)) {
            program.function.store(std::ptr::null_mut(), Ordering::Release);
        }
    });
}

/// Has a backend call ours after each node, which then calls the program's.
///
/// # Safety
/// `set` is the function of this live backend that sets its callback.
pub(crate) unsafe fn put_ours_before(backend: *mut c_void, set: SetAbortCallback) {
    let Some(program) = guarded(|| of_backend(backend)) else { return };
    // SAFETY: the caller gives a backend and its function; the data is what our callback takes.
    unsafe { set(backend, Some(after_node), std::ptr::from_ref(program).cast_mut().cast()) };
}

unsafe extern "C-unwind" fn after_node(program: *mut c_void) -> bool {
    guarded(dwell_ggml::after_node);
    // SAFETY: only `put_ours_before` gives this function to a backend, with a callback that is never freed.
    let program = unsafe { &*program.cast::<ProgramCallback>() };
    let function = program.function.load(Ordering::Acquire);
    if function.is_null() {
        return false;
    }
    // SAFETY: only `note` stores here, and it stores a function of this type.
    unsafe {
        let callback: AbortCallback = std::mem::transmute(function);
        callback(program.data.load(Ordering::Acquire))
    }
}

/// Functions with which programs set a callback, which they ask a backend's registry for by name. There is one for each
/// library of backends.
const SETTERS: usize = 8;
static ORIGINAL_SETTERS: [AtomicUsize; SETTERS] = [const { AtomicUsize::new(0) }; SETTERS];
const OUR_SETTERS: [SetAbortCallback; SETTERS] = [
    set_callback::<0>,
    set_callback::<1>,
    set_callback::<2>,
    set_callback::<3>,
    set_callback::<4>,
    set_callback::<5>,
    set_callback::<6>,
    set_callback::<7>,
];

/// Notes the callback and passes it on.
unsafe extern "C-unwind" fn set_callback<const SETTER: usize>(
    backend: *mut c_void,
    callback: Option<AbortCallback>,
    data: *mut c_void,
) {
    note(backend, callback, data);
    // SAFETY: this function is given out only after the address of its original was stored, and the arguments are the
    // program's own, passed on.
    unsafe {
        let original: SetAbortCallback = std::mem::transmute(ORIGINAL_SETTERS[SETTER].load(Ordering::Acquire));
        original(backend, callback, data);
    }
}

/// What the program gets in the place of a function that sets a callback: one that notes it first. The same function, if
/// there are more libraries of backends than is foreseen.
pub(crate) fn setter_in_place_of(original: *mut c_void) -> *mut c_void {
    let address = original as usize;
    let is_ours = |setter: &AtomicUsize| {
        let free_or_own = setter.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
        free_or_own.is_ok() || free_or_own == Err(address)
    };
    match ORIGINAL_SETTERS.iter().position(is_ours) {
        Some(place) => OUR_SETTERS[place] as *mut c_void,
        None => original,
    }
}
