//! Which definition of a function the loader gives to a library.
//!
//! The loader looks into the global scope first (the program, what it was linked with, what was loaded `RTLD_GLOBAL`),
//! then into what the library was loaded together with. What counts is what was there when the library was loaded: a
//! later `RTLD_GLOBAL` does not change what is bound already.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::ops::Range;

use crate::elf::Object;

/// Loaded objects and what they need of each other.
pub(crate) struct Scopes<'a> {
    objects: &'a [Object],
    /// This library, which is never the answer.
    own: Option<usize>,
    needs: Vec<Vec<usize>>,
    /// The program and what it was linked with.
    initial: BTreeSet<usize>,
}

impl<'a> Scopes<'a> {
    /// `own_address` is an address in this library.
    pub(crate) fn of(objects: &'a [Object], own_address: usize) -> Self {
        let names = names_of(objects);
        let needs = objects
            .iter()
            .map(|object| object.needed().filter_map(|name| names.get(name).copied()).collect())
            .collect();
        let own = objects.iter().position(|object| object.contains(own_address));
        let mut scopes = Self { objects, own, needs, initial: BTreeSet::new() };
        scopes.initial = scopes.closure(0).into_iter().collect();
        scopes
    }

    /// Objects that are loaded.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Where an object was loaded from; empty for the program itself.
    pub(crate) fn path(&self, object: usize) -> &[u8] {
        self.objects[object].path()
    }

    /// Where this library is.
    pub(crate) fn own_range(&self) -> Range<usize> {
        self.own.map_or(0..0, |own| self.objects[own].range())
    }

    /// The object that an address is in.
    pub(crate) fn containing(&self, address: usize) -> Option<usize> {
        self.objects.iter().position(|object| object.contains(address))
    }

    /// What the object itself defines.
    pub(crate) fn own_definition(&self, object: usize, name: &CStr) -> Option<usize> {
        if self.own == Some(object) { None } else { self.objects[object].definition(name) }
    }

    /// All definitions, in the order in which the objects were loaded.
    pub(crate) fn definitions(&self, name: &CStr) -> Vec<usize> {
        (0..self.objects.len()).filter_map(|object| self.own_definition(object, name)).collect()
    }

    /// The object and all that it needs, as the loader orders them: breadth first.
    pub(crate) fn closure(&self, root: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (root < self.objects.len()).then_some(root).into_iter().collect();
        let mut seen: BTreeSet<usize> = order.iter().copied().collect();
        let mut next = 0;
        while let Some(&object) = order.get(next) {
            order.extend(self.needs[object].iter().copied().filter(|&needed| seen.insert(needed)));
            next += 1;
        }
        order
    }

    /// Objects that need this one, directly or not, with itself, in the order in which they were loaded.
    fn needing(&self, object: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([object]);
        loop {
            let is_new =
                |user: &usize| !found.contains(user) && self.needs[*user].iter().any(|needed| found.contains(needed));
            let new: Vec<usize> = (0..self.objects.len()).filter(is_new).collect();
            if new.is_empty() {
                return found;
            }
            found.extend(new);
        }
    }

    /// Whether the loader has bound something in this object to the function.
    pub(crate) fn refers_to(&self, object: usize, name: &CStr) -> bool {
        self.own != Some(object) && self.objects[object].refers_to(name)
    }

    /// What the object finds in the scopes of what it was loaded together with.
    pub(crate) fn local_definition(&self, object: usize, name: &CStr) -> Option<usize> {
        let in_scope = |root: usize| self.closure(root).into_iter().find_map(|other| self.own_definition(other, name));
        self.needing(object).into_iter().find_map(in_scope)
    }

    /// What the object is bound to, if `global` is what the global scope has now.
    pub(crate) fn bound_to(&self, object: usize, name: &CStr, global: Option<usize>) -> Option<usize> {
        let is_older = |address: &usize| self.containing(*address).is_some_and(|other| self.is_older(other, object));
        global.filter(is_older).or_else(|| self.local_definition(object, name)).or(global)
    }

    /// Whether one object was in the global scope, if it ever was, when another was loaded.
    fn is_older(&self, one: usize, other: usize) -> bool {
        if self.initial.contains(&one) {
            return true;
        }
        let first_root = self.needing(other).first().copied();
        !self.initial.contains(&other) && first_root.is_some_and(|root| one < root)
    }
}

/// Objects by the names under which others need them. Of two with the same name the loader takes the first.
fn names_of(objects: &[Object]) -> HashMap<&[u8], usize> {
    let mut names = HashMap::new();
    for (place, object) in objects.iter().enumerate() {
        let path = object.path();
        let file_name = path.rsplit(|&byte| byte == b'/').next();
        for name in [Some(path), file_name, object.soname()].into_iter().flatten().filter(|name| !name.is_empty()) {
            names.entry(name).or_insert(place);
        }
    }
    names
}
