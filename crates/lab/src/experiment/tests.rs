use super::*;

/// Counts its measurements, and does on each what it is told.
struct Counting {
    measured: Vec<Variant>,
    needs: Needs,
    does: fn(usize, &Context<'_>) -> Result<Vec<MetricReading>, ExperimentFailure>,
}

impl Counting {
    fn new(does: fn(usize, &Context<'_>) -> Result<Vec<MetricReading>, ExperimentFailure>) -> Self {
        Self {
            measured: Vec::new(),
            needs: Needs { time: Duration::from_secs(2), ..Needs::default() },
            does,
        }
    }
}

impl Experiment for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    fn variants(&self) -> Vec<Variant> {
        vec![Variant::Base, Variant::Huge(hugewise_model::PageSize::new(1 << 40).unwrap())]
    }

    fn resource_needs(&self, _: Variant) -> Needs {
        self.needs
    }

    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure> {
        self.measured.push(variant);
        (self.does)(self.measured.len(), context)
    }
}

fn planned(experiment: &dyn Experiment, options: &Options) -> Outline {
    plan_experiment(experiment, options, &ResourceGauge::new()).unwrap()
}

/// The experiment has the lock of the pools: other tests wait with theirs.
fn done(
    experiment: &mut Counting,
    options: &Options,
    cancel: &Cancel,
) -> Result<(ExperimentOutcome, u32), ExperimentFailure> {
    let _alone = crate::guard::lock_host_for_test().unwrap();
    let plan = planned(experiment, options);
    let mut reports = 0;
    run(experiment, options, plan, cancel, &mut |_| reports += 1).map(|outcome| (outcome, reports))
}

#[test]
fn warm_up_does_not_count_and_what_cannot_be_had_is_left_out() {
    let mut counting = Counting::new(|at, _| {
        Ok(vec![MetricReading::lower_is_better("time", "s", f64::from(u32::try_from(at).unwrap()))])
    });
    let options = Options { rounds: 3, warm_ups: 2, ..Options::default() };
    let (outcome, reports) = done(&mut counting, &options, &Cancel::never()).unwrap();
    assert_eq!((reports, counting.measured.len()), (5, 5));
    assert_eq!(outcome.runs.len(), 1);
    assert_eq!(outcome.runs[0].samples, [3.0, 4.0, 5.0]);
    assert_eq!(outcome.plan.seconds, 10.0);
    assert_eq!(outcome.stopped, None);
    assert!(outcome.notes[0].contains("this kernel has no 1024 GiB pages"), "{:?}", outcome.notes);
}

#[test]
fn an_end_keeps_what_was_measured() {
    let mut counting = Counting::new(|at, context| {
        if at == 2 {
            context.cancel.stop("enough");
        }
        Ok(vec![MetricReading::lower_is_better("time", "s", 1.0)])
    });
    let options = Options { rounds: 9, warm_ups: 0, ..Options::default() };
    let (outcome, _) = done(&mut counting, &options, &Cancel::never()).unwrap();
    assert_eq!((outcome.runs[0].samples.len(), outcome.stopped.as_deref()), (2, Some("enough")));
}

#[test]
fn what_the_host_has_no_room_for_is_refused() {
    let mut counting = Counting::new(|_, _| panic!("measured"));
    counting.needs.memory = Bytes(1 << 62);
    let plan = planned(&counting, &Options::default());
    assert!(
        plan.refusal.as_ref().is_some_and(|why| why.contains("of that must stay free")),
        "{plan:?}"
    );
    assert!(matches!(
        done(&mut counting, &Options::default(), &Cancel::never()),
        Err(ExperimentFailure::Unavailable(_))
    ));
    // A floor above all memory leaves no room for anything.
    counting.needs.memory = Bytes(1);
    let options = Options { floor: Bytes(u64::MAX), ..Options::default() };
    assert!(planned(&counting, &options).refusal.is_some());
}

#[test]
fn a_failure_is_told_and_what_caused_it_comes_first() {
    let mut failing = Counting::new(|_, _| Err(ExperimentFailure::Failed("broken".to_owned())));
    let failed = done(&mut failing, &Options::default(), &Cancel::never());
    assert_eq!(failed.unwrap_err(), ExperimentFailure::Failed("broken".to_owned()));
    let mut failing = Counting::new(|_, context| {
        context.cancel.stop("interrupted");
        Err(ExperimentFailure::Failed("a session ended".to_owned()))
    });
    let (outcome, _) = done(&mut failing, &Options::default(), &Cancel::never()).unwrap();
    assert_eq!(outcome.stopped.as_deref(), Some("interrupted"));
}
