//! Rewrites of graphs before fusion: regions of views, and the movement of elementwise ops through slices, views and
//! casts.

pub(in crate::lower) mod casts;
pub(in crate::lower) mod distribute;
pub(in crate::lower) mod flat;
pub(in crate::lower) mod flatten;
pub(in crate::lower) mod siblings;
pub(in crate::lower) mod sink;
