//! Compares slices at positions in tensors with slices at positions on the host.

use ms::ops;
use ms::tensor::Ellipsis;
use ms::{Code, DType, Tensor, tensor};
use ms_conformance::counted::counted;
use ms_conformance::late_errors::catch;

#[test]
fn slices_are_those_of_numbers() {
    let read =
        ms::jit(|x: &Tensor, at: &Tensor, size: &usize, axis: &usize| ops::dynamic_slice(x, at, *size, *axis as isize));
    let write = ms::jit(|x: &Tensor, value: &Tensor, at: &Tensor, axis: &usize| {
        ops::dynamic_update_slice(x, value, at, *axis as isize)
    });
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U8] {
        let x = counted([2, 4, 3]).cast(dtype);
        for (axis, all) in [(0, 2), (1, 4), (2, 3)] {
            for (start, size) in (0..=all).flat_map(|start| (0..=all - start).map(move |size| (start, size))) {
                let (at, mut starts, mut sizes) = (Tensor::scalar(start as i64), [0; 3], [2, 4, 3]);
                (starts[axis], sizes[axis]) = (start, size);
                let want = ops::slice(&x, &starts, &sizes);
                let what = format!("{size} from {start} along {axis}, {dtype}");
                let same = |got: Tensor| assert_eq!(got.to_string(), want.to_string(), "{what}");
                same(ops::dynamic_slice(&x, &at, size, axis as isize));
                same(read(&x, &at, &size, &axis));
                let value = ops::add(&want, 100);
                for got in [ops::dynamic_update_slice(&x, &value, &at, axis as isize), write(&x, &value, &at, &axis)] {
                    assert_eq!(ops::slice(&got, &starts, &sizes).to_string(), value.to_string(), "{what}");
                    let changed = ops::not_equal(&got, &x).cast(DType::I64).sum(()).item::<i64>();
                    assert_eq!(changed, value.numel() as i64, "{what}");
                }
            }
        }
    }
}

#[test]
fn starts_may_differ_along_first_axes() {
    let x = counted([2, 2, 3]);
    assert_eq!(ops::dynamic_slice(&x, tensor![0, 1], 2, 2).to_vec::<f32>(), [0., 1., 3., 4., 7., 8., 10., 11.]);
    let each = tensor![[0, 1], [2, 0]];
    assert_eq!(ops::dynamic_slice(&x, &each, 1, 2).to_vec::<f32>(), [0., 4., 8., 9.]);
    let lanes = ms::vmap(|x: &Tensor, at: &Tensor| ops::dynamic_slice(x, at, 1, 1));
    assert_eq!(lanes(&x, &tensor![0, 2]).to_vec::<f32>(), [0., 3., 8., 11.]);
    let lanes = ms::vmap(|x: &Tensor, at: &Tensor| ops::dynamic_update_slice(x, tensor![[-1f32], [-2.]], at, 1));
    let want = [-1., 1., 2., -2., 4., 5., 6., 7., -1., 9., 10., -2.];
    assert_eq!(lanes(&x, &tensor![0, 2]).to_vec::<f32>(), want);
}

#[test]
fn one_position_is_written_without_an_index() {
    let (x, row) = (counted([2, 3, 2]), tensor![8.0, 9.0]);
    let graph = ms::internals::trace::build("write", &[x.ty(), Tensor::scalar(0i64).ty()], |x| {
        Ok(vec![x[0].set_at((.., &x[1]), 1.0)])
    });
    let graph = graph.expect("the trace is valid").to_string();
    assert!(graph.contains("dynamic_update_slice") && !graph.contains("scatter"), "{graph}");
    for at in [0, 2, -1, -3] {
        let position = Tensor::scalar(at as i64);
        assert_eq!(x.set_at((.., &position), &row).to_string(), x.set_at((.., at), &row).to_string());
        assert_eq!(x.set_at((Ellipsis, &position, ..), &row).to_string(), x.set_at((.., at), &row).to_string());
    }
}

#[test]
fn refusals_of_dynamic_slices() {
    let x = counted([2, 3]);
    let read = ms::jit(|x: &Tensor, at: &Tensor| ops::dynamic_slice(x, at, 2, 1));
    for at in [-1, 2, 3, i64::MIN, i64::MAX] {
        let at = Tensor::scalar(at);
        assert_eq!(catch(|| ops::dynamic_slice(&x, &at, 2, 1)).expect_err("outside").code(), Code::OutOfRange);
        assert_eq!(catch(|| read(&x, &at)).expect_err("outside").code(), Code::OutOfRange);
        let update = || ops::dynamic_update_slice(&x, x.i((.., 0..2)), &at, 1);
        assert_eq!(catch(update).expect_err("outside").code(), Code::OutOfRange);
    }
    let refused = |f: &dyn Fn() -> Tensor| catch(f).expect_err("refused").code();
    let zero = Tensor::scalar(0i64);
    assert_eq!(refused(&|| ops::dynamic_slice(&x, &zero, 4, 1)), Code::Shape);
    assert_eq!(refused(&|| ops::dynamic_slice(&x, tensor![0, 0, 0], 1, 1)), Code::Shape);
    assert_eq!(refused(&|| ops::dynamic_slice(&x, tensor![0, 0], 1, 0)), Code::Shape);
    assert_eq!(refused(&|| ops::dynamic_slice(&x, tensor!(0.5), 1, 1)), Code::DType);
    assert_eq!(refused(&|| ops::dynamic_update_slice(&x, tensor![[1.0]], &zero, 1)), Code::Shape);
    assert_eq!(refused(&|| ops::dynamic_update_slice(&x, tensor![[1], [2]], &zero, 1)), Code::DType);
}
