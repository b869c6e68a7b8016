//! Vectors of mapped slices.

/// Maps slices to vectors. `collect` on a chain of iterators compiles about eight functions for every closure, and a
/// loop compiles one.
///
/// ```
/// use ms_core::ir::MapVec;
/// assert_eq!([1, 2].map_vec(|it| it + 1), [2, 3]);
/// assert_eq!(["1", "x"].try_map_vec(|it| it.parse::<i32>().map_err(drop)), Err(()));
/// ```
pub trait MapVec<T> {
    /// Returns the results of `f` for each element.
    fn map_vec<'a, U>(&'a self, f: impl FnMut(&'a T) -> U) -> Vec<U>
    where
        T: 'a;

    /// Returns the results of `f` for each element, up to an error.
    ///
    /// # Errors
    /// The first error of `f`.
    fn try_map_vec<'a, U, E>(&'a self, f: impl FnMut(&'a T) -> Result<U, E>) -> Result<Vec<U>, E>
    where
        T: 'a;
}

impl<T> MapVec<T> for [T] {
    fn map_vec<'a, U>(&'a self, mut f: impl FnMut(&'a T) -> U) -> Vec<U>
    where
        T: 'a,
    {
        let mut out = Vec::with_capacity(self.len());
        for it in self {
            out.push(f(it));
        }
        out
    }

    fn try_map_vec<'a, U, E>(&'a self, mut f: impl FnMut(&'a T) -> Result<U, E>) -> Result<Vec<U>, E>
    where
        T: 'a,
    {
        let mut out = Vec::with_capacity(self.len());
        for it in self {
            out.push(f(it)?);
        }
        Ok(out)
    }
}
