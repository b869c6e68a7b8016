//! Tests which memory safe code can observe through any function of the library.
//!
//! Safe code sees only initialised elements, as values of their dtype, inside the memory of the array. Functions with
//! conditions for the caller are `unsafe`: `ui-tests/fail/memory_needs_unsafe.rs`,
//! `ui-tests/fail/memory_is_read_as_its_dtype.rs`.

#![forbid(unsafe_code)]

use ms::internals::ir::{Graph, Node};
use ms::internals::session::{Compiled, Precision};
use ms::ops;
use ms::tensor::{Array, Attrs, DType, Layout, Type};
use ms::{Code, catch};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The largest size.
const MAX: usize = usize::MAX;

/// Arrays that safe code creates, and that tensors hold, have all elements of their shape.
#[test]
fn arrays_have_the_memory_of_their_shapes() {
    let refused = |array: &dyn Fn() -> Array| catch(array).expect_err("no such array").code();
    for shape in [&[1 << 61][..], &[1 << 62, 8], &[1 << 32, 1 << 32], &[MAX, MAX], &[MAX]] {
        assert_eq!(refused(&|| Array::zeros(shape, DType::I64)), Code::Memory, "{shape:?}");
        assert_eq!(refused(&|| Array::full(shape, 1.into(), DType::I64)), Code::Memory, "{shape:?}");
        assert_eq!(refused(&|| Array::from_bytes(shape, DType::I64, &[])), Code::Shape, "{shape:?}");
        assert_eq!(refused(&|| Array::from_slice::<f32>(shape, &[])), Code::Shape, "{shape:?}");
        // The copy does not fit either, although its one element does.
        let element = Array::zeros(&[], DType::I64);
        let Ok(broadcast) = element.layout().broadcast_to(shape) else { continue };
        let copied = catch_unwind(AssertUnwindSafe(|| {
            catch(|| element.with_layout(broadcast).on_host().expect("the elements are readable").to_contiguous())
        }));
        assert!(copied.is_err() || copied.is_ok_and(|it| it.is_err()), "{shape:?}");
    }
    assert_eq!(
        Array::zeros(&[1 << 40, 1 << 40, 0], DType::F32)
            .on_host()
            .expect("the elements are readable")
            .as_slice::<f32>()
            .expect("floats"),
        [0f32; 0]
    );
    let bools = Array::from_bytes(&[3], DType::Bool, &[0, 2, 255]);
    assert_eq!(
        bools.on_host().expect("the elements are readable").as_slice::<bool>().expect("bools"),
        [false, true, true]
    );
    assert!(bools.on_host().expect("the elements are readable").as_slice::<u8>().is_err());
    assert!(
        Array::from_slice(&[3], &[0u8, 2, 255])
            .on_host()
            .expect("the elements are readable")
            .as_slice::<bool>()
            .is_err()
    );
}

/// A function that reads an array reads the elements of the view, whatever its layout.
#[test]
fn classes_are_those_of_the_view() {
    let attrs = Attrs::new([3i64.into(), [0i64; 0][..].into(), "a test".into()]);
    let check = |classes: &Array| (ops::CLASS_INDEX.eval)(&attrs, &[classes]).map(drop).map_err(|it| it.code());
    let row = Array::from_slice(&[4], &[0i64, 9, 2, 9]);
    let view =
        |shape: &[usize], strides: &[isize], offset| row.with_layout(Layout::new(shape.into(), strides.into(), offset));
    assert_eq!(check(&row), Err(Code::OutOfRange));
    assert_eq!(check(&view(&[2], &[2], 0)), Ok(()), "every other element");
    assert_eq!(check(&view(&[2], &[-2], 3)), Err(Code::OutOfRange), "the others, backwards");
    assert_eq!(check(&view(&[1 << 20], &[0], 2)), Ok(()), "one element again and again");
    assert_eq!(check(&view(&[0], &[1], MAX)), Ok(()), "no element");
}

#[test]
fn views_lie_inside_their_memory() {
    let array = Array::from_slice(&[4], &[1i32, 2, 3, 4]);
    let layout = |shape: &[usize], strides: &[isize], offset| Layout::new(shape.into(), strides.into(), offset);
    for outside in [
        layout(&[2], &[4], 0),
        layout(&[2], &[-1], 0),
        layout(&[1], &[1], 4),
        layout(&[1], &[1], MAX),
        layout(&[MAX, MAX], &[isize::MAX, isize::MAX], 0),
        layout(&[MAX, MAX], &[0, 0], 0),
        layout(&[2, 2], &[isize::MIN, isize::MIN], 0),
        layout(&[4], &[1], 0).slice(0, 3, 2, isize::MAX),
        layout(&[4], &[1], 0).slice(0, MAX, 2, -1),
    ] {
        assert!(!outside.fits(4), "{outside:?}");
        let view = AssertUnwindSafe(|| array.with_layout(outside.clone()));
        assert!(catch_unwind(view).is_err(), "{outside:?}");
    }
    assert!(catch_unwind(|| layout(&[5, 2], &[1], 0)).is_err(), "every dimension has a stride");
    for offset in [4, MAX, MAX / 4, (MAX / 4) + 1] {
        let nothing = array.with_layout(layout(&[0], &[1], offset));
        assert_eq!(
            nothing.on_host().expect("the elements are readable").as_slice::<i32>().expect("integers"),
            [0i32; 0]
        );
    }
    let mut target = Array::zeros(&[2], DType::I32);
    let places = layout(&[4], &[1], 0);
    assert!(
        catch_unwind(AssertUnwindSafe(|| target.assign(&places, &array.on_host().expect("on the host")))).is_err(),
        "four do not fit into two"
    );
}

#[test]
fn graphs_that_lie_are_not_compiled() {
    let mut graph = Graph::new("lie");
    let x = graph.add_input(Type::of(DType::F32, &[1]));
    let node = graph.add_node(Node::new(ops::EXP.op(), Attrs::none(), [x]), [Type::of(DType::F32, &[1 << 20])]);
    let y = graph.node(node).outputs[0];
    graph.set_outputs([y]);
    let error = Compiled::new(&graph, Precision::Strict).err().expect("exp keeps the shape");
    assert_eq!(error.code(), Code::Verify);
}
