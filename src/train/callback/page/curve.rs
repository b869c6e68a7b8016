//! Stores the values of a number over the steps of a run in bounded memory.

/// The maximum number of points, at which neighbours are merged; an even number.
const POINTS: usize = 1000;

/// The values of a number. Its memory does not grow with the number of values.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Steps and values, each the mean of `group` neighbours.
    points: Vec<(f64, f64)>,
    group: usize,
    /// The values of the incomplete group: their number, and the sums of steps and values.
    open: (usize, f64, f64),
    /// The number of values that are not finite, which are not drawn.
    pub not_finite: u64,
    /// The step and the value that were added last.
    pub last: (u64, f64),
    /// The smallest and the largest finite value, with their steps.
    pub extremes: Option<[(u64, f64); 2]>,
}

impl Curve {
    /// Creates an empty curve.
    pub fn new() -> Self {
        let (points, group, open) = (Vec::new(), 1, (0, 0.0, 0.0));
        Self { points, group, open, not_finite: 0, last: (0, f64::NAN), extremes: None }
    }

    /// Adds the value of a step.
    pub fn add(&mut self, step: u64, value: f64) {
        self.last = (step, value);
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        let [lowest, highest] = self.extremes.unwrap_or([(step, value); 2]);
        let lowest = if value < lowest.1 { (step, value) } else { lowest };
        let highest = if value > highest.1 { (step, value) } else { highest };
        self.extremes = Some([lowest, highest]);
        // Points are drawn within these bounds, which keep sums of values finite.
        let drawn = value.clamp(-1e300, 1e300);
        self.open = (self.open.0 + 1, self.open.1 + step as f64, self.open.2 + drawn);
        if self.open.0 == self.group {
            self.points.extend(self.mean_of_open());
            self.open = (0, 0.0, 0.0);
        }
        if self.points.len() == POINTS {
            self.points =
                self.points.chunks(2).map(|it| ((it[0].0 + it[1].0) / 2.0, (it[0].1 + it[1].1) / 2.0)).collect();
            self.group *= 2;
        }
    }

    fn mean_of_open(&self) -> Option<(f64, f64)> {
        let (values, steps, sum) = self.open;
        (values > 0).then(|| (steps / values as f64, sum / values as f64))
    }

    /// Returns the steps and values in the order in which they were added.
    pub fn points(&self) -> Vec<(f64, f64)> {
        self.points.iter().copied().chain(self.mean_of_open()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_are_few_points_of_their_means() {
        let mut curve = Curve::new();
        for step in 1..=100_001 {
            curve.add(step, step as f64);
            assert!(curve.points().len() <= POINTS);
        }
        let points = curve.points();
        assert!(points.len() > POINTS / 2 && points.windows(2).all(|it| it[0].0 < it[1].0));
        assert!(points.iter().all(|it| it.0 == it.1), "a point is at the mean of its steps");
        assert_eq!(curve.last, (100_001, 100_001.0));
        assert_eq!(curve.extremes, Some([(1, 1.0), (100_001, 100_001.0)]));
    }

    #[test]
    fn values_that_are_not_finite_are_counted() {
        let mut curve = Curve::new();
        for (step, value) in [(1, 2.0), (2, f64::NAN), (3, f64::INFINITY), (4, f64::MAX), (5, f64::MAX), (6, -f64::MAX)]
        {
            curve.add(step, value);
        }
        assert_eq!((curve.not_finite, curve.points().len()), (2, 4));
        assert_eq!(curve.extremes, Some([(6, -f64::MAX), (4, f64::MAX)]));
        (7..2000).for_each(|step| curve.add(step, f64::MAX));
        assert!(curve.points().iter().all(|it| it.1.is_finite()));
    }
}
