//! Maps functions over all parts of structures: `HyperMap`, `Map` and `MultitypeFuncGraph`.

mod overload;
mod value;

pub use overload::{Kind, MultitypeFuncGraph, Overload};
pub use value::{FromValue, Number, Structure, Value};

use super::arg::Tree;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result};

/// Calls a function on corresponding parts of structures, at any depth, and returns a structure of the results.
///
/// ```
/// use ms_core::{Tensor, ops, tensor, trace::{HyperMap, MultitypeFuncGraph}};
/// let square = MultitypeFuncGraph::new("square")
///     .register(|x: &Tensor| ops::square(x))
///     .register(|x: &f64| x * x);
/// let (x, y) = HyperMap::new(square).call(&(tensor![1.0, 2.0, 3.0], 4.0));
/// assert_eq!(x.to_vec::<f32>(), [1.0, 4.0, 9.0]);
/// assert_eq!(y, 16.0);
/// ```
///
/// Structures of one call must have the same form, eagerly and in compiled code. Tuples match tuples, lists match
/// lists, maps have equal keys, and lengths are equal.
#[derive(Clone)]
pub struct HyperMap {
    function: MultitypeFuncGraph,
    reverse: bool,
    /// Whether nested parts are visited.
    deep: bool,
}

/// Like [`HyperMap`], for one level: the parts themselves are the arguments, even if they are structures.
///
/// ```
/// use ms_core::{Tensor, ops, tensor, trace::{Map, MultitypeFuncGraph}};
/// let square = MultitypeFuncGraph::new("square").register(|x: &Tensor| ops::square(x)).register(|x: &f64| x * x);
/// let (x, y) = Map::new(square).call(&(tensor![2.0], 3.0));
/// assert_eq!((x.item::<f32>(), y), (4.0, 9.0));
/// ```
pub struct Map;

impl Map {
    /// Maps `function` over the parts of structures, without nested parts.
    #[expect(clippy::new_ret_no_self, reason = "a map is a hyper map of one level")]
    pub fn new(function: MultitypeFuncGraph) -> HyperMap {
        HyperMap { deep: false, ..HyperMap::new(function) }
    }
}

impl HyperMap {
    /// Maps `function` over all parts of structures.
    pub fn new(function: MultitypeFuncGraph) -> Self {
        Self { function, reverse: false, deep: true }
    }

    /// Calls the function in reverse order of the parts. The positions of the results are the same.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Calls the function on the parts of one structure. The results have the types of the parts.
    ///
    /// # Panics
    /// Raises [`Code::NoOverload`] for parts that the function does not accept.
    #[track_caller]
    pub fn call<T: Structure + FromValue>(&self, structure: &T) -> T {
        self.call_as(&[structure])
    }

    /// Calls the function on the parts of several structures, and returns a structure of type `R`.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, tensor, trace::{HyperMap, MultitypeFuncGraph}};
    /// let scale = MultitypeFuncGraph::new("scale").register(|x: &Tensor, k: &f64| ops::mul(x, *k));
    /// let scaled: (Tensor, Tensor) = HyperMap::new(scale).call_as(&[&(tensor![1.0], tensor![2.0]), &(10.0, 0.5)]);
    /// assert_eq!((scaled.0.item::<f32>(), scaled.1.item::<f32>()), (10.0, 1.0));
    /// ```
    ///
    /// # Panics
    /// Raises [`Code::Structure`] for structures of different forms, [`Code::NoOverload`] for parts that the function
    /// does not accept, and [`Code::Argument`] when the results have other types.
    #[track_caller]
    pub fn call_as<R: FromValue>(&self, structures: &[&dyn Structure]) -> R {
        let values: Vec<Value> = structures.map_vec(|it| it.value());
        let result = self.apply(&values.iter().collect::<Vec<_>>(), true);
        result.and_then(value::convert).or_raise()
    }

    /// Calls the function on the tensors of a structure that is not a tuple or list, such as the gradients of a cell.
    /// It must return a tensor for each.
    ///
    /// # Panics
    /// Raises [`Code::NoOverload`] if it does not accept a tensor, and [`Code::Argument`] if it does not return one.
    #[track_caller]
    pub fn call_tree<T: Tree>(&self, tree: &T) -> T {
        tree.rebuild(&mut |it| {
            let result = self.function.apply(&[&Value::Tensor(it.clone())]);
            result.and_then(value::convert).or_raise()
        })
    }

    fn apply(&self, values: &[&Value], first: bool) -> Result<Value> {
        let Some(parts) = values.iter().find(|it| it.parts().is_some()).filter(|_| self.deep || first) else {
            return self.function.apply(values);
        };
        let all = columns(parts, values)?;
        let count = all[0].len();
        let row = |at: usize| self.apply(&all.map_vec(|it| it[at]), false);
        let results = match self.reverse {
            false => (0..count).map(row).collect::<Result<Vec<_>>>()?,
            true => {
                let mut results = (0..count).rev().map(row).collect::<Result<Vec<_>>>()?;
                results.reverse();
                results
            }
        };
        Ok(parts.with_parts(results))
    }
}

/// Returns the corresponding parts of structures with the same form.
fn columns<'a>(form: &Value, values: &[&'a Value]) -> Result<Vec<Vec<&'a Value>>> {
    let refuse = |message: String| {
        let help = "structures that are mapped together have the same form, down to the parts";
        Error::new(Code::Structure, message)
            .with_op("HyperMap")
            .with_operands(values.iter().map(|it| it.to_string()))
            .help(help)
    };
    let count = form.parts().map_or(0, |it| it.len());
    let of = |(at, value): (usize, &&'a Value)| {
        let Some(parts) = value.parts().filter(|_| value.kind() == form.kind()) else {
            return Err(refuse(format!("structure {at} has {} where another one has {}", value.kind(), form.kind())));
        };
        if parts.len() != count {
            let message = format!("structure {at} has {} parts where another one has {count}", parts.len());
            return Err(refuse(message));
        }
        if let (Value::Dict(a), Value::Dict(b)) = (form, value)
            && let Some((a, b)) = a.iter().zip(b).find(|(a, b)| a.0 != b.0)
        {
            return Err(refuse(format!("structure {at} has the key {:?} where another one has {:?}", b.0, a.0)));
        }
        Ok(parts)
    };
    values.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ops::ops;
    use ms_ops::ops::core::testing::{refused, run};
    use ms_ops::tensor::Tensor;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    fn vector(data: &[f32]) -> Tensor {
        Tensor::from_slice([data.len()], data)
    }

    fn add() -> MultitypeFuncGraph {
        MultitypeFuncGraph::new("add")
            .register(|x: &Tensor, y: &Tensor| ops::add(x, y))
            .register(|x: &i64, y: &i64| x + y)
            .register(|x: &Number, y: &Number| x.as_f64() + y.as_f64())
    }

    #[test]
    fn structures_of_any_depth() {
        run(|| {
            let sum: ((Tensor, i64), Vec<f64>) = HyperMap::new(add())
                .call_as(&[&((vector(&[1.0]), 2i64), vec![0.5]), &((vector(&[10.0]), 3i64), vec![1.0])]);
            assert_eq!((sum.0.0.to_vec::<f32>(), sum.0.1, sum.1), (vec![11.0], 5, vec![1.5]));
            let mixed: (f64,) = HyperMap::new(add()).call_as(&[&(1i64,), &(2.5,)]);
            assert_eq!(mixed, (3.5,));
            let leaf: i64 = HyperMap::new(add()).call_as(&[&1i64, &2i64]);
            assert_eq!(leaf, 3);
            HyperMap::new(add()).call(&());
            let twice = MultitypeFuncGraph::new("twice").register(|x: &i64| 2 * x);
            let map = BTreeMap::from([("a".to_owned(), 1i64), ("b".to_owned(), 2)]);
            assert_eq!(HyperMap::new(twice).call(&map), BTreeMap::from([("a".to_owned(), 2i64), ("b".to_owned(), 4)]));
        });
    }

    #[test]
    fn the_last_part_may_be_the_first_to_be_visited() {
        for (reverse, want) in [(false, [1, 2, 3]), (true, [3, 2, 1])] {
            let seen = Rc::new(RefCell::new(Vec::new()));
            let note = seen.clone();
            let visit = MultitypeFuncGraph::new("visit").register(move |x: &i64| {
                note.borrow_mut().push(*x);
                x * 10
            });
            let map = HyperMap::new(visit);
            let map = if reverse { map.reverse() } else { map };
            assert_eq!(map.call(&(1i64, 2i64, 3i64)), (10, 20, 30));
            assert_eq!(*seen.borrow(), want);
        }
    }

    #[test]
    fn a_map_hands_over_parts_as_they_are() {
        let count =
            MultitypeFuncGraph::new("count").register(|parts: &[Value]| parts.len() as i64).register(|_: &Value| 1i64);
        let lengths: (i64, i64) = Map::new(count.clone()).call_as(&[&((1i64, 2i64, 3i64), 5i64)]);
        assert_eq!(lengths, (3, 1));
        let deep: ((i64, i64, i64), i64) = HyperMap::new(count).call_as(&[&((1i64, 2i64, 3i64), 5i64)]);
        assert_eq!(deep, ((1, 1, 1), 1));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        type Args<'a> = [&'a dyn Structure; 2];
        let (two, nested) = ((1i64, 2i64), ((1i64,), 2i64));
        let map = |key: &str| BTreeMap::from([(key.to_owned(), 1i64)]);
        let cases: [(Args<'_>, Code); 7] = [
            ([&(1i64,), &two], Code::Structure),
            ([&two, &(1i64,)], Code::Structure),
            ([&two, &1i64], Code::Structure),
            ([&two, &vec![1i64, 2]], Code::Structure),
            ([&nested, &two], Code::Structure),
            ([&map("a"), &map("b")], Code::Structure),
            ([&(1i64,), &("text".to_owned(),)], Code::NoOverload),
        ];
        for (arguments, code) in cases {
            assert_eq!(refused(|| HyperMap::new(add()).call_as::<Value>(&arguments)), code);
        }
        assert_eq!(refused(|| HyperMap::new(add()).call_as::<(f64,)>(&[&(1i64,), &(2i64,)])), Code::Argument);
        assert_eq!(refused(|| HyperMap::new(MultitypeFuncGraph::new("none")).call(&1i64)), Code::NoOverload);
    }
}
