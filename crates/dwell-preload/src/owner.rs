//! Whose object an argument is, where the call itself does not tell.
//!
//! ggml's objects hold pointers to functions of the library that made them: buffers and backends at their beginning,
//! tensors and schedulers in a buffer or backend that they point to. So the first words of an object, and of what they
//! point to, are compared with the places of the libraries in question.

use std::collections::BTreeSet;

use crate::scopes::Scopes;

/// Words of an object that are looked at: a scheduler's first backend, a tensor's buffer and a buffer's functions are
/// among them.
const WORDS: usize = 16;

/// The one of these functions whose library an object belongs to; `None` if that cannot be told.
pub(crate) fn owner_of(scopes: &Scopes<'_>, object: usize, functions: &BTreeSet<usize>) -> Option<usize> {
    let words = read_words(object);
    let further: Vec<usize> = words.iter().flat_map(|&word| read_words(word)).collect();
    let exact = |word: usize| only_one_in(scopes, &[scopes.containing(word)?], functions);
    // A backend of its own library belongs to the ggml that it needs. What the program itself needs tells nothing.
    let by_needs = |word: usize| {
        let library = scopes.containing(word).filter(|&library| library != 0)?;
        only_one_in(scopes, &scopes.closure(library), functions)
    };
    let all = || words.iter().chain(&further).copied();
    all().find_map(exact).or_else(|| all().find_map(by_needs))
}

fn only_one_in(scopes: &Scopes<'_>, libraries: &[usize], functions: &BTreeSet<usize>) -> Option<usize> {
    let is_in = |function: &&usize| scopes.containing(**function).is_some_and(|library| libraries.contains(&library));
    let mut found = functions.iter().filter(is_in);
    found.next().copied().filter(|_| found.next().is_none())
}

/// The first words at an address that need not be one: the kernel reads them, and refuses where there is nothing.
fn read_words(address: usize) -> Vec<usize> {
    if address < 4096 || !address.is_multiple_of(align_of::<usize>()) {
        return Vec::new();
    }
    let mut words = vec![0usize; WORDS];
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of::<usize>() * WORDS };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: local.iov_len };
    // SAFETY: the kernel writes at most so many bytes into the words, and checks the address that it reads from.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    words.truncate(usize::try_from(read).unwrap_or(0) / size_of::<usize>());
    words
}
