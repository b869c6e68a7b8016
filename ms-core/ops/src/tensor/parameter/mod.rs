//! Defines parameters: named mutable slots.

mod access;
mod created;
mod gathered;
mod store;
mod weak;

pub use created::{Created, is_outside_functions, outside_functions, with_created};
pub use gathered::Gathered;
pub use weak::{Dependent, WeakParameter};

use super::tensor::Tensor;
use created::once;
use ms_ir::error::{Code, Error, raise};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::LocalKey;
use store::Store;
pub use store::TakenSlot;

/// The identity of a slot, never reused in a process.
///
/// ```
/// use ms_core::{Parameter, tensor};
/// let (a, b) = (Parameter::new(tensor![1.0], "a"), Parameter::new(tensor![1.0], "b"));
/// assert!(a.id() == a.clone().id() && a.id() != b.id());
/// ```
pub type SlotId = u64;

/// A named, shared, mutable slot for a [`Tensor`].
///
/// Clones alias one slot. Reads and writes go through the current dispatcher, so inside a trace they become inputs and
/// outputs of the graph.
///
/// ```
/// use ms_core::{Parameter, tensor};
/// let parameter = Parameter::new(tensor![1.0, 2.0], "weight");
/// parameter.clone().set(&tensor![3.0, 4.0]);
/// assert_eq!(parameter.value().to_vec::<f32>(), [3.0, 4.0]);
/// assert!(parameter.requires_grad() && parameter.try_set(&tensor![1.0]).is_err());
/// ```
#[derive(Clone)]
pub struct Parameter(Arc<Slot>, Side);

/// The view of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Forward,
    Backward,
}

/// The role of a slot.
///
/// ```
/// use ms_core::{DType, Parameter, Tensor, tensor, tensor::Role};
/// let (weight, mean) = (Parameter::new(tensor![1.0], "w"), Parameter::buffer([1], DType::F32, || Tensor::zeros([1])));
/// assert!(weight.role() == Role::Value && mean.role() == Role::Buffer);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A weight, or any other state of a program that may be trained.
    Value,
    /// State that is never trained: running statistics, counters, moments of an optimiser.
    Buffer,
    /// The state of a random number generator, which every draw advances.
    RandomState,
}

struct Slot {
    id: SlotId,
    name: String,
    role: Role,
    requires_grad: AtomicBool,
    store: Store,
    /// Notified when the slot is dropped.
    dependents: Mutex<Vec<Weak<dyn Dependent>>>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Parameter {
    /// Creates a trainable slot with an initial value. The name is for messages and dumps. If it is empty, they show
    /// the path in the cell. State dicts and checkpoints always use paths.
    ///
    /// A function that creates a slot creates it once. Whether it is compiled or run eagerly, its later calls return
    /// the first slot of the same name and type.
    ///
    /// ```
    /// use ms_core::{Parameter, tensor};
    /// let scale = Parameter::new(tensor![1.0], "scale");
    /// assert_eq!((scale.name(), scale.value().to_vec::<f32>()), ("scale", vec![1.0]));
    /// ```
    ///
    /// # Panics
    /// Raises [`Code::Created`](crate::Code::Created) if the function being compiled computes the value.
    /// [`Parameter::init`] computes it eagerly.
    #[track_caller]
    pub fn new(value: Tensor, name: impl Into<String>) -> Self {
        if let Some(traced) = value.as_traced() {
            let message = "the first value of a parameter is computed by the function that is being compiled";
            let help = "compute it eagerly: `Parameter::init(name, shape, dtype, || ..)`";
            raise(Error::new(Code::Created, message).with_operands([traced.ty.to_string()]).help(help));
        }
        let (name, ty) = (name.into(), value.ty());
        once(&name.clone(), &ty, Role::Value, || Self::make(Store::shared(value), name, Role::Value))
    }

    /// Creates an unnamed slot for the state of a generator, which is not trainable. The function that creates it
    /// creates it once, as in [`Parameter::new`].
    #[track_caller]
    pub fn random_state(value: Tensor) -> Self {
        let ty = value.ty();
        once("", &ty, Role::RandomState, || Self::make(Store::shared(value), String::new(), Role::RandomState))
    }

    /// Creates a slot with a separate value on every thread, which is not trainable. Reads and writes of the slot, also
    /// by compiled functions, use the value of the calling thread. It belongs to no function, and all values have one
    /// type.
    pub fn of_thread(values: &'static LocalKey<RefCell<Tensor>>, name: &str, role: Role) -> Self {
        let slot = Self::make(Store::Thread(values), name.to_owned(), role);
        slot.set_requires_grad(false);
        slot
    }

    fn make(store: Store, name: String, role: Role) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let requires_grad = AtomicBool::new(role == Role::Value);
        let dependents = Mutex::default();
        Self(Arc::new(Slot { id, name, role, requires_grad, store, dependents }), Side::Forward)
    }

    /// The identity of the slot.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.0.id | (self.1 as SlotId) << (SlotId::BITS - 1)
    }

    /// Returns the view of the slot for backward functions. To a trace it is a separate slot with a meaningless value.
    /// While gradients are pulled back, its gradient is the value of the parameter.
    pub fn backward(&self) -> Self {
        Self(self.0.clone(), Side::Backward)
    }

    /// Returns whether this is a view of [`Parameter::backward`].
    #[inline]
    pub fn is_backward(&self) -> bool {
        self.1 == Side::Backward
    }

    /// Returns the slot itself, for a view of [`Parameter::backward`].
    pub fn forward(&self) -> Self {
        Self(self.0.clone(), Side::Forward)
    }

    /// The name, or an empty string.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// Returns whether every thread has a separate value.
    #[inline]
    pub fn is_of_thread(&self) -> bool {
        matches!(self.0.store, Store::Thread(_))
    }

    /// Returns whether the slot is trainable.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.0.requires_grad.load(Ordering::Relaxed)
    }

    /// Sets whether the slot is trainable. Only a slot of [`Role::Value`] can be. On buffers and generator states this
    /// has no effect, so thawing all parameters of a network trains no statistics.
    ///
    /// ```
    /// use ms_core::{Parameter, tensor};
    /// let frozen = Parameter::new(tensor![1.0], "frozen");
    /// frozen.set_requires_grad(false);
    /// assert!(!frozen.requires_grad());
    /// ```
    pub fn set_requires_grad(&self, yes: bool) {
        self.0.requires_grad.store(yes && self.0.role == Role::Value, Ordering::Relaxed);
    }

    /// Waits for other runs of compiled functions that write the slot, and makes later ones wait while the guard lives.
    /// Returns `None` if every thread has a separate value.
    pub fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.store.lock()
    }

    /// Returns the value of the slot, bypassing the dispatcher.
    #[inline]
    pub fn load(&self) -> Tensor {
        self.0.store.load()
    }

    /// Takes the value for a run that writes the slot; `None` if every thread has a separate value.
    pub fn take(&self) -> Option<(TakenSlot<'_>, Tensor)> {
        self.0.store.take()
    }

    /// Replaces the value of the slot, bypassing the dispatcher.
    pub fn store(&self, value: Tensor) {
        let replaced = self.0.store.replace_if(value, |_, _| true);
        debug_assert!(replaced.is_ok(), "every value is accepted");
    }

    /// Stores a value like [`Parameter::store`] if it has the shape and dtype of the current value.
    ///
    /// # Errors
    /// The value, if its type differs.
    pub fn try_store(&self, value: Tensor) -> Result<(), Tensor> {
        self.0.store.replace_if(value, |old, new| match (old.as_array(), new.as_array()) {
            (Some(old), Some(new)) => old.dtype() == new.dtype() && old.shape() == new.shape(),
            _ => false,
        })
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter({:?}, {})", self.name(), self.load().ty())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Parameter>();
};
