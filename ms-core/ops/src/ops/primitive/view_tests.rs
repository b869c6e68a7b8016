//! Tests of random chains of views. A view of a strided array must have the same elements as the evaluation of the op
//! on a copy.

use crate::ops::core::philox::Stream;
use crate::ops::{BROADCAST_TO, Lowering, OpDef, PERMUTE, RESHAPE, SLICE};
use crate::tensor::{Array, Attr, Attrs};

/// A source of random choices.
struct Choices(Box<dyn Iterator<Item = u32>>);

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        self.0.next().expect("words have no end") as usize % end
    }
}

/// Returns a random view of an array of `shape`.
fn random_view(shape: &[usize], choices: &mut Choices) -> (&'static OpDef, Attrs) {
    let list = |it: Vec<usize>| Attr::from(&*it);
    let rank = shape.len();
    match choices.below(4) {
        0 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|i| axes.swap(i, choices.below(i + 1)));
            (&PERMUTE, Attrs::new([list(axes)]))
        }
        1 => {
            let mut attrs: [Vec<i64>; 3] = Default::default();
            for &size in shape {
                let stride = 1 + choices.below(3);
                let count = choices.below(size.div_ceil(stride) + 1);
                let span = count.saturating_sub(1) * stride;
                let low = if count == 0 { 0 } else { choices.below(size - span) };
                let backwards = choices.below(2) == 0;
                attrs[0].push(if backwards { low + span } else { low } as i64);
                attrs[1].push(count as i64);
                attrs[2].push(if backwards { -(stride as i64) } else { stride as i64 });
            }
            (&SLICE, Attrs::new(attrs.iter().map(|it| Attr::from(&**it))))
        }
        2 => {
            let wider = shape.iter().map(|&size| if size == 1 { 1 + choices.below(3) } else { size });
            let mut wider: Vec<usize> = wider.collect();
            if choices.below(2) == 0 && rank < 5 {
                wider.insert(0, 1 + choices.below(2));
            }
            (&BROADCAST_TO, Attrs::new([list(wider)]))
        }
        _ => {
            // Merges a pair of axes, splits an axis, or inserts an axis of size 1.
            let mut other = shape.to_vec();
            match choices.below(3) {
                0 if rank > 1 => {
                    let at = choices.below(rank - 1);
                    other[at] *= other.remove(at + 1);
                }
                1 if rank > 0 && rank < 6 => {
                    let at = choices.below(rank);
                    let inner = if other[at].is_multiple_of(2) { 2 } else { 1 };
                    other[at] /= inner;
                    other.insert(at + 1, inner);
                }
                _ => other.insert(choices.below(rank + 1), 1),
            }
            (&RESHAPE, Attrs::new([list(other)]))
        }
    }
}

#[test]
fn random_chains_of_views() {
    let (mut viewed, mut copied) = (0, 0);
    for seed in 0..400 {
        let mut choices = Choices(Box::new(Stream::new(seed, 0).words()));
        let shape: Vec<usize> = (0..1 + choices.below(3)).map(|_| 1 + choices.below(6)).collect();
        let elements: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        let mut strided = Array::from_slice(&shape, &elements);
        let mut dense = strided.clone();
        for _ in 0..6 {
            let (def, attrs) = random_view(dense.shape(), &mut choices);
            let Lowering::View(view) = def.lowering else { unreachable!("`{}` is a view", def.name()) };
            let wanted = (def.infer)(&attrs, &[&dense.ty()]).expect("the view exists");
            dense = (def.eval)(&attrs, &[&dense]).expect("the view exists").remove(0);
            assert_eq!(dense.ty(), wanted[0], "`{}` of seed {seed}", def.name());
            strided = match view(&attrs, strided.layout()) {
                Some(layout) => {
                    viewed += 1;
                    strided.with_layout(layout)
                }
                None => {
                    copied += 1;
                    let row_major = strided.on_host().expect("the elements are readable").duplicate();
                    row_major.with_layout(view(&attrs, row_major.layout()).expect("a row-major operand has the view"))
                }
            };
            assert_eq!(strided.shape(), dense.shape(), "`{}` of seed {seed}", def.name());
            let elements: Vec<i32> = strided.on_host().expect("the elements are readable").iter().collect();
            assert_eq!(
                elements,
                dense.on_host().expect("the elements are readable").as_slice::<i32>().expect("dense"),
                "`{}` of seed {seed}",
                def.name()
            );
            assert_eq!(
                strided
                    .on_host()
                    .expect("the elements are readable")
                    .duplicate()
                    .on_host()
                    .expect("the elements are readable")
                    .as_slice::<i32>()
                    .expect("dense"),
                elements
            );
        }
    }
    assert!(viewed > 1000 && copied > 10, "{viewed} views, {copied} copies");
}
