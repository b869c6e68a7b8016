//! Generates value names that are unique in a whole model.

use std::collections::HashSet;

/// The set of used names.
#[derive(Default)]
pub struct Names {
    taken: HashSet<String>,
    next: usize,
}

impl Names {
    /// Marks a name as used.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Returns an unused name: this one, or one that begins with it.
    pub fn like(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        while !self.taken.insert(free.clone()) {
            free.push('_');
        }
        free
    }

    /// Returns an unused name for an intermediate value.
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
