//! Builds nodes of control flow: graphs under construction are suspended, and joined into one node when all of its
//! regions are complete.

use super::frame::Frame;
use super::{Binding, Tracer};
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Type, ValueId};
use ms_ops::ops::{Control, Loop};
use ms_ops::tensor::{Dispatcher, Parameter, SlotId, Tensor};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// A suspended graph under construction.
pub struct Suspended(Box<Frame>);

/// The number of iterations of a loop.
pub enum Repeated {
    /// While the condition holds.
    While {
        /// The condition, a separate graph.
        condition: Suspended,
        /// The result of the condition.
        holds: Tensor,
        /// The index of the initial value that becomes, after the body, the flag that the loop has been left. Without
        /// it, the loop ends only by its condition.
        left: Option<usize>,
    },
    /// Once for each element of sequences.
    Over {
        /// The number of elements.
        count: usize,
        /// The number of sequences after the carries among the initial values.
        sequences: usize,
        /// Values of the body that are stacked for every iteration.
        rows: Vec<Tensor>,
    },
}

impl Repeated {
    /// Creates a fixed number of iterations.
    pub fn times(count: usize) -> Self {
        Self::Over { count, sequences: 0, rows: Vec::new() }
    }
}

/// The meaning of an input of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Declared(usize),
    Slot(SlotId),
    Outer(ValueId),
}

impl Frame {
    fn key(binding: &Binding) -> Key {
        match binding {
            Binding::Argument(at) => Key::Declared(*at),
            Binding::Slot(parameter) => Key::Slot(parameter.id()),
            Binding::Outer(value) => Key::Outer(*value),
            Binding::Captured(_) => unreachable!("only the outermost graph takes captured tensors"),
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key> {
        self.bindings.iter().map(Self::key)
    }

    /// Adds the missing inputs, with these names, and sorts all inputs in this order.
    fn take_inputs(&mut self, wanted: &[(Key, Type, Option<Arc<str>>)]) {
        let order: Vec<usize> = wanted.map_vec(|(key, ty, name)| {
            let known = self.keys().position(|it| it == *key);
            known.unwrap_or_else(|| {
                let binding = match *key {
                    Key::Outer(value) => Binding::Outer(value),
                    Key::Declared(at) => Binding::Argument(at),
                    // The slot is irrelevant, because nothing here reads it.
                    Key::Slot(_) => Binding::Argument(usize::MAX),
                };
                self.input(ty.clone(), binding, name.clone());
                self.bindings.len() - 1
            })
        });
        self.graph.reorder_inputs(&order);
    }
}

impl Suspended {
    /// Returns whether a parameter is written inside.
    pub fn writes(&self) -> bool {
        self.0.written().next().is_some()
    }
}

/// Appends the missing keys.
fn add_keys(keys: &mut Vec<Key>, more: impl Iterator<Item = Key>) {
    for key in more {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
}

impl Tracer {
    /// Returns the number of graphs under construction.
    pub fn depth(&self) -> usize {
        self.state.borrow().frames.len()
    }

    /// Abandons all graphs except the `depth` outermost ones.
    pub fn unwind(&self, depth: usize) {
        let mut state = self.state.borrow_mut();
        while state.frames.len() > depth {
            state.pop();
        }
    }

    /// Begins a region of control flow. A region that `repeats` sees the writes of its previous iteration.
    pub fn open(&self, name: &str, repeats: bool) {
        let mut frame = Frame::new(name);
        frame.own_slots = repeats;
        frame.is_region = true;
        let mut state = self.state.borrow_mut();
        state.regions.push(frame.serial);
        state.push(frame);
    }

    /// Suspends the innermost region.
    pub fn suspend(&self) -> Suspended {
        Suspended(Box::new(self.state.borrow_mut().pop().expect("`open` opened the region")))
    }

    /// Resumes a suspended region.
    pub fn resume(&self, region: Suspended) {
        self.state.borrow_mut().push(*region.0);
    }

    /// Returns whether the two are the same value of this trace.
    pub fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        match (a.as_traced(), b.as_traced()) {
            (Some(a), Some(b)) => (a.frame, a.value) == (b.frame, b.value),
            (None, None) => a.identity() == b.identity(),
            _ => false,
        }
    }

    /// Returns the result of an op that failed. Uses of it are not reported again.
    pub fn poisoned(&self, ty: Type) -> Tensor {
        let mut state = self.state.borrow_mut();
        self.poison(state.top(), ty)
    }

    /// Joins two regions into a branch and returns its results. Both regions end with values of the same types. The
    /// branch writes the slots that either of them writes.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for values of another trace.
    pub fn branch(
        &self,
        condition: &Tensor,
        arms: [(Suspended, &[Tensor]); 2],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        let mut writes: Vec<Parameter> = Vec::new();
        for (arm, _) in &arms {
            add_parameters(&mut writes, arm.0.written().map(|it| &it.parameter));
        }
        let mut frames: Vec<Frame> = Vec::with_capacity(2);
        let mut count = 0;
        for (arm, results) in arms {
            count = results.len();
            frames.push(self.end(arm, results, &writes, &[])?);
        }
        let mut keys = Vec::new();
        frames.iter().for_each(|it| add_keys(&mut keys, it.keys()));
        let mut outputs = self.node(&Control::Branch, frames, Some(condition), &[], &keys, location)?;
        self.write_all(&writes, outputs.split_off(count))?;
        Ok(outputs)
    }

    /// Inlines the nodes of a region that writes nothing into the enclosing graph. `results` are values inside, and
    /// their values outside are returned.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for values of another trace.
    pub fn splice(&self, region: Suspended, results: &[Tensor]) -> Result<Vec<Tensor>> {
        let Frame { graph, bindings, .. } = self.end(region, results, &[], &[])?;
        let mut state = self.state.borrow_mut();
        let frame = state.top();
        let operands: Vec<ValueId> = bindings.map_vec(|it| match it {
            Binding::Outer(value) => *value,
            _ => unreachable!("such a region declares no inputs"),
        });
        let outputs = frame.graph.inline(&graph, &operands);
        Ok(outputs.into_iter().map(|it| self.wrap(frame, it)).collect())
    }

    /// Builds a loop and returns the values after it. `before` are its initial values, `after` their values at the end
    /// of the body, and `params` the inputs for them there, if there are any. Loop-invariant values are returned
    /// unchanged. The stacked rows of all iterations follow.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for values of another trace.
    pub fn repeat(
        &self,
        repeated: Repeated,
        body: Suspended,
        [before, after]: [&[Tensor]; 2],
        params: &[Option<Tensor>],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        let (repeated, body) = match repeated {
            Repeated::While { condition, holds, left } if condition.writes() => {
                return self.repeat_writing(condition, &holds, left, body, [before, after], params, location);
            }
            other => (other, body),
        };
        let mut writes: Vec<Parameter> = Vec::new();
        add_parameters(&mut writes, body.0.written().map(|it| &it.parameter));
        let changed: Vec<usize> =
            (0..before.len()).filter(|&i| params[i].as_ref().is_none_or(|it| !self.is_same(it, &after[i]))).collect();
        let results: Vec<Tensor> = changed.map_vec(|&i| after[i].clone());
        let carries = changed.len() + writes.len();
        let mut keys: Vec<Key> = changed.map_vec(|&i| Key::Declared(i));
        add_keys(&mut keys, writes.iter().map(|it| Key::Slot(it.id())));
        let (form, frames) = match repeated {
            Repeated::While { condition, holds, .. } => {
                let body = self.end(body, &results, &writes, &[])?;
                (Loop::repeat(carries), vec![self.end(condition, &[holds], &[], &[])?, body])
            }
            Repeated::Over { count, sequences, rows } => {
                let body = self.end(body, &results, &writes, &rows)?;
                keys.extend((before.len() - sequences..before.len()).map(Key::Declared));
                (Loop::scan(Some(count), carries, sequences, false), vec![body])
            }
        };
        frames.iter().for_each(|it| add_keys(&mut keys, it.keys()));
        let mut outputs = self.node(&Control::Loop(form), frames, None, before, &keys, location)?;
        let rows = outputs.split_off(carries);
        self.write_all(&writes, outputs.split_off(changed.len()))?;
        let mut all = before.to_vec();
        for (at, output) in changed.into_iter().zip(outputs) {
            all[at] = output;
        }
        all.extend(rows);
        Ok(all)
    }

    /// Builds a loop like [`Tracer::repeat`] for a condition that writes parameters. Only a body can carry these. So
    /// the condition runs before the loop and at the end of the body, and its result is a carry. It does not run there
    /// if the loop has been left.
    #[expect(clippy::too_many_arguments, reason = "the parts of a loop")]
    fn repeat_writing(
        &self,
        condition: Suspended,
        holds: &Tensor,
        left: Option<usize>,
        body: Suspended,
        [before, after]: [&[Tensor]; 2],
        params: &[Option<Tensor>],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        let mut writes: Vec<Parameter> = Vec::new();
        add_parameters(&mut writes, condition.0.written().map(|it| &it.parameter));
        let condition = self.end(condition, std::slice::from_ref(holds), &writes, &[])?;
        let outside = self.depth() - 1;
        let first = self.run_here(&condition, outside, before, &writes)?;
        self.resume(body);
        let again =
            self.unless(left.map(|it| &after[it]), || self.run_here(&condition, outside, after, &writes), location);
        let body = self.suspend();
        let at = before.len();
        self.open("condition", true);
        let holds = self.input_for(first.ty(), at, None);
        let repeated = Repeated::While { condition: self.suspend(), holds, left: None };
        let [before, after] = [(before, first), (after, again?)].map(|(known, holds)| {
            let mut all = known.to_vec();
            all.push(holds);
            all
        });
        let params: Vec<Option<Tensor>> = params.iter().cloned().chain([None]).collect();
        let mut results = self.repeat(repeated, body, [&before, &after], &params, location)?;
        results.remove(at);
        Ok(results)
    }

    /// Declares an input of the innermost region for the initial value at that position.
    pub(super) fn input_for(&self, ty: Type, at: usize, name: Option<Arc<str>>) -> Tensor {
        let mut state = self.state.borrow_mut();
        let value = state.top().input(ty, Binding::Argument(at), name);
        self.wrap(state.top(), value)
    }

    /// Runs the condition of a loop on these values in the innermost graph, writes these parameters, and returns its
    /// result. The loop is in the graph at depth `outside`.
    fn run_here(&self, condition: &Frame, outside: usize, values: &[Tensor], writes: &[Parameter]) -> Result<Tensor> {
        let operands: Result<Vec<Tensor>> = condition.bindings.try_map_vec(|it| match it {
            Binding::Argument(at) => self.value(&values[*at]),
            Binding::Slot(parameter) => self.read_parameter(parameter),
            Binding::Outer(value) => {
                let mut state = self.state.borrow_mut();
                let value = state.import(outside, *value);
                Ok(self.wrap(state.top(), value))
            }
            Binding::Captured(_) => unreachable!("only the outermost graph takes captured tensors"),
        });
        let mut outputs = self.inline(&condition.graph, &operands?)?;
        self.write_all(writes, outputs.split_off(1))?;
        Ok(outputs.remove(0))
    }

    /// Returns the result of `run`, or false, without running it, if the loop has been left.
    fn unless(
        &self,
        left: Option<&Tensor>,
        run: impl FnOnce() -> Result<Tensor>,
        location: &'static Location<'static>,
    ) -> Result<Tensor> {
        let Some(left) = left else { return run() };
        let left = self.value(left)?;
        self.open("left", false);
        let ended = self.suspend();
        self.open("condition", false);
        let holds = run();
        let condition = self.suspend();
        let arms: [(Suspended, &[Tensor]); 2] = [(ended, &[Tensor::scalar(false)]), (condition, &[holds?])];
        Ok(self.branch(&left, arms, location)?.remove(0))
    }

    /// Ends a region with these results, the final values of `writes`, and these rows.
    fn end(&self, region: Suspended, results: &[Tensor], writes: &[Parameter], rows: &[Tensor]) -> Result<Frame> {
        self.resume(region);
        let slots: Result<Vec<Tensor>> = writes.try_map_vec(|it| self.read_parameter(it));
        let outputs = slots.and_then(|slots| {
            let mut state = self.state.borrow_mut();
            results
                .iter()
                .chain(&slots)
                .chain(rows)
                .map(|it| self.resolve(&mut state, it))
                .collect::<Result<Vec<ValueId>>>()
        });
        let mut frame = *self.suspend().0;
        frame.graph.set_outputs(outputs?);
        Ok(frame)
    }

    /// Adds a node with these regions, each of which takes the values of `keys`.
    fn node(
        &self,
        control: &Control,
        mut frames: Vec<Frame>,
        condition: Option<&Tensor>,
        declared: &[Tensor],
        keys: &[Key],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        let mut slots: Vec<Parameter> = Vec::new();
        for frame in &frames {
            add_parameters(&mut slots, frame.slots.iter().map(|it| &it.parameter));
        }
        let mut operands: Vec<Tensor> = Vec::with_capacity(keys.len() + 1);
        for key in keys {
            operands.push(match key {
                Key::Declared(at) => self.value(&declared[*at])?,
                Key::Slot(id) => {
                    self.read_parameter(slots.iter().find(|it| it.id() == *id).expect("a region reads or writes it"))?
                }
                Key::Outer(value) => {
                    let mut state = self.state.borrow_mut();
                    self.wrap(state.top(), *value)
                }
            });
        }
        let wanted = keys.iter().zip(&operands).map(|(&key, operand)| (key, operand.ty(), self.name_of(operand)));
        let wanted: Vec<_> = wanted.collect();
        frames.iter_mut().for_each(|it| it.take_inputs(&wanted));
        let regions: SmallVec<[Arc<Graph>; 1]> = frames.into_iter().map(|it| Arc::new(it.graph)).collect();
        operands.splice(0..0, condition.cloned());
        self.control(control, regions, &operands, location)
    }

    fn write_all(&self, writes: &[Parameter], values: Vec<Tensor>) -> Result<()> {
        writes.iter().zip(values).try_for_each(|(parameter, value)| self.bind_slot(parameter, &value, true))
    }
}

fn add_parameters<'a>(to: &mut Vec<Parameter>, more: impl Iterator<Item = &'a Parameter>) {
    for parameter in more {
        if !to.contains(parameter) {
            to.push(parameter.clone());
        }
    }
}
