//! How a stand-in gets from its caller to the function that the call is meant for.
//!
//! A stand-in is a few instructions. It keeps the arguments, asks [`reach`](crate::call_sites::reach) with the address
//! that its call returns to, puts the arguments back, and jumps on: to the original, which sees the call as if this
//! library were not there, or to a function that records around the original. The latter gets [`Reached`] as one more
//! argument, after its own.

use std::ffi::CStr;

use crate::call_sites::Reached;

/// A function of whatever type.
pub(crate) type Code = unsafe extern "C-unwind" fn();

/// A function that this library stands in for.
pub(crate) struct Symbol {
    pub(crate) name: &'static CStr,
    /// What records around the original.
    pub(crate) recorded: Code,
    /// What is reached where there is no original.
    pub(crate) missing: Reached,
}

/// Declares a stand-in: its type as C has it, what it answers if there is no original, and what is done in the place of
/// the original when the ggml that it is part of (`$source`) is recorded. Arguments are at most five integers or pointers.
///
/// A call finds no original only if the program refers to the function weakly and finds this library's stand-in.
macro_rules! stand_in {
    (
        $(#[$docs:meta])*
        fn $name:ident($($argument:ident: $type:ty),+ $(,)?) $(-> $result:ty)?, or $failure:expr;
        |$source:ident, $original:ident| $body:block
    ) => {
        const _: () = {
            unsafe extern "C-unwind" fn recorded(
                $($argument: $type,)+
                reached: &'static $crate::call_sites::Reached,
            ) $(-> $result)? {
                type Original = unsafe extern "C-unwind" fn($($type),+) $(-> $result)?;
                // SAFETY: the original is the function of the stand-in's name, which has this type.
                let $original = unsafe { std::mem::transmute::<$crate::trampoline::Code, Original>(reached.original) };
                let Some($source) = reached.source else {
                    // SAFETY: the arguments are the program's own, passed on.
                    return unsafe { $original($($argument),+) };
                };
                $body
            }

            unsafe extern "C-unwind" fn missing($(_: $type),+) $(-> $result)? {
                $failure
            }

            // SAFETY: a function is reached only through the stand-in, with the arguments that it is declared with.
            static SYMBOL: $crate::trampoline::Symbol = unsafe {
                use std::mem::transmute;
                use $crate::trampoline::{Code, Symbol};
                type Recorded = unsafe extern "C-unwind" fn(
                    $($type,)+ &'static $crate::call_sites::Reached) $(-> $result)?;
                type Missing = unsafe extern "C-unwind" fn($($type),+) $(-> $result)?;
                Symbol {
                    name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name has no zero in it"),
                    },
                    recorded: transmute::<Recorded, Code>(recorded),
                    missing: $crate::call_sites::Reached::missing(transmute::<Missing, Code>(missing)),
                }
            };

            $(#[$docs])*
            ///
            /// # Safety
            /// Called by the program in the place of the function of this name, with the arguments of that function.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                $crate::trampoline::jump!(SYMBOL, $($argument),+)
            }
        };
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($symbol:ident, $($argument:ident),+) => {
        std::arch::naked_asm!(
            "endbr64",
            "push rbp",
            "mov rbp, rsp",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "mov rdx, rdi",
            "mov rsi, [rbp + 8]",
            "lea rdi, [rip + {symbol}]",
            "call {reach}",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "pop rbp",
            concat!("mov ", $crate::trampoline::next_register!($($argument),+), ", rax"),
            "jmp qword ptr [rax]",
            symbol = sym $symbol,
            reach = sym $crate::call_sites::reach,
        )
    };
}

/// The register of the argument after these.
#[cfg(target_arch = "x86_64")]
macro_rules! next_register {
    ($a:ident) => {
        "rsi"
    };
    ($a:ident, $b:ident) => {
        "rdx"
    };
    ($a:ident, $b:ident, $c:ident) => {
        "rcx"
    };
    ($a:ident, $b:ident, $c:ident, $d:ident) => {
        "r8"
    };
    ($a:ident, $b:ident, $c:ident, $d:ident, $e:ident) => {
        "r9"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($symbol:ident, $($argument:ident),+) => {
        std::arch::naked_asm!(
            "hint #34", // bti c
            "stp x29, x30, [sp, #-96]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "mov x2, x0",
            "mov x1, x30",
            "adrp x0, {symbol}",
            "add x0, x0, :lo12:{symbol}",
            "bl {reach}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp x29, x30, [sp], #96",
            concat!("mov ", $crate::trampoline::next_register!($($argument),+), ", x16"),
            "ldr x16, [x16]",
            "br x16",
            symbol = sym $symbol,
            reach = sym $crate::call_sites::reach,
        )
    };
}

/// The register of the argument after these.
#[cfg(target_arch = "aarch64")]
macro_rules! next_register {
    ($a:ident) => {
        "x1"
    };
    ($a:ident, $b:ident) => {
        "x2"
    };
    ($a:ident, $b:ident, $c:ident) => {
        "x3"
    };
    ($a:ident, $b:ident, $c:ident, $d:ident) => {
        "x4"
    };
    ($a:ident, $b:ident, $c:ident, $d:ident, $e:ident) => {
        "x5"
    };
}

pub(crate) use {jump, next_register, stand_in};
