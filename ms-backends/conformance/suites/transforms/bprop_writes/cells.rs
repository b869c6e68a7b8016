//! Defines cells with backward functions that write.

use ms::prelude::*;

/// Declares a cell that writes in the backward pass.
macro_rules! adds {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        pub struct $name {
            pub p: Parameter,
        }

        #[cell]
        impl $name {
            fn construct(&self, x: &Tensor) -> Tensor {
                x * 3.0
            }

            fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
                self.p.set(&(&self.p * 2.0 + dout));
                (&self.p * dout * x / x,)
            }
        }
    };
}

adds! {
    /// Doubles the parameter and adds the gradient in each backward pass, so that the order is visible.
    #[cell]
    Adds
}

adds! {
    /// Works like [`Adds`], traced once for all of its calls.
    #[cell]
    #[lazy_inline]
    Shared
}

/// A cell with a custom derivative around a cell that writes.
#[cell]
pub struct Around {
    pub adds: Adds,
}

#[cell]
impl Around {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.adds.call(x)
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * 7.0,)
    }
}

/// Adds one in each backward pass, and returns one and a half times the gradient.
#[cell]
pub struct Counts {
    pub p: Parameter,
}

#[cell]
impl Counts {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        self.p.set(&(&self.p + 1.0));
        (dout * x * 3.0,)
    }
}

/// Writes in both passes.
#[cell]
pub struct Both {
    pub p: Parameter,
}

#[cell]
impl Both {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.p.set(&(&self.p * 10.0));
        x * &self.p
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        self.p.set(&(&self.p + 1.0));
        (dout * &self.p,)
    }
}

/// Writes in a branch on a tensor in the backward pass.
#[cell]
pub struct Decides {
    pub p: Parameter,
}

#[cell]
impl Decides {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * 1.0
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        if dout > 1.5 {
            self.p.set(&(&self.p + dout));
        }
        (dout * 1.0,)
    }
}

/// Writes in a loop in the backward pass, and takes the gradient of a cell that writes.
#[cell]
pub struct Nested {
    pub p: Parameter,
    pub adds: Adds,
}

#[cell]
impl Nested {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * 1.0
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        for _ in ms::range(0, 3) {
            self.p.set(&(&self.p + 1.0));
        }
        (ms::grad(|x: &Tensor| self.adds.call(x))(dout),)
    }
}

/// Reads the value in the backward pass that the forward pass wrote.
#[cell]
pub struct Saves {
    pub p: Parameter,
}

#[cell]
impl Saves {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.p.set(&(x * 4.0));
        x * 1.0
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * &self.p,)
    }
}

/// Declares a cell that reads in the backward pass.
macro_rules! reads {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        pub struct $name {
            pub p: Parameter,
        }

        #[cell]
        impl $name {
            fn construct(&self, x: &Tensor) -> Tensor {
                x * 1.0
            }

            fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
                (dout * &self.p,)
            }
        }
    };
}

reads! {
    /// Reads in the backward pass, and does not write.
    #[cell]
    Reads
}

reads! {
    /// Works like [`Reads`], traced once for all of its calls.
    #[cell]
    #[lazy_inline]
    SharedReads
}

/// Holds all cells that cases call. They use the same parameter, except `other` and `apart`.
#[cell]
pub struct Net {
    pub p: Parameter,
    pub q: Parameter,
    pub adds: Adds,
    pub also: Adds,
    pub other: Adds,
    pub shared: Shared,
    pub around: Around,
    pub counts: Counts,
    pub both: Both,
    pub decides: Decides,
    pub nested: Nested,
    pub saves: Saves,
    pub reads: Reads,
    pub apart: Reads,
    pub shared_reads: [SharedReads; 2],
}

impl Net {
    pub fn new() -> Self {
        let [p, q] = [1.0, 100.0].map(|it| Parameter::new(Tensor::scalar(it), ""));
        let adds = || Adds { p: p.clone() };
        Self {
            adds: adds(),
            also: adds(),
            other: Adds { p: q.clone() },
            shared: Shared { p: p.clone() },
            around: Around { adds: adds() },
            counts: Counts { p: p.clone() },
            both: Both { p: p.clone() },
            decides: Decides { p: p.clone() },
            nested: Nested { p: p.clone(), adds: adds() },
            saves: Saves { p: p.clone() },
            reads: Reads { p: p.clone() },
            apart: Reads { p: q.clone() },
            shared_reads: [SharedReads { p: q.clone() }, SharedReads { p: p.clone() }],
            p,
            q,
        }
    }
}
