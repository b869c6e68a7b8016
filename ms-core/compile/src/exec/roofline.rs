//! Defines the [`Roof`] of a device: its peak rates.

use super::work::Work;
use std::time::Duration;

/// The roofline of a device: rates that no step exceeds.
///
/// ```
/// use ms_core::session::{Roof, Work};
/// // 10⁹ operations and 10⁸ bytes in a second: here the bytes take longer.
/// let roof = Roof { operations: 1e9, bytes: vec![(u64::MAX, 1e8)] };
/// assert_eq!(roof.time(Work { operations: 1000, bytes: 1000 }).as_nanos(), 10_000);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Roof {
    /// Peak f32 operations per second. A fused multiply-add counts as two.
    pub operations: f64,
    /// Peak bytes per second, by the number of bytes that a step accesses, ascending. Small sizes fit in caches, and
    /// the last rate is the bandwidth of memory.
    pub bytes: Vec<(u64, f64)>,
}

impl Roof {
    /// Returns the roofline time of a step: the longer of the times of its operations and its bytes.
    pub fn time(&self, work: Work) -> Duration {
        let rate = self.bytes.iter().find(|it| work.bytes <= it.0).or(self.bytes.last());
        let bytes = rate.map_or(0.0, |it| work.bytes as f64 / it.1);
        Duration::from_secs_f64(bytes.max(work.operations as f64 / self.operations))
    }

    /// Returns the rates that a step exceeds: operations, and memory if it accesses more bytes than caches hold.
    pub fn exceeded(&self, work: Work, time: Duration) -> Exceeded {
        let most = |rate: f64| rate * time.as_secs_f64();
        let is_in_memory = |it: &&(u64, f64)| work.bytes >= it.0;
        Exceeded {
            operations: work.operations as f64 > most(self.operations),
            memory: self.bytes.last().filter(is_in_memory).is_some_and(|it| work.bytes as f64 > most(it.1)),
        }
    }
}

/// Rates that steps exceeded: other work disturbed their measurement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// Whether the rate of operations was exceeded.
    pub operations: bool,
    /// Whether the rate of memory was exceeded.
    pub memory: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_both_decides() {
        let roof = Roof { operations: 1e9, bytes: vec![(1000, 1e10), (1_000_000, 1e9)] };
        let cases = [(5000, 1000, 5000), (50, 1000, 100), (50, 2000, 2000), (50, 2_000_000, 2_000_000), (0, 0, 0)];
        for (operations, bytes, nanos) in cases {
            assert_eq!(roof.time(Work { operations, bytes }), Duration::from_nanos(nanos), "{operations} {bytes}");
        }
    }

    #[test]
    fn bytes_in_caches_exceed_no_rate() {
        let roof = Roof { operations: 1e9, bytes: vec![(1000, 1e10), (1_000_000, 1e9)] };
        let cases = [
            (1001, 0, 1000, [true, false]),
            (999, 0, 1000, [false, false]),
            (0, 999_999, 1000, [false, false]),
            (0, 1_000_000, 999_999, [false, true]),
            (0, 1_000_000, 1_000_001, [false, false]),
        ];
        for (operations, bytes, nanos, want) in cases {
            let found = roof.exceeded(Work { operations, bytes }, Duration::from_nanos(nanos));
            assert_eq!([found.operations, found.memory], want, "{operations} {bytes} {nanos}");
        }
    }
}
