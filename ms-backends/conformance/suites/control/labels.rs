//! Tests jumps that depend on tensors out of labelled blocks.

use ms::prelude::*;
use ms_conformance::paths::{check, scalars};

fn number(value: f32) -> Tensor {
    Tensor::scalar(value)
}

twins! {
    fn block_with_a_value(x, y;) {
        let mut n = number(1.0);
        let larger = 'found: {
            if x > y {
                break 'found x * 2.0;
            }
            n += 10.0;
            if y > 5.0 {
                break 'found y * 3.0;
            }
            n += 100.0;
            x + y
        };
        larger + n
    }
}

twins! {
    fn block_as_a_statement(x, y; stop: bool) {
        let mut x = x.clone();
        'steps: {
            x += 1.0;
            if x > 3.0 {
                break 'steps;
            }
            x += 10.0;
            if stop {
                break 'steps;
            }
            if x < y {
                x = x * 2.0;
                break 'steps;
            }
            x += 100.0;
        }
        x
    }
}

twins! {
    fn block_in_a_loop(x, y;) {
        let mut x = x.clone();
        let mut i = number(0.0);
        'all: while i < 6.0 {
            i += 1.0;
            'one: {
                if x > 8.0 {
                    break 'one;
                }
                x += y;
                if x > 20.0 {
                    return x * 1000.0;
                }
                if x == 6.0 {
                    continue 'all;
                }
                if x < 0.0 {
                    break 'all;
                }
                x += 1.0;
            }
            x += 0.25;
        }
        x
    }
}

#[jit]
fn loop_in_a_block(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let found = 'search: {
        for i in 0..4 {
            for j in ms::range(0, 3) {
                x += y * &j;
                if x > 10.0 {
                    break 'search &x + i;
                }
            }
            if x < -10.0 {
                break 'search &x - 1000.0;
            }
        }
        -&x
    };
    found + x * 0.5
}

#[jit]
fn block_that_is_left_for_certain(x: &Tensor, early: bool) -> Tensor {
    let y = 'a: {
        if x > 0.0 {
            'b: {
                if early {
                    break 'a x + 1.0;
                }
                break 'b;
            }
            break 'a x + 2.0;
        }
        return x * 10.0;
    };
    y + 100.0
}

#[test]
fn labelled_blocks() {
    let pairs = [(7.0, 1.0), (1.0, 6.0), (1.0, 2.0), (2.0, 40.0), (-3.0, -2.0), (4.0, 1.0), (0.0, 5.0)];
    for (x, y) in pairs {
        let inputs = scalars(&[x, y]);
        let want = [block_with_a_value::native(x, y) as f64];
        check("block_with_a_value", |it| vec![block_with_a_value(&it[0], &it[1])], &inputs, &[&want]);
        for stop in [false, true] {
            let want = [block_as_a_statement::native(x, y, stop) as f64];
            let run = |it: &[Tensor]| vec![block_as_a_statement(&it[0], &it[1], stop)];
            check("block_as_a_statement", run, &inputs, &[&want]);
        }
        let want = [block_in_a_loop::native(x, y) as f64];
        check("block_in_a_loop", |it| vec![block_in_a_loop(&it[0], &it[1])], &inputs, &[&want]);
        let mut now = x;
        let found = 'search: {
            for i in 0..4 {
                for j in 0..3 {
                    now += y * j as f32;
                    if now > 10.0 {
                        break 'search now + i as f32;
                    }
                }
                if now < -10.0 {
                    break 'search now - 1000.0;
                }
            }
            -now
        };
        let want = [(found + now * 0.5) as f64];
        check("loop_in_a_block", |it| vec![loop_in_a_block(&it[0], &it[1])], &inputs, &[&want]);
        for early in [false, true] {
            let want = match (x > 0.0, early) {
                (false, _) => x * 10.0,
                (true, true) => x + 101.0,
                (true, false) => x + 102.0,
            };
            let run = |it: &[Tensor]| vec![block_that_is_left_for_certain(&it[0], early)];
            check("block_that_is_left_for_certain", run, &inputs[..1], &[&[want as f64]]);
        }
    }
}
