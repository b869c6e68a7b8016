//! Checks MindSpore's tables of operators and of indexing in Rust: values and dtypes, eagerly and compiled.
//!
//! `docs/conformance.md` lists the differences in spelling.

use ms::tensor::{Ellipsis, NewAxis, WithStep};
use ms::{Code, DType, Tensor, catch, ops, tensor};
use ms_core::session::{Compiled, Precision};
use ms_core::trace;

type Rule = fn(&[Tensor]) -> Tensor;

/// A rule by name, and the shape, dtype and values of its result.
type Row<'a> = (&'a str, Rule, &'a [usize], DType, &'a [f64]);

fn compiled(name: &str, f: Rule, operands: &[Tensor]) -> Tensor {
    let types: Vec<_> = operands.iter().map(Tensor::ty).collect();
    let graph = trace::build(name, &types, |operands| Ok(vec![f(operands)])).expect("the trace is valid");
    Compiled::new(&graph, Precision::Strict).and_then(|it| it.run(operands)).expect("the graph runs").remove(0)
}

/// Checks the shapes, dtypes and values of rules.
fn check(operands: &[Tensor], rules: &[Row<'_>]) {
    for &(name, f, shape, dtype, want) in rules {
        for (way, got) in [("eagerly", f(operands)), ("compiled", compiled(name, f, operands))] {
            assert_eq!((got.shape(), got.dtype()), (shape, dtype), "{name}, {way}");
            let got = got.try_array().and_then(ms::tensor::Array::into_host).expect("an array").scalars();
            assert_eq!(got.into_iter().map(|it| it.as_f64()).collect::<Vec<_>>(), want, "{name}, {way}");
        }
    }
}

#[test]
fn operators_between_tensors_and_numbers() {
    use DType::*;
    let operands = [
        tensor![7., -7.],
        tensor![2., 2.],
        tensor![7, -7].cast(I32),
        tensor![2, 2].cast(I32),
        tensor![true, false],
        tensor![3u8, 5],
        tensor![1.5, 2.5].cast(F16),
    ];
    check(
        &operands,
        &[
            ("x + y", |x| &x[0] + &x[1], &[2], F32, &[9., -5.]),
            ("x - 1", |x| &x[0] - 1, &[2], F32, &[6., -8.]),
            ("1 - x", |x| 1.0 - &x[0], &[2], F32, &[-6., 8.]),
            ("x * y", |x| &x[0] * &x[1], &[2], F32, &[14., -14.]),
            ("x / y", |x| &x[0] / &x[1], &[2], F32, &[3.5, -3.5]),
            ("integers / integers", |x| &x[2] / &x[3], &[2], F32, &[3.5, -3.5]),
            ("x // y", |x| x[0].floor_div(&x[1]), &[2], F32, &[3., -4.]),
            ("integers // integers", |x| x[2].floor_div(&x[3]), &[2], I32, &[3., -4.]),
            ("x % y", |x| &x[0] % &x[1], &[2], F32, &[1., 1.]),
            ("integers % 2", |x| &x[2] % 2, &[2], I32, &[1., 1.]),
            ("x ** 2", |x| x[0].pow(2), &[2], F32, &[49., 49.]),
            ("2 ** integers", |x| ops::pow(2, &x[3]), &[2], I32, &[4., 4.]),
            ("-x", |x| -&x[2], &[2], I32, &[-7., 7.]),
            ("x @ y", |x| x[0].matmul(&x[1]), &[], F32, &[0.]),
            ("integers + floats", |x| &x[2] + &x[0], &[2], F32, &[14., -14.]),
            ("integers + halves", |x| &x[2] + &x[6], &[2], F16, &[8.5, -4.5]),
            ("bytes + integers", |x| &x[5] + &x[2], &[2], I32, &[10., -2.]),
            ("bools + integers", |x| &x[4] + &x[2], &[2], I32, &[8., -7.]),
            ("integers & 3", |x| &x[2] & 3, &[2], I32, &[3., 1.]),
            ("integers | 8", |x| &x[2] | 8, &[2], I32, &[15., -7.]),
            ("integers ^ integers", |x| &x[2] ^ &x[3], &[2], I32, &[5., -5.]),
            ("bools & bools", |x| &x[4] & &x[4], &[2], Bool, &[1., 0.]),
            ("~bools", |x| !&x[4], &[2], Bool, &[0., 1.]),
            ("~integers", |x| !&x[2], &[2], I32, &[-8., 6.]),
            ("integers << 1", |x| &x[2] << 1, &[2], I32, &[14., -14.]),
            ("integers >> 1", |x| &x[2] >> 1, &[2], I32, &[3., -4.]),
            ("x < y", |x| x[0].lt(&x[1]), &[2], Bool, &[0., 1.]),
            ("x == 7", |x| x[0].eq(7), &[2], Bool, &[1., 0.]),
            ("not integers", |x| x[2].logical_not(), &[2], Bool, &[0., 0.]),
            (
                "x += y, the operand stays",
                |x| {
                    let mut sum = x[0].clone();
                    sum += &x[1];
                    sum + &x[0]
                },
                &[2],
                F32,
                &[16., -12.],
            ),
            ("where", |x| ops::select(&x[4], &x[0], 0.0), &[2], F32, &[7., 0.]),
            ("cast of floats to integers", |x| (&x[0] / 2.0).cast(I32), &[2], I32, &[3., -3.]),
        ],
    );
}

#[test]
fn parts_of_tensors() {
    use DType::*;
    let x = Tensor::from_slice([2, 3], &[0., 1., 2., 3., 4., 5.]).cast(F32);
    check(
        &[x, tensor![1, 0, 1], tensor![true, false], tensor![[1, 2], [0, 0]]],
        &[
            ("x[1]", |x| x[0].at(1), &[3], F32, &[3., 4., 5.]),
            ("x[-1, -1]", |x| x[0].i((-1, -1)), &[], F32, &[5.]),
            ("x[:, 1:]", |x| x[0].i((.., 1..)), &[2, 2], F32, &[1., 2., 4., 5.]),
            ("x[::-1, ::2]", |x| x[0].i(((..).step(-1), (..).step(2))), &[2, 2], F32, &[3., 5., 0., 2.]),
            ("x[None]", |x| x[0].i(NewAxis), &[1, 2, 3], F32, &[0., 1., 2., 3., 4., 5.]),
            ("x[..., 0]", |x| x[0].i((Ellipsis, 0)), &[2], F32, &[0., 3.]),
            ("x[9:]", |x| x[0].i(9..), &[0, 3], F32, &[]),
            ("x[index]", |x| x[0].gather(&x[1], 0), &[3, 3], F32, &[3., 4., 5., 0., 1., 2., 3., 4., 5.]),
            ("x[:, index]", |x| x[0].gather(&x[1], 1), &[2, 3], F32, &[1., 0., 1., 4., 3., 4.]),
            ("x[rows, columns]", |x| x[0].gather_nd(&x[3]), &[2], F32, &[5., 0.]),
            (
                "x[mask] with a size",
                |x| ops::masked_select_sized(&x[0], x[0].gt(2.5), 3, 0.0),
                &[3],
                F32,
                &[3., 4., 5.],
            ),
            ("x[0] = 9", |x| x[0].set_at(0, 9), &[2, 3], F32, &[9., 9., 9., 3., 4., 5.]),
            ("x[:, 1] = v", |x| x[0].set_at((.., 1), x[1].i(0..2)), &[2, 3], F32, &[0., 1., 2., 3., 0., 5.]),
            ("x[mask] = -1", |x| x[0].masked_fill(x[0].gt(3.5), -1), &[2, 3], F32, &[0., 1., 2., 3., -1., -1.]),
            ("x[row mask] = 0", |x| x[0].masked_fill(x[2].expand_dims(1), 0), &[2, 3], F32, &[0., 0., 0., 3., 4., 5.]),
            (
                "x[index] += v",
                |x| x[0].index_add(&x[1], Tensor::ones([3, 3]), 0),
                &[2, 3],
                F32,
                &[1., 2., 3., 5., 6., 7.],
            ),
            (
                "a view, written, keeps its origin",
                |x| {
                    let mut row = x[0].at(0);
                    row += 10.0;
                    ops::concat(&[row, x[0].at(0)], 0)
                },
                &[6],
                F32,
                &[10., 11., 12., 0., 1., 2.],
            ),
        ],
    );
    let x = Tensor::zeros([2, 3]);
    let refused = |f: &dyn Fn() -> Tensor| catch(f).expect_err("refused").code();
    assert_eq!(refused(&|| x.at(2)), Code::OutOfRange);
    assert_eq!(refused(&|| x.i((0, 0, 0))), Code::OutOfRange);
    assert_eq!(refused(&|| x.set_at(0, tensor![1., 2.])), Code::Shape);
    assert_eq!(refused(&|| tensor![true] - tensor![true]), Code::DType);
    assert_eq!(refused(&|| tensor![1, 2] * 2.5), Code::DType);
    assert_eq!(refused(&|| tensor![1.5] & tensor![1.5]), Code::DType);
    assert_eq!(refused(&|| tensor![1., 2.] + tensor![1., 2., 3.]), Code::Shape);
}
