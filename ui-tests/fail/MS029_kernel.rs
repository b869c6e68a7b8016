// A kernel is a function from numbers to numbers: no loops on them, no jumps, no patterns, no macros, no tensors.
use ms::prelude::*;

ms::kernel! {
    fn loops(x: Float) -> Float {
        let mut y = x;
        while y > 1.0 {
            y = y / 2.0;
        }
        y
    }
}

ms::kernel! {
    fn jumps(x: Float) -> Float {
        if x > 0.0 {
            return x;
        }
        -x
    }
}

ms::kernel! {
    fn assigns(x: Float) -> Float {
        let mut y = x;
        let z = if x > 0.0 { y = x * 2.0; y } else { y += 1.0; x };
        y + z
    }
}

ms::kernel! {
    fn matches(x: Float, n: i64) -> Float {
        println!("{n}");
        match n { 0 => x, _ => -x }
    }
}

ms::kernel! {
    fn of_tensors(x: &Tensor) -> Tensor {
        x + 1.0
    }
}

ms::kernel! {
    fn without_operands(n: i64) -> (Float, Float) {
        (Float::from(1.0), Float::from(2.0))
    }
}

ms::kernel! {
    fn of_other_results(x: Int) -> (Int, i64) {
        (x, 2)
    }
}

ms::kernel! {
    fn one_of_a_tuple(x: Int) -> (Int,) {
        (x,)
    }
}

fn main() {}
