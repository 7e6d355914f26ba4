//! What databases answer, and whether two of them answer the same.

use std::collections::BTreeMap;

use serde_json::Value;

use hugewise_testkit::tools::Failure;

/// How far two sums of the same numbers in another order may be apart, as a part of them.
const ROUNDING: f64 = 1e-9;

/// Labels but for the name, which dashboards hide and of which databases differ on whether an
/// operator keeps it.
pub(super) type Labels = BTreeMap<String, String>;

/// Series, each with its samples: seconds since the epoch, and the value.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer(pub(super) BTreeMap<Labels, Vec<(i64, f64)>>);

impl Answer {
    /// Of the JSON that Prometheus' API answers with.
    pub(super) fn read(body: &[u8]) -> Result<Self, Failure> {
        let answer: Value = serde_json::from_slice(body)?;
        let result = answer
            .pointer("/data/result")
            .and_then(Value::as_array)
            .ok_or("an answer without a result")?;
        let mut series = BTreeMap::new();
        for one in result {
            let labels =
                one.get("metric").and_then(Value::as_object).ok_or("a series without labels")?;
            let labels = labels.iter().filter(|(name, _)| *name != "__name__");
            let labels: Labels = labels
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect();
            let many = one.get("values").and_then(Value::as_array).map(Vec::as_slice);
            let samples = many
                .or_else(|| one.get("value").map(std::slice::from_ref))
                .ok_or("a series without samples")?;
            let samples = samples
                .iter()
                .map(sample)
                .collect::<Option<Vec<_>>>()
                .ok_or("a sample that is none")?;
            if series.insert(labels, samples).is_some() {
                return Err("a series that is there twice".into());
            }
        }
        Ok(Self(series))
    }

    /// Why they are not the same; of a list that a `topk` cut where several have the last value,
    /// anyone may be in it.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        if self.0.len() != other.0.len() {
            return Some(format!("{} series and {}", self.0.len(), other.0.len()));
        }
        let lasts = |answer: &Self| {
            let mut lasts: Vec<f64> =
                answer.0.values().filter_map(|samples| Some(samples.last()?.1)).collect();
            lasts.sort_by(f64::total_cmp);
            lasts
        };
        let (ours, theirs) = (lasts(self), lasts(other));
        if let Some((one, two)) = ours.iter().zip(&theirs).find(|(one, two)| !same(**one, **two)) {
            return Some(format!("{one} and {two}"));
        }
        let least = ours.first().copied().unwrap_or_default();
        for (labels, samples) in &self.0 {
            let tied = samples.len() == 1 && samples.iter().all(|(_, value)| same(*value, least));
            match other.0.get(labels) {
                None if tied => {}
                None => return Some(format!("only one has {labels:?}")),
                Some(others) if alike(samples, others) => {}
                Some(others) => return Some(format!("{labels:?}: {samples:?} and {others:?}")),
            }
        }
        None
    }
}

fn sample(value: &Value) -> Option<(i64, f64)> {
    let at = value.get(0)?.as_f64()?;
    // Whole seconds, as they were asked for.
    #[allow(clippy::cast_possible_truncation, reason = "of seconds")]
    Some((at.round() as i64, value.get(1)?.as_str()?.parse().ok()?))
}

fn alike(one: &[(i64, f64)], other: &[(i64, f64)]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.into_iter().all(|(one, other)| one.0 == other.0 && same(one.1, other.1))
}

fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDING * one.abs().max(other.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(series: &[(&str, f64)]) -> Answer {
        let one = |(host, value): &(&str, f64)| {
            format!(
                r#"{{"metric": {{"__name__": "m", "instance": "{host}"}}, "value": [60, "{value}"]}}"#
            )
        };
        let series: Vec<String> = series.iter().map(one).collect();
        let body = format!(r#"{{"data": {{"result": [{}]}}}}"#, series.join(","));
        Answer::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn only_the_last_places_of_a_list_may_be_others() {
        let list = answer(&[("a", 9.0), ("b", 5.0), ("c", 5.0)]);
        assert_eq!(list.differs(&answer(&[("a", 9.0), ("c", 5.0), ("d", 5.0)])), None);
        assert_eq!(list.differs(&answer(&[("c", 5.0), ("a", 9.000_000_001), ("b", 5.0)])), None);
        for other in [
            &[("x", 9.0), ("b", 5.0), ("c", 5.0)][..],
            &[("a", 9.1), ("b", 5.0), ("c", 5.0)],
            &[("a", 9.0), ("b", 5.0)],
            &[("b", 9.0), ("a", 5.0), ("c", 5.0)],
        ] {
            assert!(list.differs(&answer(other)).is_some(), "{other:?}");
        }
    }
}
