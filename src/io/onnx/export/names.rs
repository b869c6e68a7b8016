//! Names of values, which differ in a whole model.

use std::collections::HashSet;

/// The names that are taken.
#[derive(Default)]
pub struct Names {
    taken: HashSet<String>,
    next: usize,
}

impl Names {
    /// Takes a name.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Takes a name that begins like this one, and is this one if that is free.
    pub fn like(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        while !self.taken.insert(free.clone()) {
            free.push('_');
        }
        free
    }

    /// Takes the name of an intermediate value.
    pub fn fresh(&mut self) -> String {
        loop {
            let name = format!("/{}", self.next);
            self.next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
